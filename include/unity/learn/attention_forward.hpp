// The forward pass of one kernel through an attention network, without padding and without preparation.
#pragma once

#include <span>

#include <unity/fusion/kernel_description.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/row_products.hpp>

namespace unity::learn {

// y of attention_graph, up to rounding. f.rows must be scaled. Runs on the calling thread. Preconditions: as many
// weights as the shape has; features and edges of one kernel. Complexity: operators times hidden^2, per layer.
[[nodiscard]] float attention_forward(const network_shape& s, std::span<const float> weights,
                                      const fusion::kernel_description& k, const kernel_features& f);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ATTENTION_FORWARD)

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include <unity/core/config.hpp>

namespace unity::learn::detail {

class forward_pass {
 public:
  forward_pass(const network_shape& s, std::span<const float> weights, const fusion::kernel_description& k,
               const kernel_features& f)
      : shape_{s}, weights_{weights}, kernel_{k}, features_{f} {}

  [[nodiscard]] float run();

 private:
  using numbers = std::vector<float>;

  void layer(numbers& h);
  // Adds the attention output of an operator to `out`.
  void attend(const numbers& values, const numbers& scores, std::size_t head, numbers& out);
  [[nodiscard]] float log_sum_of_parts(const numbers& h);
  // Sums, then means, of columns.
  static void pool(std::span<const float> rows, std::span<const float> shares, float* out) noexcept;

  const network_shape& shape_;
  block_reader weights_;
  const fusion::kernel_description& kernel_;
  const kernel_features& features_;
};

UNITY_INLINE void forward_pass::attend(const numbers& values, const numbers& scores, std::size_t head, numbers& out) {
  const auto parts = kernel_.parts.size();
  const auto hidden = shape_.hidden;
  const auto width = hidden / shape_.heads;
  const auto sees = head < shape_.heads / 2 ? sight::operands : sight::readers;
  const auto score = [&](std::size_t part, std::size_t seen) {
    const auto x = scores[part * 2 * shape_.heads + head] + scores[seen * 2 * shape_.heads + shape_.heads + head];
    return x > 0 ? x : negative_slope * x;
  };
  numbers most(parts, unseen);
  for_each_seen(kernel_, sees, [&](std::size_t i, std::size_t j) { most[i] = std::max(most[i], score(i, j)); });
  numbers sums(parts);
  numbers mixed(parts * width);
  for_each_seen(kernel_, sees, [&](std::size_t i, std::size_t j) {
    const auto share = std::exp(score(i, j) - most[i]);
    sums[i] += share;
    for (std::size_t c = 0; c < width; ++c) {
      mixed[i * width + c] += share * values[j * hidden + head * width + c];
    }
  });
  for (std::size_t i = 0; i < parts; ++i) {
    for (std::size_t c = 0; c < width; ++c) {
      out[i * hidden + head * width + c] += mixed[i * width + c] / sums[i];
    }
  }
}

UNITY_INLINE void forward_pass::layer(numbers& h) {
  const auto parts = kernel_.parts.size();
  numbers values(h.size());
  add_product(h.data(), parts, shape_.hidden, weights_.take(shape_.hidden * shape_.hidden), shape_.hidden,
              values.data());
  numbers scores(parts * 2 * shape_.heads);
  add_product(h.data(), parts, shape_.hidden, weights_.take(shape_.hidden * 2 * shape_.heads), 2 * shape_.heads,
              scores.data());
  auto out = weights_.dense(h, parts, shape_.hidden, shape_.hidden);
  for (std::size_t head = 0; head < shape_.heads; ++head) {
    attend(values, scores, head, out);
  }
  relu(out);
  for (std::size_t i = 0; i < h.size(); ++i) {
    h[i] += out[i];
  }
}

UNITY_INLINE float forward_pass::log_sum_of_parts(const numbers& h) {
  const auto factors = weights_.dense(h, kernel_.parts.size(), shape_.hidden, 1);
  float sum = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    sum += features_.shares[i] * std::exp(factor_bound * std::tanh(factors[i] / factor_bound));
  }
  return std::log(sum);
}

UNITY_INLINE void forward_pass::pool(std::span<const float> rows, std::span<const float> shares, float* out) noexcept {
  const auto columns = rows.size() / shares.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto c = i % columns;
    out[c] += pool_scale * rows[i];
    out[columns + c] += shares[i / columns] * rows[i];
  }
}

UNITY_INLINE float forward_pass::run() {
  const auto parts = kernel_.parts.size();
  auto h = weights_.dense(features_.rows, parts, part_features, shape_.hidden);
  relu(h);
  for (std::size_t l = 0; l < shape_.layers; ++l) {
    layer(h);
  }
  const auto sum = log_sum_of_parts(h);
  numbers pools(2 * (shape_.hidden + part_features));
  pool(h, features_.shares, pools.data());
  pool(features_.rows, features_.shares, pools.data() + 2 * shape_.hidden);
  auto x = weights_.dense(pools, 1, pools.size(), shape_.hidden);
  relu(x);
  x = weights_.dense(x, 1, shape_.hidden, shape_.hidden);
  relu(x);
  return sum + weights_.dense(x, 1, shape_.hidden, 1)[0];
}

}  // namespace unity::learn::detail

namespace unity::learn {

UNITY_INLINE float attention_forward(const network_shape& s, std::span<const float> weights,
                                     const fusion::kernel_description& k, const kernel_features& f) {
  UNITY_EXPECTS(s.is_valid() && f.parts() == k.parts.size() && f.rows.size() == f.parts() * part_features,
                "a shape, and the features of this kernel");
  return detail::forward_pass{s, weights, k, f}.run();
}

}  // namespace unity::learn

#endif
