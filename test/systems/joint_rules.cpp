// The rules of Unity's search in addition to those of tensor graphs.

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/systems/taso.hpp>
#include <unity/systems/unity/joint_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

namespace tests_of_joint_rules {

using namespace unity;

TEST_CASE("joint rules are proved from the axioms that they name and pass the numeric checks") {
  const auto operators = tensor::training_algebra();
  const auto rules = parse_rules(std::string{systems::joint_rules}, "joint rules");
  REQUIRE(rules.size() == 2);
  const theory axioms{operators, parse_rules(std::string{tensor::standard_axioms}, "standard_axioms")};
  tensor::rule_verifier<congruence_prover> verifier{operators, axioms, congruence_prover{}};
  for (const auto& r : rules) {
    CAPTURE(r.name);
    const auto p = verifier.verify(r);
    CAPTURE(p.details, p.reason);
    CHECK(p.found == verdict::proved);
    CHECK(std::set<std::string>(p.axioms.begin(), p.axioms.end()) ==
          std::set<std::string>(r.axioms.begin(), r.axioms.end()));
    CHECK(r.prover == congruence_prover{}.name());
  }
  CHECK_NOTHROW(tensor::check_rules(operators, compile_rules(operators, rules), "joint rules"));
}

TEST_CASE("a parallel rule that is safe only for inference is not selected for training") {
  const parallel::pcg_algebra operators{tensor::training_algebra()};
  constexpr const char* text = R"rules(
rule relu_over_rows
  relu(?x) == combine{axis=0, degree=2}(relu(partition{axis=0, degree=2}(?x)))
  proved "erasure"
rule gelu_over_rows
  gelu(?x) == combine{axis=0, degree=2}(gelu(partition{axis=0, degree=2}(?x)))
  safe inference
  proved "erasure"
)rules";
  const auto rules = compile_rules(operators, parse_rules(text, "text"));
  const auto names = [&](tensor::mode m) {
    std::set<std::string> all;
    for (const auto& r : systems::select_rules(rules, syntax::standing::proved, m)) {
      all.insert(r.rule.name);
    }
    return all;
  };
  CHECK(names(tensor::mode::training) == std::set<std::string>{"relu_over_rows"});
  CHECK(names(tensor::mode::inference) == std::set<std::string>{"relu_over_rows", "gelu_over_rows"});
}

}  // namespace tests_of_joint_rules
