// TASO's published rules, proved from the shipped properties of operators or refuted.
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/io/rule_text.hpp>
#include <unity/io/taso_rules.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

#include "../support/shared_file.hpp"

namespace tests_of_published_proofs {

namespace tensor = unity::tensor;
using unity::verdict;

namespace {

// Empty if the rules are not available.
std::vector<tensor::rule_proof> verified(unity::io::group_reading groups) {
  const auto path = unity::test::shared_file("rules/taso_graph_subst.pb");
  if (!path) {
    return {};
  }
  const auto operators = tensor::standard_algebra();
  const unity::theory axioms{operators, unity::parse_rules(tensor::standard_axioms)};
  std::vector<unity::syntax::rule> rules;
  for (const auto& r : unity::io::read_taso_rules(*path)) {
    const auto converted = unity::io::to_rule_text(r, groups);
    REQUIRE(converted);
    rules.push_back(unity::parse_rules(converted.text).at(0));
  }
  return tensor::verify_rules(operators, axioms, unity::congruence_prover{}, rules, 2);
}

void check(const std::vector<tensor::rule_proof>& proofs, const std::set<std::size_t>& wrong, verdict found,
           const std::string& evidence) {
  if (proofs.empty()) {
    return;
  }
  REQUIRE(proofs.size() == 133);
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    INFO("rule " << i << ": " << proofs[i].reason << " " << proofs[i].details);
    if (wrong.contains(i)) {
      CHECK(proofs[i].found == found);
      CHECK_THAT(proofs[i].details, Catch::Contains("?x7 float32[") && Catch::Contains(evidence));
    } else {
      CHECK(proofs[i].found == verdict::proved);
    }
  }
}

}  // namespace

TEST_CASE("with implied groups eleven of TASO's 133 rules are refuted and the others proved", "[shared]") {
  check(verified(unity::io::group_reading::implied), {98, 99, 100, 105, 125, 126, 127, 128, 129, 130, 131},
        verdict::refuted, "element ");
}

TEST_CASE("with one group four of TASO's 133 rules never fit and the others are proved", "[shared]") {
  check(verified(unity::io::group_reading::one), {99, 100, 130, 131}, verdict::unknown, "target cannot be built");
}

}  // namespace tests_of_published_proofs
