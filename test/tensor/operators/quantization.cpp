#include <unity/tensor/operators/quantization.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/tensor/evaluate.hpp>

#include "../testing.hpp"

namespace tests_of_quantization {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

using values = std::vector<dense<double>>;

values run_on_types(const std::string& name, attributes a, const values& operands, const types& inputs) {
  return evaluate<double>(standard(), standard().make_operation(name, a), operands, inputs);
}

// The formula of ONNX.
double rounded(double x, double zero_point, dtype element) {
  const auto low = element == dtype::int8 ? -128.0 : 0.0;
  return std::clamp(std::nearbyint(x) + zero_point, low, low + 255);
}

dense<double> random_bytes(const shape& dims, dtype element, unity::random_engine& random) {
  dense<double> t{dims};
  for (auto& x : t.data) {
    x = static_cast<double>(element == dtype::int8 ? random.between(-128, 127) : random.between(0, 255));
  }
  return t;
}

dense<double> scalar(double x) { return {shape{}, {x}}; }

}  // namespace

TEST_CASE("dequantize scales the distance from the zero point") {
  const dense<double> x{{2, 3}, {-128, 0, 127, 5, 6, 7}};
  const types inputs{type({2, 3}, dtype::int8), type({3}), type({3}, dtype::int8)};
  const auto op = standard().make_operation("dequantize", {{"axis", 1}});
  const std::vector<dense<double>> operands{x, dense<double>{{3}, {0.5, 2, 4}}, dense<double>{{3}, {0, -1, 7}}};
  CHECK(evaluate<double>(standard(), op, operands, inputs)[0].data == std::vector<double>{-64, 2, 480, 2.5, 14, 0});
  CHECK(refusal_of("dequantize", {{"axis", 0}}, inputs) ==
        "one scale, or one per position along the axis in operand 1");
}

TEST_CASE("quantize rounds half to even then adds the zero point and saturates") {
  const dense<double> x{{6}, {1, 3, 5, -3, 1000, -1000}};
  CHECK(run_on_types("quantize", {{"element", "uint8"}}, {x, scalar(2)}, {type({6}), type({})})[0].data ==
        std::vector<double>{0, 2, 2, 0, 255, 0});
  CHECK(run_on_types("quantize", {{"element", "int8"}}, {x, scalar(2), scalar(-1)},
                     {type({6}), type({}), type({}, dtype::int8)})[0]
            .data == std::vector<double>{-1, 1, 1, -3, 127, -128});
  CHECK(refusal_of("quantize", {{"element", "int32"}}, {type({6}), type({})}) == "int8 or uint8 as result");
}

TEST_CASE("quantize and dequantize take scales per axis position or block") {
  unity::random_engine random{5};
  const auto x = random_tensor({2, 6, 3}, random);
  for (const std::int64_t block : {0, 1, 2, 3, 6}) {
    const auto dims = block == 0 ? shape{6} : shape{2, 6 / block, 3};
    dense<double> scale{dims};
    for (auto& s : scale.data) {
      s = 0.01 + 0.02 * random.unit();
    }
    const auto zero_point = random_bytes(dims, dtype::int8, random);
    const auto place = [&](const shape& p) {
      return static_cast<std::size_t>(block == 0 ? p[1] : (p[0] * (6 / block) + p[1] / block) * 3 + p[2]);
    };
    CAPTURE(block);
    const types inputs{type({2, 6, 3}), type(dims), type(dims, dtype::int8)};
    const auto found =
        run_on_types("quantize", {{"axis", 1}, {"block", block}, {"element", "int8"}}, {x, scale, zero_point}, inputs);
    CHECK(found[0] == tabulate({2, 6, 3}, [&](const shape& p) {
            return rounded(at(x, {p[0], p[1], p[2]}) / scale.data[place(p)], zero_point.data[place(p)], dtype::int8);
          }));
    const auto back = run_on_types("dequantize", {{"axis", 1}, {"block", block}}, {found[0], scale, zero_point},
                                   {type({2, 6, 3}, dtype::int8), type(dims), type(dims, dtype::int8)});
    CHECK(distance(back[0], tabulate({2, 6, 3}, [&](const shape& p) {
                     return (at(found[0], {p[0], p[1], p[2]}) - zero_point.data[place(p)]) * scale.data[place(p)];
                   })) < 1e-12);
  }
  CHECK(refusal_of("quantize", {{"axis", 1}, {"block", 4}, {"element", "int8"}}, {type({2, 6}), type({2, 2})}) ==
        "whole blocks along an axis within the rank in operand 0");
}

TEST_CASE("dynamic_quantize covers the range of the elements and 0") {
  const dense<double> x{{6}, {0, 2, -3, -2.4, 1.34, 0.5}};
  const auto found = run_all("dynamic_quantize", {}, {x});
  CHECK(found[0].data == std::vector<double>{153, 255, 0, 31, 221, 179});
  CHECK(found[1].data[0] == Approx(5.0 / 255));
  CHECK(found[2].data[0] == 153);
  CHECK(run_all("dynamic_quantize", {}, {dense<double>{{2}, {1, 2}}})[0].data == std::vector<double>{128, 255});
  const auto of_zeros = run_all("dynamic_quantize", {}, {dense<double>{{2}, {0, 0}}});
  CHECK(of_zeros[0].data == std::vector<double>{0, 0});
  CHECK(of_zeros[1].data[0] == 1);
  CHECK(of_zeros[2].data[0] == 0);
}

TEST_CASE("integer_matmul and quantized_matmul subtract zero points") {
  unity::random_engine random{6};
  const auto a = random_bytes({2, 3, 4}, dtype::uint8, random);
  const auto b = random_bytes({4, 5}, dtype::int8, random);
  const auto rows = random_bytes({3}, dtype::uint8, random);
  const auto columns = random_bytes({5}, dtype::int8, random);
  const auto expected = tabulate({2, 3, 5}, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t k = 0; k < 4; ++k) {
      sum += (at(a, {p[0], p[1], k}) - at(rows, {p[1]})) * (at(b, {k, p[2]}) - at(columns, {p[2]}));
    }
    return sum;
  });
  const auto u = [](const shape& dims) { return type(dims, dtype::uint8); };
  const auto s = [](const shape& dims) { return type(dims, dtype::int8); };
  CHECK(run_on_types("integer_matmul", {}, {a, b, rows, columns}, {u({2, 3, 4}), s({4, 5}), u({3}), s({5})})[0] ==
        expected);
  const dense<double> row_scales{{3}, {0.1, 0.02, 0.3}};
  const dense<double> scales{{5}, {0.01, 0.5, 0.1, 0.2, 0.03}};
  const types inputs{u({2, 3, 4}), type({3}), u({3}), s({4, 5}), type({5}), s({5}), type({}), u({})};
  CHECK(run_on_types("quantized_matmul", {}, {a, row_scales, rows, b, scales, columns, scalar(7), scalar(100)},
                     inputs)[0] == tabulate({2, 3, 5}, [&](const shape& p) {
          const auto factor = at(row_scales, {p[1]}) * at(scales, {p[2]}) / 7;
          return rounded(at(expected, {p[0], p[1], p[2]}) * factor, 100, dtype::uint8);
        }));
  CHECK(refusal_of("integer_matmul", {}, {u({3, 4}), s({4, 5}), u({5})}) ==
        "one number, or one each in operand 2");
}

TEST_CASE("integer_conv2d and quantized_conv2d pad with the zero point") {
  unity::random_engine random{7};
  const auto x = random_bytes({1, 2, 4, 4}, dtype::uint8, random);
  const auto w = random_bytes({3, 2, 3, 3}, dtype::int8, random);
  const auto zero_points = random_bytes({3}, dtype::int8, random);
  const dense<double> bias{{3}, {1000, -2000, 30}};
  const auto expected = tabulate({1, 3, 4, 4}, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t c = 0; c < 2; ++c) {
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = 0; j < 3; ++j) {
          const auto row = p[2] + i - 1;
          const auto column = p[3] + j - 1;
          const bool within = row >= 0 && row < 4 && column >= 0 && column < 4;
          sum += within ? (at(x, {0, c, row, column}) - 11) * (at(w, {p[1], c, i, j}) - at(zero_points, {p[1]})) : 0;
        }
      }
    }
    return sum;
  });
  const auto image = type({1, 2, 4, 4}, dtype::uint8);
  const auto weights = type({3, 2, 3, 3}, dtype::int8);
  const auto one = type({}, dtype::uint8);
  const auto each = type({3}, dtype::int8);
  CHECK(run_on_types("integer_conv2d", {{"pads", {1, 1, 1, 1}}}, {x, w, scalar(11), zero_points},
                     {image, weights, one, each})[0] == expected);
  const dense<double> scales{{3}, {0.01, 0.5, 0.1}};
  CHECK(run_on_types("quantized_conv2d", {{"padding", "same"}},
                     {x, scalar(0.05), scalar(11), w, scales, zero_points, scalar(3), scalar(-5), bias},
                     {image, type({}), one, weights, type({3}), each, type({}), type({}, dtype::int8),
                      type({3}, dtype::int32)})[0] == tabulate({1, 3, 4, 4}, [&](const shape& p) {
          const auto sum = at(expected, {0, p[1], p[2], p[3]}) + at(bias, {p[1]});
          return rounded(sum * (0.05 * at(scales, {p[1]}) / 3), -5, dtype::int8);
        }));
}

}  // namespace tests_of_quantization
