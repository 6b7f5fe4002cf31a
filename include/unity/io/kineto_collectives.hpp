// The collectives of gloo in traces of PyTorch's profiler: which call starts each, and where host threads wait for
// them.
#pragma once

#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/message.hpp>

namespace unity::io::detail {

// Effects: the k-th call of c10d for a collective of a kind and size becomes the launch of the k-th such collective of
// gloo, with a new correlation; calls lose their messages. gloo runs reduce-scatters as all-reduces: these become
// reduce-scatters. Complexity: n log n in events.
void join_gloo(trace::rank_trace& t, std::uint64_t& next_correlation);

// Effects: calls in which a host thread waits for a collective of DTensor become synchronizations. Precondition: no
// devices, as with them such a call does not wait. Complexity: linear in events.
void mark_waits(trace::rank_trace& t, const trace::name_table& names);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_KINETO_COLLECTIVES)

#include <map>
#include <utility>
#include <vector>

#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>

namespace unity::io::detail {

// Joins each call to the first collective from its start on that no call has started. Both are indices of events.
// Returns the collectives that were joined.
UNITY_INLINE std::vector<std::uint32_t> join_calls(trace::rank_trace& t, std::vector<std::uint32_t> calls,
                                                   std::vector<std::uint32_t> runs, std::uint64_t& next_correlation) {
  const auto by_start = [&](auto a, auto b) { return t.events[a].start < t.events[b].start; };
  const auto is_joined = [&](auto i) { return t.events[i].correlation != 0; };
  std::erase_if(calls, is_joined);
  std::erase_if(runs, is_joined);
  unity::stable_sort(calls, by_start);
  unity::stable_sort(runs, by_start);
  std::vector<std::uint32_t> joined;
  std::size_t next = 0;
  for (const auto c : calls) {
    auto& call = t.events[c];
    // Collectives that were called before the recording started have no call.
    while (next < runs.size() && t.events[runs[next]].start < call.start) {
      ++next;
    }
    if (next < runs.size()) {
      call.kind = trace::event_kind::launch;
      call.correlation = t.events[runs[next]].correlation = next_correlation++;
      joined.push_back(runs[next++]);
    }
  }
  return joined;
}

UNITY_INLINE void join_gloo(trace::rank_trace& t, std::uint64_t& next_correlation) {
  using kind = std::pair<trace::exchange, bytes>;
  std::map<kind, std::vector<std::uint32_t>> calls;
  std::map<kind, std::vector<std::uint32_t>> runs;
  for (std::uint32_t i = 0; i < t.events.size(); ++i) {
    const auto& e = t.events[i];
    if (e.message == trace::no_message || t.lanes[e.lane].kind == trace::lane_kind::stream) {
      continue;
    }
    const auto& m = t.messages[e.message];
    (e.kind == trace::event_kind::operation ? calls : runs)[{m.way, m.size}].push_back(i);
  }
  for (auto& [key, list] : calls) {
    join_calls(t, list, runs[key], next_correlation);
    if (key.first == trace::exchange::reduce_scatter) {  // those of all-reduces were joined before
      for (const auto run : join_calls(t, list, runs[{trace::exchange::all_reduce, key.second}], next_correlation)) {
        t.messages[t.events[run].message].way = key.first;
      }
    }
  }
  for (const auto& [key, list] : calls) {
    for (const auto c : list) {
      t.events[c].message = trace::no_message;
    }
  }
}

UNITY_INLINE void mark_waits(trace::rank_trace& t, const trace::name_table& names) {
  const auto wait = names.find("_c10d_functional::wait_tensor");
  for (auto& e : t.events) {
    if (wait.valid() && e.name == wait) {
      e.kind = trace::event_kind::synchronization;
    }
  }
}

}  // namespace unity::io::detail

#endif
