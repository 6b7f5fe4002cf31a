// dPRO's traces: operators and messages of all workers and servers of a job, in Chrome's format.
#pragma once

#include <string>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

// Each process ("host0.rank0", "server1") is a rank; the text before the first dot is its machine. Names of events:
//   FW.x  OUTPUT.x  BW.x  UPDATE.x (or UPDATE_x)      operators, one after another on each thread
//   Comm.TENSOR.SEND~>LOOP_CHANNEL_CHUNK_SLICE, RECV  of a ring; the third number is the round
//   Comm.TENSOR.PUSH.SEND, PUSH.RECV, PULL.SEND, PULL.RECV   of parameter servers
//   Comm.TENSOR.ALLREDUCE (or another collective)     of all ranks, without detail
// "args" has the step ("step", or "cnt"), "bytes", and the rank at the other end: "peer". In rings without it, each
// rank sends to the next one in the order of names. Names may follow "PID->", and may be in "args" instead. Complexity:
// n log n in events.
// Throws: unity::error, of one line, if a message has no peer and is not part of a ring, or if a process has no event.
[[nodiscard]] std::vector<trace::rank_trace> read_dpro(const json_text& document, trace::name_table& names);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_DPRO_TRACE)

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::io::detail {

// "Comm.conv1.weight.PUSH.SEND~>0_0_1_0", split.
struct dpro_message {
  std::string_view tensor{};
  trace::event_kind kind = trace::event_kind::collective;
  trace::exchange way = trace::exchange::other;
  std::uint32_t chunk = 0;
  std::uint32_t round = 0;
};

inline std::array<std::uint32_t, 4> dpro_numbers(std::string_view text) {
  std::array<std::uint32_t, 4> all{};
  for (auto& n : all) {
    const auto r = std::from_chars(text.data(), text.data() + text.size(), n);
    text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(r.ptr - text.data()) + 1));
  }
  return all;
}

inline std::optional<dpro_message> dpro_message_of(std::string_view name) {
  dpro_message m;
  if (!name.starts_with("Comm.")) {
    return std::nullopt;
  }
  name.remove_prefix(5);
  std::array<std::uint32_t, 4> numbers{};
  if (const auto arrow = name.find("~>"); arrow != std::string_view::npos) {
    numbers = dpro_numbers(name.substr(arrow + 2));
    name = name.substr(0, arrow);
  }
  const auto cut = [&] {  // splits off the last part
    const auto point = name.rfind('.');
    const auto last = point == std::string_view::npos ? std::string_view{} : name.substr(point + 1);
    name = point == std::string_view::npos ? name : name.substr(0, point);
    return last;
  };
  const auto last = cut();
  if (last != "SEND" && last != "RECV") {
    m.way = trace::exchange_named(last);
    m.tensor = name;
    return m.way == trace::exchange::other ? std::nullopt : std::optional{m};
  }
  m.kind = last == "SEND" ? trace::event_kind::send : trace::event_kind::receive;
  m.way = trace::exchange::chunk;
  if (name.ends_with(".PUSH") || name.ends_with(".PULL")) {
    m.way = cut() == "PUSH" ? trace::exchange::push : trace::exchange::pull;
  }
  m.tensor = name;
  m.round = numbers[2];
  m.chunk = (numbers[0] * 1024 + numbers[1]) * 1024 + numbers[3];
  return m;
}

class dpro_reader {
 public:
  dpro_reader(const json_text& document, trace::name_table& names) : document_{document}, names_{names} {}

  std::vector<trace::rank_trace> run();

 private:
  struct reading {
    trace::rank_trace trace{};
    std::map<std::string, std::uint32_t> lanes{};
    std::vector<std::pair<std::uint32_t, std::size_t>> without_peer{};  // messages, and their events' numbers
  };

  void read(const json_event& e, std::size_t number);
  void read_message(reading& r, trace::event& event, const dpro_message& m, const json_event& e, std::size_t number);
  static std::uint32_t lane(reading& r, const std::string& name, trace::lane_kind kind);
  void find_peers();

  const json_text& document_;
  trace::name_table& names_;
  std::map<std::string, reading, std::less<>> ranks_;
};

UNITY_INLINE std::vector<trace::rank_trace> dpro_reader::run() {
  const auto base = first_time(document_).value_or(nanoseconds{});
  const auto others =
      for_each_event(document_, base, [&](const json_event& e, std::size_t number) { read(e, number); });
  find_peers();
  std::vector<trace::rank_trace> all;
  for (auto& [pid, r] : ranks_) {
    auto& t = r.trace;
    t.origin = base;
    t.world_size = static_cast<std::int32_t>(std::count_if(
        ranks_.begin(), ranks_.end(), [](const auto& p) { return p.first.find("server") == std::string::npos; }));
    if (others > 0) {
      t.unknown["events that are not objects"] = others;
    }
    if (t.events.empty()) {
      throw error{document_.name(), fmt::format("no event of {}", printable(t.name)), "processes that did something"};
    }
    finish_rank(t);
    all.push_back(std::move(t));
  }
  return all;
}

UNITY_INLINE std::uint32_t dpro_reader::lane(reading& r, const std::string& name, trace::lane_kind kind) {
  const auto [at, is_new] = r.lanes.try_emplace(name, static_cast<std::uint32_t>(r.trace.lanes.size()));
  if (is_new) {
    r.trace.lanes.push_back({name, kind, 0});
  }
  return at->second;
}

UNITY_INLINE void dpro_reader::read(const json_event& e, std::size_t number) {
  if (e.phase == "M") {
    return;
  }
  auto known = ranks_.find(e.pid);
  if (known == ranks_.end()) {
    known = ranks_.emplace(std::string{e.pid}, reading{}).first;
    auto& t = known->second.trace;
    t.name = e.pid;
    t.machine = t.name.substr(0, t.name.find('.'));
    t.source = document_.name();
  }
  auto& r = known->second;
  ++r.trace.recorded;
  if (e.phase != "X" || !e.has_time || !e.has_duration) {
    ++r.trace.unknown[e.phase == "X" ? "events without a time" : fmt::format("phase {}", printable(e.phase))];
    return;
  }
  auto name = text_of(e, "name").empty() ? e.name : text_of(e, "name");
  if (const auto arrow = name.find("->"); arrow != std::string_view::npos && (arrow == 0 || name[arrow - 1] != '~')) {
    name.remove_prefix(arrow + 2);
  }
  trace::event event;
  event.start = e.time;
  event.duration = e.duration;
  event.name = names_.intern(name);
  event.step = integer_of(e, "step").value_or(integer_of(e, "cnt").value_or(trace::no_step));
  constexpr std::array<std::pair<std::string_view, trace::phase>, 5> parts{{{"FW", trace::phase::forward},
                                                                            {"OUTPUT", trace::phase::output},
                                                                            {"BW", trace::phase::backward},
                                                                            {"UPDATE", trace::phase::update},
                                                                            {"I/O", trace::phase::forward}}};
  if (const auto m = dpro_message_of(name)) {
    read_message(r, event, *m, e, number);
    return;
  }
  for (const auto& [prefix, part] : parts) {
    if (name.starts_with(prefix)) {
      event.part = part;
      event.lane = lane(r, fmt::format("operators {}", e.tid), trace::lane_kind::host);
      r.trace.events.push_back(event);
      return;
    }
  }
  ++r.trace.unknown["events with another name than FW, OUTPUT, BW, UPDATE and Comm"];
}

UNITY_INLINE void dpro_reader::read_message(reading& r, trace::event& event, const dpro_message& m, const json_event& e,
                                            std::size_t number) {
  event.kind = m.kind;
  event.part = trace::phase::communication;
  event.message = static_cast<std::uint32_t>(r.trace.messages.size());
  trace::message out;
  out.tensor = names_.intern(m.tensor);
  out.way = m.way;
  out.chunk = m.chunk;
  out.round = m.round;
  out.size = bytes{std::max(std::int64_t{0}, integer_of(e, "bytes").value_or(0))};
  const auto own = names_.intern(r.trace.name);
  if (m.kind != trace::event_kind::collective) {
    const bool is_sent = m.kind == trace::event_kind::send;
    (is_sent ? out.sender : out.receiver) = own;
    const auto peer = text_of(e, "peer");
    if (!peer.empty()) {
      (is_sent ? out.receiver : out.sender) = names_.intern(peer);
    } else {
      r.without_peer.emplace_back(event.message, number);
    }
  }
  // One connection in each direction for each peer and each thread of a process.
  const auto way = m.kind == trace::event_kind::send      ? fmt::format("to {}", names_.text(out.receiver))
                   : m.kind == trace::event_kind::receive ? fmt::format("from {}", names_.text(out.sender))
                                                          : std::string{"collectives"};
  event.lane = lane(r, fmt::format("{} {}", way, e.tid), trace::lane_kind::channel);
  r.trace.messages.push_back(out);
  r.trace.events.push_back(event);
}

// Rings go from each worker to the next, by number ("host1.rank10" comes after "host1.rank9").
UNITY_INLINE void dpro_reader::find_peers() {
  std::vector<std::string> ring;
  for (const auto& [pid, r] : ranks_) {
    if (pid.find("server") == std::string::npos) {
      ring.push_back(pid);
    }
  }
  unity::stable_sort(ring, [](const auto& a, const auto& b) { return a.size() < b.size(); });
  for (auto& [pid, r] : ranks_) {
    const auto own = r.without_peer.empty() ? ring.end() : std::find(ring.begin(), ring.end(), pid);
    for (const auto& [place, number] : r.without_peer) {
      auto& m = r.trace.messages[place];
      if (m.way != trace::exchange::chunk || own == ring.end() || ring.size() < 2) {
        throw error{fmt::format("{}, event {}", document_.name(), number), "a message without a peer",
                    "the process at its other end"};
      }
      const auto at = static_cast<std::size_t>(own - ring.begin());
      const auto next = names_.intern(ring[(at + 1) % ring.size()]);
      const auto before = names_.intern(ring[(at + ring.size() - 1) % ring.size()]);
      (m.receiver.valid() ? m.sender : m.receiver) = m.receiver.valid() ? before : next;
    }
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<trace::rank_trace> read_dpro(const json_text& document, trace::name_table& names) {
  return detail::dpro_reader{document, names}.run();
}

}  // namespace unity::io

#endif
