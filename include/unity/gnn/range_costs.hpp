// The times of a network's layers on ranges of vertices, per device, and whether vertices should move between devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/layer_cost.hpp>
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

// Decides whether vertices should move between devices: only if the gain is worth the cost.

// The cost of moving. Regular.
struct move_cost {
  double seconds_per_vertex = 0;  // seconds per vertex for its data, such as features
  double seconds_per_edge = 0;    // seconds per in-edge
  double seconds_each = 0;        // fixed seconds per move, such as preparing kernels again

  friend bool operator==(const move_cost&, const move_cost&) = default;
};

// When to replace a partition. Regular.
struct repartition_rule {
  double least_gain = 0.05;  // smallest gain, as a share of the time of the remaining iterations
  double iterations = 100;   // iterations for which the next partition would be used
  move_cost moving{};

  friend bool operator==(const repartition_rule&, const repartition_rule&) = default;
};

// Regular.
struct repartition_decision {
  bool is_worth_it = false;
  double seconds_now = 0;     // predicted seconds of an iteration
  double seconds_next = 0;    // the same, under the other partition
  double seconds_moving = 0;  // once
  vertex_id moved = 0;        // vertices that change their device

  friend bool operator==(const repartition_decision&, const repartition_decision&) = default;
};

// The ranges that each part would have to receive, at most two per part, in order. Precondition: equal numbers of
// vertices and parts.
[[nodiscard]] std::vector<std::vector<vertex_range>> received_ranges(const vertex_partition& now,
                                                                     const vertex_partition& next);

// Whether to switch to `next`: if (now - next) * iterations - moving > least_gain * now * iterations. Devices receive
// at the same time, so the device that receives most determines the cost of moving. Complexity: linear in the parts,
// times that of range_costs.
// Throws: unity::error if the partitions and the costs have different numbers of vertices or parts.
[[nodiscard]] repartition_decision judge_repartition(const range_costs& costs, csr_view g, const vertex_partition& now,
                                                     const vertex_partition& next, const repartition_rule& rule);

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

UNITY_INLINE std::vector<std::vector<vertex_range>> received_ranges(const vertex_partition& now,
                                                                    const vertex_partition& next) {
  UNITY_EXPECTS(now.parts() == next.parts() && now.vertices() == next.vertices(), "partitions of the same vertices");
  std::vector<std::vector<vertex_range>> all(now.parts());
  for (std::size_t k = 0; k < now.parts(); ++k) {
    const auto own = now.range(k);
    const auto wanted = next.range(k);
    const vertex_range below{wanted.begin, std::min(wanted.end, own.begin)};
    const vertex_range above{std::max(wanted.begin, own.end), wanted.end};
    for (const auto& r : {below, above}) {
      if (r.begin < r.end) {
        all[k].push_back(r);
      }
    }
  }
  return all;
}

UNITY_INLINE repartition_decision judge_repartition(const range_costs& costs, csr_view g, const vertex_partition& now,
                                                    const vertex_partition& next, const repartition_rule& rule) {
  for (const auto* p : {&now, &next}) {
    if (p->parts() != costs.parts() || p->vertices() != costs.vertices() || g.vertices() != costs.vertices()) {
      throw error{"partition", fmt::format("{} parts of {} vertices", p->parts(), p->vertices()),
                  fmt::format("{} parts of {} vertices", costs.parts(), costs.vertices())};
    }
  }
  repartition_decision d{.seconds_now = costs.seconds(now), .seconds_next = costs.seconds(next)};
  for (const auto& ranges : received_ranges(now, next)) {
    double seconds = ranges.empty() ? 0 : rule.moving.seconds_each;
    for (const auto& r : ranges) {
      d.moved += r.size();
      seconds += rule.moving.seconds_per_vertex * r.size() +
                 rule.moving.seconds_per_edge * static_cast<double>(g.offsets()[r.end] - g.offsets()[r.begin]);
    }
    d.seconds_moving = std::max(d.seconds_moving, seconds);
  }
  const auto gain = (d.seconds_now - d.seconds_next) * rule.iterations - d.seconds_moving;
  d.is_worth_it = gain > rule.least_gain * d.seconds_now * rule.iterations;
  return d;
}

}  // namespace unity::gnn

#endif
