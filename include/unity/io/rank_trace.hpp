// Traces of this library's own ranks, as train/timeline_trace.hpp writes them: all ranks in one file, or some.
#pragma once

#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

// Each process of the trace is a rank. What it computes, updates and waits for is on its device, a host thread; what it
// sends on a channel. A message's ends have the same tag; where a rank waits for one, that is its receive. A wait for a
// collective is the end of it, and a synchronization. Where `clock_us` is given, a rank has its own clock.
// Complexity: n log n in events.
// Throws: unity::error, of one line, where a rank has no event, or a message no peer.
[[nodiscard]] std::vector<trace::rank_trace> read_rank_traces(const json_text& document, trace::name_table& names);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_RANK_TRACE)

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::io::detail {

class rank_trace_reader {
 public:
  rank_trace_reader(const json_text& document, trace::name_table& names) : document_{document}, names_{names} {}

  std::vector<trace::rank_trace> run();

 private:
  // What is known of a rank while it is read.
  struct reading {
    trace::rank_trace trace{};
    std::map<std::string, std::uint32_t> lanes{};
    // The collectives that wait for their end: by group, name and step.
    std::map<std::tuple<std::int64_t, trace::name_id, std::int64_t>, std::uint32_t> open{};
    std::int64_t clock = 0;  // of the rank at the base of the document, in picoseconds
    bool has_clock = false;
  };

  reading& rank_of(const json_event& e);
  void read(const json_event& e, std::size_t number);
  void read_message(reading& r, trace::event& event, const json_event& e, std::size_t number);
  void read_collective(reading& r, trace::event& event, const json_event& e);
  static std::uint32_t lane(reading& r, const json_event& e, trace::lane_kind kind);

  const json_text& document_;
  trace::name_table& names_;
  std::map<std::string, reading, std::less<>> ranks_;
};

UNITY_INLINE std::vector<trace::rank_trace> rank_trace_reader::run() {
  const auto base = first_time(document_).value_or(0);
  const auto others =
      for_each_event(document_, base, [&](const json_event& e, std::size_t number) { read(e, number); });
  std::vector<trace::rank_trace> all;
  for (auto& [pid, r] : ranks_) {
    auto& t = r.trace;
    // Whole nanoseconds go to the origin, so that a rank's clock is the one that its events are on.
    t.origin = r.has_clock ? r.clock / 1000 : base;
    t.world_size = static_cast<std::int32_t>(ranks_.size());
    if (others > 0) {
      t.unknown["events that are no objects"] = others;
    }
    if (t.events.empty()) {
      throw error{document_.name(), fmt::format("no event of {}", printable(t.name)), "ranks that did something"};
    }
    finish_rank(t);
    all.push_back(std::move(t));
  }
  unity::stable_sort(all, [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return all;
}

UNITY_INLINE rank_trace_reader::reading& rank_trace_reader::rank_of(const json_event& e) {
  const auto known = ranks_.find(e.pid);
  if (known != ranks_.end()) {
    return known->second;
  }
  auto& r = ranks_.emplace(std::string{e.pid}, reading{}).first->second;
  r.trace.source = document_.name();
  r.trace.name = fmt::format("rank {}", e.pid);
  r.trace.machine = r.trace.name;
  std::int32_t number = -1;
  if (std::from_chars(e.pid.data(), e.pid.data() + e.pid.size(), number).ec == std::errc{}) {
    r.trace.rank = number;
  }
  return r;
}

UNITY_INLINE std::uint32_t rank_trace_reader::lane(reading& r, const json_event& e, trace::lane_kind kind) {
  const auto name = kind == trace::lane_kind::host ? std::string{"device"} : fmt::format("communication {}", e.tid);
  const auto [at, is_new] = r.lanes.try_emplace(name, static_cast<std::uint32_t>(r.trace.lanes.size()));
  if (is_new) {
    r.trace.lanes.push_back({name, kind, 0});
  }
  return at->second;
}

UNITY_INLINE void rank_trace_reader::read(const json_event& e, std::size_t number) {
  auto& r = rank_of(e);
  ++r.trace.recorded;
  if (e.phase == "M") {
    return;
  }
  const auto kind = text_of(e, "kind");
  if (e.phase != "X" || !e.has_time || !e.has_duration || kind.empty()) {
    ++r.trace.unknown[e.phase == "X" ? "events without kind or time" : fmt::format("phase {}", printable(e.phase))];
    return;
  }
  simdjson::dom::element clock;
  if (!r.has_clock && e.args->at_key("clock_us").get(clock) == simdjson::SUCCESS) {
    // Both are times of the same moment.
    if (const auto own = trace_picoseconds(clock, 0)) {
      r.clock = *own - e.time;
      r.has_clock = true;
    }
  }
  trace::event event;
  event.start = e.time;
  event.duration = e.duration;
  event.name = names_.intern(e.name);
  event.step = std::max(std::int64_t{0}, integer_of(e, "step").value_or(0));
  const auto way = text_of(e, "direction");
  if (kind == "compute" || kind == "update") {
    event.lane = lane(r, e, trace::lane_kind::host);
    event.part = kind == "update" ? trace::phase::update : trace::phase::forward;
    r.trace.events.push_back(event);
  } else if (kind != "communication" && kind != "waiting") {
    ++r.trace.unknown[fmt::format("kind {}", printable(kind))];
  } else if (way == "send" || way == "receive") {
    read_message(r, event, e, number);
  } else if (way.empty()) {
    ++r.trace.unknown["waits for nothing that is named"];
  } else {
    read_collective(r, event, e);
  }
}

UNITY_INLINE void rank_trace_reader::read_message(reading& r, trace::event& event, const json_event& e,
                                                  std::size_t number) {
  const bool is_wait = text_of(e, "kind") == "waiting";
  const bool is_sent = text_of(e, "direction") == "send";
  const auto peer = integer_of(e, "peer");
  if (is_wait && is_sent) {  // until what was sent is on its way
    event.kind = trace::event_kind::synchronization;
    event.lane = lane(r, e, trace::lane_kind::host);
    r.trace.events.push_back(event);
    return;
  }
  if (!peer) {
    throw error{fmt::format("{}, event {}", document_.name(), number), "a message without a peer",
                "the rank at its other end"};
  }
  event.kind = is_sent ? trace::event_kind::send : trace::event_kind::receive;
  event.part = trace::phase::communication;
  event.lane = lane(r, e, is_wait ? trace::lane_kind::host : trace::lane_kind::channel);
  event.message = static_cast<std::uint32_t>(r.trace.messages.size());
  trace::message m;
  m.tensor = event.name;
  const auto other = names_.intern(fmt::format("rank {}", *peer));
  const auto own = names_.intern(r.trace.name);
  m.sender = is_sent ? own : other;
  m.receiver = is_sent ? other : own;
  m.way = trace::exchange::point_to_point;
  m.chunk = static_cast<std::uint32_t>(std::clamp<std::int64_t>(integer_of(e, "tag").value_or(0), 0, 0xffffffff));
  m.size = std::max(std::int64_t{0}, integer_of(e, "bytes").value_or(0));
  r.trace.messages.push_back(m);
  r.trace.events.push_back(event);
}

// A collective begins when a rank gives what it has, and ends with the rank's wait for it.
UNITY_INLINE void rank_trace_reader::read_collective(reading& r, trace::event& event, const json_event& e) {
  const auto group = integer_of(e, "group").value_or(0);
  const std::tuple key{group, event.name, event.step};
  if (text_of(e, "kind") == "waiting") {
    if (const auto open = r.open.find(key); open != r.open.end()) {
      auto& begun = r.trace.events[open->second];
      begun.duration = std::max(begun.duration, event.end() - begun.start);
      r.open.erase(open);
    }
    event.kind = trace::event_kind::synchronization;
    event.lane = lane(r, e, trace::lane_kind::host);
    r.trace.events.push_back(event);
    return;
  }
  event.kind = trace::event_kind::collective;
  event.part = trace::phase::communication;
  event.lane = lane(r, e, trace::lane_kind::channel);
  event.message = static_cast<std::uint32_t>(r.trace.messages.size());
  trace::message m;
  m.group = names_.intern(fmt::format("group {}", group));
  m.tensor = event.name;
  m.way = trace::exchange_named(text_of(e, "direction"));
  m.size = std::max(std::int64_t{0}, integer_of(e, "bytes").value_or(0));
  r.trace.messages.push_back(m);
  r.open[key] = static_cast<std::uint32_t>(r.trace.events.size());
  r.trace.events.push_back(event);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<trace::rank_trace> read_rank_traces(const json_text& document, trace::name_table& names) {
  return detail::rank_trace_reader{document, names}.run();
}

}  // namespace unity::io

#endif
