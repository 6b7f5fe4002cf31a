// Evaluates a graph that is being checked: opaque operators get a meaning, and NaNs are reported.
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

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/detail/opaque_values.hpp>
#include <unity/tensor/detail/source_roles.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor::detail {

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
