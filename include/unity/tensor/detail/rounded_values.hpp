// Evaluates in the arithmetic of the element types, to tell differences between graphs from rounding.
#pragma once

#include <vector>

#include <unity/core/config.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/detail/source_roles.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

// The rounding of a value.
struct value_rounding {
  bool varies = false;  // depends on a source without given data
  double unit = 0;      // largest unit roundoff among the value and all it depends on; 0: only integers

  void join(const value_rounding& o);
};

// Indexed by value.
[[nodiscard]] std::vector<value_rounding> roundings_of(const algebra& a, const tensor_graph& g,
                                                       const source_values& sources);

// Indexed by node: whether its results are the same at every point. Empty unless real numbers decide an integer among
// these results, such as a bucket.
[[nodiscard]] std::vector<bool> fixed_decisions(const tensor_graph& g, const std::vector<value_rounding>& values);

// The largest difference relative to the largest element. NaN equals NaN.
[[nodiscard]] double relative_error(const dense<double>& a, const dense<double>& b);

// One output of two graphs, each evaluated in the arithmetic of its element types. Equal graphs round in different
// places. The noise is estimated on the first graph, as its distance from real arithmetic.
class rounded_output {
 public:
  rounded_output(dtype element, const value_rounding& how) : is_real_{is_floating(element)}, how_{how} {}

  // Whether the graphs differ at a point by more than rounding explains and more than `tolerance`.
  // real: the output of the first graph in real arithmetic, except for decisions that are the same at every point: each
  // of these is either right or wrong.
  [[nodiscard]] bool differs(const dense<double>& real, const dense<double>& first, const dense<double>& second,
                             double tolerance);
  // The difference at the last point.
  [[nodiscard]] double error() const noexcept { return error_; }

 private:
  // For integers: the fraction of elements that differ.
  [[nodiscard]] double distance(const dense<double>& a, const dense<double>& b) const;

  bool is_real_;
  value_rounding how_;
  double noise_ = 0;
  double error_ = 0;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ROUNDED_VALUES)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::tensor::detail {

// Half the distance from 1 to the next number of the type; 0 for integers and bools.
[[nodiscard]] constexpr double unit_roundoff(dtype t) noexcept {
  switch (t) {
    case dtype::float64: return 0x1p-53;
    case dtype::float32: return 0x1p-24;
    case dtype::float16: return 0x1p-11;
    case dtype::bfloat16: return 0x1p-8;
    default: return 0;
  }
}

UNITY_INLINE void value_rounding::join(const value_rounding& o) {
  varies = varies || o.varies;
  unit = std::max(unit, o.unit);
}

UNITY_INLINE std::vector<value_rounding> roundings_of(const algebra& a, const tensor_graph& g,
                                                      const source_values& sources) {
  std::vector<value_rounding> values(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto& op = g.operation(n);
    value_rounding of_operands;
    of_operands.varies = a.definition_of(op.kind).source != source_kind::none && !sources.are_given(op);
    for (const auto v : g.operands(n)) {
      of_operands.join(values[v.index()]);
    }
    for (const auto v : g.results(n)) {
      values[v.index()] = of_operands;
      values[v.index()].join({false, unit_roundoff(g.type(v).element)});
    }
  }
  return values;
}

UNITY_INLINE std::vector<bool> fixed_decisions(const tensor_graph& g, const std::vector<value_rounding>& values) {
  std::vector<bool> fixed(g.node_count());
  bool decides = false;
  for (const auto n : node_ids(g)) {
    for (const auto v : g.results(n)) {
      fixed[n.index()] = !values[v.index()].varies;
      decides = decides || (fixed[n.index()] && values[v.index()].unit > 0 && !is_floating(g.type(v).element));
    }
  }
  return decides ? fixed : std::vector<bool>{};
}

UNITY_INLINE double relative_error(const dense<double>& a, const dense<double>& b) {
  constexpr double least_scale = 1e-8;
  double scale = least_scale;
  double error = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    if (std::isfinite(a.data[i])) {
      scale = std::max(scale, std::abs(a.data[i]));
    }
    if (a.data[i] != b.data[i] && !(std::isnan(a.data[i]) && std::isnan(b.data[i]))) {
      const auto difference = std::abs(a.data[i] - b.data[i]);
      error = std::isfinite(difference) ? std::max(error, difference) : std::numeric_limits<double>::infinity();
    }
  }
  return error / scale;
}

UNITY_INLINE double rounded_output::distance(const dense<double>& a, const dense<double>& b) const {
  if (is_real_) {
    return relative_error(a, b);
  }
  std::size_t others = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    // Doubles do not represent the last digits of integers beyond 2^53.
    others += std::abs(a.data[i] - b.data[i]) > 0x1p-50 * std::abs(a.data[i]) ? 1 : 0;
  }
  return static_cast<double>(others) / static_cast<double>(std::max<std::size_t>(a.data.size(), 1));
}

UNITY_INLINE bool rounded_output::differs(const dense<double>& real, const dense<double>& first,
                                          const dense<double>& second, double tolerance) {
  constexpr double larger_noise = 8;  // for sums in another order, over few elements
  constexpr double least_units = 32;  // in case the first graph happens to be exact
  error_ = distance(first, second);
  noise_ = std::max(noise_, distance(real, first));
  const bool is_exact = !is_real_ && !(how_.varies && how_.unit > 0);
  if (is_exact) {
    return error_ > 0;
  }
  const auto noise = is_real_ ? larger_noise * noise_ + tolerance : 1 - std::pow(1 - noise_, larger_noise);
  return error_ > noise + least_units * how_.unit;
}

}  // namespace unity::tensor::detail

#endif
