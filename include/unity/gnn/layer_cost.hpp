// What a layer takes on a range of vertices, learned from measurements: seconds as a sum of features times weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

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

namespace detail {

// What fits depend on, of any number of observations. Regular.
struct observed_layer {
  static constexpr std::size_t columns = vertex_feature_count + 1;  // the features, and the seconds

  // Upper triangular, of the same inner products of columns as the matrix with a row for each observation (its R), and
  // so with the same errors for any weights.
  std::array<std::array<double, columns>, columns> rows{};
  std::array<double, columns> largest{};  // of each column

  friend bool operator==(const observed_layer&, const observed_layer&) = default;
};

}  // namespace detail

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
  [[nodiscard]] std::size_t observations() const noexcept { return observations_; }

  // unmeasured_layer without observations, and where all took no time. The same observations in the same order give the
  // same weights. Complexity: like that of observing, it does not depend on how many observations there were.
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
#include <vector>

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

// Effects: one more row, turned into those that are there by rotations. Source: Givens, Computation of plane unitary
// rotations transforming a general matrix to triangular form, J. SIAM 6(1), 1958.
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
    const auto share = found.coefficients()[c];  // of the longest time, where the feature is largest
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

// Weights that minimize a convex loss without being below 0 minimize it over the features whose weight is above 0: of
// the 31 sets of features, the one whose own minimum is feasible and least has them.
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
