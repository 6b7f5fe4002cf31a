// ResNet-50, ResNet-101 and ResNeXt-50 (32x4d).
// Sources: He et al., CVPR'16; Xie et al., CVPR'17; the taso and ae forms as in TASO's and Unity's experiments (Jia's
// dissertation (2020) section 2.9.1, Unity (OSDI 2022) section 6.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// The forms and the networks share the order of the blocks. A block is 1x1 to `middle` channels, 3x3 in `groups`
// groups, 1x1 to `out`.
struct residual_network {
  std::array<std::int64_t, 4> middle;
  std::int64_t out_per_middle;
  std::int64_t groups;
  bool branches;  // grouped convolutions are written as separate ones
  std::array<int, 4> depths{3, 4, 6, 3};
  std::int64_t statistics = given_statistics;
};

inline constexpr residual_network resnet50_network{{64, 128, 256, 512}, 4, 1, false};
inline constexpr residual_network resnet101_network{{64, 128, 256, 512}, 4, 1, false, {3, 4, 23, 3}};

[[nodiscard]] inline residual_network resnext50_network(const sizes& s) {
  return {{128, 256, 512, 1024}, 2, 32, s.branches == 1};
}

// The published number of channels of the stem, from which those of the blocks follow.
inline constexpr std::int64_t residual_width = 64;
inline constexpr std::int64_t least_residual_image = 32;

// Throws: unity::error if the groups do not divide the channels of a block.
[[nodiscard]] residual_network of_width(residual_network net, const sizes& s);

struct residual_block {
  std::string name;
  std::int64_t middle;
  std::int64_t out;
  std::int64_t stride;
};

// Calls block(x, shape of the block) for each block in turn.
template <class Block>
value_id residual_stages(const residual_network& net, value_id x, Block block) {
  for (std::size_t stage = 0; stage < net.middle.size(); ++stage) {
    for (int i = 0; i < net.depths[stage]; ++i) {
      const auto name = fmt::format("layer{}.{}", stage + 1, i);
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = block(x, residual_block{name, net.middle[stage], net.middle[stage] * net.out_per_middle, stride});
    }
  }
  return x;
}

// A convolution in `how.groups` groups, written as split, one convolution per group, and concat.
// Source: Jia's dissertation (2020) figure 2.9a.
value_id branched(builder& b, const std::string& name, value_id x, std::int64_t channels, extent2 kernel,
                  conv2d_options how, bool bias);

// The 3x3 convolution of a block.
value_id inner(builder& b, const residual_network& net, const residual_block& at, value_id x, conv2d_options how,
               bool bias = false);

[[nodiscard]] inline bool needs_projection(const builder& b, value_id x, const residual_block& at) {
  return at.stride > 1 || b.dims(x)[1] != at.out;
}

value_id faithful_block(builder& b, const residual_network& net, value_id x, const residual_block& at);

value_id taso_block(builder& b, const residual_network& net, value_id x, const residual_block& at);

value_id ae_block(builder& b, const residual_network& net, value_id x, const residual_block& at);

tensor_graph residual_faithful(const algebra& operators, const sizes& s, const residual_network& published);

tensor_graph residual_taso(const algebra& operators, const residual_network& net, const shape& input, bool stem);

}  // namespace detail

[[nodiscard]] inline tensor_graph resnet50_faithful(const algebra& operators, const sizes& s) {
  return detail::residual_faithful(operators, s, detail::resnet50_network);
}
[[nodiscard]] inline tensor_graph resnet101_faithful(const algebra& operators, const sizes& s) {
  return detail::residual_faithful(operators, s, detail::resnet101_network);
}
[[nodiscard]] inline tensor_graph resnext50_faithful(const algebra& operators, const sizes& s) {
  return detail::residual_faithful(operators, s, detail::resnext50_network(s));
}

// Starts after the stem.
[[nodiscard]] inline tensor_graph resnet50_taso(const algebra& operators, const sizes& s) {
  return detail::residual_taso(operators, detail::resnet50_network, {s.batch, 64, 56, 56}, false);
}
[[nodiscard]] inline tensor_graph resnext50_taso(const algebra& operators, const sizes& s) {
  return detail::residual_taso(operators, detail::resnext50_network(s), {s.batch, 3, 224, 224}, true);
}

// A chain: no batch norms and no residual adds.
[[nodiscard]] tensor_graph resnext50_ae(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 2> resnet50_forms{{
    {"faithful", {.batch = 1, .hidden = 64, .image = 224, .statistics = given_statistics}, resnet50_faithful},
    {"taso", {.batch = 1}, resnet50_taso},
}};
inline constexpr std::array<form, 1> resnet101_forms{
    {{"faithful", {.batch = 64, .hidden = 64, .image = 224, .statistics = given_statistics}, resnet101_faithful}}};
inline constexpr std::array<form, 3> resnext50_forms{{
    {"faithful",
     {.batch = 64, .hidden = 64, .branches = 0, .image = 224, .statistics = given_statistics},
     resnext50_faithful},
    {"ae", {.batch = 16, .hidden = 64, .branches = 0, .image = 224}, resnext50_ae},
    {"taso", {.batch = 1, .branches = 0}, resnext50_taso},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_RESNET)

#include <algorithm>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/tensor/zoo/convolution.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE residual_network of_width(residual_network net, const sizes& s) {
  net.statistics = s.statistics;
  for (auto& m : net.middle) {
    m = m * s.hidden / residual_width;
  }
  if (s.hidden % (residual_width / 16) != 0 || net.middle[0] % net.groups != 0) {
    const auto step = std::max(residual_width / 16, net.groups / 2);
    throw error{"zoo", fmt::format("hidden={}", s.hidden),
                fmt::format("a multiple of {}, the channels of the stem", step)};
  }
  return net;
}

UNITY_INLINE value_id branched(builder& b, const std::string& name, value_id x, std::int64_t channels, extent2 kernel,
                               conv2d_options how, bool bias) {
  const auto groups = std::exchange(how.groups, 1);
  const auto parts = b.split(x, 1, shape(static_cast<std::size_t>(groups), b.dims(x)[1] / groups));
  std::vector<value_id> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto part_name = fmt::format("{}.{}", name, i);
    const auto make = bias ? convolution_with_bias : convolution;
    results.push_back(make(b, part_name, parts[i], channels / groups, kernel, how));
  }
  return b.concat(1, results);
}

UNITY_INLINE value_id inner(builder& b, const residual_network& net, const residual_block& at, value_id x,
                            conv2d_options how, bool bias) {
  how.stride = {at.stride, at.stride};
  how.groups = net.groups;
  const auto name = at.name + ".conv2";
  if (net.branches) {
    return branched(b, name, x, at.middle, {3, 3}, how, bias);
  }
  return (bias ? convolution_with_bias : convolution)(b, name, x, at.middle, {3, 3}, how);
}

UNITY_INLINE value_id faithful_block(builder& b, const residual_network& net, value_id x, const residual_block& at) {
  constexpr double epsilon = 1e-5;
  auto y = convolution(b, at.name + ".conv1", x, at.middle, {1, 1});
  y = b.relu(batch_norm(b, at.name + ".bn1", y, epsilon, net.statistics));
  y = inner(b, net, at, y, {.pads = {1, 1, 1, 1}});
  y = b.relu(batch_norm(b, at.name + ".bn2", y, epsilon, net.statistics));
  y = batch_norm(b, at.name + ".bn3", convolution(b, at.name + ".conv3", y, at.out, {1, 1}), epsilon, net.statistics);
  if (needs_projection(b, x, at)) {
    x = convolution(b, at.name + ".downsample.0", x, at.out, {1, 1}, {.stride = {at.stride, at.stride}});
    x = batch_norm(b, at.name + ".downsample.1", x, epsilon, net.statistics);
  }
  return b.relu(b.add(y, x));
}

UNITY_INLINE value_id taso_block(builder& b, const residual_network& net, value_id x, const residual_block& at) {
  const conv2d_options same{.padding = "same"};
  const conv2d_options same_relu{.padding = "same", .activation = "relu"};
  auto y = convolution(b, at.name + ".conv1", x, at.middle, {1, 1}, same_relu);
  y = inner(b, net, at, y, same_relu);
  y = convolution(b, at.name + ".conv3", y, at.out, {1, 1}, same);
  if (needs_projection(b, x, at)) {
    x = convolution(b, at.name + ".shortcut", x, at.out, {1, 1},
                    {.stride = {at.stride, at.stride}, .padding = "same", .activation = "relu"});
  }
  return b.relu(b.add(x, y));
}

UNITY_INLINE value_id ae_block(builder& b, const residual_network& net, value_id x, const residual_block& at) {
  x = convolution_with_bias(b, at.name + ".conv1", x, at.middle, {1, 1}, {.activation = "relu"});
  x = inner(b, net, at, x, {.pads = {1, 1, 1, 1}, .activation = "relu"}, true);
  return convolution_with_bias(b, at.name + ".conv3", x, at.out, {1, 1});
}

UNITY_INLINE tensor_graph residual_faithful(const algebra& operators, const sizes& s,
                                            const residual_network& published) {
  const auto net = of_width(published, s);
  builder b{operators};
  auto x = image_input(b, s, least_residual_image, "ResNet");
  x = convolution(b, "conv1", x, s.hidden, {7, 7}, {.stride = {2, 2}, .pads = {3, 3, 3, 3}});
  x = b.relu(batch_norm(b, "bn1", x, 1e-5, s.statistics));
  x = b.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}});
  x = residual_stages(net, x, [&](value_id v, const residual_block& at) { return faithful_block(b, net, v, at); });
  x = flatten(b, b.global_average_pool(x));
  return std::move(b).finish({dense(b, "fc", x, 1000)});
}

UNITY_INLINE tensor_graph residual_taso(const algebra& operators, const residual_network& net, const shape& input,
                                        bool stem) {
  builder b{operators};
  auto x = b.input("x", input);
  if (stem) {
    x = convolution(b, "conv1", x, 64, {7, 7}, {.stride = {2, 2}, .padding = "same", .activation = "relu"});
    x = b.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = "same"});
  }
  x = residual_stages(net, x, [&](value_id v, const residual_block& at) { return taso_block(b, net, v, at); });
  return std::move(b).finish({x});
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph resnext50_ae(const algebra& operators, const sizes& s) {
  const auto net = detail::of_width(detail::resnext50_network(s), s);
  builder b{operators};
  auto x = image_input(b, s, detail::least_residual_image, "ResNeXt");
  x = convolution_with_bias(b, "conv1", x, s.hidden, {7, 7},
                            {.stride = {2, 2}, .pads = {3, 3, 3, 3}, .activation = "relu"});
  x = b.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .pads = {1, 1, 1, 1}});
  x = detail::residual_stages(
      net, x, [&](value_id v, const detail::residual_block& at) { return detail::ae_block(b, net, v, at); });
  x = flatten(b, b.global_average_pool(b.relu(x)));
  return std::move(b).finish({b.softmax(dense(b, "fc", x, 1000), 1)});
}

}  // namespace unity::tensor::zoo

#endif
