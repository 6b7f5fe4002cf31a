// A trained attention network as a function of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/fusion/kernel_description.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/kernel_features.hpp>

namespace unity::learn {

// Models kernel_estimator. Regular. Equal values estimate alike, on any thread.
struct attention_estimator {
  network_shape shape{};
  bool own_times = true;  // whether it uses the measured times of single operators
  feature_scaling scaling{};
  float offset = 0;  // the mean of log(time / baseline) over its training samples
  std::vector<float> weights{};

  // Picoseconds. Complexity: as attention_forward; kernels of more than most_parts parts are the sum of their pieces.
  [[nodiscard]] std::int64_t operator()(const fusion::kernel_description& k) const;

  friend bool operator==(const attention_estimator&, const attention_estimator&) = default;
};

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ATTENTION_ESTIMATOR)

#include <cmath>

#include <unity/core/config.hpp>
#include <unity/learn/attention_forward.hpp>
#include <unity/learn/kernel_estimator.hpp>

namespace unity::learn {

UNITY_INLINE std::int64_t attention_estimator::operator()(const fusion::kernel_description& k) const {
  if (k.parts.size() > most_parts) {
    std::int64_t sum = 0;
    for (const auto& piece : pieces_of(k)) {
      sum += (*this)(piece);
    }
    return sum;
  }
  auto f = features_of(k, own_times);
  scaling.apply(f.rows);
  const auto y = attention_forward(shape, weights, k, f);
  return whole_picoseconds(f.baseline * std::exp(double{y} + offset));
}

}  // namespace unity::learn

#endif
