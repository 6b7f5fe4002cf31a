// What devices that divide gradients and weights exchange for each piece of a stage of a plan statement.
#pragma once

#include <cstdint>
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

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_STATEMENT_SHARDS)

#include <algorithm>
#include <cstddef>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<piece_shards> shards_of(const transformer_work& work, std::uint32_t first,
                                                 std::uint32_t last) {
  std::vector<piece_shards> all(static_cast<std::size_t>(last - first) + 1);
  for (const auto& w : work.weights) {
    const auto begin = std::lower_bound(w.pieces.begin(), w.pieces.end(), first);
    const auto end = std::upper_bound(begin, w.pieces.end(), last);
    if (begin == end) {
      continue;
    }
    for (auto p = begin; p != end; ++p) {
      all[*p - first].gathered += bytes{w.elements * static_cast<std::int64_t>(tensor::size_of(w.element))};
    }
    const bytes gradient{w.elements * gradient_bytes(w.element)};
    auto& complete = all[*begin - first];
    complete.scattered += gradient;
    complete.adding += w.adding;
    auto& begun = all[*(end - 1) - first].begun;
    const auto known = std::find_if(begun.begin(), begun.end(), [&](const auto& b) { return b.first == *begin; });
    if (known != begun.end()) {
      known->second += gradient;
    } else {
      begun.emplace_back(*begin, gradient);
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
