#include <unity/tensor/derived_rules.hpp>

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "../support/cases.hpp"
#include "testing.hpp"

namespace tests_of_derived_rules {

using namespace unity;
using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("derived rules have unique names and are marked as proved from existing axioms") {
  std::set<std::string> axioms;
  for (const auto& a : parse_rules(standard_axioms)) {
    axioms.insert(a.name);
  }
  std::set<std::string> names;
  for (const auto text : {standard_rules, generated_rules}) {
    for (const auto& r : parse_rules(text)) {
      names.insert(r.name);
    }
  }
  for (const auto& r : parse_rules(derived_rules)) {
    INFO(r.name);
    CHECK(names.insert(r.name).second);
    CHECK(r.known == syntax::standing::proved);
    for (const auto& a : r.axioms) {
      CHECK(axioms.contains(a));
    }
  }
}

TEST_CASE("derived rules pass rule tests at random shapes and points") {
  rule_test_options options;
  options.instances = 8;
  options.attempts = 20000;
  options.varied = 1;
  options.points = 1;
  unity::test::one_of_some is_tried;
  for (const auto& r : compile_rules(standard(), parse_rules(derived_rules))) {
    if (!is_tried()) {
      continue;
    }
    const auto report = test_rule(standard(), r, options);
    INFO(r.name << ": " << report.because);
    CHECK(report.found == rule_report::verdict::passes);
  }
}

// Takes half a minute: nothing else proves them.
TEST_CASE("the congruence prover proves every derived rule", "[exhaustive]") {
  const theory axioms{standard(), parse_rules(standard_axioms)};
  verification_options options;
  options.quick.sampled = 0;  // tried with the generated rules
  rule_verifier<congruence_prover> verifier{standard(), axioms, congruence_prover{}, options};
  for (const auto& r : parse_rules(derived_rules)) {
    const auto proof = verifier.verify(r);
    INFO(r.name << ": " << proof.reason << " " << proof.details);
    CHECK(proof.found == verdict::proved);
  }
}

}  // namespace tests_of_derived_rules
