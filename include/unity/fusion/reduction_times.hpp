// Times of all-reduces: on a machine, and by the line T = C x + D. Needs unity::eigen.
// Source: Yi et al., DisCo, TPDS 2022, section 4.2.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include <unity/core/units.hpp>
#include <unity/fusion/fusion_program.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/hardware/machine.hpp>

namespace unity::fusion {

struct reduction_sample {
  double bytes = 0;
  double seconds = 0;
};

// The line that minimizes the sum of squared relative errors with C and D not negative. Preconditions: at least one
// sample; positive times. Complexity: linear.
[[nodiscard]] reduction_line fit_reductions(std::span<const reduction_sample> samples);

// The time of an all-reduce of this many bytes among all devices of a machine: measured if its links say so
// (hardware::link), otherwise the closed form of the fastest algorithm for the size. The function holds no references.
// Throws: unity::error if the machine has a single device or no topology.
[[nodiscard]] std::function<picoseconds(double)> reductions_on(const hardware::machine& m);

// Fits the line to reductions_on at sizes from 1 KB to 256 MB, in powers of 2. Throws: as reductions_on.
[[nodiscard]] reduction_line reduction_line_of(const hardware::machine& m);

// Writes an all-reduce as messages over the machine's links, which other messages share. Kernels of the program run on
// the stream of the machine's first device. The machine must outlive the function. Throws: as reductions_on.
[[nodiscard]] reduction_writer on_network(const hardware::machine& m);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_REDUCTION_TIMES)

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/cost/eigen_least_squares.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/network.hpp>

namespace unity::fusion {

namespace detail {

UNITY_INLINE std::vector<hardware::device_id> devices_of(const hardware::machine& m) {
  std::vector<hardware::device_id> all;
  for (std::size_t d = 0; d < m.network.device_count(); ++d) {
    all.push_back(hardware::device_id{d});
  }
  if (all.size() < 2) {
    throw error{fmt::format("machine {}", m.name), fmt::format("{} devices", all.size()),
                "two at least, which all-reduce gradients"};
  }
  return all;
}

}  // namespace detail

UNITY_INLINE reduction_line fit_reductions(std::span<const reduction_sample> samples) {
  UNITY_EXPECTS(!samples.empty(), "at least one sample");
  const auto line_through = [&](bool has_slope, bool has_start) {
    least_squares fit{2};
    for (const auto& s : samples) {
      const std::array features{has_slope ? s.bytes : 0, has_start ? 1.0 : 0};
      fit.observe(features, s.seconds, 1 / s.seconds);
    }
    const auto found = fit.snapshot();
    return reduction_line{found.coefficients()[0] * 1e12, found.coefficients()[1] * 1e12};
  };
  const auto both = line_through(true, true);
  return both.per_byte < 0 ? line_through(false, true) : both.fixed < 0 ? line_through(true, false) : both;
}

UNITY_INLINE std::function<picoseconds(double)> reductions_on(const hardware::machine& m) {
  const auto devices = detail::devices_of(m);
  struct known {
    hardware::machine on;
    parallel::network links;
    hardware::collective_ways ways;

    known(const hardware::machine& given, std::span<const hardware::device_id> all)
        : on{given}, links{on}, ways{links.collective(hardware::exchange::all_reduce, all)} {}
  };
  const auto shared = std::make_shared<const known>(m, devices);
  return [shared, count = devices.size()](double size) {
    const bytes whole{std::llround(size)};
    const auto measured = shared->links.measured(hardware::exchange::all_reduce, count, whole);
    return measured ? *measured : shared->ways.at(whole).line(whole);
  };
}

UNITY_INLINE reduction_line reduction_line_of(const hardware::machine& m) {
  const auto time = reductions_on(m);
  std::vector<reduction_sample> samples;
  for (double size = 1 << 10; size <= 1 << 28; size *= 2) {
    samples.push_back({size, to_seconds(std::max(time(size), picoseconds{1}))});
  }
  return fit_reductions(samples);
}

UNITY_INLINE reduction_writer on_network(const hardware::machine& m) {
  const auto devices = detail::devices_of(m);
  const auto links = std::make_shared<parallel::network>(m);
  return [links, devices](tasks::program& p, tasks::fragment& f, tasks::task_ref begin, std::size_t, bytes size) {
    if (p.resources().size() == 1) {  // the first device's stream exists already
      tasks::program whole;
      links->declare(whole);
      for (std::size_t r = 1; r < whole.resources().size(); ++r) {
        p.add_resource(whole.resources()[r]);
      }
    }
    const std::array before{begin};
    return parallel::add_collective(*links, f, hardware::exchange::all_reduce, devices, size, before);
  };
}

}  // namespace unity::fusion

#endif
