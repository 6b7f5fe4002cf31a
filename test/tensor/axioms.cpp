#include <unity/tensor/axioms.hpp>

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/verification/validate.hpp>

#include "small_bounds.hpp"
#include "testing.hpp"

namespace tests_of_axioms {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

const rule_set& axioms() {
  static const auto all = compile_rules(standard(), parse_rules(standard_axioms, "standard_axioms"));
  return all;
}

}  // namespace

TEST_CASE("standard axioms have unique names") {
  std::set<std::string> names;
  for (const auto& s : axioms()) {
    INFO(s.name);
    CHECK(names.insert(s.name).second);
  }
  CHECK(names.size() > 150);
}

TEST_CASE("every standard axiom passes tests on random or enlarged random shapes") {
  for (const auto& s : axioms()) {
    const auto report = test_rule(standard(), s);
    INFO("property " << s.name << ": " << report.because);
    CHECK(report.found != rule_report::verdict::refuted);
    if (report.found != rule_report::verdict::untested && report.instances > 0) {
      CHECK(report.found == rule_report::verdict::passes);
      CHECK(report.bits > 0);
      continue;
    }
    // Random shapes rarely fit: validation takes some that fit, and enlarges them in all ways that fit.
    validation_options small;
    small.ladder = unity::tensor::test::small_bounds();
    const auto grown = validate_axiom(standard(), s.rule, small);
    INFO("made larger: " << grown.because);
    CHECK(grown.found == validation_report::verdict::holds);
    CHECK(grown.random >= 10);
    CHECK(grown.bits > 0);
  }
}

}  // namespace tests_of_axioms
