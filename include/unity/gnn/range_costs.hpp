// The times of a network's layers on ranges of vertices, per device, as integers that add up exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/layer_cost.hpp>
#include <unity/gnn/minmax_partition.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// A layer on a device: its cost, and which width of the feature sums its input has. Regular.
struct layer_on_device {
  layer_cost cost{};
  std::size_t width = 0;

  friend bool operator==(const layer_on_device&, const layer_on_device&) = default;
};

// Models range_cost: the sum over a device's layers. Weights are rounded to integer multiples of one unit, chosen so
// that no range costs 2^62 and the whole graph on the slowest device costs more than 2^60. A range's seconds are
// therefore off by at most half a unit per feature.
class range_costs {
 public:
  // One list of layers per device. Keeps a reference to the sums.
  // Throws: unity::error without devices, for a layer whose width the sums lack, for a weight that is negative or not
  // finite, and if the time of the whole graph is not finite.
  range_costs(const vertex_feature_sums& sums, std::span<const std::vector<layer_on_device>> devices);
  range_costs(vertex_feature_sums&& sums, std::span<const std::vector<layer_on_device>> devices) = delete;

  [[nodiscard]] std::size_t parts() const noexcept { return weights_.size(); }
  [[nodiscard]] vertex_id vertices() const noexcept { return sums_->vertices(); }
  // Complexity: linear in the widths.
  [[nodiscard]] std::uint64_t operator()(std::size_t part, vertex_range r) const;
  [[nodiscard]] double seconds(std::uint64_t cost) const noexcept { return static_cast<double>(cost) * unit_; }
  // The time of the slowest device.
  [[nodiscard]] double seconds(const vertex_partition& p) const { return seconds(bottleneck(p, *this)); }

 private:
  const vertex_feature_sums* sums_;
  double unit_ = 1;  // seconds
  // per device: one entry for each feature but row_reads, then a row_reads entry per width
  std::vector<std::vector<std::uint64_t>> weights_{};
};

// The partition that minimizes the time of the slowest device. Complexity: as minmax_partition.
[[nodiscard]] vertex_partition balanced_partition(const range_costs& costs);

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_RANGE_COSTS)

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::gnn {

namespace detail {

inline constexpr std::size_t narrow_features = vertex_feature_count - 1;  // features that do not depend on a width

// Seconds per unit of each feature, summed over layers.
// Throws: unity::error for an invalid layer.
[[nodiscard]] UNITY_INLINE std::vector<double> weights_of(const std::vector<layer_on_device>& layers,
                                                          std::size_t widths) {
  std::vector<double> all(narrow_features + widths);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const auto where = fmt::format("cost of layer {}", l);
    if (layers[l].width >= widths) {
      throw error{where, fmt::format("width {}", layers[l].width), fmt::format("one of the {} widths", widths)};
    }
    for (std::size_t i = 0; i < vertex_feature_count; ++i) {
      const auto w = layers[l].cost.weights[i];
      if (!(w >= 0 && std::isfinite(w))) {
        throw error{where, fmt::format("{} s for one of {}", w, vertex_feature_names[i]),
                    "a finite number that is not below 0"};
      }
      all[i < narrow_features ? i : narrow_features + layers[l].width] += w;
    }
  }
  return all;
}

// The features of a range: those that do not depend on a width, then one per width.
template <class F>
void for_each_feature(const vertex_feature_sums& sums, vertex_range r, F&& f) {
  for (std::size_t w = 0; w < sums.widths().size(); ++w) {
    const auto x = sums.of(r, w);
    for (std::size_t i = w == 0 ? 0 : narrow_features; i < x.size(); ++i) {
      f(i < narrow_features ? i : narrow_features + w, x[i]);
    }
  }
}

}  // namespace detail

UNITY_INLINE range_costs::range_costs(const vertex_feature_sums& sums,
                                      std::span<const std::vector<layer_on_device>> devices)
    : sums_{&sums} {
  expect_parts(devices.size());
  std::vector<std::vector<double>> exact;
  double longest = 0;
  for (const auto& layers : devices) {
    exact.push_back(detail::weights_of(layers, sums.widths().size()));
    double all = 0;
    detail::for_each_feature(sums, {0, sums.vertices()},
                             [&](std::size_t i, std::uint64_t x) { all += exact.back()[i] * static_cast<double>(x); });
    longest = std::max(longest, all);
  }
  if (!std::isfinite(longest)) {
    throw error{"costs of layers", "a sum that is no number", "finite seconds of the whole graph"};
  }
  if (longest > 0) {
    unit_ = std::max(std::ldexp(1.0, std::ilogb(longest) - 60), std::numeric_limits<double>::min());
  }
  for (const auto& of_device : exact) {
    weights_.emplace_back(of_device.size());
    detail::for_each_feature(sums, {0, sums.vertices()}, [&](std::size_t i, std::uint64_t x) {
      // A feature that no vertex has may have a weight beyond the range of integers.
      weights_.back()[i] = x == 0 ? 0 : static_cast<std::uint64_t>(std::llround(of_device[i] / unit_));
    });
  }
}

UNITY_INLINE std::uint64_t range_costs::operator()(std::size_t part, vertex_range r) const {
  std::uint64_t sum = 0;
  detail::for_each_feature(*sums_, r, [&](std::size_t i, std::uint64_t x) { sum += weights_[part][i] * x; });
  return sum;
}

UNITY_INLINE vertex_partition balanced_partition(const range_costs& costs) {
  return minmax_partition(costs.parts(), costs.vertices(), costs);
}

}  // namespace unity::gnn

#endif
