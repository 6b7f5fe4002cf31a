// GPT decoders.
// Source: Radford et al., Language models are unsupervised multitask learners, 2019 (GPT-2, whose smallest size is the
// default); Brown et al., NeurIPS'20 (GPT-3, the same network in larger sizes).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/bert.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// The layers of a pre-norm decoder. Shapes: x is [batch, seq, hidden].
class gpt_decoder : private transformer_parts {
 public:
  gpt_decoder(builder& b, const sizes& s, double rate) : transformer_parts{b, s, 1e-5, rate} {
    words_ = b.weight("embeddings.word", {s.vocab, s.hidden});
    if (s.attention != zoo::flash_attention) {
      mask_ = b.input("mask", {s.seq, s.seq});
    }
  }

  value_id embeddings() {
    const auto ids = b_.input("input_ids", {s_.batch, s_.seq}, dtype::int64);
    const auto positions = b_.weight("embeddings.position", {s_.seq, s_.hidden});
    return dropped(b_.add(b_.embedding(words_, ids), positions));
  }
  value_id layer(const std::string& name, value_id x);
  // The logits of the next word, computed with the embedding table of the input words.
  value_id words(value_id x) {
    const auto table = b_.transpose(words_, {1, 0});
    return b_.matmul(normalized("final", x), table);
  }

 private:
  value_id words_{};
  value_id mask_{};
};

// rate: of dropouts; 0: there are none.
[[nodiscard]] tensor_graph gpt_with(const algebra& operators, const sizes& s, double rate);

}  // namespace detail

// One output, the logits: [batch, seq, vocab]. The input "mask" is added to the scores of every head: 0 for positions
// that a position may attend to, and a large negative number for the others (later ones). With attention=flash
// attention is one operator, dot_product_attention, that sees no later positions: there is no mask.
[[nodiscard]] tensor_graph gpt(const algebra& operators, const sizes& s);

// With the dropouts of training, each with a tenth of its elements: behind the embeddings, on the weights of attention
// (but for attention=flash, whose kernel draws its own), and on what both branches of a layer add.
[[nodiscard]] tensor_graph gpt_training(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 2> gpt_forms{
    {{"faithful",
      {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .attention = 0},
      gpt},
     {"training",
      {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .attention = 0},
      gpt_training}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_GPT)

#include <fmt/core.h>

namespace unity::tensor::zoo::detail {

UNITY_INLINE value_id gpt_decoder::layer(const std::string& name, value_id x) {
  const auto own = normalized(name + ".attention", x);
  const auto attended = s_.attention == zoo::flash_attention ? flash_attention(name + ".attention", own)
                                                             : attention(name + ".attention", own, mask_);
  x = b_.add(x, dropped(affine(name + ".attention.output", attended, s_.hidden)));
  const auto wide = b_.gelu(affine(name + ".wide", normalized(name + ".wide", x), 4 * s_.hidden));
  return b_.add(x, dropped(affine(name + ".narrow", wide, s_.hidden)));
}

UNITY_INLINE tensor_graph gpt_with(const algebra& operators, const sizes& s, double rate) {
  builder b{operators};
  gpt_decoder decoder{b, s, rate};
  auto x = decoder.embeddings();
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = decoder.layer(fmt::format("layer{}", i), x);
  }
  return std::move(b).finish({decoder.words(x)});
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph gpt(const algebra& operators, const sizes& s) { return detail::gpt_with(operators, s, 0); }

UNITY_INLINE tensor_graph gpt_training(const algebra& operators, const sizes& s) {
  constexpr double usual_rate = 0.1;
  return detail::gpt_with(operators, s, usual_rate);
}

}  // namespace unity::tensor::zoo

#endif
