// What a machine consists of: devices as cost models see them, and the cost of moving data between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::hardware {

// A device as cost models see it.

enum class device_kind : std::uint8_t { cpu, gpu };
inline constexpr std::array<std::string_view, 2> device_kind_names{"cpu", "gpu"};

// The highest rate that one operator reached on one element type.
struct peak_rate {
  tensor::dtype element = tensor::dtype::float32;
  std::string operation{};  // "matmul", "conv2d"
  double flops_per_second = 0;

  friend bool operator==(const peak_rate&, const peak_rate&) = default;
};

// Regular. Rates are measured, not nominal.
struct device {
  std::string name{};  // model, and the part of it that is used: "AMD EPYC 9B14, 2 threads"
  device_kind kind = device_kind::cpu;
  std::vector<peak_rate> peaks{};
  double bytes_per_second = 0;  // of memory, reads and writes together
  bytes memory{};
  double launch_seconds = 0;                                    // of the smallest operator
  double collective_start_seconds = 0;                          // before a collective or message moves anything
  double collective_round_seconds = 0;                          // of each round of a collective, besides its transfers
  int units = 0;                                                // multiprocessors or cores; 0: unknown
  double clock_hz = 0;                                          // maximum; 0: unknown
  std::vector<std::pair<std::string, bytes>> caches{};          // by name, the nearest first; L1 is per unit
  std::vector<std::pair<std::string, std::string>> versions{};  // by name: libraries used for the measurement
  std::vector<std::pair<std::string, std::string>> sources{};   // by member: sources of numbers

  friend bool operator==(const device&, const device&) = default;
};

// The rate of the fastest operator on the element type, or nothing if none was measured.
[[nodiscard]] std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element);

// The rates for a roofline on these elements, or nothing if they were not measured. Refers to the device's name.
[[nodiscard]] std::optional<device_rates> roofline_of(const device& d, tensor::dtype element = tensor::dtype::float32);

// Kinds of communication between ranks; a message goes from one rank to another.
enum class exchange : std::uint8_t { message, all_reduce, reduce_scatter, all_gather, broadcast, all_to_all };
inline constexpr std::array<std::string_view, 6> exchange_names{"message",    "all_reduce", "reduce_scatter",
                                                                "all_gather", "broadcast",  "all_to_all"};

// From the end of the previous range up to `up_to` bytes: alpha + beta * bytes.
// Source: Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994.
struct cost_range {
  static constexpr std::int64_t no_end = std::numeric_limits<std::int64_t>::max();

  std::int64_t up_to = no_end;  // bytes, included
  double alpha = 0;             // seconds
  double beta = 0;              // seconds per byte

  friend bool operator==(const cost_range&, const cost_range&) = default;
};

// Regular. Ranges ascend, and the last has no end. Bytes are those of one rank: the message; the vector that is reduced
// or broadcast; for other kinds the larger of what a rank sends and receives.
struct link {
  std::string name{};  // "local", "mpi"
  int ranks = 0;       // number of participants
  std::map<exchange, std::vector<cost_range>> costs{};

  friend bool operator==(const link&, const link&) = default;
};

// The time of one exchange. Units: size in bytes, as link counts them; the result in seconds.
// Complexity: linear in the ranges.
[[nodiscard]] double exchange_seconds(std::span<const cost_range> ranges, std::int64_t size);

// A measured exchange.
struct exchange_sample {
  std::int64_t size = 0;  // bytes, as link counts them
  double seconds = 0;
};

namespace detail {

struct line_fit {
  double alpha = 0;
  double beta = 0;
  double error = 0;  // sum of squared relative errors
};

// Least squares of relative errors, so that small sizes count as much as large ones; no coefficient is negative.
[[nodiscard]] line_fit fit_line(std::span<const exchange_sample> samples);

}  // namespace detail

// At most `most` ranges of at least three samples, fitted by least squares of relative errors. Boundaries minimize the
// sum of squares; another range is added only if it reduces the sum by at least a tenth.
// Preconditions: samples ascend in size, times are positive, and there is at least one sample.
// Complexity: O(most * samples^2) fits, linear each.
[[nodiscard]] std::vector<cost_range> fit_ranges(std::span<const exchange_sample> samples, std::size_t most = 3);

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_LINK)

#include <algorithm>
#include <cmath>

#include <unity/core/config.hpp>

namespace unity::hardware {

UNITY_INLINE std::optional<double> peak_flops_per_second(const device& d, tensor::dtype element) {
  std::optional<double> best;
  for (const auto& p : d.peaks) {
    if (p.element == element) {
      best = std::max(best.value_or(0), p.flops_per_second);
    }
  }
  return best;
}

UNITY_INLINE std::optional<device_rates> roofline_of(const device& d, tensor::dtype element) {
  const auto peak = peak_flops_per_second(d, element);
  if (!peak) {
    return std::nullopt;
  }
  device_rates rates;
  rates.name = d.name;
  rates.flops_per_second = *peak;
  rates.bytes_per_second = d.bytes_per_second;
  rates.launch_seconds = d.launch_seconds;
  rates.source = "measured";
  return rates;
}

UNITY_INLINE double exchange_seconds(std::span<const cost_range> ranges, std::int64_t size) {
  UNITY_EXPECTS(!ranges.empty() && ranges.back().up_to == cost_range::no_end, "ranges for all sizes");
  const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const cost_range& r) { return size <= r.up_to; });
  return range->alpha + range->beta * static_cast<double>(size);
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

UNITY_INLINE line_fit fit_line(std::span<const exchange_sample> samples) {
  double one = 0;  // sums of weighted 1, x, x^2, y, x*y, y^2, with y weighted to 1
  double x = 0;
  double xx = 0;
  double y = 0;
  double xy = 0;
  for (const auto& s : samples) {
    const auto weight = 1 / s.seconds;
    const auto size = static_cast<double>(s.size) * weight;
    one += weight * weight;
    x += weight * size;
    xx += size * size;
    y += weight;
    xy += size;
  }
  const auto determinant = one * xx - x * x;
  line_fit best;
  best.error = std::numeric_limits<double>::infinity();
  const auto consider = [&](double alpha, double beta) {
    if (!(alpha >= 0 && beta >= 0)) {
      return;
    }
    double error = 0;
    for (const auto& s : samples) {
      const auto relative = (alpha + beta * static_cast<double>(s.size)) / s.seconds - 1;
      error += relative * relative;
    }
    if (error < best.error) {
      best = {alpha, beta, error};
    }
  };
  if (determinant > 1e-12 * one * xx) {
    consider((xx * y - x * xy) / determinant, (one * xy - x * y) / determinant);
  }
  consider(y / one, 0);
  if (xx > 0) {
    consider(0, xy / xx);
  }
  return best;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::vector<cost_range> fit_ranges(std::span<const exchange_sample> samples, std::size_t most) {
  UNITY_EXPECTS(!samples.empty() && most > 0, "samples");
  constexpr std::size_t least = 3;
  const auto count = samples.size();
  // errors[k][end]: the least error of the samples before `end` in k + 1 ranges; the last range begins at
  // begins[k][end].
  const auto never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> errors(most, std::vector<double>(count + 1, never));
  std::vector<std::vector<std::size_t>> begins(most, std::vector<std::size_t>(count + 1, 0));
  for (std::size_t end = 1; end <= count; ++end) {
    errors[0][end] = detail::fit_line(samples.first(end)).error;
  }
  for (std::size_t k = 1; k < most; ++k) {
    for (std::size_t end = (k + 1) * least; end <= count; ++end) {
      for (auto begin = k * least; begin + least <= end; ++begin) {
        const auto error = errors[k - 1][begin] + detail::fit_line(samples.subspan(begin, end - begin)).error;
        if (error < errors[k][end]) {
          errors[k][end] = error;
          begins[k][end] = begin;
        }
      }
    }
  }
  std::size_t ranges = 0;
  constexpr double noise = 1e-18;  // from rounding
  for (std::size_t k = 1; k < most; ++k) {
    if (errors[k][count] + noise < 0.9 * errors[ranges][count]) {
      ranges = k;
    }
  }
  std::vector<cost_range> fitted(ranges + 1);
  auto end = count;
  for (auto k = ranges + 1; k-- > 0;) {
    const auto begin = k == 0 ? 0 : begins[k][end];
    const auto line = detail::fit_line(samples.subspan(begin, end - begin));
    fitted[k] = {end == count ? cost_range::no_end : samples[end - 1].size, line.alpha, line.beta};
    end = begin;
  }
  return fitted;
}

}  // namespace unity::hardware

#endif
