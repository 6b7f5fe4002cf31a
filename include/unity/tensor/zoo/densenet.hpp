// DenseNet-121.
// Source: Huang et al., CVPR'17, table 1 (growth 32, bottlenecks, compression 0.5).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/convolution.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// Precedes a convolution instead of following it.
inline value_id norm_relu(builder& b, const sizes& s, const std::string& name, value_id x) {
  return b.relu(batch_norm(b, name, x, 1e-5, s.statistics));
}

value_id densenet_layer(builder& b, const sizes& s, const std::string& name, value_id x);

// Each layer reads the block's input and the results of all earlier layers; so does what follows the block.
value_id densenet_block(builder& b, const sizes& s, const std::string& name, value_id x, int layers);

// Halves channels, height and width.
inline value_id densenet_transition(builder& b, const sizes& s, const std::string& name, value_id x) {
  x = convolution(b, name + ".conv", norm_relu(b, s, name + ".norm", x), b.dims(x)[1] / 2, {1, 1});
  return b.average_pool(x, {.kernel = {2, 2}, .stride = {2, 2}});
}

}  // namespace detail

// Throws: unity::error for images smaller than 29 x 29.
[[nodiscard]] tensor_graph densenet121(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> densenet121_forms{
    {{"faithful", {.batch = 1, .image = 224, .statistics = given_statistics}, densenet121}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_DENSENET)

#include <vector>

#include <fmt/core.h>

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id densenet_layer(builder& b, const sizes& s, const std::string& name, value_id x) {
  constexpr std::int64_t growth = 32;
  x = convolution(b, name + ".conv1", norm_relu(b, s, name + ".norm1", x), 4 * growth, {1, 1});
  return convolution(b, name + ".conv2", norm_relu(b, s, name + ".norm2", x), growth, {3, 3}, {.pads = {1, 1, 1, 1}});
}

UNITY_INLINE value_id densenet_block(builder& b, const sizes& s, const std::string& name, value_id x, int layers) {
  std::vector<value_id> made{x};
  for (int i = 1; i <= layers; ++i) {
    made.push_back(densenet_layer(b, s, fmt::format("{}.denselayer{}", name, i), x));
    x = b.concat(1, made);
  }
  return x;
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph densenet121(const algebra& operators, const sizes& s) {
  constexpr std::array blocks{6, 12, 24, 16};
  builder b{operators};
  auto x = image_input(b, s, 29, "DenseNet-121");
  x = convolution(b, "conv0", x, 64, {7, 7}, {.stride = {2, 2}, .pads = {3, 3, 3, 3}});
  x = detail::norm_relu(b, s, "norm0", x);
  x = b.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) {
      x = detail::densenet_transition(b, s, fmt::format("transition{}", i), x);
    }
    x = detail::densenet_block(b, s, fmt::format("denseblock{}", i + 1), x, blocks[i]);
  }
  x = flatten(b, b.global_average_pool(detail::norm_relu(b, s, "norm5", x)));
  return std::move(b).finish({dense(b, "classifier", x, 1000)});
}

}  // namespace unity::tensor::zoo

#endif
