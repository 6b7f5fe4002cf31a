// Which results are not kept from the forward to the backward pass, but computed again.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Per node of a graph: its results are dropped when the forward pass has read them, and computed again before the first
// backward task that needs them: once, from the nearest results that are kept, those on the way after each other. They
// are dropped after their last use. Empty: all are kept. Where no backward task needs a result, it makes no difference.
// Source: Chen et al., Training deep nets with sublinear memory cost, 2016.
using recomputation = std::vector<bool>;

// Operators, whose operands are there; not what the graph hands out, which is kept. An operator has no state here, and
// what a dropout drops is data (tensor/training_form.hpp): the second run makes what the first one made.
[[nodiscard]] bool can_recompute(const tensor::tensor_graph& g, node_id n);

// Throws: unity::error that names the node, where the list is none of the graph.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const recomputation& r);

namespace detail {

// Per operator: nothing in front of it is read behind it.
[[nodiscard]] std::vector<bool> cuts_of(const tensor::tensor_graph& g);
// Are operands multiplied with each other and summed up.
[[nodiscard]] bool is_product(const tensor::index_structure& s);

}  // namespace detail

[[nodiscard]] inline bool is_recomputed(const recomputation& r, node_id n) { return !r.empty() && r[n.index()]; }

// Keeps checkpoints alone: about the square root of the number of operators of them, as far apart as each other, where
// all paths through the graph meet. A result of a chain of n equal ones is held while about 2 sqrt(n) others are.
// Complexity: linear in the graph.
// Source: Chen et al., section 4.1; dominators as cuts.
[[nodiscard]] recomputation full_recomputation(const tensor::tensor_graph& g);

// Keeps results of products that are summed up: matrix products, convolutions, recurrent cells. What lies between them
// is cheap to compute.
// Complexity: linear in the graph, and dimensions_of for each distinct operator.
// Source: Hu et al., dPRO, MLSys 2022, its memory passes.
[[nodiscard]] recomputation recomputation_between_products(const tensor::algebra& a, const tensor::tensor_graph& g);

// Keeps every k-th operator, in the order of the graph. Precondition: k is positive; 1 keeps all.
[[nodiscard]] recomputation recomputation_but_every(const tensor::tensor_graph& g, std::size_t k);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RECOMPUTATION)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>

namespace unity::parallel {

namespace detail {

UNITY_INLINE std::vector<bool> cuts_of(const tensor::tensor_graph& g) {
  std::vector<std::size_t> last(g.node_count());  // reader, by operator
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      last[g.producer(v).index()] = n.index();
    }
  }
  for (const auto v : g.outputs()) {
    last[g.producer(v).index()] = g.node_count();
  }
  std::vector<bool> all(g.node_count());
  std::size_t open = 0;  // the last reader of the operators before
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all[n.index()] = open <= n.index();
      open = std::max(open, last[n.index()]);
    }
  }
  return all;
}

// An index along dimensions of two operands or more and of no result: what they have there is multiplied and summed up.
UNITY_INLINE bool is_product(const tensor::index_structure& s) {
  const auto has = [&](const tensor::tensor_indices& dims, std::size_t index) {
    return std::any_of(dims.begin(), dims.end(), [&](const tensor::dimension_index& d) {
      const auto is_of = [&](int part) { return part == static_cast<int>(index); };
      return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end() ||
             (d.window && (is_of(s.windows[*d.window].outer) || is_of(s.windows[*d.window].inner)));
    });
  };
  for (std::size_t i = 0; i < s.indices.size(); ++i) {
    const auto is_along = [&](const tensor::tensor_indices& dims) { return has(dims, i); };
    if (std::count_if(s.operands.begin(), s.operands.end(), is_along) > 1 &&
        std::none_of(s.results.begin(), s.results.end(), is_along)) {
      return true;
    }
  }
  return false;
}

}  // namespace detail

UNITY_INLINE bool can_recompute(const tensor::tensor_graph& g, node_id n) {
  const auto results = g.results(n);
  return !g.operands(n).empty() && std::none_of(g.outputs().begin(), g.outputs().end(), [&](value_id v) {
    return std::find(results.begin(), results.end(), v) != results.end();
  });
}

UNITY_INLINE void check(const tensor::algebra& a, const tensor::tensor_graph& g, const recomputation& r) {
  if (!r.empty() && r.size() != g.node_count()) {
    throw error{"recomputation", fmt::format("of {} nodes", r.size()),
                fmt::format("of the {} that the graph has", g.node_count())};
  }
  for (std::size_t n = 0; n < r.size(); ++n) {
    if (r[n] && !can_recompute(g, node_id{n})) {
      throw error{fmt::format("recomputation, node {} ({})", n, a.signature(g.operation(node_id{n}).kind).name),
                  g.operands(node_id{n}).empty() ? "what has no operands" : "an output of the graph, which is kept",
                  "an operator whose results nobody but operators reads"};
    }
  }
}

UNITY_INLINE recomputation full_recomputation(const tensor::tensor_graph& g) {
  const auto cuts = detail::cuts_of(g);
  std::size_t operators = 0;
  for (const auto n : node_ids(g)) {
    operators += g.operands(n).empty() ? 0 : 1;
  }
  recomputation all(g.node_count());
  std::size_t since = 0;  // the last checkpoint
  for (const auto n : node_ids(g)) {
    since += g.operands(n).empty() ? 0 : 1;
    const bool is_checkpoint = cuts[n.index()] && since * since >= operators;
    since = is_checkpoint ? 0 : since;
    all[n.index()] = !is_checkpoint && can_recompute(g, n);
  }
  return all;
}

UNITY_INLINE recomputation recomputation_between_products(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const graph_dimensions dimensions{a, g};
  recomputation all(g.node_count());
  for (const auto n : node_ids(g)) {
    all[n.index()] = can_recompute(g, n) && !detail::is_product(dimensions[n].structure);
  }
  return all;
}

UNITY_INLINE recomputation recomputation_but_every(const tensor::tensor_graph& g, std::size_t k) {
  UNITY_EXPECTS(k > 0, "a positive number");
  recomputation all(g.node_count());
  std::size_t number = 0;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      all[n.index()] = ++number % k != 0 && can_recompute(g, n);
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
