#include <unity/tensor/z3_reals.hpp>

#include <cstddef>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/verification/validate.hpp>

#include "small_bounds.hpp"
#include "testing.hpp"

namespace tests_of_z3_reals {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;
using verdict = validation_report::verdict;

namespace {

// Real arithmetic, with as little as possible of other checks.
validation_options real_only() {
  validation_options o;
  o.ladder = unity::tensor::test::small_bounds();
  o.real_effort = 400;
  o.random.instances = 3;
  return o;
}

validation_report validated(std::string_view text) {
  z3_reals reals;
  return validate_axiom(standard(), parse_rules("rule r " + std::string{text}).at(0), real_only(), reals);
}

}  // namespace

TEST_CASE("Z3 proves that matmul distributes over add") {
  const auto report = validated("matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))");
  CHECK(report.found == verdict::holds);
  CHECK(report.real > 10);
}

TEST_CASE("Z3 decides identities with relu / maximum / tanh") {
  for (const auto* rule :
       {"maximum(relu(?x), ?x) => relu(?x)", "maximum(?x, maximum(?y, ?z)) == maximum(maximum(?x, ?y), ?z)",
        "tanh(add(?x, ?y)) => tanh(add(?y, ?x))"}) {
    INFO(rule);
    const auto report = validated(rule);
    INFO(report.because);
    CHECK(report.found == verdict::holds);
    CHECK(report.real > 0);
  }
}

TEST_CASE("Z3 refutes a false rule on relu with a counterexample") {
  z3_reals reals;
  const auto rule = parse_rules("rule r relu(add(?x, ?y)) => add(relu(?x), relu(?y)) if shape(?x) == shape(?y)").at(0);
  const auto s = compile_rule(standard(), rule).front();
  rule_instance i;
  i.values = {{tensor::test::type({2})}, {tensor::test::type({2})}};
  i.source = {{standard().make_operation("add")}, {standard().make_operation("relu")}};
  const auto v = reals.compare(standard(), *source_graph(standard(), s, i), *target_graph(standard(), s, i));
  CHECK(v.found == side_verdict::answer::different);
  CHECK(v.because.find("element 0: ") != std::string::npos);
}

TEST_CASE("z3_reals names Z3 and its version") { CHECK(z3_reals{}.name().find("z3 4.") == 0); }

// With this little effort, properties of convolutions and pools have too many instances for Z3.
TEST_CASE("Z3 refutes no standard axiom at sizes up to 2, and leaves few undecided") {
  z3_reals reals;
  std::size_t decided = 0;
  std::size_t undecided = 0;
  for (const auto& axiom : parse_rules(standard_axioms)) {
    const auto report = validate_axiom(standard(), axiom, real_only(), reals);
    INFO("property " << axiom.name << ": " << report.because);
    if (report.found == verdict::unknown) {
      CHECK(report.because == "more instances within the narrowest bounds than can be tried");
      CHECK(report.exact > 0);
      ++undecided;
      continue;
    }
    CHECK(report.found == verdict::holds);
    decided += report.real > 0 ? 1 : 0;
  }
  CHECK(decided > 50);  // properties of which Z3 decided some instance
  CHECK(undecided <= 10);
}

}  // namespace tests_of_z3_reals
