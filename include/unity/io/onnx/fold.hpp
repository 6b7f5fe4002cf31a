// Constant folding during import, for the shape arithmetic that exporters leave in a graph. One row per operator.
#pragma once

#include <functional>
#include <map>
#include <string_view>

#include <unity/io/onnx/fold_arithmetic.hpp>

namespace unity::io::detail {

using fold_row = std::function<folded(const fold_node&)>;

// The operators of shape arithmetic.
[[nodiscard]] const std::map<std::string_view, fold_row>& fold_rows();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_FOLD)

#include <algorithm>
#include <cmath>
#include <optional>

#include <unity/io/onnx/fold_movement.hpp>

namespace unity::io::detail {

UNITY_INLINE const std::map<std::string_view, fold_row>& fold_rows() {
  static const std::map<std::string_view, fold_row> rows{
      {"Add", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a + b; }); }},
      {"Sub", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a - b; }); }},
      {"Mul", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a * b; }); }},
      {"Div", [](const fold_node& n) { return fold_division(n, false); }},
      {"Mod", [](const fold_node& n) { return fold_division(n, true); }},
      {"Min",
       [](const fold_node& n) {
         return combine(
             n, [](auto a, auto b) { return std::optional{std::min(a, b)}; },
             [](double a, double b) { return std::min(a, b); });
       }},
      {"Max",
       [](const fold_node& n) {
         return combine(
             n, [](auto a, auto b) { return std::optional{std::max(a, b)}; },
             [](double a, double b) { return std::max(a, b); });
       }},
      {"Equal", [](const fold_node& n) { return fold_comparison(n, std::equal_to<>{}); }},
      {"Less", [](const fold_node& n) { return fold_comparison(n, std::less<>{}); }},
      {"Greater", [](const fold_node& n) { return fold_comparison(n, std::greater<>{}); }},
      {"LessOrEqual", [](const fold_node& n) { return fold_comparison(n, std::less_equal<>{}); }},
      {"GreaterOrEqual", [](const fold_node& n) { return fold_comparison(n, std::greater_equal<>{}); }},
      {"And", [](const fold_node& n) { return fold_comparison(n, [](auto a, auto b) { return a != 0 && b != 0; }); }},
      {"Or", [](const fold_node& n) { return fold_comparison(n, [](auto a, auto b) { return a != 0 || b != 0; }); }},
      {"Not", [](const fold_node& n) { return fold_unary(n, [](double x) { return x == 0 ? 1.0 : 0.0; }); }},
      {"Neg", [](const fold_node& n) { return fold_unary(n, [](double x) { return -x; }); }},
      {"Abs", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::fabs(x); }); }},
      {"Sqrt", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::sqrt(x); }); }},
      {"Floor", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::floor(x); }); }},
      {"Ceil", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::ceil(x); }); }},
      {"Reciprocal", [](const fold_node& n) { return fold_unary(n, [](double x) { return 1.0 / x; }); }},
      {"Cast", fold_cast},
      {"Reshape", fold_reshape},
      {"Unsqueeze", fold_unsqueeze},
      {"Squeeze", fold_squeeze},
      {"Transpose", fold_transpose},
      {"Gather", fold_gather},
      {"Concat", fold_concat},
      {"Slice", fold_slice},
      {"ConstantOfShape", fold_constant_of_shape},
      {"Expand", fold_expand},
      {"Where", fold_where},
      {"Range", fold_range},
      {"ReduceProd", fold_product},
  };
  return rows;
}

}  // namespace unity::io::detail

#endif
