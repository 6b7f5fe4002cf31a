// Neural collaborative filtering (NeuMF): predicts how users rate items from two embeddings of each.
// Sources: He et al., Neural collaborative filtering, WWW 2017; sizes: MLPerf training v0.5, MovieLens-20M.
#pragma once

#include <array>
#include <cstdint>

#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/zoo/convolution.hpp>
#include <unity/tensor/zoo/dlrm.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

// `vocab` users and `items` items. Factors have width `hidden`, and twice that at the input of the perceptron.
[[nodiscard]] tensor_graph ncf(const algebra& operators, const sizes& s);

// large: four times as wide, with 129 million parameters. AutoDist's NCF-large has 122 million; its width is not
// stated.
inline constexpr std::array<form, 2> ncf_forms{{
    {"faithful", {.batch = 1024, .hidden = 64, .vocab = 138'493, .items = 26'744}, ncf},
    {"large", {.batch = 1024, .hidden = 256, .vocab = 138'493, .items = 26'744}, ncf},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_NCF)

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph ncf(const algebra& operators, const sizes& s) {
  builder b{operators};
  const auto user = b.input("user", {s.batch}, dtype::int64);
  const auto item = b.input("item", {s.batch}, dtype::int64);
  const auto rows = [&](const char* name, std::int64_t count, std::int64_t width, value_id ids) {
    return b.embedding(b.weight(name, {count, width}), ids);
  };
  const auto user_factors = rows("user.factors", s.vocab, s.hidden, user);
  const auto factors = b.mul(user_factors, rows("item.factors", s.items, s.hidden, item));
  const auto user_rows = rows("user.rows", s.vocab, 2 * s.hidden, user);
  const auto item_rows = rows("item.rows", s.items, 2 * s.hidden, item);
  const auto x = detail::perceptron(b, "layer", b.concat(1, std::array{user_rows, item_rows}),
                                    std::array{4 * s.hidden, 2 * s.hidden, s.hidden});
  return std::move(b).finish({b.sigmoid(dense(b, "affinity", b.concat(1, std::array{factors, x}), 1))});
}

}  // namespace unity::tensor::zoo

#endif
