#include <unity/hardware/device_rates.hpp>
#include <unity/tensor/equivalence.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/zoo.hpp>

#include "mutation.hpp"
#include "testing.hpp"

namespace tests_of_equivalence {

namespace {

using namespace unity::tensor;
using unity::value_id;
using unity::tensor::test::standard;

constexpr unity::flops no_second_look{0};

tensor_graph finish(builder& b, std::initializer_list<value_id> outputs) { return std::move(b).finish(outputs); }

void check_equal(const tensor_graph& a, const tensor_graph& b, bool modular = true) {
  const auto r = check_equivalence(standard(), a, b, {.modular = modular, .affordable = no_second_look});
  CAPTURE(r.sizes, r.problem, r.max_rel_error);
  CHECK(r.passed);
  CHECK(r.problem.empty());
  CHECK(r.points == (modular ? 6 : 4));
}
void check_different(const tensor_graph& a, const tensor_graph& b) {
  for (const bool modular : {false, true}) {
    const auto r = check_equivalence(standard(), a, b, {.modular = modular});
    CAPTURE(r.sizes, modular);
    CHECK_FALSE(r.passed);
    CHECK_FALSE(r.problem.empty());
  }
}

using space_type = unity::rewrite_space<unity::tensor::algebra, analytic_cost>;

unity::rule_set shipped_rules() {
  return unity::compile_rules(standard(), unity::parse_rules(unity::tensor::standard_rules, "standard_rules"));
}

// Rules after which every operator still matters: none duplicates a value or undoes another operator.
unity::rule_set joining_rules() {
  return unity::compile_rules(standard(), unity::parse_rules(R"(
rule merge_matmuls
  matmul{activation=?a}(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul{activation=?a}(?x, concat{axis=1}(??w...)))
  if rank(?x) == 2, rank(??w) == 2
rule sum_of_products
  add(matmul(?x, ?w), matmul(?y, ?v)) => matmul(concat{axis=1}(?x, ?y), concat{axis=0}(?w, ?v))
  if rank(?x) == 2, rank(?w) == 2, rank(?y) == 2, rank(?v) == 2
rule relu_into_conv
  relu(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g}(?x, ?w)) => conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, groups=?g, activation=relu}(?x, ?w)
rule merge_convolutions
  conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, ??w)... => split{axis=1, sizes=[size(??w, 0)...]}(conv2d{stride=?s, padding=?p, pads=?q, dilation=?d, activation=?a}(?x, concat{axis=0}(??w...)))
)",
                                                             "joining rules"));
}

struct rewritten_graph {
  tensor_graph graph{};
  bool real_only = false;  // a rule was used that holds only for real numbers
};

// The graph after some random rewrites.
rewritten_graph rewritten(const tensor_graph& g, const unity::rule_set& rules, unity::random_engine& random) {
  constexpr int steps = 25;
  space_type s{standard(), analytic_cost{standard(), *unity::hardware::find_device("taso")}, rules, g};
  auto state = s.initial();
  space_type::scratch_type from;
  space_type::scratch_type to;
  rewritten_graph made;
  for (int i = 0; i < steps && !s.moves(state).empty(); ++i) {
    const auto moves = s.moves(state);
    const auto move = moves[static_cast<std::size_t>(random.below(moves.size()))];
    s.prepare(state, from);
    if (s.price(state, move, from)) {
      made.real_only = made.real_only || s.rule_of(move).rule.real_only;
      state = s.apply(state, move, from, to);
      std::swap(from, to);
    }
  }
  made.graph = s.graph(state);
  return made;
}

// Small models of every kind: checks take as long as those of large models, but building candidates is faster.
constexpr std::array models{"zoo:bert?layers=2&batch=2",
                            "zoo:bert?form=taso&layers=3",
                            "zoo:bert?form=ae&layers=3",
                            "zoo:mlp?layers=4",
                            "zoo:mlp?form=ae",
                            "zoo:mlp?form=fig1",
                            "zoo:nasnet_a?form=taso&layers=1",
                            "zoo:nasrnn",
                            "zoo:resnet50",
                            "zoo:resnet50?form=taso",
                            "zoo:resnext50?form=taso",
                            "zoo:vgg16"};

}  // namespace

TEST_CASE("check_equivalence accepts every zoo model against itself", "[exhaustive]") {
  for (const auto& m : zoo::models) {
    for (const auto& f : m.forms) {
      const auto text = std::string{zoo::prefix} + std::string{m.name} + "?form=" + std::string{f.name};
      CAPTURE(text);
      const auto g = zoo::build(standard(), text);
      const auto r = check_equivalence(standard(), g, g, {.points = 1});
      CAPTURE(r.problem);
      CHECK(r.passed);
      CHECK(r.points == 1);
      CHECK(r.max_rel_error == 0);
    }
  }
}

TEST_CASE("check_equivalence accepts random rewrites of models", "[exhaustive]") {
  const std::uint64_t seed = 7;
  CAPTURE(seed);
  unity::random_engine random{seed};
  const auto rules = shipped_rules();
  for (const std::string text : models) {
    const auto g = zoo::build(standard(), text);
    for (int i = 0; i < 3; ++i) {
      CAPTURE(text, i);
      const auto h = rewritten(g, rules, random);
      check_equal(g, h.graph, !h.real_only);
    }
  }
}

TEST_CASE("check_equivalence accepts rewrites of float16 and bfloat16 models", "[exhaustive]") {
  const std::uint64_t seed = 13;
  CAPTURE(seed);
  unity::random_engine random{seed};
  const auto rules = shipped_rules();
  for (const std::string text : models) {
    for (const auto element : {dtype::float16, dtype::bfloat16}) {
      CAPTURE(text, name_of(element));
      const auto g = converted(standard(), zoo::build(standard(), text), dtype::float32, element);
      const auto h = rewritten(g, rules, random).graph;
      const auto r = check_equivalence(standard(), g, h, {.numbers = arithmetic::rounded});
      CAPTURE(r.problem, r.max_rel_error);
      CHECK(r.passed);
    }
  }
}

TEST_CASE("check_equivalence rejects at least 99 percent of mutated graphs", "[exhaustive]") {
  const std::uint64_t seed = 11;
  unity::random_engine random{seed};
  int drawn = 0;
  int missed = 0;
  std::string misses;
  for (const std::string text : models) {
    const auto g = zoo::build(standard(), text);
    const auto h = rewritten(g, joining_rules(), random).graph;
    unity::tensor::test::mutator mutator{standard(), h, random};
    for (int i = 0; i < 40; ++i) {
      const auto m = mutator.draw();
      const auto r = check_equivalence(standard(), g, m.graph, {.modular = true, .affordable = no_second_look});
      ++drawn;
      missed += r.passed ? 1 : 0;
      misses += r.passed ? text + ": " + m.what + "\n" : "";
    }
  }
  CAPTURE(seed, drawn, misses);
  CHECK(missed * 100 <= drawn);
}

TEST_CASE("check_equivalence names the output that differs") {
  const auto graph = [](const char* function) {
    builder b{standard()};
    const auto x = b.input("x", {100, 200});
    return finish(b, {b.relu(x), b.apply(function, {x})[0], b.tanh(x)});
  };
  const auto r = check_equivalence(standard(), graph("sigmoid"), graph("gelu"));
  CHECK_FALSE(r.passed);
  CHECK(r.first_difference == std::size_t{1});
  CHECK(r.problem == "output 1 differs");
  CHECK(r.max_rel_error > 1e-3);
}

TEST_CASE("check_equivalence rejects outputs of different types or numbers") {
  const auto graph = [](const shape& permutation, std::size_t outputs) {
    builder b{standard()};
    const auto y = b.transpose(b.input("x", {20, 30}), permutation);
    return outputs == 1 ? finish(b, {y}) : finish(b, {y, y});
  };
  const auto r = check_equivalence(standard(), graph({0, 1}, 1), graph({1, 0}, 1));
  CHECK(r.problem == "output 0 is float32[20,30] and float32[30,20]");
  CHECK(r.first_difference == std::size_t{0});
  CHECK(check_equivalence(standard(), graph({0, 1}, 1), graph({0, 1}, 2)).problem == "1 outputs and 2");
}

TEST_CASE("check_equivalence decides merging convolutions of two kernel sizes") {
  const auto graph = [](bool merged, std::int64_t first) {
    builder b{standard()};
    const auto x = b.input("x", {16, 64, 56, 56});
    const auto v = b.weight("v", {96, 64, 1, 1});
    const auto w = b.weight("w", {160, 64, 3, 3});
    if (!merged) {
      return finish(b, {b.conv2d(x, v, {.padding = "same"}), b.conv2d(x, w, {.padding = "same"})});
    }
    const auto wide = b.apply("enlarge", {v}, {{"kernel", {3, 3}}})[0];
    const auto both = b.conv2d(x, b.concat(0, std::array{wide, w}), {.padding = "same"});
    const auto parts = b.split(both, 1, {first, 256 - first});
    return first == 96 ? finish(b, {parts[0], parts[1]}) : finish(b, {parts[1], parts[0]});
  };
  check_equal(graph(false, 0), graph(true, 96));
  check_different(graph(false, 0), graph(true, 160));
}

TEST_CASE("check_equivalence decides folding a batch norm into a convolution") {
  const auto graph = [](bool folded, double epsilon) {
    builder b{standard()};
    const auto x = b.input("x", {8, 3, 224, 224});
    const auto w = b.weight("w", {64, 3, 7, 7});
    const std::array p{b.weight("scale", {64}), b.weight("shift", {64}), b.weight("mean", {64}), b.weight("var", {64})};
    const conv2d_options options{.stride = {2, 2}, .pads = {3, 3, 3, 3}};
    if (!folded) {
      return finish(b, {b.relu(b.batch_norm(b.conv2d(x, w, options), p[0], p[1], p[2], p[3]))});
    }
    const auto deviation = b.apply("sqrt", {b.add(p[3], b.fill(epsilon))})[0];
    const auto factor = b.div(p[0], deviation);
    const auto scaled = b.mul(w, b.reshape(factor, {64, 1, 1, 1}));
    const auto bias = b.sub(p[1], b.mul(p[2], factor));
    return finish(b, {b.relu(b.conv2d(x, scaled, bias, options))});
  };
  check_equal(graph(false, 0), graph(true, 1e-5));
  check_different(graph(false, 0), graph(true, 1e-3));
}

TEST_CASE("check_equivalence decides moving padding out of a convolution") {
  const auto graph = [](bool apart, std::int64_t top) {
    builder b{standard()};
    const auto x = b.input("x", {4, 32, 112, 112});
    const auto w = b.weight("w", {48, 32, 5, 5});
    if (!apart) {
      return finish(b, {b.conv2d(x, w, {.pads = {1, 2, 3, 2}})});
    }
    return finish(b, {b.conv2d(b.pad(x, {0, 0, top, 2, 0, 0, 4 - top, 2}), w)});
  };
  check_equal(graph(false, 0), graph(true, 1));
  check_different(graph(false, 0), graph(true, 3));
}

TEST_CASE("check_equivalence decides merging the products of queries and keys and values") {
  const auto graph = [](bool merged, const shape& permutation) {
    builder b{standard()};
    const auto x = b.input("x", {4, 128, 768});
    const std::array w{b.weight("q", {768, 768}), b.weight("k", {768, 768}), b.weight("v", {768, 768})};
    std::array<value_id, 3> heads;
    if (merged) {
      const auto y = b.reshape(b.matmul(x, b.concat(1, w)), {4, 128, 3, 12, 64});
      const auto parts = b.split(b.transpose(y, permutation), 0, {1, 1, 1});
      for (std::size_t i = 0; i < 3; ++i) {
        heads[i] = b.reshape(parts[i], {4, 12, 128, 64});
      }
    } else {
      for (std::size_t i = 0; i < 3; ++i) {
        heads[i] = b.transpose(b.reshape(b.matmul(x, w[i]), {4, 128, 12, 64}), {0, 2, 1, 3});
      }
    }
    const auto scores = b.softmax(b.matmul(heads[0], b.transpose(heads[1], {0, 1, 3, 2})), 3);
    return finish(b, {b.matmul(scores, heads[2])});
  };
  check_equal(graph(false, {}), graph(true, {2, 0, 3, 1, 4}));

  // Heads and positions in the wrong order, with sizes that still fit.
  builder b{standard()};
  const auto x = b.input("x", {2, 16, 64});
  const auto right = finish(b, {b.transpose(b.reshape(x, {2, 16, 16, 4}), {0, 2, 1, 3})});
  builder c{standard()};
  const auto y = c.input("x", {2, 16, 64});
  check_different(right, finish(c, {c.reshape(y, {2, 16, 16, 4})}));
}

TEST_CASE("check_equivalence decides decomposing the attention operator") {
  const auto graph = [](bool composed, double scale) {
    builder b{standard()};
    const auto x = b.input("x", {4, 20, 128});
    const std::array w{b.weight("q", {128, 128}), b.weight("k", {128, 128}), b.weight("v", {128, 128}),
                       b.weight("o", {128, 128})};
    if (composed) {
      return finish(b, {b.attention(x, x, x, w, 8)});
    }
    const auto heads = [&](std::size_t i, const shape& permutation) {
      return b.transpose(b.reshape(b.matmul(x, w[i]), {4, 20, 8, 16}), permutation);
    };
    const auto q = heads(0, {0, 2, 1, 3});
    const auto k = heads(1, {0, 2, 3, 1});
    const auto v = heads(2, {0, 2, 1, 3});
    const auto scores = b.softmax(b.scalar_multiply(b.matmul(q, k), b.fill(scale)), 3);
    const auto mixed = b.transpose(b.matmul(scores, v), {0, 2, 1, 3});
    return finish(b, {b.matmul(b.reshape(mixed, {4, 20, 128}), w[3])});
  };
  // The operator derives the scale from the head size, but the graph has it as a number: this shows only at larger
  // sizes.
  const auto r = check_equivalence(standard(), graph(true, 0), graph(false, 1 / std::sqrt(16.0)));
  CHECK(r.passed);
  check_different(graph(true, 0), graph(false, 1 / 16.0));
}

TEST_CASE("check_equivalence compares again at larger sizes where numbers depend on sizes") {
  const auto graph = [](std::int64_t rows, bool mean, double factor) {
    builder b{standard()};
    const auto x = b.matmul(b.input("x", {rows, 150}), b.weight("w", {150, 200}));
    return finish(b, {mean ? b.apply("reduce_mean", {x}, {{"axes", {1}}})[0]
                           : b.mul(b.apply("reduce_sum", {x}, {{"axes", {1}}})[0], b.fill(factor))});
  };
  const auto check = [&](std::int64_t rows, double factor, unity::flops affordable) {
    return check_equivalence(standard(), graph(rows, true, 0), graph(rows, false, factor), {.affordable = affordable});
  };
  constexpr unity::flops some{100'000'000};
  CHECK(check(100, 1 / 200.0, some).passed);
  CHECK(check(100, 1 / 200.0, some).sizes == "the graphs' own");
  CHECK_FALSE(check(100, 1 / 100.0, some).passed);
  CHECK_FALSE(check(100, 1 / 200.0, no_second_look).passed);
  // More rows than the check can afford.
  CHECK(check(1'000'000, 1 / 200.0, some).passed);
  CHECK_FALSE(check(1'000'000, 1 / 100.0, some).passed);
}

TEST_CASE("check_equivalence treats an opaque operator as an arbitrary function of its operands") {
  const auto graph = [](bool first, std::string_view signature, bool integers) {
    builder b{standard()};
    const auto x = b.input("x", {64, 300});
    const auto y = b.input("y", {64, 300});
    const auto sum = first ? b.add(b.add(x, x), y) : b.add(x, b.add(y, x));
    const shape elements{integers ? 4 : 0};
    const auto z = b.apply("opaque", {sum, x},
                           {{"name", "Mystery"}, {"signature", signature}, {"elements", elements}, {"dims", {1, 500}}});
    const auto v = integers ? b.embedding(b.weight("table", {30522, 64}), z[0]) : b.relu(z[0]);
    return finish(b, {v, sum});
  };
  check_equal(graph(true, "a", false), graph(false, "a", false));
  check_equal(graph(true, "a", true), graph(false, "a", true));
  check_different(graph(true, "a", false), graph(true, "b", false));
  check_different(graph(true, "a", true), graph(true, "b", true));

  builder b{standard()};
  const auto other = [&](builder& c, double factor) {
    const auto x = c.mul(c.input("x", {200}), c.fill(factor));
    return finish(
        c, {c.apply("opaque", {x}, {{"name", "M"}, {"signature", "s"}, {"elements", {0}}, {"dims", {2, 30, 40}}})[0]});
  };
  builder c{standard()};
  check_different(other(b, 1), other(c, 1.01));
}

TEST_CASE("check_equivalence accepts opaque operators on infinite operands") {
  const auto graph = [](bool first) {
    builder b{standard()};
    const auto x = b.input("x", {50, 60});
    const auto low = b.fill(-std::numeric_limits<double>::infinity());
    const auto y = b.apply("opaque", {x, low},
                           {{"name", "Where"}, {"signature", "w"}, {"elements", {0}}, {"dims", {2, 50, 60}}})[0];
    const auto z = b.input("z", {50, 60});
    return finish(b, {first ? b.add(y, z) : b.add(z, y)});
  };
  check_equal(graph(true), graph(false));
}

TEST_CASE("check_equivalence draws valid operands for sqrt / log / pow") {
  builder b{standard()};
  const auto x = b.input("x", {50, 60});
  const auto w = b.weight("w", {60});
  const auto root = b.apply("sqrt", {b.add(w, b.fill(1e-5))})[0];
  const auto logarithm = b.apply("log", {b.apply("reduce_sum", {b.apply("exp", {x})[0]}, {{"axes", {1}}})[0]})[0];
  const auto squares = b.apply("pow", {b.sub(x, w), b.constant("two", {})})[0];
  const auto entropy = b.apply("log", {b.matmul(b.input("p", {50, 70}), b.weight("q", {70, 60}))})[0];
  const auto g = finish(b, {b.div(x, root), logarithm, squares, entropy});
  check_equal(g, g);
}

TEST_CASE("check_equivalence names the node and the graph that give NaN") {
  const auto graph = [](bool shifted) {
    builder b{standard()};
    const auto x = b.input("x", {50, 60});
    const auto y = shifted ? b.sub(b.apply("sigmoid", {x})[0], b.fill(1)) : b.apply("sigmoid", {x})[0];
    return finish(b, {b.apply("sqrt", {y})[0]});
  };
  const auto second = check_equivalence(standard(), graph(false), graph(true));
  CHECK_FALSE(second.passed);
  CHECK(second.problem == "node 4 (sqrt) gives NaN in the second graph");
  const auto first = check_equivalence(standard(), graph(true), graph(true));
  CHECK_FALSE(first.passed);
  CHECK(first.problem == "node 4 (sqrt) gives NaN in the first graph, and no element of an output is a number");
}

TEST_CASE("check_equivalence compares the outputs that are numbers if others are NaN in both graphs") {
  const auto graph = [](double factor) {
    builder b{standard()};
    const auto x = b.input("x", {50, 60});
    const auto never = b.sub(b.apply("sigmoid", {x})[0], b.fill(1));
    return finish(b, {b.apply("sqrt", {never})[0], b.mul(x, b.fill(factor))});
  };
  const auto same = check_equivalence(standard(), graph(2), graph(2), {.modular = true});
  CHECK(same.passed);
  CHECK(same.undefined > 0);
  CHECK(check_equivalence(standard(), graph(2), graph(3)).problem == "output 1 differs");
  CHECK(check_equivalence(standard(), graph(2), graph(2)).max_rel_error == 0);
}

TEST_CASE("check_equivalence uses known data of constants") {
  const auto graph = [](bool known) {
    builder b{standard()};
    const auto x = b.input("x", {50, 60});
    const auto rows = b.constant("rows", {3, 60});
    const auto half = known ? b.fill(0.5) : b.constant("half", {});
    return finish(b, {b.mul(x, half), b.matmul(x, b.transpose(rows, {1, 0}))});
  };
  const source_data data = [](std::string_view name) -> std::optional<dense<double>> {
    if (name == "half") {
      return dense<double>{{}, {0.5}};
    }
    return name == "rows" ? std::optional{dense<double>{{3, 60}, std::vector(180, 0.25)}} : std::nullopt;
  };
  CHECK_FALSE(check_equivalence(standard(), graph(true), graph(false)).passed);
  const auto r = check_equivalence(standard(), graph(true), graph(false), {.modular = true, .data = data});
  CHECK(r.passed);
  CHECK(r.sizes.starts_with("x float32[50,60] as float32["));
  CHECK(r.sizes.find(",60], ") != std::string::npos);
}

namespace {

// T5's buckets of relative positions: int64 numbers, computed in float32 from known constants.
struct bucket_constants {
  double exact;
  double range;  // a logarithm
  double buckets;
};
constexpr std::int64_t position_count = 504;  // from 8 on

template <class Real>
std::vector<double> buckets_of(const bucket_constants& c) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < position_count; ++i) {
    const auto ratio = static_cast<Real>(i + 8) / static_cast<Real>(c.exact);
    const Real bucket = std::log(ratio) / static_cast<Real>(c.range) * static_cast<Real>(c.buckets);
    all.push_back(static_cast<double>(static_cast<std::int64_t>(bucket)));
  }
  return all;
}

// Products with the buckets, which are computed from the positions or, if `folded`, are constants.
tensor_graph bucket_graph(const bucket_constants& c, bool folded) {
  builder b{standard()};
  const auto cast = [&](value_id v, const char* to) { return b.apply("cast", {v}, {{"element", to}})[0]; };
  const auto real = [&](double x) { return b.fill(static_cast<float>(x)); };
  value_id buckets = b.constant(folded ? "buckets" : "positions", {position_count}, dtype::int64);
  if (!folded) {
    const auto logarithm = b.apply("log", {b.div(cast(buckets, "float32"), real(c.exact))})[0];
    buckets = cast(b.mul(b.div(logarithm, real(c.range)), real(c.buckets)), "int64");
  }
  return finish(b, {b.mul(b.input("x", {16, position_count}), cast(buckets, "float32")), buckets});
}

source_data bucket_data(std::vector<double> buckets) {
  return [buckets](std::string_view name) -> std::optional<dense<double>> {
    dense<double> values{shape{position_count}, buckets};
    for (std::int64_t i = 0; i < position_count && name == "positions"; ++i) {
      values.data[static_cast<std::size_t>(i)] = static_cast<double>(i + 8);
    }
    return name == "positions" || name == "buckets" ? std::optional{values} : std::nullopt;
  };
}

}  // namespace

TEST_CASE("check_equivalence rejects buckets folded in double instead of float32") {
  std::size_t others = 0;
  for (const auto& c : {bucket_constants{8, std::log(16.0F), 8}, {16, std::log(8.0F), 16}, {8, std::log(7.0F), 24}}) {
    const auto check = [&](const std::vector<double>& buckets, std::size_t output) {
      auto g = bucket_graph(c, false);
      auto h = bucket_graph(c, true);
      g.set_outputs(std::array{g.outputs()[output]});
      h.set_outputs(std::array{h.outputs()[output]});
      return check_equivalence(standard(), g, h, {.numbers = arithmetic::rounded, .data = bucket_data(buckets)});
    };
    const auto in_float = buckets_of<float>(c);
    const auto in_double = buckets_of<double>(c);
    others += in_float != in_double ? 1 : 0;
    for (const std::size_t output : {0U, 1U}) {
      CAPTURE(c.exact, output);
      const auto right = check(in_float, output);
      CAPTURE(right.problem, right.max_rel_error);
      CHECK(right.passed);
      const auto wrong = check(in_double, output);
      CHECK(wrong.passed == (in_float == in_double));
      CHECK(wrong.problem == (wrong.passed  ? ""
                              : output == 0 ? "output 0 differs in the arithmetic of float32"
                                            : "output 0 differs in the arithmetic of int64"));
    }
  }
  CHECK(others > 0);
}

TEST_CASE("check_equivalence finds float16 overflow that real arithmetic does not show") {
  const auto graph = [](dtype element, bool large_first) {
    builder b{standard()};
    const auto large = b.fill(1e4, {}, element);
    const auto small = b.fill(1e-4, {}, element);
    const auto x = b.input("x", {30, 40}, element);
    const auto y = b.mul(b.mul(x, large), large_first ? large : small);
    return finish(b, {b.mul(y, large_first ? b.mul(small, small) : b.fill(1, {}, element))});
  };
  const auto check = [&](dtype element, arithmetic numbers) {
    return check_equivalence(standard(), graph(element, false), graph(element, true), {.numbers = numbers}).problem;
  };
  for (const auto element : {dtype::float32, dtype::bfloat16, dtype::float64}) {
    CHECK(check(element, arithmetic::both).empty());
  }
  CHECK(check(dtype::float16, arithmetic::real).empty());
  CHECK(check(dtype::float16, arithmetic::both) == "output 0 differs in the arithmetic of float16");
}

TEST_CASE("check_equivalence compares uint8 products with wrap-around exactly") {
  const auto graph = [](double first, double second) {
    builder b{standard()};
    const auto number = [&](double x) { return b.fill(x, {}, dtype::uint8); };
    return finish(b, {b.mul(b.mul(b.input("x", {100}, dtype::uint8), number(first)), number(second))});
  };
  const auto passes = [&](const tensor_graph& g, const tensor_graph& h) {
    return check_equivalence(standard(), g, h, {.numbers = arithmetic::rounded}).passed;
  };
  CHECK(passes(graph(100, 150), graph(150, 100)));
  CHECK(passes(graph(100, 150), graph(1, (100 * 150) % 256)));
  CHECK_FALSE(passes(graph(100, 150), graph(1, 255)));
}

TEST_CASE("check_equivalence accepts reordered sums of products in float32 / float16 / bfloat16") {
  const std::uint64_t seed = 31;
  CAPTURE(seed);
  unity::random_engine random{seed};
  for (int round = 0; round < 60; ++round) {
    const auto element = std::array{dtype::float32, dtype::float16, dtype::bfloat16}[random.below(3)];
    const auto terms = 2 + random.below(6);
    const auto seen = random.below(3);  // how the sum is used: itself, in a decision, or in steps of 0.01
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < terms; ++i) {
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(random.below(i + 1)), i);
    }
    const auto graph = [&](bool ordered, double factor) {
      builder b{standard()};
      value_id sum{};
      for (std::size_t i = 0; i < terms; ++i) {
        const auto k = std::to_string(ordered ? i : order[i]);
        const auto product = b.matmul(b.input("x" + k, {20, 30}, element), b.weight("w" + k, {30, 25}, element));
        sum = i == 0 ? product : b.add(sum, product);
      }
      sum = b.mul(sum, b.fill(factor, {}, element));
      const auto to_integers = [&](value_id v) { return b.apply("cast", {v}, {{"element", "int32"}})[0]; };
      return finish(b, {seen == 0   ? b.softmax(sum, 1)
                        : seen == 1 ? b.embedding(b.weight("t", {2, 8}, element), to_integers(b.relu(b.tanh(sum))))
                                    : to_integers(b.mul(sum, b.fill(100, {}, element)))});
    };
    CAPTURE(round, name_of(element), terms, seen);
    const auto same = check_equivalence(standard(), graph(true, 1), graph(false, 1), {.numbers = arithmetic::rounded});
    CAPTURE(same.problem, same.max_rel_error);
    CHECK(same.passed);
    if (seen != 1 && element != dtype::bfloat16) {
      CHECK_FALSE(
          check_equivalence(standard(), graph(true, 1), graph(false, 1.5), {.numbers = arithmetic::rounded}).passed);
    }
  }
}

TEST_CASE("check_equivalence decides deep products without overflow or underflow") {
  const auto graph = [](std::size_t other) {
    builder b{standard()};
    auto x = b.input("x", {16, 64});
    for (std::size_t i = 0; i < 10; ++i) {
      const auto name = "w" + std::to_string(i) + (i == other ? "'" : "");
      x = b.mul(b.matmul(x, b.weight(name, {64, 64})), x);
    }
    return finish(b, {x});
  };
  check_equal(graph(100), graph(100));
  check_different(graph(100), graph(0));
  check_different(graph(100), graph(9));
}

TEST_CASE("check_equivalence gives the same error and sizes for the same seed") {
  const auto graph = [](const char* function) {
    builder b{standard()};
    return finish(b, {b.apply(function, {b.matmul(b.input("x", {30, 40}), b.weight("w", {40, 50}))})[0]});
  };
  const auto check = [&](std::uint64_t seed) {
    return check_equivalence(standard(), graph("sigmoid"), graph("gelu"), {.seed = seed});
  };
  const auto a = check(5);
  CHECK_FALSE(a.passed);
  CHECK(a.max_rel_error > 0);
  CHECK(check(5).max_rel_error == a.max_rel_error);
  CHECK(check(5).sizes == a.sizes);
  CHECK(check(6).max_rel_error != a.max_rel_error);
}

}  // namespace tests_of_equivalence
