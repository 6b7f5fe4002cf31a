// The time of a layer on a range of vertices, as a linear function of features learned from measurements; and with it
// the times of a network's layers per device, and whether vertices should move between devices.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/gnn/vertex_features.hpp>
#include <unity/gnn/vertex_partition.hpp>

namespace unity::gnn {

// Seconds per unit of each feature. None is negative, so a range takes at least as long as any range within it.
// Regular.
struct layer_cost {
  std::array<double, vertex_feature_count> weights{};

  [[nodiscard]] double seconds(const vertex_features& x) const noexcept {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += weights[i] * static_cast<double>(x[i]);
    }
    return sum;
  }

  friend bool operator==(const layer_cost&, const layer_cost&) = default;
};

// Used before anything is measured: 1 ns per vertex and per edge.
inline constexpr layer_cost unmeasured_layer{{1e-9, 1e-9, 0, 0, 0}};

namespace detail {

// A summary of all observations, of constant size, from which a fit is computed. Regular.
struct observed_layer {
  static constexpr std::size_t columns = vertex_feature_count + 1;  // the features, and the seconds

  // Upper triangular with the same inner products of columns as the matrix of all observations (the R of its QR
  // decomposition), so every choice of weights has the same error on both.
  std::array<std::array<double, columns>, columns> rows{};
  std::array<double, columns> largest{};  // of each column

  friend bool operator==(const observed_layer&, const observed_layer&) = default;
};

}  // namespace detail

// Learns the weights of one layer on one device: the non-negative weights that minimize the sum of the squared errors
// plus `ridge` times the sum of squares of each feature's largest contribution, in units of the longest time. The ridge
// is needed because on graphs with few runs the last three features are linearly dependent.
// Source: equations 4.4 to 4.7 of ROC; Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970; Lawson and
// Hanson, Solving least squares problems, 1974, chapter 23 (non-negativity).
class layer_cost_learner {
 public:
  static constexpr double default_ridge = 1e-6;

  // Throws: unity::error if the ridge is negative or NaN.
  explicit layer_cost_learner(double ridge = default_ridge);

  // Throws: unity::error if the seconds are negative or not finite.
  void observe(const vertex_features& x, double seconds);
  [[nodiscard]] std::size_t observations() const noexcept { return observations_; }

  // Returns unmeasured_layer if there are no observations or all took no time. The same observations in the same order
  // give the same weights. Complexity: constant in the number of observations, like observe.
  [[nodiscard]] layer_cost snapshot() const;

 private:
  double ridge_;
  std::size_t observations_ = 0;
  detail::observed_layer observed_{};
};

// A learner for each layer and each device.
class layer_cost_models {
 public:
  // Throws: as layer_cost_learner.
  explicit layer_cost_models(double ridge = layer_cost_learner::default_ridge);

  void observe(std::size_t layer, std::size_t device, const vertex_features& x, double seconds);
  // The learned cost of the layer on that device; unmeasured_layer if nothing was observed.
  [[nodiscard]] layer_cost snapshot(std::size_t layer, std::size_t device) const;

 private:
  layer_cost_learner none_;
  std::map<std::pair<std::size_t, std::size_t>, layer_cost_learner> learners_{};
};

// A layer on a device: its cost, and the index of its input width in the feature sums. Regular.
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
#include <unity/cost/eigen_least_squares.hpp>

namespace unity::gnn {

namespace detail {

// The loss of layer_cost_learner, for weights of the features in the set alone.
struct restricted_fit {
  layer_cost cost{};
  double loss = 0;
  bool is_feasible = true;  // no weight is negative
};

// Effects: adds a row and restores the triangular form by Givens rotations.
// Source: Givens, Computation of plane unitary rotations transforming a general matrix to triangular form, J. SIAM
// 6(1), 1958.
UNITY_INLINE void observe(observed_layer& all, std::array<double, observed_layer::columns> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    all.largest[i] = std::max(all.largest[i], row[i]);
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    auto& to = all.rows[i];
    const auto length = std::hypot(to[i], row[i]);
    if (length == 0) {
      continue;
    }
    const auto cosine = to[i] / length;
    const auto sine = row[i] / length;
    for (std::size_t c = i; c < row.size(); ++c) {
      const auto before = to[c];
      to[c] = cosine * before + sine * row[c];
      row[c] = cosine * row[c] - sine * before;
    }
  }
}

[[nodiscard]] UNITY_INLINE restricted_fit fit_layer(const observed_layer& all, double ridge, unsigned set) {
  const auto longest = all.largest[vertex_feature_count];
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < vertex_feature_count; ++i) {
    if ((set >> i & 1U) != 0) {
      chosen.push_back(i);
    }
  }
  const auto unit = [&](std::size_t i) { return all.largest[i] > 0 ? all.largest[i] : 1; };
  least_squares fit{chosen.size()};
  std::vector<double> x(chosen.size());
  for (const auto& row : all.rows) {
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      x[c] = row[chosen[c]] / unit(chosen[c]);
    }
    fit.observe(x, row[vertex_feature_count] / longest);
  }
  for (std::size_t c = 0; c < chosen.size(); ++c) {
    std::fill(x.begin(), x.end(), 0.0);
    x[c] = std::sqrt(ridge);
    fit.observe(x, 0);
  }
  restricted_fit result;
  const auto found = fit.snapshot();
  for (std::size_t c = 0; c < chosen.size(); ++c) {
    const auto share = found.coefficients()[c];  // relative to the longest time, at the feature's largest value
    result.is_feasible &= share >= 0;
    result.cost.weights[chosen[c]] = share * longest / unit(chosen[c]);
    result.loss += ridge * share * share;
  }
  for (const auto& row : all.rows) {
    auto miss = -row[vertex_feature_count];
    for (std::size_t i = 0; i < vertex_feature_count; ++i) {
      miss += result.cost.weights[i] * row[i];
    }
    const auto relative = miss / longest;  // first: the square of a time may be beyond the range of double
    result.loss += relative * relative;
  }
  return result;
}

}  // namespace detail

UNITY_INLINE layer_cost_learner::layer_cost_learner(double ridge) : ridge_{ridge} {
  if (!(ridge >= 0 && std::isfinite(ridge))) {
    throw error{"costs of layers", fmt::format("a ridge of {}", ridge), "a finite number that is not below 0"};
  }
}

UNITY_INLINE void layer_cost_learner::observe(const vertex_features& x, double seconds) {
  if (!(seconds >= 0 && std::isfinite(seconds))) {
    throw error{"time of a layer", fmt::format("{} s", seconds), "a finite number that is not below 0"};
  }
  std::array<double, detail::observed_layer::columns> row{};
  std::transform(x.begin(), x.end(), row.begin(), [](auto f) { return static_cast<double>(f); });
  row.back() = seconds;
  detail::observe(observed_, row);
  ++observations_;
}

// Non-negative weights minimize a convex loss if and only if they minimize it over the features with positive weight.
// So of the 31 sets of features, the best one whose own minimum is non-negative is the solution.
UNITY_INLINE layer_cost layer_cost_learner::snapshot() const {
  if (observed_.largest.back() <= 0) {
    return unmeasured_layer;
  }
  layer_cost best = unmeasured_layer;
  auto least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << vertex_feature_count; ++set) {
    const auto fit = detail::fit_layer(observed_, ridge_, set);
    if (fit.is_feasible && fit.loss < least) {
      least = fit.loss;
      best = fit.cost;
    }
  }
  return best;
}

UNITY_INLINE layer_cost_models::layer_cost_models(double ridge) : none_{ridge} {}

UNITY_INLINE void layer_cost_models::observe(std::size_t layer, std::size_t device, const vertex_features& x,
                                             double seconds) {
  learners_.try_emplace({layer, device}, none_).first->second.observe(x, seconds);
}

UNITY_INLINE layer_cost layer_cost_models::snapshot(std::size_t layer, std::size_t device) const {
  const auto found = learners_.find({layer, device});
  return (found == learners_.end() ? none_ : found->second).snapshot();
}

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
    throw error{"costs of layers", "a sum that is not a number", "finite seconds of the whole graph"};
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
