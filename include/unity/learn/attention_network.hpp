// Networks that estimate the time of a kernel: attention of parts to their operands and readers, sums over parts, and
// dense layers. As tensor graphs over batches of one size, for training.
//
//   h = relu(x E)                                             per part
//   h = h + relu(attention(h) + h U)                          `layers` times; half of the heads see operands, the other
//                                                             half readers, and each part itself
//   y = log(sum of share exp(4 tanh(h p / 4))) + d(pools)     log(time / baseline)
//
// Each part takes its share of the baseline, times a factor; d, three dense layers, corrects the sum. It reads the sums
// over parts of h and x, and their means weighted by shares. Attention is as in Velickovic et al., Graph attention
// networks, ICLR 2018; the whole follows Yi et al., Optimizing DNN compilation for distributed training with joint OP
// and tensor fusion, section 4.3, which has six such layers and predicts the time itself.
//
// The loss is the sum over kernels of weight (y - target)^2, the square of the logarithm of the ratio of predicted and
// measured time. Formula (3) of the paper, log((time - target)^2), rewards one exact hit more than many good ones, has
// no lower bound, and counts in units of time: long kernels alone would matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/weight_blocks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::learn {

// Regular.
struct network_shape {
  std::size_t hidden = 32;  // features per operator between layers: a multiple of heads
  std::size_t heads = 4;    // an even number
  std::size_t layers = 3;

  [[nodiscard]] bool is_valid() const noexcept {
    constexpr std::size_t most = 1024;
    return heads > 0 && heads % 2 == 0 && hidden > 0 && hidden % heads == 0 && hidden <= most && layers <= most;
  }

  friend bool operator==(const network_shape&, const network_shape&) = default;
};

// In order, without gaps. Precondition: a valid shape.
[[nodiscard]] std::vector<weight_block> weight_blocks(const network_shape& s);
[[nodiscard]] std::size_t weight_count(const network_shape& s);

// Matrices uniform with variance 1 / rows; biases and output weights 0, so that the first estimate is the baseline.
[[nodiscard]] std::vector<float> initial_weights(const network_shape& s, std::uint64_t seed);

inline constexpr float pool_scale = 0.125F;  // scale of sums over operators, beside means
inline constexpr float negative_slope = 0.2F;
inline constexpr float factor_bound = 4;  // bound of the logarithm of an operator's factor

// Added to the attention scores of operators that are not attended to, before the softmax.
inline constexpr float unseen = -1e4F;

namespace detail {

// Builds the graph, one block of weights after another.
class network_writer {
 public:
  network_writer(const tensor::algebra& a, const network_shape& s, std::int64_t kernels, std::int64_t nodes);

  [[nodiscard]] tensor::tensor_graph write() &&;

 private:
  [[nodiscard]] value_id next() { return weights_[used_++]; }
  [[nodiscard]] value_id number(double x) { return b_.fill(x); }
  [[nodiscard]] value_id dense(value_id x) {
    const auto product = b_.matmul(x, next());
    return b_.add(product, next());
  }
  [[nodiscard]] value_id layer(value_id h);
  [[nodiscard]] value_id attention_of(value_id h);
  // Sums and means over parts: [kernels, 2 columns] of [kernels * nodes, columns].
  [[nodiscard]] value_id pooled(value_id per_part, std::int64_t columns);
  [[nodiscard]] value_id sum_of_parts(value_id h);

  tensor::builder b_;
  network_shape shape_;
  std::int64_t kernels_;
  std::int64_t nodes_;
  std::vector<value_id> weights_{};
  std::size_t used_ = 0;
  value_id sight_{};
  value_id pooling_{};
};

}  // namespace detail

// Inputs, float32: "weights" [weight_count], "features" [kernels, nodes, part_features], "sight" [kernels, heads,
// nodes, nodes] (0 or `unseen`), "pooling" [kernels, 2, nodes] (pool_scale and shares; 0 of what fills a kernel up),
// "target" and "weight" [kernels]. Outputs: the loss, [], and y, [kernels].
[[nodiscard]] tensor::tensor_graph attention_graph(const tensor::algebra& a, const network_shape& s,
                                                   std::int64_t kernels, std::int64_t nodes);

// The same with a third output, the gradient of the loss by the weights.
[[nodiscard]] tensor::tensor_graph trained_attention_graph(const tensor::algebra& a, const network_shape& s,
                                                           std::int64_t kernels, std::int64_t nodes);

// The forward pass of one kernel through an attention network, without padding and without preparation.

// y of attention_graph, up to rounding. f.rows must be scaled. Runs on the calling thread. Preconditions: as many
// weights as the shape has; features and edges of one kernel. Complexity: operators times hidden^2, per layer.
[[nodiscard]] float attention_forward(const network_shape& s, std::span<const float> weights,
                                      const fusion::kernel_description& k, const kernel_features& f);

// A trained attention network as a function of kernels.

// Models kernel_estimator. Regular. Equal values estimate alike, on any thread.
struct attention_estimator {
  network_shape shape{};
  bool own_times = true;  // whether it uses the measured times of single operators
  feature_scaling scaling{};
  float offset = 0;  // the mean of log(time / baseline) over its training samples
  std::vector<float> weights{};

  // Picoseconds. Complexity: as attention_forward; kernels of more than most_parts parts are the sum of their pieces.
  [[nodiscard]] picoseconds operator()(const fusion::kernel_description& k) const;

  friend bool operator==(const attention_estimator&, const attention_estimator&) = default;
};

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_ATTENTION_NETWORK)

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::learn {

UNITY_INLINE std::vector<weight_block> weight_blocks(const network_shape& s) {
  UNITY_EXPECTS(s.is_valid(), "an even number of heads that divides the number of hidden features");
  block_list all;
  all.add_dense("embedding", part_features, s.hidden);
  for (std::size_t l = 0; l < s.layers; ++l) {
    all.add(fmt::format("layer {} values", l), s.hidden, s.hidden);
    all.add(fmt::format("layer {} scores", l), s.hidden, 2 * s.heads);
    all.add_dense(fmt::format("layer {} self", l), s.hidden, s.hidden);
  }
  all.add_dense("factor", s.hidden, 1);
  all.add_dense("pools", 2 * (s.hidden + part_features), s.hidden);
  all.add_dense("second", s.hidden, s.hidden);
  all.add_dense("third", s.hidden, 1);
  return std::move(all).finish();
}

UNITY_INLINE std::size_t weight_count(const network_shape& s) { return size_of(weight_blocks(s)); }

UNITY_INLINE std::vector<float> initial_weights(const network_shape& s, std::uint64_t seed) {
  return random_weights(weight_blocks(s), seed);
}

UNITY_INLINE tensor::tensor_graph attention_graph(const tensor::algebra& a, const network_shape& s,
                                                  std::int64_t kernels, std::int64_t nodes) {
  return detail::network_writer{a, s, kernels, nodes}.write();
}

UNITY_INLINE tensor::tensor_graph trained_attention_graph(const tensor::algebra& a, const network_shape& s,
                                                          std::int64_t kernels, std::int64_t nodes) {
  const auto g = attention_graph(a, s, kernels, nodes);
  return tensor::differentiate(a, g, {g.outputs()[0], {g.results(node_id{std::size_t{0}})[0]}}).graph;
}

}  // namespace unity::learn

namespace unity::learn::detail {

UNITY_INLINE network_writer::network_writer(const tensor::algebra& a, const network_shape& s, std::int64_t kernels,
                                            std::int64_t nodes)
    : b_{a}, shape_{s}, kernels_{kernels}, nodes_{nodes} {
  const auto all = b_.input("weights", {static_cast<std::int64_t>(weight_count(s))});
  weights_ = split_blocks(b_, all, weight_blocks(s));
}

UNITY_INLINE value_id network_writer::attention_of(value_id h) {
  const auto heads = static_cast<std::int64_t>(shape_.heads);
  const auto hidden = static_cast<std::int64_t>(shape_.hidden);
  const auto values = b_.reshape(b_.matmul(h, next()), {kernels_, nodes_, heads, hidden / heads});
  const auto scores = b_.reshape(b_.matmul(h, next()), {kernels_, nodes_, 2 * heads});
  const auto halves = b_.split(b_.transpose(scores, {0, 2, 1}), 1, {heads, heads});
  const auto of_part = b_.reshape(halves[0], {kernels_, heads, nodes_, 1});
  const auto of_seen = b_.reshape(halves[1], {kernels_, heads, 1, nodes_});
  const auto score = b_.add(of_part, of_seen);
  const auto straight = b_.mul(score, number(negative_slope));
  const auto above = b_.mul(b_.relu(score), number(1 - negative_slope));
  const auto leaky = b_.add(straight, above);
  const auto attention = b_.softmax(b_.add(leaky, sight_), 3);
  const auto mixed = b_.matmul(attention, b_.transpose(values, {0, 2, 1, 3}));
  return b_.reshape(b_.transpose(mixed, {0, 2, 1, 3}), {kernels_ * nodes_, hidden});
}

UNITY_INLINE value_id network_writer::layer(value_id h) {
  const auto seen = attention_of(h);
  const auto own = dense(h);
  return b_.add(h, b_.relu(b_.add(seen, own)));
}

UNITY_INLINE value_id network_writer::pooled(value_id per_part, std::int64_t columns) {
  const auto apart = b_.reshape(per_part, {kernels_, nodes_, columns});
  return b_.reshape(b_.matmul(pooling_, apart), {kernels_, 2 * columns});
}

UNITY_INLINE value_id network_writer::sum_of_parts(value_id h) {
  const auto bounded = b_.tanh(b_.mul(dense(h), number(1 / factor_bound)));
  const auto factor = b_.apply("exp", {b_.mul(bounded, number(factor_bound))})[0];
  const auto mean = b_.split(pooled(factor, 1), 1, {1, 1})[1];
  return b_.apply("log", {mean})[0];
}

UNITY_INLINE tensor::tensor_graph network_writer::write() && {
  constexpr auto columns = static_cast<std::int64_t>(part_features);
  const auto hidden = static_cast<std::int64_t>(shape_.hidden);
  const auto features = b_.input("features", {kernels_, nodes_, columns});
  sight_ = b_.input("sight", {kernels_, static_cast<std::int64_t>(shape_.heads), nodes_, nodes_});
  pooling_ = b_.input("pooling", {kernels_, 2, nodes_});
  const auto target = b_.input("target", {kernels_});
  const auto weight = b_.input("weight", {kernels_});
  const auto rows = b_.reshape(features, {kernels_ * nodes_, columns});
  auto h = b_.relu(dense(rows));
  for (std::size_t l = 0; l < shape_.layers; ++l) {
    h = layer(h);
  }
  const auto sum = sum_of_parts(h);
  const auto of_hidden = pooled(h, hidden);
  const auto of_features = pooled(rows, columns);
  auto correction = b_.concat(1, std::array{of_hidden, of_features});
  correction = b_.relu(dense(correction));
  correction = b_.relu(dense(correction));
  correction = dense(correction);
  const auto y = b_.reshape(b_.add(sum, correction), {kernels_});
  const auto apart = b_.sub(y, target);
  const auto squares = b_.mul(weight, b_.mul(apart, apart));
  const auto loss = b_.apply("reduce_sum", {squares}, {{"axes", {0}}, {"keep_dims", 0}})[0];
  return std::move(b_).finish({loss, y});
}

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

UNITY_INLINE picoseconds attention_estimator::operator()(const fusion::kernel_description& k) const {
  if (k.parts.size() > most_parts) {
    picoseconds sum{};
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
