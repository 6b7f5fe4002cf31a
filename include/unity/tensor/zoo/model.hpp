// A model of the zoo (its name, its forms, and the sizes that each form accepts), and layers that convolutional models
// share.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::zoo {

// The sizes of a model. docs/models.md describes their meaning for each model. Sizes that a form does not have are
// `absent`.
struct sizes {
  static constexpr std::int64_t absent = -1;

  std::int64_t batch = absent;
  std::int64_t layers = absent;
  std::int64_t hidden = absent;
  std::int64_t heads = absent;
  std::int64_t seq = absent;
  std::int64_t vocab = absent;
  std::int64_t items = absent;
  std::int64_t branches = absent;
  std::int64_t image = absent;
  std::int64_t statistics = absent;  // of batch norms, one of batch_statistics
  std::int64_t attention = absent;   // how it is computed, one of attention_kernels

  friend bool operator==(const sizes&, const sizes&) = default;
};

// Where batch norms take means and variances from: weights (inference), or the current batch (training).
enum batch_statistics : std::int64_t { given_statistics, statistics_of_batch };
inline constexpr std::array<std::string_view, 2> batch_statistics_names{"given", "batch"};

// Attention as products with a softmax between them, or as one operator that keeps no scores. Source of the latter: Dao
// et al., FlashAttention, NeurIPS 2022.
enum attention_kernels : std::int64_t { attention_by_products, flash_attention };
inline constexpr std::array<std::string_view, 2> attention_kernel_names{"products", "flash"};

// A key of the text form, and the range of values that make sense.
struct key {
  std::string_view name;
  std::int64_t sizes::* member;
  std::int64_t least;
  std::int64_t most;
  std::span<const std::string_view> words{};  // not empty: names of the values, from 0
};

inline constexpr std::array<key, 11> keys{{{"batch", &sizes::batch, 1, 1 << 20},
                                          {"layers", &sizes::layers, 1, 4096},
                                          {"hidden", &sizes::hidden, 1, 1 << 20},
                                          {"heads", &sizes::heads, 1, 1 << 16},
                                          {"seq", &sizes::seq, 1, 1 << 16},
                                          {"vocab", &sizes::vocab, 1, 1 << 30},
                                           {"items", &sizes::items, 1, 1 << 30},
                                          {"branches", &sizes::branches, 0, 1},
                                          {"image", &sizes::image, 1, 1 << 14},
                                          {"statistics", &sizes::statistics, 0, 1, batch_statistics_names},
                                          {"attention", &sizes::attention, 0, 1, attention_kernel_names}}};

struct form {
  std::string_view name;
  sizes defaults;
  tensor_graph (*build)(const algebra&, const sizes&);
};

struct model {
  std::string_view name;
  std::span<const form> forms;  // the first is the default
};

// Shapes: [batch, 3, image, image].
// Throws: unity::error if the side is below `least` pixels, at which the window of some layer would not fit.
value_id image_input(builder& b, const sizes& s, std::int64_t least, const std::string& model);

// Shapes: weight [channels, input channels / groups, kernel]; no bias.
inline value_id convolution(builder& b, const std::string& name, value_id x, std::int64_t channels, extent2 kernel,
                            const conv2d_options& options = {}) {
  const auto w = b.weight(name + ".weight", {channels, b.dims(x)[1] / options.groups, kernel[0], kernel[1]});
  return b.conv2d(x, w, options);
}

inline value_id convolution_with_bias(builder& b, const std::string& name, value_id x, std::int64_t channels,
                                      extent2 kernel, const conv2d_options& options = {}) {
  const auto w = b.weight(name + ".weight", {channels, b.dims(x)[1] / options.groups, kernel[0], kernel[1]});
  return b.conv2d(x, w, b.weight(name + ".bias", {channels}), options);
}

// The mean and the (biased) variance of each channel over the whole batch. Adds up before scaling, so that in a divided
// batch the sums are partial sums, and no part needs to know the number of parts. Shapes: [n, c, h, w] -> twice [c].
std::array<value_id, 2> channel_statistics(builder& b, value_id x);

// Shapes: [n, c, h, w]. statistics: one of batch_statistics; with statistics of the batch, mean and variance are not
// weights.
value_id batch_norm(builder& b, const std::string& name, value_id x, double epsilon,
                    std::int64_t statistics = given_statistics);

// Shapes: [n, c, 1, 1] or [n, c, h, w] to [n, c h w].
inline value_id flatten(builder& b, value_id x) {
  const auto d = b.dims(x);
  return b.reshape(x, {d[0], d[1] * d[2] * d[3]});
}

inline value_id dense(builder& b, const std::string& name, value_id x, std::int64_t features) {
  const auto w = b.weight(name + ".weight", {b.dims(x)[b.dims(x).size() - 1], features});
  return b.linear(x, w, b.weight(name + ".bias", {features}));
}

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_MODEL)

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::zoo {

UNITY_INLINE value_id image_input(builder& b, const sizes& s, std::int64_t least, const std::string& model) {
  if (s.image < least) {
    throw error{"zoo", fmt::format("image={}", s.image), fmt::format("at least {} pixels a side for {}", least, model)};
  }
  return b.input("x", {s.batch, 3, s.image, s.image});
}

UNITY_INLINE std::array<value_id, 2> channel_statistics(builder& b, value_id x) {
  const auto d = b.dims(x);
  const auto share = b.fill(1 / (static_cast<double>(d[0]) * static_cast<double>(d[2]) * static_cast<double>(d[3])), {},
                            b.type(x).element);
  const auto mean_of = [&](value_id v) {
    return b.mul(b.apply("reduce_sum", {v}, {{"axes", {0, 2, 3}}, {"keep_dims", 0}})[0], share);
  };
  const auto mean = mean_of(x);
  const auto centred = b.sub(x, b.reshape(mean, {d[1], 1, 1}));
  return {mean, mean_of(b.mul(centred, centred))};
}

UNITY_INLINE value_id batch_norm(builder& b, const std::string& name, value_id x, double epsilon,
                                 std::int64_t statistics) {
  const shape channels{b.dims(x)[1]};
  const auto scale = b.weight(name + ".weight", channels);
  const auto bias = b.weight(name + ".bias", channels);
  if (statistics == statistics_of_batch) {
    const auto [mean, variance] = channel_statistics(b, x);
    return b.batch_norm(x, scale, bias, mean, variance, epsilon);
  }
  const auto mean = b.weight(name + ".running_mean", channels);
  return b.batch_norm(x, scale, bias, mean, b.weight(name + ".running_var", channels), epsilon);
}

}  // namespace unity::tensor::zoo

#endif
