// Memory from PyTorch's profiler (profile_memory=True), as allocations between events of a rank.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>

namespace unity::io::detail {

// Collects the instant events `[memory]`: positive Bytes are allocated at Addr, negative ones freed; Total Allocated is
// the total afterwards. If there are devices besides the host, the host's memory is ignored.
class kineto_memory {
 public:
  // Ignores events without sizes.
  void read(const json_event& e);

  // Effects: adds the rank's allocations. Each lasts from the innermost operation that ran on its thread at that time
  // (or else the previous one; or else the thread's first) to the operation that freed it. Also adds the memory that
  // was held before the recording and never freed. Counts memory of threads without operations as not understood.
  // Precondition: events are in order. `lanes`: by "process thread". Complexity: n log n in the memory events, linear
  // in the rank's events.
  void add_to(trace::rank_trace& t, const std::map<std::string, std::uint32_t>& lanes);

 private:
  struct note {
    picoseconds time{};
    bytes size{};  // negative: freed
    std::int64_t address = 0;
    bytes total{};  // afterwards
    std::int64_t device_type = 0;
    std::int64_t device = 0;
    std::uint32_t thread = 0;
    std::uint32_t event = trace::no_event;
  };

  static void find_events(const trace::rank_trace& t, std::uint32_t lane, std::span<note*> list);

  std::vector<note> notes_;
  std::map<std::string, std::uint32_t> threads_;  // by "process thread"
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_KINETO_MEMORY)

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/core.h>

#include <unity/core/stable_sort.hpp>

namespace unity::io::detail {

UNITY_INLINE void kineto_memory::read(const json_event& e) {
  constexpr auto most = trace::most_memory;
  const auto number = [&](std::string_view member) { return integer_of(e, member).value_or(0); };
  note n{e.time,
         bytes{number("Bytes")},
         number("Addr"),
         bytes{number("Total Allocated")},
         number("Device Type"),
         number("Device Id")};
  if (n.size != bytes{} && n.size <= most && n.size >= -most && e.has_time) {
    n.total = std::clamp(n.total, bytes{}, most);
    const auto next = static_cast<std::uint32_t>(threads_.size());
    n.thread = threads_.try_emplace(fmt::format("{} {}", e.pid, e.tid), next).first->second;
    notes_.push_back(n);
  }
}

// `list`: the notes of the lane, by time.
UNITY_INLINE void kineto_memory::find_events(const trace::rank_trace& t, std::uint32_t lane, std::span<note*> list) {
  auto next = std::lower_bound(t.events.begin(), t.events.end(), lane,
                               [](const trace::event& e, std::uint32_t l) { return e.lane < l; });
  std::vector<std::uint32_t> open;
  auto last = trace::no_event;  // the last one that ended
  const auto close = [&](picoseconds time) {
    while (!open.empty() && t.events[open.back()].end() < time) {
      last = open.back();
      open.pop_back();
    }
  };
  std::vector<note*> early;
  for (auto* const n : list) {
    for (; next != t.events.end() && next->lane == lane && next->start <= n->time; ++next) {
      if (next->kind != trace::event_kind::step) {
        close(next->start);
        open.push_back(static_cast<std::uint32_t>(next - t.events.begin()));
      }
    }
    close(n->time);
    n->event = open.empty() ? last : open.back();
    if (n->event == trace::no_event) {
      early.push_back(n);
    }
  }
  if (!early.empty()) {
    const auto first = std::find_if(t.events.begin(), t.events.end(), [&](const trace::event& e) {
      return e.lane == lane && e.kind != trace::event_kind::step;
    });
    for (auto* const n : early) {
      n->event = first == t.events.end() ? trace::no_event : static_cast<std::uint32_t>(first - t.events.begin());
    }
  }
}

UNITY_INLINE void kineto_memory::add_to(trace::rank_trace& t, const std::map<std::string, std::uint32_t>& lanes) {
  if (std::any_of(notes_.begin(), notes_.end(), [](const note& n) { return n.device_type != 0; })) {
    std::erase_if(notes_, [](const note& n) { return n.device_type == 0; });
  }
  unity::stable_sort(notes_, [](const note& a, const note& b) { return a.time < b.time; });
  std::vector<std::vector<note*>> by_thread(threads_.size());
  for (auto& n : notes_) {
    by_thread[n.thread].push_back(&n);
  }
  for (const auto& [key, thread] : threads_) {
    if (const auto lane = lanes.find(key); lane != lanes.end()) {
      find_events(t, lane->second, by_thread[thread]);
    }
  }
  using device_key = std::pair<std::int64_t, std::int64_t>;
  std::map<device_key, bytes> before;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::size_t> live;
  for (const auto& n : notes_) {
    const device_key device{n.device_type, n.device};
    before.try_emplace(device, n.total - n.size);
    if (n.event == trace::no_event) {
      ++t.unknown["memory of threads without operators"];
      continue;
    }
    const auto [at, is_new] = live.try_emplace({n.device_type, n.device, n.address}, t.allocations.size());
    if (!is_new) {
      t.allocations[at->second].freed_by = n.event;
    }
    if (n.size > bytes{}) {
      at->second = t.allocations.size();
      t.allocations.push_back({n.event, trace::no_event, n.size});
    } else {
      if (is_new) {  // was allocated before
        t.allocations.push_back({trace::no_event, n.event, -n.size});
        before[device] += n.size;
      }
      live.erase(at);
    }
  }
  for (const auto& [device, size] : before) {
    t.held += std::max(bytes{}, size);
  }
}

}  // namespace unity::io::detail

#endif
