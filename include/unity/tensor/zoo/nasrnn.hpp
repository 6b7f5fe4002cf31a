// NasRNN.
// Source: Zoph and Le, ICLR'17; sizes as in TASO's experiments (Jia's dissertation (2020) section 2.9.1).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// One step of the cell. Shapes: x and state [batch, hidden].
value_id nasrnn_step(builder& b, const std::string& name, value_id x, value_id state);

}  // namespace detail

// `seq` steps, each with its own weights and input; the first state is a weight.
// Throws: unity::error for more than 4096 steps.
[[nodiscard]] tensor_graph nasrnn_taso(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> nasrnn_forms{{{"taso", {.batch = 1, .hidden = 512, .seq = 5}, nasrnn_taso}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_NASRNN)

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id nasrnn_step(builder& b, const std::string& name, value_id x, value_id state) {
  const auto hidden = b.dims(x)[1];
  std::array<value_id, 8> t;
  for (std::size_t i = 0; i < t.size(); ++i) {
    const auto gate = fmt::format("{}.gate{}", name, i);
    const auto from_x = b.matmul(x, b.weight(gate + ".x", {hidden, hidden}));
    t[i] = b.add(from_x, b.matmul(state, b.weight(gate + ".state", {hidden, hidden})));
  }
  // Arrays, because every compiler evaluates the elements of a braced list in order, but not function arguments.
  const std::array a{b.relu(t[0]),    b.sigmoid(t[1]), b.tanh(t[2]),    b.sigmoid(t[3]),
                     b.sigmoid(t[4]), b.tanh(t[5]),    b.sigmoid(t[6]), b.relu(t[7])};
  const std::array m{b.add(a[0], a[3]), b.add(a[1], a[2]), b.mul(a[4], a[5]), b.mul(a[6], a[7])};
  const std::array c{b.sigmoid(m[1]), b.tanh(m[2]), b.tanh(m[0]), b.tanh(m[3])};
  const std::array d{b.add(c[0], c[1]), b.mul(c[2], c[3])};
  const std::array e{b.tanh(d[0]), b.tanh(d[1])};
  return b.tanh(b.mul(e[0], e[1]));
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph nasrnn_taso(const algebra& operators, const sizes& s) {
  constexpr std::int64_t most_steps = 4096;
  if (s.seq > most_steps) {
    throw error{"zoo", fmt::format("seq={}", s.seq), fmt::format("at most {} steps of NasRNN", most_steps)};
  }
  builder b{operators};
  auto state = b.weight("state", {s.batch, s.hidden});
  for (std::int64_t i = 0; i < s.seq; ++i) {
    const auto x = b.input(fmt::format("x{}", i), {s.batch, s.hidden});
    state = detail::nasrnn_step(b, fmt::format("step{}", i), x, state);
  }
  return std::move(b).finish({state});
}

}  // namespace unity::tensor::zoo

#endif
