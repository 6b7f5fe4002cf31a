// Multi-layer perceptrons.
// Source: Unity (OSDI 2022) figures 1 and 2, table 1, section 6.1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// `layers` dense layers of width `hidden`, with relu between them.
[[nodiscard]] tensor_graph mlp_faithful(const algebra& operators, const sizes& s);

// Two towers of `layers` dense layers without bias, one for each input; then add and softmax.
[[nodiscard]] tensor_graph mlp_ae(const algebra& operators, const sizes& s);

// The classifier of 28 x 28 digits in the example of Unity's introduction.
[[nodiscard]] tensor_graph mlp_fig1(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 3> mlp_forms{{
    {"faithful", {.batch = 256, .layers = 16, .hidden = 8192}, mlp_faithful},
    {"ae", {.batch = 64, .layers = 8, .hidden = 8192}, mlp_ae},
    {"fig1", {.batch = 64, .hidden = 512}, mlp_fig1},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_MLP)

#include <string>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo/convolution.hpp>

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph mlp_faithful(const algebra& operators, const sizes& s) {
  builder b{operators};
  auto x = b.input("x", {s.batch, s.hidden});
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = dense(b, fmt::format("dense{}", i), i == 0 ? x : b.relu(x), s.hidden);
  }
  return std::move(b).finish({x});
}

UNITY_INLINE tensor_graph mlp_ae(const algebra& operators, const sizes& s) {
  constexpr std::int64_t features = 1024;
  builder b{operators};
  std::array x{b.input("x1", {s.batch, features}), b.input("x2", {s.batch, features})};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    for (std::size_t tower = 0; tower < x.size(); ++tower) {
      const auto name = fmt::format("tower{}.dense{}.weight", tower + 1, i);
      const auto w = b.weight(name, {i == 0 ? features : s.hidden, s.hidden});
      x[tower] = b.matmul(x[tower], w, i + 1 < s.layers ? "relu" : "none");
    }
  }
  return std::move(b).finish({b.softmax(b.add(x[0], x[1]), 1)});
}

UNITY_INLINE tensor_graph mlp_fig1(const algebra& operators, const sizes& s) {
  builder b{operators};
  const auto x = b.input("x", {s.batch, 784});
  const auto w1 = b.weight("w1", {784, s.hidden});
  const auto w2 = b.weight("w2", {s.hidden, 10});
  return std::move(b).finish({b.matmul(b.relu(b.matmul(x, w1)), w2)});
}

}  // namespace unity::tensor::zoo

#endif
