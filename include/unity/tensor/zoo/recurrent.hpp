// Recurrent networks: layers of LSTM, unrolled, and NasRNN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// Recurrent networks of LSTM layers, unrolled: each step has its own nodes, and the steps of a layer share its weights.
// Source: Jia's dissertation (2020) table 3.3, section 3.7.1, figure 3.15.

namespace detail {

// Limits the number of steps, because unrolled graphs have tens of nodes per step.
void require_steps(const sizes& s);

// Stacked LSTM layers, one step at a time. Shapes: x and the result are [batch, hidden].
class lstm_stack {
 public:
  // States start at zero, or at the current states of `before`, a stack of the same sizes.
  lstm_stack(builder& b, const std::string& name, const sizes& s, const lstm_stack* before = nullptr);

  value_id step(value_id x);

 private:
  struct layer {
    value_id input;
    value_id recurrent;
    value_id bias;
    value_id state;
    value_id cell;
  };

  builder& b_;
  std::vector<layer> layers_;
};

// The embeddings of the words of a step; each step has its own input. Shapes: [batch, hidden].
inline value_id embedded_step(builder& b, const std::string& name, const sizes& s, value_id table, std::int64_t step) {
  return b.embedding(table, b.input(fmt::format("{}{}", name, step), {s.batch}, dtype::int64));
}

// A dense layer with weights that all steps share, and a softmax.
class shared_softmax {
 public:
  shared_softmax(builder& b, const sizes& s, std::int64_t classes)
      : b_{b}, weight_{b.weight("softmax.weight", {s.hidden, classes})}, bias_{b.weight("softmax.bias", {classes})} {}

  value_id operator()(value_id x) { return b_.softmax(b_.linear(x, weight_, bias_), 1); }

 private:
  builder& b_;
  value_id weight_;
  value_id bias_;
};

// Global attention with the general score: tanh(W [softmax(h A m') m, h]) for a state h and the memory m of all encoder
// states.
// Source: Luong et al., EMNLP'15, section 3.1.
class step_attention {
 public:
  // Shapes: every state is [batch, hidden].
  step_attention(builder& b, const sizes& s, const std::vector<value_id>& states);

  value_id operator()(value_id h);

 private:
  builder& b_;
  sizes s_;
  value_id memory_;
  value_id turned_;
  value_id score_;
  value_id joint_;
};

}  // namespace detail

// Text classification: predicts one of two classes from the last step.
[[nodiscard]] tensor_graph rnntc(const algebra& operators, const sizes& s);

// Language modelling: predicts the next word at every step. One output per step.
[[nodiscard]] tensor_graph rnnlm(const algebra& operators, const sizes& s);

// Translation: an encoder, a decoder that starts from the encoder's states, and attention on top. One output per step.
[[nodiscard]] tensor_graph nmt(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> rnntc_forms{
    {{"faithful", {.batch = 64, .layers = 4, .hidden = 1024, .seq = 40, .vocab = 20000}, rnntc}}};
inline constexpr std::array<form, 1> rnnlm_forms{
    {{"faithful", {.batch = 64, .layers = 2, .hidden = 2048, .seq = 40, .vocab = 10000}, rnnlm}}};
inline constexpr std::array<form, 1> nmt_forms{
    {{"faithful", {.batch = 64, .layers = 2, .hidden = 1024, .seq = 40, .vocab = 32000}, nmt}}};

// NasRNN.
// Source: Zoph and Le, ICLR'17; sizes as in TASO's experiments (Jia's dissertation (2020) section 2.9.1).

namespace detail {

// One step of the cell. Shapes: x and state [batch, hidden].
value_id nasrnn_step(builder& b, const std::string& name, value_id x, value_id state);

}  // namespace detail

// `seq` steps, each with its own weights and input; the first state is a weight.
// Throws: unity::error for more than 4096 steps.
[[nodiscard]] tensor_graph nasrnn_taso(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> nasrnn_forms{{{"taso", {.batch = 1, .hidden = 512, .seq = 5}, nasrnn_taso}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_RECURRENT)

#include <unity/core/error.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE void require_steps(const sizes& s) {
  constexpr std::int64_t most_steps = 4096;
  if (s.seq > most_steps) {
    throw error{"zoo", fmt::format("seq={}", s.seq), fmt::format("at most {} steps", most_steps)};
  }
}

UNITY_INLINE lstm_stack::lstm_stack(builder& b, const std::string& name, const sizes& s, const lstm_stack* before)
    : b_{b} {
  const auto zero = before == nullptr ? b.fill(0, {s.batch, s.hidden}) : value_id{};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto own = fmt::format("{}{}", name, i);
    const auto input = b.weight(own + ".input", {4, s.hidden, s.hidden});
    const auto recurrent = b.weight(own + ".recurrent", {4, s.hidden, s.hidden});
    layers_.push_back({input, recurrent, b.weight(own + ".bias", {4, s.hidden}), zero, zero});
    if (before != nullptr) {
      layers_.back().state = before->layers_[static_cast<std::size_t>(i)].state;
      layers_.back().cell = before->layers_[static_cast<std::size_t>(i)].cell;
    }
  }
}

UNITY_INLINE value_id lstm_stack::step(value_id x) {
  for (auto& l : layers_) {
    const auto next = b_.apply("lstm_cell", {x, l.state, l.cell, l.input, l.recurrent, l.bias});
    l.state = next[0];
    l.cell = next[1];
    x = l.state;
  }
  return x;
}

UNITY_INLINE step_attention::step_attention(builder& b, const sizes& s, const std::vector<value_id>& states)
    : b_{b}, s_{s} {
  std::vector<value_id> rows;
  for (const auto v : states) {
    rows.push_back(b.reshape(v, {s.batch, 1, s.hidden}));
  }
  memory_ = b.concat(1, rows);
  turned_ = b.transpose(memory_, {0, 2, 1});
  score_ = b.weight("attention.score", {s.hidden, s.hidden});
  joint_ = b.weight("attention.joint", {2 * s.hidden, s.hidden});
}

UNITY_INLINE value_id step_attention::operator()(value_id h) {
  const auto query = b_.reshape(b_.matmul(h, score_), {s_.batch, 1, s_.hidden});
  const auto weights = b_.softmax(b_.matmul(query, turned_), 2);
  const auto context = b_.reshape(b_.matmul(weights, memory_), {s_.batch, s_.hidden});
  return b_.tanh(b_.matmul(b_.concat(1, std::array{context, h}), joint_));
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph rnntc(const algebra& operators, const sizes& s) {
  detail::require_steps(s);
  builder b{operators};
  const auto table = b.weight("embedding", {s.vocab, s.hidden});
  detail::lstm_stack layers{b, "lstm", s};
  value_id x;
  for (std::int64_t i = 0; i < s.seq; ++i) {
    x = layers.step(detail::embedded_step(b, "word", s, table, i));
  }
  return std::move(b).finish({detail::shared_softmax{b, s, 2}(x)});
}

UNITY_INLINE tensor_graph rnnlm(const algebra& operators, const sizes& s) {
  detail::require_steps(s);
  builder b{operators};
  const auto table = b.weight("embedding", {s.vocab, s.hidden});
  detail::lstm_stack layers{b, "lstm", s};
  detail::shared_softmax classify{b, s, s.vocab};
  std::vector<value_id> outputs;
  for (std::int64_t i = 0; i < s.seq; ++i) {
    outputs.push_back(classify(layers.step(detail::embedded_step(b, "word", s, table, i))));
  }
  return std::move(b).finish(outputs);
}

UNITY_INLINE tensor_graph nmt(const algebra& operators, const sizes& s) {
  detail::require_steps(s);
  builder b{operators};
  const auto source = b.weight("encoder.embedding", {s.vocab, s.hidden});
  detail::lstm_stack encoder{b, "encoder.lstm", s};
  std::vector<value_id> states;
  for (std::int64_t i = 0; i < s.seq; ++i) {
    states.push_back(encoder.step(detail::embedded_step(b, "source", s, source, i)));
  }
  detail::step_attention attend{b, s, states};
  const auto target = b.weight("decoder.embedding", {s.vocab, s.hidden});
  detail::lstm_stack decoder{b, "decoder.lstm", s, &encoder};
  detail::shared_softmax classify{b, s, s.vocab};
  std::vector<value_id> outputs;
  for (std::int64_t i = 0; i < s.seq; ++i) {
    outputs.push_back(classify(attend(decoder.step(detail::embedded_step(b, "target", s, target, i)))));
  }
  return std::move(b).finish(outputs);
}

}  // namespace unity::tensor::zoo

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
