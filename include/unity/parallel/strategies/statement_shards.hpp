// What data-parallel groups exchange for each piece of a stage of a plan statement, or for several together.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>

namespace unity::parallel {

// The exchanges of a piece (the embedding, a layer or the head), which is a unit of FSDP. Regular.
// Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.
struct piece_shards {
  bytes gathered{};  // all weights that it reads; sizes are those of undivided values
  // The gradients that the backward pass of this piece begins, by the piece that completes them: the same one, except
  // for weights that several pieces read.
  std::vector<std::pair<std::uint32_t, bytes>> begun{};
  bytes scattered{};     // the gradients that its backward pass completes
  picoseconds adding{};  // to add their shares to the sums of the micro-batches before

  friend bool operator==(const piece_shards&, const piece_shards&) = default;
};

// The exchanges of the pieces from first to last, all of one stage. Complexity: linear in pieces and weights.
[[nodiscard]] std::vector<piece_shards> shards_of(const transformer_work& work, std::uint32_t first,
                                                  std::uint32_t last);
// The exchanges of all pieces. chunks: the chunk of each piece, ascending.
// Complexity: linear in pieces and weights.
[[nodiscard]] std::vector<piece_shards> shards_of(const transformer_work& work, std::span<const std::int64_t> chunks);

// Consecutive pieces of a chunk whose gradients are reduced together, after the last of their backward passes, and
// whose new weights are gathered together. Regular.
struct piece_bucket {
  std::uint32_t first = 0;  // piece
  bytes gradients{};        // whole
  bytes weights{};

  friend bool operator==(const piece_bucket&, const piece_bucket&) = default;
};

// The buckets of each chunk, in the order of its forward pass, if exchanges overlap. A weight belongs to the first
// piece of its stage that reads it. As in Megatron-LM, the first chunk of the first stage is divided, from its last
// piece on, into buckets of at least 40 million weights, or a million times d if that is more; but here buckets end
// between pieces. Each other chunk is a single bucket, because its exchanges are not on the critical path.
// Precondition: chunks ascend by piece; chunk c is on stage c mod p.
// Complexity: linear in pieces, and in weights and the pieces that read them.
// Source: Megatron-LM, megatron/core/distributed/distributed_data_parallel.py (core 0.12).
[[nodiscard]] std::vector<std::vector<piece_bucket>> buckets_of(const plan_statement& s, const transformer_work& work,
                                                                std::span<const std::int64_t> chunks);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_SHARDS)

#include <algorithm>
#include <cstddef>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Effects: adds the exchanges of a weight to the pieces of a chunk that read it. first: the number of the first piece.
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

UNITY_INLINE std::vector<std::vector<piece_bucket>> buckets_of(const plan_statement& s, const transformer_work& work,
                                                               std::span<const std::int64_t> chunks) {
  constexpr std::int64_t least = 40'000'000;
  constexpr std::int64_t least_of_each = 1'000'000;
  const auto wanted = std::max(least, least_of_each * s.data);
  struct content {
    std::int64_t elements = 0;
    piece_bucket bytes{};
  };
  std::vector<content> pieces(work.pieces.size());
  for (const auto& w : work.weights) {
    for (std::size_t i = 0; i < w.pieces.size(); ++i) {
      const auto stage_of = [&](std::size_t reader) { return chunks[w.pieces[reader]] % s.pipeline; };
      bool is_first = true;
      for (std::size_t before = 0; before < i; ++before) {
        is_first = is_first && stage_of(before) != stage_of(i);
      }
      auto& own = pieces[w.pieces[i]];
      own.elements += is_first ? w.elements : 0;
      own.bytes.gradients += bytes{is_first ? w.elements * gradient_bytes(w.element) : 0};
      own.bytes.weights += bytes{is_first ? w.elements * static_cast<std::int64_t>(tensor::size_of(w.element)) : 0};
    }
  }
  std::vector<std::vector<piece_bucket>> all(static_cast<std::size_t>(s.chunks()));
  content now;
  for (auto i = pieces.size(); i-- > 0;) {
    now.elements += pieces[i].elements;
    now.bytes.gradients += pieces[i].bytes.gradients;
    now.bytes.weights += pieces[i].bytes.weights;
    if (i == 0 || chunks[i - 1] != chunks[i] || (chunks[i] == 0 && now.elements >= wanted)) {
      now.bytes.first = static_cast<std::uint32_t>(i);
      auto& own = all[static_cast<std::size_t>(chunks[i])];
      own.insert(own.begin(), now.bytes);
      now = {};
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
