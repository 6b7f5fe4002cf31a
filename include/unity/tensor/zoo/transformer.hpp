// Transformers: BERT, GPT, and encoders with decoders.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// BERT encoders.
// Source: Devlin et al., NAACL'19; the taso and ae forms as in TASO's and Unity's experiments (Jia's dissertation
// (2020) section 2.9.1, Unity (OSDI 2022) section 6.1).

namespace detail {

// Features per head.
// Throws: unity::error if the number of heads does not divide the width.
[[nodiscard]] std::int64_t head_width(const sizes& s);

// The layers that encoders and decoders consist of, written as exporters write them. Shapes: x is [batch, seq, hidden].
class transformer_parts {
 public:
  // rate: the dropout rate; 0: no dropouts.
  transformer_parts(builder& b, const sizes& s, double epsilon, double rate = 0)
      : b_{b}, s_{s}, head_{head_width(s)}, epsilon_{epsilon}, rate_{rate} {}

 protected:
  value_id affine(const std::string& name, value_id x, std::int64_t features) {
    const auto product = b_.matmul(x, b_.weight(name + ".weight", {b_.dims(x)[2], features}));
    return b_.add(product, b_.weight(name + ".bias", {features}));
  }
  value_id normalized(const std::string& name, value_id x) {
    const auto gamma = b_.weight(name + ".norm.weight", {s_.hidden});
    return b_.layer_norm(x, gamma, b_.weight(name + ".norm.bias", {s_.hidden}), 2, epsilon_);
  }
  // A dense layer whose features are split among heads.
  value_id heads(const std::string& name, value_id x, const shape& permutation) {
    const auto y = b_.reshape(affine(name, x, s_.hidden), {s_.batch, s_.seq, s_.heads, head_});
    return b_.transpose(y, permutation);
  }
  // mask: added to the scores, if given.
  value_id attention(const std::string& name, value_id x, value_id mask = {}) { return attention(name, x, x, mask); }
  // Each dropout has a seed of its own.
  value_id dropped(value_id x) { return rate_ > 0 ? b_.dropout(x, rate_, ++seed_) : x; }
  // x gives the queries, `from` the keys and values.
  value_id attention(const std::string& name, value_id x, value_id from, value_id mask);
  // Causal attention as one operator. Without dropout of attention weights, which a flash-attention kernel draws
  // itself.
  value_id flash_attention(const std::string& name, value_id x);

  builder& b_;
  sizes s_;

 private:
  std::int64_t head_;
  double epsilon_;
  double rate_;
  std::int64_t seed_ = 0;
};

class bert_encoder : private transformer_parts {
 public:
  bert_encoder(builder& b, const sizes& s) : transformer_parts{b, s, 1e-12} {}

  value_id embeddings();

  value_id layer(const std::string& name, value_id x);

  // The input of classifiers: a dense layer on the first position.
  value_id pooler(value_id x) {
    const auto first = b_.reshape(b_.slice(x, {1}, {0}, {1}), {s_.batch, s_.hidden});
    return b_.tanh(dense(b_, "pooler", first, s_.hidden));
  }
};

// Attention as TASO's example writes it: no scale, no softmax, no bias. Shapes: x is [seq, hidden].
value_id bert_taso_layer(builder& b, const sizes& s, const std::string& name, value_id x);

}  // namespace detail

// Two outputs: the last layer's result and the pooler's.
[[nodiscard]] tensor_graph bert_faithful(const algebra& operators, const sizes& s);

[[nodiscard]] tensor_graph bert_taso(const algebra& operators, const sizes& s);

// Attention is one operator; there are no residual adds and no layer norms.
[[nodiscard]] tensor_graph bert_ae(const algebra& operators, const sizes& s);

inline constexpr form bert_ae_form{"ae", {.batch = 8, .layers = 12, .hidden = 1024, .heads = 16, .seq = 512}, bert_ae};
inline constexpr std::array<form, 3> bert_forms{{
    {"faithful", {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 128, .vocab = 30522}, bert_faithful},
    {"taso", {.layers = 8, .hidden = 1024, .heads = 16, .seq = 64}, bert_taso},
    bert_ae_form,
}};
inline constexpr std::array<form, 2> bert_large_forms{{
    {"faithful", {.batch = 4, .layers = 24, .hidden = 1024, .heads = 16, .seq = 512, .vocab = 30522}, bert_faithful},
    bert_ae_form,
}};

// GPT decoders.
// Source: Radford et al., Language models are unsupervised multitask learners, 2019 (GPT-2, whose smallest size is the
// default); Brown et al., NeurIPS'20 (GPT-3, the same network in larger sizes).

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

// rate: the dropout rate; 0: no dropouts.
[[nodiscard]] tensor_graph gpt_with(const algebra& operators, const sizes& s, double rate);

}  // namespace detail

// One output, the logits: [batch, seq, vocab]. The input "mask" is added to the scores of every head: 0 for positions
// that a position may attend to, and a large negative number for later ones. With attention=flash, attention is one
// operator (dot_product_attention, causal), and there is no mask.
[[nodiscard]] tensor_graph gpt(const algebra& operators, const sizes& s);

// With the dropouts of training, at a rate of 0.1: after the embeddings, on the attention weights (except for
// attention=flash, whose kernel draws its own), and on the results of both branches of a layer before they are added.
[[nodiscard]] tensor_graph gpt_training(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 2> gpt_forms{
    {{"faithful",
      {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .attention = 0},
      gpt},
     {"training",
      {.batch = 1, .layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .attention = 0},
      gpt_training}}};

// Encoder-decoder Transformers, and decoders with attention within chunks.
// Sources: Vaswani et al., Attention is all you need, NeurIPS 2017 (the base size is the default); Kitaev et al.,
// Reformer, ICLR 2020.

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

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::tensor::zoo::detail {

UNITY_INLINE std::int64_t head_width(const sizes& s) {
  if (s.hidden % s.heads != 0) {
    throw error{"zoo", fmt::format("hidden={} and heads={}", s.hidden, s.heads),
                "a hidden size that the number of heads divides"};
  }
  return s.hidden / s.heads;
}

UNITY_INLINE value_id transformer_parts::attention(const std::string& name, value_id x, value_id from, value_id mask) {
  const auto q = heads(name + ".query", x, {0, 2, 1, 3});
  const auto k = heads(name + ".key", from, {0, 2, 3, 1});
  const auto v = heads(name + ".value", from, {0, 2, 1, 3});
  const auto scale = b_.fill(1 / std::sqrt(static_cast<double>(head_)));
  const auto scaled = b_.scalar_multiply(b_.matmul(q, k), scale);
  const auto weights = dropped(b_.softmax(mask.valid() ? b_.add(scaled, mask) : scaled, 3));
  const auto y = b_.transpose(b_.matmul(weights, v), {0, 2, 1, 3});
  return b_.reshape(y, {s_.batch, s_.seq, s_.hidden});
}

UNITY_INLINE value_id transformer_parts::flash_attention(const std::string& name, value_id x) {
  const auto q = heads(name + ".query", x, {0, 2, 1, 3});
  const auto k = heads(name + ".key", x, {0, 2, 1, 3});
  const auto v = heads(name + ".value", x, {0, 2, 1, 3});
  const auto y = b_.transpose(b_.causal_attention(q, k, v), {0, 2, 1, 3});
  return b_.reshape(y, {s_.batch, s_.seq, s_.hidden});
}

UNITY_INLINE value_id bert_encoder::embeddings() {
  const std::string name = "embeddings";
  const auto ids = b_.input("input_ids", {s_.batch, s_.seq}, dtype::int64);
  const auto segments = b_.input("token_type_ids", {s_.batch, s_.seq}, dtype::int64);
  const auto words = b_.embedding(b_.weight(name + ".word", {s_.vocab, s_.hidden}), ids);
  const auto types = b_.embedding(b_.weight(name + ".token_type", {2, s_.hidden}), segments);
  const auto table = b_.weight(name + ".position", {std::max<std::int64_t>(512, s_.seq), s_.hidden});
  const auto positions = b_.slice(table, {0}, {0}, {s_.seq});
  return normalized(name, b_.add(b_.add(words, types), positions));
}

UNITY_INLINE value_id bert_encoder::layer(const std::string& name, value_id x) {
  const auto attended = affine(name + ".attention.output", attention(name + ".attention", x), s_.hidden);
  x = normalized(name + ".attention", b_.add(attended, x));
  const auto wide = b_.gelu(affine(name + ".intermediate", x, 4 * s_.hidden));
  return normalized(name + ".output", b_.add(affine(name + ".output", wide, s_.hidden), x));
}

UNITY_INLINE value_id bert_taso_layer(builder& b, const sizes& s, const std::string& name, value_id x) {
  const auto head = head_width(s);
  constexpr std::array<const char*, 3> names{".query", ".key", ".value"};
  std::array<value_id, 3> qkv;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const auto y = b.matmul(x, b.weight(name + names[i], {s.hidden, s.hidden}));
    const auto dealt = b.reshape(y, {s.seq, s.heads, head});
    qkv[i] = b.transpose(dealt, i == 1 ? shape{1, 2, 0} : shape{1, 0, 2});
  }
  const auto y = b.transpose(b.matmul(b.matmul(qkv[0], qkv[1]), qkv[2]), {1, 0, 2});
  const auto joined = b.reshape(y, {s.seq, s.hidden});
  return b.matmul(joined, b.weight(name + ".output", {s.hidden, s.hidden}));
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph bert_faithful(const algebra& operators, const sizes& s) {
  builder b{operators};
  detail::bert_encoder encoder{b, s};
  auto x = encoder.embeddings();
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = encoder.layer(fmt::format("layer{}", i), x);
  }
  return std::move(b).finish({x, encoder.pooler(x)});
}

UNITY_INLINE tensor_graph bert_taso(const algebra& operators, const sizes& s) {
  builder b{operators};
  auto x = b.relu(b.input("x", {s.seq, s.hidden}));
  for (std::int64_t i = 0; i < s.layers; ++i) {
    x = detail::bert_taso_layer(b, s, fmt::format("layer{}", i), x);
  }
  return std::move(b).finish({x});
}

UNITY_INLINE tensor_graph bert_ae(const algebra& operators, const sizes& s) {
  static_cast<void>(detail::head_width(s));
  builder b{operators};
  auto x = b.input("x", {s.batch, s.seq, s.hidden});
  const shape square{s.hidden, s.hidden};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    const auto name = fmt::format("layer{}", i);
    const std::array weights{b.weight(name + ".query", square), b.weight(name + ".key", square),
                             b.weight(name + ".value", square), b.weight(name + ".output", square)};
    x = b.attention(x, x, x, weights, s.heads);
    x = b.matmul(x, b.weight(name + ".fc1", square), "relu");
    x = b.matmul(x, b.weight(name + ".fc2", square));
  }
  return std::move(b).finish({b.matmul(x, b.weight("fc", {s.hidden, 1}))});
}

}  // namespace unity::tensor::zoo

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
