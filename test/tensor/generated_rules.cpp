#include <unity/tensor/generated_rules.hpp>

#include <set>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/derived_rules.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "testing.hpp"

namespace tests_of_generated_rules {

using namespace unity;
using namespace unity::tensor;
using namespace unity::tensor::test;

TEST_CASE("standard and generated rules have unique names and are marked as proved from existing axioms") {
  std::set<std::string> axioms;
  for (const auto& a : parse_rules(standard_axioms)) {
    axioms.insert(a.name);
  }
  std::set<std::string> names;
  for (const auto& r : parse_rules(std::string{standard_rules} + std::string{generated_rules})) {
    INFO(r.name);
    CHECK(names.insert(r.name).second);
    CHECK(r.known == syntax::standing::proved);
    for (const auto& a : r.axioms) {
      CHECK(axioms.contains(a));
    }
  }
  CHECK(names.size() > 300);
}

TEST_CASE("the congruence prover proves every generated rule") {
  const theory axioms{standard(), parse_rules(standard_axioms)};
  verification_options options;
  options.quick.sampled = 0;  // the next test tries these
  rule_verifier<congruence_prover> verifier{standard(), axioms, congruence_prover{}, options};
  for (const auto& r : parse_rules(generated_rules)) {
    const auto proof = verifier.verify(r);
    INFO(r.name << ": " << proof.reason << " " << proof.details);
    CHECK(proof.found == verdict::proved);
    CHECK((!proof.real_only || r.real_only));
    CHECK((!proof.inference_only || r.safe_for == "inference"));
  }
}

// Takes two minutes: proofs had missed that five generated rules were false for some operands.
TEST_CASE("no shipped rule or axiom has sides that differ in random instances", "[exhaustive]") {
  std::set<std::string> untested;  // hardly any random sizes or permutations match their conditions
  for (const auto text : {standard_rules, generated_rules, derived_rules, standard_axioms}) {
    for (const auto& rule : parse_rules(text)) {
      const auto report =
          test_rule(standard(), compile_rule(standard(), rule).front(), {.instances = 0, .sampled = 200});
      INFO(rule.name << ": " << report.because);
      CHECK(report.found != rule_report::verdict::refuted);
      if (report.found == rule_report::verdict::untested) {
        untested.insert(rule.name);
      }
    }
  }
  CHECK(untested.size() <= 15);
}

}  // namespace tests_of_generated_rules
