// Reverse-mode differentiation of parallel computation graphs: maps a graph to a graph with its gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Builds parallel computation graphs of tensor operators on operands with any divisions.

namespace detail {

// The grid that one operand implies if nothing is known of the others.
[[nodiscard]] std::optional<operator_grid> grid_around(const operator_dimensions& o, std::size_t x,
                                                       const parallel_type& t);

}  // namespace detail

// Appends tensor operators to a graph on operands of any types. The algebra must outlive the writer.
class dividing_writer {
 public:
  dividing_writer(const pcg_algebra& a, pcg g) : algebra_{a}, writer_{a, std::move(g)} {}

  [[nodiscard]] pcg_writer& writer() noexcept { return writer_; }

  // If the operands have no common grid, a composite is expanded into its body. For other operators the operands are
  // divided anew: for the grid of one of them, or for computing everything on every task, whichever moves least.
  std::vector<value_id> add(const tensor::operation& op, std::vector<value_id> operands);
  // values: the values of the first nodes of `g`, which are not added themselves. Returns the outputs of `g`.
  std::vector<value_id> add_all(const tensor::tensor_graph& g, std::vector<value_id> values);
  [[nodiscard]] value_id add(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                             std::vector<value_id> operands) {
    return add(algebra_.operators().make_operation(name, attributes), std::move(operands))[0];
  }

 private:
  [[nodiscard]] grid_types cheapest(const tensor::operation& op, std::span<const value_id> operands,
                                    std::span<const parallel_type> types) const;

  const pcg_algebra& algebra_;
  pcg_writer writer_;
};

// Nodes and values of the given graph keep their numbers; gradient nodes are appended.
struct differentiated_pcg {
  pcg graph{};                        // outputs: those of the given graph, then a gradient per source
  std::vector<value_id> sources{};    // the values to differentiate with respect to
  std::vector<value_id> gradients{};  // per source; each of the dual of its type
};

namespace detail {

class pcg_sweep {
 public:
  pcg_sweep(const pcg_algebra& a, const pcg& g)
      : algebra_{a}, graph_{g}, out_{a, g}, active_(g.value_count()), gradients_(g.value_count()) {}

  [[nodiscard]] differentiated_pcg run(std::span<const value_id> sources) &&;

 private:
  void mark(std::span<const value_id> sources);

  // Adds to a value's cotangent, which has the dual of its type.
  void give(value_id v, value_id cotangent);
  // The type, with the constness and layout of `like`.
  [[nodiscard]] parallel_type as(parallel_type t, value_id like);
  [[nodiscard]] value_id or_zeros(value_id v);

  void reverse(node_id n);

  [[nodiscard]] value_id block(value_id v, std::size_t axis, std::size_t number, std::size_t count);

  // Whether operand x is the two-dimensional weight of a product with multi-dimensional rows, an inner dimension of
  // which is divided. The usual gradient, one matrix product, would flatten the rows, which would scatter their blocks.
  [[nodiscard]] bool has_scattered_rows(node_id n, std::size_t x) const;
  // A product per row of the outer dimensions, summed up.
  [[nodiscard]] value_id weight_cotangent(node_id n);

  // Adds the adjoint of one operand alone: a node that the adjoints of several operands shared could have fewer grids.
  void reverse_operand(node_id n, std::size_t x);

  const pcg_algebra& algebra_;
  const pcg& graph_;
  dividing_writer out_;
  std::vector<bool> active_;
  std::vector<value_id> gradients_;  // per value
};

}  // namespace detail

// The graph with the gradients of its outputs appended. The cotangents of the outputs are inputs "cotangent0",
// "cotangent1", ... Cotangents have the dual types. The adjoint of an operator runs on the operator's grid if the
// operators of the adjoint have it, and otherwise on the grid that moves least. sources: the floating-point values to
// differentiate with respect to. The algebra must have the gradient operators. Complexity: linear in the graph.
// Throws: unity::error if a gradient has to pass through an operator without adjoint.
[[nodiscard]] inline differentiated_pcg differentiate(const pcg_algebra& a, const pcg& g,
                                                      std::span<const value_id> sources) {
  return detail::pcg_sweep{a, g}.run(sources);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_PCG_ADJOINT)

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/core.h>

#include <unity/parallel/pcg/communication.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<operator_grid> grid_around(const operator_dimensions& o, std::size_t x,
                                                      const parallel_type& t) {
  const auto& s = o.structure;
  std::vector<std::optional<std::pair<std::int64_t, std::int64_t>>> known(s.indices.size());
  for (std::size_t d = 0; d < s.operands[x].size(); ++d) {
    const auto& dim = s.operands[x][d];
    const auto along = dim.window ? std::vector{static_cast<std::size_t>(s.windows[*dim.window].outer)} : dim.indices;
    if (!assign(s, along, t.degrees[d], t.steps[d], known)) {
      return std::nullopt;
    }
  }
  auto g = undivided_grid(o);
  auto partial = t.partial;
  for (std::size_t i = 0; i < known.size(); ++i) {
    g.indices[i] = known[i] ? known[i]->first : 1;
    g.steps[i] = known[i] ? known[i]->second : 1;
  }
  for (std::size_t p = 0; p < g.partials.size(); ++p) {
    if (is_in(o.groups[p], x)) {
      g.partials[p] = std::exchange(partial, 1);
    }
  }
  g.copies = t.copies;
  const auto types = types_on(o, g);
  return partial == 1 && types && types->operands[x] == t ? std::optional{std::move(g)} : std::nullopt;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<value_id> dividing_writer::add(const tensor::operation& op, std::vector<value_id> operands) {
  std::vector<parallel_type> types;
  std::vector<tensor::tensor_type> global;
  for (const auto v : operands) {
    types.push_back(writer_.type(v));
    global.push_back(types.back().global);
  }
  if (!operands.empty() && !algebra_.grid(op, types)) {
    if (const auto body = algebra_.operators().body(op, global)) {
      return add_all(*body, std::move(operands));
    }
    const auto chosen = cheapest(op, operands, types);
    for (std::size_t x = 0; x < operands.size(); ++x) {
      operands[x] = writer_.on(operands[x], chosen.operands[x]);
    }
  }
  const auto results = writer_.graph().results(writer_.add(op, operands));
  return {results.begin(), results.end()};
}

UNITY_INLINE std::vector<value_id> dividing_writer::add_all(const tensor::tensor_graph& g,
                                                            std::vector<value_id> values) {
  for (auto i = values.size(); i < g.node_count(); ++i) {
    std::vector<value_id> operands;
    for (const auto v : g.operands(node_id{i})) {
      operands.push_back(values[v.index()]);
    }
    const auto made = add(g.operation(node_id{i}), std::move(operands));
    values.insert(values.end(), made.begin(), made.end());
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(values[v.index()]);
  }
  return outputs;
}

UNITY_INLINE grid_types dividing_writer::cheapest(const tensor::operation& op, std::span<const value_id> operands,
                                                  std::span<const parallel_type> types) const {
  const auto& o = *algebra_.dimensions(op, types);
  auto everywhere = undivided_grid(o);
  for (const auto& t : types) {
    everywhere.copies = std::max(everywhere.copies, total(t));
  }
  std::vector candidates{everywhere};
  for (std::size_t x = 0; x < types.size(); ++x) {
    if (const auto g = detail::grid_around(o, x, types[x])) {
      candidates.push_back(*g);
    }
  }
  grid_types best;
  // elements moved, minus the number of tasks
  auto least = std::pair{std::numeric_limits<std::int64_t>::max(), std::int64_t{0}};
  for (const auto& g : candidates) {
    const auto made = types_on(o, g);
    std::pair cost{std::int64_t{0}, -task_count(g)};
    for (std::size_t x = 0; x < types.size(); ++x) {
      const bool is_source = writer_.graph().operands(writer_.graph().producer(operands[x])).empty();
      cost.first += is_source ? 0 : moved_elements(types[x], made->operands[x]);
    }
    if (cost < least && algebra_.grid(op, made->operands)) {
      least = cost;
      best = *made;
    }
  }
  return best;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE differentiated_pcg pcg_sweep::run(std::span<const value_id> sources) && {
  mark(sources);
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    const auto v = graph_.outputs()[i];
    if (active_[v.index()]) {
      const auto& t = graph_.type(v).global;
      give(v,
           out_.add("input",
                    {{"name", fmt::format("cotangent{}", i)}, {"element", name_of(t.element)}, {"dims", t.dims}}, {}));
    }
  }
  for (auto n = graph_.node_count(); n-- > 0;) {
    reverse(node_id{n});
  }
  differentiated_pcg d{{}, {sources.begin(), sources.end()}, {}};
  std::vector<value_id> outputs{graph_.outputs().begin(), graph_.outputs().end()};
  for (const auto v : sources) {
    d.gradients.push_back(or_zeros(v));
    outputs.push_back(d.gradients.back());
  }
  d.graph = std::move(out_.writer()).finish(outputs);
  return d;
}

UNITY_INLINE void pcg_sweep::mark(std::span<const value_id> sources) {
  for (const auto v : sources) {
    active_[v.index()] = true;
  }
  for (const auto n : node_ids(graph_)) {
    const auto operands = graph_.operands(n);
    const bool any =
        std::any_of(operands.begin(), operands.end(), [&](value_id v) { return bool{active_[v.index()]}; });
    for (const auto v : graph_.results(n)) {
      active_[v.index()] = active_[v.index()] || (any && is_floating(graph_.type(v).global.element));
    }
  }
}

UNITY_INLINE void pcg_sweep::give(value_id v, value_id cotangent) {
  auto g = gradients_[v.index()];
  const auto own = out_.writer().on(cotangent, as(dual(graph_.type(v)), cotangent));
  gradients_[v.index()] = g.valid() ? out_.add("add", {}, {g, own}) : own;
}

UNITY_INLINE parallel_type pcg_sweep::as(parallel_type t, value_id like) {
  t.global.constant = out_.writer().type(like).global.constant;
  t.global.order = out_.writer().type(like).global.order;
  return t;
}

UNITY_INLINE value_id pcg_sweep::or_zeros(value_id v) {
  if (gradients_[v.index()].valid()) {
    return gradients_[v.index()];
  }
  const auto& t = graph_.type(v).global;
  const auto zeros = out_.add("fill", {{"value", 0.0}, {"element", name_of(t.element)}, {"dims", t.dims}}, {});
  return out_.writer().on(zeros, as(dual(graph_.type(v)), zeros));
}

UNITY_INLINE void pcg_sweep::reverse(node_id n) {
  const auto results = graph_.results(n);
  const bool any =
      std::any_of(results.begin(), results.end(), [&](value_id v) { return gradients_[v.index()].valid(); });
  const auto operands = graph_.operands(n);
  if (!any || operands.empty()) {
    return;
  }
  const auto p = algebra_.read(graph_.operation(n));
  for (std::size_t x = 0; x < operands.size(); ++x) {
    if (!active_[operands[x].index()]) {
      continue;
    }
    if (!p) {
      reverse_operand(n, x);
    } else if (p->kind == parallel_kind::blocks) {
      give(operands[x], block(gradients_[results[0].index()], static_cast<std::size_t>(p->axis), x, operands.size()));
    } else {
      // The conversion back to the operand's dual type is the chain's adjoint; the adjoint of terms is a copy for each.
      give(operands[x], gradients_[results[0].index()]);
    }
  }
}

UNITY_INLINE value_id pcg_sweep::block(value_id v, std::size_t axis, std::size_t number, std::size_t count) {
  auto joined = out_.writer().type(v);
  joined.degrees[axis] = 1;
  const auto size = joined.global.dims[axis] / static_cast<std::int64_t>(count);
  const auto begin = static_cast<std::int64_t>(number) * size;
  const auto along = static_cast<std::int64_t>(axis);
  return out_.add("slice", {{"axes", {along}}, {"starts", {begin}}, {"ends", {begin + size}}, {"steps", {1}}},
                  {out_.writer().on(v, joined)});
}

UNITY_INLINE bool pcg_sweep::has_scattered_rows(node_id n, std::size_t x) const {
  const auto& op = graph_.operation(n);
  const auto& name = algebra_.signature(op.kind).name;
  if ((name != "matmul" && name != "linear") || x != 1 || op.attributes[0][0] != 0) {
    return false;
  }
  const auto& rows = graph_.type(graph_.operands(n)[0]);
  bool any = false;
  for (std::size_t d = 1; d + 1 < rows.global.rank(); ++d) {
    any = any || rows.degrees[d] * rows.steps[d] > 1;
  }
  return any && graph_.type(graph_.operands(n)[1]).global.rank() == 2;
}

UNITY_INLINE value_id pcg_sweep::weight_cotangent(node_id n) {
  const auto rows = graph_.operands(n)[0];
  const auto rank = static_cast<std::int64_t>(graph_.type(rows).global.rank());
  tensor::shape order;
  for (std::int64_t d = 0; d + 2 < rank; ++d) {
    order.push_back(d);
  }
  const auto outer = order;
  order.push_back(rank - 1);
  order.push_back(rank - 2);
  const auto columns = out_.add("transpose", {{"permutation", order}}, {rows});
  const auto each = out_.add("matmul", {}, {columns, gradients_[graph_.results(n)[0].index()]});
  return out_.add("reduce_sum", {{"axes", outer}, {"keep_dims", 0}}, {each});
}

UNITY_INLINE void pcg_sweep::reverse_operand(node_id n, std::size_t x) {
  if (has_scattered_rows(n, x)) {
    give(graph_.operands(n)[x], weight_cotangent(n));
    return;
  }
  const auto& op = graph_.operation(n);
  std::vector<tensor::tensor_type> inputs;
  std::vector<value_id> values;
  for (const auto v : graph_.operands(n)) {
    inputs.push_back(graph_.type(v).global);
    values.push_back(v);
  }
  std::vector<bool> wanted(inputs.size());
  wanted[x] = true;
  const auto adjoint = tensor::adjoint_of(algebra_.operators(), op, inputs, wanted);
  if (adjoint.operands.empty()) {
    return;
  }
  for (const auto v : graph_.results(n)) {
    values.push_back(v);
  }
  for (const auto v : graph_.results(n)) {
    values.push_back(is_floating(graph_.type(v).global.element) ? or_zeros(v) : value_id{});
  }
  give(graph_.operands(n)[x], out_.add_all(adjoint.graph, std::move(values))[0]);
}

}  // namespace unity::parallel::detail

#endif
