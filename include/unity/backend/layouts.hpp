// Changes of layout: chains of transposes become one or none, and products read transposed operands in place, so most
// transposes need not run. Views and layout changes become loops over strided positions, which each backend runs in its
// own way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

namespace detail {

class transpose_joiner {
 public:
  transpose_joiner(const tensor::algebra& a, const tensor::tensor_graph& g)
      : algebra_{a}, graph_{g}, transpose_{a.kind("transpose")}, now_(g.value_count()) {}

  [[nodiscard]] tensor::tensor_graph run() &&;

 private:
  void add(node_id n);

  // The composition: outer after inner, in the layout of the outer one.
  [[nodiscard]] tensor::operation joined(const tensor::operation& outer, const tensor::operation& inner) const;
  [[nodiscard]] bool is_identity(const tensor::operation& op) const;

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  kind_id transpose_;
  std::vector<value_id> now_;  // per value of the graph: its value in the new graph
  tensor::tensor_graph joined_;
};

}  // namespace detail

// An equal graph in which chains of transposes are merged. Unused nodes stay. Nodes without operands keep their order.
[[nodiscard]] inline tensor::tensor_graph with_joined_transposes(const tensor::algebra& a,
                                                                 const tensor::tensor_graph& g) {
  return detail::transpose_joiner{a, g}.run();
}

// Matrix products accept operands in any layout, so transposed operands need not be moved.

// Whether only products read the node's results, none of which is an output.
[[nodiscard]] bool feeds_products(const tensor::algebra& a, const tensor::tensor_graph& g, const users& uses,
                                  node_id n);

// The body of a composite, in which values that only products read get a layout in which they alias their operand, if
// there is such a layout: these transposes need not run.
[[nodiscard]] tensor::tensor_graph with_turned_operands(const tensor::algebra& a, const tensor::tensor_graph& body);

}  // namespace unity::backend

namespace unity::backend::detail {

// A loop over `size` elements, with its steps in target and source. Units: elements.
struct strided_loop {
  std::int64_t size = 1;
  std::int64_t to = 0;
  std::int64_t from = 0;
};

// A copy of a box of elements between two strided tensors: the offset of its first element in each, and a loop per
// dimension.
struct strided_box {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::vector<strided_loop> loops{};
};

// The loops in descending order of their steps in the target, without loops of size 1; adjacent loops that continue
// each other are merged.
[[nodiscard]] std::vector<strided_loop> in_order_of_target(std::vector<strided_loop> loops);

// The copy of a whole tensor from one layout to another.
[[nodiscard]] strided_box relayout_box(const tensor::shape& dims, tensor::layout to, tensor::layout from);

// The copy of one piece of a view.
[[nodiscard]] strided_box piece_box(const tensor::piece& p, const tensor::tensor_type& input,
                                    const tensor::tensor_type& output);

// The copies of a view, from which operand to which result, and which results have elements that no copy writes.
struct view_copies {
  struct copy {
    std::size_t operand = 0;
    std::size_t result = 0;
    strided_box box{};
  };
  std::vector<copy> copies{};
  std::vector<bool> has_gaps{};  // by result

  view_copies(const tensor::view_map& map, std::span<const tensor::tensor_type> inputs,
              std::span<const tensor::tensor_type> outputs);
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_LAYOUTS)

#include <algorithm>
#include <string_view>

#include <unity/backend/elementwise_chains.hpp>
#include <unity/backend/run_list.hpp>

namespace unity::backend::detail {

UNITY_INLINE tensor::tensor_graph transpose_joiner::run() && {
  for (const auto i : node_ids(graph_)) {
    add(i);
  }
  std::vector<value_id> outputs;
  for (const auto v : graph_.outputs()) {
    outputs.push_back(now_[v.index()]);
  }
  joined_.set_outputs(outputs);
  return std::move(joined_);
}

UNITY_INLINE void transpose_joiner::add(node_id n) {
  auto op = graph_.operation(n);
  const auto results = graph_.results(n);
  std::vector<value_id> operands;
  for (const auto v : graph_.operands(n)) {
    operands.push_back(now_[v.index()]);
  }
  if (op.kind == transpose_) {
    const auto inner = joined_.producer(operands[0]);
    if (joined_.operation(inner).kind == transpose_) {
      op = joined(op, joined_.operation(inner));
      operands[0] = joined_.operands(inner)[0];
    }
    if (is_identity(op) && joined_.type(operands[0]) == graph_.type(results[0])) {
      now_[results[0].index()] = operands[0];
      return;
    }
  }
  const auto made = joined_.add_node(std::move(op), operands, backend::types_of(graph_, results));
  for (std::size_t r = 0; r < results.size(); ++r) {
    now_[results[r].index()] = joined_.results(made)[r];
  }
}

UNITY_INLINE tensor::operation transpose_joiner::joined(const tensor::operation& outer,
                                                        const tensor::operation& inner) const {
  const auto first = algebra_.read(inner).integers("permutation");
  tensor::shape both;
  for (const auto d : algebra_.read(outer).integers("permutation")) {
    both.push_back(first[static_cast<std::size_t>(d)]);
  }
  auto op = algebra_.make_operation("transpose", {{"permutation", both}});
  op.order = outer.order;
  return op;
}

UNITY_INLINE bool transpose_joiner::is_identity(const tensor::operation& op) const {
  std::int64_t at = 0;
  bool same = true;
  for (const auto d : algebra_.read(op).integers("permutation")) {
    same = same && d == at++;
  }
  return same;
}

}  // namespace unity::backend::detail

namespace unity::backend {

UNITY_INLINE bool feeds_products(const tensor::algebra& a, const tensor::tensor_graph& g, const users& uses,
                                 node_id n) {
  const auto outputs = g.outputs();
  bool products = true;
  for (const auto v : g.results(n)) {
    products = products && std::find(outputs.begin(), outputs.end(), v) == outputs.end();
    for (const auto& use : uses[v]) {
      const std::string_view reader = a.signature(g.operation(use.user).kind).name;
      products = products && (reader == "matmul" || reader == "linear");
    }
  }
  return products;
}

UNITY_INLINE tensor::tensor_graph with_turned_operands(const tensor::algebra& a, const tensor::tensor_graph& body) {
  const users uses{body};
  tensor::tensor_graph turned;
  for (const auto n : node_ids(body)) {
    auto op = body.operation(n);
    auto results = types_of(body, body.results(n));
    const auto inputs = types_of(turned, body.operands(n));
    for (auto& other : a.variants(op, inputs)) {
      auto found = *a.infer(other, inputs);
      if (feeds_products(a, body, uses, n) && shared_results(a, other, inputs, found)) {
        op = std::move(other);
        results = std::move(found);
      }
    }
    turned.add_node(std::move(op), body.operands(n), results);
  }
  turned.set_outputs(body.outputs());
  return turned;
}

}  // namespace unity::backend

namespace unity::backend::detail {

UNITY_INLINE std::vector<strided_loop> in_order_of_target(std::vector<strided_loop> loops) {
  std::erase_if(loops, [](const strided_loop& l) { return l.size == 1; });
  // All steps in the target differ.
  std::sort(loops.begin(), loops.end(), [](const strided_loop& a, const strided_loop& b) { return a.to > b.to; });
  std::vector<strided_loop> joined;
  for (const auto& l : loops) {
    if (!joined.empty() && joined.back().to == l.to * l.size && joined.back().from == l.from * l.size) {
      joined.back() = {joined.back().size * l.size, l.to, l.from};
    } else {
      joined.push_back(l);
    }
  }
  return joined;
}

UNITY_INLINE strided_box relayout_box(const tensor::shape& dims, tensor::layout to, tensor::layout from) {
  strided_box b;
  const auto write = tensor::strides_of(dims, to);
  const auto read = tensor::strides_of(dims, from);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    b.loops.push_back({dims[d], write[d], read[d]});
  }
  return b;
}

UNITY_INLINE strided_box piece_box(const tensor::piece& p, const tensor::tensor_type& input,
                                   const tensor::tensor_type& output) {
  strided_box b;
  const auto read = tensor::strides_of(input.dims, input.order);
  const auto write = tensor::strides_of(output.dims, output.order);
  for (std::size_t d = 0; d < p.sizes.size(); ++d) {
    b.to += p.origin[d] * write[d];
    b.loops.push_back({p.sizes[d], write[d], 0});
  }
  for (std::size_t d = 0; d < p.source.size(); ++d) {
    b.from += p.source[d].start * read[d];
    if (p.source[d].along >= 0) {
      b.loops[static_cast<std::size_t>(p.source[d].along)].from += p.source[d].step * read[d];
    }
  }
  return b;
}

UNITY_INLINE view_copies::view_copies(const tensor::view_map& map, std::span<const tensor::tensor_type> inputs,
                                      std::span<const tensor::tensor_type> outputs) {
  std::vector<std::int64_t> covered(outputs.size(), 0);
  if (map.relabels()) {
    // The view keeps the row-major order of elements; its result is row-major.
    copies.push_back({0, 0, relayout_box(inputs[0].dims, tensor::layout::row_major, inputs[0].order)});
    covered[0] = tensor::element_count(outputs[0].dims);
  }
  for (const auto& p : map.pieces()) {
    copies.push_back({p.operand, p.result, piece_box(p, inputs[p.operand], outputs[p.result])});
    covered[p.result] += tensor::element_count(p.sizes);
  }
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    has_gaps.push_back(covered[r] < tensor::element_count(outputs[r].dims));
  }
}

}  // namespace unity::backend::detail

#endif
