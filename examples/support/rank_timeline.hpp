// What ranks did, as a chart of a report.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/io/html_report.hpp>
#include <unity/train/timeline.hpp>

namespace support {

// Two rows for each of the first 16 ranks, from `from` (ns) on.
inline void add_timeline(unity::io::html_report& page, const unity::train::merged_timeline& t, std::int64_t from) {
  unity::io::timeline_chart chart{"ms", {}, {}, {}};
  for (const auto name : unity::train::activity_names) {
    chart.kinds.emplace_back(name);
  }
  chart.kinds.pop_back();  // steps
  constexpr std::size_t most = 16;
  for (std::size_t k = 0; k < std::min(t.ranks.size(), most); ++k) {
    chart.rows.push_back(fmt::format("rank {} computes", k));
    chart.rows.push_back(fmt::format("rank {} exchanges", k));
    for (const auto& s : t.ranks[k].spans) {
      if (s.kind == unity::train::activity::step || s.start < from) {
        continue;
      }
      const bool exchanges =
          s.kind == unity::train::activity::communication || s.kind == unity::train::activity::waiting;
      chart.bars.push_back({static_cast<std::uint32_t>(2 * k + (exchanges ? 1 : 0)), static_cast<std::uint32_t>(s.kind),
                            static_cast<double>(s.start - from) * 1e-6, static_cast<double>(s.end - from) * 1e-6,
                            s.label < t.labels.size() ? t.labels[s.label] : std::string{}});
    }
  }
  page.chart(std::move(chart));
}

}  // namespace support
