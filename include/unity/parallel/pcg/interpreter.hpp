// Evaluates parallel computation graphs shard by shard: the reference semantics of divisions, for checking rules and
// plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/row_major.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/pcg/shard_evaluation.hpp>
#include <unity/parallel/pcg/sharded.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

// The elements that a task reads, from the shards of its term and copy. Beyond its own block these are only halos and
// statistics, by the definition of regions.
template <class Scalar>
[[nodiscard]] region<Scalar> held_by(const sharded<Scalar>& x, const shard_place& own, const box& read) {
  region<Scalar> held{read};
  const auto dims = shard_type(x.type).dims;
  for_each_position(read.begin, read.end, [&](const tensor::shape& at) {
    auto block = at;
    auto inside = at;
    for (std::size_t d = 0; d < at.size(); ++d) {
      block[d] = at[d] / dims[d];
      inside[d] = at[d] % dims[d];
    }
    held[at] = x.shards[shard_at(x.type, own.term, own.copy, block)].data[offset_of(dims, inside)];
  });
  return held;
}

// Adds a task's results to the shards that they belong to: its own, and neighbours' if windows reach further.
template <class Scalar>
void give(sharded<Scalar>& y, const shard_place& own, const region<Scalar>& made) {
  const auto dims = shard_type(y.type).dims;
  for_each_position(made.place.begin, made.place.end, [&](const tensor::shape& at) {
    auto block = at;
    auto inside = at;
    for (std::size_t d = 0; d < at.size(); ++d) {
      block[d] = at[d] / dims[d];
      inside[d] = at[d] % dims[d];
    }
    y.shards[shard_at(y.type, own.term, own.copy, block)].data[offset_of(dims, inside)] += made[at];
  });
}

template <class Scalar>
[[nodiscard]] std::vector<sharded<Scalar>> evaluate_divided(const tensor::algebra& a, const operator_dimensions& o,
                                                            const operator_grid& g,
                                                            std::span<const sharded<Scalar>* const> operands,
                                                            std::span<const parallel_type> types) {
  std::vector<sharded<Scalar>> results;
  for (const auto& t : types) {
    results.push_back(empty_shards<Scalar>(t));
  }
  for (const auto& task : tasks_of(o, g)) {
    std::vector<region<Scalar>> held;
    for (std::size_t x = 0; x < operands.size(); ++x) {
      held.push_back(held_by(*operands[x], operand_shard(o, g, task, x), operand_region(o, task, x)));
    }
    const auto made = evaluate_task<Scalar>(a, o, task, held);
    for (std::size_t r = 0; r < made.size(); ++r) {
      give(results[r], result_shard(o, g, task, r), made[r]);
    }
  }
  return results;
}

}  // namespace detail

// Applies an operator to divided operands.
// Throws: unity::error if it does not accept them, or has no known meaning.
template <class Scalar>
[[nodiscard]] std::vector<sharded<Scalar>> evaluate(const pcg_algebra& a, const tensor::operation& op,
                                                    std::span<const sharded<Scalar>* const> operands) {
  std::vector<parallel_type> types;
  for (const auto* x : operands) {
    types.push_back(x->type);
  }
  const auto results = a.infer(op, types);
  if (!results || operands.empty()) {
    throw error{fmt::format("evaluation of {}", a.signature(op.kind).name), "operands that it does not take",
                "operands of one grid of tasks"};
  }
  if (const auto p = a.read(op)) {
    return {apply_to_shards<Scalar>(*p, operands, (*results)[0])};
  }
  return detail::evaluate_divided<Scalar>(a.operators(), *a.dimensions(op, types), *a.grid(op, types), operands,
                                          *results);
}

// The outputs, each in one piece. provider: as of tensor::evaluate. Law: equal to the outputs of the erased graph.
// Complexity: the points of all tasks; slow, because every position is computed and checked.
// Throws: unity::error that names the node whose operator does not accept its operands, whose task reads elements that
// it does not hold, or whose copies differ.
template <class Scalar, tensor::source_provider<Scalar> Provider>
[[nodiscard]] std::vector<tensor::dense<Scalar>> evaluate(const pcg_algebra& a, const pcg& g, const Provider& provider,
                                                          std::uint64_t seed = 0) {
  std::vector<sharded<Scalar>> values(g.value_count());
  for (const auto n : node_ids(g)) {
    const auto where = [&] { return fmt::format("node {} ({})", n.index(), a.signature(g.operation(n).kind).name); };
    if (g.operands(n).empty()) {
      for (const auto v : g.results(n)) {
        const auto& type = g.type(v).global;
        std::optional<tensor::dense<Scalar>> given = provider(g.operation(n), type);
        auto value =
            given ? *std::move(given) : tensor::evaluate<Scalar>(a.operators(), g.operation(n), {}, {}, seed)[0];
        values[v.index()] = in_one_piece(type, std::move(value));
      }
      continue;
    }
    std::vector<const sharded<Scalar>*> operands;
    for (const auto v : g.operands(n)) {
      operands.push_back(&values[v.index()]);
    }
    auto results = evaluate<Scalar>(a, g.operation(n), operands);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (!detail::copies_agree(results[r]) || results[r].type != g.type(g.results(n)[r])) {
        throw error{where(), "copies that differ, or another type", to_string(g.type(g.results(n)[r]))};
      }
      values[g.results(n)[r].index()] = std::move(results[r]);
    }
  }
  std::vector<tensor::dense<Scalar>> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(combined(values[v.index()]));
  }
  return outputs;
}

// All sources have arbitrary values.
template <class Scalar>
[[nodiscard]] std::vector<tensor::dense<Scalar>> evaluate(const pcg_algebra& a, const pcg& g, std::uint64_t seed = 0) {
  return evaluate<Scalar>(
      a, g, [](const tensor::operation&, const tensor::tensor_type&) { return std::optional<tensor::dense<Scalar>>{}; },
      seed);
}

}  // namespace unity::parallel
