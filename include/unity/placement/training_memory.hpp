// The operators of a training iteration of a graph, and the tensors that each reads and writes.
#pragma once

#include <unity/core/config.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::placement {

// Operators, in this order:
// - the forward pass of each node, named "conv2d 3";
// - "loss", which reads the outputs that depend on weights and writes their gradients;
// - the backward pass of each node from the last to the first, "conv2d 3 backward", which reads the operands and
//   results that the node's adjoint reads and the gradients of its results. Where several nodes read a value, "sum of
//   gradient of relu 3 (3)" adds each further gradient.
// Names are unique if those of inputs and weights are. Operations that move no data (a reshape, or an adjoint that
// passes a gradient on) are not operators: operand and result are one tensor.
// Inputs are the results of nodes without operands: inputs, weights and constants. Results are gradients of weights,
// and outputs that depend on no weight. The optimizer's step is not included.
// Complexity: linear in the graph, and an adjoint for each node.
// Throws: unity::error where a node between weights and outputs has no adjoint; names node and operator.
// Source: figure 4.3 of Jia's thesis shows operators of this granularity.
[[nodiscard]] memory_graph training_memory(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_TRAINING_MEMORY)

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::placement {

namespace detail {

class training_memory_builder {
 public:
  training_memory_builder(const tensor::algebra& a, const tensor::tensor_graph& g)
      : algebra_{a},
        graph_{g},
        training_{a, g},
        tensors_(g.value_count()),
        gradients_(g.value_count()),
        named_(g.value_count()) {}

  [[nodiscard]] memory_graph build() &&;

 private:
  void add_forward(node_id n);
  void add_loss();
  void add_backward(node_id n);
  void add_gradient(value_id v, tensor_id gradient);
  [[nodiscard]] std::string name_of(node_id n) const;
  [[nodiscard]] std::string source_name(node_id n) const;
  [[nodiscard]] std::string value_name(value_id v) const;
  [[nodiscard]] tensor_id add_gradient_of(value_id v);
  // The operand that is the node's only result in another shape: the same elements in the same order. Null if there is
  // none.
  [[nodiscard]] value_id renamed(const tensor::tensor_graph& g, node_id n) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  parallel::training_graph training_;
  memory_graph memory_{};
  std::vector<tensor_id> tensors_;    // by value
  std::vector<tensor_id> gradients_;  // by value: the sum of its gradients so far; null: zero
  std::vector<std::size_t> named_;    // by value: how many tensors are named as its gradient
};

[[nodiscard]] UNITY_INLINE std::vector<tensor::tensor_type> types_of(const tensor::tensor_graph& g,
                                                                     std::span<const value_id> values) {
  std::vector<tensor::tensor_type> types;
  for (const auto v : values) {
    types.push_back(g.type(v));
  }
  return types;
}

UNITY_INLINE value_id training_memory_builder::renamed(const tensor::tensor_graph& g, node_id n) const {
  if (g.operands(n).empty() || g.results(n).size() != 1) {
    return {};
  }
  const auto inputs = types_of(g, g.operands(n));
  const auto map = algebra_.index_map(g.operation(n), inputs);
  const auto parts = map ? tensor::shared_parts(*map, inputs, types_of(g, g.results(n))) : std::nullopt;
  if (!parts || parts->front().offset != bytes{}) {
    return {};
  }
  const auto v = g.operands(n)[parts->front().operand];
  return tensor::size_in_bytes(g.type(v)) == tensor::size_in_bytes(g.type(g.results(n)[0])) ? v : value_id{};
}

UNITY_INLINE std::string training_memory_builder::name_of(node_id n) const {
  return fmt::format("{} {}", algebra_.signature(graph_.operation(n).kind).name, n);
}

// The source's "name" attribute if it has one, otherwise the name of the node.
UNITY_INLINE std::string training_memory_builder::source_name(node_id n) const {
  const std::string_view kind = algebra_.signature(graph_.operation(n).kind).name;
  return kind == "input" || kind == "weight" ? algebra_.read(graph_.operation(n)).word("name") : name_of(n);
}

UNITY_INLINE std::string training_memory_builder::value_name(value_id v) const {
  const auto n = graph_.producer(v);
  const auto results = graph_.results(n);
  auto name = graph_.operands(n).empty() ? source_name(n) : name_of(n);
  for (std::size_t r = 0; r < results.size() && results.size() > 1; ++r) {
    name += results[r] == v ? fmt::format(", {}", r) : "";
  }
  return name;
}

UNITY_INLINE void training_memory_builder::add_forward(node_id n) {
  if (const auto same = renamed(graph_, n); same.valid()) {
    tensors_[graph_.results(n)[0].index()] = tensors_[same.index()];
    return;
  }
  std::vector<tensor_id> writes;
  for (const auto v : graph_.results(n)) {
    tensors_[v.index()] = memory_.add_tensor(value_name(v), tensor::size_in_bytes(graph_.type(v)));
    writes.push_back(tensors_[v.index()]);
  }
  if (!graph_.operands(n).empty()) {
    std::vector<tensor_id> reads;
    for (const auto v : graph_.operands(n)) {
      reads.push_back(tensors_[v.index()]);
    }
    memory_.add_operator(name_of(n), std::move(reads), std::move(writes));
  }
}

UNITY_INLINE tensor_id training_memory_builder::add_gradient_of(value_id v) {
  const auto number = ++named_[v.index()];
  return memory_.add_tensor(
      fmt::format("gradient of {}{}", value_name(v), number > 1 ? fmt::format(" ({})", number) : std::string{}),
      tensor::size_in_bytes(graph_.type(v)));
}

UNITY_INLINE void training_memory_builder::add_loss() {
  std::vector<tensor_id> reads;
  std::vector<tensor_id> writes;
  for (const auto v : graph_.outputs()) {
    if (!tensor::is_floating(graph_.type(v).element) || !training_.has_backward(graph_.producer(v))) {
      memory_.set_result(tensors_[v.index()]);
    } else if (!gradients_[v.index()].valid()) {
      gradients_[v.index()] = add_gradient_of(v);
      reads.push_back(tensors_[v.index()]);
      writes.push_back(gradients_[v.index()]);
    }
  }
  if (!writes.empty()) {
    memory_.add_operator("loss", std::move(reads), std::move(writes));
  }
}

UNITY_INLINE void training_memory_builder::add_gradient(value_id v, tensor_id gradient) {
  auto& sum = gradients_[v.index()];
  if (!sum.valid()) {
    sum = gradient;
    return;
  }
  const auto total = add_gradient_of(v);
  memory_.add_operator(fmt::format("sum of {}", memory_.tensor(total).name), {sum, gradient}, {total});
  sum = total;
}

UNITY_INLINE void training_memory_builder::add_backward(node_id n) {
  const auto operands = graph_.operands(n);
  const auto results = graph_.results(n);
  std::vector<tensor_id> given;  // tensors of the adjoint's first nodes; null: zero
  bool any = false;
  for (const auto v : operands) {
    given.push_back(tensors_[v.index()]);
  }
  for (const auto v : results) {
    given.push_back(tensors_[v.index()]);
  }
  for (const auto v : results) {
    given.push_back(gradients_[v.index()]);
    any = any || given.back().valid();
  }
  if (!any) {
    return;
  }
  const auto inputs = types_of(graph_, operands);
  const auto adjoint = tensor::adjoint_of(algebra_, graph_.operation(n), inputs, training_.wanted(n));
  const auto& g = adjoint.graph;
  std::vector<tensor_id> known(g.value_count());  // by value of the adjoint: the given tensor that it equals
  std::vector<tensor_id> reads;
  for (const auto inner : node_ids(g)) {
    const auto same = inner.index() < given.size() ? value_id{} : renamed(g, inner);
    if (inner.index() < given.size()) {
      known[g.results(inner)[0].index()] = given[inner.index()];
    } else if (same.valid()) {
      known[g.results(inner)[0].index()] = known[same.index()];
    }
    for (const auto v : g.operands(inner)) {
      if (!same.valid() && known[v.index()].valid()) {
        reads.push_back(known[v.index()]);
      }
    }
  }
  std::vector<tensor_id> writes;
  std::vector<std::pair<value_id, tensor_id>> found;
  for (std::size_t i = 0; i < adjoint.operands.size(); ++i) {
    const auto v = operands[adjoint.operands[i]];
    const auto same = known[g.outputs()[i].index()];
    found.emplace_back(v, same.valid() ? same : add_gradient_of(v));
    if (!same.valid()) {
      writes.push_back(found.back().second);
    }
  }
  if (!writes.empty()) {
    memory_.add_operator(name_of(n) + " backward", std::move(reads), std::move(writes));
  }
  for (const auto& [v, gradient] : found) {
    add_gradient(v, gradient);
  }
}

UNITY_INLINE memory_graph training_memory_builder::build() && {
  parallel::expect_derivatives(algebra_, graph_, training_);
  for (const auto n : node_ids(graph_)) {
    add_forward(n);
  }
  add_loss();
  for (auto n = graph_.node_count(); n-- > 0;) {
    try {
      if (training_.has_backward(node_id{n})) {
        add_backward(node_id{n});
      }
    } catch (const error& e) {
      throw error{
          fmt::format("node {} ({}): {}", n, algebra_.signature(graph_.operation(node_id{n}).kind).name, e.what())};
    }
  }
  for (const auto& w : training_.weights()) {
    if (w.is_trained && gradients_[w.value.index()].valid()) {
      memory_.set_result(gradients_[w.value.index()]);
    }
  }
  return std::move(memory_);
}

}  // namespace detail

UNITY_INLINE memory_graph training_memory(const tensor::algebra& a, const tensor::tensor_graph& g) {
  return detail::training_memory_builder{a, g}.build();
}

}  // namespace unity::placement

#endif
