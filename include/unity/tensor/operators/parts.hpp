// Parts that families of operators share: index accesses that broadcast, windows that slide over an image, activations,
// and the adjoint of a composite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// The adjoint of a composite as a separate operator, derived from the body of the composite.

// An adjoint rule that adds the operator below, for a composite with these attributes.
[[nodiscard]] adjoint_rule composite_adjoint(std::string gradient, std::vector<std::string> attributes);

// `forward`: a composite with a shape function and `results` results. The attributes are those of `forward`, and `of`:
// the ascending numbers of the operands whose cotangents are computed. If `forward` is variadic, all operands except
// the cotangents belong to it.
// Shapes: the operands of `forward`, a cotangent per result -> one cotangent per operand in `of`.
[[nodiscard]] definition composite_gradient(const definition& forward, int results);

// Index accesses of operands that broadcast as in NumPy.

using accesses = small_vector<access, 8>;

// One parallel index per dimension of the joint shape.
[[nodiscard]] accesses declare_all(space& s, std::span<const std::int64_t> joint);

// The accesses of an operand of shape `dims`: none along the dimensions that are broadcast.
[[nodiscard]] accesses seen(std::span<const access> joint, std::span<const std::int64_t> sizes,
                            std::span<const std::int64_t> dims);

// Windows that slide over an image: paddings and output sizes of convolution and pooling.

// explicit: uses the attribute pads. same: ONNX's SAME_UPPER, TASO's SAME. same_lower: an odd element of padding goes
// before.
enum class padding : std::uint8_t { from_pads, same, same_lower, valid };

[[nodiscard]] inline attribute_field padding_field() {
  return choice_field("padding", {"explicit", "same", "same_lower", "valid"});
}

// How a kernel slides along one dimension.
struct slide {
  std::int64_t in = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  // padding
  std::int64_t after = 0;
  std::int64_t out = 0;  // 0: the kernel does not fit

  [[nodiscard]] std::int64_t reach() const noexcept { return (kernel - 1) * dilation + 1; }
};

inline constexpr std::int64_t max_slide = std::int64_t{1} << 20;

// Sets padding and output size. ceil: a last window may begin inside the input and end beyond its padding.
void resolve(slide& s, padding p, bool ceil) noexcept;

// Dimension `d` (0: height, 1: width) of an image of size `in`, from the attributes stride, padding, pads and, if
// given, dilation. Reports an error and returns out 0 if they are invalid.
[[nodiscard]] slide slide_over(space& s, const attribute_reader& a, std::size_t d, std::int64_t in, std::int64_t kernel,
                               std::int64_t dilation, bool ceil);

// As slide_over, for the image in operand 0.
[[nodiscard]] inline slide slide_of(space& s, const attribute_reader& a, std::size_t d, std::int64_t kernel,
                                    std::int64_t dilation, bool ceil) {
  return slide_over(s, a, d, s.dims(0)[2 + d], kernel, dilation, ceil);
}

// The element-wise functions with which matmul, linear and conv2d may end.

enum class activation : std::uint8_t { none, relu, sigmoid, tanh, gelu };

[[nodiscard]] inline attribute_field activation_field() {
  return choice_field("activation", {"none", "relu", "sigmoid", "tanh", "gelu"});
}

[[nodiscard]] scalar_kernel activate(const attribute_reader& a, scalar_kernel k);

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_PARTS)

#include <algorithm>
#include <optional>
#include <variant>

#include <fmt/core.h>

#include <unity/tensor/shape.hpp>

namespace unity::tensor::operators {

UNITY_INLINE adjoint_rule composite_adjoint(std::string gradient, std::vector<std::string> attributes) {
  return [gradient = std::move(gradient), attributes = std::move(attributes)](
             body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    std::vector<value_id> operands;
    attribute of;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      operands.push_back(p.operand(i));
      if (p.wanted[i]) {
        of.push_back(static_cast<std::int64_t>(i));
      }
    }
    for (std::size_t r = 0; r < p.outputs.size(); ++r) {
      operands.push_back(or_zeros(b, p.cotangents[r], p.outputs[r]));
    }
    std::vector<named_attribute> all{named_attribute{"of", of}};
    for (const auto& name : attributes) {
      all.push_back(a.named(name));
    }
    const auto results = b.add_all(gradient, operands, all);
    std::vector<value_id> cotangents(p.inputs.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      cotangents[static_cast<std::size_t>(of[i])] = results[i];
    }
    return cotangents;
  };
}

UNITY_INLINE definition composite_gradient(const definition& forward, int results) {
  const auto outputs = static_cast<std::size_t>(results);
  const auto types = [outputs, judge = std::get<composite>(forward.body).types](judgement& j,
                                                                                const attribute_reader& a) {
    const auto count = j.inputs().size() - outputs;
    judgement inner{j.inputs().first(count)};
    judge(inner, a);
    if (inner.allows_mixed_elements()) {
      j.allow_mixed_elements();
    }
    if (!j.require(!inner.failed(), "operands of the operator whose adjoint it is")) {
      return;
    }
    for (std::size_t r = 0; r < outputs; ++r) {
      j.require(j.dims(count + r) == inner.results()[r].dims, "a cotangent of the shape of its result",
                static_cast<int>(count + r));
    }
    std::int64_t least = 0;
    for (const auto i : a.integers("of")) {
      if (!j.require(i >= least && i < static_cast<std::int64_t>(count), "ascending numbers of operands")) {
        return;
      }
      least = i + 1;
      j.result(j.dims(static_cast<std::size_t>(i)));
    }
    j.require(least > 0, "at least one operand");
  };
  const auto body = [outputs, name = forward.signature.name, fields = forward.signature.attributes](
                        body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto count = x.size() - outputs;
    std::vector<named_attribute> attributes;
    for (const auto& f : fields) {
      attributes.push_back(a.named(f.name));
    }
    std::vector<tensor_type> all;
    for (const auto v : x) {
      all.push_back(b.type(v));
    }
    const std::span<const tensor_type> known{all};
    adjoint_problem p{known.first(count), known.subspan(count, outputs), {}, {}, {}, std::vector<bool>(count)};
    p.operand = [x](std::size_t i) { return x[i]; };
    p.result = [&](std::size_t r) { return b.add_all(name, x.first(count), attributes)[r]; };
    p.cotangents.assign(x.begin() + static_cast<std::ptrdiff_t>(count), x.end());
    for (const auto i : a.integers("of")) {
      p.wanted[static_cast<std::size_t>(i)] = true;
    }
    const auto cotangents = b.add_body_adjoint(name, attributes, p);
    std::vector<value_id> wanted;
    for (const auto i : a.integers("of")) {
      const auto operand = static_cast<std::size_t>(i);
      wanted.push_back(or_zeros(b, cotangents[operand], all[operand]));
    }
    return wanted;
  };
  auto fields = forward.fields;
  fields.push_back(integers_field("of"));
  // A cotangent per result follows the operands. The judge of the forward operator relies on their number.
  auto takes = forward.signature.operands;
  takes.least += results;
  takes.most += takes.most == operand_count::unlimited ? 0 : results;
  auto elements = forward.elements;
  return define(fmt::format("{}_gradient", forward.signature.name), takes, op_signature::any, std::move(fields),
                composite{body, types})
      .with_elements(std::move(elements))
      .divided_by(forward.resize_part);
}

UNITY_INLINE accesses declare_all(space& s, std::span<const std::int64_t> joint) {
  accesses indices;
  for (const auto size : joint) {
    indices.push_back(s.parallel("i", size));
  }
  return indices;
}

UNITY_INLINE accesses seen(std::span<const access> joint, std::span<const std::int64_t> sizes,
                           std::span<const std::int64_t> dims) {
  accesses own;
  const auto skipped = joint.size() - dims.size();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    own.push_back(dims[d] == sizes[d + skipped] ? joint[d + skipped] : access{});
  }
  return own;
}

UNITY_INLINE void resolve(slide& s, padding p, bool ceil) noexcept {
  if (p == padding::same || p == padding::same_lower) {
    s.out = (s.in + s.stride - 1) / s.stride;
    const auto total = std::max((s.out - 1) * s.stride + s.reach() - s.in, std::int64_t{0});
    s.before = p == padding::same ? total / 2 : total - total / 2;
    s.after = total - s.before;
    return;
  }
  const auto free = s.in + s.before + s.after - s.reach();
  if (free < 0) {
    return;
  }
  s.out = (ceil ? free + s.stride - 1 : free) / s.stride + 1;
  if (ceil && (s.out - 1) * s.stride >= s.in + s.before) {
    --s.out;
  }
}

UNITY_INLINE slide slide_over(space& s, const attribute_reader& a, std::size_t d, std::int64_t in, std::int64_t kernel,
                              std::int64_t dilation, bool ceil) {
  const auto p = a.choice<padding>("padding");
  const auto pads = a.integers("pads");
  slide w{in, kernel, a.integers("stride")[d], dilation, pads[d], pads[2 + d], 0};
  const auto bounded = [](std::int64_t value, std::int64_t least) { return value >= least && value <= max_slide; };
  if (!s.require(bounded(w.kernel, 1) && bounded(w.stride, 1) && bounded(w.dilation, 1),
                 "positive kernel, stride and dilation of sensible size") ||
      !s.require(bounded(w.before, 0) && bounded(w.after, 0), "non-negative pads of sensible size") ||
      !s.require(p == padding::from_pads || (w.before == 0 && w.after == 0), "zero pads unless padding is explicit") ||
      !s.require(w.in > 0 && w.in <= max_elements, "a positive image size")) {
    return {};  // invalid: sizes must not be computed from it
  }
  resolve(w, p, ceil);
  s.require(w.out > 0, "a padded image at least as large as the kernel");
  return w;
}

UNITY_INLINE scalar_kernel activate(const attribute_reader& a, scalar_kernel k) {
  switch (a.choice<activation>("activation")) {
    case activation::none: return k;
    case activation::relu: return kernels::apply(scalar_op::relu, std::move(k));
    case activation::sigmoid: return kernels::apply(scalar_op::sigmoid, std::move(k));
    case activation::tanh: return kernels::apply(scalar_op::tanh, std::move(k));
    case activation::gelu: return kernels::apply(scalar_op::gelu, std::move(k));
  }
  return k;
}

}  // namespace unity::tensor::operators

#endif
