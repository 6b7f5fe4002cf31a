// Perceptrons: alone, and behind many narrow inputs, as in recommendation models.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
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

// Multi-layer perceptrons.
// Source: Unity (OSDI 2022) figures 1 and 2, table 1, section 6.1.

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

// DLRM, XDL and Candle Uno: many narrow inputs, each with its own subnetwork, concatenated for a final perceptron. Also
// a single embedding bag.
// Sources: Naumov et al., 2019; Jiang et al., DLP-KDD'19; the Candle benchmarks' Uno; sizes: Jia's dissertation (2020)
// section 3.7.3, and for the ae forms the programs of Unity's artifact.

namespace detail {

// Distinct values of the 26 categorical features of the Criteo data set's training days, 3 to 1.7 million.
inline constexpr std::array<std::int64_t, 26> criteo_vocabularies{
    1396, 550,   1761917, 507795, 290,  21,   11948, 608,     3,  58176, 5237,   1497287, 3127,
    26,   12153, 1068715, 10,     4836, 2085, 4,     1312273, 17, 15,    110946, 91,      72655};

// A dense layer and a relu for each width.
template <class Widths>
value_id perceptron(builder& b, const std::string& name, value_id x, const Widths& widths) {
  int i = 0;
  for (const auto width : widths) {
    x = b.relu(dense(b, fmt::format("{}{}", name, i++), x, width));
  }
  return x;
}

// The same without biases; each layer and its activation are one operator. `last`: the activation of the last layer.
template <class Widths>
value_id fused_perceptron(builder& b, const std::string& name, value_id x, const Widths& widths,
                          std::string_view last = "relu") {
  std::size_t i = 0;
  for (const auto width : widths) {
    const auto w = b.weight(fmt::format("{}{}.weight", name, i), {b.dims(x)[1], width});
    x = b.matmul(x, w, ++i < std::size(widths) ? "relu" : last);
  }
  return x;
}

// The sums of `seq` rows of each of this many tables. Shapes: [batch, width] each.
[[nodiscard]] std::vector<value_id> bags(builder& b, const sizes& s, std::size_t tables, std::int64_t width);

// `layers` layers of width `hidden` and one of width 2.
[[nodiscard]] std::vector<std::int64_t> xdl_widths(const sizes& s);

}  // namespace detail

// 26 tables with rows of width 64, one row per sample and table; 13 dense features.
[[nodiscard]] tensor_graph dlrm(const algebra& operators, const sizes& s);

// 4 tables, and 4 dense features through two layers; all have the width of the rows.
[[nodiscard]] tensor_graph dlrm_ae(const algebra& operators, const sizes& s);

// 26 tables with rows of width 64, and a perceptron without biases whose activations are separate operators.
[[nodiscard]] tensor_graph xdl_faithful(const algebra& operators, const sizes& s);

// The same with 4 tables, and with the activations in the matrix products.
[[nodiscard]] tensor_graph xdl_ae(const algebra& operators, const sizes& s);

// Sums of `seq` rows each, followed by a dense layer.
// Source: Unity (OSDI 2022) figure 16c.
[[nodiscard]] tensor_graph embedding_bag(const algebra& operators, const sizes& s);

namespace detail {

inline constexpr std::array<std::pair<const char*, std::int64_t>, 5> uno_features{{{"cell.rnaseq", 942},
                                                                                   {"drug1.descriptors", 5270},
                                                                                   {"drug1.fingerprints", 2048},
                                                                                   {"drug2.descriptors", 5270},
                                                                                   {"drug2.fingerprints", 2048}}};

}  // namespace detail

// One tower per feature of the cell and of two drugs; doses are used directly.
[[nodiscard]] tensor_graph candle_uno(const algebra& operators, const sizes& s);

// Without biases, and with activations in the matrix products. `layers`: the layers of a tower; four more layers and
// the output layer follow the concat.
[[nodiscard]] tensor_graph candle_uno_ae(const algebra& operators, const sizes& s);

inline constexpr std::array<form, 2> dlrm_forms{{
    {"faithful", {.batch = 1024}, dlrm},
    {"ae", {.batch = 64, .hidden = 64, .seq = 1, .vocab = 1'000'000}, dlrm_ae},
}};
inline constexpr std::array<form, 2> xdl_forms{{
    {"faithful", {.batch = 1024, .layers = 2, .hidden = 256, .seq = 1, .vocab = 1'000'000}, xdl_faithful},
    {"ae", {.batch = 64, .layers = 2, .hidden = 256, .seq = 1, .vocab = 1'000'000}, xdl_ae},
}};
inline constexpr std::array<form, 1> embedding_bag_forms{
    {{"faithful", {.batch = 1024, .hidden = 64, .seq = 32, .vocab = 1'000'000}, embedding_bag}}};
inline constexpr std::array<form, 2> candle_uno_forms{{
    {"faithful", {.batch = 256, .layers = 3, .hidden = 1000}, candle_uno},
    {"ae", {.batch = 64, .layers = 8, .hidden = 4192}, candle_uno_ae},
}};

// Neural collaborative filtering (NeuMF): predicts how users rate items from two embeddings of each.
// Sources: He et al., Neural collaborative filtering, WWW 2017; sizes: MLPerf training v0.5, MovieLens-20M.

// `vocab` users and `items` items. The embeddings that are multiplied have width `hidden`; those that the perceptron
// reads, twice that.
[[nodiscard]] tensor_graph ncf(const algebra& operators, const sizes& s);

// large: four times as wide, with 129 million parameters. AutoDist's NCF-large has 122 million; its width is not
// stated.
inline constexpr std::array<form, 2> ncf_forms{{
    {"faithful", {.batch = 1024, .hidden = 64, .vocab = 138'493, .items = 26'744}, ncf},
    {"large", {.batch = 1024, .hidden = 256, .vocab = 138'493, .items = 26'744}, ncf},
}};

}  // namespace unity::tensor::zoo

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ZOO_DLRM)

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

namespace unity::tensor::zoo::detail {

UNITY_INLINE std::vector<value_id> bags(builder& b, const sizes& s, std::size_t tables, std::int64_t width) {
  std::vector<value_id> parts;
  for (std::size_t i = 0; i < tables; ++i) {
    const auto table = b.weight(fmt::format("table{}", i), {s.vocab, width});
    parts.push_back(b.embedding_bag(table, b.input(fmt::format("category{}", i), {s.batch, s.seq}, dtype::int64)));
  }
  return parts;
}

UNITY_INLINE std::vector<std::int64_t> xdl_widths(const sizes& s) {
  std::vector<std::int64_t> widths(static_cast<std::size_t>(s.layers), s.hidden);
  widths.push_back(2);
  return widths;
}

}  // namespace unity::tensor::zoo::detail

namespace unity::tensor::zoo {

UNITY_INLINE tensor_graph dlrm(const algebra& operators, const sizes& s) {
  builder b{operators};
  std::vector<value_id> parts{
      detail::perceptron(b, "bottom", b.input("dense", {s.batch, 13}), std::array<std::int64_t, 3>{512, 512, 64})};
  for (std::size_t i = 0; i < detail::criteo_vocabularies.size(); ++i) {
    const auto table = b.weight(fmt::format("table{}", i), {detail::criteo_vocabularies[i], 64});
    parts.push_back(b.embedding(table, b.input(fmt::format("category{}", i), {s.batch}, dtype::int64)));
  }
  const auto x = detail::perceptron(b, "top", b.concat(1, parts), std::array<std::int64_t, 3>{1024, 1024, 1024});
  return std::move(b).finish({b.sigmoid(dense(b, "click", x, 1))});
}

UNITY_INLINE tensor_graph dlrm_ae(const algebra& operators, const sizes& s) {
  builder b{operators};
  const std::array bottom{s.hidden, s.hidden};
  std::vector<value_id> parts{detail::fused_perceptron(b, "bottom", b.input("dense", {s.batch, 4}), bottom)};
  for (const auto rows : detail::bags(b, s, 4, s.hidden)) {
    parts.push_back(rows);
  }
  const std::array top{s.hidden, std::int64_t{2}};
  return std::move(b).finish({detail::fused_perceptron(b, "top", b.concat(1, parts), top, "sigmoid")});
}

UNITY_INLINE tensor_graph xdl_faithful(const algebra& operators, const sizes& s) {
  builder b{operators};
  auto x = b.concat(1, detail::bags(b, s, 26, 64));
  const auto widths = detail::xdl_widths(s);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const auto weight = b.weight(fmt::format("top{}.weight", i), {b.dims(x)[1], widths[i]});
    x = b.matmul(i == 0 ? x : b.relu(x), weight);
  }
  return std::move(b).finish({b.sigmoid(x)});
}

UNITY_INLINE tensor_graph xdl_ae(const algebra& operators, const sizes& s) {
  builder b{operators};
  const auto x = b.concat(1, detail::bags(b, s, 4, 64));
  return std::move(b).finish({detail::fused_perceptron(b, "top", x, detail::xdl_widths(s), "sigmoid")});
}

UNITY_INLINE tensor_graph embedding_bag(const algebra& operators, const sizes& s) {
  builder b{operators};
  const auto ids = b.input("ids", {s.batch, s.seq}, dtype::int64);
  const auto rows = b.embedding_bag(b.weight("table", {s.vocab, s.hidden}), ids);
  return std::move(b).finish({dense(b, "dense", rows, s.hidden)});
}

UNITY_INLINE tensor_graph candle_uno(const algebra& operators, const sizes& s) {
  builder b{operators};
  std::vector<value_id> parts{b.input("dose1", {s.batch, 1}), b.input("dose2", {s.batch, 1})};
  const std::vector<std::int64_t> widths(static_cast<std::size_t>(s.layers), s.hidden);
  for (const auto& [name, size] : detail::uno_features) {
    parts.push_back(detail::perceptron(b, name + std::string{".dense"}, b.input(name, {s.batch, size}), widths));
  }
  const auto x = detail::perceptron(b, "top", b.concat(1, parts), widths);
  return std::move(b).finish({dense(b, "response", x, 1)});
}

UNITY_INLINE tensor_graph candle_uno_ae(const algebra& operators, const sizes& s) {
  builder b{operators};
  std::vector<value_id> parts{b.input("dose1", {s.batch, 1}), b.input("dose2", {s.batch, 1})};
  const std::vector<std::int64_t> tower(static_cast<std::size_t>(s.layers), s.hidden);
  for (const auto& [name, size] : detail::uno_features) {
    parts.push_back(detail::fused_perceptron(b, name + std::string{".dense"}, b.input(name, {s.batch, size}), tower));
  }
  const std::array top{s.hidden, s.hidden, s.hidden, s.hidden, std::int64_t{1}};
  return std::move(b).finish({detail::fused_perceptron(b, "top", b.concat(1, parts), top, "none")});
}

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
