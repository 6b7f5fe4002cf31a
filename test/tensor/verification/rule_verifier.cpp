#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/prover.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/verification/rule_verifier.hpp>

namespace tests_of_rule_verifier {

namespace tensor = unity::tensor;
using unity::verdict;

namespace {

constexpr std::string_view properties = R"(
rule add_assoc      add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)
rule matmul_assoc   matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)
rule matmul_linear  matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z))
rule matmul_relu    matmul{activation=relu}(?x, ?w) => relu(matmul(?x, ?w))
rule concat_relu    concat{axis=?a}(relu(??x)...) == relu(concat{axis=?a}(??x...))
rule concat_matmul  concat{axis=1}(matmul(?x, ??w)...) == matmul(?x, concat{axis=1}(??w...))
  if rank(?x) == 2, rank(??w) == 2
rule split_concat   split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x... if ?s == [size(??x, ?a)...]
rule max_relu       max_pool{kernel=?k, stride=?s}(relu(?x)) == relu(max_pool{kernel=?k, stride=?s}(?x)) real
rule no_dropout     dropout{..}(?x) => ?x safe inference
rule pad_nothing    pad{..}(?x) => ?x
)";

struct fixture {
  tensor::algebra operators = tensor::standard_algebra();
  unity::theory axioms{operators, unity::parse_rules(properties)};

  tensor::rule_proof verify(const std::string& text) {
    tensor::rule_verifier<unity::congruence_prover> v{operators, axioms, {}};
    return v.verify(unity::parse_rules("rule r " + text).at(0));
  }
};
using names = std::vector<std::string>;

}  // namespace

TEST_CASE_METHOD(fixture, "rule_verifier proves a rule and lists the axioms that the proof needs") {
  const auto p = verify("matmul(?x, add(?w, add(?v, ?u))) => add(matmul(?x, ?u), add(matmul(?x, ?w), matmul(?x, ?v)))");
  CHECK(p.found == verdict::proved);
  CHECK(p.axioms == names{"add_assoc", "matmul_linear"});
  CHECK(p.prover == unity::congruence_prover{}.name());
  CHECK(p.cases > 3);
  CHECK(p.steps >= 3);
  CHECK(p.reason.empty());
}

TEST_CASE_METHOD(fixture, "rule_verifier proves a rule of several outputs and repeated operands") {
  const auto p = verify(
      "relu(matmul(?x, ??w))... => split{axis=1, sizes=[size(??w, 1)...]}(matmul{activation=relu}(?x, "
      "concat{axis=1}(??w...)))"
      " if rank(?x) == 2, rank(??w) == 2");
  CHECK(p.found == verdict::proved);
  CHECK(p.axioms == names{"concat_matmul", "concat_relu", "matmul_relu", "split_concat"});
}

TEST_CASE_METHOD(fixture, "rule_verifier refutes a false rule with shapes and values") {
  const auto p = verify("relu(add(?x, ?y)) => add(relu(?x), relu(?y))");
  CHECK(p.found == verdict::refuted);
  CHECK(p.reason == "the sides differ");
  CHECK_THAT(p.details, Catch::Contains("?x float32[") && Catch::Contains("element "));
  CHECK(p.axioms.empty());
}

TEST_CASE_METHOD(fixture, "rule_verifier reports a rule whose target fits in no sampled instance as unknown") {
  const auto p =
      verify("relu(?x) => transpose{permutation=[1, 0]}(relu(?x)) if rank(?x) == 2, size(?x, 0) != size(?x, 1)");
  CHECK(p.found == verdict::unknown);
  CHECK(p.reason == "the target fits in no sampled instance");
  CHECK_THAT(p.details, Catch::Contains("?x float32[") && Catch::Contains("target gives float32["));
}

TEST_CASE_METHOD(fixture, "rule_verifier tries shapes that the rule names") {
  const auto p = verify("relu(?x) => reshape{dims=[64, 128]}(relu(reshape{dims=[8192]}(?x)))");
  CHECK(p.found == verdict::unknown);
  CHECK(p.reason == "no proof was found");
  CHECK(verify("relu(?x) => reshape{dims=[64, 128]}(sigmoid(reshape{dims=[8192]}(?x)))").found == verdict::refuted);
}

TEST_CASE_METHOD(fixture, "rule_verifier refutes a rule that is false in both directions") {
  const auto p = verify("conv2d{groups=1}(?x, ?w) == conv2d{groups=1}(?x, relu(?w))");
  CHECK(p.found == verdict::refuted);
}

TEST_CASE_METHOD(fixture, "rule_verifier does not prove a rule from a coincidence of small sizes") {
  // An empty pad changes nothing, and pads are often empty for small shapes.
  const auto p = verify("relu(pad{pads=?p}(?x)) => pad{pads=?p}(relu(?x))");
  CHECK(p.found == verdict::unknown);
  CHECK(p.missing == "relu(pad{pads=?p}(?x)) => pad{pads=?p}(relu(?x))");
}

TEST_CASE_METHOD(fixture, "rule_verifier does not prove a rule from scalars alone") {
  // The pads, repeats and sizes of scalars are empty lists.
  for (const std::string kind : {"border_pad{mode=edge, pads=?p}", "tile{repeats=?p}", "resize{dims=?p}"}) {
    INFO(kind);
    CHECK(verify(kind + "(transpose{permutation=?q}(?x)) => " + kind + "(?x)").found == verdict::refuted);
  }
  const auto p = verify("relu(?x) => relu(reshape{dims=[]}(?x))");
  CHECK(p.found == verdict::unknown);
  CHECK(p.cases == 0);
}

TEST_CASE_METHOD(fixture, "rule_verifier refutes a rule that is false only for operands of different ranks") {
  // Proved where the operands have one shape, which is so in nearly all random instances.
  const std::string rule =
      "concat{axis=?c}(mul(?x, ?y), mul(?z, ?w)) => mul(concat{axis=?c}(?x, ?w), concat{axis=?c}(?y, ?z))";
  const unity::theory shipped{operators, unity::parse_rules(tensor::standard_axioms)};
  const auto found = [&](const std::string& conditions) {
    tensor::rule_verifier<unity::congruence_prover> v{operators, shipped, {}};
    return v.verify(unity::parse_rules("rule r " + rule + conditions).at(0)).found;
  };
  const auto sides = unity::compile_rule(operators, unity::parse_rules("rule r " + rule).at(0)).at(0);
  CHECK(tensor::test_rule(operators, sides, {.sampled = 0}).found == tensor::rule_report::verdict::passes);
  CHECK(tensor::test_rule(operators, sides, {.instances = 0}).found == tensor::rule_report::verdict::refuted);
  CHECK(found("") == verdict::refuted);
  CHECK(found(" if shape(?x) == shape(?y), shape(?z) == shape(?w)") == verdict::proved);
}

TEST_CASE_METHOD(fixture, "rule_verifier refutes rules that are false only for several operands of high rank") {
  // Axis 0 of operands of different ranks is a different dimension of the result.
  CHECK(verify("matmul(concat{axis=?c}(?x, ?y), concat{axis=?c}(?z, ?w)) =>"
               " concat{axis=?c}(matmul(?x, ?z), matmul(?y, ?w)) if ?c < rank(?x) - 1")
            .found == verdict::refuted);
  CHECK(verify("concat{axis=?c}(matmul(??x, ??w)...) =>"
               " matmul(concat{axis=?c}(??x...), concat{axis=?c}(??w...)) if ?c < rank(??x) - 2")
            .found == verdict::refuted);
  // Only permutations that are not their own inverse tell, and only if they keep the place of the axis.
  CHECK(verify("transpose{permutation=?p}(concat{axis=?c}(?x, transpose{permutation=?p}(?y))) =>"
               " concat{axis=at(?p, ?c)}(transpose{permutation=?p}(?x), ?y)")
            .found == verdict::refuted);
}

TEST_CASE_METHOD(fixture, "rule_verifier evaluates no instance of millions of elements") {
  const auto p = verify("relu(?x) => reshape{dims=[64, 16777216]}(sigmoid(reshape{dims=[1073741824]}(?x)))");
  CHECK(p.found == verdict::unknown);
  CHECK(p.reason == "no proof was found");
}

TEST_CASE("rule_verifier refutes a rule that is false only at very few shapes", "[exhaustive]") {
  // The rule applies, and is false, where a stride of 3 hides that the kernels have different sizes.
  const auto rule = unity::parse_rules(R"(
    rule r
      conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(
          conv2d{padding=?p, pads=?q, dilation=?d, groups=?h, activation=?b}(?x, enlarge{kernel=?k}(?y)), ?z)
        => conv2d{stride=?s, padding=?p, dilation=?d, groups=?g, activation=?a}(
             conv2d{padding=?p, pads=?q, dilation=?d, groups=?h, activation=?b}(?x, ?y), enlarge{kernel=?k}(?z))
      if (?p == valid) || (?p == explicit), size(?x, 1) == size(?y, 0)
  )")
                        .at(0);
  const auto operators = tensor::standard_algebra();
  const unity::theory axioms{operators, unity::parse_rules(tensor::standard_axioms)};
  tensor::rule_verifier<unity::congruence_prover> v{operators, axioms, {}};
  const auto p = v.verify(rule);
  CHECK(p.found == verdict::refuted);
  CHECK(p.reason == "the sides differ");
  CHECK_THAT(p.details, Catch::Contains("stride=[") && Catch::Contains("element "));

  auto unsearched = tensor::verification_options{};
  unsearched.worlds.searched = 0;
  tensor::rule_verifier<unity::congruence_prover> hasty{operators, axioms, {}, unsearched};
  CHECK(hasty.verify(rule).found == verdict::proved);
}

TEST_CASE_METHOD(fixture, "rule_verifier reports an unprovable rule as unknown with the missing equality") {
  const auto p = verify("relu(relu(?x)) => relu(?x)");
  CHECK(p.found == verdict::unknown);
  CHECK(p.reason == "no proof was found");
  CHECK_THAT(p.details, Catch::Contains("for ?x float32["));
  CHECK(p.missing == "relu(relu(?x)) => relu(?x)");
  const auto inside = verify("exp(abs(relu(relu(matmul(?x, ?w))))) => exp(abs(relu(matmul(?x, ?w))))");
  CHECK_THAT(inside.missing, Catch::StartsWith("relu(relu(?") && !Catch::Contains("matmul"));
}

TEST_CASE_METHOD(fixture, "with_proof restricts a rule as the axioms of its proof are restricted") {
  const auto rule = unity::parse_rules(
                        "rule r relu(max_pool{kernel=?k, stride=?s}(relu(dropout{..}(?x)))) => "
                        "relu(relu(max_pool{kernel=?k, stride=?s}(?x))) tested 60")
                        .at(0);
  tensor::rule_verifier<unity::congruence_prover> v{operators, axioms, {}};
  const auto p = v.verify(rule);
  REQUIRE(p.found == verdict::proved);
  CHECK(p.axioms == names{"max_relu", "no_dropout"});
  const auto known = tensor::with_proof(rule, p);
  CHECK(known.known == unity::syntax::standing::proved);
  CHECK(known.tested_bits == 0);
  CHECK(known.real_only);
  CHECK(known.safe_for == "inference");
  CHECK_THAT(unity::to_text(known), Catch::Contains("proved \"congruence closure 1\" by max_relu, no_dropout"));
  CHECK(tensor::with_proof(rule, {}) == rule);
}

TEST_CASE_METHOD(fixture, "verify_rules gives the same proofs for 1 and 3 threads") {
  tensor::verification_options options;
  options.quick.sampled = 0;  // to save time
  std::vector<unity::syntax::rule> rules =
      axioms.rules().empty() ? std::vector<unity::syntax::rule>{} : unity::parse_rules(properties);
  rules.push_back(unity::parse_rules("rule wrong relu(?x) => negate(relu(?x))").at(0));
  std::size_t seen = 0;
  const auto one = tensor::verify_rules(operators, axioms, unity::congruence_prover{}, rules, 1, options,
                                        [&](std::size_t done) { CHECK(done == ++seen); });
  std::vector<std::size_t> seen_of_three;  // one thread at a time calls this
  const auto three = tensor::verify_rules(operators, axioms, unity::congruence_prover{}, rules, 3, options,
                                          [&](std::size_t done) { seen_of_three.push_back(done); });
  CHECK(seen == rules.size());
  std::vector<std::size_t> numbers(rules.size());
  std::iota(numbers.begin(), numbers.end(), std::size_t{1});
  CHECK(seen_of_three == numbers);
  REQUIRE(one.size() == rules.size());
  REQUIRE(three.size() == rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    INFO(rules[i].name << " " << one[i].reason << " " << one[i].details);
    CHECK(one[i].found == (i + 1 < rules.size() ? verdict::proved : verdict::refuted));
    CHECK(three[i].found == one[i].found);
    CHECK(three[i].axioms == one[i].axioms);
    CHECK(three[i].real_only == one[i].real_only);
    CHECK(three[i].inference_only == one[i].inference_only);
    CHECK(three[i].reason == one[i].reason);
    CHECK(three[i].details == one[i].details);
    CHECK(three[i].cases == one[i].cases);
    CHECK(three[i].instances.count == one[i].instances.count);
  }
}

}  // namespace tests_of_rule_verifier
