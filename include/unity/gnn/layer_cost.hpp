// The time of a layer on a range of vertices, as a linear function of features learned from measurements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/gnn/vertex_features.hpp>

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

// What a fit depends on, for any number of observations. Regular.
struct observed_layer {
  static constexpr std::size_t columns = vertex_feature_count + 1;  // the features, and the seconds

  // Upper triangular with the same inner products of columns as the matrix of all observations (the R of its QR
  // decomposition), so every choice of weights has the same error on both.
  std::array<std::array<double, columns>, columns> rows{};
  std::array<double, columns> largest{};  // of each column

  friend bool operator==(const observed_layer&, const observed_layer&) = default;
};

}  // namespace detail

// Learns the weights of one layer on one device: the non-negative weights that minimize the mean square error plus
// `ridge` times the sum of squares of each feature's largest contribution, in units of the longest time. The ridge is
// needed because on graphs with few runs the last three features are linearly dependent.
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

}  // namespace unity::gnn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_GNN_LAYER_COST)

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

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
    result.loss += miss * miss / (longest * longest);
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

}  // namespace unity::gnn

#endif
