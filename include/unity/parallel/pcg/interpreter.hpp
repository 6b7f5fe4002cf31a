// Evaluates parallel computation graphs shard by shard: the reference semantics of divisions, for checking rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/cartesian_product.hpp>
#include <range/v3/view/indices.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/row_major.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/parallel/tasks/primitive_parts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

// Divided tensors with values, and the effect of parallelization operators on them.

// Regular. One shard per entry of [partial][copies][blocks...], row-major; steps are the outer digits of blocks.
template <class Scalar>
struct sharded {
  parallel_type type{};
  std::vector<tensor::dense<Scalar>> shards{};

  friend bool operator==(const sharded&, const sharded&) = default;
};

// The number of blocks along every dimension, across all steps.
[[nodiscard]] tensor::shape block_counts(const parallel_type& t);

namespace detail {

[[nodiscard]] std::size_t shard_at(const parallel_type& t, std::int64_t partial, std::int64_t copy,
                                   const tensor::shape& block);

template <class Scalar>
[[nodiscard]] sharded<Scalar> empty_shards(const parallel_type& t) {
  const auto count = total(t) * product(t.steps);
  return {t, std::vector<tensor::dense<Scalar>>(static_cast<std::size_t>(count),
                                                tensor::dense<Scalar>{shard_type(t).dims})};
}

// Calls visit(partial, copy, block) for every shard.
template <class Visit>
void for_each_shard(const parallel_type& t, Visit&& visit) {
  using ranges::views::indices;
  for (const auto& [p, c] : ranges::views::cartesian_product(indices(t.partial), indices(t.copies))) {
    for_each_position(block_counts(t),
                      [&, partial = p, copy = c](const tensor::shape& block) { visit(partial, copy, block); });
  }
}

// Copies elements between the blocks of the coarse and the fine tensor: a coarse block has k fine ones along the axis.
template <class Scalar, class Move>
void match_blocks(const sharded<Scalar>& coarse, const sharded<Scalar>& fine, std::size_t axis, std::int64_t k,
                  const Move& move) {
  const auto coarse_dims = shard_type(coarse.type).dims;
  const auto fine_dims = shard_type(fine.type).dims;
  for_each_shard(fine.type, [&](std::int64_t p, std::int64_t c, const tensor::shape& block) {
    auto outer = block;
    outer[axis] = block[axis] / k;
    const auto from = shard_at(coarse.type, p, c, outer);
    const auto to = shard_at(fine.type, p, c, block);
    for_each_position(fine_dims, [&](const tensor::shape& at) {
      auto shifted = at;
      shifted[axis] += block[axis] % k * fine_dims[axis];
      move(from, offset_of(coarse_dims, shifted), to, offset_of(fine_dims, at));
    });
  });
}

template <class Scalar>
void divide_blocks(const sharded<Scalar>& coarse, sharded<Scalar>& fine, std::size_t axis, std::int64_t k) {
  match_blocks(coarse, fine, axis, k, [&](std::size_t from, std::size_t x, std::size_t to, std::size_t y) {
    fine.shards[to].data[y] = coarse.shards[from].data[x];
  });
}
template <class Scalar>
void join_blocks(const sharded<Scalar>& fine, sharded<Scalar>& coarse, std::size_t axis, std::int64_t k) {
  match_blocks(coarse, fine, axis, k, [&](std::size_t from, std::size_t x, std::size_t to, std::size_t y) {
    coarse.shards[from].data[x] = fine.shards[to].data[y];
  });
}

template <class Scalar>
void add_to(tensor::dense<Scalar>& sum, const tensor::dense<Scalar>& partial) {
  for (auto&& [total, part] : ranges::views::zip(sum.data, partial.data)) {
    total += part;
  }
}

// Whether all copies of each block are equal, where NaN equals NaN: their tasks did the same.
template <class Scalar>
[[nodiscard]] bool copies_agree(const sharded<Scalar>& x) {
  bool agree = true;
  for_each_shard(x.type, [&](std::int64_t p, std::int64_t c, const tensor::shape& block) {
    const auto& first = x.shards[shard_at(x.type, p, 0, block)].data;
    const auto& own = x.shards[shard_at(x.type, p, c, block)].data;
    for (std::size_t i = 0; i < own.size(); ++i) {
      agree = agree && (own[i] == first[i] || (own[i] != own[i] && first[i] != first[i]));
    }
  });
  return agree;
}

}  // namespace detail

// The tensor in one piece: the sum of its partials, block by block.
// Complexity: linear in the elements.
// Throws: unity::error if copies differ.
template <class Scalar>
[[nodiscard]] tensor::dense<Scalar> combined(const sharded<Scalar>& x) {
  if (!detail::copies_agree(x)) {
    throw error{fmt::format("a tensor {}", to_string(x.type)), "copies that differ", "equal ones"};
  }
  tensor::dense<Scalar> whole{x.type.global.dims};
  const auto dims = shard_type(x.type).dims;
  detail::for_each_shard(x.type, [&](std::int64_t p, std::int64_t c, const tensor::shape& block) {
    const auto& shard = x.shards[detail::shard_at(x.type, p, c, block)].data;
    for_each_position(c == 0 ? dims : tensor::shape{0}, [&](const tensor::shape& at) {
      auto global = at;
      for (std::size_t d = 0; d < at.size(); ++d) {
        global[d] += block[d] * dims[d];
      }
      whole.data[offset_of(whole.dims, global)] += shard[offset_of(dims, at)];
    });
  });
  return whole;
}

// Undivided, on one task.
template <class Scalar>
[[nodiscard]] sharded<Scalar> in_one_piece(const tensor::tensor_type& t, tensor::dense<Scalar> value) {
  UNITY_EXPECTS(value.dims == t.dims, "a value of the sizes that its type says");
  return {undivided(t), {std::move(value)}};
}

// Applies a parallelization operator; to: the type of its result.
// Complexity: linear in the elements of operands and result.
template <class Scalar>
[[nodiscard]] sharded<Scalar> apply_to_shards(const parallel_operator& p,
                                              std::span<const sharded<Scalar>* const> operands,
                                              const parallel_type& to) {
  const auto& x = *operands[0];
  const auto axis = static_cast<std::size_t>(p.axis);
  const auto k = p.degree;
  auto y = detail::empty_shards<Scalar>(to);
  const auto each = [&](const auto& visit) {
    detail::for_each_shard(to, [&](std::int64_t partial, std::int64_t copy, const tensor::shape& block) {
      visit(y.shards[detail::shard_at(to, partial, copy, block)], partial, copy, block);
    });
  };
  using values = tensor::dense<Scalar>;
  const auto at = [&](std::int64_t partial, std::int64_t copy, const tensor::shape& block) -> const values& {
    return x.shards[detail::shard_at(x.type, partial, copy, block)];
  };
  switch (p.kind) {
    case parallel_kind::partition:
    case parallel_kind::pipeline: detail::divide_blocks(x, y, axis, k); break;
    case parallel_kind::combine:
    case parallel_kind::batch: detail::join_blocks(x, y, axis, k); break;
    case parallel_kind::replicate:
      each([&](values& s, std::int64_t partial, std::int64_t copy, const tensor::shape& b) {
        s = at(partial, copy / k, b);
      });
      break;
    case parallel_kind::discard:
      each([&](values& s, std::int64_t partial, std::int64_t copy, const tensor::shape& b) {
        s = at(partial, copy * k, b);
      });
      break;
    case parallel_kind::reduce:
      each([&](values& s, std::int64_t partial, std::int64_t copy, const tensor::shape& b) {
        for (std::int64_t r = 0; r < k; ++r) {
          detail::add_to(s, at(partial * k + r, copy, b));
        }
      });
      break;
    case parallel_kind::inject:
      each([&](values& s, std::int64_t partial, std::int64_t copy, const tensor::shape& b) {
        s = partial % k == 0 ? at(partial / k, copy, b) : s;
      });
      break;
    case parallel_kind::terms:
      each([&](values& s, std::int64_t partial, std::int64_t copy, const tensor::shape& b) {
        const auto& from = *operands[static_cast<std::size_t>(partial / x.type.partial)];
        s = from.shards[detail::shard_at(from.type, partial % x.type.partial, copy, b)];
      });
      break;
    case parallel_kind::blocks:
      each([&](values& s, std::int64_t partial, std::int64_t copy, tensor::shape b) {
        const auto& from = *operands[static_cast<std::size_t>(b[axis] / x.type.degrees[axis])];
        b[axis] %= x.type.degrees[axis];
        s = from.shards[detail::shard_at(from.type, partial, copy, b)];
      });
      break;
  }
  return y;
}

// Computes one task of a divided operator from only the elements that it holds.

namespace detail {

template <class Scalar>
[[nodiscard]] Scalar viewed_element(const tensor::view_map& map, std::size_t result, const tensor::shape& at,
                                    std::span<const region<Scalar>> operands) {
  if (map.relabels()) {
    return operands[0][position_of(offset_of(map.results()[0].dims, at), map.dims(0))];
  }
  auto value = tensor::scalar_traits<Scalar>::literal(map.fill());
  for (const auto& p : map.pieces()) {
    bool is_inside = p.result == result;
    for (std::size_t d = 0; is_inside && d < at.size(); ++d) {
      is_inside = at[d] >= p.origin[d] && at[d] < p.origin[d] + p.sizes[d];
    }
    if (!is_inside) {
      continue;
    }
    tensor::shape from;
    for (const auto& s : p.source) {
      const auto along = static_cast<std::size_t>(std::max(s.along, 0));
      from.push_back(s.along < 0 ? s.start : s.start + s.step * (at[along] - p.origin[along]));
    }
    value = operands[p.operand][from];
  }
  return value;
}

// Evaluates the composite on what the task reads, as if that were the whole; then takes the task's part of the results.
template <class Scalar>
[[nodiscard]] std::vector<region<Scalar>> part_of_composite(const tensor::algebra& a, const operator_dimensions& o,
                                                            const grid_task& t,
                                                            std::span<const region<Scalar>> operands) {
  const auto part = composite_on(a, o, t);
  if (!part) {
    throw error{fmt::format("a task of {}", a.signature(o.op.kind).name), "parts that the operator does not take",
                "an operator that runs on parts"};
  }
  std::vector<tensor::dense<Scalar>> values;
  for (const auto& x : operands) {
    values.push_back(x.data);
  }
  const auto results = tensor::evaluate<Scalar>(a, part->op, values, part->inputs);
  std::vector<region<Scalar>> parts;
  for (std::size_t r = 0; r < results.size(); ++r) {
    region<Scalar> all{computed_region(o, t, r)};
    all.data = results[r];
    auto& own = parts.emplace_back(result_region(o, t, r));
    for_each_position(own.place.begin, own.place.end, [&](const tensor::shape& at) { own[at] = all[at]; });
  }
  return parts;
}

}  // namespace detail

// operands: the elements that the task holds, at least operand_region() of each. Results: result_region() of each.
// Complexity: the points of the task.
// Throws: unity::error if the task reads an element that it does not hold, or the operator has no known meaning.
template <class Scalar>
[[nodiscard]] std::vector<region<Scalar>> evaluate_task(const tensor::algebra& a, const operator_dimensions& o,
                                                        const grid_task& t, std::span<const region<Scalar>> operands) {
  if (const auto s = a.iteration(o.op, o.inputs)) {
    const auto kernel = std::get<tensor::primitive>(a.definition_of(o.op.kind).body).kernel(a.read(o.op), o.inputs);
    return {detail::part_of_primitive<Scalar>{o, *s, kernel, t, operands}.run()};
  }
  const auto map = a.index_map(o.op, o.inputs);
  if (!map) {
    return detail::part_of_composite<Scalar>(a, o, t, operands);
  }
  std::vector<region<Scalar>> results;
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    auto& out = results.emplace_back(result_region(o, t, r));
    for_each_position(out.place.begin, out.place.end, [&](const tensor::shape& at) {
      out[at] = detail::viewed_element<Scalar>(*map, r, at, operands);
    });
  }
  return results;
}

namespace detail {

// The elements that a task reads, from the shards of its partial and copy. Beyond its own block these are only halos
// and statistics, by the definition of regions.
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
    held[at] = x.shards[shard_at(x.type, own.partial, own.copy, block)].data[offset_of(dims, inside)];
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
    y.shards[shard_at(y.type, own.partial, own.copy, block)].data[offset_of(dims, inside)] += made[at];
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
// Throws: unity::error if an operator does not accept its operands, or a task reads elements that it does not hold; an
// error that names the node if copies of its results differ.
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_INTERPRETER)

namespace unity::parallel {

UNITY_INLINE tensor::shape block_counts(const parallel_type& t) {
  tensor::shape counts;
  for (const auto& [degree, steps] : ranges::views::zip(t.degrees, t.steps)) {
    counts.push_back(degree * steps);
  }
  return counts;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::size_t shard_at(const parallel_type& t, std::int64_t partial, std::int64_t copy,
                                  const tensor::shape& block) {
  const auto counts = block_counts(t);
  const auto blocks = tensor::element_count(counts);
  return static_cast<std::size_t>((partial * t.copies + copy) * blocks) + offset_of(counts, block);
}

}  // namespace unity::parallel::detail

#endif
