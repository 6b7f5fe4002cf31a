// Writes Chrome's trace format, which Perfetto and chrome://tracing display: spans of time on the threads of processes.
// Also writes a simulated iteration in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::io {

// A time of at least 0 picoseconds as Chrome traces have it: in microseconds, exactly, with six decimals.
[[nodiscard]] inline std::string trace_time(std::int64_t picoseconds) {
  const auto fraction = fmt::format("{}", picoseconds % 1'000'000);
  return fmt::format("{}.{}{}", picoseconds / 1'000'000, std::string(6 - fraction.size(), '0'), fraction);
}

// The same for times on clocks, which are too large in picoseconds after 106 days.
[[nodiscard]] inline std::string trace_time(nanoseconds t) {
  return fmt::format("{}.{:03}000", t.count() / 1000, t.count() % 1000);
}

namespace detail {

[[nodiscard]] inline std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace detail

// A span on one thread. Units: picoseconds, not negative.
struct trace_span {
  std::size_t process = 0;
  std::size_t thread = 0;
  std::string name{};
  std::string category{};
  std::int64_t start = 0;
  std::int64_t duration = 0;
  std::string arguments{};  // members of a JSON object, separated by commas
};

// A trace under construction. Names are any text.
class trace_events {
 public:
  void name_process(std::size_t process, const std::string& text) { name("process_name", process, 0, text); }
  void name_thread(std::size_t process, std::size_t thread, const std::string& text) {
    name("thread_name", process, thread, text);
  }
  // Adds metadata of a process. arguments: as in a span.
  void describe_process(std::size_t process, std::string_view what, const std::string& arguments) {
    event(fmt::format(R"("ph":"M","name":"{}","pid":{},"tid":0,"args":{{{}}})", what, process, arguments));
  }
  void add(const trace_span& s);
  // From `time` on, the counter `name` has this value in `unit`.
  void count(std::size_t process, const std::string& name, std::int64_t time, const std::string& unit,
             std::int64_t value) {
    event(fmt::format(R"("ph":"C","pid":{},"name":{},"ts":{},"args":{{{}:{}}})", process, detail::quoted(name),
                      trace_time(time), detail::quoted(unit), value));
  }
  // The JSON of everything added. Complexity: linear.
  [[nodiscard]] std::string text() const {
    return fmt::format("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[{}\n]}}\n", events_);
  }

 private:
  void event(const std::string& members) {
    events_ += fmt::format("{}{}}}", events_.empty() ? "\n{" : ",\n{", members);
  }
  void name(std::string_view what, std::size_t process, std::size_t thread, const std::string& text) {
    event(fmt::format(R"("ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}})", what, process, thread,
                      detail::quoted(text)));
  }

  std::string events_;
};

namespace detail {

class trace_writer {
 public:
  trace_writer(const tasks::program& p, std::span<const simulate::task_times> times) : program_{p}, times_{times} {}

  std::string run();

 private:
  static constexpr std::size_t devices = 0;
  static constexpr std::size_t links = 1;
  static constexpr std::size_t hosts = 2;
  static constexpr std::size_t nowhere = 3;  // for tasks without a resource; these may overlap

  [[nodiscard]] std::size_t process(std::size_t r) const {
    if (r == program_.resources().size()) {
      return nowhere;
    }
    const auto kind = program_.resources()[r].kind;
    return kind == tasks::resource_kind::stream ? devices : kind == tasks::resource_kind::link ? links : hosts;
  }
  [[nodiscard]] static bool is_meeting(const tasks::task& t) {
    return !t.resource.valid() && t.duration == picoseconds{};
  }
  void add_task(tasks::fragment_id f, std::uint32_t i);

  const tasks::program& program_;
  std::span<const simulate::task_times> times_;
  trace_events events_;
};

}  // namespace detail

// JSON of complete events: devices and links are two processes with a thread per stream or link; memory is a counter
// per device. Leaves out tasks with neither time nor resource, which only connect others. Units: microseconds, exact to
// the picosecond. Complexity: n log n in tasks and buffers.
[[nodiscard]] inline std::string to_chrome_trace(const tasks::program& p, std::span<const simulate::task_times> times) {
  return detail::trace_writer{p, times}.run();
}

// Throws: unity::error if the file cannot be written.
inline void write_chrome_trace(const tasks::program& p, std::span<const simulate::task_times> times,
                               const std::filesystem::path& path) {
  atomic_write(path, to_chrome_trace(p, times));
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_CHROME_TRACE)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::io {

UNITY_INLINE void trace_events::add(const trace_span& s) {
  event(fmt::format(R"("ph":"X","pid":{},"tid":{},"name":{},"cat":{},"ts":{},"dur":{},"args":{{{}}})", s.process,
                    s.thread, detail::quoted(s.name), detail::quoted(s.category), trace_time(s.start),
                    trace_time(s.duration), s.arguments));
}

}  // namespace unity::io

namespace unity::io::detail {

UNITY_INLINE std::string trace_writer::run() {
  events_.name_process(devices, "devices");
  events_.name_process(links, "links");
  if (std::any_of(program_.resources().begin(), program_.resources().end(),
                  [](const tasks::resource& r) { return r.kind == tasks::resource_kind::host; })) {
    events_.name_process(hosts, "host threads");
  }
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const auto& tasks = program_[tasks::fragment_id{f}].tasks;
    if (std::any_of(tasks.begin(), tasks.end(),
                    [](const tasks::task& t) { return !t.resource.valid() && !is_meeting(t); })) {
      events_.name_process(nowhere, "without a resource");
      break;
    }
  }
  for (std::size_t r = 0; r < program_.resources().size(); ++r) {
    events_.name_thread(process(r), r, program_.resources()[r].name);
  }
  for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    for (std::uint32_t i = 0; i < program_[id].tasks.size(); ++i) {
      add_task(id, i);
    }
  }
  const auto memory = simulate::summarize(program_, times_).memory;
  for (std::size_t d = 0; d < memory.size(); ++d) {
    for (const auto& level : memory[d].levels) {
      events_.count(devices, fmt::format("memory of device {}", d), level.from.count(), "bytes", level.held.count());
    }
  }
  return events_.text();
}

UNITY_INLINE void trace_writer::add_task(tasks::fragment_id f, std::uint32_t i) {
  const auto& task = program_[f].tasks[i];
  if (is_meeting(task)) {
    return;
  }
  const auto& of = program_.owner_of(f);
  const auto& times = times_[program_.find(f, i).index()];
  const auto r = task.resource.valid() ? task.resource.index() : program_.resources().size();
  const auto& kind = program_.name_of(task.kind);
  auto about = fmt::format(R"("kind":"{}","shard":{},"ready_us":{})", kind, task.shard, trace_time(times.ready));
  if (task.volume.count() > 0) {
    about += fmt::format(R"(,"bytes":{})", task.volume.count());
  }
  events_.add({process(r), r, of.name.empty() ? fmt::format("fragment {}", f.index()) : of.name, kind, times.start,
               times.end - times.start, about});
}

}  // namespace unity::io::detail

#endif
