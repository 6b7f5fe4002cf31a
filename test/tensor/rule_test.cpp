#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/rules/comparison.hpp>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "testing.hpp"

namespace tests_of_rule_test {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;
using verdict = rule_report::verdict;

namespace {

rule_set compiled(const std::string& text) { return compile_rules(standard(), parse_rules("rule r\n  " + text)); }
rule_report tested(const std::string& text,
                   const rule_test_options& options = {.attempts = unity::test::cases(200000)}) {
  return test_rule(standard(), compiled(text).at(0), options);
}
// Checks that a rule is refuted, and that the report names shapes and two values.
void check_refuted(const std::string& text) {
  const auto report = tested(text);
  INFO(text << '\n' << report.because);
  CHECK(report.found == verdict::refuted);
  CHECK(report.bits == 0);
  CHECK(report.because.find("float32[") != std::string::npos);
  CHECK(report.because.find("element ") != std::string::npos);
  CHECK(report.because.find(" and ") != std::string::npos);
}
void check_passes(const std::string& text) {
  const auto report = tested(text);
  INFO(text << '\n' << report.because);
  CHECK(report.found == verdict::passes);
  CHECK(report.instances >= 50);
  CHECK(report.bits > 0);
}
std::string message_of(const std::string& text) {
  return unity::test::message_of([&] { check_rules(standard(), compiled(text), "my.rules"); });
}

const std::string window_attributes = "stride=?s, padding=?p, pads=?q, dilation=?d";

}  // namespace

TEST_CASE("test_rule passes true rules on at least 50 instances") {
  check_passes("matmul(?x, matmul(?y, ?z)) => matmul(matmul(?x, ?y), ?z)");
  check_passes("sqrt(mul(?x, ?x)) => abs(?x)\n  real");
  check_passes("relu(split{axis=?a, sizes=?s}(?x).*)... => split{axis=?a, sizes=?s}(relu(?x))");
  check_passes("embedding(?t, ?i) => identity(embedding(?t, ?i))");
  for (const char* term :
       {"segment_sum(?x, ?o, ?s, ?p, ?t)", "segment_mean(?x, ?o, ?s, ?p, ?t)", "segment_max(?x, ?o, ?s)",
        "segment_softmax(?x, ?o)", "segment_weighted_sum(?x, ?w, ?o, ?s, ?p, ?t, ?k)"}) {
    check_passes(std::string{term} + " => identity(" + term + ")");
  }
}

TEST_CASE("test_rule refutes false rules with shapes and values") {
  check_refuted("matmul(?x, matmul(?y, ?z)) => matmul(?x, matmul(?z, ?y))");
  check_refuted("relu(add(?x, ?y)) => add(relu(?x), relu(?y))");
  check_refuted("sub(?x, sub(?y, ?z)) => sub(sub(?x, ?y), ?z)");
  check_refuted("mul(?x, fill{value=2.0, ..}()) => ?x");
  check_refuted("gelu(?x) => mul(?x, sigmoid(?x))");
  check_refuted(
      "transpose{permutation=?p}(transpose{permutation=?q}(?x)) => transpose{permutation=compose(?q, ?p)}(?x)");
  check_refuted(
      "slice{axes=?a, starts=?s, ends=?e, steps=?t}(slice{axes=?a, starts=?b, ends=?c, steps=?d}(?x)) => "
      "slice{axes=?a, starts=?b + ?s, ends=?b + (?e - 1) * ?d + 1, steps=?t * ?d}(?x)");
  check_refuted(
      "matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul{activation=relu}(?x, "
      "concat{axis=1}(??w...)))\n  if rank(?x) == 2, rank(??w) == 2");
}

TEST_CASE("test_rule refutes rules that hold only for some sizes or strides or paddings") {
  // A kernel of 1x1 would be broadcast to one of 3x3.
  check_refuted("add(conv2d{" + window_attributes + "}(?x, ?w), conv2d{" + window_attributes + "}(?x, ?v)) => conv2d{" +
                window_attributes + "}(?x, add(?w, ?v))");
  // Zeros around a kernel smaller than the stride shift its centre.
  check_refuted(
      "conv2d{stride=?s, padding=same}(?x, enlarge{kernel=?k}(?w)) => conv2d{stride=?s, padding=same}(?x, ?w)");
  // At the border, an average has fewer elements.
  check_refuted(
      "average_pool{kernel=?k, padding=same}(?x) => conv2d{padding=same, groups=size(?x, 1)}(?x, "
      "pool_kernel{channels=size(?x, 1), kernel=?k}())");
  // The kernels of groups would have to be interleaved.
  check_refuted("conv2d{" + window_attributes +
                ", groups=?g}(?x, ??w)... => split{axis=1, sizes=[size(??w, 0)...]}(conv2d{" + window_attributes +
                ", groups=?g}(?x, concat{axis=0}(??w...)))");
  check_refuted(
      "batch_norm{epsilon=?e}(conv2d(?x, ?w), ?k, ?b, ?m, ?v) => conv2d(?x, mul(?w, reshape{dims=[size(?w, 0), 1, 1, "
      "1]}(div(?k, sqrt(add(?v, fill{value=?e, dims=[]}()))))), ?b)");
}

TEST_CASE("test_rule also tries any shapes that the source accepts") {
  // Axis 0 of operands of different ranks is a different dimension of the sum.
  const auto rule =
      "concat{axis=?c}(add(?x, ?y), add(?z, ?w)) => add(concat{axis=?c}(?x, ?z), concat{axis=?c}(?y, ?w))";
  CHECK(tested(rule, {.sampled = 0}).found == verdict::passes);
  CHECK(tested(rule, {.instances = 0}).found == verdict::refuted);

  const auto report = tested("relu(relu(?x)) => relu(?x)", {.instances = 5, .varied = 0, .sampled = 7});
  CHECK(report.instances == 5);
  CHECK(report.sampled == 14);
}

TEST_CASE("test_rule finds instances of every operator, with each number of operands") {
  for (std::size_t k = 0; k < standard().kind_count(); ++k) {
    const auto& d = standard().definition_of(kind_id{k});
    if (d.source != source_kind::none || d.signature.name == "opaque") {
      continue;
    }
    const auto& takes = d.signature.operands;
    for (auto n = takes.least; n <= std::min(takes.most, takes.least + 3); ++n) {
      std::string attributes;
      for (const auto& a : d.signature.attributes) {
        attributes += (attributes.empty() ? "" : ", ") + a.name + "=?" + a.name;
      }
      std::string operands;
      for (int i = 0; i < n; ++i) {
        operands += (i == 0 ? "?x" : ", ?x") + std::to_string(i);
      }
      const auto term = d.signature.name + (attributes.empty() ? "" : "{" + attributes + "}") + "(" + operands + ")";
      INFO(term);
      CHECK(tested(term + " => " + term, {.instances = 3, .attempts = 20000, .varied = 0, .sampled = 0}).instances >=
            3);
    }
  }
}

TEST_CASE("test_rule draws integers where operators read indices, and bytes where they read quantized numbers") {
  const rule_test_options options{.instances = 10, .attempts = 20000};
  const auto found = [&](const std::string& text) { return tested(text, options).found; };
  CHECK(found("gather{axis=?a}(relu(?x), ?i) => relu(gather{axis=?a}(?x, ?i))") == verdict::passes);
  CHECK(found("gather{axis=?a}(tanh(?x), ?i) => relu(gather{axis=?a}(?x, ?i))") == verdict::refuted);
  CHECK(found("scatter_elements{axis=?a, reduction=add}(?x, ?i, ?u) => "
              "scatter_elements{axis=?a, reduction=none}(?x, ?i, ?u)") == verdict::refuted);
  CHECK(found("dequantize{axis=?a, block=?b}(?x, ?s, ?z) => dequantize{axis=?a, block=?b}(?x, ?s)") ==
        verdict::refuted);
  CHECK(found("integer_matmul(?x, ?w) => identity(integer_matmul(?x, ?w))") == verdict::passes);
  CHECK(found("where(logical_not(?c), ?x, ?y) => where(?c, ?y, ?x)") == verdict::passes);
  CHECK(found("where(logical_not(?c), ?x, ?y) => where(?c, ?x, ?y)") == verdict::refuted);
}

TEST_CASE("test_rule draws operands that fit the equation of an einsum") {
  const rule_test_options options{.instances = 10, .attempts = 20000};
  CHECK(tested("einsum{equation=\"ij,jk->ik\"}(?x, ?y) => matmul(?x, ?y)", options).found == verdict::passes);
  CHECK(tested("einsum{equation=\"ji,jk->ik\"}(?x, ?y) => matmul(transpose{permutation=[1, 0]}(?x), ?y)", options)
            .found == verdict::passes);
  CHECK(tested("einsum{equation=\"ij,jk->ki\"}(?x, ?y) => matmul(?x, ?y)", options).found != verdict::passes);
}

TEST_CASE("test_rule repeats operands as often as an operator takes them") {
  CHECK(tested("linear(??x...) => identity(linear(??x...))", {.instances = 3, .attempts = 1000}).instances >= 3);
  const auto of_eight = "quantized_conv2d{" + window_attributes + ", groups=?g}(??x...)";
  CHECK(tested(of_eight + " => identity(" + of_eight + ")", {.attempts = 1000}).found == verdict::untested);
  CHECK(message_of("linear(?x) => ?x") == "rules:1: rule r: linear(?x); expected 2 to 3 operand(s) of linear");
  CHECK(message_of("concat{axis=0}() => concat{axis=0}()") ==
        "rules:1: rule r: concat{axis=0}(); expected 1 or more operand(s) of concat");
  CHECK(message_of("matmul(??x...) => identity(matmul(??x...))") ==
        "rules:1: rule r: matmul(??x...); expected 2 operand(s) of matmul");
}

TEST_CASE("test_rule draws lists with a number for each dimension") {
  for (const char* kind : {"border_pad{mode=edge, pads=?p}", "tile{repeats=?p}", "resize{dims=?p}",
                           "strided_slice{axes=?a, starts=?s, counts=?c, steps=?t}"}) {
    INFO(kind);
    check_refuted(std::string{kind} + "(transpose{permutation=?q}(?x)) => " + kind + "(?x)");
    check_passes(std::string{kind} + "(negate(?x)) => negate(" + kind + "(?x))");
  }
}

TEST_CASE("test_rule draws pads that differ before and after a dimension") {
  check_refuted(
      "border_pad{mode=?m, pads=?p, value=?v}(transpose{permutation=?q}(?x)) => "
      "transpose{permutation=?q}(border_pad{mode=?m, pads=?p, value=?v}(?x))");
}

TEST_CASE("test_rule refutes rules that hold for reals but not for integers, which wrap around") {
  for (const char* rule :
       {"add(cast{element=float32}(?x), cast{element=float32}(?y)) => cast{element=float32}(add(?x, ?y))",
        "relu(add(relu(?x), relu(?y))) => add(relu(?x), relu(?y))\n  real"}) {
    const auto report = tested(rule);
    CHECK(report.found == verdict::refuted);
    CHECK_THAT(report.because, Catch::Contains("?x int8[") && Catch::Contains("element "));
  }
  check_passes("relu(add(relu(?x), relu(?y))) => add(relu(?x), relu(?y))\n  if dtype(?x) <= 3\n  real");
  check_passes("add(?x, negate(?y)) => sub(?x, ?y)");
}

TEST_CASE("test_rule tries more dimensions and parts than conditions exclude") {
  const std::string excluded = "\n  if rank(?x) != 2, rank(?x) != 3, rank(?x) != 4";
  check_refuted("transpose{permutation=?p}(?x) => ?x" + excluded);
  check_passes("transpose{permutation=?p}(relu(?x)) => relu(transpose{permutation=?p}(?x))" + excluded);
  check_passes("relu(concat{axis=?a}(??x...)) => concat{axis=?a}(relu(??x)...)\n  if length([rank(??x)...]) > 4");
}

TEST_CASE("test_rule leaves a rule untested if only scalars fit") {
  rule_test_options chained;  // draws scalars
  chained.chained = true;
  const auto scalars = compiled("relu(?x) => relu(reshape{dims=[]}(?x))");
  const auto report = test_rule(standard(), scalars.front(), chained);
  CHECK(report.instances > 0);
  CHECK(report.found == verdict::untested);
  CHECK(report.because == "only scalars were found");
  const auto stated = compiled("relu(?x) => relu(reshape{dims=[]}(?x))\n  if rank(?x) == 0");
  CHECK(test_rule(standard(), stated.front(), chained).found == verdict::passes);
}

TEST_CASE("test_rule splits into more parts than the source reads") {
  // False for three parts.
  check_refuted(
      "relu(relu(split{axis=0, sizes=?z}(?x).1)) => "
      "relu(slice{axes=[0], starts=[size(?x, 0) - at(?z, 1)], ends=[size(?x, 0)], steps=[1]}(?x))");
  // False for two parts.
  check_refuted(
      "split{axis=0, sizes=?z}(?x).0 => "
      "slice{axes=[0], starts=[size(?x, 0) - at(?z, 0)], ends=[size(?x, 0)], steps=[1]}(?x)");
  check_passes("split{axis=?a, sizes=?z}(concat{axis=?a}(?x, ?y)).0 => ?x\n  if at(?z, 0) == size(?x, ?a)");
  check_passes("split{..}(?x).0 => ?x");
  check_passes("relu(split{axis=?a, sizes=?z}(?x).0) => split{axis=?a, sizes=?z}(relu(?x)).0\n  if length(?z) == 3");
}

TEST_CASE("test_rule refutes a polynomial identity that fails for negative scalars") {
  check_refuted("relu(add(mul(?s, ?s), ?s)) => add(mul(relu(?s), ?s), relu(?s))\n  if rank(?s) == 1, size(?s, 0) == 1");
}

TEST_CASE("test_rule reports never_fits with both shapes if the target has another shape") {
  const auto report = tested("concat{axis=0}(?x, ?x) => ?x");
  CHECK(report.found == verdict::never_fits);
  CHECK(report.instances == 0);
  CHECK(report.misfits > 0);
  CHECK(report.because.find("source gives float32[") != std::string::npos);
  CHECK(report.because.find("target gives float32[") != std::string::npos);
}

TEST_CASE("test_rule reports untested if no instance is found") {
  const auto report = tested("relu(?x) => relu(relu(?x))\n  if rank(?x) == 3, rank(?x) == 4");
  CHECK(report.found == verdict::untested);
  CHECK(report.bits == 0);
}

TEST_CASE("test_rule leaves a rule on too many elements untested") {
  const std::string huge = "pad{pads=[0, 1000000000], value=0.0}";
  const auto report = tested("relu(" + huge + "(?x)) => " + huge + "(relu(?x))");
  CHECK(report.found == verdict::untested);
  CHECK_THAT(report.because, Catch::EndsWith("; more than 4194304 elements"));
}

TEST_CASE("test_rule leaves splits along an invalid axis untested", "[exhaustive]") {
  constexpr const char* axes[] = {"-1", "16", "1000000000", "9223372036854775807"};
  for (const auto* axis : std::span{axes}.first(unity::test::cases(4))) {
    const auto split = "split{axis=" + std::string{axis} + ", sizes=[1, 2]}";
    INFO(split);
    CHECK(tested("relu(" + split + "(?x).0) => " + split + "(relu(?x)).0").found == verdict::untested);
  }
  const auto of_scalars =
      tested("relu(split{axis=?a, sizes=?s}(?x).0) => split{axis=?a, sizes=?s}(relu(?x)).0\n  if rank(?x) == 0");
  CHECK(of_scalars.found == verdict::untested);
}

TEST_CASE("test_rule does not pass a rule whose source is undefined everywhere") {
  CHECK(tested("sqrt(negate(abs(?x))) => sqrt(sub(negate(abs(?x)), abs(?x)))\n  real").found != verdict::passes);
}

TEST_CASE("test_rule gives the same report for the same seed and another one for another seed") {
  const auto a = tested("add(?x, ?y) => sub(?x, ?y)", {.seed = 5});
  CHECK(a.because == tested("add(?x, ?y) => sub(?x, ?y)", {.seed = 5}).because);
  CHECK(a.because != tested("add(?x, ?y) => sub(?x, ?y)", {.seed = 6}).because);
}

TEST_CASE("check_rules errors name the file and the false rule with its shapes") {
  CHECK(message_of("relu(relu(?x)) => relu(?x)").empty());
  const auto differ = message_of("add(?x, ?y) => mul(?x, ?y)");
  CHECK(differ.starts_with("my.rules: rule r: sides that differ: ?x float32["));
  CHECK(differ.find('\n') == std::string::npos);
  const auto shapes = message_of("concat{axis=1}(?x, ?y) => concat{axis=1}(?x, ?y, ?y)");
  CHECK(shapes.starts_with("my.rules: rule r: no shapes found for which the target fits: "));
  CHECK(shapes.find("expected a target whose outputs have the types of the source's") != std::string::npos);
}

TEST_CASE("check_rules tells constant result types from others") {
  CHECK(message_of("input{name=\"a\", element=float32, dims=[2]}() => fill{value=0.5, dims=[2]}()") ==
        "my.rules: rule r: no shapes found for which the target fits: input{name=\"a\", dims=[2]}; source gives "
        "float32[2], target gives float32[2] constant; "
        "expected a target whose outputs have the types of the source's");
}

TEST_CASE("check_rules refuses rules that cannot be tested and says why") {
  CHECK(message_of("relu(?x) => identity(?x)\n  if size(?x, 0) * size(?x, 1) == 32768") ==
        "my.rules: rule r: no shapes found to test it on; expected a rule that can be tested");
  const auto large = message_of("relu(?x) => identity(?x)\n  if size(?x, 0) == 5000000");
  CHECK(large.starts_with("my.rules: rule r: no shapes found to test it on: ?x float32[5000000"));
  CHECK_THAT(large, Catch::EndsWith("; more than 4194304 elements; expected a rule that can be tested"));
  CHECK(message_of("sqrt(negate(exp(?x))) => identity(sqrt(negate(exp(?x))))\n  real") ==
        "my.rules: rule r: no shapes found to test it on: its source has no value at any point; expected a rule that "
        "can be tested");
}

TEST_CASE("check_rules accepts the standard and generated rules", "[exhaustive]") {
  for (const auto text : {standard_rules, generated_rules}) {
    CHECK_NOTHROW(check_rules(standard(), compile_rules(standard(), parse_rules(text)), "shipped rules"));
  }
}

TEST_CASE("test_rule leaves rules with malformed or unsatisfiable attributes untested", "[exhaustive]") {
  for (const auto* text :
       {"reshape{dims=[0, -1]}(?x) => relu(?x)",
        "reshape{dims=[0, 5]}(?x) => relu(?x)",
        "reshape{dims=[4611686018427387904, 4]}(?x) => relu(?x)",
        "split{axis=0, sizes=[9223372036854775807, 9223372036854775807]}(?x) => split{axis=0, sizes=[1, 1]}(?x)",
        "max_pool{kernel=[-1], ..}(?x) => relu(?x)",
        "max_pool{kernel=[3], ..}(?x) => relu(?x)",
        "average_pool{kernel=[0, -1], ..}(?x) => relu(?x)",
        "average_pool{kernel=[-5, 3], ..}(?x) => relu(?x)",
        "max_pool{kernel=[9223372036854775807, 1], ..}(?x) => relu(?x)",
        "conv2d{groups=9223372036854775807, ..}(?x, ?w) => relu(?x)",
        "conv2d{groups=9223372036854775807, ..}(relu(?x), ?w) => relu(?x)",
        "conv2d{groups=9223372036854775807, ..}(?x, relu(?w)) => relu(?x)",
        "slice{axes=[], starts=[0], ..}(?x) => relu(?x)",
        "strided_slice{axes=[-1], ..}(?x) => relu(?x)",
        "strided_slice{axes=[9223372036854775807], starts=[0], ..}(?x) => relu(?x)",
        "tile{repeats=[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}(?x) => relu(?x)",
        "tile{repeats=[-1]}(?x) => relu(?x)",
        "border_pad{pads=[1, 2, 3], ..}(?x) => relu(?x)",
        "border_pad{pads=[9223372036854775807, 9223372036854775807], ..}(?x) => relu(?x)",
        "resize{dims=[9223372036854775807, 2], ..}(?x) => relu(?x)",
        "conv_transpose{stride=[9223372036854775807], groups=9223372036854775807, ..}(?x, ?w) => relu(?x)",
        "conv_transpose{stride=[1], groups=-1, ..}(?x, ?w) => relu(?x)",
        "conv2d_transpose{stride=[9223372036854775807, -5], ..}(?x, ?w) => relu(?x)",
        "conv2d_transpose{pads=[-1, 9223372036854775807, 0, 0], ..}(?x, ?w) => relu(?x)",
        "attention{heads=0}(?q, ?k, ?v, ?a, ?b, ?c, ?d) => relu(?q)",
        "dot_product_attention{heads=9223372036854775807, key_heads=-2, ..}(?q, ?k, ?v) => relu(?q)",
        "rotary_embedding{heads=-9223372036854775807, ..}(?x, ?c, ?s) => relu(?x)",
        "einsum{equation=\"\"}(?x, ?y) => relu(?x)",
        "einsum{equation=\",,->..\"}(?x, ?y, ?z) => relu(?x)",
        "relu(?x) => relu(?x)\n  if suffix(suffix(shape(?x), 9223372036854775807), 9223372036854775807) == [1, 1]"}) {
    INFO(text);
    CHECK(tested(text, {.attempts = 1000}).found == verdict::untested);
    CHECK(tested(text, {.attempts = 1000, .chained = true}).found == verdict::untested);
  }
}

TEST_CASE("test_rule leaves conditions on a measure without its argument untested") {
  for (const auto* condition : {"size(?x, 0) == 2", "size(?x, 0) == size(?x, 1)", "suffix(size(?x, 0), 1) == [2]"}) {
    auto s = compiled("relu(?x) => relu(?x)\n  if " + std::string{condition}).at(0);
    auto* measured = s.conditions[0].arguments.data();
    measured = measured->kind == compiled_expression::form::measure ? measured : measured->arguments.data();
    measured->arguments = std::vector<compiled_expression>{};
    for (const bool chained : {false, true}) {
      CHECK(test_rule(standard(), s, {.attempts = 1000, .chained = chained}).found == verdict::untested);
    }
  }
}

TEST_CASE("instance_generator repeats no instance and varies linked sizes together") {
  const auto rules = compiled("add(matmul(?x, ?w), matmul(?y, ?v)) => add(matmul(?y, ?v), matmul(?x, ?w))");
  instance_generator generator{standard(), rules[0], 3};
  std::vector<rule_instance> all;
  for (int i = 0; i < 20; ++i) {
    const auto instance = generator.next(100000);
    REQUIRE(instance);
    CHECK(source_graph(standard(), rules[0], *instance).has_value());
    CHECK(std::find(all.begin(), all.end(), *instance) == all.end());
    all.push_back(*instance);
  }
  std::size_t together = 0;
  for (const auto& v : generator.variations(all[0])) {
    std::set<std::int64_t> steps;
    std::size_t changed = 0;
    for (std::size_t slot = 0; slot < v.values.size(); ++slot) {
      const auto& before = all[0].values[slot][0].dims;
      for (std::size_t d = 0; d < before.size(); ++d) {
        changed += v.values[slot][0].dims[d] != before[d] ? 1 : 0;
        steps.insert(v.values[slot][0].dims[d] - before[d]);
      }
    }
    CHECK(steps == std::set<std::int64_t>{0, 1});
    CHECK(changed >= 1);
    CHECK(changed <= 4);
    together += changed > 1 ? 1 : 0;
  }
  CHECK(together >= 3);  // m of x and y, n of w and v, k of one product and of the other
}

TEST_CASE("instance_generator varies instances with many sizes in bounded time") {
  std::string operands;
  for (int i = 0; i < 24; ++i) {
    operands += (i == 0 ? "?x" : ", ?x") + std::to_string(i);
  }
  const auto rules =
      compiled("relu(concat{axis=1}(" + operands + ")) => relu(concat{axis=1}(" + operands + "))\n  if rank(?x0) == 4");
  instance_generator generator{standard(), rules[0], 1};
  const auto instance = generator.next(100000);
  REQUIRE(instance);
  CHECK(generator.variations(*instance).size() >= 24);  // the size of each operand along the axis
}

TEST_CASE("a chained instance_generator draws scalars for operators with axes") {
  const auto rules = compiled("squeeze{axes=?a}(?x) => identity(squeeze{axes=?a}(?x))");
  std::size_t scalars = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    instance_generator generator{standard(), rules[0], seed, true};
    const auto instance = generator.next(100);
    scalars += instance && instance->values[0][0].dims.empty() ? 1 : 0;
  }
  CHECK(scalars > 0);
}

TEST_CASE("degree_bounds counts products and takes unknown functions as variables") {
  const auto degree_of_source = [](const std::string& text) {
    const auto rules = compiled(text + " => " + text);
    instance_generator generator{standard(), rules[0], 1};
    const auto instance = generator.next(100000);
    REQUIRE(instance);
    return degree_bounds(standard(), *source_graph(standard(), rules[0], *instance)).at(0);
  };
  CHECK(degree_of_source("add(?x, ?y)") == degree{1, 0});
  CHECK(degree_of_source("matmul(?x, matmul(?y, ?z))") == degree{3, 0});
  CHECK(degree_of_source("div(mul(?x, ?y), ?z)") == degree{2, 1});
  CHECK(degree_of_source("add(div(?x, ?y), div(?z, ?w))") == degree{2, 2});
  CHECK(degree_of_source("mul(exp(matmul(?x, ?y)), ?z)") == degree{4, 0});
  CHECK(degree_of_source("mul(?x, fill{value=0.5, dims=[]}())") == degree{1, 0});
}

}  // namespace tests_of_rule_test
