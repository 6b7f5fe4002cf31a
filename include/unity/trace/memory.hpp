// The memory that ranks need in a replayed iteration.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/replay.hpp>

namespace unity::trace {

// Memory of one rank. Units: bytes, picoseconds. Regular.
struct memory_peak {
  std::int64_t held = 0;  // held all the time
  std::int64_t peak = 0;  // peak, including what is held
  std::int64_t time = 0;  // the first time of the peak
  bool is_known = false;  // its trace records memory

  friend bool operator==(const memory_peak&, const memory_peak&) = default;
};

// By rank. An allocation lives from the start of its first task to the end of its last one, exclusive. One without
// duration counts at its instant, after what is freed then. Rounding and fragmentation of allocators are not modelled.
// Complexity: n log n in allocations.
[[nodiscard]] std::vector<memory_peak> memory_use(const flow_graph& g, const replayed_iteration& r);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_MEMORY)

#include <algorithm>
#include <tuple>

namespace unity::trace {

namespace detail {

// At one instant, frees come before allocations, except for what is freed at once.
enum class memory_change_kind : std::uint8_t { freed, made, freed_at_once };
struct memory_change {
  std::int64_t time = 0;
  memory_change_kind kind = memory_change_kind::made;
  std::uint32_t rank = 0;
  std::int64_t size = 0;
};

}  // namespace detail

UNITY_INLINE std::vector<memory_peak> memory_use(const flow_graph& g, const replayed_iteration& r) {
  using kinds = detail::memory_change_kind;
  std::vector<memory_peak> all;
  for (const auto& rank : g.ranks) {
    all.push_back({rank.held, rank.held, 0, rank.held > 0});
  }
  std::vector<detail::memory_change> changes;
  for (const auto& a : g.allocations) {
    const auto start = r.times[a.from].start;
    changes.push_back({start, kinds::made, a.rank, a.size});
    if (a.last != no_index) {
      const auto end = r.times[a.last].end;
      changes.push_back({std::max(start, end), end > start ? kinds::freed : kinds::freed_at_once, a.rank, a.size});
    }
    all[a.rank].is_known = true;
  }
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return std::tie(a.time, a.kind) < std::tie(b.time, b.kind); });
  std::vector<std::int64_t> now;
  for (const auto& rank : g.ranks) {
    now.push_back(rank.held);
  }
  for (const auto& c : changes) {
    now[c.rank] += c.kind == kinds::made ? c.size : -c.size;
    if (now[c.rank] > all[c.rank].peak) {
      all[c.rank].peak = now[c.rank];
      all[c.rank].time = c.time;
    }
  }
  return all;
}

}  // namespace unity::trace

#endif
