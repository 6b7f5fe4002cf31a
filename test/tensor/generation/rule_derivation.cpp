#include <unity/tensor/generation/rule_derivation.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/generation/generalize.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "../../support/cases.hpp"
#include "../../support/message_of.hpp"
#include "../testing.hpp"

namespace tests_of_rule_derivation {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

std::vector<collected_rule> derived(const std::vector<syntax::rule>& properties, const std::vector<syntax::rule>& known,
                                    std::string_view operators) {
  const theory axioms{standard(), properties};
  rule_verifier<congruence_prover> verifier{standard(), axioms, congruence_prover{}};
  derivation_options options;
  options.most_operators = 2;
  options.most_terms = unity::test::all_or<std::size_t>(60, 20);
  return derive_rules(
      standard(), properties, known, parse_composed_operators(standard(), operators),
      [&](const syntax::rule& r) { return verifier.verify(r); }, options);
}

bool holds(const std::vector<collected_rule>& all, const char* text) {
  const auto wanted = statement_text(canonical_rule(standard(), parse_rules(text)[0], usual_attribute_names()));
  return std::ranges::any_of(all, [&](const auto& r) { return statement_text(r.rule) == wanted; });
}

}  // namespace

TEST_CASE("derive_rules fuses activations into matmul and joins sibling products", "[exhaustive]") {
  const auto rules = derived(parse_rules(standard_axioms), {}, "matmul:iw add:iw relu:i");
  CHECK(holds(rules, "rule r relu(matmul(?x, ?y)) => matmul{activation=relu}(?x, ?y)"));
  CHECK(holds(rules, "rule r tanh(matmul(?x, ?y)) => matmul{activation=tanh}(?x, ?y)"));
  CHECK(std::ranges::any_of(rules, [](const auto& r) { return r.rule.name == "joined_relu_of_matmul"; }));
}

TEST_CASE("derive_rules does not derive a known rule and derives nothing without axioms") {
  const auto known = parse_rules("rule r relu(matmul(?x, ?y)) => matmul{activation=relu}(?x, ?y)");
  const auto rules = derived(parse_rules(standard_axioms), known, "matmul:iw relu:i");
  CHECK_FALSE(holds(rules, "rule r relu(matmul(?x, ?y)) => matmul{activation=relu}(?x, ?y)"));
  CHECK(derived({}, {}, "matmul:iw relu:i").empty());
}

TEST_CASE("derive_rules takes properties that leave attributes of shapes open") {
  for (const auto* text : {"rule odd add(?x, reshape(?w)) == add(reshape(?w), ?x)",
                           "rule odd add(?x, expand{..}(?w)) => relu(add(?x, ?w)) if rank(?x) == 2",
                           "rule odd add(?x, ?w) == add(?w, ?x) if size(?w, 0) == 9223372036854775807 + 1"}) {
    INFO(text);
    CHECK_NOTHROW(derived(parse_rules(text), {}, "add:iw relu:i"));
  }
}

TEST_CASE("parse_composed_operators reads operators with the roles of their operands") {
  const auto all = parse_composed_operators(standard(), "matmul:iw relu:i add:ii");
  REQUIRE(all.size() == 3);
  CHECK(all[0].kind == "matmul");
  CHECK(all[0].operands == "iw");
  CHECK(all[1].kind == "relu");
  CHECK(all[1].operands == "i");
  CHECK(all[2].kind == "add");
  CHECK(all[2].operands == "ii");
  CHECK(parse_composed_operators(standard(), "").empty());
}

TEST_CASE("parse_composed_operators refuses malformed operator lists") {
  for (const std::string text : {"nonsense:i", "relu", "relu:w", "relu:ii", "matmul:ix", "matmul:iii", "matmul:ww"}) {
    for (const std::string before : {"", "relu:i "}) {
      CHECK(unity::test::message_of([&] {
              static_cast<void>(parse_composed_operators(standard(), before + text));
            }) == "operators of compositions: '" + text +
                      "'; expected an operator and its operands, one or two of which flow: conv2d:iw");
    }
  }
}

}  // namespace tests_of_rule_derivation
