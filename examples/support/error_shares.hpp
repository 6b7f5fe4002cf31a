// Errors of predictions as a chart: the share of them that is at most so large.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <unity/io/html_report.hpp>

namespace support {

inline constexpr double largest_shown_error = 1;  // of the measured time

// A chart of lines by error_shares.
inline unity::io::line_chart error_chart(std::vector<unity::io::chart_line> lines) {
  return {"error of a prediction, % of the measured time", "% of the predictions with at most this error",
          std::move(lines), true, false};
}

// errors: |predicted / measured - 1|; those above largest_shown_error are counted, but have no point.
inline unity::io::chart_line error_shares(std::string name, std::vector<double> errors) {
  constexpr std::size_t most_points = 500;
  unity::io::chart_line line{std::move(name), {{0, 0}}};
  std::sort(errors.begin(), errors.end());
  const auto stride = std::max<std::size_t>(1, errors.size() / most_points);
  for (std::size_t i = stride - 1; i < errors.size() && errors[i] <= largest_shown_error; i += stride) {
    line.points.push_back({100 * errors[i], 100 * static_cast<double>(i + 1) / static_cast<double>(errors.size())});
  }
  return line;
}

}  // namespace support
