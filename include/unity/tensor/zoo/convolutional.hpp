// Convolutional networks: AlexNet, LeNet, VGG, SqueezeNet, DenseNet, Inception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// AlexNet and LeNet.
// Sources: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014; LeCun et al., Proc.
// IEEE 1998, figure 2; as in FlexFlow's experiments (Jia's dissertation (2020) table 3.3, section 3.7.5).

// 5 convolutions, 3 pools, 3 dense layers and a softmax: the 12 layers of table 3.3.
[[nodiscard]] tensor_graph alexnet(const algebra& operators, const sizes& s);

// LeNet-5 with average pooling as its subsampling layers.
[[nodiscard]] tensor_graph lenet(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> alexnet_forms{{{"faithful", {.batch = 256}, alexnet}}};
inline constexpr std::array<form, 1> lenet_forms{{{"faithful", {.batch = 64}, lenet}}};

// VGG-16 and VGG-19.
// Source: Simonyan and Zisserman, ICLR'15, table 1, columns D and E.

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

// SqueezeNet 1.1.
// Source: Iandola et al., arXiv:1602.07360 (2016), with the sizes that its authors released as 1.1.

namespace detail {

class squeezenet_layers {
 public:
  explicit squeezenet_layers(builder& b) noexcept : b_{b} {}

  value_id activated(const std::string& name, value_id x, std::int64_t channels, extent2 kernel,
                     const conv2d_options& options = {}) {
    return b_.relu(convolution_with_bias(b_, name, x, channels, kernel, options));
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

// DenseNet-121.
// Source: Huang et al., CVPR'17, table 1 (growth 32, bottlenecks, compression 0.5).

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

// Inception-v3.
// Source: Szegedy et al., CVPR'16; the ae form as in Unity's experiments (Unity (OSDI 2022) section 6.1).

namespace detail {

// The blocks are the same in both forms; the layers differ.
class inception_blocks {
 public:
  inception_blocks(builder& b, const sizes& s, bool faithful) noexcept
      : b_{b}, statistics_{s.statistics}, faithful_{faithful} {}

  // Later layers of the ae form have no activations: only those up to the last A block do.
  void drop_activations() noexcept { activation_ = "none"; }

  // faithful: convolution, batch norm, relu. ae: convolution with bias and, in the first blocks, relu inside.
  value_id layer(value_id x, std::int64_t channels, extent2 kernel, conv2d_options options = {});
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_CONVOLUTIONAL)

#include <vector>

#include <fmt/core.h>

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph alexnet(const algebra& operators, const sizes& s) {
  const pool_options pool{.kernel = {3, 3}, .stride = {2, 2}};
  builder b{operators};
  auto x = b.input("x", {s.batch, 3, 224, 224});
  const auto layer = [&](const char* name, std::int64_t channels, extent2 kernel, const conv2d_options& options) {
    x = b.relu(convolution_with_bias(b, name, x, channels, kernel, options));
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

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id inception_blocks::layer(value_id x, std::int64_t channels, extent2 kernel,
                                              conv2d_options options) {
  const auto name = fmt::format("conv{}", ++layers_);
  if (faithful_) {
    x = convolution(b_, name, x, channels, kernel, options);
    return b_.relu(batch_norm(b_, fmt::format("bn{}", layers_), x, 1e-3, statistics_));
  }
  options.activation = activation_;
  return convolution_with_bias(b_, name, x, channels, kernel, options);
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
