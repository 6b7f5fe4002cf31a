// What devices that divide gradients and weights exchange for each piece of a stage of a plan statement.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/strategies/layer_work.hpp>

namespace unity::parallel {

// Of the embedding, a layer or the head, as units of FSDP. Regular.
// Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.
struct piece_shards {
  bytes gathered{};  // of all weights that it reads, whole
  // Gradients, whole, that are added up in the backward pass of this piece for the first time, by the piece after which
  // they are complete: the same one, except for weights that several pieces read.
  std::vector<std::pair<std::uint32_t, bytes>> begun{};
  bytes scattered{};     // gradients, whole, that are complete after its backward pass
  picoseconds adding{};  // of their shares to those of micro-batches before

  friend bool operator==(const piece_shards&, const piece_shards&) = default;
};

// Of the pieces from first to last, which one stage has. Complexity: linear in pieces and weights.
[[nodiscard]] std::vector<piece_shards> shards_of(const transformer_work& work, std::uint32_t first,
                                                  std::uint32_t last);
// Of all pieces, by the chunk that each is of, ascending: what shards_of says of the pieces of each.
// Complexity: linear in pieces and weights.
[[nodiscard]] std::vector<piece_shards> shards_of(const transformer_work& work, std::span<const std::int64_t> chunks);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_SHARDS)

#include <algorithm>
#include <cstddef>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Effects: adds what a weight that these pieces of a chunk read brings to them; the first of all is number `first`.
UNITY_INLINE void add_shards(std::vector<piece_shards>& all, const held_weight& w,
                             std::span<const std::uint32_t> readers, std::uint32_t first) {
  for (const auto piece : readers) {
    all[piece - first].gathered += bytes{w.elements * static_cast<std::int64_t>(tensor::size_of(w.element))};
  }
  const bytes gradient{w.elements * gradient_bytes(w.element)};
  auto& complete = all[readers.front() - first];
  complete.scattered += gradient;
  complete.adding += w.adding;
  auto& begun = all[readers.back() - first].begun;
  const auto known =
      std::find_if(begun.begin(), begun.end(), [&](const auto& b) { return b.first == readers.front(); });
  if (known != begun.end()) {
    known->second += gradient;
  } else {
    begun.emplace_back(readers.front(), gradient);
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::vector<piece_shards> shards_of(const transformer_work& work, std::uint32_t first,
                                                 std::uint32_t last) {
  std::vector<piece_shards> all(static_cast<std::size_t>(last - first) + 1);
  for (const auto& w : work.weights) {
    const auto begin = std::lower_bound(w.pieces.begin(), w.pieces.end(), first);
    const auto end = std::upper_bound(begin, w.pieces.end(), last);
    if (begin != end) {
      detail::add_shards(all, w, {begin, end}, first);
    }
  }
  return all;
}

UNITY_INLINE std::vector<piece_shards> shards_of(const transformer_work& work, std::span<const std::int64_t> chunks) {
  std::vector<piece_shards> all(work.pieces.size());
  for (const auto& w : work.weights) {
    for (auto begin = w.pieces.begin(); begin != w.pieces.end();) {
      const auto end = std::find_if(begin, w.pieces.end(), [&](auto piece) { return chunks[piece] != chunks[*begin]; });
      detail::add_shards(all, w, {begin, end}, 0);
      begin = end;
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
