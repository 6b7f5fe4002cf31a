// Multi-head attention.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/composite_gradient.hpp>

namespace unity::tensor::operators {

// Scores are divided by sqrt(d); there is no mask.
// Shapes: q[b, s, e], k[b, t, f], v[b, t, g], wq[e, heads * d], wk[f, heads * d], wv[g, heads * p], wo[heads * p, o] ->
// [b, s, o].
[[nodiscard]] definition attention();

[[nodiscard]] inline std::vector<definition> attentions() { return {attention()}; }
[[nodiscard]] inline std::vector<definition> attention_gradients() { return {composite_gradient(attention(), 1)}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_ATTENTION)

#include <cmath>
#include <span>

#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/operators/normalization.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition attention() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto heads = a.integer("heads");
    bool ranks = true;
    for (std::size_t i = 0; i < 7; ++i) {
      ranks = ranks && j.require(j.rank(i) == (i < 3 ? 3U : 2U), "another rank", static_cast<int>(i));
    }
    if (!ranks || !j.require_floating()) {
      return;
    }
    const auto size = [&](std::size_t operand, std::size_t d) { return j.dims(operand)[d]; };
    j.require(heads > 0 && size(3, 1) % heads == 0 && size(5, 1) % heads == 0, "columns that are a multiple of heads");
    j.require(size(0, 0) == size(1, 0) && size(1, 0) == size(2, 0), "one batch size");
    j.require(size(1, 1) == size(2, 1), "one number of keys and values");
    j.require(size(0, 2) == size(3, 0) && size(1, 2) == size(4, 0) && size(2, 2) == size(5, 0),
              "weights with a row per feature");
    j.require(size(3, 1) == size(4, 1), "queries and keys of one size");
    j.require(size(5, 1) == size(6, 0), "an output weight with a row per value");
    j.result({size(0, 0), size(0, 1), size(6, 1)});
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto heads = a.integer("heads");
    // Splits [b, s, h * d] into heads: the `permutation` of (b, s, h, d).
    const auto split_heads = [&](value_id in, value_id weight, std::initializer_list<std::int64_t> permutation) {
      const auto y = b.add("matmul", {in, weight});
      const auto& dims = b.type(y).dims;
      const auto apart = b.add("reshape", {y}, {{"dims", {dims[0], dims[1], heads, dims[2] / heads}}});
      return b.add("transpose", {apart}, {{"permutation", permutation}});
    };
    const auto q = split_heads(x[0], x[3], {0, 2, 1, 3});
    const auto k = split_heads(x[1], x[4], {0, 2, 3, 1});
    const auto v = split_heads(x[2], x[5], {0, 2, 1, 3});
    const auto scale = 1 / std::sqrt(static_cast<double>(b.type(q).dims[3]));
    const auto scores = b.add("scalar_multiply", {b.add("matmul", {q, k}), scalar(b, scale, q)});
    const auto mixed = b.add("matmul", {b.add("softmax", {scores}, {{"axis", {3}}}), v});
    const auto joined = b.add("transpose", {mixed}, {{"permutation", {0, 2, 1, 3}}});
    const auto& dims = b.type(joined).dims;
    const auto flat = b.add("reshape", {joined}, {{"dims", {dims[0], dims[1], dims[2] * dims[3]}}});
    return std::vector{b.add("matmul", {flat, x[6]})};
  };
  const auto divide = [](const attribute_writer& w, const resizing& r) {
    auto& heads = w["heads"];
    heads[0] = heads[0] * r.new_inputs[3][1] / r.inputs[3].dims[1];
  };
  return define("attention", 7, 1, {integer_field("heads")}, composite{body, types})
      .with_adjoint(composite_adjoint("attention_gradient", {"heads"}))
      .divided_by(divide)
      .with_index_names({"samples", "queries", "outputs", "d", "keys", "d", "features", "heads", "d", "values"});
}

}  // namespace unity::tensor::operators

#endif
