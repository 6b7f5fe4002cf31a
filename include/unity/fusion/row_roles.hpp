// Which operators work row by row over a batch, derived from their definitions: candidates for one kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::fusion {

// A value is divided into rows as its elements lie in memory: each row is an equal number of adjacent elements.
//   whole    no operand is divided, and no result is
//   local    a row of the results needs the same row of each operand, or all of an operand that is not divided
//   folding  some results are sums or maxima over rows, and not divided; the others are as those of local operators
//   mixing   rows depend on each other in another way; results count as not divided
enum class row_role : std::uint8_t { whole, local, folding, mixing };

// How one operator reads and writes rows.
struct node_rows {
  row_role role = row_role::whole;
  std::vector<bool> by_rows{};             // per operand: a result row needs only that row of it, otherwise all of it
  std::vector<tensor::reduction> folds{};  // per result: how it is reduced over rows; none: divided, or without rows
};

// Roles and divisions for a whole graph.
struct row_labels {
  std::vector<row_role> roles{};           // per node
  std::vector<bool> is_divided{};          // per value
  std::vector<tensor::reduction> folds{};  // per value: how it is reduced over rows
};

// Whether the elements can be divided into this many rows along the outermost dimensions.
[[nodiscard]] bool divides(const tensor::tensor_type& t, std::int64_t rows);

// The sizes of `count` rows of such a type. The rank stays; outer dimensions become 1.
[[nodiscard]] tensor::shape shape_of_rows(const tensor::tensor_type& t, std::int64_t rows, std::int64_t count);

// is_divided: per operand. Operands that are not divided may still be read row by row, such as a tensor of zeros per
// sample. Complexity: as tensor::dimension_indices.
[[nodiscard]] node_rows rows_of(const tensor::algebra& a, const tensor::operation& op,
                                std::span<const tensor::tensor_type> inputs, const std::vector<bool>& is_divided,
                                std::int64_t rows);

// The same for an operator without divided operands whose results should be divided: local if possible.
[[nodiscard]] node_rows rows_of_results(const tensor::algebra& a, const tensor::operation& op,
                                        std::span<const tensor::tensor_type> inputs, std::int64_t rows);

// divided: inputs, each of which divides into this many rows. Complexity: linear in the graph.
[[nodiscard]] row_labels row_roles(const tensor::algebra& a, const tensor::tensor_graph& g,
                                   std::span<const value_id> divided, std::int64_t rows);

// The operator class that estimators of times use.
[[nodiscard]] operator_class class_of(const tensor::algebra& a, const tensor::operation& op,
                                      std::span<const tensor::tensor_type> inputs,
                                      std::span<const tensor::tensor_type> outputs);

namespace detail {

// Indices, outermost first, that count rows.
using row_indices = std::vector<std::size_t>;

// The outermost indices of a tensor whose sizes multiply to `rows`; nothing if none do.
[[nodiscard]] std::optional<row_indices> leading_indices(const tensor::index_structure& s,
                                                         const tensor::tensor_indices& dims,
                                                         const tensor::tensor_type& t, std::int64_t rows);

// Whether any of the indices runs along the dimensions.
[[nodiscard]] bool has_any(const tensor::index_structure& s, const tensor::tensor_indices& dims,
                           const row_indices& rows);

// How the results of a primitive or composite without the row indices are reduced over rows; nothing if rows mix.
[[nodiscard]] std::optional<std::vector<tensor::reduction>> folds_of(const tensor::algebra& a,
                                                                     const tensor::operation& op,
                                                                     std::span<const tensor::tensor_type> inputs,
                                                                     const std::vector<bool>& by_rows,
                                                                     const row_indices& lead, std::int64_t rows);

}  // namespace detail

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_ROW_ROLES)

#include <algorithm>
#include <utility>
#include <variant>

#include <unity/core/config.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/linearity.hpp>
#include <unity/tensor/space.hpp>

namespace unity::fusion::detail {

// Dimensions in the order in which elements are stored, outermost first.
[[nodiscard]] inline std::vector<std::size_t> outer_to_inner(const tensor::tensor_type& t) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < t.rank(); ++d) {
    order.push_back(d);
  }
  if (!is_row_major(t)) {
    std::swap(order[t.rank() - 1], order[t.rank() - 2]);
  }
  return order;
}

UNITY_INLINE std::optional<row_indices> leading_indices(const tensor::index_structure& s,
                                                        const tensor::tensor_indices& dims,
                                                        const tensor::tensor_type& t, std::int64_t rows) {
  row_indices lead;
  std::int64_t reached = 1;
  for (const auto d : outer_to_inner(t)) {
    if (dims[d].window) {
      return std::nullopt;
    }
    for (const auto i : dims[d].indices) {
      const auto size = s.indices[i].size;
      if (size == 1) {
        continue;
      }
      lead.push_back(i);
      if (rows % reached != 0) {
        return std::nullopt;
      }
      const auto left = rows / reached;
      if (size >= left) {
        return size % left == 0 ? std::optional{std::move(lead)} : std::nullopt;
      }
      reached *= size;
    }
  }
  return std::nullopt;
}

UNITY_INLINE bool has_any(const tensor::index_structure& s, const tensor::tensor_indices& dims,
                          const row_indices& rows) {
  const auto is_row = [&](std::size_t i) { return std::find(rows.begin(), rows.end(), i) != rows.end(); };
  const auto slides = [&](const tensor::window& w) {
    return is_row(static_cast<std::size_t>(w.outer)) || (w.inner >= 0 && is_row(static_cast<std::size_t>(w.inner)));
  };
  return std::any_of(dims.begin(), dims.end(), [&](const tensor::dimension_index& d) {
    return std::any_of(d.indices.begin(), d.indices.end(), is_row) || (d.window && slides(s.windows[*d.window]));
  });
}

// How a primitive reduces over rows.
[[nodiscard]] inline std::optional<tensor::reduction> fold_of(const tensor::scalar_kernel& k, const row_indices& lead) {
  for (const auto* program : {&k.inner, &k.outer}) {
    for (const auto& i : *program) {
      const auto at = static_cast<std::size_t>(i.number);
      if (i.op == tensor::scalar_op::coordinate && std::find(lead.begin(), lead.end(), at) != lead.end()) {
        return std::nullopt;
      }
    }
  }
  if (k.reduce == tensor::reduction::largest) {
    return k.outer.size() == 1 ? k.reduce : tensor::reduction::none;
  }
  using tensor::dependence;
  const std::vector<dependence> operands(64, dependence::none);
  const bool adds_up = k.reduce == tensor::reduction::sum &&
                       tensor::dependence_of(k.outer, operands, dependence::additive) == dependence::additive;
  return adds_up ? tensor::reduction::sum : tensor::reduction::none;
}

UNITY_INLINE std::optional<std::vector<tensor::reduction>> folds_of(const tensor::algebra& a,
                                                                    const tensor::operation& op,
                                                                    std::span<const tensor::tensor_type> inputs,
                                                                    const std::vector<bool>& by_rows,
                                                                    const row_indices& lead, std::int64_t rows) {
  const auto& d = a.definition_of(op.kind);
  if (const auto* p = std::get_if<tensor::primitive>(&d.body)) {
    const auto fold = fold_of(p->kernel(a.read(op), inputs), lead);
    return fold ? std::optional{std::vector{*fold}} : std::nullopt;
  }
  const auto body = a.body(op, inputs);
  if (!body) {
    return std::vector(a.infer(op, inputs)->size(), tensor::reduction::none);  // a view
  }
  std::vector<value_id> divided;
  for (std::size_t i = 0; i < by_rows.size(); ++i) {
    if (by_rows[i]) {
      divided.push_back(body->results(node_id{i})[0]);
    }
  }
  const auto labels = row_roles(a, *body, divided, rows);
  for (const auto n : node_ids(*body)) {
    bool mixes = labels.roles[n.index()] == row_role::mixing;
    for (const auto v : body->operands(n)) {
      mixes = mixes || labels.folds[v.index()] != tensor::reduction::none;
    }
    if (mixes) {
      return std::nullopt;
    }
  }
  std::vector<tensor::reduction> folds;
  for (const auto v : body->outputs()) {
    folds.push_back(labels.folds[v.index()]);
  }
  return folds;
}

// lead: the row indices.
[[nodiscard]] inline node_rows rows_along(const tensor::algebra& a, const tensor::operation& op,
                                          std::span<const tensor::tensor_type> inputs,
                                          std::span<const tensor::tensor_type> outputs,
                                          const tensor::index_structure& s, const std::vector<bool>& is_divided,
                                          const std::optional<row_indices>& lead, std::int64_t rows) {
  const node_rows mixing{row_role::mixing, std::vector<bool>(inputs.size()),
                         std::vector(outputs.size(), tensor::reduction::none)};
  auto made = mixing;
  bool goes = lead.has_value();
  const bool stays = goes && std::any_of(s.results.begin(), s.results.end(),
                                         [&](const auto& dims) { return has_any(s, dims, *lead); });
  for (const auto i : goes ? *lead : row_indices{}) {
    const auto kind = s.indices[i].kind;
    goes = goes && (kind == tensor::index_kind::parallel || kind == tensor::index_kind::reduction ||
                    (kind == tensor::index_kind::whole && !stays));  // a maximum
  }
  for (std::size_t x = 0; goes && x < inputs.size(); ++x) {
    made.by_rows[x] = leading_indices(s, s.operands[x], inputs[x], rows) == lead;
    goes = made.by_rows[x] || (!is_divided[x] && !has_any(s, s.operands[x], *lead));
  }
  const auto folds = goes ? folds_of(a, op, inputs, made.by_rows, *lead, rows) : std::nullopt;
  if (!folds) {
    return mixing;
  }
  made.role = row_role::local;
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    if (leading_indices(s, s.results[r], outputs[r], rows) == lead) {
      continue;
    }
    made.folds[r] = (*folds)[r];
    made.role = row_role::folding;
    if (made.folds[r] == tensor::reduction::none || has_any(s, s.results[r], *lead)) {
      return mixing;
    }
  }
  return made;
}

}  // namespace unity::fusion::detail

namespace unity::fusion {

UNITY_INLINE bool divides(const tensor::tensor_type& t, std::int64_t rows) {
  auto left = rows;
  for (const auto d : detail::outer_to_inner(t)) {
    const auto size = t.dims[d];
    if (size >= left) {
      return size % left == 0;
    }
    if (left % size != 0) {
      return false;
    }
    left /= size;
  }
  return left == 1;
}

UNITY_INLINE tensor::shape shape_of_rows(const tensor::tensor_type& t, std::int64_t rows, std::int64_t count) {
  UNITY_EXPECTS(divides(t, rows), "a type that divides into rows");
  auto dims = t.dims;
  auto left = rows;
  for (const auto d : detail::outer_to_inner(t)) {
    if (dims[d] >= left) {
      dims[d] = dims[d] / left * count;
      break;
    }
    left /= dims[d];
    dims[d] = 1;
  }
  return dims;
}

UNITY_INLINE node_rows rows_of(const tensor::algebra& a, const tensor::operation& op,
                               std::span<const tensor::tensor_type> inputs, const std::vector<bool>& is_divided,
                               std::int64_t rows) {
  const auto outputs = a.infer(op, inputs);
  const auto first = std::find(is_divided.begin(), is_divided.end(), true);
  if (!outputs || first == is_divided.end() || rows == 1) {
    return {outputs || first == is_divided.end() ? row_role::whole : row_role::mixing, std::vector<bool>(inputs.size()),
            std::vector(outputs ? outputs->size() : 0, tensor::reduction::none)};
  }
  const auto s = *tensor::dimension_indices(a, op, inputs);
  const auto x = static_cast<std::size_t>(first - is_divided.begin());
  return detail::rows_along(a, op, inputs, *outputs, s, is_divided,
                            detail::leading_indices(s, s.operands[x], inputs[x], rows), rows);
}

UNITY_INLINE node_rows rows_of_results(const tensor::algebra& a, const tensor::operation& op,
                                       std::span<const tensor::tensor_type> inputs, std::int64_t rows) {
  const auto outputs = *a.infer(op, inputs);
  const auto s = *tensor::dimension_indices(a, op, inputs);
  return detail::rows_along(a, op, inputs, outputs, s, std::vector<bool>(inputs.size()),
                            detail::leading_indices(s, s.results[0], outputs[0], rows), rows);
}

UNITY_INLINE row_labels row_roles(const tensor::algebra& a, const tensor::tensor_graph& g,
                                  std::span<const value_id> divided, std::int64_t rows) {
  row_labels labels{std::vector(g.node_count(), row_role::whole), std::vector<bool>(g.value_count()),
                    std::vector(g.value_count(), tensor::reduction::none)};
  for (const auto v : divided) {
    UNITY_EXPECTS(divides(g.type(v), rows), "inputs that divide into rows");
    labels.is_divided[v.index()] = rows > 1;
  }
  for (const auto n : node_ids(g)) {
    std::vector<tensor::tensor_type> inputs;
    std::vector<bool> is_divided;
    for (const auto v : g.operands(n)) {
      inputs.push_back(g.type(v));
      is_divided.push_back(labels.is_divided[v.index()]);
    }
    if (std::find(is_divided.begin(), is_divided.end(), true) == is_divided.end()) {
      continue;
    }
    const auto made = rows_of(a, g.operation(n), inputs, is_divided, rows);
    labels.roles[n.index()] = made.role;
    for (std::size_t r = 0; made.role != row_role::mixing && r < made.folds.size(); ++r) {
      const auto v = g.results(n)[r].index();
      labels.folds[v] = made.folds[r];
      labels.is_divided[v] = made.folds[r] == tensor::reduction::none;
    }
  }
  return labels;
}

UNITY_INLINE operator_class class_of(const tensor::algebra& a, const tensor::operation& op,
                                     std::span<const tensor::tensor_type> inputs,
                                     std::span<const tensor::tensor_type> outputs) {
  const auto& d = a.definition_of(op.kind);
  if (std::holds_alternative<tensor::view>(d.body)) {
    return operator_class::movement;
  }
  if (const auto body = a.body(op, inputs)) {
    auto all = operator_class::elementwise;
    for (const auto n : node_ids(*body)) {
      std::vector<tensor::tensor_type> in;
      std::vector<tensor::tensor_type> out;
      for (const auto v : body->operands(n)) {
        in.push_back(body->type(v));
      }
      for (const auto v : body->results(n)) {
        out.push_back(body->type(v));
      }
      const auto one = in.empty() ? operator_class::elementwise : class_of(a, body->operation(n), in, out);
      all = one > operator_class::broadcast ? operator_class::other : std::max(all, one);
    }
    return all;
  }
  const auto s = a.iteration(op, inputs);
  if (!s || d.source != tensor::source_kind::none) {
    return operator_class::other;
  }
  const auto kernel = std::get<tensor::primitive>(d.body).kernel(a.read(op), inputs);
  if (kernel.reduce == tensor::reduction::none && s->windows().empty()) {
    const bool same = std::all_of(inputs.begin(), inputs.end(),
                                  [&](const tensor::tensor_type& t) { return t.dims == outputs[0].dims; });
    return same ? operator_class::elementwise : operator_class::broadcast;
  }
  std::vector<std::int32_t> read;  // operands within the sum
  for (const auto& i : kernel.inner) {
    if (i.op == tensor::scalar_op::coordinate) {
      return operator_class::other;
    }
    if (i.op == tensor::scalar_op::operand && std::find(read.begin(), read.end(), i.number) == read.end()) {
      read.push_back(i.number);
    }
  }
  const bool slides = !s->windows().empty();
  if (read.size() >= 2) {
    return slides ? operator_class::convolution : operator_class::product;
  }
  return slides ? operator_class::other : operator_class::reduction;
}

}  // namespace unity::fusion

#endif
