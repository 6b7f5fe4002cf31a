// Convolutional networks of repeated cells: ResNet, ResNeXt and NasNet-A.
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
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// ResNet-50, ResNet-101 and ResNeXt-50 (32x4d).
// Sources: He et al., CVPR'16; Xie et al., CVPR'17; the taso and ae forms as in TASO's and Unity's experiments (Jia's
// dissertation (2020) section 2.9.1, Unity (OSDI 2022) section 6.1).

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
                  conv2d_options options, bool bias);

// The 3x3 convolution of a block.
value_id inner(builder& b, const residual_network& net, const residual_block& at, value_id x, conv2d_options options,
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

// NasNet-A.
// Source: Zoph et al., CVPR'18, figure 4 and the network (4 @ 1056) of its table 3; the taso form as in TASO's
// experiments (Jia's dissertation (2020) section 2.9.1).

namespace detail {

// The wiring of reduction cells, shared by the forms. `left` and `right` are the squeezed inputs of the cell (the older
// and the newer); separable(number, x, kernel, stride) adds a separable convolution. Results: the five sums.
template <class Separable>
std::array<value_id, 5> nasnet_reduction(builder& b, value_id left, value_id right, bool include_pad,
                                         Separable separable) {
  const pool_options halving{.kernel = {3, 3}, .stride = {2, 2}, .padding = "same"};
  const pool_options keeping{.kernel = {3, 3}, .padding = "same"};
  const std::array first{separable(0, left, 7, 2), separable(1, right, 5, 2)};
  const auto o0 = b.add(first[0], first[1]);
  const std::array second{b.max_pool(right, halving), separable(2, left, 7, 2)};
  const auto o1 = b.add(second[0], second[1]);
  const std::array third{b.average_pool(right, halving, include_pad), separable(3, left, 5, 2)};
  const auto o2 = b.add(third[0], third[1]);
  const std::array fourth{b.max_pool(right, halving), separable(4, o0, 3, 1)};
  const auto o3 = b.add(fourth[0], fourth[1]);
  return {o0, o1, o2, o3, b.add(b.average_pool(o0, keeping, include_pad), o1)};
}

// Cells as TASO's example builds them: relu inside the squeezing convolutions, each separable convolution applied once,
// no batch norm.
class nasnet_taso_cells {
 public:
  explicit nasnet_taso_cells(builder& b) noexcept : b_{b} {}

  value_id normal(const std::string& name, value_id older, value_id newer, std::int64_t width);
  value_id reduction(const std::string& name, value_id older, value_id newer, std::int64_t width);

 private:
  value_id squeeze(const std::string& name, value_id x, std::int64_t width) {
    return convolution(b_, name, x, width, {1, 1}, {.padding = "same", .activation = "relu"});
  }
  value_id separable(const std::string& cell, int number, value_id x, std::int64_t k, std::int64_t stride);

  builder& b_;
};

// The published cells.
class nasnet_cells {
 public:
  nasnet_cells(builder& b, const sizes& s) noexcept : b_{b}, statistics_{s.statistics} {}

  value_id normed(const std::string& name, value_id x) { return batch_norm(b_, name, x, 1e-3, statistics_); }

  value_id normal(const std::string& name, value_id older, value_id newer, std::int64_t width);
  value_id reduction(const std::string& name, value_id older, value_id newer, std::int64_t width) {
    const auto left = adjusted(name + ".left", older, newer, width);
    return reduction_of(name, left, squeezed(name + ".right", newer, width), width);
  }
  // The very first cell reads one value as both inputs; as the older input it is not squeezed.
  value_id first_reduction(const std::string& name, value_id x, std::int64_t width) {
    return reduction_of(name, x, squeezed(name + ".right", x, width), width);
  }

 private:
  // The result excludes the first sum, which the others read.
  value_id reduction_of(const std::string& name, value_id left, value_id right, std::int64_t width);
  value_id squeezed(const std::string& name, value_id x, std::int64_t width) {
    return normed(name + ".norm", convolution(b_, name + ".conv", b_.relu(x), width, {1, 1}));
  }
  // The older input, with the given width and the size of the newer input.
  value_id adjusted(const std::string& name, value_id older, value_id newer, std::int64_t width) {
    return b_.dims(older)[2] == b_.dims(newer)[2] ? squeezed(name, older, width) : halved(name, older, width);
  }
  // Factorized reduction: half of the channels from the even positions, the other half from the odd ones.
  value_id halved(const std::string& name, value_id x, std::int64_t width);
  // Applies a separable convolution twice; the first application has the stride and changes the width.
  value_id separable(const std::string& cell, int number, value_id x, std::int64_t width, std::int64_t k,
                     std::int64_t stride);

  builder& b_;
  std::int64_t statistics_;
};

}  // namespace detail

// Three groups, each with `layers` normal cells and a reduction cell.
[[nodiscard]] tensor_graph nasnet_a_taso(const algebra& operators, const sizes& s);

// Two reducing stem cells, then three stages of `layers` normal cells with reduction cells between.
[[nodiscard]] tensor_graph nasnet_a_faithful(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 2> nasnet_a_forms{{
    {"faithful", {.batch = 1, .layers = 4, .statistics = given_statistics}, nasnet_a_faithful},
    {"taso", {.batch = 1, .layers = 5}, nasnet_a_taso},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_RESNET)

#include <algorithm>
#include <vector>

#include <unity/core/error.hpp>

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
                               conv2d_options options, bool bias) {
  const auto groups = std::exchange(options.groups, 1);
  const auto parts = b.split(x, 1, shape(static_cast<std::size_t>(groups), b.dims(x)[1] / groups));
  std::vector<value_id> results;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto part_name = fmt::format("{}.{}", name, i);
    const auto make = bias ? convolution_with_bias : convolution;
    results.push_back(make(b, part_name, parts[i], channels / groups, kernel, options));
  }
  return b.concat(1, results);
}

UNITY_INLINE value_id inner(builder& b, const residual_network& net, const residual_block& at, value_id x,
                            conv2d_options options, bool bias) {
  options.stride = {at.stride, at.stride};
  options.groups = net.groups;
  const auto name = at.name + ".conv2";
  if (net.branches) {
    return branched(b, name, x, at.middle, {3, 3}, options, bias);
  }
  return (bias ? convolution_with_bias : convolution)(b, name, x, at.middle, {3, 3}, options);
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

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id nasnet_taso_cells::normal(const std::string& name, value_id older, value_id newer,
                                                std::int64_t width) {
  const auto c = squeeze(name + ".right", newer, width);
  const auto p = squeeze(name + ".left", older, width);
  const auto separable = [&](int number, value_id x) { return this->separable(name, number, x, 3, 1); };
  const auto average = [&](value_id x) { return b_.average_pool(x, {.kernel = {3, 3}, .padding = "same"}, true); };
  const std::array t{separable(0, c), separable(1, p), separable(2, c), average(c),
                     average(p),      average(p),      separable(3, p), separable(4, p)};
  return b_.concat(
      1, std::array{b_.add(t[0], c), b_.add(t[1], t[2]), b_.add(t[3], p), b_.add(t[4], t[5]), b_.add(t[6], t[7])});
}

UNITY_INLINE value_id nasnet_taso_cells::reduction(const std::string& name, value_id older, value_id newer,
                                                   std::int64_t width) {
  const auto c = squeeze(name + ".right", newer, width);
  const auto p = squeeze(name + ".left", older, width);
  return b_.concat(1,
                   nasnet_reduction(b_, p, c, true, [&](int number, value_id x, std::int64_t k, std::int64_t stride) {
                     return separable(name, number, x, k, stride);
                   }));
}

UNITY_INLINE value_id nasnet_taso_cells::separable(const std::string& cell, int number, value_id x, std::int64_t k,
                                                   std::int64_t stride) {
  const auto name = fmt::format("{}.separable{}", cell, number);
  const auto width = b_.dims(x)[1];
  x = convolution(b_, name + ".depthwise", x, width, {k, k},
                  {.stride = {stride, stride}, .padding = "same", .groups = width});
  return convolution(b_, name + ".pointwise", x, width, {1, 1}, {.padding = "same"});
}

UNITY_INLINE value_id nasnet_cells::normal(const std::string& name, value_id older, value_id newer,
                                           std::int64_t width) {
  const auto left = adjusted(name + ".left", older, newer, width);
  const auto right = squeezed(name + ".right", newer, width);
  const auto separable = [&](int number, value_id x, std::int64_t k) {
    return this->separable(name, number, x, width, k, 1);
  };
  const auto average = [&](value_id x) { return b_.average_pool(x, {.kernel = {3, 3}, .padding = "same"}); };
  const std::array t{separable(0, right, 5), separable(1, left, 3), separable(2, left, 5), separable(3, left, 3),
                     average(right),         average(left),         average(left),         separable(4, right, 3)};
  return b_.concat(1, std::array{left, b_.add(t[0], t[1]), b_.add(t[2], t[3]), b_.add(t[4], left), b_.add(t[5], t[6]),
                                 b_.add(t[7], right)});
}

UNITY_INLINE value_id nasnet_cells::reduction_of(const std::string& name, value_id left, value_id right,
                                                 std::int64_t width) {
  const auto sums =
      nasnet_reduction(b_, left, right, false, [&](int number, value_id x, std::int64_t k, std::int64_t stride) {
        return separable(name, number, x, width, k, stride);
      });
  return b_.concat(1, std::array{sums[1], sums[2], sums[4], sums[3]});
}

UNITY_INLINE value_id nasnet_cells::halved(const std::string& name, value_id x, std::int64_t width) {
  const pool_options every_other{.stride = {2, 2}};
  x = b_.relu(x);
  const auto even = convolution(b_, name + ".even", b_.average_pool(x, every_other), width / 2, {1, 1});
  const auto h = b_.dims(x)[2];
  const auto w = b_.dims(x)[3];
  const auto shifted = b_.slice(b_.pad(x, {0, 0, 0, 0, 0, 0, 1, 1}), {2, 3}, {1, 1}, {h + 1, w + 1});
  const auto odd = convolution(b_, name + ".odd", b_.average_pool(shifted, every_other), width / 2, {1, 1});
  return normed(name + ".norm", b_.concat(1, std::array{even, odd}));
}

UNITY_INLINE value_id nasnet_cells::separable(const std::string& cell, int number, value_id x, std::int64_t width,
                                              std::int64_t k, std::int64_t stride) {
  for (const std::string half : {".first", ".second"}) {
    const auto name = fmt::format("{}.separable{}{}", cell, number, half);
    const auto channels = b_.dims(x)[1];
    x = convolution(b_, name + ".depthwise", b_.relu(x), channels, {k, k},
                    {.stride = {stride, stride}, .padding = "same", .groups = channels});
    x = normed(name + ".norm", convolution(b_, name + ".pointwise", x, width, {1, 1}));
    stride = 1;
  }
  return x;
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph nasnet_a_taso(const algebra& operators, const sizes& s) {
  builder b{operators};
  auto x = b.input("x", {s.batch, 3, 224, 224});
  x = convolution(b, "stem", x, 64, {7, 7}, {.stride = {2, 2}, .padding = "same", .activation = "relu"});
  x = b.max_pool(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = "same"});
  detail::nasnet_taso_cells cells{b};
  std::int64_t width = 128;
  for (int group = 0; group < 3; ++group) {
    const auto name = fmt::format("group{}", group);
    auto older = x;
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const auto made = cells.normal(fmt::format("{}.normal{}", name, i), older, x, width);
      older = std::exchange(x, made);
    }
    width *= 2;
    x = cells.reduction(name + ".reduction", older, x, width);
  }
  return std::move(b).finish({x});
}

UNITY_INLINE tensor_graph nasnet_a_faithful(const algebra& operators, const sizes& s) {
  constexpr std::int64_t filters = 44;
  builder b{operators};
  detail::nasnet_cells cells{b, s};
  auto older = b.input("x", {s.batch, 3, 224, 224});
  older = cells.normed("stem.norm", convolution(b, "stem.conv", older, 32, {3, 3}, {.stride = {2, 2}}));
  auto x = cells.first_reduction("stem0", older, filters / 4);
  older = std::exchange(x, cells.reduction("stem1", older, x, filters / 2));
  for (int stage = 0; stage < 3; ++stage) {
    const auto name = fmt::format("stage{}", stage);
    const auto width = filters << stage;
    if (stage > 0) {
      older = std::exchange(x, cells.reduction(name + ".reduction", older, x, width));
    }
    for (std::int64_t i = 0; i < s.layers; ++i) {
      older = std::exchange(x, cells.normal(fmt::format("{}.normal{}", name, i), older, x, width));
    }
  }
  x = flatten(b, b.global_average_pool(b.relu(x)));
  return std::move(b).finish({dense(b, "fc", x, 1000)});
}

}  // namespace unity::tensor::zoo

#endif
