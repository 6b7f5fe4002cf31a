// SqueezeNet 1.1.
// Source: Iandola et al., arXiv:1602.07360 (2016), with the sizes that its authors released as 1.1.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/convolution.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

class squeezenet_layers {
 public:
  explicit squeezenet_layers(builder& b) noexcept : b_{b} {}

  value_id activated(const std::string& name, value_id x, std::int64_t channels, extent2 kernel,
                     const conv2d_options& how = {}) {
    return b_.relu(convolution_with_bias(b_, name, x, channels, kernel, how));
  }
  // Rounds sizes up.
  value_id pool(value_id x) { return b_.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}); }

  // 1x1 to `squeezed` channels; then 1x1 and 3x3 in parallel, each to four times as many.
  value_id fire(value_id x, std::int64_t squeezed);

 private:
  builder& b_;
  int fires_ = 1;  // the first is called fire2 in the paper
};

}  // namespace detail

// Without the dropout before the last convolution, which has a relu like all others.
// Throws: unity::error for images smaller than 25 x 25.
[[nodiscard]] tensor_graph squeezenet1_1(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> squeezenet1_1_forms{{{"faithful", {.batch = 1, .image = 224}, squeezenet1_1}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_SQUEEZENET)

#include <fmt/core.h>

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id squeezenet_layers::fire(value_id x, std::int64_t squeezed) {
  const auto name = fmt::format("fire{}", ++fires_);
  x = activated(name + ".squeeze", x, squeezed, {1, 1});
  const auto one = activated(name + ".expand1x1", x, 4 * squeezed, {1, 1});
  const auto three = activated(name + ".expand3x3", x, 4 * squeezed, {3, 3}, {.pads = {1, 1, 1, 1}});
  return b_.concat(1, std::array{one, three});
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph squeezenet1_1(const algebra& operators, const sizes& s) {
  builder b{operators};
  detail::squeezenet_layers layers{b};
  auto x = image_input(b, s, 25, "SqueezeNet 1.1");
  x = layers.pool(layers.activated("conv1", x, 64, {3, 3}, {.stride = {2, 2}}));
  x = layers.pool(layers.fire(layers.fire(x, 16), 16));
  x = layers.pool(layers.fire(layers.fire(x, 32), 32));
  x = layers.fire(layers.fire(x, 48), 48);
  x = layers.fire(layers.fire(x, 64), 64);
  x = b.global_average_pool(layers.activated("conv10", x, 1000, {1, 1}));
  return std::move(b).finish({flatten(b, x)});
}

}  // namespace unity::tensor::zoo

#endif
