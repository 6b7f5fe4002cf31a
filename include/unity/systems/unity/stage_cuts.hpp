// Cuts a graph into pipeline stages, and gives each a group of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>

namespace unity::systems {

// An indivisible part of a graph, with its costs for one micro-batch on one device.
struct stage_piece {
  picoseconds takes{};  // forward and backward
  picoseconds sends{};  // its results to the next stage, and their cotangents back
  bytes weights{};
  bytes activations{};  // kept for the backward pass
  bytes passes{};       // what each device that reads its results gets and, as cotangents, sends back

  friend bool operator==(const stage_piece&, const stage_piece&) = default;
};

// A way to run a stage: on a group of that many devices, where each piece costs this.
struct stage_way {
  std::size_t devices = 1;
  std::span<const stage_piece> pieces{};
};

struct stage_cuts {
  std::vector<std::size_t> first{};  // by stage: its first piece
  std::vector<std::size_t> way{};    // by stage: the index of its way
  picoseconds slowest{};             // of a micro-batch in the slowest stage
  picoseconds through{};             // of a micro-batch through all stages
  bytes excess{};                    // above the limit, summed over stages
  bytes held{};                      // of a device of the fullest stage

  friend bool operator==(const stage_cuts&, const stage_cuts&) = default;
};

// The time of the messages between two consecutive groups for one micro-batch, both ways. from, to: the numbers of
// devices of the sender and of the receiver; at: the first device of the receiver; last: the last piece of the sender,
// with its costs under the receiver's way. The time of a micro-batch through all stages includes all of it. Each
// further micro-batch adds the time of the slowest stage to an iteration, and a stage's time includes only half of it:
// the messages of one micro-batch are in transit while the stage computes another one, as two are in flight between the
// last two stages. A stage takes at least the time of its messages alone, since links do not become faster.
using handing_price =
    std::function<picoseconds(std::size_t from, std::size_t to, std::size_t at, const stage_piece& last)>;

struct stage_goal {
  std::size_t stages = 1;
  std::int64_t microbatches = 1;
  std::int64_t rounds = 0;   // how many times the slowest stage counts, besides one pass through all stages
  bytes limit{};             // of a device; 0: none
  std::int64_t shares = 64;  // limits of the slowest stage are tried in steps of 1/shares of the last one
  handing_price handing{};   // not negative; empty: `sends` of the last piece, whatever the groups
  std::function<bool()> is_past_deadline{};  // whether to end with the best so far; empty: never
};

// Whether a group of consecutive devices lies within a node or consists of whole nodes. nodes: the number of devices of
// each.
[[nodiscard]] bool is_block(std::span<const std::size_t> nodes, std::size_t first, std::size_t devices);

// Groups consecutive pieces into stages with at least one piece each, and consecutive devices into one group for each
// stage, in the same order. ways: all have equally many pieces; a single one makes all groups equal. Stage k of s holds
// the activations of min(s - k, microbatches) micro-batches. The time of a stage includes that of what it receives, at
// the price of its own way.
// Minimizes the excess of memory. Among cuts without excess, minimizes through + rounds * slowest: exactly if the
// slowest stage takes less than `shares` picoseconds, otherwise the result may be larger than the minimum by
// rounds * slowest / shares. If every cut has excess, minimizes the slowest stage, but only among cuts whose first k
// stages have least excess for each k.
// Nothing if the devices cannot be grouped so, or if the deadline passes before a cut is known.
// Complexity: stages times ways times devices times the square of the pieces, for each limit of the slowest stage that
// is tried; also times the distinct sizes of groups if there is a handing_price. Limits after the first take less,
// because slower stages are left out, and beginnings that cannot lead to a better cut than the best so far. If there is
// one way and no limit of memory, the first takes less as well, because no stage need take much longer than the
// average.
// Source: Zheng et al., Alpa: automating inter- and intra-operator parallelism for distributed deep learning, OSDI
// 2022, section 5.2: for each limit of the slowest stage, the least time through all stages.
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
  static constexpr auto most = std::numeric_limits<std::int64_t>::max();
  static constexpr picoseconds never{most};
  static constexpr bytes no_cut{most};

  // The best way to make the first stages of the first pieces on the first devices.
  struct value {
    bytes excess = no_cut;
    picoseconds slowest = never;
    picoseconds through = never;
    std::size_t from = 0;    // of the last stage: its first piece
    std::size_t way = 0;     // likewise
    std::size_t before = 0;  // index in sizes_ of the group before the last one
  };
  // What is minimized among values of equal excess.
  enum class seconds : std::uint8_t { slowest, through };
  [[nodiscard]] bool is_before(const value& x, const value& y) const {
    const bool has_more = x.excess == y.excess && second_ == seconds::slowest && x.slowest != y.slowest;
    return x.excess != y.excess ? x.excess < y.excess : has_more ? x.slowest < y.slowest : x.through < y.through;
  }
  // By number of pieces; empty: so many devices cannot be grouped into so many stages.
  using row = std::vector<value>;

  // Only solutions within these are of use.
  struct bounds {
    picoseconds slowest = never;  // at most
    picoseconds through = never;  // below, and without excess
  };

  [[nodiscard]] bool fits(std::size_t first, std::size_t way) const {
    return first + ways_[way].devices <= devices_ && is_block(nodes_, first, ways_[way].devices);
  }
  [[nodiscard]] std::int64_t in_flight(std::size_t stage) const {
    return std::min(goal_.microbatches, static_cast<std::int64_t>(goal_.stages - stage));
  }
  [[nodiscard]] bool is_past_deadline() const { return goal_.is_past_deadline && goal_.is_past_deadline(); }
  // How long a group that runs this way receives what piece j - 1 makes, from a group of the size sizes_[from_kind].
  [[nodiscard]] picoseconds handing(std::size_t from_kind, std::size_t way, std::size_t device, std::size_t j) const {
    if (j == 0) {
      return {};
    }
    const auto& last = ways_[way].pieces[j - 1];
    return goal_.handing ? goal_.handing(sizes_[from_kind], ways_[way].devices, device, last) : last.sends;
  }
  // What each further micro-batch takes in a stage: see handing_price. takes: with `handed`, the time of its messages.
  [[nodiscard]] picoseconds repeated(picoseconds takes, picoseconds handed) const {
    return goal_.handing ? std::max(takes - handed / 2, handed) : takes;
  }
  // If there is one way and no limit of memory, some cut has no slower stage than this.
  [[nodiscard]] picoseconds slowest_of_one_way() const;
  // The solution within bounds with the least excess, and among these the least of `second`.
  [[nodiscard]] std::optional<stage_cuts> solve(seconds second, const bounds& b);
  // Effects: extends all values of `stage` stages on the devices before `device`, the last of size sizes_[before], by
  // one more stage that runs this way.
  void extend(std::size_t stage, std::size_t device, std::size_t before, std::size_t way, const bounds& b);
  [[nodiscard]] stage_cuts solution(std::size_t kind) const;
  [[nodiscard]] picoseconds cost(const stage_cuts& c) const { return c.through + goal_.rounds * c.slowest; }

  std::span<const stage_way> ways_;
  std::span<const std::size_t> nodes_;
  const stage_goal& goal_;
  std::size_t devices_;
  std::size_t pieces_;
  seconds second_ = seconds::slowest;
  std::vector<std::size_t> sizes_{};                   // distinct sizes of groups; a single 0 without handing_price
  std::vector<std::size_t> kind_of_{};                 // by way: the index of its size
  std::vector<picoseconds> rest_{};                    // by piece: a lower bound on the time from there to the end
  std::vector<std::vector<bool>> ends_{};              // by stages and devices: whether the others fit onto the rest
  std::vector<std::vector<std::vector<row>>> best_{};  // by stages, devices and size of the last group
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
  for (const auto& w : ways) {
    const auto size = goal.handing ? w.devices : 0;
    kind_of_.push_back(static_cast<std::size_t>(std::find(sizes_.begin(), sizes_.end(), size) - sizes_.begin()));
    if (kind_of_.back() == sizes_.size()) {
      sizes_.push_back(size);
    }
  }
  rest_.assign(pieces_ + 1, {});
  for (auto i = pieces_; i-- > 0;) {
    auto least = never;
    for (const auto& w : ways) {
      least = std::min(least, w.pieces[i].takes);
    }
    rest_[i] = rest_[i + 1] + least;
  }
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
  const auto slowest_allowed = ways_.size() == 1 ? slowest_of_one_way() : never;
  auto best = solve(seconds::slowest, {slowest_allowed, never});
  if (slowest_allowed != never && (!best || best->excess > bytes{})) {
    if (auto other = solve(seconds::slowest, {})) {  // nothing only past the deadline
      best = std::move(other);
    }
  }
  if (!best || best->excess > bytes{}) {
    return best;
  }
  // In no cut is the slowest stage faster than `fastest`, so a cut that costs less goes faster through all stages.
  const auto fastest = best->slowest;
  const auto bounds_below = [&](picoseconds slowest) { return bounds{slowest, cost(*best) - goal_.rounds * fastest}; };
  const auto slowest_useful = goal_.rounds == 0 ? never : (cost(*best) - rest_[0]) / goal_.rounds;
  const auto all = solve(seconds::through, bounds_below(slowest_useful));
  if (!all) {
    return best;
  }
  // No cut that costs less than the best goes through all stages faster than this one.
  const auto least = all->through;
  if (cost(*all) < cost(*best)) {
    best = all;
  }
  for (auto slowest = fastest; least + goal_.rounds * slowest < cost(*best) && !is_past_deadline();
       slowest += std::max(picoseconds{1}, slowest / goal_.shares)) {
    auto found = solve(seconds::through, bounds_below(slowest));
    if (found && cost(*found) < cost(*best)) {
      best = std::move(found);
    }
  }
  return best;
}

UNITY_INLINE picoseconds stage_cutter::slowest_of_one_way() const {
  // Filling one stage after another until it has at least the average keeps each below this bound. If that leaves too
  // few stages, some are cut in two.
  picoseconds sum{};
  picoseconds longest{};
  picoseconds received{};
  for (std::size_t i = 0; i < pieces_; ++i) {
    const auto& p = ways_[0].pieces[i];
    sum += p.takes;
    longest = std::max(longest, p.takes);
    received = std::max(received, p.sends);
  }
  return goal_.handing ? never : sum / static_cast<std::int64_t>(goal_.stages) + longest + received;
}

UNITY_INLINE std::optional<stage_cuts> stage_cutter::solve(seconds second, const bounds& b) {
  second_ = second;
  best_.assign(goal_.stages + 1, std::vector<std::vector<row>>(devices_ + 1, std::vector<row>(sizes_.size())));
  best_[0][0][0].assign(1, {bytes{}, picoseconds{}, picoseconds{}, 0, 0, 0});
  for (std::size_t k = 0; k < goal_.stages; ++k) {
    for (std::size_t d = 0; d < devices_; ++d) {
      for (std::size_t before = 0; before < sizes_.size(); ++before) {
        for (std::size_t w = 0; w < ways_.size() && !best_[k][d][before].empty(); ++w) {
          if (fits(d, w) && ends_[k + 1][d + ways_[w].devices]) {
            if (is_past_deadline()) {
              return std::nullopt;
            }
            extend(k, d, before, w, b);
          }
        }
      }
    }
  }
  std::optional<std::size_t> kind;
  const auto& last = best_[goal_.stages][devices_];
  for (std::size_t z = 0; z < sizes_.size(); ++z) {
    const bool is_known = !last[z].empty() && last[z][pieces_].excess != no_cut;
    if (is_known && (!kind || is_before(last[z][pieces_], last[*kind][pieces_]))) {
      kind = z;
    }
  }
  return kind ? std::optional{solution(*kind)} : std::nullopt;
}

UNITY_INLINE void stage_cutter::extend(std::size_t stage, std::size_t device, std::size_t before, std::size_t way,
                                       const bounds& b) {
  const auto& from = best_[stage][device][before];
  auto& to = best_[stage + 1][device + ways_[way].devices][kind_of_[way]];
  to.resize(pieces_ + 1);
  const auto pieces = ways_[way].pieces;
  const auto held = in_flight(stage);
  for (auto j = stage; j < from.size(); ++j) {
    if (from[j].excess == no_cut) {
      continue;
    }
    const auto handed = handing(before, way, device, j);
    stage_piece sum{handed};
    for (auto i = j; i + (goal_.stages - stage) <= pieces_; ++i) {
      sum.takes += pieces[i].takes;
      sum.weights += pieces[i].weights;
      sum.activations += pieces[i].activations;
      const auto slow = repeated(sum.takes, handed);
      if (slow > b.slowest) {
        break;
      }
      const auto over =
          goal_.limit > bytes{} ? std::max(bytes{}, sum.weights + held * sum.activations - goal_.limit) : bytes{};
      const value v{
          from[j].excess + over, std::max(from[j].slowest, slow), from[j].through + sum.takes, j, way, before};
      if (b.through != never && (v.excess > bytes{} || v.through + rest_[i + 1] >= b.through)) {
        if (v.excess > bytes{}) {
          break;  // further pieces hold more
        }
        continue;
      }
      if (is_before(v, to[i + 1])) {
        to[i + 1] = v;
      }
    }
  }
}

UNITY_INLINE stage_cuts stage_cutter::solution(std::size_t kind) const {
  const auto& end = best_[goal_.stages][devices_][kind][pieces_];
  stage_cuts c{
      std::vector<std::size_t>(goal_.stages), std::vector<std::size_t>(goal_.stages), {}, end.through, end.excess, {}};
  auto device = devices_;
  auto i = pieces_;
  for (auto k = goal_.stages; k-- > 0;) {
    const auto& v = best_[k + 1][device][kind][i];
    const auto own = ways_[v.way].pieces.subspan(v.from, i - v.from);
    device -= ways_[v.way].devices;
    const auto handed = handing(v.before, v.way, device, v.from);
    auto takes = handed;
    bytes held{};
    for (const auto& p : own) {
      takes += p.takes;
      held += p.weights + in_flight(k) * p.activations;
    }
    c.slowest = std::max(c.slowest, repeated(takes, handed));
    c.held = std::max(c.held, held);
    c.first[k] = i = v.from;
    c.way[k] = v.way;
    kind = v.before;
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
