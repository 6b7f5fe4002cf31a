// Softmax and the normalizations, as graphs of simpler operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
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

// The logarithm of softmax.
[[nodiscard]] definition log_softmax();

// softmax, log_softmax or hardmax (chosen by `function`) over all dimensions from the axis on, flattened.
// Source: ONNX below opset 13.
[[nodiscard]] definition flat_softmax();

// Normalizes each of `groups` groups of consecutive channels to mean 0 and variance 1 in each sample; scale and bias
// are per group or per channel.
// Shapes: x[n, c, ...], scale[groups or c], bias[same as scale] -> [n, c, ...].
// Source: Wu and He, Group Normalization (2018).
[[nodiscard]] definition group_norm();

// group_norm with one group per channel.
[[nodiscard]] definition instance_norm();

// x / sqrt(mean of x^2 + epsilon) * scale, over the dimensions from axis to the last; scale broadcasts with them.
[[nodiscard]] definition rms_norm();

// x / (bias + alpha / size * sum of x^2)^beta; the sum is over `size` channels around each.
// Shapes: x[n, c, ...] -> [n, c, ...].
// Source: Krizhevsky et al., ImageNet Classification (2012) section 3.3.
[[nodiscard]] definition local_response_norm();

// x / its norm along an axis: the sum of absolute values (p = 1) or the square root of the sum of squares (p = 2).
// Zeros stay zeros.
[[nodiscard]] definition lp_norm();

// (x - mean) / (standard deviation + 1e-9) over the axes.
[[nodiscard]] definition mean_variance_norm();

namespace detail {

// Requires scale and bias of one element per channel or per group.
void judge_group_norm(judgement& j, const attribute_reader& a, std::int64_t groups);

// Sums over the channels of x[n, c, ...] from `before` before each to `after` after it.
[[nodiscard]] value_id window_sum(body_builder& b, value_id x, std::int64_t before, std::int64_t after);

[[nodiscard]] std::vector<value_id> group_norm_body(body_builder& b, double epsilon, std::int64_t groups,
                                                    std::span<const value_id> x);

}  // namespace detail

[[nodiscard]] inline std::vector<definition> feature_normalizations() {
  return {log_softmax(), flat_softmax(),        group_norm(), instance_norm(),
          rms_norm(),    local_response_norm(), lp_norm(),    mean_variance_norm()};
}

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_NORMALIZATION)

#include <algorithm>
#include <numeric>

#include <unity/tensor/operators/movement.hpp>
#include <unity/tensor/operators/reduction.hpp>

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
    if (!j.require_floating() || !j.require(j.rank(0) >= 2, "rank 2 or more", 0) ||
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

UNITY_INLINE definition log_softmax() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && require_axis(j, a.integer("axis"))) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axes = a.integers("axis");
    const auto shifted = b.add("sub", {x[0], b.add("reduce_max", {x[0]}, {{"axes", axes}})});
    const auto sum = b.add("reduce_sum", {b.add("exp", {shifted})}, {{"axes", axes}});
    return std::vector{b.add("sub", {shifted, b.add("log", {sum})})};
  };
  return define("log_softmax", 1, 1, {integer_field("axis")}, composite{body, types});
}

UNITY_INLINE definition flat_softmax() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto axis = a.integer("axis");
    if (j.require_floating() &&
        j.require(axis >= 0 && axis <= static_cast<std::int64_t>(j.rank(0)), "an axis within the rank")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    constexpr const char* functions[] = {"softmax", "log_softmax", "hardmax"};
    const auto dims = b.type(x[0]).dims;
    shape flat{1, 1};
    for (std::size_t d = 0; d < dims.size(); ++d) {
      flat[static_cast<std::int64_t>(d) < a.integer("axis") ? 0 : 1] *= dims[d];
    }
    const auto rows = b.add("reshape", {x[0]}, {{"dims", flat}});
    const auto y = b.add(functions[a.integer("function")], {rows}, {{"axis", 1}});
    return std::vector{b.add("reshape", {y}, {{"dims", dims}})};
  };
  return define("flat_softmax", 1, 1,
                {integer_field("axis"), choice_field("function", {"softmax", "log_softmax", "hardmax"})},
                composite{body, types});
}

UNITY_INLINE void detail::judge_group_norm(judgement& j, const attribute_reader& a, std::int64_t groups) {
  if (!j.require_floating() || !j.require(j.rank(0) >= 2, "rank 2 or more", 0)) {
    return;
  }
  const auto channels = j.dims(0)[1];
  if (!j.require(groups > 0 && channels % groups == 0, "channels that are a multiple of groups", 0)) {
    return;
  }
  for (std::size_t i = 1; i < 3; ++i) {
    j.require(j.rank(i) == 1 && (j.dims(i)[0] == channels || j.dims(i)[0] == groups), "one value per channel or group",
              static_cast<int>(i));
  }
  j.require(j.dims(1) == j.dims(2), "as many values as of the scale", 2);
  j.require(a.real("epsilon") >= 0, "a non-negative epsilon");
  j.result(j.dims(0));
}

UNITY_INLINE std::vector<value_id> detail::group_norm_body(body_builder& b, double epsilon, std::int64_t groups,
                                                           std::span<const value_id> x) {
  const auto dims = b.type(x[0]).dims;
  const auto per_group = dims[1] / groups;
  shape grouped{dims[0], groups, per_group, 1};
  for (std::size_t d = 2; d < dims.size(); ++d) {
    grouped[3] *= dims[d];
  }
  const auto along = [&](value_id v) {
    const bool of_groups = b.type(v).dims[0] == groups;
    return b.add("reshape", {v}, {{"dims", {groups, of_groups ? 1 : per_group, 1}}});
  };
  const auto in = b.add("reshape", {x[0]}, {{"dims", grouped}});
  const auto centred = b.add("sub", {in, b.add("reduce_mean", {in}, {{"axes", {2, 3}}})});
  const auto variance = b.add("reduce_mean", {b.add("mul", {centred, centred})}, {{"axes", {2, 3}}});
  const auto out = normalize(b, centred, variance, epsilon, along(x[1]), along(x[2]));
  return {b.add("reshape", {out}, {{"dims", dims}})};
}

UNITY_INLINE definition group_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    detail::judge_group_norm(j, a, a.integer("groups"));
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return detail::group_norm_body(b, a.real("epsilon"), a.integer("groups"), x);
  };
  // Parts are of whole groups.
  return define("group_norm", 3, 1, {integer_field("groups"), real_field("epsilon", 1e-5)}, composite{body, types})
      .divided_by([](const attribute_writer& w, const resizing& r) {
        w["groups"][0] = w["groups"][0] * r.new_inputs[0][1] / r.inputs[0].dims[1];
      });
}

UNITY_INLINE definition instance_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    detail::judge_group_norm(j, a, j.rank(0) >= 2 ? j.dims(0)[1] : 0);
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return detail::group_norm_body(b, a.real("epsilon"), b.type(x[0]).dims[1], x);
  };
  return define("instance_norm", 3, 1, {real_field("epsilon", 1e-5)}, composite{body, types});
}

UNITY_INLINE definition rms_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (!j.require_floating() || !require_axis(j, a.integer("axis"))) {
      return;
    }
    const shape normalized(
        std::span<const std::int64_t>{j.dims(0)}.subspan(static_cast<std::size_t>(a.integer("axis"))));
    if (j.require(broadcast(normalized, j.dims(1)) == normalized, "what broadcasts to the normalized dimensions", 1) &&
        j.require(a.real("epsilon") >= 0, "a non-negative epsilon")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    std::vector<std::int64_t> axes(b.type(x[0]).rank() - static_cast<std::size_t>(a.integer("axis")));
    std::iota(axes.begin(), axes.end(), a.integer("axis"));
    const auto square = b.add("reduce_mean", {b.add("mul", {x[0], x[0]})}, {{"axes", axes}});
    const auto size = b.add("sqrt", {b.add("add", {square, scalar(b, a.real("epsilon"), square)})});
    return std::vector{b.add("mul", {b.add("div", {x[0], size}), x[1]})};
  };
  return define("rms_norm", 2, 1, {integer_field("axis"), real_field("epsilon", 1e-5)}, composite{body, types});
}

UNITY_INLINE value_id detail::window_sum(body_builder& b, value_id x, std::int64_t before, std::int64_t after) {
  const auto channels = b.type(x).dims[1];
  if (std::min(before, after) >= channels - 1) {
    return b.add("reduce_sum", {x}, {{"axes", {1}}});
  }
  before = std::min(before, channels - 1);
  after = std::min(after, channels - 1);
  shape pads(2 * b.type(x).rank(), 0);
  pads[1] = before;
  pads[b.type(x).rank() + 1] = after;
  const auto padded = b.add("pad", {x}, {{"pads", pads}, {"value", 0.0}});
  value_id sum;
  for (std::int64_t from = 0; from <= before + after; ++from) {
    const auto part =
        b.add("slice", {padded}, {{"axes", {1}}, {"starts", {from}}, {"ends", {from + channels}}, {"steps", {1}}});
    sum = sum.valid() ? b.add("add", {sum, part}) : part;
  }
  return sum;
}

UNITY_INLINE definition local_response_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && j.require(j.rank(0) >= 2, "rank 2 or more", 0) &&
        j.require(a.integer("size") > 0, "a positive number of channels")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto size = a.integer("size");
    const auto squares = b.add("mul", {x[0], x[0]});
    const auto sum = detail::window_sum(b, squares, (size - 1) / 2, size / 2);
    const auto share = scalar(b, a.real("alpha") / static_cast<double>(size), sum);
    const auto base = b.add("add", {b.add("scalar_multiply", {sum, share}), scalar(b, a.real("bias"), sum)});
    return std::vector{b.add("div", {x[0], b.add("pow", {base, scalar(b, a.real("beta"), sum)})})};
  };
  return define("local_response_norm", 1, 1,
                {integer_field("size"), real_field("alpha", 1e-4), real_field("beta", 0.75), real_field("bias", 1.0)},
                composite{body, types});
}

UNITY_INLINE definition lp_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    if (j.require_floating() && require_axis(j, a.integer("axis")) &&
        j.require(a.integer("p") == 1 || a.integer("p") == 2, "a norm of 1 or 2")) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto* norm = a.integer("p") == 1 ? "reduce_l1" : "reduce_l2";
    return std::vector{b.add("div", {x[0], nonzero_or_one(b, b.add(norm, {x[0]}, {{"axes", a.integers("axis")}}))})};
  };
  return define("lp_norm", 1, 1, {integer_field("axis"), integer_field("p", 2)}, composite{body, types});
}

UNITY_INLINE definition mean_variance_norm() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto axes = a.integers("axes");
    if (j.require_floating() && j.require(!axes.empty(), "at least one axis") && require_axes(j, axes, j.rank(0))) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto axes = a.integers("axes");
    const auto centred = b.add("sub", {x[0], b.add("reduce_mean", {x[0]}, {{"axes", axes}})});
    const auto variance = b.add("reduce_mean", {b.add("mul", {centred, centred})}, {{"axes", axes}});
    const auto deviation = b.add("add", {b.add("sqrt", {variance}), scalar(b, 1e-9, variance)});
    return std::vector{b.add("div", {centred, deviation})};
  };
  return define("mean_variance_norm", 1, 1, {integers_field("axes")}, composite{body, types});
}

}  // namespace unity::tensor::operators

#endif
