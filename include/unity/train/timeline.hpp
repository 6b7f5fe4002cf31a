// Records what the ranks of a run did, and when.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>

namespace unity::train {

// If several overlap, the one listed first counts (train/timeline_report.hpp).
//   compute         operators, forward and backward
//   update          of weights
//   communication   data in transit to or from this rank
//   waiting         for another rank, while nothing is in transit
//   step            a whole iteration of the rank, which contains the others and has no share of the time itself
enum class activity : std::uint8_t { compute, update, communication, waiting, step };
inline constexpr std::array<std::string_view, 5> activity_names{"compute", "update", "communication", "waiting",
                                                                "step"};

inline constexpr std::int32_t no_peer = -1;
inline constexpr std::uint32_t no_number = std::numeric_limits<std::uint32_t>::max();

// Where the data of a span goes: to the peer, from it, through a collective of a group, or between this rank and its
// host.
enum class direction : std::uint8_t { none, send, receive, all_reduce, reduce_scatter, all_gather, store, fetch };
inline constexpr std::array<std::string_view, 8> direction_names{
    "none", "send", "receive", "all_reduce", "reduce_scatter", "all_gather", "store", "fetch"};
// Whether it is between device and host: the device waits for it, and no other rank takes part.
[[nodiscard]] constexpr bool is_with_host(direction d) noexcept {
  return d == direction::store || d == direction::fetch;
}

// Units: nanoseconds since the origin of its timeline. Sent between ranks bytewise.
struct activity_span {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::uint32_t label = 0;  // index in the caller's list of names
  std::int32_t peer = no_peer;
  activity kind = activity::compute;
  direction way = direction::none;
  bool is_backward = false;          // of a computation
  std::uint32_t tag = 0;             // of a message: the same at both ends; of a collective: the number of its group
  std::uint32_t step = 0;            // of training, from 0
  bytes size{};                      // moved, or waited for
  std::uint32_t number = no_number;  // of the activity in the rank's program, the same in each iteration

  friend bool operator==(const activity_span&, const activity_span&) = default;
};

// The timeline of one rank. Spans are in the order in which they were added, and may overlap. Not thread-safe.
class timeline {
 public:
  using clock = std::chrono::steady_clock;

  // Allocates space for this many spans, and nothing later.
  explicit timeline(std::size_t capacity) : spans_(capacity) {}

  // Effects: removes all spans and counts times from `origin`. Ranks on one machine share the clock, so they should use
  // the origin of one of them; ranks on several machines use the end of the same barrier (timeline_report.hpp).
  void restart(clock::time_point origin = clock::now()) noexcept;

  // Effects: adds a span; if there is no space, only counts it as dropped.
  void add(activity kind, std::uint32_t label, clock::time_point start, clock::time_point end,
           std::int32_t peer = no_peer) noexcept {
    add({0, 0, label, peer, kind}, start, end);
  }
  // Likewise; takes everything except the times from `about`.
  void add(const activity_span& about, clock::time_point start, clock::time_point end) noexcept;

  // Adds a span for its own lifetime.
  class measurement {
   public:
    measurement(timeline& to, activity kind, std::uint32_t label, std::int32_t peer) noexcept
        : to_{to}, start_{clock::now()}, label_{label}, peer_{peer}, kind_{kind} {}
    measurement(const measurement&) = delete;
    measurement& operator=(const measurement&) = delete;
    ~measurement() { to_.add(kind_, label_, start_, clock::now(), peer_); }

   private:
    timeline& to_;
    clock::time_point start_;
    std::uint32_t label_;
    std::int32_t peer_;
    activity kind_;
  };
  [[nodiscard]] measurement measure(activity kind, std::uint32_t label, std::int32_t peer = no_peer) noexcept {
    return {*this, kind, label, peer};
  }

  [[nodiscard]] clock::time_point origin() const noexcept { return origin_; }
  [[nodiscard]] std::span<const activity_span> spans() const noexcept { return std::span{spans_}.first(count_); }
  // The number of spans for which there was no space; the timeline then contains only the beginning.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  [[nodiscard]] std::int64_t since_origin(clock::time_point t) const noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(t - origin_).count();
  }

  std::vector<activity_span> spans_;  // touched at the start, so that adding a span causes no page faults
  std::size_t count_ = 0;
  std::uint64_t dropped_ = 0;
  clock::time_point origin_ = clock::now();
};

// Memory that an iteration needs from the start of one span to the end of another, given by their numbers.
struct needed_memory {
  bytes size{};
  std::uint32_t first = 0;
  std::uint32_t last = 0;

  friend bool operator==(const needed_memory&, const needed_memory&) = default;
};

// A span that reads a value.
struct value_reader {
  std::uint32_t value = 0;   // index in the rank's list
  std::uint32_t number = 0;  // of the span

  friend bool operator==(const value_reader&, const value_reader&) = default;
};

// The memory of a rank. Regular.
struct rank_memory {
  bytes kept{};                         // permanently: all versions of weights and optimizer state
  bytes arena{};                        // for all other values, which share space if their lifetimes are disjoint
  std::vector<needed_memory> values{};  // in the arena
  std::vector<value_reader> readers{};
  bytes loaded{};  // from the host in the last iteration, including inputs
  bytes stored{};  // likewise, to the host

  friend bool operator==(const rank_memory&, const rank_memory&) = default;
};

// What one rank recorded. Regular.
struct rank_timeline {
  std::vector<activity_span> spans{};
  std::uint64_t dropped = 0;
  nanoseconds origin{};  // on the rank's own clock: time t of a span is origin + t there
  rank_memory memory{};

  friend bool operator==(const rank_timeline&, const rank_timeline&) = default;
};

// The timelines of all ranks, in their order. Regular.
struct merged_timeline {
  std::vector<rank_timeline> ranks{};
  std::vector<std::string> labels{};

  [[nodiscard]] bool complete() const noexcept {
    return std::all_of(ranks.begin(), ranks.end(), [](const rank_timeline& r) { return r.dropped == 0; });
  }
  // The first start and the last end; both 0 if there are no spans.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> extent() const noexcept;

  friend bool operator==(const merged_timeline&, const merged_timeline&) = default;
};

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_TIMELINE)

#include <unity/core/config.hpp>

namespace unity::train {

UNITY_INLINE void timeline::restart(clock::time_point origin) noexcept {
  origin_ = origin;
  count_ = 0;
  dropped_ = 0;
}

UNITY_INLINE void timeline::add(const activity_span& about, clock::time_point start, clock::time_point end) noexcept {
  UNITY_EXPECTS(start <= end, "a span that does not end before it starts");
  if (count_ == spans_.size()) {
    ++dropped_;
    return;
  }
  auto& s = spans_[count_++];
  s = about;
  s.start = since_origin(start);
  s.end = since_origin(end);
}

UNITY_INLINE std::pair<std::int64_t, std::int64_t> merged_timeline::extent() const noexcept {
  std::pair<std::int64_t, std::int64_t> all{0, 0};
  bool is_first = true;
  for (const auto& r : ranks) {
    for (const auto& s : r.spans) {
      all = {is_first ? s.start : std::min(all.first, s.start), is_first ? s.end : std::max(all.second, s.end)};
      is_first = false;
    }
  }
  return all;
}

}  // namespace unity::train

#endif
