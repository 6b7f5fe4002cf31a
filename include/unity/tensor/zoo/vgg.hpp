// VGG-16 and VGG-19.
// Source: Simonyan and Zisserman, ICLR'15, table 1, columns D and E.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// `depths`: the number of 3x3 convolutions in each of the five stages.
[[nodiscard]] tensor_graph vgg(const algebra& operators, const sizes& s, const std::array<int, 5>& depths);

[[nodiscard]] inline tensor_graph vgg16(const algebra& operators, const sizes& s) {
  return vgg(operators, s, {2, 2, 3, 3, 3});
}
[[nodiscard]] inline tensor_graph vgg19(const algebra& operators, const sizes& s) {
  return vgg(operators, s, {2, 2, 4, 4, 4});
}

inline constexpr std::array<form, 1> vgg16_forms{{{"faithful", {.batch = 1}, vgg16}}};
inline constexpr std::array<form, 1> vgg19_forms{{{"faithful", {.batch = 1}, vgg19}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_VGG)

#include <string>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo/convolution.hpp>

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph vgg(const algebra& operators, const sizes& s, const std::array<int, 5>& depths) {
  constexpr std::array<std::int64_t, 5> channels{64, 128, 256, 512, 512};
  builder b{operators};
  auto x = b.input("x", {s.batch, 3, 224, 224});
  int made = 0;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    for (int i = 0; i < depths[stage]; ++i) {
      const auto name = fmt::format("conv{}", ++made);
      x = b.relu(convolution_with_bias(b, name, x, channels[stage], {3, 3}, {.pads = {1, 1, 1, 1}}));
    }
    x = b.max_pool(x, {.kernel = {2, 2}, .stride = {2, 2}});
  }
  x = b.relu(dense(b, "fc1", flatten(b, x), 4096));
  x = b.relu(dense(b, "fc2", x, 4096));
  return std::move(b).finish({dense(b, "fc3", x, 1000)});
}

}  // namespace unity::tensor::zoo

#endif
