// Adds a simulated iteration to a report: what ran where, and the memory of each device.
#pragma once

#include <cstddef>
#include <span>

#include <unity/io/html_report.hpp>
#include <unity/program/program.hpp>
#include <unity/simulate/full.hpp>

namespace unity::io {

// At most this many resources appear in the timeline: the busiest ones.
inline constexpr std::size_t most_shown_devices = 32;
inline constexpr std::size_t most_shown_links = 16;
// The devices whose memory is drawn: at most this many, those with the largest peaks.
inline constexpr std::size_t most_shown_memories = 8;

// Effects: adds a timeline in milliseconds, devices above host threads and links, and memory in megabytes over time.
// Complexity: n log n in tasks and buffers.
void add_simulation(html_report& to, const program::program& p, std::span<const simulate::task_times> times);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SIMULATION_REPORT)

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>
#include <unity/program/fragment.hpp>
#include <unity/simulate/timeline.hpp>

namespace unity::io {

namespace detail {

// The resources of one kind that are used, at most `most` of them, the busiest, in the program's order.
UNITY_INLINE std::vector<std::size_t> shown_resources(const program::program& p, const simulate::timeline& line,
                                                      program::resource_kind kind, std::size_t most) {
  std::vector<std::size_t> all;
  for (std::size_t r = 0; r < p.resources().size(); ++r) {
    if (p.resources()[r].kind == kind && line.resources[r].tasks > 0) {
      all.push_back(r);
    }
  }
  unity::stable_sort(all,
                     [&](std::size_t a, std::size_t b) { return line.resources[a].busy > line.resources[b].busy; });
  all.resize(std::min(all.size(), most));
  std::sort(all.begin(), all.end());
  return all;
}

UNITY_INLINE timeline_chart timeline_of(const program::program& p, std::span<const simulate::task_times> times,
                                        const simulate::timeline& line) {
  timeline_chart chart{"ms", {}, {}, {}};
  std::vector<std::optional<std::uint32_t>> rows(p.resources().size());
  for (const auto kind : {program::resource_kind::stream, program::resource_kind::host, program::resource_kind::link}) {
    const auto most = kind == program::resource_kind::link ? most_shown_links : most_shown_devices;
    for (const auto r : shown_resources(p, line, kind, most)) {
      rows[r] = static_cast<std::uint32_t>(chart.rows.size());
      chart.rows.push_back(p.resources()[r].name);
    }
  }
  for (std::size_t f = 0; f < p.fragment_count(); ++f) {
    const program::fragment_id id{f};
    const auto& tasks = p.code(id).tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto& t = tasks[i];
      if (!t.resource.valid() || !rows[t.resource.index()]) {
        continue;
      }
      const auto& name = p.name_of(t.kind);
      const auto known = std::find(chart.kinds.begin(), chart.kinds.end(), name);
      const auto kind = static_cast<std::uint32_t>(known - chart.kinds.begin());
      if (known == chart.kinds.end()) {
        chart.kinds.push_back(name);
      }
      const auto& when = times[p.find(id, i).index()];
      chart.bars.push_back({*rows[t.resource.index()], kind, static_cast<double>(when.start) * 1e-9,
                            static_cast<double>(when.end) * 1e-9, p.owner_of(id).name});
    }
  }
  return chart;
}

UNITY_INLINE line_chart memory_of(const program::program& p, const simulate::timeline& line) {
  line_chart chart{"ms", "memory of devices, MB", {}, true, false};
  std::vector<std::size_t> devices;
  for (std::size_t d = 0; d < line.memory.size(); ++d) {
    devices.push_back(d);
  }
  unity::stable_sort(devices, [&](std::size_t a, std::size_t b) { return line.memory[a].peak > line.memory[b].peak; });
  devices.resize(std::min(devices.size(), most_shown_memories));
  std::sort(devices.begin(), devices.end());
  for (const auto d : devices) {
    chart_line one{d < p.resources().size() ? p.resources()[d].name : fmt::format("device {}", d), {}};
    for (const auto& level : line.memory[d].levels) {
      one.points.push_back({to_seconds(level.from) * 1e3, static_cast<double>(level.held.count()) * 1e-6});
    }
    chart.lines.push_back(std::move(one));
  }
  return chart;
}

}  // namespace detail

UNITY_INLINE void add_simulation(html_report& to, const program::program& p,
                                 std::span<const simulate::task_times> times) {
  const auto line = simulate::summarize(p, times);
  to.heading("Timeline");
  to.paragraph(
      fmt::format("One iteration takes {:.6f} ms, simulated. Shown are the busiest {} devices and {} links at "
                  "most; rest the pointer on a bar to read what it is.",
                  to_seconds(line.iteration) * 1e3, most_shown_devices, most_shown_links));
  to.chart(detail::timeline_of(p, times, line));
  to.heading("Memory");
  to.chart(detail::memory_of(p, line));
}

}  // namespace unity::io

#endif
