// GPT decoders. Source: Radford et al., Language models are unsupervised multitask learners, 2019 (GPT-2, whose smallest
// size is the default); Brown et al., NeurIPS'20 (GPT-3, the same network in larger sizes).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo/bert.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// The parts of a decoder that normalizes first. Shapes: x is [batch, seq, hidden].
class gpt_decoder {
 public:
  gpt_decoder(builder& b, const sizes& s) : b_{b}, s_{s}, head_{head_width(s)} {
    words_ = b.weight("embeddings.word", {s.vocab, s.hidden});
    mask_ = b.input("mask", {s.seq, s.seq});
  }

  value_id embeddings() {
    const auto ids = b_.input("input_ids", {s_.batch, s_.seq}, dtype::int64);
    return b_.add(b_.embedding(words_, ids), b_.weight("embeddings.position", {s_.seq, s_.hidden}));
  }
  value_id layer(const std::string& name, value_id x) {
    const auto attended = attention(name + ".attention", normalized(name + ".attention", x));
    x = b_.add(x, affine(name + ".attention.output", attended, s_.hidden));
    const auto wide = b_.gelu(affine(name + ".wide", normalized(name + ".wide", x), 4 * s_.hidden));
    return b_.add(x, affine(name + ".narrow", wide, s_.hidden));
  }
  // The logits of the next word, by the table of the words that come in.
  value_id words(value_id x) { return b_.matmul(normalized("final", x), b_.transpose(words_, {1, 0})); }

 private:
  value_id affine(const std::string& name, value_id x, std::int64_t features) {
    const auto product = b_.matmul(x, b_.weight(name + ".weight", {b_.dims(x)[2], features}));
    return b_.add(product, b_.weight(name + ".bias", {features}));
  }
  value_id normalized(const std::string& name, value_id x) {
    const auto gamma = b_.weight(name + ".norm.weight", {s_.hidden});
    return b_.layer_norm(x, gamma, b_.weight(name + ".norm.bias", {s_.hidden}), 2, 1e-5);
  }
  value_id heads(const std::string& name, value_id x, const shape& permutation) {
    const auto y = b_.reshape(affine(name, x, s_.hidden), {s_.batch, s_.seq, s_.heads, head_});
    return b_.transpose(y, permutation);
  }
  value_id attention(const std::string& name, value_id x) {
    const auto q = heads(name + ".query", x, {0, 2, 1, 3});
    const auto k = heads(name + ".key", x, {0, 2, 3, 1});
    const auto v = heads(name + ".value", x, {0, 2, 1, 3});
    const auto scale = b_.fill(1 / std::sqrt(static_cast<double>(head_)));
    const auto scores = b_.add(b_.scalar_multiply(b_.matmul(q, k), scale), mask_);
    const auto y = b_.transpose(b_.matmul(b_.softmax(scores, 3), v), {0, 2, 1, 3});
    return b_.reshape(y, {s_.batch, s_.seq, s_.hidden});
  }

  builder& b_;
  sizes s_;
  std::int64_t head_;
  value_id words_{};
  value_id mask_{};
};

}  // namespace detail

// One output, the logits: [batch, seq, vocab]. The input "mask" is added to the scores of every head: 0 where a position
// may look, and a large negative number where it may not (at later ones).
[[nodiscard]] inline tensor_graph gpt(const algebra& operators, const sizes& s) {
  builder b{operators};
  detail::gpt_decoder decoder{b, s};
  auto x = decoder.embeddings();
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = decoder.layer("layer" + std::to_string(i), x);
  }
  return std::move(b).finish({decoder.words(x)});
}

inline constexpr std::array<form, 1> gpt_forms{
    {{"faithful", {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257}, gpt}}};

}  // namespace unity::tensor::zoo
