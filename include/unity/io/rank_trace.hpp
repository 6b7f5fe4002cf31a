// Traces of this library's own ranks, as written by train/timeline_report.hpp: all ranks in one file, or some.
#pragma once

#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

// Each process of the trace is a rank. Computation, updates and waits are on its device, a host thread; sends are on a
// channel. Both ends of a message have the same tag; a rank's wait for a message is its receive. A wait for a
// collective is its end and a synchronization. Whole steps are those that the rank records (`kind` step), else from the
// first event of a step to the first of the next. Work for the previous step (delayed updates) belongs to the step in
// which it is done; messages between both are not joined, since no step contains both ends. If `clock_us` is given,
// ranks have their own clocks, and ranks whose clocks agree to the nanosecond are on one machine. Memory that events
// need (`memory`) and memory that the process keeps (`process_memory`) belong to that rank. Complexity: n log n in
// events.
// Throws: unity::error, of one line, if a rank has no event, or a message no peer.
[[nodiscard]] std::vector<trace::rank_trace> read_rank_traces(const json_text& document, trace::name_table& names);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_RANK_TRACE)

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
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

// A size of memory that a trace states. Ignores sizes above those of any machine.
inline bytes bytes_of(const json_event& e, std::string_view member) {
  const bytes n{integer_of(e, member).value_or(0)};
  return n > bytes{} && n <= trace::most_memory ? n : bytes{};
}

class rank_trace_reader {
 public:
  rank_trace_reader(const json_text& document, trace::name_table& names) : document_{document}, names_{names} {}

  std::vector<trace::rank_trace> run();

 private:
  // The state of a rank while it is read.
  struct reading {
    trace::rank_trace trace{};
    std::map<std::string, std::uint32_t> lanes{};
    // Collectives that have begun but not ended, by group, name and step.
    std::map<std::tuple<std::int64_t, trace::name_id, std::int64_t>, std::uint32_t> open{};
    // Allocations that are freed after the next event with that number.
    std::map<std::int64_t, std::vector<std::uint32_t>> needed{};
    std::map<std::int64_t, std::vector<std::uint32_t>> read{};  // likewise, by the numbers of their readers
    nanoseconds clock{};                                        // the rank's clock at the base of the document
    bool has_clock = false;
  };

  reading& rank_of(const json_event& e);
  void read(const json_event& e, std::size_t number);
  void read_message(reading& r, trace::event& event, const json_event& e, std::size_t number);
  void read_collective(reading& r, trace::event& event, const json_event& e);
  static void read_memory(reading& r, const json_event& e);
  void settle_steps();
  static constexpr picoseconds shortest_wait{20'000'000};  // 20 us: a shorter wait found its event already over
  static std::uint32_t lane(reading& r, const json_event& e, trace::lane_kind kind);

  const json_text& document_;
  trace::name_table& names_;
  std::map<std::string, reading, std::less<>> ranks_;
};

UNITY_INLINE std::vector<trace::rank_trace> rank_trace_reader::run() {
  const auto base = first_time(document_).value_or(nanoseconds{});
  const auto others =
      for_each_event(document_, base, [&](const json_event& e, std::size_t number) { read(e, number); });
  settle_steps();
  std::vector<trace::rank_trace> all;
  std::map<nanoseconds, std::string> machines;  // by their clock at the base
  for (auto& [pid, r] : ranks_) {
    auto& t = r.trace;
    if (r.has_clock) {
      t.machine = machines.try_emplace(r.clock, t.name).first->second;
    }
    t.origin = r.has_clock ? r.clock : base;
    t.world_size = static_cast<std::int32_t>(ranks_.size());
    if (others > 0) {
      t.unknown["events that are not objects"] = others;
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

// Assigns each event to the step that contains it.
UNITY_INLINE void rank_trace_reader::settle_steps() {
  using identity = std::tuple<trace::name_id, trace::name_id, trace::name_id, std::uint32_t>;
  const auto identity_of = [](const trace::message& m) { return identity{m.sender, m.receiver, m.tensor, m.chunk}; };
  std::set<identity> crossing;  // messages sent in one step and received in the next
  for (auto& [pid, r] : ranks_) {
    std::map<picoseconds, std::pair<picoseconds, std::int64_t>> windows;  // by start: end and number
    for (const auto& e : r.trace.events) {
      if (e.kind == trace::event_kind::step) {
        windows[e.start] = {e.end(), e.step};
      }
    }
    for (auto& e : r.trace.events) {
      const auto next = windows.upper_bound(e.start);
      if (next == windows.begin() || e.start >= std::prev(next)->second.first) {
        continue;
      }
      const auto number = std::prev(next)->second.second;
      if (e.step != number && (e.kind == trace::event_kind::send || e.kind == trace::event_kind::receive)) {
        crossing.insert(identity_of(r.trace.messages[e.message]));
      }
      e.step = number;
    }
  }
  for (auto& [pid, r] : ranks_) {
    for (auto& e : r.trace.events) {
      const bool is_message = e.kind == trace::event_kind::send || e.kind == trace::event_kind::receive;
      if (is_message && crossing.contains(identity_of(r.trace.messages[e.message]))) {
        e.message = trace::no_message;
        e.kind = e.kind == trace::event_kind::receive ? trace::event_kind::synchronization : e.kind;
      }
    }
  }
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
  const auto group = integer_of(e, "group");  // of sums, which the network processes one after another
  const bool is_queue = kind == trace::lane_kind::channel && group;
  const auto name = kind == trace::lane_kind::host ? std::string{"device"}
                    : is_queue                     ? fmt::format("sums of group {}", *group)
                                                   : fmt::format("communication {}", e.tid);
  const auto [at, is_new] = r.lanes.try_emplace(name, static_cast<std::uint32_t>(r.trace.lanes.size()));
  if (is_new) {
    r.trace.lanes.push_back({name, kind, 0, is_queue});
  }
  return at->second;
}

UNITY_INLINE void rank_trace_reader::read(const json_event& e, std::size_t number) {
  auto& r = rank_of(e);
  ++r.trace.recorded;
  if (e.phase == "M") {
    if (e.name == "process_memory") {
      r.trace.held = bytes_of(e, "kept_bytes");
    }
    return;
  }
  const auto kind = text_of(e, "kind");
  if (e.phase != "X" || !e.has_time || !e.has_duration || kind.empty()) {
    ++r.trace.unknown[e.phase == "X" ? "events without kind or time" : fmt::format("phase {}", printable(e.phase))];
    return;
  }
  simdjson::dom::element clock;
  if (!r.has_clock && e.args->at_key("clock_us").get(clock) == simdjson::SUCCESS) {
    // Both times state the same moment. A clock is too large in picoseconds after 104 days.
    if (const auto own = trace_nanoseconds(clock)) {
      r.clock = nanoseconds{own->count() - e.time.count() / 1000};
      r.has_clock = true;
    }
  }
  trace::event event;
  event.start = e.time;
  event.duration = e.duration;
  event.name = names_.intern(e.name);
  event.step = std::max(std::int64_t{0}, integer_of(e, "step").value_or(0));
  const auto way = text_of(e, "direction");
  const auto before = r.trace.events.size();
  if (kind == "step") {
    event.kind = trace::event_kind::step;
    event.lane = lane(r, e, trace::lane_kind::host);
    r.trace.events.push_back(event);
  } else if (kind == "compute" || kind == "update") {
    event.lane = lane(r, e, trace::lane_kind::host);
    event.part = kind == "update"                    ? trace::phase::update
                 : text_of(e, "phase") == "backward" ? trace::phase::backward
                                                     : trace::phase::forward;
    r.trace.events.push_back(event);
  } else if (way == "store" || way == "fetch") {  // between the rank and its host, without other ranks
    event.lane = lane(r, e, trace::lane_kind::host);
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
  if (r.trace.events.size() > before) {
    read_memory(r, e);
  }
}

// Reads the memory that the last added event needs, and the memory that is freed after it. Events are ordered by start.
UNITY_INLINE void rank_trace_reader::read_memory(reading& r, const json_event& e) {
  const auto own = static_cast<std::uint32_t>(r.trace.events.size() - 1);
  simdjson::dom::array list;
  if (e.args->at_key("memory").get_array().get(list) == simdjson::SUCCESS) {
    for (const auto one : list) {
      simdjson::dom::array pair;
      std::int64_t size = 0;
      std::int64_t number = 0;
      if (one.get_array().get(pair) == simdjson::SUCCESS && pair.at(0).get_int64().get(size) == simdjson::SUCCESS &&
          pair.at(1).get_int64().get(number) == simdjson::SUCCESS && size > 0 && bytes{size} <= trace::most_memory) {
        r.needed[number].push_back(static_cast<std::uint32_t>(r.trace.allocations.size()));
        for (std::size_t k = 2; k < pair.size(); ++k) {
          if (pair.at(k).get_int64().get(number) == simdjson::SUCCESS) {
            r.read[number].push_back(static_cast<std::uint32_t>(r.trace.allocations.size()));
          }
        }
        r.trace.allocations.push_back({own, trace::no_event, bytes{size}});
      } else {
        ++r.trace.unknown["memory that is no [bytes, number, ...]"];
      }
    }
  }
  if (const auto number = integer_of(e, "number")) {
    if (const auto needed = r.needed.find(*number); needed != r.needed.end()) {
      for (const auto a : needed->second) {
        r.trace.allocations[a].freed_by = own;
        r.trace.reads.push_back({a, own});
      }
      r.needed.erase(needed);
    }
    if (const auto read = r.read.find(*number); read != r.read.end()) {
      for (const auto a : read->second) {
        r.trace.reads.push_back({a, own});
      }
      r.read.erase(read);
    }
  }
}

UNITY_INLINE void rank_trace_reader::read_message(reading& r, trace::event& event, const json_event& e,
                                                  std::size_t number) {
  const bool is_wait = text_of(e, "kind") == "waiting";
  const bool is_sent = text_of(e, "direction") == "send";
  const auto peer = integer_of(e, "peer");
  if (is_wait && is_sent) {  // until the sent message is on its way
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
  m.size = bytes{std::max(std::int64_t{0}, integer_of(e, "bytes").value_or(0))};
  r.trace.messages.push_back(m);
  r.trace.events.push_back(event);
}

// A collective begins when a rank contributes its data, and ends with the rank's wait for it.
UNITY_INLINE void rank_trace_reader::read_collective(reading& r, trace::event& event, const json_event& e) {
  const auto group = integer_of(e, "group").value_or(0);
  const std::tuple key{group, event.name, event.step};
  if (text_of(e, "kind") == "waiting") {
    if (const auto open = r.open.find(key); open != r.open.end()) {
      auto& begun = r.trace.events[open->second];
      begun.duration = std::max(begun.duration, event.end() - begun.start);
      r.trace.messages[begun.message].is_end_seen = event.duration >= shortest_wait;
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
  m.size = bytes{std::max(std::int64_t{0}, integer_of(e, "bytes").value_or(0))};
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
