// Inception-v3.
// Source: Szegedy et al., CVPR'16; the ae form as in Unity's experiments (Unity (OSDI 2022) section 6.1).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// The blocks are the same in both forms; the layers differ.
class inception_blocks {
 public:
  inception_blocks(builder& b, const sizes& s, bool faithful) noexcept
      : b_{b}, statistics_{s.statistics}, faithful_{faithful} {}

  // Later layers of the ae form have no activations: only those up to the last A block do.
  void drop_activations() noexcept { activation_ = "none"; }

  // faithful: convolution, batch norm, relu. ae: convolution with bias and, in the first blocks, relu inside.
  value_id layer(value_id x, std::int64_t channels, extent2 kernel, conv2d_options how = {});
  // Pads so that a kernel of odd extents preserves the size.
  value_id same(value_id x, std::int64_t channels, extent2 kernel) {
    const auto [h, w] = kernel;
    return layer(x, channels, kernel, {.pads = {h / 2, w / 2, h / 2, w / 2}});
  }
  value_id halving(value_id x, std::int64_t channels) { return layer(x, channels, {3, 3}, {.stride = {2, 2}}); }
  value_id pool(value_id x) { return b_.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}}); }
  value_id averaged(value_id x, std::int64_t channels) {
    return same(b_.average_pool(x, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}), channels, {1, 1});
  }

  value_id stem(value_id x);
  value_id a(value_id x, std::int64_t pooled);
  value_id b(value_id x);
  value_id c(value_id x, std::int64_t channels);
  value_id d(value_id x);
  value_id e(value_id x);

 private:
  builder& b_;
  std::int64_t statistics_;
  bool faithful_;
  std::string_view activation_ = "relu";
  int layers_ = 0;
};

tensor_graph inception(const algebra& operators, const sizes& s, bool faithful);

}  // namespace detail

// Throws: unity::error for images smaller than 75 x 75.
[[nodiscard]] inline tensor_graph inception_v3_faithful(const algebra& operators, const sizes& s) {
  return detail::inception(operators, s, true);
}
[[nodiscard]] inline tensor_graph inception_v3_ae(const algebra& operators, const sizes& s) {
  return detail::inception(operators, s, false);
}

inline constexpr std::array<form, 2> inception_v3_forms{{
    {"faithful", {.batch = 64, .image = 299, .statistics = given_statistics}, inception_v3_faithful},
    {"ae", {.batch = 64, .image = 299}, inception_v3_ae},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_INCEPTION)

#include <string>

#include <fmt/core.h>

#include <unity/tensor/zoo/convolution.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id inception_blocks::layer(value_id x, std::int64_t channels, extent2 kernel, conv2d_options how) {
  const auto name = fmt::format("conv{}", ++layers_);
  if (faithful_) {
    x = convolution(b_, name, x, channels, kernel, how);
    return b_.relu(batch_norm(b_, fmt::format("bn{}", layers_), x, 1e-3, statistics_));
  }
  how.activation = activation_;
  return convolution_with_bias(b_, name, x, channels, kernel, how);
}

UNITY_INLINE value_id inception_blocks::stem(value_id x) {
  x = same(layer(halving(x, 32), 32, {3, 3}), 64, {3, 3});
  x = same(pool(x), 80, {1, 1});
  // The published grid is 71 x 71 here; the artifact pads, so its later grids are 36 x 36 instead of 35 x 35.
  return pool(faithful_ ? layer(x, 192, {3, 3}) : same(x, 192, {3, 3}));
}

UNITY_INLINE value_id inception_blocks::a(value_id x, std::int64_t pooled) {
  const auto one = same(x, 64, {1, 1});
  const auto five = same(same(x, 48, {1, 1}), 64, {5, 5});
  const auto three = same(same(same(x, 64, {1, 1}), 96, {3, 3}), 96, {3, 3});
  return b_.concat(1, std::array{one, five, three, averaged(x, pooled)});
}

UNITY_INLINE value_id inception_blocks::b(value_id x) {
  const auto three = halving(x, 384);
  const auto twice = halving(same(same(x, 64, {1, 1}), 96, {3, 3}), 96);
  return b_.concat(1, std::array{three, twice, pool(x)});
}

UNITY_INLINE value_id inception_blocks::c(value_id x, std::int64_t channels) {
  const auto one = same(x, 192, {1, 1});
  const auto seven = same(same(same(x, channels, {1, 1}), channels, {1, 7}), 192, {7, 1});
  auto twice = same(same(x, channels, {1, 1}), channels, {7, 1});
  twice = same(same(twice, channels, {1, 7}), channels, {7, 1});
  twice = same(twice, 192, {1, 7});
  return b_.concat(1, std::array{one, seven, twice, averaged(x, 192)});
}

UNITY_INLINE value_id inception_blocks::d(value_id x) {
  const auto three = halving(same(x, 192, {1, 1}), 320);
  const auto seven = halving(same(same(same(x, 192, {1, 1}), 192, {1, 7}), 192, {7, 1}), 192);
  return b_.concat(1, std::array{three, seven, pool(x)});
}

UNITY_INLINE value_id inception_blocks::e(value_id x) {
  const auto one = same(x, 320, {1, 1});
  const auto three = same(x, 384, {1, 1});
  const std::array wide{same(three, 384, {1, 3}), same(three, 384, {3, 1})};
  const auto twice = same(same(x, 448, {1, 1}), 384, {3, 3});
  const std::array wider{same(twice, 384, {1, 3}), same(twice, 384, {3, 1})};
  return b_.concat(1, std::array{one, wide[0], wide[1], wider[0], wider[1], averaged(x, 192)});
}

UNITY_INLINE tensor_graph inception(const algebra& operators, const sizes& s, bool faithful) {
  builder b{operators};
  inception_blocks blocks{b, s, faithful};
  auto x = blocks.stem(image_input(b, s, 75, "Inception-v3"));
  x = blocks.a(blocks.a(blocks.a(x, 32), 64), 64);
  blocks.drop_activations();
  x = blocks.c(blocks.c(blocks.b(x), 128), 160);
  x = blocks.d(blocks.c(blocks.c(x, 160), 192));
  x = blocks.e(blocks.e(x));
  x = flatten(b, b.average_pool(x, {.kernel = {b.dims(x)[2], b.dims(x)[3]}}));
  x = dense(b, "fc", x, faithful ? 1000 : 10);
  return std::move(b).finish({faithful ? x : b.softmax(x, 1)});
}

}  // namespace unity::tensor::zoo::detail

#endif
