// A decoder of pre-norm transformer blocks, like GPT-2 and GPT-3, for tests and benchmarks of tensor parallelism.
// Unlike zoo:gpt, logits have their own matrix: with a shared one, a single group of devices would compute the
// transposed table for all, because SOAP cannot express that each group computes it for itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

namespace unity::parallel::test {

struct transformer_sizes {
  std::int64_t batch = 1;
  std::int64_t layers = 1;
  std::int64_t hidden = 64;
  std::int64_t heads = 8;
  std::int64_t seq = 16;
  std::int64_t vocab = 64;
};

class transformer {
 public:
  transformer(const tensor::algebra& a, const transformer_sizes& s) : b_{a}, s_{s} {}

  // Shapes: logits are [batch, seq, vocab]. Positions are an input, looked up in a table as ids are.
  tensor::tensor_graph build() && {
    const auto ids = b_.input("ids", {s_.batch, s_.seq}, tensor::dtype::int64);
    const auto places = b_.input("positions", {s_.batch, s_.seq}, tensor::dtype::int64);
    mask_ = b_.input("mask", {s_.seq, s_.seq});
    auto x = b_.add(b_.embedding(b_.weight("words", {s_.vocab, s_.hidden}), ids),
                    b_.embedding(b_.weight("places", {s_.seq, s_.hidden}), places));
    for (std::int64_t i = 0; i < s_.layers; ++i) {
      x = block("layer" + std::to_string(i), x);
    }
    return std::move(b_).finish({b_.matmul(normalized("last", x), b_.weight("head", {s_.hidden, s_.vocab}))});
  }

 private:
  value_id affine(const std::string& name, value_id x, std::int64_t features) {
    const auto product = b_.matmul(x, b_.weight(name + ".weight", {b_.dims(x)[2], features}));
    return b_.add(product, b_.weight(name + ".bias", {features}));
  }
  value_id normalized(const std::string& name, value_id x) {
    const auto gamma = b_.weight(name + ".gamma", {s_.hidden});
    return b_.layer_norm(x, gamma, b_.weight(name + ".beta", {s_.hidden}), 2, 1e-5);
  }
  value_id heads(const std::string& name, value_id x, const tensor::shape& permutation) {
    return b_.transpose(b_.reshape(affine(name, x, s_.hidden), {s_.batch, s_.seq, s_.heads, s_.hidden / s_.heads}),
                        permutation);
  }
  value_id block(const std::string& name, value_id x) {
    const auto y = normalized(name + ".first", x);
    const auto q = heads(name + ".query", y, {0, 2, 1, 3});
    const auto k = heads(name + ".key", y, {0, 2, 3, 1});
    const auto v = heads(name + ".value", y, {0, 2, 1, 3});
    const auto scale = b_.fill(1 / std::sqrt(static_cast<double>(s_.hidden / s_.heads)));
    const auto scores = b_.add(b_.scalar_multiply(b_.matmul(q, k), scale), mask_);
    const auto mixed = b_.transpose(b_.matmul(b_.softmax(scores, 3), v), {0, 2, 1, 3});
    x = b_.add(x, affine(name + ".output", b_.reshape(mixed, {s_.batch, s_.seq, s_.hidden}), s_.hidden));
    const auto wide = b_.gelu(affine(name + ".wide", normalized(name + ".second", x), 4 * s_.hidden));
    return b_.add(x, affine(name + ".narrow", wide, s_.hidden));
  }

  tensor::builder b_;
  transformer_sizes s_;
  value_id mask_{};
};

}  // namespace unity::parallel::test
