// Builds tensor graphs operator by operator, inferring every type on the way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

using extent2 = std::array<std::int64_t, 2>;  // height, width
using pads4 = std::array<std::int64_t, 4>;    // top, left, bottom, right

// Choices are spelled as in rule text.
struct conv2d_options {
  extent2 stride{1, 1};
  std::string_view padding = "explicit";
  pads4 pads{0, 0, 0, 0};
  extent2 dilation{1, 1};
  std::int64_t groups = 1;
  std::string_view activation = "none";
};

struct pool_options {
  extent2 kernel{1, 1};
  extent2 stride{1, 1};
  std::string_view padding = "explicit";
  pads4 pads{0, 0, 0, 0};
  bool ceil_mode = false;
};

// The edges of a graph, in the form that operators over edges take (tensor/operators/segment.hpp).
struct edge_values {
  value_id offsets{};
  value_id sources{};
  value_id out_offsets{};
  value_id targets{};
  value_id out_edges{};
};

// A graph under construction: each method appends one operator as a node and returns its value.
//
//   builder b{standard};
//   const auto x = b.input("x", {64, 784});
//   const auto w = b.weight("w", {784, 512});
//   const tensor_graph g = std::move(b).finish({b.relu(b.matmul(x, w))});
//
// The algebra must outlive the builder. Nothing is simplified or shared: two equal calls make two nodes. Nodes are
// numbered in call order; C++ does not specify the order of two calls that are arguments of a third.
// Throws: every operator throws unity::error if its operands do not fit, naming the node, the types of the operands and
// what the operator expects; sources throw for sizes that are not positive and for names already in use. The builder is
// then unchanged.
class builder {
 public:
  explicit builder(const algebra& operators) noexcept : algebra_{&operators} {}

  // Sources.
  value_id input(std::string_view name, const shape& dims, dtype element = dtype::float32) {
    return named_source("input", name, dims, element);
  }
  value_id weight(std::string_view name, const shape& dims, dtype element = dtype::float32) {
    return named_source("weight", name, dims, element);
  }
  value_id constant(std::string_view name, const shape& dims, dtype element = dtype::float32) {
    return named_source("constant", name, dims, element);
  }
  value_id fill(double value, const shape& dims = {}, dtype element = dtype::float32) {
    return one("fill", {}, {{"value", value}, {"element", name_of(element)}, {"dims", dims}});
  }
  value_id pool_kernel(std::int64_t channels, extent2 kernel) {
    return one("pool_kernel", {}, {{"channels", channels}, {"kernel", kernel}});
  }
  value_id identity_kernel(std::int64_t channels, extent2 kernel, std::int64_t groups = 1) {
    return one("identity_kernel", {}, {{"channels", channels}, {"groups", groups}, {"kernel", kernel}});
  }
  value_id identity_matrix(std::int64_t size) { return one("identity_matrix", {}, {{"size", size}}); }

  // Linear algebra. `activation` is one of none, relu, sigmoid, tanh, gelu.
  value_id matmul(value_id a, value_id b, std::string_view activation = "none") {
    return one("matmul", {a, b}, {{"activation", activation}});
  }
  value_id linear(value_id x, value_id w, std::string_view activation = "none") {
    return one("linear", {x, w}, {{"activation", activation}});
  }
  value_id linear(value_id x, value_id w, value_id bias, std::string_view activation = "none") {
    return one("linear", {x, w, bias}, {{"activation", activation}});
  }
  value_id conv2d(value_id x, value_id w, const conv2d_options& options = {}) { return convolve({x, w}, options); }
  value_id conv2d(value_id x, value_id w, value_id bias, const conv2d_options& options = {}) {
    return convolve({x, w, bias}, options);
  }
  value_id attention(value_id q, value_id k, value_id v, std::span<const value_id, 4> weights, std::int64_t heads) {
    return one("attention", {q, k, v, weights[0], weights[1], weights[2], weights[3]}, {{"heads", heads}});
  }
  // Causal attention of operands that are already divided into heads, [b, h, s, d] each: no query sees later keys.
  value_id causal_attention(value_id q, value_id k, value_id v) {
    return one("dot_product_attention", {q, k, v}, {{"heads", 0}, {"key_heads", 0}, {"scale", 0.0}, {"causal", true}});
  }

  // Pooling.
  value_id max_pool(value_id x, const pool_options& options, extent2 dilation = {1, 1});
  value_id average_pool(value_id x, const pool_options& options, bool count_include_pad = false);
  value_id global_average_pool(value_id x) { return one("global_average_pool", {x}); }
  value_id global_max_pool(value_id x) { return one("global_max_pool", {x}); }

  // Element-wise.
  value_id relu(value_id x) { return one("relu", {x}); }
  value_id gelu(value_id x) { return one("gelu", {x}); }
  value_id tanh(value_id x) { return one("tanh", {x}); }
  value_id sigmoid(value_id x) { return one("sigmoid", {x}); }
  value_id add(value_id a, value_id b) { return one("add", {a, b}); }
  value_id sub(value_id a, value_id b) { return one("sub", {a, b}); }
  value_id mul(value_id a, value_id b) { return one("mul", {a, b}); }
  value_id div(value_id a, value_id b) { return one("div", {a, b}); }
  value_id dropout(value_id x, double rate, std::int64_t seed) {
    return one("dropout", {x}, {{"rate", rate}, {"seed", seed}});
  }
  value_id scalar_multiply(value_id x, value_id scalar) { return one("scalar_multiply", {x, scalar}); }

  // Normalization. A negative axis counts from the back.
  value_id softmax(value_id x, std::int64_t axis) { return one("softmax", {x}, {{"axis", from_front(x, axis)}}); }
  value_id layer_norm(value_id x, value_id gamma, value_id beta, std::int64_t axis, double epsilon = 1e-5) {
    return one("layer_norm", {x, gamma, beta}, {{"axis", from_front(x, axis)}, {"epsilon", epsilon}});
  }
  value_id batch_norm(value_id x, value_id scale, value_id bias, value_id mean, value_id variance,
                      double epsilon = 1e-5) {
    return one("batch_norm", {x, scale, bias, mean, variance}, {{"epsilon", epsilon}});
  }

  // Moving and joining.
  value_id concat(std::int64_t axis, std::span<const value_id> parts) {
    UNITY_EXPECTS(!parts.empty(), "at least one part");
    return one("concat", parts, {{"axis", from_front(parts[0], axis)}});
  }
  // Results: one value per size. `sizes` must add up to the size of the axis.
  std::vector<value_id> split(value_id x, std::int64_t axis, const shape& sizes) {
    return apply("split", {x}, {{"axis", from_front(x, axis)}, {"sizes", sizes}});
  }
  value_id slice(value_id x, const shape& axes, const shape& starts, const shape& ends) {
    return one("slice", {x}, {{"axes", axes}, {"starts", starts}, {"ends", ends}, {"steps", shape(axes.size(), 1)}});
  }
  value_id pad(value_id x, const shape& pads, double value = 0) {
    return one("pad", {x}, {{"pads", pads}, {"value", value}});
  }
  value_id transpose(value_id x, const shape& permutation) {
    return one("transpose", {x}, {{"permutation", permutation}});
  }
  value_id reshape(value_id x, const shape& dims) { return one("reshape", {x}, {{"dims", dims}}); }
  value_id embedding(value_id table, value_id ids) { return one("embedding", {table, ids}); }
  value_id embedding_bag(value_id table, value_id ids) { return one("embedding_bag", {table, ids}); }

  // Operators over the edges of a graph.
  value_id segment_sum(value_id x, const edge_values& e) {
    return one("segment_sum", {x, e.offsets, e.sources, e.out_offsets, e.targets});
  }
  value_id segment_mean(value_id x, const edge_values& e) {
    return one("segment_mean", {x, e.offsets, e.sources, e.out_offsets, e.targets});
  }
  value_id segment_max(value_id x, const edge_values& e) { return one("segment_max", {x, e.offsets, e.sources}); }
  value_id segment_softmax(value_id z, const edge_values& e) { return one("segment_softmax", {z, e.offsets}); }
  value_id segment_weighted_sum(value_id x, value_id weights, const edge_values& e) {
    return one("segment_weighted_sum", {x, weights, e.offsets, e.sources, e.out_offsets, e.targets, e.out_edges});
  }

  // Any operator of the algebra, by name. Results: one value per result of the operator.
  std::vector<value_id> apply(std::string_view name, std::initializer_list<value_id> operands,
                              std::initializer_list<named_attribute> attributes = {}) {
    return apply(name, std::span{operands.begin(), operands.size()}, attributes);
  }
  std::vector<value_id> apply(std::string_view name, std::span<const value_id> operands,
                              std::initializer_list<named_attribute> attributes = {}) {
    return apply(algebra_->make_operation(name, attributes), operands);
  }
  std::vector<value_id> apply(const operation& op, std::span<const value_id> operands);

  [[nodiscard]] const tensor_type& type(value_id v) const { return graph_.type(v); }
  [[nodiscard]] const shape& dims(value_id v) const { return graph_.type(v).dims; }
  // The graph built so far; it has no outputs yet.
  [[nodiscard]] const tensor_graph& graph() const noexcept { return graph_; }

  // Ends the construction. The builder is empty afterwards.
  [[nodiscard]] tensor_graph finish(std::span<const value_id> outputs) &&;
  [[nodiscard]] tensor_graph finish(std::initializer_list<value_id> outputs) && {
    return std::move(*this).finish(std::span{outputs.begin(), outputs.size()});
  }

 private:
  value_id one(std::string_view name, std::span<const value_id> operands,
               std::initializer_list<named_attribute> attributes = {}) {
    return apply(name, operands, attributes).front();
  }
  value_id one(std::string_view name, std::initializer_list<value_id> operands,
               std::initializer_list<named_attribute> attributes = {}) {
    return one(name, std::span{operands.begin(), operands.size()}, attributes);
  }

  value_id named_source(std::string_view kind, std::string_view name, const shape& dims, dtype element);

  value_id convolve(std::initializer_list<value_id> operands, const conv2d_options& options);

  [[nodiscard]] std::int64_t from_front(value_id x, std::int64_t axis) const {
    return axis < 0 ? axis + static_cast<std::int64_t>(dims(x).size()) : axis;
  }

  [[nodiscard]] std::string where(std::string_view kind) const {
    return fmt::format("node {} ({})", graph_.node_count(), kind);
  }

  [[noreturn]] void refuse(const operation& op, std::span<const tensor_type> types) const;

  const algebra* algebra_;
  tensor_graph graph_;
  std::unordered_set<std::string> names_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_BUILDER)

#include <unity/core/error.hpp>

namespace unity::tensor {

UNITY_INLINE value_id builder::max_pool(value_id x, const pool_options& options, extent2 dilation) {
  return one("max_pool", {x},
             {{"kernel", options.kernel},
              {"stride", options.stride},
              {"padding", options.padding},
              {"pads", options.pads},
              {"dilation", dilation},
              {"ceil_mode", options.ceil_mode ? 1 : 0}});
}

UNITY_INLINE value_id builder::average_pool(value_id x, const pool_options& options, bool count_include_pad) {
  return one("average_pool", {x},
             {{"kernel", options.kernel},
              {"stride", options.stride},
              {"padding", options.padding},
              {"pads", options.pads},
              {"ceil_mode", options.ceil_mode ? 1 : 0},
              {"count_include_pad", count_include_pad ? 1 : 0}});
}

UNITY_INLINE std::vector<value_id> builder::apply(const operation& op, std::span<const value_id> operands) {
  std::vector<tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_->infer(op, types);
  if (!results) {
    refuse(op, types);
  }
  const auto made = graph_.results(graph_.add_node(op, operands, *results));
  return {made.begin(), made.end()};
}

UNITY_INLINE tensor_graph builder::finish(std::span<const value_id> outputs) && {
  graph_.set_outputs(outputs);
  names_.clear();
  return std::exchange(graph_, {});
}

UNITY_INLINE value_id builder::named_source(std::string_view kind, std::string_view name, const shape& dims,
                                            dtype element) {
  const auto quoted = fmt::format("\"{}\"", name);
  if (name.empty() || names_.contains(std::string{name})) {
    throw error{where(kind), fmt::format("name {}", quoted), "a name that no other source has"};
  }
  if (!checked_element_count(dims)) {
    throw error{where(kind),
                fmt::format("{} of {}", quoted, to_string(tensor_type{element, layout::row_major, false, dims})),
                "positive sizes and a countable number of elements"};
  }
  const auto v = one(kind, {}, {{"name", name}, {"element", name_of(element)}, {"dims", dims}});
  names_.emplace(name);
  return v;
}

UNITY_INLINE value_id builder::convolve(std::initializer_list<value_id> operands, const conv2d_options& options) {
  return one("conv2d", operands,
             {{"stride", options.stride},
              {"padding", options.padding},
              {"pads", options.pads},
              {"dilation", options.dilation},
              {"groups", options.groups},
              {"activation", options.activation}});
}

UNITY_INLINE void builder::refuse(const operation& op, std::span<const tensor_type> types) const {
  std::string found = types.empty() ? "no operands" : "operands ";
  for (std::size_t i = 0; i < types.size(); ++i) {
    found += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(types[i]));
  }
  throw error{where(algebra_->signature(op.kind).name), found, algebra_->why_not(op, types)};
}

}  // namespace unity::tensor

#endif
