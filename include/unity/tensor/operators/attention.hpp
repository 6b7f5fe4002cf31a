// Attention: of several heads, of given queries, keys and values, and rotary position embedding.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

// 1 if the row number is at least the column number, 0 elsewhere: the keys that a query sees under causal masking.
// Shapes: -> [rows, columns].
[[nodiscard]] definition lower_triangle();

// softmax(q k' * scale + mask) v for each head; each key head serves h / g consecutive query heads. scale 0 means 1 /
// sqrt(d). A boolean mask is true where a key is visible; other masks are added. The mask must broadcast. `causal`: a
// query sees no later keys.
// Shapes: q[b, h, s, d], k[b, g, t, d], v[b, g, t, p] and optional mask[...] that broadcasts to [b, h, s, t] -> [b, h,
// s, p]. If `heads` and `key_heads` are not 0: q[b, s, h * d], k[b, t, g * d], v[b, t, g * p] -> [b, s, h * p].
// Source: ONNX opset 23; Ainslie et al., GQA (2023).
[[nodiscard]] definition dot_product_attention();

// Rotates pairs of features by the angle of their position. A pair is element i of the first and of the second half of
// the first 2 r features, or two neighbours if `interleaved`; other features stay the same.
// Shapes: x[b, h, s, d], or x[b, s, heads * d] if `heads` is not 0; cos[b, s, r], sin[b, s, r], or cos[n, r], sin[n, r]
// and positions[b, s] -> the shape of x.
// Source: ONNX opset 23; Su et al., RoFormer (2021).
[[nodiscard]] definition rotary_embedding();

[[nodiscard]] inline std::vector<definition> dot_product_attentions() {
  return {lower_triangle(), dot_product_attention(), rotary_embedding()};
}
[[nodiscard]] inline std::vector<definition> dot_product_attention_gradients() {
  return {composite_gradient(dot_product_attention(), 1)};
}

// Scores are divided by sqrt(d); there is no mask.
// Shapes: q[b, s, e], k[b, t, f], v[b, t, g], wq[e, heads * d], wk[f, heads * d], wv[g, heads * p], wo[heads * p, o] ->
// [b, s, o].
[[nodiscard]] definition attention();

[[nodiscard]] inline std::vector<definition> attentions() { return {attention()}; }
[[nodiscard]] inline std::vector<definition> attention_gradients() { return {composite_gradient(attention(), 1)}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_ATTENTION)

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <span>

#include <unity/core/id.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/normalization.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition lower_triangle() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    if (s.require(a.integer("rows") > 0 && a.integer("columns") > 0, "positive sizes")) {
      const auto row = s.parallel("i", a.integer("rows"));
      const auto column = s.parallel("j", a.integer("columns"));
      s.write(std::initializer_list<access>{row, column}, a.choice<dtype>("element"));
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return equal(apply(scalar_op::maximum, coordinate(0), coordinate(1)), coordinate(0));
  };
  return define("lower_triangle", 0, 1, {integer_field("rows"), integer_field("columns"), dtype_field("element")},
                primitive{iteration, kernel})
      .resized_by([](const attribute_writer& w, const resizing& r) {
        w.set("rows", {r.new_outputs[0][0]});
        w.set("columns", {r.new_outputs[0][1]});
      });
}

namespace detail {

// The shape x[b, s, heads * d] as [b, heads, s, d]; four dimensions already have this form.
[[nodiscard]] inline shape with_heads(const shape& dims, std::int64_t heads) {
  return dims.size() == 4 ? dims : shape{dims[0], heads, dims[1], dims[2] / heads};
}

[[nodiscard]] inline value_id heads_apart(body_builder& b, value_id x, std::int64_t heads) {
  const auto dims = b.type(x).dims;
  if (dims.size() == 4) {
    return x;
  }
  const auto apart = b.add("reshape", {x}, {{"dims", {dims[0], dims[1], heads, dims[2] / heads}}});
  return b.add("transpose", {apart}, {{"permutation", {0, 2, 1, 3}}});
}

[[nodiscard]] inline value_id heads_joined(body_builder& b, value_id x) {
  const auto joined = b.add("transpose", {x}, {{"permutation", {0, 2, 1, 3}}});
  const auto dims = b.type(joined).dims;
  return b.add("reshape", {joined}, {{"dims", {dims[0], dims[1], dims[2] * dims[3]}}});
}

// Requires rank 4 if `heads` is 0, otherwise rank 3 with features that are a multiple of `heads`.
[[nodiscard]] inline bool require_heads(judgement& j, std::size_t operand, std::int64_t heads) {
  const auto number = static_cast<int>(operand);
  return j.require_rank(operand, heads == 0 ? 4U : 3U) &&
         j.require(heads == 0 || (heads > 0 && j.dims(operand)[2] % heads == 0),
                   "features that are a multiple of heads", number);
}

}  // namespace detail

UNITY_INLINE definition dot_product_attention() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto heads = a.integer("heads");
    const auto key_heads = a.integer("key_heads");
    j.allow_mixed_elements();
    if (!j.require_floating() || !j.require((heads == 0) == (key_heads == 0), "heads of both or none") ||
        !detail::require_heads(j, 0, heads) || !detail::require_heads(j, 1, key_heads) ||
        !detail::require_heads(j, 2, key_heads)) {
      return;
    }
    const auto q = detail::with_heads(j.dims(0), heads);
    const auto k = detail::with_heads(j.dims(1), key_heads);
    const auto v = detail::with_heads(j.dims(2), key_heads);
    const auto element = j.inputs()[0].element;
    j.require(j.inputs()[1].element == element && j.inputs()[2].element == element, "operands of one element type");
    j.require(q[0] == k[0] && k[0] == v[0], "one batch size");
    j.require(k[1] == v[1] && q[1] % k[1] == 0, "query heads that are a multiple of key heads");
    j.require(k[2] == v[2], "one number of keys and values");
    j.require(q[3] == k[3], "queries and keys of one size");
    if (j.inputs().size() == 4) {
      const shape scores{q[0], q[1], q[2], k[2]};
      const auto mask = j.inputs()[3].element;
      j.require(mask == dtype::boolean || mask == element, "booleans or the element type of the queries", 3);
      j.require(broadcast(scores, j.dims(3)) == scores, "a mask that broadcasts with the scores", 3);
    }
    j.result(heads == 0 ? shape{q[0], q[1], q[2], v[3]} : shape{q[0], q[2], q[1] * v[3]}, element);
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto q = detail::heads_apart(b, x[0], a.integer("heads"));
    const auto k = detail::heads_apart(b, x[1], a.integer("key_heads"));
    const auto v = detail::heads_apart(b, x[2], a.integer("key_heads"));
    const auto qs = b.type(q).dims;
    const auto ks = b.type(k).dims;
    const auto vs = b.type(v).dims;
    const auto group = qs[1] / ks[1];
    // Query heads that share a key head, as rows of one matrix.
    const auto rows = [&](value_id of, std::int64_t columns) {
      return group == 1 ? of : b.add("reshape", {of}, {{"dims", {qs[0], ks[1], group * qs[2], columns}}});
    };
    const auto by_heads = [&](value_id of, std::int64_t columns) {
      return group == 1 ? of : b.add("reshape", {of}, {{"dims", {qs[0], qs[1], qs[2], columns}}});
    };
    const auto given = a.real("scale");
    const auto scale = given == 0 ? 1 / std::sqrt(static_cast<double>(qs[3])) : given;
    const auto turned = b.add("transpose", {k}, {{"permutation", {0, 1, 3, 2}}});
    const auto products = by_heads(b.add("matmul", {rows(q, qs[3]), turned}), ks[2]);
    auto scores = b.add("scalar_multiply", {products, scalar(b, scale, q)});
    const auto element = name_of(b.type(q).element);
    if (x.size() == 4) {
      const bool is_seen = b.type(x[3]).element == dtype::boolean;
      const auto bias = is_seen ? b.add("log", {b.add("cast", {x[3]}, {{"element", element}})}) : x[3];
      scores = b.add("add", {scores, bias});
    }
    if (a.flag("causal")) {
      const auto seen = b.add("lower_triangle", {}, {{"rows", qs[2]}, {"columns", ks[2]}, {"element", element}});
      scores = b.add("add", {scores, b.add("log", {seen})});
    }
    const auto weights = b.add("softmax", {scores}, {{"axis", 3}});
    const auto mixed = by_heads(b.add("matmul", {rows(weights, ks[2]), v}), vs[3]);
    return std::vector{a.integer("heads") == 0 ? mixed : detail::heads_joined(b, mixed)};
  };
  const auto divide = [](const attribute_writer& w, const resizing& r) {
    if (w["heads"][0] != 0) {
      w["heads"][0] = w["heads"][0] * r.new_inputs[0][2] / r.inputs[0].dims[2];
      w["key_heads"][0] = w["key_heads"][0] * r.new_inputs[1][2] / r.inputs[1].dims[2];
    }
  };
  return define("dot_product_attention", {3, 4}, 1,
                {integer_field("heads", 0), integer_field("key_heads", 0), real_field("scale", 0.0),
                 flag_field("causal", false)},
                composite{body, types})
      .with_adjoint(composite_adjoint("dot_product_attention_gradient", {"heads", "key_heads", "scale", "causal"}))
      .divided_by(divide);
}

UNITY_INLINE definition rotary_embedding() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto heads = a.integer("heads");
    j.allow_mixed_elements();
    if (!j.require_floating() || !detail::require_heads(j, 0, heads)) {
      return;
    }
    const auto x = detail::with_heads(j.dims(0), heads);
    const bool numbered = j.inputs().size() == 4;
    for (std::size_t i = 1; i < 3; ++i) {
      const auto number = static_cast<int>(i);
      if (!j.require(j.inputs()[i].element == j.inputs()[0].element, "the element type of operand 0", number) ||
          !j.require_rank(i, numbered ? 2U : 3U)) {
        return;
      }
      j.require(numbered || (j.dims(i)[0] == x[0] && j.dims(i)[1] == x[2]), "a row per sample and position", number);
    }
    j.require(j.dims(1) == j.dims(2), "cosines and sines of one shape", 2);
    j.require(2 * j.dims(1)[j.rank(1) - 1] <= x[3], "no more than half as many angles as features", 1);
    if (numbered) {
      j.require(is_integral(j.inputs()[3].element) && j.dims(3) == shape{x[0], x[2]},
                "a number per sample and position", 3);
    }
    j.result(j.dims(0), j.inputs()[0].element);
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto in = detail::heads_apart(b, x[0], a.integer("heads"));
    const auto dims = b.type(in).dims;
    const auto angles = b.type(x[1]).dims.back();
    const bool interleaved = a.flag("interleaved");
    const auto part = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
      return b.add("slice", {in}, {{"axes", {3}}, {"starts", {from}}, {"ends", {to}}, {"steps", {step}}});
    };
    const auto of_place = [&](value_id table) {
      const auto rows = x.size() == 4 ? b.add("embedding", {table, x[3]}) : table;
      return b.add("unsqueeze", {rows}, {{"axes", {1}}});
    };
    const auto cosines = of_place(x[1]);
    const auto sines = of_place(x[2]);
    const auto first = interleaved ? part(0, 2 * angles, 2) : part(0, angles, 1);
    const auto second = interleaved ? part(1, 2 * angles, 2) : part(angles, 2 * angles, 1);
    const auto real = b.add("sub", {b.add("mul", {cosines, first}), b.add("mul", {sines, second})});
    const auto imaginary = b.add("add", {b.add("mul", {sines, first}), b.add("mul", {cosines, second})});
    value_id turned;
    if (interleaved) {
      const auto column = [&](value_id v) { return b.add("unsqueeze", {v}, {{"axes", {4}}}); };
      const auto pairs = b.add("concat", {column(real), column(imaginary)}, {{"axis", 4}});
      turned = b.add("reshape", {pairs}, {{"dims", {dims[0], dims[1], dims[2], 2 * angles}}});
    } else {
      turned = b.add("concat", {real, imaginary}, {{"axis", 3}});
    }
    if (2 * angles < dims[3]) {
      turned = b.add("concat", {turned, part(2 * angles, dims[3], 1)}, {{"axis", 3}});
    }
    return std::vector{a.integer("heads") == 0 ? turned : detail::heads_joined(b, turned)};
  };
  const auto divide = [](const attribute_writer& w, const resizing& r) {
    w["heads"][0] = w["heads"][0] == 0 ? 0 : w["heads"][0] * r.new_inputs[0][2] / r.inputs[0].dims[2];
  };
  return define("rotary_embedding", {3, 4}, 1, {integer_field("heads", 0), flag_field("interleaved", false)},
                composite{body, types})
      .with_elements({dtype::float32, dtype::float32, dtype::float32, dtype::int64})
      .divided_by(divide);
}

UNITY_INLINE definition attention() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto heads = a.integer("heads");
    bool ranks = true;
    for (std::size_t i = 0; i < 7; ++i) {
      ranks = ranks && j.require_rank(i, i < 3 ? 3U : 2U);
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
