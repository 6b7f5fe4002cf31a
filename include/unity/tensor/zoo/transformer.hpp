// Encoder-decoder Transformers, and decoders with attention within chunks.
// Sources: Vaswani et al., Attention is all you need, NeurIPS 2017 (the base size is the default); Kitaev et al.,
// Reformer, ICLR 2020.
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
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/bert.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// The layers of a post-norm Transformer. Shapes: x is [batch, seq, hidden].
class transformer_layers : private transformer_parts {
 public:
  transformer_layers(builder& b, const sizes& s) : transformer_parts{b, s, 1e-5} {
    words_ = b.weight("embeddings.word", {s.vocab, s.hidden});
    positions_ = b.weight("embeddings.position", {s.seq, s.hidden});
  }

  value_id embeddings(const std::string& name) {
    return b_.add(b_.embedding(words_, b_.input(name, {s_.batch, s_.seq}, dtype::int64)), positions_);
  }
  // x attends to itself.
  value_id self(const std::string& name, value_id x, value_id mask = {}) {
    return added(name, x, attention(name, x, mask));
  }
  // x attends to the encoder's result.
  value_id across(const std::string& name, value_id x, value_id encoded) {
    return added(name, x, attention(name, x, encoded, value_id{}));
  }
  value_id dense(const std::string& name, value_id x) {
    const auto wide = b_.relu(affine(name + ".wide", x, 4 * s_.hidden));
    return normalized(name, b_.add(x, affine(name + ".narrow", wide, s_.hidden)));
  }
  // The logits, computed with the embedding table of the input words.
  value_id words(value_id x) { return b_.matmul(x, b_.transpose(words_, {1, 0})); }

 private:
  value_id added(const std::string& name, value_id x, value_id attended) {
    return normalized(name, b_.add(x, affine(name + ".output", attended, s_.hidden)));
  }

  value_id words_{};
  value_id positions_{};
};

// The layers of a Reformer. Queries are also the keys, and attend to their own chunk of the sequence and the one before
// it. The network is reversible: there are two streams, and each step adds to one a function of the other.
class reformer_layers : private transformer_parts {
 public:
  // The number of positions in a chunk. They attend to each other and to the chunk before.
  static constexpr std::int64_t chunk = 64;

  // Throws: unity::error if the chunk size does not divide the sequence.
  reformer_layers(builder& b, const sizes& s);

  value_id embeddings();
  value_id attended(const std::string& name, value_id x);
  value_id dense(const std::string& name, value_id x) {
    const auto wide = b_.gelu(affine(name + ".wide", normalized(name, x), 4 * s_.hidden));
    return affine(name + ".narrow", wide, s_.hidden);
  }
  value_id words(value_id x) {
    const auto table = b_.transpose(words_, {1, 0});
    return b_.matmul(normalized("final", x), table);
  }

 private:
  // Each chunk joined with the one before it (the first with the last): [batch, heads, chunks, chunk, width], with
  // twice as many positions per chunk.
  value_id with_previous(value_id x);

  value_id words_{};
  value_id mask_{};
};

}  // namespace detail

// One output, the logits: [batch, seq, vocab]. Inputs: the words of both languages, and "mask", which is added to the
// scores of the decoder: 0 for positions that a position may attend to, and a large negative number for the others.
[[nodiscard]] tensor_graph transformer(const algebra& operators, const sizes& s);

// One output, the logits: [batch, seq, vocab]. The input "mask" is added to the scores within a chunk and the one
// before it. The hashing that assigns positions to chunks in the published network is left out: chunks are neighbours,
// as in its local attention.
[[nodiscard]] tensor_graph reformer(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 1> transformer_forms{
    {{"faithful", {.batch = 1, .layers = 6, .hidden = 512, .heads = 8, .seq = 64, .vocab = 37000}, transformer}}};
inline constexpr std::array<form, 1> reformer_forms{
    {{"local", {.batch = 1, .layers = 6, .hidden = 512, .heads = 8, .seq = 1024, .vocab = 32000}, reformer}}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_TRANSFORMER)

#include <cmath>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE reformer_layers::reformer_layers(builder& b, const sizes& s) : transformer_parts{b, s, 1e-5} {
  if (s.seq % chunk != 0) {
    throw error{"zoo", fmt::format("seq={}", s.seq), fmt::format("a multiple of the {} positions of a chunk", chunk)};
  }
  words_ = b.weight("embeddings.word", {s.vocab, s.hidden});
  mask_ = b.input("mask", {chunk, 2 * chunk});
}

UNITY_INLINE value_id reformer_layers::embeddings() {
  const auto ids = b_.input("input_ids", {s_.batch, s_.seq}, dtype::int64);
  const auto positions = b_.weight("embeddings.position", {s_.seq, s_.hidden});
  return b_.add(b_.embedding(words_, ids), positions);
}

UNITY_INLINE value_id reformer_layers::with_previous(value_id x) {
  const auto chunks = s_.seq / chunk;
  if (chunks == 1) {
    return b_.concat(3, std::array{x, x});
  }
  const auto last = b_.slice(x, {2}, {chunks - 1}, {chunks});
  const auto previous = b_.concat(2, std::array{last, b_.slice(x, {2}, {0}, {chunks - 1})});
  return b_.concat(3, std::array{previous, x});
}

UNITY_INLINE value_id reformer_layers::attended(const std::string& name, value_id x) {
  const auto y = normalized(name, x);
  const auto width = head_width(s_);
  const shape chunked{s_.batch, s_.heads, s_.seq / chunk, chunk, width};
  const auto keys = b_.reshape(heads(name + ".key", y, {0, 2, 1, 3}), chunked);
  const auto values = b_.reshape(heads(name + ".value", y, {0, 2, 1, 3}), chunked);
  const auto scale = b_.fill(1 / std::sqrt(static_cast<double>(width)));
  const auto scores = b_.matmul(keys, b_.transpose(with_previous(keys), {0, 1, 2, 4, 3}));
  const auto weights = b_.softmax(b_.add(b_.scalar_multiply(scores, scale), mask_), 4);
  const auto mixed = b_.reshape(b_.matmul(weights, with_previous(values)), {s_.batch, s_.heads, s_.seq, width});
  const auto joined = b_.reshape(b_.transpose(mixed, {0, 2, 1, 3}), {s_.batch, s_.seq, s_.hidden});
  return affine(name + ".output", joined, s_.hidden);
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph transformer(const algebra& operators, const sizes& s) {
  builder b{operators};
  detail::transformer_layers layers{b, s};
  auto x = layers.embeddings("source");
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto name = fmt::format("encoder{}", i);
    x = layers.dense(name + ".dense", layers.self(name + ".attention", x));
  }
  const auto mask = b.input("mask", {s.seq, s.seq});
  auto y = layers.embeddings("target");
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto name = fmt::format("decoder{}", i);
    y = layers.across(name + ".across", layers.self(name + ".attention", y, mask), x);
    y = layers.dense(name + ".dense", y);
  }
  return std::move(b).finish({layers.words(y)});
}

UNITY_INLINE tensor_graph reformer(const algebra& operators, const sizes& s) {
  builder b{operators};
  detail::reformer_layers layers{b, s};
  auto one = layers.embeddings();
  auto other = one;
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto name = fmt::format("layer{}", i);
    one = b.add(one, layers.attended(name + ".attention", other));
    other = b.add(other, layers.dense(name + ".dense", one));
  }
  return std::move(b).finish({layers.words(b.add(one, other))});
}

}  // namespace unity::tensor::zoo

#endif
