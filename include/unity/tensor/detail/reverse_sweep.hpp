// Reverse accumulation over a graph, appended to a graph that is being built.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// Recomputes values of the swept graph that the builder's graph lacks, each once and only if an adjoint needs it. Skips
// nodes without kind.
class reverse_sweep {
 public:
  // known(v): the value in the builder's graph that equals v; the null id if there is none.
  // append(n, problem): appends the adjoint of a node.
  using lookup = std::function<value_id(value_id)>;
  using appender = std::function<std::vector<value_id>(node_id, const adjoint_problem&)>;

  reverse_sweep(body_builder& b, const tensor_graph& g, lookup known, appender append)
      : b_{b},
        graph_{g},
        known_{std::move(known)},
        append_{std::move(append)},
        active_(g.value_count()),
        values_(g.value_count()),
        gradients_(g.value_count()) {}

  // Requests the cotangent of v.
  void want(value_id v) { active_[v.index()] = true; }
  // Adds to the cotangent of v.
  void seed(value_id v, value_id cotangent) {
    auto& g = gradients_[v.index()];
    g = g.valid() ? b_.add("add", {g, cotangent}) : cotangent;
  }

  // Complexity: linear in the graph, plus what the adjoints append.
  void run();

  // The null id means zero.
  [[nodiscard]] value_id gradient(value_id v) const { return gradients_[v.index()]; }

 private:
  // Marks the values through which a gradient flows: those that depend on requested values through floating-point
  // values only.
  void mark_active();

  [[nodiscard]] std::vector<tensor_type> types_of(std::span<const value_id> values) const;

  void reverse(node_id n);

  value_id value(value_id v);

  body_builder& b_;
  const tensor_graph& graph_;
  lookup known_;
  appender append_;
  std::vector<bool> active_;
  std::vector<value_id> values_;     // in the builder's graph
  std::vector<value_id> gradients_;  // in the builder's graph
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_REVERSE_SWEEP)

namespace unity::tensor::detail {

UNITY_INLINE void reverse_sweep::run() {
  mark_active();
  for (auto i = graph_.node_count(); i-- > 0;) {
    reverse(node_id{i});
  }
}

UNITY_INLINE void reverse_sweep::mark_active() {
  for (const auto i : node_ids(graph_)) {
    bool any = false;
    for (const auto v : graph_.operands(i)) {
      any = any || active_[v.index()];
    }
    for (const auto v : graph_.results(i)) {
      active_[v.index()] = active_[v.index()] || (any && is_floating(graph_.type(v).element));
    }
  }
}

UNITY_INLINE std::vector<tensor_type> reverse_sweep::types_of(std::span<const value_id> values) const {
  std::vector<tensor_type> types;
  for (const auto v : values) {
    types.push_back(graph_.type(v));
  }
  return types;
}

UNITY_INLINE void reverse_sweep::reverse(node_id n) {
  adjoint_problem p;
  bool any_result = false;
  bool any_operand = false;
  for (const auto v : graph_.results(n)) {
    p.cotangents.push_back(active_[v.index()] ? gradients_[v.index()] : value_id{});
    any_result = any_result || p.cotangents.back().valid();
  }
  for (const auto v : graph_.operands(n)) {
    p.wanted.push_back(active_[v.index()]);
    any_operand = any_operand || p.wanted.back();
  }
  if (!any_result || !any_operand || !graph_.operation(n).kind.valid()) {
    return;
  }
  const auto inputs = types_of(graph_.operands(n));
  const auto outputs = types_of(graph_.results(n));
  p.inputs = inputs;
  p.outputs = outputs;
  p.operand = [this, n](std::size_t i) { return value(graph_.operands(n)[i]); };
  p.result = [this, n](std::size_t r) { return value(graph_.results(n)[r]); };
  const auto cotangents = append_(n, p);
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (p.wanted[i] && cotangents[i].valid()) {
      seed(graph_.operands(n)[i], cotangents[i]);
    }
  }
}

UNITY_INLINE value_id reverse_sweep::value(value_id v) {
  auto& slot = values_[v.index()];
  if (!slot.valid()) {
    slot = known_(v);
  }
  if (slot.valid()) {
    return slot;
  }
  const auto n = graph_.producer(v);
  std::vector<value_id> operands;
  for (const auto o : graph_.operands(n)) {
    operands.push_back(value(o));
  }
  const auto results = b_.add_all(graph_.operation(n), operands);
  for (std::size_t r = 0; r < results.size(); ++r) {
    values_[graph_.results(n)[r].index()] = results[r];
  }
  return values_[v.index()];
}

}  // namespace unity::tensor::detail

#endif
