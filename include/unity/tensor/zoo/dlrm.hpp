// DLRM and Candle Uno: many narrow inputs, each with a part of its own, joined for a last perceptron.
// Sources: Naumov et al., 2019; the Candle benchmarks' Uno; sizes: Jia's dissertation (2020) section 3.7.3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo/convolution.hpp>
#include <unity/tensor/zoo/model.hpp>

namespace unity::tensor::zoo {

namespace detail {

// Distinct values of the 26 categorical features of the Criteo data set's training days, 3 to 1.7 million.
inline constexpr std::array<std::int64_t, 26> criteo_vocabularies{
    1396, 550,   1761917, 507795, 290,  21,   11948, 608,     3,  58176, 5237,   1497287, 3127,
    26,   12153, 1068715, 10,     4836, 2085, 4,     1312273, 17, 15,    110946, 91,      72655};

// A dense layer and a relu per width.
template <class Widths>
value_id perceptron(builder& b, const std::string& name, value_id x, const Widths& widths) {
  int i = 0;
  for (const auto width : widths) {
    x = b.relu(dense(b, name + std::to_string(i++), x, width));
  }
  return x;
}

}  // namespace detail

// 26 tables of rows of 64, one row per sample and table; 13 dense features.
[[nodiscard]] inline tensor_graph dlrm(const algebra& operators, const sizes& s) {
  builder b{operators};
  std::vector<value_id> parts{
      detail::perceptron(b, "bottom", b.input("dense", {s.batch, 13}), std::array<std::int64_t, 3>{512, 512, 64})};
  for (std::size_t i = 0; i < detail::criteo_vocabularies.size(); ++i) {
    const auto table = b.weight("table" + std::to_string(i), {detail::criteo_vocabularies[i], 64});
    parts.push_back(b.embedding(table, b.input("category" + std::to_string(i), {s.batch}, dtype::int64)));
  }
  const auto x = detail::perceptron(b, "top", b.concat(1, parts), std::array<std::int64_t, 3>{1024, 1024, 1024});
  return std::move(b).finish({b.sigmoid(dense(b, "click", x, 1))});
}

// A tower per feature of the cell and of two drugs; doses go in as they are.
[[nodiscard]] inline tensor_graph candle_uno(const algebra& operators, const sizes& s) {
  constexpr std::array<std::pair<const char*, std::int64_t>, 5> features{{{"cell.rnaseq", 942},
                                                                          {"drug1.descriptors", 5270},
                                                                          {"drug1.fingerprints", 2048},
                                                                          {"drug2.descriptors", 5270},
                                                                          {"drug2.fingerprints", 2048}}};
  builder b{operators};
  std::vector<value_id> parts{b.input("dose1", {s.batch, 1}), b.input("dose2", {s.batch, 1})};
  const std::vector<std::int64_t> widths(static_cast<std::size_t>(s.layers), s.hidden);
  for (const auto& [name, size] : features) {
    parts.push_back(detail::perceptron(b, name + std::string{".dense"}, b.input(name, {s.batch, size}), widths));
  }
  const auto x = detail::perceptron(b, "top", b.concat(1, parts), widths);
  return std::move(b).finish({dense(b, "response", x, 1)});
}

inline constexpr std::array<form, 1> dlrm_forms{{{"faithful", {.batch = 1024}, dlrm}}};
inline constexpr std::array<form, 1> candle_uno_forms{
    {{"faithful", {.batch = 256, .layers = 3, .hidden = 1000}, candle_uno}}};

}  // namespace unity::tensor::zoo
