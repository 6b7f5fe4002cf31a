// Errors of estimators, and the baseline for them: a linear model of kernel times. Needs unity::eigen.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/cost/eigen_least_squares.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/kernel_samples.hpp>

namespace unity::learn {

// A launch, plus, per class of operators, their number, flops, outside bytes and inside bytes, each times a
// coefficient. Models kernel_estimator. Regular.
class linear_estimator {
 public:
  linear_estimator() = default;
  // Coefficients that minimize the squared relative errors. Complexity: linear in samples.
  explicit linear_estimator(std::span<const kernel_sample> samples);

  [[nodiscard]] picoseconds operator()(const fusion::kernel_description& k) const;

  friend bool operator==(const linear_estimator&, const linear_estimator&) = default;

 private:
  static constexpr std::size_t per_class = 4;

  [[nodiscard]] static std::vector<double> features_of(const fusion::kernel_description& k);

  linear_predictor sum_{};
};

// Statistics of |estimate - measured| / measured; all are 0 without samples. Regular.
struct accuracy {
  std::size_t samples = 0;
  double median = 0;
  double p90 = 0;        // the 90th percentile
  double within_14 = 0;  // share of samples with an error of at most 14%
  double within_20 = 0;

  friend bool operator==(const accuracy&, const accuracy&) = default;
};

[[nodiscard]] accuracy accuracy_of_errors(std::vector<double> errors);

// |estimate - measured| / measured.
template <kernel_estimator E>
[[nodiscard]] std::vector<double> errors_of(const E& e, std::span<const kernel_sample> samples) {
  std::vector<double> errors;
  for (const auto& s : samples) {
    const auto measured = static_cast<double>(s.time.count());
    errors.push_back(std::abs(static_cast<double>(e(s.kernel).count()) - measured) / measured);
  }
  return errors;
}

template <kernel_estimator E>
[[nodiscard]] accuracy accuracy_of(const E& e, std::span<const kernel_sample> samples) {
  return accuracy_of_errors(errors_of(e, samples));
}

// Training samples and test samples.
struct sample_division {
  std::vector<kernel_sample> learned{};
  std::vector<kernel_sample> tested{};
};

// One of ten kernels is for testing, chosen by hash, so equal kernels are together. With a network's name: all kernels
// of that network, and no others.
// Throws: unity::error if no sample, or every sample, is of that network.
[[nodiscard]] sample_division divide_samples(std::vector<kernel_sample> samples, std::string_view holdout,
                                             std::uint64_t seed);

// Samples by network, in the order of names.
[[nodiscard]] std::vector<std::vector<kernel_sample>> by_network(std::vector<kernel_sample> samples);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ESTIMATOR_REPORT)

#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/learn/estimator_training.hpp>

namespace unity::learn {

UNITY_INLINE linear_estimator::linear_estimator(std::span<const kernel_sample> samples) {
  least_squares all{1 + per_class * fusion::operator_class_names.size()};
  for (const auto& s : samples) {
    const auto time = static_cast<double>(s.time.count());
    all.observe(features_of(s.kernel), time, 1 / time);
  }
  sum_ = all.snapshot();
}

UNITY_INLINE picoseconds linear_estimator::operator()(const fusion::kernel_description& k) const {
  return sum_.coefficients().empty() ? picoseconds{1} : whole_picoseconds(sum_.predict(features_of(k)).expected);
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

UNITY_INLINE accuracy accuracy_of_errors(std::vector<double> errors) {
  if (errors.empty()) {
    return {};
  }
  std::sort(errors.begin(), errors.end());
  const auto count = errors.size();
  const auto within = [&](double bound) {
    return static_cast<double>(std::upper_bound(errors.begin(), errors.end(), bound) - errors.begin()) /
           static_cast<double>(count);
  };
  return {count, errors[(count - 1) / 2], errors[(9 * count + 9) / 10 - 1], within(0.14), within(0.2)};
}

UNITY_INLINE sample_division divide_samples(std::vector<kernel_sample> samples, std::string_view holdout,
                                            std::uint64_t seed) {
  sample_division d;
  for (auto& s : samples) {
    // A hash independent of the one that chooses validation samples.
    const bool is_test =
        holdout.empty() ? hash_combine(mix64(seed), kernel_hash(s.kernel)) % 10 == 0 : s.network == holdout;
    (is_test ? d.tested : d.learned).push_back(std::move(s));
  }
  if (!holdout.empty() && (d.tested.empty() || d.learned.empty())) {
    throw error{"holdout",
                fmt::format("{} of {} samples are of network \"{}\"", d.tested.size(),
                            d.tested.size() + d.learned.size(), holdout),
                "some, and others to learn from"};
  }
  return d;
}

UNITY_INLINE std::vector<std::vector<kernel_sample>> by_network(std::vector<kernel_sample> samples) {
  stable_sort(samples, [](const auto& a, const auto& b) { return a.network < b.network; });
  std::vector<std::vector<kernel_sample>> all;
  for (auto& s : samples) {
    if (all.empty() || all.back().front().network != s.network) {
      all.emplace_back();
    }
    all.back().push_back(std::move(s));
  }
  return all;
}

}  // namespace unity::learn

#endif
