// Checks that a divided graph computes the same as the graph: evaluates both, forward and backward, on the smallest
// sizes that the division allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/shrink.hpp>

namespace unity::parallel {

// The result of a comparison.
struct value_comparison {
  enum class verdicts : std::uint8_t { equal, different, too_large };

  verdicts verdict = verdicts::equal;
  std::string sizes{};        // in one line: the inputs' dimensions before and after
  std::size_t nodes = 0;      // of the parallel computation graph with its gradients
  std::size_t gradients = 0;  // of weights, besides the outputs
  std::int64_t elements = 0;  // of all shards of the forward pass
};

namespace detail {

// Types of an operator's operands and results on a grid; nothing if the operator cannot have the grid on such operands.
[[nodiscard]] std::optional<grid_types> types_of_grid(const pcg_algebra& a, const tensor::operation& op,
                                                      std::span<const tensor::tensor_type> inputs,
                                                      const operator_grid& g);

// Per value and dimension: the least common multiple of the numbers of parts into which operators divide it.
[[nodiscard]] std::vector<std::vector<std::int64_t>> parts_of_values(const pcg_algebra& a,
                                                                     const tensor::tensor_graph& g,
                                                                     std::span<const operator_grid> grids);

}  // namespace detail

// The graph on the smallest sizes found on which every operator still has its grid. Complexity: as tensor::shrink.
[[nodiscard]] tensor::shrunk_graphs shrink_divided(const pcg_algebra& a, const tensor::tensor_graph& g,
                                                   std::span<const operator_grid> grids);

// Evaluates the graph, and shard by shard the parallel computation graph that spell_out makes of it, with the gradients
// of trained weights, modulo 2^61 - 1. In this arithmetic, functions that are not polynomials become arbitrary ones, so
// equality is exact and stronger evidence than close floating-point numbers. too_large: the shards have more than
// `most` elements. Complexity: the points of all tasks on the shrunk sizes.
// Throws: unity::error if an operator has no such grid, or no known meaning.
[[nodiscard]] value_comparison compare_values(const pcg_algebra& a, const tensor::tensor_graph& g,
                                              std::span<const operator_grid> grids, std::int64_t most = 20'000'000,
                                              std::uint64_t seed = 0);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_PLAN_VALUES)

#include <numeric>

#include <unity/core/id.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/erasure.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_adjoint.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/scalar.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<grid_types> types_of_grid(const pcg_algebra& a, const tensor::operation& op,
                                                     std::span<const tensor::tensor_type> inputs,
                                                     const operator_grid& g) {
  std::vector<parallel_type> whole;
  for (const auto& t : inputs) {
    whole.push_back(undivided(t));
  }
  const auto* o = a.dimensions(op, whole);
  if (o == nullptr || o->structure.indices.size() != g.indices.size() || o->groups.size() != g.partials.size() ||
      !why_not(*o, g).empty()) {
    return std::nullopt;
  }
  auto types = types_on(*o, g);
  return types && a.grid(op, types->operands) ? std::move(types) : std::nullopt;
}

UNITY_INLINE std::vector<std::vector<std::int64_t>> parts_of_values(const pcg_algebra& a, const tensor::tensor_graph& g,
                                                                    std::span<const operator_grid> grids) {
  std::vector<std::vector<std::int64_t>> parts(g.value_count());
  for (std::size_t v = 0; v < parts.size(); ++v) {
    parts[v].assign(g.type(value_id{v}).rank(), 1);
  }
  const auto count = [&](value_id v, const parallel_type& t) {
    for (auto&& [number, degree, steps] : ranges::views::zip(parts[v.index()], t.degrees, t.steps)) {
      number = std::lcm(number, degree * steps);
    }
  };
  for (const auto n : node_ids(g)) {
    std::vector<tensor::tensor_type> inputs;
    for (const auto v : g.operands(n)) {
      inputs.push_back(g.type(v));
    }
    if (const auto types = inputs.empty() ? std::nullopt : types_of_grid(a, g.operation(n), inputs, grids[n.index()])) {
      for (const auto& [v, type] : ranges::views::zip(g.operands(n), types->operands)) {
        count(v, type);
      }
      for (const auto& [v, type] : ranges::views::zip(g.results(n), types->results)) {
        count(v, type);
      }
    }
  }
  return parts;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE tensor::shrunk_graphs shrink_divided(const pcg_algebra& a, const tensor::tensor_graph& g,
                                                  std::span<const operator_grid> grids) {
  const auto parts = detail::parts_of_values(a, g, grids);
  tensor::shrink_options o;
  o.multiple = [&](std::size_t, value_id v, std::size_t d) { return parts[v.index()][d]; };
  o.accepts = [&](std::size_t, node_id n, const tensor::operation& op, std::span<const tensor::tensor_type> inputs) {
    return inputs.empty() || detail::types_of_grid(a, op, inputs, grids[n.index()]).has_value();
  };
  return tensor::shrink(a.operators(), g, g, o);
}

UNITY_INLINE value_comparison compare_values(const pcg_algebra& a, const tensor::tensor_graph& g,
                                             std::span<const operator_grid> grids, std::int64_t most,
                                             std::uint64_t seed) {
  const auto small = shrink_divided(a, g, grids);
  const auto divided = spell_out(a, small.first, grids);
  const auto erased = erase_values(a, divided);
  value_comparison r;
  r.sizes = small.sizes;
  for (const auto v : value_ids(divided)) {
    const auto& t = divided.type(v);
    r.elements += tensor::element_count(t.global.dims) * t.copies * t.partial;
  }
  if (r.elements > most) {
    r.verdict = value_comparison::verdicts::too_large;
    return r;
  }
  tensor::differentiation what;
  what.sources = tensor::trained_weights(a.operators(), erased.graph);
  std::vector<value_id> sources;
  for (const auto w : what.sources) {
    for (std::size_t v = 0; v < divided.value_count() && sources.size() < what.sources.size(); ++v) {
      if (erased.values[v] == w && divided.operands(divided.producer(value_id{v})).empty()) {
        sources.emplace_back(v);
      }
    }
  }
  const auto own = what.sources.empty() ? divided : differentiate(a, divided, sources).graph;
  const auto whole =
      what.sources.empty() ? erased.graph : tensor::differentiate(a.operators(), erased.graph, what).graph;
  r.nodes = own.node_count();
  r.gradients = sources.size();
  if (evaluate<tensor::modular61>(a, own, seed) != tensor::evaluate<tensor::modular61>(a.operators(), whole, seed)) {
    r.verdict = value_comparison::verdicts::different;
  }
  return r;
}

}  // namespace unity::parallel

#endif
