// Writes Chrome's trace format, which Perfetto and chrome://tracing display: spans of time on the threads of processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace unity::io {

namespace detail {

// Picoseconds as microseconds, exactly.
[[nodiscard]] inline std::string trace_time(std::int64_t picoseconds) {
  const auto fraction = fmt::format("{}", picoseconds % 1'000'000);
  return fmt::format("{}.{}{}", picoseconds / 1'000'000, std::string(6 - fraction.size(), '0'), fraction);
}

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
                      detail::trace_time(time), detail::quoted(unit), value));
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

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_TRACE_EVENTS)

#include <unity/core/config.hpp>

namespace unity::io {

UNITY_INLINE void trace_events::add(const trace_span& s) {
  event(fmt::format(R"("ph":"X","pid":{},"tid":{},"name":{},"cat":{},"ts":{},"dur":{},"args":{{{}}})", s.process,
                    s.thread, detail::quoted(s.name), detail::quoted(s.category), detail::trace_time(s.start),
                    detail::trace_time(s.duration), s.arguments));
}

}  // namespace unity::io

#endif
