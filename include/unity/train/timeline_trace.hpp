// Timelines in Chrome's trace format, for comparison with a simulated iteration (io/chrome_trace.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <unity/core/file.hpp>
#include <unity/io/trace_events.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

namespace detail {

class timeline_tracer {
 public:
  explicit timeline_tracer(const merged_timeline& t) : timeline_{t}, begin_{t.extent().first} {}

  std::string run();

 private:
  // Viewers do not show overlapping spans of one thread, so overlapping spans go to separate threads: each to the first
  // free one.
  struct lane {
    std::size_t thread;
    std::size_t group;
    std::int64_t end;
  };
  // JSON `[bytes, last, readers...]` of values of the rank's arena, by the number of the span that needs them first.
  using needed_values = std::multimap<std::uint32_t, std::string>;

  void add_rank(std::size_t r);
  void add_memory(std::size_t r);
  void add_span(std::size_t r, std::size_t thread, const activity_span& s, const needed_values& values);

  // Computation comes first, then communication, then steps.
  static constexpr std::size_t threads_of_group = 1000;
  static constexpr std::array<std::string_view, 3> group_names{"device", "communication", "steps"};
  const merged_timeline& timeline_;
  std::int64_t begin_;
  io::trace_events trace_;
};

}  // namespace detail

// A process for each rank: one thread for computation, host copies and waits, further threads for communication, and
// another for whole steps. Times are relative to the first of all spans. `args` of an event: `kind`; `step` of
// training; `clock_us`, its start on the rank's own clock; `phase`, which is backward for backward computation; for
// transfers and waits for them, `direction`, `bytes`, and `peer` and `tag`, or `group`; `number` in the rank's program;
// and `memory`: a list of [bytes, number, readers...], memory needed from the start of this event to the end of the
// next one with that number, and the numbers of other events that read it. The metadata `process_memory` has the rank's
// `kept_bytes`, which are permanent, and `arena_bytes` for the rest. Complexity: n log n in spans and values, times the
// number that overlap.
[[nodiscard]] inline std::string to_chrome_trace(const merged_timeline& t) { return detail::timeline_tracer{t}.run(); }

// Throws: unity::error if the file cannot be written.
inline void write_chrome_trace(const merged_timeline& t, const std::filesystem::path& path) {
  atomic_write(path, to_chrome_trace(t));
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_TIMELINE_TRACE)

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::train::detail {

UNITY_INLINE std::string timeline_tracer::run() {
  for (std::size_t r = 0; r < timeline_.ranks.size(); ++r) {
    const auto dropped = timeline_.ranks[r].dropped;
    trace_.name_process(
        r, fmt::format("rank {}{}", r, dropped == 0 ? "" : fmt::format(", without the last {} spans", dropped)));
    add_memory(r);
    add_rank(r);
  }
  return trace_.text();
}

UNITY_INLINE void timeline_tracer::add_memory(std::size_t r) {
  const auto& m = timeline_.ranks[r].memory;
  if (m != rank_memory{}) {
    trace_.describe_process(r, "process_memory", fmt::format(R"("kept_bytes":{},"arena_bytes":{})", m.kept, m.arena));
  }
}

UNITY_INLINE void timeline_tracer::add_rank(std::size_t r) {
  auto spans = timeline_.ranks[r].spans;
  std::sort(spans.begin(), spans.end(), [](const activity_span& a, const activity_span& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  needed_values values;
  const auto& memory = timeline_.ranks[r].memory;
  auto reader = memory.readers.begin();  // ordered by value
  for (std::uint32_t v = 0; v < memory.values.size(); ++v) {
    const auto& value = memory.values[v];
    auto text = fmt::format("[{},{}", value.size, value.last);
    for (; reader != memory.readers.end() && reader->value == v; ++reader) {
      text += reader->number == value.last ? "" : fmt::format(",{}", reader->number);
    }
    values.emplace(value.first, text + "]");
  }
  std::vector<lane> lanes;
  std::array<std::size_t, group_names.size()> counts{};
  for (const auto& s : spans) {
    const bool is_beside = s.kind == activity::communication && !is_with_host(s.way);
    const std::size_t group = is_beside ? 1 : s.kind == activity::step ? 2 : 0;
    auto free =
        std::find_if(lanes.begin(), lanes.end(), [&](const lane& l) { return l.group == group && l.end <= s.start; });
    if (free == lanes.end()) {
      const auto number = counts[group]++;
      const auto thread = number + group * threads_of_group;
      trace_.name_thread(r, thread,
                         fmt::format("{}{}", group_names[group], number == 0 ? "" : fmt::format(" {}", number + 1)));
      lanes.push_back({thread, group, 0});
      free = lanes.end() - 1;
    }
    free->end = s.end;
    add_span(r, free->thread, s, values);
  }
}

UNITY_INLINE void timeline_tracer::add_span(std::size_t r, std::size_t thread, const activity_span& s,
                                            const needed_values& values) {
  const auto& kind = activity_names[static_cast<std::size_t>(s.kind)];
  auto about = fmt::format(R"("kind":"{}","step":{},"clock_us":{})", kind, s.step,
                           io::detail::trace_time((timeline_.ranks[r].origin + s.start) * 1000));
  if (s.kind == activity::compute && s.is_backward) {
    about += R"(,"phase":"backward")";
  }
  if (is_with_host(s.way)) {
    about += fmt::format(R"(,"direction":"{}","bytes":{})", direction_names[static_cast<std::size_t>(s.way)], s.size);
  } else if (s.way != direction::none) {
    about += fmt::format(R"(,"direction":"{}","{}":{},"bytes":{})", direction_names[static_cast<std::size_t>(s.way)],
                         s.way == direction::send || s.way == direction::receive ? "tag" : "group", s.tag, s.size);
  }
  if (s.peer != no_peer) {
    about += fmt::format(R"(,"peer":{})", s.peer);
  }
  if (s.number != no_number) {
    about += fmt::format(R"(,"number":{})", s.number);
    std::string list;
    const auto [from, to] = values.equal_range(s.number);
    for (auto v = from; v != to; ++v) {
      list += (list.empty() ? "" : ",") + v->second;
    }
    about += list.empty() ? "" : fmt::format(R"(,"memory":[{}])", list);
  }
  const auto name = s.kind == activity::step            ? fmt::format("step {}", s.step)
                    : s.label < timeline_.labels.size() ? timeline_.labels[s.label]
                                                        : fmt::format("{}", s.label);
  trace_.add({r, thread, name, std::string{kind}, (s.start - begin_) * 1000, (s.end - s.start) * 1000, about});
}

}  // namespace unity::train::detail

#endif
