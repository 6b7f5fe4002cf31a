// Evaluates a graph that is being checked: opaque operators get a meaning, NaNs are reported, and the arithmetic of the
// element types tells differences from rounding.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/source_values.hpp>

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
  rounded_output(dtype element, const value_rounding& rounding) : is_real_{is_floating(element)}, rounding_{rounding} {}

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
  value_rounding rounding_;
  double noise_ = 0;
  double error_ = 0;
};

template <class Scalar>
class checked_evaluation {
 public:
  checked_evaluation(const algebra& a, const tensor_graph& g) : algebra_{a}, graph_{g} {}
  // rounded: by index of node: whether its results are rounded to their element types; empty: none are.
  checked_evaluation(const algebra& a, const tensor_graph& g, std::vector<bool> rounded)
    requires std::same_as<Scalar, double>
      : algebra_{a}, graph_{g}, rounded_{std::move(rounded)} {}

  [[nodiscard]] std::vector<dense<Scalar>> run(const source_values& sources) {
    problem_.clear();
    const auto results = [&](node_id n, std::span<const Scalar* const> operands) {
      auto values = results_of(n, operands, sources);
      round(n, values);
      note_nan(n, values);
      return values;
    };
    return evaluate_nodes<Scalar>(algebra_, graph_, results, 0);
  }

  // Evaluates, and scales a weight at its first use if the result would otherwise grow or vanish from node to node.
  void calibrate(source_values& sources)
    requires std::floating_point<Scalar>
  {
    used_.clear();
    const auto results = [&](node_id n, std::span<const Scalar* const> operands) {
      auto values = results_of(n, operands, sources);
      rescale(n, values, sources);
      return values;
    };
    static_cast<void>(evaluate_nodes<Scalar>(algebra_, graph_, results, 0));
  }

  // Describes the first node that produced NaN; empty if there was none.
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  [[nodiscard]] std::vector<dense<Scalar>> results_of(node_id n, std::span<const Scalar* const> operands,
                                                      const source_values& sources) const {
    const auto& op = graph_.operation(n);
    const auto& d = algebra_.definition_of(op.kind);
    if (d.source != source_kind::none) {
      return {sources.get<Scalar>(op, graph_.type(graph_.results(n)[0]))};
    }
    std::vector<tensor_type> types;
    for (const auto v : graph_.operands(n)) {
      types.push_back(graph_.type(v));
    }
    if (std::holds_alternative<opaque>(d.body)) {
      return evaluate_opaque<Scalar>(algebra_, op, operands, types);
    }
    return evaluate_at<Scalar>(algebra_, op, operands, types, 0);
  }

  void round(node_id n, std::vector<dense<Scalar>>& values) const {
    if constexpr (std::same_as<Scalar, double>) {
      for (std::size_t r = 0; n.index() < rounded_.size() && rounded_[n.index()] && r < values.size(); ++r) {
        round_to(graph_.type(graph_.results(n)[r]).element, values[r].data);
      }
    }
  }

  void note_nan(node_id n, const std::vector<dense<Scalar>>& values) {
    if constexpr (std::floating_point<Scalar>) {
      for (const auto& v : values) {
        for (const auto x : v.data) {
          if (std::isnan(x) && problem_.empty()) {
            problem_ = fmt::format("node {} ({}) gives NaN", n, algebra_.signature(graph_.operation(n).kind).name);
          }
        }
      }
    }
  }

  [[nodiscard]] bool is_view(node_id n) const {
    return std::holds_alternative<view>(algebra_.definition_of(graph_.operation(n).kind).body);
  }
  // The weight that a value is, directly or through views; the null id otherwise.
  [[nodiscard]] node_id weight_behind(value_id v) const {
    auto n = graph_.producer(v);
    while (is_view(n) && graph_.operands(n).size() == 1) {
      n = graph_.producer(graph_.operands(n)[0]);
    }
    const auto& type = graph_.type(graph_.results(n)[0]);
    const auto kind = algebra_.definition_of(graph_.operation(n).kind).source;
    return kind == source_kind::constant && is_floating(type.element) ? n : node_id{};
  }

  // The largest operand weight that was not used before, the last one of equal size: products are linear in it. Null if
  // there is none.
  node_id take_weight(node_id n) {
    node_id weight;
    std::int64_t most = 0;
    for (const auto v : graph_.operands(n)) {
      const auto w = weight_behind(v);
      const auto size = element_count(graph_.type(v).dims);
      if (w.valid() && used_.insert(w).second && size >= most) {
        weight = w;
        most = size;
      }
    }
    return weight;
  }

  void rescale(node_id n, std::vector<dense<Scalar>>& values, source_values& sources) {
    const auto weight = is_view(n) ? node_id{} : take_weight(n);
    double squares = 0;
    for (const auto x : values[0].data) {
      squares += static_cast<double>(x * x);
    }
    const auto size = std::sqrt(squares / static_cast<double>(values[0].data.size()));
    const bool is_off = size > 0 && std::isfinite(size) && (size < 0.5 || size > 2);
    if (weight.valid() && is_off) {
      sources.scale(algebra_.read(graph_.operation(weight)).word("name"), 1 / size);
      for (auto& x : values[0].data) {
        x = static_cast<Scalar>(x / size);
      }
    }
  }

  const algebra& algebra_;
  const tensor_graph& graph_;
  std::vector<bool> rounded_{};
  std::set<node_id> used_;
  std::string problem_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_CHECKED_EVALUATION)

#include <algorithm>
#include <limits>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::tensor::detail {

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
  const bool is_exact = !is_real_ && !(rounding_.varies && rounding_.unit > 0);
  if (is_exact) {
    return error_ > 0;
  }
  const auto noise = is_real_ ? larger_noise * noise_ + tolerance : 1 - std::pow(1 - noise_, larger_noise);
  return error_ > noise + least_units * rounding_.unit;
}

}  // namespace unity::tensor::detail

#endif
