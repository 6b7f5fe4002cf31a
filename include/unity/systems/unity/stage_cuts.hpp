// Cuts a graph into pipeline stages, and gives each a group of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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

// What each piece costs on a group of that many devices.
struct stage_way {
  std::size_t devices = 1;
  std::span<const stage_piece> pieces{};
};

struct stage_cuts {
  std::vector<std::size_t> first{};  // by stage: its first piece
  std::vector<std::size_t> way{};    // by stage
  std::int64_t slowest = 0;          // picoseconds per micro-batch of the slowest stage
  std::int64_t through = 0;          // picoseconds of a micro-batch through all stages
  std::int64_t excess = 0;           // bytes above the limit, summed over stages
  std::int64_t held = 0;             // bytes of a device of the fullest stage

  friend bool operator==(const stage_cuts&, const stage_cuts&) = default;
};

struct stage_goal {
  std::size_t stages = 1;
  std::int64_t microbatches = 1;
  std::int64_t rounds = 0;  // how often the slowest stage works while others wait
  std::int64_t limit = 0;   // bytes of a device; 0: none
};

// Whether a group of consecutive devices lies within a node or has whole nodes. nodes: the devices of each.
[[nodiscard]] bool is_block(std::span<const std::size_t> nodes, std::size_t first, std::size_t devices);

// Groups consecutive pieces into stages with at least one piece each, and the devices into a group for each stage, in
// the same order. Minimizes the excess. Without any, minimizes through + rounds * slowest, up to rounds times a 64th of
// the slowest, and exactly below 64 picoseconds. With some, minimizes the slowest stage among cuts of which each
// beginning has least excess as well. A stage waits for what its first piece receives, at the price of its own way.
// Stage k of s holds the activations of min(s - k, microbatches) micro-batches.
// ways: with equally many pieces; one: all groups are equal. Nothing if there are no such groups.
// Complexity: stages times ways times devices times the square of the pieces; less for each further limit of the
// slowest stage that is tried, as stages above it are not looked at.
// Source: Zheng et al., Alpa: automating inter- and intra-operator parallelism for distributed deep learning, OSDI
// 2022, section 5.2: least time through all stages for each slowest stage that is allowed.
[[nodiscard]] std::optional<stage_cuts> cut_into_stages(std::span<const stage_way> ways,
                                                        std::span<const std::size_t> nodes, const stage_goal& goal);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_STAGE_CUTS)

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include <unity/core/config.hpp>

namespace unity::systems {

namespace detail {

class stage_cutter {
 public:
  stage_cutter(std::span<const stage_way> ways, std::span<const std::size_t> nodes, const stage_goal& goal);

  [[nodiscard]] std::optional<stage_cuts> run();

 private:
  static constexpr auto none = std::numeric_limits<std::int64_t>::max();

  // The first pieces as stages on the first devices.
  struct value {
    std::int64_t excess = none;
    std::int64_t slowest = none;
    std::int64_t through = none;
    std::size_t from = 0;  // of the last stage: its first piece
    std::size_t way = 0;
  };
  // What comes second, after the excess.
  enum class seconds : std::uint8_t { slowest, through };
  [[nodiscard]] bool is_before(const value& x, const value& y) const {
    const bool has_more = x.excess == y.excess && second_ == seconds::slowest && x.slowest != y.slowest;
    return x.excess != y.excess ? x.excess < y.excess : has_more ? x.slowest < y.slowest : x.through < y.through;
  }
  // By number of pieces; empty: not so many devices for so many stages.
  using row = std::vector<value>;

  [[nodiscard]] bool fits(std::size_t first, std::size_t way) const {
    return first + ways_[way].devices <= devices_ && is_block(nodes_, first, ways_[way].devices);
  }
  [[nodiscard]] std::int64_t in_flight(std::size_t stage) const {
    return std::min(goal_.microbatches, static_cast<std::int64_t>(goal_.stages - stage));
  }
  // Least excess, then the least of what comes second, if no stage is slower than that.
  [[nodiscard]] std::optional<stage_cuts> solve(seconds second, std::int64_t slowest);
  // Effects: extends the values of a stage, which ends before that device, by the next stage.
  void extend(std::size_t stage, std::size_t device, std::size_t way, std::int64_t slowest);
  [[nodiscard]] stage_cuts solution() const;
  [[nodiscard]] std::int64_t cost(const stage_cuts& c) const { return c.through + goal_.rounds * c.slowest; }

  std::span<const stage_way> ways_;
  std::span<const std::size_t> nodes_;
  const stage_goal& goal_;
  std::size_t devices_;
  std::size_t pieces_;
  seconds second_ = seconds::slowest;
  std::vector<std::vector<bool>> ends_{};  // by stages and devices before: the others can have the rest
  std::vector<std::vector<row>> best_{};   // likewise
};

UNITY_INLINE stage_cutter::stage_cutter(std::span<const stage_way> ways, std::span<const std::size_t> nodes,
                                        const stage_goal& goal)
    : ways_{ways},
      nodes_{nodes},
      goal_{goal},
      devices_{std::accumulate(nodes.begin(), nodes.end(), std::size_t{0})},
      pieces_{ways.empty() ? 0 : ways[0].pieces.size()},
      ends_(goal.stages + 1, std::vector<bool>(devices_ + 1)) {
  UNITY_EXPECTS(goal.stages > 0 && goal.stages <= pieces_, "a piece for each stage");
  ends_[goal.stages][devices_] = true;
  for (auto k = goal.stages; k-- > 0;) {
    for (std::size_t d = 0; d < devices_; ++d) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        ends_[k][d] = ends_[k][d] || (fits(d, w) && ends_[k + 1][d + ways[w].devices]);
      }
    }
  }
}

UNITY_INLINE std::optional<stage_cuts> stage_cutter::run() {
  auto best = solve(seconds::slowest, none);
  if (!best || best->excess > 0) {
    return best;
  }
  // No cut has a faster slowest stage, and none goes through all stages faster than the least.
  const auto all = solve(seconds::through, none);
  const auto least = all->through;
  constexpr std::int64_t share = 64;
  for (auto slowest = best->slowest; least + goal_.rounds * slowest < cost(*best);
       slowest += std::max<std::int64_t>(1, slowest / share)) {
    auto found = solve(seconds::through, slowest);
    if (found && found->excess == 0 && cost(*found) < cost(*best)) {
      best = std::move(found);
    }
  }
  return cost(*all) < cost(*best) ? all : best;
}

UNITY_INLINE std::optional<stage_cuts> stage_cutter::solve(seconds second, std::int64_t slowest) {
  second_ = second;
  best_.assign(goal_.stages + 1, std::vector<row>(devices_ + 1));
  best_[0][0].resize(1);
  best_[0][0][0] = {0, 0, 0, 0, 0};
  for (std::size_t k = 0; k < goal_.stages; ++k) {
    for (std::size_t d = 0; d < devices_; ++d) {
      for (std::size_t w = 0; w < ways_.size() && !best_[k][d].empty(); ++w) {
        if (fits(d, w) && ends_[k + 1][d + ways_[w].devices]) {
          extend(k, d, w, slowest);
        }
      }
    }
  }
  const auto& last = best_[goal_.stages][devices_];
  return last.empty() || last[pieces_].excess == none ? std::nullopt : std::optional{solution()};
}

UNITY_INLINE void stage_cutter::extend(std::size_t stage, std::size_t device, std::size_t way, std::int64_t slowest) {
  const auto& from = best_[stage][device];
  auto& to = best_[stage + 1][device + ways_[way].devices];
  to.resize(pieces_ + 1);
  const auto pieces = ways_[way].pieces;
  const auto held = in_flight(stage);
  for (auto j = stage; j < from.size(); ++j) {
    if (from[j].excess == none) {
      continue;
    }
    stage_piece sum{j > 0 ? pieces[j - 1].sends : 0};
    for (auto i = j; i + (goal_.stages - stage) <= pieces_; ++i) {
      sum.takes += pieces[i].takes;
      sum.weights += pieces[i].weights;
      sum.activations += pieces[i].activations;
      if (sum.takes > slowest) {
        break;
      }
      const auto over =
          goal_.limit > 0 ? std::max<std::int64_t>(0, sum.weights + held * sum.activations - goal_.limit) : 0;
      const value v{from[j].excess + over, std::max(from[j].slowest, sum.takes), from[j].through + sum.takes, j, way};
      if (is_before(v, to[i + 1])) {
        to[i + 1] = v;
      }
    }
  }
}

UNITY_INLINE stage_cuts stage_cutter::solution() const {
  const auto& end = best_[goal_.stages][devices_][pieces_];
  stage_cuts c{
      std::vector<std::size_t>(goal_.stages), std::vector<std::size_t>(goal_.stages), 0, end.through, end.excess, 0};
  auto device = devices_;
  auto i = pieces_;
  for (auto k = goal_.stages; k-- > 0;) {
    const auto& v = best_[k + 1][device][i];
    const auto own = ways_[v.way].pieces.subspan(v.from, i - v.from);
    std::int64_t takes = v.from > 0 ? ways_[v.way].pieces[v.from - 1].sends : 0;
    std::int64_t held = 0;
    for (const auto& p : own) {
      takes += p.takes;
      held += p.weights + in_flight(k) * p.activations;
    }
    c.slowest = std::max(c.slowest, takes);
    c.held = std::max(c.held, held);
    c.first[k] = i = v.from;
    c.way[k] = v.way;
    device -= ways_[v.way].devices;
  }
  return c;
}

}  // namespace detail

UNITY_INLINE bool is_block(std::span<const std::size_t> nodes, std::size_t first, std::size_t devices) {
  std::size_t begin = 0;
  bool is_whole = false;  // begins with a node
  for (const auto n : nodes) {
    if (first >= begin && first + devices <= begin + n) {
      return true;
    }
    is_whole = is_whole || first == begin;
    begin += n;
    if (is_whole && first + devices == begin) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE std::optional<stage_cuts> cut_into_stages(std::span<const stage_way> ways,
                                                       std::span<const std::size_t> nodes, const stage_goal& goal) {
  return detail::stage_cutter{ways, nodes, goal}.run();
}

}  // namespace unity::systems

#endif
