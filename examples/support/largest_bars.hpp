// Counts as a chart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <unity/core/stable_sort.hpp>
#include <unity/io/html_report.hpp>

namespace support {

// The largest values, in descending order, at most `most` of them.
inline std::vector<unity::io::chart_bar> largest_bars(const std::map<std::string, double>& values,
                                                      std::size_t most = 25) {
  std::vector<unity::io::chart_bar> bars;
  for (const auto& [name, value] : values) {
    bars.push_back({name, value});
  }
  unity::stable_sort(bars, [](const auto& x, const auto& y) { return x.value > y.value; });
  bars.resize(std::min(bars.size(), most));
  return bars;
}

}  // namespace support
