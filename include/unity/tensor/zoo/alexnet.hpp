// AlexNet and LeNet.
// Sources: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014; LeCun et al., Proc.
// IEEE 1998, figure 2; as in FlexFlow's experiments (Jia's dissertation (2020) table 3.3, section 3.7.5).
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// 5 convolutions, 3 pools, 3 dense layers and a softmax: the 12 layers of table 3.3.
[[nodiscard]] tensor_graph alexnet(const algebra& operators, const sizes& s);

// LeNet-5 with average pooling as its subsampling layers.
[[nodiscard]] tensor_graph lenet(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> alexnet_forms{{{"faithful", {.batch = 256}, alexnet}}};
inline constexpr std::array<form, 1> lenet_forms{{{"faithful", {.batch = 64}, lenet}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_ALEXNET)

#include <string>

#include <unity/core/id.hpp>
#include <unity/tensor/zoo/convolution.hpp>

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph alexnet(const algebra& operators, const sizes& s) {
  const pool_options pool{.kernel = {3, 3}, .stride = {2, 2}};
  builder b{operators};
  auto x = b.input("x", {s.batch, 3, 224, 224});
  const auto layer = [&](const char* name, std::int64_t channels, extent2 kernel, const conv2d_options& how) {
    x = b.relu(convolution_with_bias(b, name, x, channels, kernel, how));
  };
  layer("conv1", 64, {11, 11}, {.stride = {4, 4}, .pads = {2, 2, 2, 2}});
  x = b.max_pool(x, pool);
  layer("conv2", 192, {5, 5}, {.pads = {2, 2, 2, 2}});
  x = b.max_pool(x, pool);
  layer("conv3", 384, {3, 3}, {.pads = {1, 1, 1, 1}});
  layer("conv4", 256, {3, 3}, {.pads = {1, 1, 1, 1}});
  layer("conv5", 256, {3, 3}, {.pads = {1, 1, 1, 1}});
  x = flatten(b, b.max_pool(x, pool));
  x = b.relu(dense(b, "fc1", x, 4096));
  x = b.relu(dense(b, "fc2", x, 4096));
  return std::move(b).finish({b.softmax(dense(b, "fc3", x, 1000), 1)});
}

UNITY_INLINE tensor_graph lenet(const algebra& operators, const sizes& s) {
  const pool_options pool{.kernel = {2, 2}, .stride = {2, 2}};
  builder b{operators};
  auto x = b.input("x", {s.batch, 1, 32, 32});
  x = b.average_pool(b.tanh(convolution_with_bias(b, "c1", x, 6, {5, 5})), pool);
  x = b.average_pool(b.tanh(convolution_with_bias(b, "c3", x, 16, {5, 5})), pool);
  x = b.tanh(dense(b, "c5", flatten(b, x), 120));
  x = b.tanh(dense(b, "f6", x, 84));
  return std::move(b).finish({b.softmax(dense(b, "output", x, 10), 1)});
}

}  // namespace unity::tensor::zoo

#endif
