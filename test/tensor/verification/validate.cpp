#include <unity/tensor/verification/validate.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/axioms.hpp>
#include <unity/tensor/rule_test.hpp>

#include "../testing.hpp"

namespace tests_of_validate {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;
using verdict = validation_report::verdict;

namespace {

// A near miss: says whether the graphs differ, but not where.
struct oracle {
  bool compare(const tensor::algebra&, const tensor_graph&, const tensor_graph&);
  std::string name();
};
static_assert(equality_prover<unity::tensor::detail::no_prover>);
static_assert(!equality_prover<oracle>);

std::vector<syntax::rule> parsed(std::string_view text) { return parse_rules(text, "these.rules"); }

// Sizes up to 2, which take seconds rather than minutes.
validation_options quick() {
  validation_options o;
  o.ladder = {o.ladder.at(4)};
  o.random.instances = 10;
  return o;
}

validation_report validated(std::string_view text, const validation_options& o = quick()) {
  return validate_axiom(standard(), parsed("rule r " + std::string{text}).at(0), o);
}

bool tells(const validation_report& r, std::string_view what) { return r.because.find(what) != std::string::npos; }

constexpr std::string_view relu_conv_is_linear =
    "rule relu_conv_is_linear conv2d{stride=?s, padding=?p, activation=relu}(add(?x, ?y), ?w) => "
    "add(conv2d{stride=?s, padding=?p, activation=relu}(?x, ?w), "
    "conv2d{stride=?s, padding=?p, activation=relu}(?y, ?w)) if shape(?x) == shape(?y)";

}  // namespace

TEST_CASE("validate_axiom refutes linearity of a conv2d with relu by shapes and values") {
  const auto report = validate_axiom(standard(), parsed(relu_conv_is_linear).at(0), quick());
  INFO(report.because);
  CHECK(report.found == verdict::refuted);
  CHECK(tells(report, "?x float32[1,1,1,1], ?y float32[1,1,1,1], ?w float32[1,1,1,1]"));
  CHECK(tells(report, "element 0: "));
  CHECK(tells(report, " at 0.0 = ["));
}

TEST_CASE("require_valid refuses a false axiom with a one-line error of its name and shapes") {
  const auto file = parsed("rule fine relu(relu(?x)) => relu(?x) " + std::string{relu_conv_is_linear});
  CHECK_NOTHROW(require_valid(standard(), {file.data(), 1}, "these.rules", quick()));
  try {
    require_valid(standard(), file, "these.rules", quick());
    FAIL("a false property was taken");
  } catch (const error& e) {
    const std::string what = e.what();
    INFO(what);
    CHECK(what.find("these.rules: property relu_conv_is_linear: ?x float32[1,1,1,1]") == 0);
    CHECK(what.find('\n') == std::string::npos);
  }
}

TEST_CASE("validate_axiom refutes properties that fail at few shapes") {
  // False only if the kernel is smaller than the stride.
  CHECK(validated("conv2d{stride=?s, padding=same}(?x, enlarge{kernel=?k}(?w)) => "
                  "conv2d{stride=?s, padding=same}(?x, ?w)",
                  {}).found == verdict::refuted);
  // False only if there is more than one group.
  CHECK(validated("concat{axis=1}(conv2d{groups=?g}(?x, ?w), conv2d{groups=?g}(?x, ?v)) => "
                  "conv2d{groups=?g}(?x, concat{axis=0}(?w, ?v))").found == verdict::refuted);
  // For matrices that are not square it does not even fit; for square ones it is false.
  CHECK(validated("matmul(?x, ?y) => matmul(?y, ?x)").found == verdict::refuted);
  // False only if sizes differ from 1.
  CHECK(validated("reduce_sum{axes=?a}(?x) => reduce_max{axes=?a}(?x)").found == verdict::refuted);
  CHECK(validated("transpose{permutation=[1, 0]}(?x) => reshape{dims=[size(?x, 1), size(?x, 0)]}(?x)").found ==
        verdict::refuted);
}

TEST_CASE("validate_axiom refutes properties that fail for some element types or reals") {
  for (const auto* text : {"cast{element=?t}(cast{element=?u}(?x)) => cast{element=?t}(?x)",
                           "cast{element=float32}(cast{element=?u}(?x)) => ?x",
                           "leaky_relu{alpha=?a}(?x) => maximum(?x, mul(?x, fill{value=?a, dims=[]}())) real",
                           "relu(pad{pads=?p, value=?v}(?x)) => pad{pads=?p, value=?v}(relu(?x))"}) {
    INFO(text);
    CHECK(validated(text).found == verdict::refuted);
    CHECK(test_rule(standard(), compile_rule(standard(), parsed("rule r " + std::string{text}).at(0)).front(), {})
              .found == rule_report::verdict::refuted);
  }
  CHECK(validated("cast{element=?t}(transpose{permutation=?p}(?x)) == transpose{permutation=?p}(cast{element=?t}(?x))")
            .found == verdict::holds);
}

TEST_CASE("validate_axiom tries lists with a number for each dimension") {
  for (const std::string kind : {"border_pad{mode=edge, pads=?p}", "tile{repeats=?p}",
                                 "strided_slice{axes=?a, "
                                 "starts=?s, counts=?c, steps=?t}"}) {
    INFO(kind);
    CHECK(validated(kind + "(transpose{permutation=?q}(?x)) => " + kind + "(?x)").found == verdict::refuted);
    const auto true_one = validated(kind + "(negate(?x)) => negate(" + kind + "(?x))");
    INFO(true_one.because);
    CHECK(true_one.found == verdict::holds);
  }
}

TEST_CASE("validate_axiom refutes properties that fail for integers, which wrap around") {
  const auto report =
      validated("add(cast{element=float32}(?x), cast{element=float32}(?y)) => cast{element=float32}(add(?x, ?y))");
  CHECK(report.found == verdict::refuted);
  CHECK(tells(report, "?x int8["));
}

TEST_CASE("validate_axiom reports unknown for what it cannot decide") {
  const auto scalars = validated("relu(?x) => relu(reshape{dims=[]}(?x))");
  CHECK(scalars.found == verdict::unknown);
  CHECK(scalars.because == "no instance within bounds but scalars");
  const auto huge = validated("relu(tile{repeats=[1000000000]}(?x)) => tile{repeats=[1000000000]}(relu(?x))");
  CHECK(huge.found == verdict::unknown);

  const auto no_instance = validated("add(?x, ?y) => relu(?x) if rank(?x) == 1, rank(?x) == 2");
  CHECK(no_instance.found == verdict::unknown);
  CHECK(tells(no_instance, "no instance"));
  const auto no_shape = validated("relu(?x) => relu(?x) if rank(?x) == 14", {});
  CHECK(no_shape.found == verdict::unknown);
  CHECK(no_shape.because == "no instance within bounds, of rank 6 at most, in which the target fits");
  // True, but an identity of the exponential function, which polynomials do not interpret.
  const auto identity = validated("mul(exp(?x), exp(?y)) => exp(add(?x, ?y))");
  CHECK(identity.found == verdict::unknown);
  CHECK(tells(identity, "forms that differ"));
}

TEST_CASE("validate_axiom compares undecided real properties in doubles and counts them apart") {
  const auto report = validated("mul(exp(?x), exp(?y)) => exp(add(?x, ?y)) real");
  CHECK(report.found == verdict::holds);
  CHECK(report.exact == 0);
  CHECK(report.rounded > 100);
  CHECK(validated("exp(?x) => add(?x, ?x) real").found == verdict::refuted);
}

TEST_CASE("validate_axiom counts its comparisons") {
  const auto report = validated("relu(transpose{permutation=?p}(?x)) == transpose{permutation=?p}(relu(?x))");
  CHECK(report.found == verdict::holds);
  CHECK(report.exact == 1 + 2 + 4 * 2 + 8 * 6 + 16 * 24);
  CHECK(report.random >= 20);
  CHECK(report.bits > 200);
  CHECK(report.real == 0);
}

TEST_CASE("validate_axiom confirms every standard axiom at sizes up to 2") {
  for (const auto& axiom : parsed(standard_axioms)) {
    const auto report = validate_axiom(standard(), axiom, quick());
    INFO("property " << axiom.name << ": " << report.because);
    CHECK(report.found == verdict::holds);
    CHECK(report.exact + report.rounded > 0);
    CHECK(report.random > 0);
    CHECK((axiom.real_only || report.rounded == 0));
  }
}

}  // namespace tests_of_validate
