// Traces of PyTorch's profiler (Kineto): one file per rank, in Chrome's format. Over 500 lines because one table lists
// all names that its versions use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/io/json_events.hpp>
#include <unity/io/kineto_collectives.hpp>
#include <unity/io/kineto_memory.hpp>
#include <unity/trace/events.hpp>

namespace unity::io {

namespace detail {

enum class kineto_category : std::uint8_t { operation, runtime, kernel, copy, annotation, arrow, left_out, unknown };

// The category that a name states, in any version and case.
[[nodiscard]] kineto_category kineto_category_of(std::string_view text);

}  // namespace detail

// Reads the trace of a rank: operators and runtime calls by host thread, kernels and copies by stream, the collectives
// of NCCL (kernels) and gloo (a channel per thread of its pool), and ProfilerStep. Knows the category names of all
// versions so far (cpu_op, Operator; kernel, Kernel; ...). Joins launches and kernels by correlation, or, if that is
// missing, by flow arrows (async_cpu_to_gpu, ac2g). Sizes and process groups come from record_param_comms, from the
// arguments of the kernel, or from the shapes of the annotation around the launch. What autograd runs is the backward
// part, what Optimizer.step contains the update. Other annotations, Python frames, flow arrows of autograd and counters
// are left out; everything else that is unknown is counted. Memory comes from the instant events of profile_memory
// (kineto_memory.hpp). Without distributedInfo the rank has no number. The name is "rank N", or the file's. Complexity:
// n log n in events.
// Throws: unity::error, of one line, if a duration is negative, the base of times is out of range, there is nothing to
// replay, or kernels are launched and none was recorded.
[[nodiscard]] trace::rank_trace read_kineto(const json_text& document, trace::name_table& names);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_KINETO_TRACE)

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::io::detail {

UNITY_INLINE kineto_category kineto_category_of(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  static constexpr std::array<std::pair<std::string_view, kineto_category>, 30> known{{
      {"cpu_op", kineto_category::operation},
      {"operator", kineto_category::operation},
      {"external_op", kineto_category::operation},
      {"cuda_runtime", kineto_category::runtime},
      {"cuda_driver", kineto_category::runtime},
      {"runtime", kineto_category::runtime},
      {"hip_runtime", kineto_category::runtime},
      {"kernel", kineto_category::kernel},
      {"concurrent_kernel", kineto_category::kernel},
      {"gpu_memcpy", kineto_category::copy},
      {"gpu_memset", kineto_category::copy},
      {"memcpy", kineto_category::copy},
      {"memset", kineto_category::copy},
      {"user_annotation", kineto_category::annotation},
      {"async_cpu_to_gpu", kineto_category::arrow},
      {"ac2g", kineto_category::arrow},
      {"fwdbwd", kineto_category::left_out},
      {"forward_backward", kineto_category::left_out},
      {"fwd_bwd", kineto_category::left_out},
      {"gpu_user_annotation", kineto_category::left_out},
      {"cuda_sync", kineto_category::left_out},
      {"python_function", kineto_category::left_out},
      {"cpu_instant_event", kineto_category::left_out},
      {"overhead", kineto_category::left_out},
      {"cuda_profiler_range", kineto_category::left_out},
      {"trace", kineto_category::left_out},
      {"collective_comm", kineto_category::left_out},
      {"cuda_event", kineto_category::left_out},
      {"mtia_counters", kineto_category::left_out},
      {"counter", kineto_category::left_out},
  }};
  const auto i = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == plain; });
  return i == known.end() ? kineto_category::unknown : i->second;
}

// A runtime call that returns once a stream, an event or the device has reached a point.
inline bool is_synchronization(std::string_view name) { return name.find("Synchronize") != std::string_view::npos; }

// The size of an element; 0 if unknown.
inline bytes element_bytes(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 22> known{
      {{"float", 4},       {"Float", 4},         {"double", 8},        {"Double", 8}, {"half", 2}, {"Half", 2},
       {"BFloat16", 2},    {"c10::Half", 2},     {"c10::BFloat16", 2}, {"int", 4},    {"Int", 4},  {"long", 8},
       {"Long", 8},        {"long int", 8},      {"short", 2},         {"Short", 2},  {"char", 1}, {"Char", 1},
       {"signed char", 1}, {"unsigned char", 1}, {"Byte", 1},          {"bool", 1}}};
  const auto i = std::find_if(known.begin(), known.end(), [&](const auto& k) { return k.first == type; });
  return bytes{i == known.end() ? 0 : i->second};
}

class kineto_reader {
 public:
  kineto_reader(const json_text& document, trace::name_table& names) : document_{document}, names_{names} {}

  trace::rank_trace run();

 private:
  // The size, group and number of ranks of a collective, from the event around its launch or from its own record.
  struct collective_note {
    std::string host{};  // thread
    picoseconds start{};
    picoseconds end{};
    bytes size{};
    trace::name_id group{};
    std::uint32_t group_size = 0;
    trace::exchange way = trace::exchange::other;
  };
  struct interval {
    picoseconds start{};
    picoseconds end{};
  };

  void read_job();
  void read(const json_event& e);
  void read_metadata(const json_event& e);
  void read_arrow(const json_event& e);
  void read_annotation(const json_event& e);
  void add_operation(const json_event& e);
  void add_runtime(const json_event& e);
  void add_device(const json_event& e, trace::event_kind kind);
  void add_gloo(const json_event& e);
  trace::event& add(const json_event& e, trace::event_kind kind, std::uint32_t lane);
  [[nodiscard]] collective_note note_of(const json_event& e) const;
  [[nodiscard]] bytes size_of(const json_event& e, std::size_t argument = 0) const;
  std::uint32_t host_lane(const json_event& e);
  std::uint32_t lane(const std::string& key, const std::string& name, trace::lane_kind kind, std::uint32_t device);
  void join_by_arrows();
  void complete_collectives();
  void set_parts();
  void check() const;

  const json_text& document_;
  trace::name_table& names_;
  trace::rank_trace trace_;
  std::map<std::string, std::uint32_t> lanes_;
  std::map<std::string, std::string> thread_names_;  // by process and thread
  std::vector<collective_note> notes_;
  kineto_memory memory_;
  std::map<std::uint32_t, std::vector<interval>> updates_;                  // by lane
  std::map<std::int64_t, std::pair<std::uint32_t, std::uint32_t>> arrows_;  // by id: events at tail and head
  std::unordered_map<std::uint64_t, std::uint32_t> by_place_;  // indices of events, by process, thread and time
  std::size_t launches_ = 0;
  std::size_t device_events_ = 0;
  std::uint64_t next_correlation_ = std::uint64_t{1} << 62U;  // for events that have none in the trace
};

UNITY_INLINE trace::rank_trace kineto_reader::run() {
  trace_.source = document_.name();
  read_job();
  const auto base = first_time(document_).value_or(nanoseconds{});
  std::int64_t zero = 0;
  static_cast<void>(document_.root()["baseTimeNanoseconds"].get_int64().get(zero) == simdjson::SUCCESS);
  std::int64_t origin = 0;
  if (__builtin_add_overflow(base.count(), zero, &origin)) {
    throw error{document_.name(), fmt::format("a baseTimeNanoseconds of {}", zero), "the time at 0 of the clock"};
  }
  trace_.origin = nanoseconds{origin};
  const auto others = for_each_event(document_, base, [&](const json_event& e, std::size_t) { read(e); });
  if (others > 0) {
    trace_.unknown["events that are not objects"] = others;
    trace_.recorded += others;
  }
  check();
  join_by_arrows();
  complete_collectives();
  join_gloo(trace_, next_correlation_);
  if (device_events_ == 0) {
    mark_waits(trace_, names_);
  }
  set_parts();
  memory_.add_to(trace_, lanes_);
  finish_rank(trace_);
  return std::move(trace_);
}

UNITY_INLINE void kineto_reader::read_job() {
  trace_.name = std::filesystem::path{document_.name()}.filename().string();
  simdjson::dom::object info;
  if (document_.root()["distributedInfo"].get_object().get(info) == simdjson::SUCCESS) {
    std::int64_t number = 0;
    if (info["rank"].get_int64().get(number) == simdjson::SUCCESS && number >= 0 && number < 1'000'000'000) {
      trace_.rank = static_cast<std::int32_t>(number);
      trace_.name = fmt::format("rank {}", number);
    }
    if (info["world_size"].get_int64().get(number) == simdjson::SUCCESS && number > 0 && number < 1'000'000'000) {
      trace_.world_size = static_cast<std::int32_t>(number);
    }
  }
  std::string_view host;
  trace_.machine =
      document_.root()["host_name"].get_string().get(host) == simdjson::SUCCESS ? std::string{host} : trace_.name;
}

UNITY_INLINE void kineto_reader::read(const json_event& e) {
  ++trace_.recorded;
  const auto category = kineto_category_of(e.category);
  if (e.phase == "M") {
    read_metadata(e);
  } else if (category == kineto_category::arrow) {
    read_arrow(e);
  } else if (e.phase != "X" || category == kineto_category::left_out) {
    if (e.name == "[memory]") {
      memory_.read(e);
    }
    if (e.phase != "X" && e.phase != "s" && e.phase != "f" && e.phase != "t" && e.phase != "i" && e.phase != "I" &&
        e.phase != "C") {
      ++trace_.unknown[fmt::format("phase {}", printable(e.phase))];
    }
  } else if (!e.has_time || !e.has_duration) {
    ++trace_.unknown["events without a time"];
  } else if (category == kineto_category::annotation) {
    read_annotation(e);
  } else if (category == kineto_category::runtime) {
    add_runtime(e);
  } else if (category == kineto_category::kernel) {
    add_device(e, e.name.starts_with("nccl") ? trace::event_kind::collective : trace::event_kind::kernel);
  } else if (category == kineto_category::copy) {
    add_device(e, trace::event_kind::copy);
  } else if (category == kineto_category::operation || (e.category.empty() && !e.pid.empty())) {
    add_operation(e);
  } else {
    ++trace_.unknown[fmt::format("category {}", printable(e.category))];
  }
}

UNITY_INLINE void kineto_reader::read_metadata(const json_event& e) {
  if (e.name == "thread_name") {
    thread_names_[fmt::format("{} {}", e.pid, e.tid)] = text_of(e, "name");
  }
}

UNITY_INLINE void kineto_reader::read_arrow(const json_event& e) {
  const auto place = by_place_.find(
      hash_combine(hash_combine(hash_bytes(e.pid), hash_bytes(e.tid)), static_cast<std::uint64_t>(e.time.count())));
  auto& both = arrows_.try_emplace(e.id, trace::no_message, trace::no_message).first->second;
  if (place != by_place_.end()) {
    (e.phase == "s" ? both.first : both.second) = place->second;
  }
}

UNITY_INLINE void kineto_reader::read_annotation(const json_event& e) {
  constexpr std::string_view step = "ProfilerStep#";
  if (e.name.starts_with(step)) {
    auto& added = add(e, trace::event_kind::step, host_lane(e));
    const auto digits = e.name.substr(step.size());
    static_cast<void>(std::from_chars(digits.data(), digits.data() + digits.size(), added.step));
  } else if (e.name.starts_with("gloo:")) {
    add_gloo(e);
  } else if (e.name.starts_with("nccl:")) {
    notes_.push_back(note_of(e));
  } else if (e.name.starts_with("Optimizer.step")) {
    updates_[host_lane(e)].push_back({e.time, e.time + e.duration});
  }
}

UNITY_INLINE std::uint32_t kineto_reader::lane(const std::string& key, const std::string& name, trace::lane_kind kind,
                                               std::uint32_t device) {
  const auto [at, is_new] = lanes_.try_emplace(key, static_cast<std::uint32_t>(trace_.lanes.size()));
  if (is_new) {
    trace_.lanes.push_back({name, kind, device});
  }
  return at->second;
}

UNITY_INLINE std::uint32_t kineto_reader::host_lane(const json_event& e) {
  const auto key = fmt::format("{} {}", e.pid, e.tid);
  return lane(key, fmt::format("thread {}", e.tid), trace::lane_kind::host, 0);
}

UNITY_INLINE trace::event& kineto_reader::add(const json_event& e, trace::event_kind kind, std::uint32_t on) {
  by_place_.insert_or_assign(
      hash_combine(hash_combine(hash_bytes(e.pid), hash_bytes(e.tid)), static_cast<std::uint64_t>(e.time.count())),
      static_cast<std::uint32_t>(trace_.events.size()));
  trace::event added;
  added.start = e.time;
  added.duration = e.duration;
  added.name = names_.intern(e.name);
  added.lane = on;
  added.kind = kind;
  added.correlation = static_cast<std::uint64_t>(std::max(std::int64_t{0}, integer_of(e, "correlation").value_or(0)));
  trace_.events.push_back(added);
  return trace_.events.back();
}

UNITY_INLINE void kineto_reader::add_operation(const json_event& e) {
  if (e.name.starts_with("gloo:")) {
    add_gloo(e);
    return;
  }
  if (e.name == "record_param_comms" || e.name.starts_with("nccl:")) {
    notes_.push_back(note_of(e));
  }
  auto& added = add(e, trace::event_kind::operation, host_lane(e));
  added.correlation = 0;
  if (e.name == "torch::autograd::AccumulateGrad") {
    trace_.gradients.push_back({static_cast<std::uint32_t>(trace_.events.size() - 1), size_of(e)});
  }
  if (e.name.starts_with("c10d::")) {
    // The call that starts a collective of gloo (kineto_collectives.hpp). A message keeps its size until then.
    added.message = static_cast<std::uint32_t>(trace_.messages.size());
    trace::message m;
    m.way = trace::exchange_named(e.name.substr(6));
    const bool has_results_first = m.way == trace::exchange::all_gather || m.way == trace::exchange::reduce_scatter ||
                                   m.way == trace::exchange::all_to_all;
    m.size = size_of(e, has_results_first ? 1 : 0);
    trace_.messages.push_back(m);
  }
}

UNITY_INLINE void kineto_reader::add_runtime(const json_event& e) {
  add(e, is_synchronization(e.name) ? trace::event_kind::synchronization : trace::event_kind::launch, host_lane(e));
  launches_ += e.name.find("LaunchKernel") != std::string_view::npos ? 1 : 0;
}

UNITY_INLINE void kineto_reader::add_device(const json_event& e, trace::event_kind kind) {
  const auto device =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(integer_of(e, "device").value_or(0), 0, 1 << 20));
  const auto stream = integer_of(e, "stream");
  const auto name = stream ? fmt::format("stream {}", *stream) : fmt::format("stream {}", e.tid);
  const auto on = lane(fmt::format("device {} {}", device, name), name, trace::lane_kind::stream, device);
  auto& added = add(e, kind, on);
  ++device_events_;
  if (kind != trace::event_kind::collective) {
    return;
  }
  added.part = trace::phase::communication;
  added.message = static_cast<std::uint32_t>(trace_.messages.size());
  trace::message m;
  const auto note = note_of(e);
  m.way = trace::exchange_named(e.name);
  m.size = note.size;
  m.group = note.group;
  m.group_size = note.group_size;
  trace_.messages.push_back(m);
}

UNITY_INLINE void kineto_reader::add_gloo(const json_event& e) {
  const auto on =
      lane(fmt::format("gloo {} {}", e.pid, e.tid), fmt::format("gloo {}", e.tid), trace::lane_kind::channel, 0);
  auto& added = add(e, trace::event_kind::collective, on);
  added.correlation = 0;
  added.part = trace::phase::communication;
  added.message = static_cast<std::uint32_t>(trace_.messages.size());
  trace::message m;
  m.way = trace::exchange_named(e.name.substr(5));
  m.size = size_of(e);
  trace_.messages.push_back(m);
}

// The size of an argument by "Input Dims" and "Input type": a list of shapes, or of lists of them.
UNITY_INLINE bytes kineto_reader::size_of(const json_event& e, std::size_t argument) const {
  constexpr std::int64_t most = std::int64_t{1} << 50U;
  simdjson::dom::array dims;
  simdjson::dom::array types;
  if (!e.args || e.args->at_key("Input Dims").get_array().get(dims) != simdjson::SUCCESS) {
    return {};
  }
  const bool has_types = e.args->at_key("Input type").get_array().get(types) == simdjson::SUCCESS;
  const auto count = [&](simdjson::dom::array shape) {
    std::int64_t all = shape.size() == 0 ? 0 : 1;
    for (const auto d : shape) {
      std::int64_t n = 0;
      static_cast<void>(d.get_int64().get(n) == simdjson::SUCCESS);
      all = n > 0 && all <= most / n ? all * n : 0;
    }
    return all;
  };
  std::int64_t elements = 0;
  simdjson::dom::array first;
  if (dims.size() > argument && dims.at(argument).get_array().get(first) == simdjson::SUCCESS && first.size() > 0) {
    if (first.at(0).is_array()) {
      for (const auto shape : first) {
        simdjson::dom::array one;
        if (shape.get_array().get(one) == simdjson::SUCCESS) {
          elements = std::min(most, elements + count(one));
        }
      }
    } else {
      elements = count(first);
    }
  }
  std::string_view type;
  if (has_types && types.size() > argument) {
    static_cast<void>(types.at(argument).get_string().get(type) == simdjson::SUCCESS);
  }
  const auto one = element_bytes(type);
  return elements * (one == bytes{} ? bytes{4} : one);  // lists of tensors state no type; most are float
}

UNITY_INLINE kineto_reader::collective_note kineto_reader::note_of(const json_event& e) const {
  collective_note n;
  n.host = fmt::format("{} {}", e.pid, e.tid);
  n.start = e.time;
  n.end = e.time + e.duration;
  const auto collective = text_of(e, "Collective name");
  n.way = trace::exchange_named(collective.empty() ? e.name : collective);
  if (const auto elements = integer_of(e, "In msg nelems"); elements && *elements >= 0) {
    const auto one = element_bytes(text_of(e, "dtype"));
    n.size = std::min(*elements, std::int64_t{1} << 50U) * (one == bytes{} ? bytes{4} : one);
  } else {
    n.size = size_of(e);
  }
  if (const auto group = text_of(e, "Process Group Name"); !group.empty()) {
    n.group = names_.intern(group);
  }
  n.group_size =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(integer_of(e, "Group size").value_or(0), 0, 1 << 30));
  return n;
}

UNITY_INLINE void kineto_reader::join_by_arrows() {
  for (const auto& [id, both] : arrows_) {
    if (both.first == trace::no_message || both.second == trace::no_message || both.first == both.second) {
      continue;
    }
    auto& tail = trace_.events[both.first];
    auto& head = trace_.events[both.second];
    if (tail.correlation == 0 && head.correlation == 0 && tail.kind != trace::event_kind::operation) {
      tail.correlation = head.correlation = next_correlation_++;
    }
  }
}

// The sizes of NCCL's collectives come from what surrounds their launches.
UNITY_INLINE void kineto_reader::complete_collectives() {
  std::unordered_map<std::uint64_t, std::uint32_t> launches;
  for (std::uint32_t i = 0; i < trace_.events.size(); ++i) {
    const auto& e = trace_.events[i];
    if (e.kind == trace::event_kind::launch && e.correlation != 0) {
      launches.emplace(e.correlation, i);
    }
  }
  std::map<std::uint32_t, std::vector<const collective_note*>> by_lane;
  for (const auto& n : notes_) {
    if (const auto l = lanes_.find(n.host); l != lanes_.end()) {
      by_lane[l->second].push_back(&n);
    }
  }
  for (auto& [lane, list] : by_lane) {
    unity::stable_sort(list, [](auto* a, auto* b) { return a->start < b->start; });
  }
  for (const auto& e : trace_.events) {
    const auto launch = launches.find(e.correlation);
    if (e.kind != trace::event_kind::collective || launch == launches.end()) {
      continue;
    }
    auto& m = trace_.messages[e.message];
    const auto& l = trace_.events[launch->second];
    const auto list = by_lane.find(l.lane);
    if (list == by_lane.end()) {
      continue;
    }
    // The last note that begins before the launch and contains it is the innermost; few contain it.
    auto n = std::upper_bound(list->second.begin(), list->second.end(), l.start,
                              [](picoseconds t, auto* note) { return t < note->start; });
    for (int tries = 0; n != list->second.begin() && tries < 4; ++tries) {
      const auto* const note = *--n;
      if (note->end >= l.start) {
        m.size = m.size == bytes{} ? note->size : m.size;
        m.group = m.group.valid() ? m.group : note->group;
        m.group_size = m.group_size == 0 ? note->group_size : m.group_size;
        m.way = m.way == trace::exchange::other || note->way != trace::exchange::other ? note->way : m.way;
      }
    }
  }
}

UNITY_INLINE void kineto_reader::set_parts() {
  trace::sort_events(trace_);
  constexpr picoseconds never{std::numeric_limits<std::int64_t>::min()};
  std::vector<picoseconds> backward_until(trace_.lanes.size(), never);
  std::vector<picoseconds> update_until(trace_.lanes.size(), never);
  std::vector<std::size_t> next_update(trace_.lanes.size(), 0);
  for (auto& [lane, list] : updates_) {
    std::sort(list.begin(), list.end(), [](const interval& a, const interval& b) { return a.start < b.start; });
  }
  for (auto& e : trace_.events) {
    if (trace_.lanes[e.lane].kind != trace::lane_kind::host || e.kind == trace::event_kind::step) {
      continue;
    }
    if (names_.text(e.name).starts_with("autograd::engine::")) {
      backward_until[e.lane] = std::max(backward_until[e.lane], e.end());
    }
    if (e.start < backward_until[e.lane]) {
      e.part = trace::phase::backward;
    }
    if (const auto updates = updates_.find(e.lane); updates != updates_.end()) {
      const auto& list = updates->second;
      for (auto& k = next_update[e.lane]; k < list.size() && list[k].start <= e.start; ++k) {
        update_until[e.lane] = std::max(update_until[e.lane], list[k].end);
      }
    }
    if (e.start < update_until[e.lane]) {
      e.part = trace::phase::update;
    }
  }
}

UNITY_INLINE void kineto_reader::check() const {
  if (launches_ > 0 && device_events_ == 0) {
    throw error{document_.name(), fmt::format("{} launches of kernels and no kernel", launches_),
                "a trace with the activities of the GPU"};
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE trace::rank_trace read_kineto(const json_text& document, trace::name_table& names) {
  return detail::kineto_reader{document, names}.run();
}

}  // namespace unity::io

#endif
