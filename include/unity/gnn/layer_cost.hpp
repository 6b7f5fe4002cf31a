// What a layer takes on a range of vertices, learned from measurements: seconds as a sum of features times weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/gnn/vertex_features.hpp>

namespace unity::gnn {

// Seconds for one of each feature. None is below 0, so a range takes no less than one within it. Regular.
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

// Before anything was measured: 1 ns for each vertex and each edge.
inline constexpr layer_cost unmeasured_layer{{1e-9, 1e-9, 0, 0, 0}};

// Learns the weights of one layer on one device: those, none of them below 0, that minimize the mean square error, plus
// `ridge` times the sum of the squares of what each feature contributes at its largest, in units of the longest time
// (on graphs with few runs, the last three features depend on each other).
// Source: equations 4.4 to 4.7 of ROC; Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970; Lawson and
// Hanson, Solving least squares problems, 1974, chapter 23 (no weight below 0).
class layer_cost_learner {
 public:
  static constexpr double default_ridge = 1e-6;

  // Throws: unity::error for a ridge below 0, or that is no number.
  explicit layer_cost_learner(double ridge = default_ridge);

  // Throws: unity::error where the seconds are below 0 or not finite.
  void observe(const vertex_features& x, double seconds);
  [[nodiscard]] std::size_t observations() const noexcept { return seconds_.size(); }

  // unmeasured_layer without observations, and where all took no time. The same observations in the same order give the
  // same weights. Complexity: linear in the observations.
  [[nodiscard]] layer_cost snapshot() const;

 private:
  double ridge_;
  std::vector<vertex_features> rows_{};
  std::vector<double> seconds_{};
};

// A learner for each layer and each device.
class layer_cost_models {
 public:
  // Throws: as layer_cost_learner.
  explicit layer_cost_models(double ridge = layer_cost_learner::default_ridge);

  void observe(std::size_t layer, std::size_t device, const vertex_features& x, double seconds);
  // What was learned of the layer on that device; where nothing was, unmeasured_layer.
  [[nodiscard]] layer_cost snapshot(std::size_t layer, std::size_t device) const;

 private:
  layer_cost_learner none_;
  std::map<std::pair<std::size_t, std::size_t>, layer_cost_learner> learners_{};
};

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_LAYER_COST)

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/cost/eigen_least_squares.hpp>

namespace unity::gnn {

namespace detail {

// What layer_cost_learner minimizes, for weights of the features in the set alone.
struct restricted_fit {
  layer_cost cost{};
  double loss = 0;
  bool is_feasible = true;  // no weight is below 0
};

[[nodiscard]] UNITY_INLINE restricted_fit fit_layer(const std::vector<vertex_features>& rows,
                                                    const std::vector<double>& seconds, double ridge, unsigned set) {
  const auto longest = *std::max_element(seconds.begin(), seconds.end());
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < vertex_feature_count; ++i) {
    if ((set >> i & 1U) != 0) {
      chosen.push_back(i);
    }
  }
  std::vector<double> largest(chosen.size());
  least_squares fit{chosen.size(), ridge};
  std::vector<double> x(chosen.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      x[c] = static_cast<double>(rows[r][chosen[c]]);
      largest[c] = std::max(largest[c], x[c]);
    }
    fit.observe(x, seconds[r] / longest);
  }
  restricted_fit result;
  const auto found = fit.snapshot();
  for (std::size_t c = 0; c < chosen.size(); ++c) {
    const auto weight = found.coefficients()[c];
    result.is_feasible &= weight >= 0;
    result.cost.weights[chosen[c]] = weight * longest;
    result.loss += ridge * weight * weight * largest[c] * largest[c];
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto miss = (result.cost.seconds(rows[r]) - seconds[r]) / longest;
    result.loss += miss * miss;
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
  rows_.push_back(x);
  seconds_.push_back(seconds);
}

// Weights that minimize a convex loss without being below 0 minimize it over the features whose weight is above 0: of
// the 31 sets of features, the one whose own minimum is feasible and least has them.
UNITY_INLINE layer_cost layer_cost_learner::snapshot() const {
  if (seconds_.empty() || *std::max_element(seconds_.begin(), seconds_.end()) <= 0) {
    return unmeasured_layer;
  }
  layer_cost best = unmeasured_layer;
  auto least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << vertex_feature_count; ++set) {
    const auto fit = detail::fit_layer(rows_, seconds_, ridge_, set);
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

}  // namespace unity::gnn

#endif
