// Tutorial 5: rules for a new operator. The definition and the properties of the operator are written by hand; its
// rules are found and proved from them.
//
// run:
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/rewrite/z3_prover.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/generation/generate.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/rule_collection.hpp>
#include <unity/tensor/generation/vocabulary.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>
#include <unity/tensor/verification/validate.hpp>

namespace tensor = unity::tensor;

// The rows of x, the last one first: y[i, ...] = x[n - 1 - i, ...].
tensor::definition reverse() {
  const auto map = [](tensor::view_map& v, const tensor::attribute_reader&) {
    if (v.require(v.rank(0) > 0, "at least one dimension")) {
      v.result(v.dims(0));
      auto whole = v.box(0, 0);
      whole.source[0] = {.along = 0, .start = v.dims(0)[0] - 1, .step = -1};
      v.add(std::move(whole));
    }
  };
  return tensor::define("reverse", 1, 1, {}, tensor::view{map});
}

// Properties of the operator. Those that follow from others need not be stated.
constexpr auto properties = R"(
  rule reverse_twice       reverse(reverse(?x)) => ?x
  rule reverse_of_relu     reverse(relu(?x)) == relu(reverse(?x))
  rule reverse_of_parts    reverse(concat{axis=?a}(??x...)) == concat{axis=?a}(reverse(??x)...) if ?a != 0
  rule reverse_of_rows     reverse(concat{axis=0}(?x, ?y)) == concat{axis=0}(reverse(?y), reverse(?x))
)";
constexpr auto of_product = R"(
  rule reverse_of_product  reverse(mul(?x, ?y)) == mul(reverse(?x), reverse(?y)) if rank(?x) == rank(?y)
)";
// False: mul broadcasts, and the first dimension of ?y may be the last one of ?x.
constexpr auto of_any_product = R"(
  rule reverse_of_product  reverse(mul(?x, ?y)) == mul(reverse(?x), reverse(?y))
)";

// The vocabulary of terms: operators with their parameters, and the variables from which terms start.
constexpr auto words = R"(
  sizes M=3, K=4
  sort activation input [M, K]
  operator reverse(any)
  operator relu(any)
  operator mul(any, any) same_shape
  operator concat{axis={0, 1}}(any, any)
)";

// The reason why properties are refused; empty if they hold.
std::string refusal(const tensor::algebra& operators, const std::string& text) {
  tensor::validation_options quick;
  quick.effort = 20'000;
  try {
    tensor::require_valid(operators, unity::parse_rules(text), "reverse", quick);
  } catch (const unity::error& e) {
    return e.what();
  }
  return {};
}

// The rules between terms of at most `most_operators` operators, proved from the shipped properties and `own` if
// possible.
std::vector<tensor::collected_rule> generate(const tensor::algebra& operators, const std::string& own,
                                             std::size_t most_operators) {
  const unity::theory axioms{operators, unity::parse_rules(std::string{tensor::standard_axioms} + own)};
  tensor::rule_verifier prover{operators, axioms, unity::z3_prover{}};
  tensor::term_language language{operators, tensor::parse_vocabulary(operators, words, "words")};
  tensor::generation_options options;
  options.enumeration.most_operators = most_operators;
  const auto prove = [&](const unity::syntax::rule& r) { return prover.verify(r); };
  return tensor::generate_rules(language, prove, options).rules;
}

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

int main() {
  auto operators = tensor::standard_algebra();
  operators.add(reverse());

  const auto all_properties = std::string{properties} + of_product;
  check(refusal(operators, all_properties).empty(), "the properties hold");
  const auto why = refusal(operators, of_any_product);
  check(why.find("?x float32[") != std::string::npos, "a false one is refused, with shapes and values: " + why);

  // Without one property, some rules are tested but not proved. Each names the property that is missing.
  const auto open = generate(operators, properties, 2);
  const auto unknown =
      std::find_if(open.begin(), open.end(), [](const auto& r) { return r.proof.found == unity::verdict::unknown; });
  const auto missing = unknown != open.end() ? unknown->proof.missing : std::string{};
  check(missing.find("mul(") != std::string::npos, "what was not stated is asked for: " + missing);

  // With it, all are proved.
  std::vector<unity::syntax::rule> rules;
  bool proved = true;
  for (const auto& [rule, proof] : generate(operators, all_properties, 3)) {
    const auto text = unity::to_text(tensor::with_proof(rule, proof));
    proved = proved && proof.found == unity::verdict::proved;
    if (text.find("reverse(") != std::string::npos) {
      rules.push_back(rule);
      fmt::print("{}", text);
    }
  }
  check(proved && rules.size() > 3, "rules of the new operator are found, and all are proved");

  // Rules that follow from others are left out.
  const auto merged =
      unity::parse_rules("rule merged  concat{axis=1}(reverse(?x), reverse(?y)) == reverse(concat{axis=1}(?x, ?y))");
  const unity::theory found{operators, rules};
  tensor::rule_verifier prover{operators, found, unity::z3_prover{}};
  check(prover.verify(merged[0]).found == unity::verdict::proved, "one reversal for two follows from them");
  return failures;
}
