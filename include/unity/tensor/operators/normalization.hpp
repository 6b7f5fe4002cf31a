// Softmax and the normalizations, as graphs of simpler operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operators/composite_gradient.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

// exp(x - max) / sum, along one axis.
[[nodiscard]] definition softmax();

// Shapes: softmax(x)[...], cotangent[...] -> [...].
[[nodiscard]] definition softmax_gradient();

// A rank-0 constant of the element type of `like`.
[[nodiscard]] inline value_id scalar(body_builder& b, double value, value_id like) {
  return b.add("fill", {}, {{"value", value}, {"element", name_of(b.type(like).element)}, {"dims", {}}});
}

// (x - mean) / sqrt(variance + epsilon) * scale + shift
[[nodiscard]] inline value_id normalize(body_builder& b, value_id centred, value_id variance, double epsilon,
                                        value_id scale, value_id shift) {
  const auto deviation = b.add("sqrt", {b.add("add", {variance, scalar(b, epsilon, variance)})});
  return b.add("add", {b.add("mul", {b.add("div", {centred, deviation}), scale}), shift});
}

// Normalizes over the dimensions from axis to the last, which are also the dimensions of gamma and beta.
[[nodiscard]] definition layer_norm();

// Uses given statistics, as in inference.
// Shapes: x[n, c, ...], scale[c], bias[c], mean[c], variance[c] -> [n, c, ...].
[[nodiscard]] definition batch_norm();

[[nodiscard]] inline std::vector<definition> normalizations() { return {softmax(), layer_norm(), batch_norm()}; }
[[nodiscard]] inline std::vector<definition> normalization_gradients() {
  return {softmax_gradient(), composite_gradient(layer_norm(), 1), composite_gradient(batch_norm(), 1)};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_NORMALIZATION)

#include <span>

#include <unity/tensor/operators/movement.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition softmax() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && require_axis(j, a.integer("axis"))) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axes = a.integers("axis");
    const auto shifted = b.add("sub", {x[0], b.add("reduce_max", {x[0]}, {{"axes", axes}})});
    const auto powers = b.add("exp", {shifted});
    return std::vector{b.add("div", {powers, b.add("reduce_sum", {powers}, {{"axes", axes}})})};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    return std::vector{b.add("softmax_gradient", {p.result(0), p.cotangents[0]}, {{"axis", a.integers("axis")}})};
  };
  return define("softmax", 1, 1, {integer_field("axis")}, composite{body, types}).with_adjoint(adjoint);
}

UNITY_INLINE definition softmax_gradient() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && require_axis(j, a.integer("axis")) &&
        j.require(j.dims(0) == j.dims(1), "operands of one shape")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto mean = b.add("reduce_sum", {b.add("mul", {x[0], x[1]})}, {{"axes", a.integers("axis")}});
    return std::vector{b.add("mul", {x[0], b.add("sub", {x[1], mean})})};
  };
  return define("softmax_gradient", 2, 1, {integer_field("axis")}, composite{body, types});
}

UNITY_INLINE definition layer_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_floating() || !require_axis(j, a.integer("axis"))) {
      return;
    }
    const shape normalized(
        std::span<const std::int64_t>{j.dims(0)}.subspan(static_cast<std::size_t>(a.integer("axis"))));
    if (j.require(j.dims(1) == normalized, "the normalized dimensions", 1) &&
        j.require(j.dims(2) == normalized, "the normalized dimensions", 2) &&
        j.require(a.real("epsilon") >= 0, "a non-negative epsilon")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    small_vector<std::int64_t, 6> axes;
    for (auto d = a.integer("axis"); d < static_cast<std::int64_t>(b.type(x[0]).rank()); ++d) {
      axes.push_back(d);
    }
    const auto centred = b.add("sub", {x[0], b.add("reduce_mean", {x[0]}, {{"axes", axes}})});
    const auto variance = b.add("reduce_mean", {b.add("mul", {centred, centred})}, {{"axes", axes}});
    return std::vector{normalize(b, centred, variance, a.real("epsilon"), x[1], x[2])};
  };
  return define("layer_norm", 3, 1, {integer_field("axis"), real_field("epsilon", 1e-5)}, composite{body, types})
      .with_adjoint(composite_adjoint("layer_norm_gradient", {"axis", "epsilon"}));
}

UNITY_INLINE definition batch_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_floating() || !j.require(j.rank(0) >= 2, "an operand of rank 2 or more", 0) ||
        !j.require(a.real("epsilon") >= 0, "a non-negative epsilon")) {
      return;
    }
    for (std::size_t i = 1; i < 5; ++i) {
      j.require(j.rank(i) == 1 && j.dims(i)[0] == j.dims(0)[1], "one value per channel", static_cast<int>(i));
    }
    j.result(j.dims(0));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    shape per_channel(b.type(x[0]).rank() - 1, 1);
    per_channel[0] = b.type(x[0]).dims[1];
    const auto along = [&](value_id v) { return b.add("reshape", {v}, {{"dims", per_channel}}); };
    const auto centred = b.add("sub", {x[0], along(x[3])});
    return std::vector{normalize(b, centred, along(x[4]), a.real("epsilon"), along(x[1]), along(x[2]))};
  };
  return define("batch_norm", 5, 1, {real_field("epsilon", 1e-5)}, composite{body, types})
      .with_adjoint(composite_adjoint("batch_norm_gradient", {"epsilon"}));
}

}  // namespace unity::tensor::operators

#endif
