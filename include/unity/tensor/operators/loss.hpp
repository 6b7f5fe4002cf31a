// Losses of classifiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

// 1 at the class of the label, 0 elsewhere; all 0 if the label is not a class.
// Shapes: labels[...] -> [..., classes].
[[nodiscard]] definition one_hot();

// Requires logits[..., c] and labels[...]; reports errors.
bool require_labelled_logits(judgement& j);

[[nodiscard]] inline value_id one_hot_like(body_builder& b, value_id labels, value_id logits) {
  const auto& t = b.type(logits);
  return b.add("one_hot", {labels}, {{"classes", t.dims[t.rank() - 1]}, {"element", name_of(t.element)}});
}

// Minus the logarithm of the softmax at the label; 0 if the label is not a class. The logits must be finite.
// Shapes: logits[..., c], labels[...] -> [...].
[[nodiscard]] definition cross_entropy();

// (softmax - one-hot row of the label) * cotangent; 0 if the label is not a class.
// Shapes: logits[..., c], labels[...], cotangent[...] -> [..., c].
[[nodiscard]] definition cross_entropy_gradient();

[[nodiscard]] inline std::vector<definition> losses() { return {one_hot(), cross_entropy(), cross_entropy_gradient()}; }

// Weighted losses of classifiers; the class dimension is dimension 1.

// How the losses of all labels are combined.
enum class loss_reduction : std::uint8_t { mean, sum, none };

// Minus the element of log_probabilities at the label, times the weight of its class; 0 for the label `ignored` if
// `ignores` is set, and for a label that is not a class. mean: the sum divided by the sum of the weights. Elements must
// be finite. Shapes: log_probabilities[n, c, ...], labels[n, ...], and optional weights[c] -> [n, ...], or [] if
// reduced.
[[nodiscard]] definition negative_log_likelihood();

// negative_log_likelihood of log_softmax along the classes. Shapes: scores[n, c, ...] in place of log_probabilities.
[[nodiscard]] definition softmax_cross_entropy();

[[nodiscard]] inline std::vector<definition> likelihood_losses() {
  return {negative_log_likelihood(), softmax_cross_entropy()};
}

namespace detail {

void judge_likelihood(judgement& j, const attribute_reader& a);

// x: all operands; log_probabilities takes the place of x[0].
[[nodiscard]] value_id likelihood_body(body_builder& b, const attribute_reader& a, value_id log_probabilities,
                                       std::span<const value_id> x);

}  // namespace detail

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_LOSS)

#include <unity/tensor/operators/normalization.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/selection.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition one_hot() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto classes = a.integer("classes");
    s.allow_mixed_elements();
    if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
        !s.require(classes > 0 && classes <= max_elements, "a positive number of classes")) {
      return;
    }
    // The class index must come first: the kernel refers to it by number.
    const auto c = s.parallel("c", classes);
    accesses labels;
    for (std::size_t d = 0; d < s.rank(0); ++d) {
      labels.push_back(s.parallel("i"));
    }
    s.read(labels);
    labels.push_back(c);
    s.write(labels, a.choice<dtype>("element"));
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::equal(kernels::x(0), kernels::coordinate(0));
  };
  return define("one_hot", 1, 1, {integer_field("classes"), dtype_field("element")}, primitive{iteration, kernel})
      .with_elements({dtype::int64});
}

UNITY_INLINE bool require_labelled_logits(judgement& j) {
  j.allow_mixed_elements();
  return j.require(is_floating(j.inputs()[0].element), "floating-point elements", 0) &&
         j.require(is_integral(j.inputs()[1].element), "integers", 1) &&
         j.require(j.rank(0) >= 1, "rank 1 or more", 0) &&
         j.require(j.dims(1) == shape(std::span<const std::int64_t>{j.dims(0)}.first(j.rank(0) - 1)),
                   "a label per row of the logits", 1);
}

UNITY_INLINE definition cross_entropy() {
  const auto types = [](judgement& j, const attribute_reader&) {
    if (require_labelled_logits(j)) {
      j.result(j.dims(1), j.inputs()[0].element);
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto last = static_cast<std::int64_t>(b.type(x[0]).rank()) - 1;
    const auto shifted = b.add("sub", {x[0], b.add("reduce_max", {x[0]}, {{"axes", {last}}})});
    const auto sum = b.add("reduce_sum", {b.add("exp", {shifted})}, {{"axes", {last}}});
    const auto of_each = b.add("sub", {b.add("log", {sum}), shifted});
    const auto of_label = b.add("mul", {one_hot_like(b, x[1], x[0]), of_each});
    return std::vector{b.add("reduce_sum", {of_label}, {{"axes", {last}}, {"keep_dims", 0}})};
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    const auto logits = b.add("cross_entropy_gradient", {p.operand(0), p.operand(1), p.cotangents[0]});
    return std::vector{logits, value_id{}};
  };
  return define("cross_entropy", 2, 1, {}, composite{body, types})
      .with_adjoint(adjoint)
      .with_elements({dtype::float32, dtype::int64});
}

UNITY_INLINE definition cross_entropy_gradient() {
  const auto types = [](judgement& j, const attribute_reader&) {
    if (require_labelled_logits(j) && j.require(j.dims(2) == j.dims(1), "a cotangent per row of the logits", 2) &&
        j.require(j.inputs()[2].element == j.inputs()[0].element, "the element type of the logits", 2)) {
      j.result(j.dims(0));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader&, std::span<const value_id> x) {
    const auto& t = b.type(x[0]);
    const auto last = static_cast<std::int64_t>(t.rank()) - 1;
    const auto classes = t.dims[t.rank() - 1];
    const auto ones = b.add("fill", {}, {{"value", 1.0}, {"element", name_of(t.element)}, {"dims", {classes}}});
    // Not computed as the sum of the one-hot row, which would need another pass over it.
    const auto is_class = b.add("embedding", {ones, x[1]});
    const auto of_row = b.add("unsqueeze", {b.add("mul", {x[2], is_class})}, {{"axes", {last}}});
    const auto apart = b.add("sub", {b.add("softmax", {x[0]}, {{"axis", last}}), one_hot_like(b, x[1], x[0])});
    return std::vector{b.add("mul", {apart, of_row})};
  };
  return define("cross_entropy_gradient", 3, 1, {}, composite{body, types})
      .with_elements({dtype::float32, dtype::int64});
}

UNITY_INLINE void detail::judge_likelihood(judgement& j, const attribute_reader& a) {
  j.allow_mixed_elements();
  if (!j.require_floating() || !j.require(is_integral(j.inputs()[1].element), "integers", 1) ||
      !j.require(j.rank(0) >= 2, "rank 2 or more", 0)) {
    return;
  }
  shape labels = j.dims(0);
  labels.erase(labels.begin() + 1);
  j.require(j.dims(1) == labels, "a label per row of classes", 1);
  if (j.inputs().size() == 3) {
    j.require(j.dims(2) == shape{j.dims(0)[1]} && j.inputs()[2].element == j.inputs()[0].element, "a weight per class",
              2);
  }
  const bool is_reduced = a.choice<loss_reduction>("reduction") != loss_reduction::none;
  j.result(is_reduced ? shape{} : labels, j.inputs()[0].element);
}

UNITY_INLINE value_id detail::likelihood_body(body_builder& b, const attribute_reader& a, value_id log_probabilities,
                                              std::span<const value_id> x) {
  const auto t = b.type(x[0]);
  const auto classes = t.dims[1];
  shape per_class(t.rank() - 1, 1);
  per_class[0] = classes;
  // The weight of each label at its class, 0 elsewhere.
  auto weights = add_is_position(b, x[1], 1, classes, t.element);
  if (x.size() == 3) {
    weights = b.add("mul", {weights, b.add("reshape", {x[2]}, {{"dims", per_class}})});
  }
  const auto ignored = a.integer("ignored");
  if (a.flag("ignores") && ignored >= 0 && ignored < classes) {
    shape pads{ignored, 0, classes - 1 - ignored, 0};
    const auto none = b.add("fill", {}, {{"value", -1.0}, {"element", name_of(t.element)}, {"dims", {1, 1}}});
    const auto kept = b.add("add", {b.add("pad", {none}, {{"pads", pads}, {"value", 0.0}}), scalar(b, 1, weights)});
    weights = b.add("mul", {weights, b.add("reshape", {kept}, {{"dims", per_class}})});
  }
  const auto losses = b.add("negate", {b.add("mul", {weights, log_probabilities})});
  const auto reduction = a.choice<loss_reduction>("reduction");
  if (reduction == loss_reduction::none) {
    return b.add("reduce_sum", {losses}, {{"axes", {1}}, {"keep_dims", 0}});
  }
  std::vector<std::int64_t> all;
  for (std::size_t d = 0; d < t.rank(); ++d) {
    all.push_back(static_cast<std::int64_t>(d));
  }
  const auto total = [&](value_id v) { return b.add("reduce_sum", {v}, {{"axes", all}, {"keep_dims", 0}}); };
  return reduction == loss_reduction::sum ? total(losses) : b.add("div", {total(losses), total(weights)});
}

UNITY_INLINE definition negative_log_likelihood() {
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return std::vector{detail::likelihood_body(b, a, x[0], x)};
  };
  return define("negative_log_likelihood", {2, 3}, 1,
                {choice_field("reduction", {"mean", "sum", "none"}), flag_field("ignores", false),
                 integer_field("ignored", 0)},
                composite{body, detail::judge_likelihood})
      .with_elements({dtype::float32, dtype::int64});
}

UNITY_INLINE definition softmax_cross_entropy() {
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return std::vector{detail::likelihood_body(b, a, b.add("log_softmax", {x[0]}, {{"axis", 1}}), x)};
  };
  return define("softmax_cross_entropy", {2, 3}, 1,
                {choice_field("reduction", {"mean", "sum", "none"}), flag_field("ignores", false),
                 integer_field("ignored", 0)},
                composite{body, detail::judge_likelihood})
      .with_elements({dtype::float32, dtype::int64});
}

}  // namespace unity::tensor::operators

#endif
