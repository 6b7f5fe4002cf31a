// Cuts a graph into pipeline stages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unity::systems {

// An indivisible part of a graph, with its costs for one micro-batch on one device.
struct stage_piece {
  std::int64_t takes = 0;        // picoseconds, forward and backward
  std::int64_t sends = 0;        // picoseconds: its results to the next stage, and their cotangents back
  std::int64_t weights = 0;      // bytes
  std::int64_t activations = 0;  // bytes kept for the backward pass

  friend bool operator==(const stage_piece&, const stage_piece&) = default;
};

struct stage_cuts {
  std::vector<std::size_t> first{};  // by stage: its first piece
  std::int64_t slowest = 0;          // picoseconds per micro-batch of the slowest stage
  std::int64_t excess = 0;           // bytes above the limit, summed over stages

  friend bool operator==(const stage_cuts&, const stage_cuts&) = default;
};

// Groups consecutive pieces into stages with at least one piece each. Minimizes first the excess, then the time of the
// slowest stage. Stage k of s holds the activations of min(s - k, microbatches) micro-batches. limit: bytes; 0: none.
// Complexity: stages times the square of the pieces.
[[nodiscard]] stage_cuts cut_into_stages(std::span<const stage_piece> pieces, std::size_t stages,
                                         std::int64_t microbatches, std::int64_t limit);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_STAGE_CUTS)

#include <algorithm>
#include <limits>

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE stage_cuts cut_into_stages(std::span<const stage_piece> pieces, std::size_t stages,
                                        std::int64_t microbatches, std::int64_t limit) {
  UNITY_EXPECTS(stages > 0 && stages <= pieces.size(), "a piece for each stage");
  struct value {
    std::int64_t excess = std::numeric_limits<std::int64_t>::max();
    std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
    std::size_t from = 0;

    [[nodiscard]] bool is_before(const value& o) const {
      return excess != o.excess ? excess < o.excess : slowest < o.slowest;
    }
  };
  // best[k][i]: the first i pieces as k stages.
  std::vector<std::vector<value>> best(stages + 1, std::vector<value>(pieces.size() + 1));
  best[0][0] = {0, 0, 0};
  for (std::size_t k = 1; k <= stages; ++k) {
    const auto held = std::min<std::int64_t>(microbatches, static_cast<std::int64_t>(stages - k + 1));
    for (auto i = k; i + (stages - k) <= pieces.size(); ++i) {
      stage_piece sum;
      for (auto j = i; j-- > k - 1;) {
        sum.takes += pieces[j].takes;
        sum.weights += pieces[j].weights;
        sum.activations += pieces[j].activations;
        const auto& before = best[k - 1][j];
        if (before.slowest == std::numeric_limits<std::int64_t>::max()) {
          continue;
        }
        const auto over = limit > 0 ? std::max<std::int64_t>(0, sum.weights + held * sum.activations - limit) : 0;
        const auto takes = sum.takes + (j > 0 ? pieces[j - 1].sends : 0);
        const value v{before.excess + over, std::max(before.slowest, takes), j};
        if (v.is_before(best[k][i])) {
          best[k][i] = v;
        }
      }
    }
  }
  const auto& end = best[stages][pieces.size()];
  stage_cuts cuts{std::vector<std::size_t>(stages), end.slowest, end.excess};
  auto i = pieces.size();
  for (auto k = stages; k > 0; --k) {
    i = best[k][i].from;
    cuts.first[k - 1] = i;
  }
  return cuts;
}

}  // namespace unity::systems

#endif
