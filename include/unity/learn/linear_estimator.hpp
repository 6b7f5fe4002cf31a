// A linear model of kernel times, the baseline for other estimators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/cost/eigen_least_squares.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/learn/kernel_samples.hpp>

namespace unity::learn {

// A launch, plus, per class of operators, their number, flops, outside bytes and inside bytes, each times a
// coefficient. Models kernel_estimator. Regular.
class linear_estimator {
 public:
  linear_estimator() = default;
  // Coefficients that minimize the squared relative errors. Complexity: linear in samples.
  explicit linear_estimator(std::span<const kernel_sample> samples);

  [[nodiscard]] std::int64_t operator()(const fusion::kernel_description& k) const;

  friend bool operator==(const linear_estimator&, const linear_estimator&) = default;

 private:
  static constexpr std::size_t per_class = 4;

  [[nodiscard]] static std::vector<double> features_of(const fusion::kernel_description& k);

  linear_predictor sum_{};
};

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_LINEAR_ESTIMATOR)

#include <unity/learn/kernel_features.hpp>

namespace unity::learn {

UNITY_INLINE linear_estimator::linear_estimator(std::span<const kernel_sample> samples) {
  least_squares all{1 + per_class * fusion::operator_class_names.size()};
  for (const auto& s : samples) {
    const auto time = static_cast<double>(s.picoseconds);
    all.observe(features_of(s.kernel), time, 1 / time);
  }
  sum_ = all.snapshot();
}

UNITY_INLINE std::int64_t linear_estimator::operator()(const fusion::kernel_description& k) const {
  return sum_.coefficients().empty() ? 1 : whole_picoseconds(sum_.predict(features_of(k)).expected);
}

UNITY_INLINE std::vector<double> linear_estimator::features_of(const fusion::kernel_description& k) {
  std::vector<double> f(1 + per_class * fusion::operator_class_names.size());
  f[0] = 1;
  for (const auto& p : k.parts) {
    auto* const at = f.data() + 1 + per_class * static_cast<std::size_t>(p.kind);
    at[0] += 1;
    at[1] += p.flops;
    at[2] += p.reads_outside + p.writes_outside;
    at[3] += p.reads + p.writes - p.reads_outside - p.writes_outside;
  }
  return f;
}

}  // namespace unity::learn

#endif
