// Divides the time of a run into computation, communication, waiting and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// Each instant of a rank counts once: for the first, in the order of `activity`, of its activities at that time. So
// communication is the part that computation does not hide. Spans of whole steps do not count. Regular.
struct time_shares {
  picoseconds compute{};
  picoseconds update{};
  picoseconds communication{};
  picoseconds waiting{};
  picoseconds other{};   // nothing was recorded
  picoseconds hidden{};  // communication during compute or update; not in the sum

  // Time spent neither waiting nor unrecorded.
  [[nodiscard]] picoseconds busy() const noexcept { return compute + update + communication; }
  [[nodiscard]] picoseconds total() const noexcept { return busy() + waiting + other; }

  time_shares& operator+=(const time_shares& o) noexcept;
  friend bool operator==(const time_shares&, const time_shares&) = default;
};

// Regular.
struct breakdown {
  picoseconds elapsed{};  // the length of the interval, the same for each rank
  std::vector<time_shares> ranks{};
  time_shares all{};         // sum over ranks
  std::size_t critical = 0;  // the busiest rank, for which the others waited; the first of equals

  friend bool operator==(const breakdown&, const breakdown&) = default;
};

namespace detail {

// Sweeps over the spans of a rank between two times, in nanoseconds.
[[nodiscard]] time_shares shares_of(const rank_timeline& rank, std::int64_t from, std::int64_t until);

}  // namespace detail

// Breaks down the time between two instants, in nanoseconds since the origin, such as the start and end of an
// iteration. Complexity: n log n in spans.
[[nodiscard]] breakdown break_down(const merged_timeline& t, std::int64_t from, std::int64_t until);

// Breaks down the whole timeline.
[[nodiscard]] inline breakdown break_down(const merged_timeline& t) {
  const auto [from, until] = t.extent();
  return break_down(t, from, until);
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_BREAKDOWN)

#include <algorithm>
#include <array>

#include <unity/core/config.hpp>

namespace unity::train {

UNITY_INLINE time_shares& time_shares::operator+=(const time_shares& o) noexcept {
  compute += o.compute;
  update += o.update;
  communication += o.communication;
  waiting += o.waiting;
  other += o.other;
  hidden += o.hidden;
  return *this;
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE time_shares shares_of(const rank_timeline& rank, std::int64_t from, std::int64_t until) {
  struct change {
    std::int64_t at;
    activity kind;
    int by;
  };
  std::vector<change> changes{{until, activity::waiting, 0}};
  for (const auto& s : rank.spans) {
    const auto start = std::max(s.start, from);
    const auto end = std::min(s.end, until);
    if (start < end && s.kind != activity::step) {
      changes.push_back({start, s.kind, 1});
      changes.push_back({end, s.kind, -1});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const change& a, const change& b) { return a.at < b.at; });
  std::array<int, 4> open{};
  std::array<picoseconds, open.size() + 1> sums{};
  picoseconds hidden{};
  auto before = from;
  for (const auto& c : changes) {
    const picoseconds passed{(c.at - before) * 1000};
    const auto first = std::find_if(open.begin(), open.end(), [](int count) { return count > 0; });
    sums[static_cast<std::size_t>(first - open.begin())] += passed;
    if (first < open.begin() + 2 && open[static_cast<std::size_t>(activity::communication)] > 0) {
      hidden += passed;
    }
    open[static_cast<std::size_t>(c.kind)] += c.by;
    before = c.at;
  }
  return {sums[0], sums[1], sums[2], sums[3], sums[4], hidden};
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE breakdown break_down(const merged_timeline& t, std::int64_t from, std::int64_t until) {
  UNITY_EXPECTS(from <= until, "an end that is not before the start");
  breakdown b{picoseconds{(until - from) * 1000}, {}, {}, 0};
  for (const auto& rank : t.ranks) {
    b.ranks.push_back(detail::shares_of(rank, from, until));
    b.all += b.ranks.back();
    if (b.ranks.back().busy() > b.ranks[b.critical].busy()) {
      b.critical = b.ranks.size() - 1;
    }
  }
  return b;
}

}  // namespace unity::train

#endif
