// Linear least squares by Eigen. Needs unity::eigen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/cost/learner.hpp>

namespace unity {

// A linear combination of features. Regular; a predictor of spans with one feature per coefficient.
class linear_predictor {
 public:
  linear_predictor() = default;
  // errors: sorted relative errors of the observations, y / predicted - 1; empty: no interval.
  linear_predictor(std::vector<double> coefficients, std::span<const double> errors);

  [[nodiscard]] std::span<const double> coefficients() const noexcept { return coefficients_; }
  // The interval covers four of five observations, relative to the expected value.
  // Precondition: as many features as coefficients. Complexity: linear in the features.
  [[nodiscard]] prediction predict(std::span<const double> features) const;
  [[nodiscard]] fingerprint version() const noexcept;

  friend bool operator==(const linear_predictor&, const linear_predictor&) = default;

 private:
  std::vector<double> coefficients_{};
  double low_ = 0;  // relative
  double high_ = 0;
};

// Coefficients that minimize the sum over observations of (weight * (prediction - y))^2, plus `ridge` times the sum of
// the squared coefficients, with each feature scaled to a maximum of 1 (ridge regression: dependent features share a
// coefficient instead of cancelling out). A learner of spans of features.
// Source: Hoerl and Kennard, Ridge regression, Technometrics 12(1), 1970.
class least_squares {
 public:
  // Preconditions: at least one feature, ridge >= 0.
  explicit least_squares(std::size_t features, double ridge = 0);

  // weight: 1 / y minimizes relative instead of absolute errors.
  // Preconditions: the declared number of features, finite numbers, weight > 0. Complexity: linear in the features.
  void observe(std::span<const double> features, double y, double weight = 1);
  [[nodiscard]] std::size_t observations() const noexcept { return values_.size(); }

  // If the coefficients are not unique (no observations, or fewer than coefficients, without ridge), the smallest ones.
  // Complexity: observations times the square of the features.
  [[nodiscard]] linear_predictor snapshot() const;

 private:
  std::size_t features_;
  double ridge_;
  std::vector<double> rows_{};  // one row of features per observation
  std::vector<double> values_{};
  std::vector<double> weights_{};
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_COST_EIGEN_LEAST_SQUARES)

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include <Eigen/QR>

#include <unity/cost/duration.hpp>

namespace unity {

UNITY_INLINE linear_predictor::linear_predictor(std::vector<double> coefficients, std::span<const double> errors)
    : coefficients_{std::move(coefficients)} {
  if (!errors.empty()) {
    const auto [low, high] = percentiles_10_90(errors);
    low_ = std::min(low, 0.0);
    high_ = std::max(high, 0.0);
  }
}

UNITY_INLINE prediction linear_predictor::predict(std::span<const double> features) const {
  UNITY_EXPECTS(features.size() == coefficients_.size(), "as many features as coefficients");
  double sum = 0;
  for (std::size_t i = 0; i < features.size(); ++i) {
    sum += coefficients_[i] * features[i];
  }
  const auto below = sum + low_ * std::abs(sum);
  const auto above = sum + high_ * std::abs(sum);
  return {sum, below, above};
}

UNITY_INLINE fingerprint linear_predictor::version() const noexcept {
  hasher h{coefficients_.size()};
  for (const auto c : coefficients_) {
    h.add(std::bit_cast<std::uint64_t>(c));
  }
  return h.add(std::bit_cast<std::uint64_t>(low_)).add(std::bit_cast<std::uint64_t>(high_)).result();
}

UNITY_INLINE least_squares::least_squares(std::size_t features, double ridge) : features_{features}, ridge_{ridge} {
  UNITY_EXPECTS(features > 0 && ridge >= 0, "features, and no negative ridge");
}

UNITY_INLINE void least_squares::observe(std::span<const double> features, double y, double weight) {
  UNITY_EXPECTS(features.size() == features_, "as many features as were declared");
  UNITY_EXPECTS(std::isfinite(y) && std::isfinite(weight) && weight > 0 &&
                    std::all_of(features.begin(), features.end(), [](double x) { return std::isfinite(x); }),
                "finite numbers and a weight above 0");
  rows_.insert(rows_.end(), features.begin(), features.end());
  values_.push_back(y);
  weights_.push_back(weight);
}

UNITY_INLINE linear_predictor least_squares::snapshot() const {
  const auto columns = static_cast<Eigen::Index>(features_);
  const auto rows = static_cast<Eigen::Index>(values_.size());
  const auto more = ridge_ > 0 ? columns : 0;
  const auto feature = [&](Eigen::Index r, Eigen::Index c) { return rows_[static_cast<std::size_t>(r * columns + c)]; };
  Eigen::VectorXd scale = Eigen::VectorXd::Zero(columns);
  for (Eigen::Index c = 0; c < columns; ++c) {
    for (Eigen::Index r = 0; r < rows; ++r) {
      scale[c] = std::max(scale[c], std::abs(feature(r, c)));
    }
    scale[c] = scale[c] > 0 ? scale[c] : 1;
  }
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(rows + more, columns);
  Eigen::VectorXd b = Eigen::VectorXd::Zero(rows + more);
  for (Eigen::Index r = 0; r < rows; ++r) {
    const auto weight = weights_[static_cast<std::size_t>(r)];
    for (Eigen::Index c = 0; c < columns; ++c) {
      a(r, c) = weight * feature(r, c) / scale[c];
    }
    b[r] = weight * values_[static_cast<std::size_t>(r)];
  }
  for (Eigen::Index c = 0; c < more; ++c) {
    a(rows + c, c) = std::sqrt(ridge_);
  }
  // Rank-revealing: chooses the smallest coefficients for dependent features.
  Eigen::VectorXd x = Eigen::VectorXd::Zero(columns);
  if (rows + more > 0) {
    x = a.completeOrthogonalDecomposition().solve(b);
  }
  std::vector<double> coefficients(features_);
  for (Eigen::Index c = 0; c < columns; ++c) {
    coefficients[static_cast<std::size_t>(c)] = x[c] / scale[c];
  }
  const linear_predictor exact{coefficients, {}};
  std::vector<double> errors;
  for (std::size_t r = 0; r < values_.size(); ++r) {
    const auto predicted = exact.predict({rows_.data() + r * features_, features_}).expected;
    if (predicted != 0) {
      errors.push_back((values_[r] - predicted) / std::abs(predicted));
    }
  }
  std::sort(errors.begin(), errors.end());
  return {std::move(coefficients), errors};
}

}  // namespace unity

#endif
