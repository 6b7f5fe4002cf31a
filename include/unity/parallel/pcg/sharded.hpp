// Divided tensors with values, and the effect of parallelization operators on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <range/v3/view/cartesian_product.hpp>
#include <range/v3/view/indices.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/row_major.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

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

[[nodiscard]] std::size_t shard_at(const parallel_type& t, std::int64_t term, std::int64_t copy,
                                   const tensor::shape& block);

template <class Scalar>
[[nodiscard]] sharded<Scalar> empty_shards(const parallel_type& t) {
  const auto count = total(t) * product(t.steps);
  return {t, std::vector<tensor::dense<Scalar>>(static_cast<std::size_t>(count),
                                                tensor::dense<Scalar>{shard_type(t).dims})};
}

// Calls visit(term, copy, block) for every shard.
template <class Visit>
void for_each_shard(const parallel_type& t, Visit&& visit) {
  using ranges::views::indices;
  for (const auto& [p, c] : ranges::views::cartesian_product(indices(t.partial), indices(t.copies))) {
    for_each_position(block_counts(t),
                      [&, term = p, copy = c](const tensor::shape& block) { visit(term, copy, block); });
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
void add_to(tensor::dense<Scalar>& sum, const tensor::dense<Scalar>& term) {
  for (auto&& [total, part] : ranges::views::zip(sum.data, term.data)) {
    total += part;
  }
}

// Whether all copies of each block are bitwise equal: their tasks did the same.
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

// The tensor in one piece: the sum of its terms, block by block.
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
    detail::for_each_shard(to, [&](std::int64_t term, std::int64_t copy, const tensor::shape& block) {
      visit(y.shards[detail::shard_at(to, term, copy, block)], term, copy, block);
    });
  };
  using values = tensor::dense<Scalar>;
  const auto at = [&](std::int64_t term, std::int64_t copy, const tensor::shape& block) -> const values& {
    return x.shards[detail::shard_at(x.type, term, copy, block)];
  };
  switch (p.kind) {
    case parallel_kind::partition:
    case parallel_kind::pipeline: detail::divide_blocks(x, y, axis, k); break;
    case parallel_kind::combine:
    case parallel_kind::batch: detail::join_blocks(x, y, axis, k); break;
    case parallel_kind::replicate:
      each([&](values& s, std::int64_t term, std::int64_t copy, const tensor::shape& b) { s = at(term, copy / k, b); });
      break;
    case parallel_kind::discard:
      each([&](values& s, std::int64_t term, std::int64_t copy, const tensor::shape& b) { s = at(term, copy * k, b); });
      break;
    case parallel_kind::reduce:
      each([&](values& s, std::int64_t term, std::int64_t copy, const tensor::shape& b) {
        for (std::int64_t r = 0; r < k; ++r) {
          detail::add_to(s, at(term * k + r, copy, b));
        }
      });
      break;
    case parallel_kind::inject:
      each([&](values& s, std::int64_t term, std::int64_t copy, const tensor::shape& b) {
        s = term % k == 0 ? at(term / k, copy, b) : s;
      });
      break;
    case parallel_kind::terms:
      each([&](values& s, std::int64_t term, std::int64_t copy, const tensor::shape& b) {
        const auto& from = *operands[static_cast<std::size_t>(term / x.type.partial)];
        s = from.shards[detail::shard_at(from.type, term % x.type.partial, copy, b)];
      });
      break;
    case parallel_kind::blocks:
      each([&](values& s, std::int64_t term, std::int64_t copy, tensor::shape b) {
        const auto& from = *operands[static_cast<std::size_t>(b[axis] / x.type.degrees[axis])];
        b[axis] %= x.type.degrees[axis];
        s = from.shards[detail::shard_at(from.type, term, copy, b)];
      });
      break;
  }
  return y;
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PCG_SHARDED)

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

UNITY_INLINE std::size_t shard_at(const parallel_type& t, std::int64_t term, std::int64_t copy,
                                  const tensor::shape& block) {
  const auto counts = block_counts(t);
  const auto blocks = tensor::element_count(counts);
  return static_cast<std::size_t>((term * t.copies + copy) * blocks) + offset_of(counts, block);
}

}  // namespace unity::parallel::detail

#endif
