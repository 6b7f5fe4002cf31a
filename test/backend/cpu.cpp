#include <unity/backend/cpu.hpp>
#include <unity/backend/cpu/reduction.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elements.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "operator_suite.hpp"

namespace tests_of_cpu {

namespace {

using namespace unity::backend;
using namespace unity::backend::test;
using unity::random_engine;
using unity::tensor::dtype;
using unity::tensor::layout;
using unity::tensor::shape;
using unity::tensor::test::attributes;
using unity::tensor::test::type;
using types = std::vector<tensor_type>;
using contents = std::vector<std::vector<std::byte>>;
using unity::test::message_of;

tensor_type constant(tensor_type t) {
  t.constant = true;
  return t;
}
tensor_type by_columns(tensor_type t) {
  t.order = layout::column_major;
  return t;
}

// Larger than a tile, than a cache line, and than the share of one thread.
struct large_case {
  std::string name;
  attributes given;
  types inputs;
  layout order = layout::row_major;
};

suite_operands operands_of(const large_case& c) {
  random_engine random{unity::hash_bytes(c.name)};
  suite_operands operands;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    operands.add(random_values(c.name, i, c.inputs[i], random), c.inputs[i]);
  }
  return operands;
}

operation make(const large_case& c) {
  auto op = standard().make_operation(c.name, c.given);
  op.order = c.order;
  return op;
}

contents run(const large_case& c, const suite_operands& operands, int threads) {
  cpu_backend b{standard(), {.threads = threads}};
  const auto op = make(c);
  const auto outputs = *standard().infer(op, c.inputs);
  return run_kernel(b, b.prepare(op, c.inputs, outputs), c.inputs, outputs, operands.bytes);
}

// Checks against the double reference, on one thread and on several. Returns whether the two gave the same bytes.
bool check(const large_case& c) {
  const auto op = make(c);
  CAPTURE(describe(op, c.inputs));
  const auto outputs = *standard().infer(op, c.inputs);
  const auto operands = operands_of(c);
  const auto expected = unity::tensor::evaluate<double>(standard(), op, operands.numbers, c.inputs);
  const auto one = run(c, operands, 1);
  check_results(one, outputs, expected, 1e-5);
  bool same = true;
  for (const int threads : {2, 5}) {
    const auto several = run(c, operands, threads);
    check_results(several, outputs, expected, 1e-5);
    same = same && several == one;
  }
  return same;
}

// The largest relative error of f in [from, to].
double error_of(float (*f)(float), double (*exact)(double), double from, double to) {
  constexpr auto points = static_cast<int>(unity::test::cases(400000));
  double most = 0;
  for (int i = 0; i <= points; ++i) {
    const auto x = static_cast<float>(from + (to - from) * i / points);
    const auto y = exact(x);
    const auto scale = std::max(std::abs(y), static_cast<double>(std::numeric_limits<float>::min()));
    most = std::max(most, std::abs(static_cast<double>(f(x)) - y) / scale);
  }
  return most;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("cpu math functions have a relative error below 1e-6", "[cpu]") {
  namespace f = cpu::functions;
  CHECK(error_of(f::exp, std::exp, -87, 88.7) < 1e-6);
  CHECK(error_of(f::exp, std::exp, -1, 1) < 2e-7);
  CHECK(error_of(f::log, std::log, 1e-30, 1e-3) < 1e-6);
  CHECK(error_of(f::log, std::log, 1e-3, 4) < 1e-6);
  CHECK(error_of(f::log, std::log, 4, 1e30) < 1e-6);
  CHECK(error_of(f::tanh, std::tanh, -12, 12) < 1e-6);
  CHECK(error_of(f::tanh, std::tanh, -1e-3, 1e-3) < 1e-6);
  CHECK(error_of(f::erf, std::erf, -6, 6) < 1e-6);
  CHECK(error_of(f::erf, std::erf, -1e-3, 1e-3) < 1e-6);
  CHECK(error_of(f::sigmoid, sigmoid, -80, 80) < 1e-6);
}

TEST_CASE("cpu math functions are correct at infinities and NaN and in the subnormal range", "[cpu]") {
  namespace f = cpu::functions;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(f::exp(infinity) == infinity);
  CHECK(f::exp(100.0F) == infinity);
  CHECK(f::exp(-infinity) == 0.0F);
  CHECK(f::exp(-200.0F) == 0.0F);
  CHECK(f::exp(0.0F) == 1.0F);
  CHECK(f::exp(-100.0F) == Approx(3.78e-44).epsilon(0.05));  // subnormal
  CHECK(f::log(0.0F) == -infinity);
  CHECK(f::log(infinity) == infinity);
  CHECK(f::log(1.0F) == 0.0F);
  CHECK(f::log(1e-40F) == Approx(std::log(1e-40)).epsilon(1e-5));
  CHECK(std::isnan(f::log(-1.0F)));
  CHECK(f::tanh(infinity) == 1.0F);
  CHECK(f::tanh(-infinity) == -1.0F);
  CHECK(f::erf(infinity) == 1.0F);
  CHECK(f::erf(-5.0F) == -1.0F);
  CHECK(f::sigmoid(-infinity) == 0.0F);
  CHECK(f::sigmoid(infinity) == 1.0F);
  for (auto* each : {f::exp, f::log, f::tanh, f::erf, f::sigmoid, f::gelu}) {
    CHECK(std::isnan(each(nan)));
  }
}

TEST_CASE("large cpu element-wise operators are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  const auto x = type({37, 1024, 3});
  for (const std::string name :
       {"relu", "gelu", "tanh", "sigmoid", "exp", "log", "erf", "sqrt", "reciprocal", "negate", "abs"}) {
    CHECK(check({name, {}, {x}}));
  }
  for (const std::string name : {"add", "sub", "mul", "div", "pow", "maximum", "minimum"}) {
    CHECK(check({name, {}, {x, x}}));
    CHECK(check({name, {}, {x, type({1024, 1})}}));
    CHECK(check({name, {}, {type({3}), x}}));
    CHECK(check({name, {}, {x, type({})}}));
    CHECK(check({name, {}, {by_columns(type({130, 1025})), type({1025})}}));
    CHECK(check({name, {}, {by_columns(type({130, 1025})), type({130, 1025})}, layout::column_major}));
  }
  CHECK(check({"cast", {{"element", "int8"}}, {x}}));
  CHECK(check({"cast", {{"element", "float32"}}, {type({300, 257}, dtype::int64)}}));
  CHECK(check({"identity_matrix", {{"size", 300}}, {}}));
  CHECK(check({"identity_kernel", {{"channels", 64}, {"groups", 4}, {"kernel", {3, 3}}}, {}}));
}

TEST_CASE("large cpu data movements are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  CHECK(check({"transpose", {{"permutation", {1, 0}}}, {type({517, 1033})}}));
  CHECK(check({"transpose", {{"permutation", {0, 2, 1, 3}}}, {type({4, 65, 12, 64})}}));
  CHECK(check({"transpose", {{"permutation", {3, 1, 0, 2}}}, {type({9, 33, 12, 40})}}));
  CHECK(check({"transpose", {{"permutation", {0, 2, 1}}}, {by_columns(type({5, 130, 257}))}}));
  CHECK(check({"transpose", {{"permutation", {0, 2, 1}}}, {type({5, 130, 257}, dtype::int8)}}));
  CHECK(check({"concat", {{"axis", 1}}, {type({64, 100, 7}), by_columns(type({64, 33, 7})), type({64, 1, 7})}}));
  CHECK(check({"split", {{"axis", 2}, {"sizes", {1, 60, 3}}}, {type({40, 70, 64})}}));
  CHECK(check(
      {"slice", {{"axes", {0, 2}}, {"starts", {1, 3}}, {"ends", {63, 65}}, {"steps", {1, 2}}}, {type({64, 70, 65})}}));
  CHECK(check({"pad", {{"pads", {0, 1, 2, 3, 0, 4}}, {"value", 1.5}}, {type({30, 40, 50})}}));
  CHECK(check({"expand", {{"dims", {30, 40, 50}}}, {type({40, 1})}}));
  CHECK(check({"reshape", {{"dims", {20, 300, 50}}}, {by_columns(type({30, 200, 50}))}}));
  CHECK(check({"embedding", {}, {type({7, 300}), type({50, 33}, dtype::int32)}}));
  CHECK(check({"embedding_bag", {}, {type({7, 600}), type({50, 33}, dtype::int32)}}));
}

TEST_CASE("large cpu reductions are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  const std::vector<std::string> names{"reduce_mean", "reduce_sum", "reduce_max"};
  for (std::size_t i = 0; i < unity::test::cases(names.size()); ++i) {
    const auto& name = names[i];
    CHECK(check({name, {{"axes", {1}}}, {type({70, 1000})}}));
    CHECK(check({name, {{"axes", {0}}}, {type({500, 1001})}}));
    CHECK(check({name, {{"axes", {0, 2}}}, {type({50, 60, 70})}}));
    CHECK(check({name, {{"axes", {1}}}, {type({50, 60, 70})}}));
    CHECK(check({name, {{"axes", {0, 1, 2}}}, {type({50, 60, 70})}}));
    CHECK(check({name, {{"axes", {1}}}, {by_columns(type({700, 100}))}}));
    // Reductions with few results and many elements each, which are divided among threads.
    CHECK(check({name, {{"axes", {0}}}, {type({300001})}}));
    CHECK(check({name, {{"axes", {0}}}, {type({40001, 7})}}));
    CHECK(check({name, {{"axes", {0, 2}}}, {type({130, 3, 1501})}}));
    CHECK(check({name, {{"axes", {1}}}, {type({2, 100001}, dtype::float64)}}));
  }
  CHECK(check({"reduce_sum", {{"axes", {1}}}, {type({70, 1000}, dtype::int64)}}));
  CHECK(check({"reduce_sum", {{"axes", {1}}}, {type({70, 1000}, dtype::uint8)}}));
  CHECK(check({"global_average_pool", {}, {type({2, 300, 14, 14})}}));
  CHECK(check({"global_max_pool", {}, {type({2, 300, 14, 14})}}));
}

TEST_CASE("large cpu normalizations are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  CHECK(check({"softmax", {{"axis", 2}}, {type({12, 64, 128})}}));
  CHECK(check({"softmax", {{"axis", 1}}, {type({12, 64, 128})}}));
  CHECK(check({"softmax", {{"axis", 1}}, {by_columns(type({64, 1000}))}}));
  CHECK(check({"layer_norm", {{"axis", 2}}, {type({2, 128, 768}), type({768}), type({768})}}));
  CHECK(check({"layer_norm", {{"axis", 1}}, {type({40, 16, 48}), type({16, 48}), type({16, 48})}}));
  const auto c = type({96});
  CHECK(check({"batch_norm", {}, {type({2, 96, 28, 28}), c, c, c, c}}));
}

TEST_CASE("large cpu pooling operators are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  const auto x = type({2, 48, 57, 56});
  CHECK(check(
      {"max_pool", {{"kernel", {3, 3}}, {"stride", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"padding", "explicit"}}, {x}}));
  CHECK(check({"max_pool", {{"kernel", {3, 2}}, {"stride", {2, 3}}, {"dilation", {2, 1}}, {"ceil_mode", 1}}, {x}}));
  for (const int counted : {0, 1}) {
    CHECK(check({"average_pool", {{"kernel", {3, 3}}, {"padding", "same"}, {"count_include_pad", counted}}, {x}}));
    CHECK(check({"average_pool",
                 {{"kernel", {4, 4}},
                  {"stride", {3, 3}},
                  {"pads", {1, 1, 0, 0}},
                  {"ceil_mode", 1},
                  {"count_include_pad", counted}},
                 {x}}));
  }
}

TEST_CASE("a cpu maximum of a window without finite elements is -infinity", "[cpu]") {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto maxima = [](const shape& dims, std::vector<double> elements, const attributes& given) {
    const large_case c{"max_pool", given, {type(dims)}};
    suite_operands operands;
    operands.add({dims, std::move(elements)}, c.inputs[0]);
    const auto outputs = *standard().infer(make(c), c.inputs);
    return decode<double>(run(c, operands, 2)[0].data(), outputs[0]).data;
  };
  const attributes pairs{{"kernel", {1, 2}}, {"stride", {1, 2}}};
  CHECK(maxima({1, 1, 1, 8}, {-infinity, -infinity, -infinity, 2, nan, -infinity, -3e38, nan}, pairs) ==
        std::vector{-infinity, 2.0, -infinity, static_cast<double>(-3e38F)});
  // The two taps are on the padding before and after the image.
  const attributes apart{{"kernel", {1, 2}}, {"dilation", {1, 3}}, {"pads", {0, 1, 0, 1}}, {"padding", "explicit"}};
  CHECK(maxima({1, 1, 1, 2}, {1, 2}, apart) == std::vector{-infinity});
}

TEST_CASE("large cpu matrix products are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  for (const bool packed : {false, true}) {
    const auto weight = [packed](tensor_type t) { return packed ? constant(std::move(t)) : t; };
    for (const auto order : {layout::row_major, layout::column_major}) {
      const auto as = [order](const shape& s) { return order == layout::row_major ? type(s) : by_columns(type(s)); };
      for (const auto result : {layout::row_major, layout::column_major}) {
        CHECK(check({"matmul", {{"activation", "gelu"}}, {as({130, 257}), weight(type({257, 96}))}, result}));
        CHECK(check({"matmul", {}, {type({130, 257}), weight(as({257, 96}))}, result}));
        CHECK(check({"matmul", {{"activation", "relu"}}, {as({4, 1, 33, 64}), weight(type({1, 3, 64, 40}))}, result}));
        CHECK(check({"matmul", {}, {type({6, 33, 64}), weight(as({6, 64, 40}))}, result}));
        CHECK(check({"linear",
                     {{"activation", "tanh"}},
                     {as({2, 65, 128}), weight(type({128, 96})), weight(type({96}))},
                     result}));
      }
    }
    CHECK(check({"linear", {}, {type({300}), weight(type({300, 200})), type({200})}}));
    CHECK(check({"matmul", {}, {type({1, 1024}), weight(type({1024, 512}))}}));
  }
}

TEST_CASE("large cpu convolutions are correct and bitwise equal on 1 to 5 threads", "[cpu]") {
  for (const bool packed : {false, true}) {
    const auto weight = [packed](const shape& s) { return packed ? constant(type(s)) : type(s); };
    const attributes same{{"padding", "same"}, {"activation", "relu"}};
    CHECK(check({"conv2d", same, {type({1, 64, 28, 28}), weight({32, 64, 1, 1}), type({32})}}));
    CHECK(check({"conv2d", same, {type({2, 32, 28, 28}), weight({40, 32, 3, 3})}}));
    CHECK(check({"conv2d",
                 {{"stride", {2, 2}}, {"padding", "same"}},
                 {type({1, 3, 57, 56}), weight({16, 3, 7, 7}), type({16})}}));
    CHECK(check({"conv2d",
                 {{"groups", 8}, {"padding", "same"}, {"activation", "sigmoid"}},
                 {type({1, 64, 14, 14}), weight({64, 8, 3, 3})}}));
    CHECK(check({"conv2d",
                 {{"groups", 48}, {"dilation", {2, 2}}},
                 {type({1, 48, 28, 28}), weight({48, 1, 3, 3}), type({48})}}));
    CHECK(check(
        {"conv2d", {{"stride", {2, 1}}, {"pads", {0, 2, 1, 0}}}, {type({1, 13, 17, 19}), weight({11, 13, 4, 3})}}));
  }
}

TEST_CASE("cpu attention with constant weights is correct and needs little workspace", "[cpu]") {
  const auto weight = [](const shape& s) { return constant(type(s)); };
  const auto x = type({2, 40, 64});
  const auto square = weight({64, 64});
  const large_case attention{"attention", {{"heads", 4}}, {x, x, x, square, square, square, square}};
  CHECK(check(attention));
  cpu_backend b{standard(), {.threads = 1}};
  const auto op = make(attention);
  const auto k = b.prepare(op, attention.inputs, *standard().infer(op, attention.inputs));
  CHECK(k.packed_size(0) == 0);
  std::size_t intermediates = 0;
  const auto body = *standard().body(op, attention.inputs);
  for (const auto v : unity::value_ids(body)) {
    intermediates += byte_count(body.type(v));
  }
  CHECK(k.workspace() < intermediates / 2);
}

TEST_CASE("a cpu LSTM cell is correct and its workspace holds no transposed weights", "[cpu]") {
  const auto weight = [](const shape& s, bool packed) { return packed ? constant(type(s)) : type(s); };
  const auto state = type({16, 96});
  for (const bool packed : {false, true}) {
    const types inputs{type({16, 100}),        state, state, weight({4, 96, 100}, packed), weight({4, 96, 96}, packed),
                       weight({4, 96}, packed)};
    const large_case cell{"lstm_cell", {}, inputs};
    CHECK(check(cell));
    cpu_backend b{standard(), {.threads = 1}};
    const auto op = make(cell);
    const auto k = b.prepare(op, cell.inputs, *standard().infer(op, cell.inputs));
    CAPTURE(k.workspace());
    CHECK(k.workspace() < byte_count(cell.inputs[4]));
  }
}

TEST_CASE("a cpu cast from float64 to a 16-bit float rounds once", "[cpu]") {
  // Values next to the midpoint of two neighbours; rounding to float32 first would make them ties (double rounding).
  constexpr double tiny = 0x1p-40;
  const dense<double> near_ties{{4}, {1 + 0x1p-11 + tiny, 1 + 0x3p-11 - tiny, -1 - 0x1p-8 - tiny, 1 + 0x3p-8 - tiny}};
  const auto from = type({4}, dtype::float64);
  cpu_backend b{standard(), {.threads = 1}};
  for (const auto element : {dtype::float16, dtype::bfloat16}) {
    const auto op = standard().make_operation("cast", {{"element", unity::tensor::name_of(element)}});
    const types out{type({4}, element)};
    const auto found = run_kernel(b, b.prepare(op, types{from}, out), types{from}, out, {encode(near_ties, from)});
    CHECK(found[0] == encode(near_ties, out[0]));
  }
}

TEST_CASE("a cpu chain may have results of different shapes and element types", "[cpu]") {
  unity::tensor::builder b{standard()};
  const auto x = b.input("x", {70, 130});
  const auto row = b.input("row", {130});
  const auto shifted = b.apply("exp", {row})[0];
  const auto sum = b.add(x, shifted);
  const auto half = b.input("half", {});
  const auto scaled = b.apply("mul", {sum, half})[0];
  const auto counted = b.apply("cast", {scaled}, {{"element", "int32"}})[0];
  const auto region = std::move(b).finish({scaled, shifted, counted, sum});
  random_engine random{1};
  for (const int threads : {1, 3}) {
    cpu_backend cpu{standard(), {.threads = threads}};
    check_region(cpu, region, 1e-5, random);
  }
}

TEST_CASE("the cpu backend uses and reports the requested number of threads", "[cpu]") {
  const cpu_backend b{standard(), {.threads = 3}};
  const auto d = b.description();
  CHECK(b.threads() == 3);
  CHECK(d.backend == "cpu");
  CHECK(d.device.ends_with(", 3 threads"));
  REQUIRE(d.versions.size() == 1);
  CHECK(d.versions[0].first == "oneDNN");
  CHECK(d.versions[0].second.starts_with("2."));
  CHECK(cpu_backend{standard()}.threads() >= 1);
}

TEST_CASE("the cpu backend refuses unsupported operators and oversized allocations", "[cpu]") {
  cpu_backend b{standard(), {.threads = 1}};
  const types one{type({2, 3})};
  const auto prepare = [&](const char* name, const attributes& a, const types& in) {
    return message_of([&] { static_cast<void>(b.prepare(standard().make_operation(name, a), in, one)); });
  };
  CHECK(prepare("input", {{"name", "x"}, {"dims", {2, 3}}}, {}) ==
        "cpu kernel of input: no operands; expected an operator with a known meaning");
  CHECK(prepare("opaque", {{"name", "m"}, {"signature", "s"}, {"elements", {0}}, {"dims", {2, 2, 3}}}, one) ==
        "cpu kernel of opaque: operands float32[2,3]; expected an operator with a known meaning");
  CHECK(prepare("add", {}, one) == "cpu kernel of add: operands float32[2,3]; expected 2 operand(s)");
  CHECK(prepare("transpose", {{"permutation", {1, 0}}}, one) ==
        "cpu kernel of transpose: operands float32[2,3]; expected results of the types that its operands give");

  unity::tensor::builder builder{standard()};
  const auto x = builder.input("x", {2, 3});
  const auto region = std::move(builder).finish({builder.apply("reduce_sum", {x}, {{"axes", {1}}})[0]});
  CHECK(message_of([&] { static_cast<void>(b.prepare_chain(region)); }) ==
        "chain of operators: operator reduce_sum; expected element-wise operators");

  const auto too_much = std::size_t{1} << 60U;
  CHECK(message_of([&] { static_cast<void>(b.allocate(too_much)); }).find(std::to_string(too_much)) !=
        std::string::npos);
}

}  // namespace tests_of_cpu
