// A simulated iteration in the trace format of Chrome, which Perfetto and chrome://tracing show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include <unity/core/file.hpp>
#include <unity/program/program.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>

namespace unity::io {

namespace detail {

// Picoseconds as microseconds, exactly.
[[nodiscard]] inline std::string trace_time(std::int64_t picoseconds) {
  const auto fraction = std::to_string(picoseconds % 1'000'000);
  return std::to_string(picoseconds / 1'000'000) + "." + std::string(6 - fraction.size(), '0') + fraction;
}

[[nodiscard]] inline std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

class trace_writer {
 public:
  trace_writer(const program::program& p, std::span<const simulate::task_times> times) : program_{p}, times_{times} {}

  std::string run() {
    name("process_name", devices, 0, "devices");
    name("process_name", links, 0, "links");
    for (std::size_t r = 0; r < program_.resources().size(); ++r) {
      name("thread_name", process(r), r, program_.resources()[r].name);
    }
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const program::fragment_id id{f};
      for (std::uint32_t i = 0; i < program_.code(id).tasks.size(); ++i) {
        add_task(id, i);
      }
    }
    const auto memory = simulate::summarize(program_, times_).memory;
    for (std::size_t d = 0; d < memory.size(); ++d) {
      for (const auto& level : memory[d].levels) {
        event(R"("ph":"C","pid":0,"name":"memory of device )" + std::to_string(d) + R"(","ts":)" +
              trace_time(level.from.count()) + R"(,"args":{"bytes":)" + std::to_string(level.held.count()) + "}");
      }
    }
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" + events_ + "\n]}\n";
  }

 private:
  static constexpr int devices = 0;
  static constexpr int links = 1;

  [[nodiscard]] int process(std::size_t r) const {
    return program_.resources()[r].kind == program::resource_kind::stream ? devices : links;
  }
  void event(const std::string& members) { events_ += (events_.empty() ? "\n{" : ",\n{") + members + "}"; }
  void name(const std::string& what, int pid, std::size_t tid, const std::string& text) {
    event(R"("ph":"M","name":")" + what + R"(","pid":)" + std::to_string(pid) + R"(,"tid":)" + std::to_string(tid) +
          R"(,"args":{"name":)" + quoted(text) + "}");
  }
  void add_task(program::fragment_id f, std::uint32_t i) {
    const auto& task = program_.code(f).tasks[i];
    const auto& of = program_.owner_of(f);
    const auto& times = times_[program_.find(f, i).index()];
    const auto r = task.resource.index();
    const std::string kind{program::task_kind_names[static_cast<std::size_t>(task.kind)]};
    const auto label = of.name.empty() ? "fragment " + std::to_string(f.index()) : of.name;
    auto members = R"("ph":"X","pid":)" + std::to_string(process(r)) + R"(,"tid":)" + std::to_string(r) +
                   R"(,"name":)" + quoted(label) + R"(,"cat":")" + kind + R"(","ts":)" + trace_time(times.start) +
                   R"(,"dur":)" + trace_time(times.end - times.start) + R"(,"args":{"kind":")" + kind +
                   R"(","shard":)" + std::to_string(task.shard) + R"(,"ready_us":)" + trace_time(times.ready);
    if (task.volume.count() > 0) {
      members += R"(,"bytes":)" + std::to_string(task.volume.count());
    }
    event(members + "}");
  }

  const program::program& program_;
  std::span<const simulate::task_times> times_;
  std::string events_;
};

}  // namespace detail

// JSON of complete events: devices and links are two processes, their streams and links threads; memory is a counter
// of each device. Units: microseconds, exact to the picosecond.
// Complexity: n log n in tasks and buffers.
[[nodiscard]] inline std::string to_chrome_trace(const program::program& p,
                                                 std::span<const simulate::task_times> times) {
  return detail::trace_writer{p, times}.run();
}

// Throws: unity::error where the file cannot be written.
inline void write_chrome_trace(const program::program& p, std::span<const simulate::task_times> times,
                               const std::filesystem::path& path) {
  atomic_write(path, to_chrome_trace(p, times));
}

}  // namespace unity::io
