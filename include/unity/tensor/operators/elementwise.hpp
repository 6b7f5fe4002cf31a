// Element-wise operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/judgement.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::operators {

// The element types on which a function is defined.
enum class domain : std::uint8_t { all, numbers, reals, integers, booleans };

[[nodiscard]] bool require(space& s, domain d);
// For definition::elements.
[[nodiscard]] std::vector<dtype> elements_of(domain d, int operands);

// Operand 0 and the result have the same indices.
void iterate_each(space& s, dtype element);

[[nodiscard]] definition unary(std::string name, scalar_op function, domain d);

[[nodiscard]] inline scalar_kernel copy_kernel(const attribute_reader&, std::span<const tensor_type>) {
  return kernels::x(0);
}

[[nodiscard]] inline definition identity() {
  const auto iteration = [](space& s, const attribute_reader&) { iterate_each(s, s.inputs()[0].element); };
  return define("identity", 1, 1, {}, primitive{iteration, copy_kernel}).with_layouts().running_in(runs_in::no_mode);
}

// The identity, as in inference. The adjoint applies its mask.
[[nodiscard]] definition dropout();

// To integers: rounds towards zero. To bool: true if not zero.
[[nodiscard]] definition cast();

// Broadcasts as in NumPy.
[[nodiscard]] definition binary(std::string name, scalar_op function, domain d);

// Shapes: x[...], s[] -> [...].
[[nodiscard]] definition scalar_multiply();

[[nodiscard]] std::vector<definition> elementwise();

// Operands broadcast as in NumPy; the result has their joint shape and this element type.
void iterate_jointly(space& s, dtype element);

// Operands broadcast as in NumPy; the first has the element type of the result.
[[nodiscard]] definition each(std::string name, int operands, scalar_kernel kernel, domain d);

// The cotangent of the operand of a function, from the cotangent of the result and either the operand or, if cheaper,
// the result. For maximum and minimum: the cotangent of the first operand, from both operands and the cotangent of the
// result.
[[nodiscard]] std::vector<definition> elementwise_gradients();

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_ELEMENTWISE)

#include <optional>

#include <unity/tensor/operators/parts.hpp>

namespace unity::tensor::operators {

UNITY_INLINE bool require(space& s, domain d) {
  switch (d) {
    case domain::numbers: return s.require_numeric();
    case domain::reals: return s.require_floating();
    case domain::integers: return s.require(is_integral(s.inputs()[0].element), "integer elements");
    case domain::booleans: return s.require(s.inputs()[0].element == dtype::boolean, "boolean elements");
    case domain::all: break;
  }
  return true;
}

UNITY_INLINE std::vector<dtype> elements_of(domain d, int operands) {
  const auto element = d == domain::booleans ? dtype::boolean : d == domain::integers ? dtype::int64 : dtype::float32;
  return std::vector(static_cast<std::size_t>(operands), element);
}

UNITY_INLINE void iterate_each(space& s, dtype element) {
  const auto indices = declare_all(s, s.dims(0));
  s.read(indices);
  s.write(indices, element);
}

UNITY_INLINE definition unary(std::string name, scalar_op function, domain d) {
  const auto iteration = [d](space& s, const attribute_reader&) {
    if (require(s, d)) {
      iterate_each(s, s.inputs()[0].element);
    }
  };
  const auto kernel = [function](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::apply(function, kernels::x(0));
  };
  return define(std::move(name), 1, 1, {}, primitive{iteration, kernel})
      .with_layouts()
      .with_elements(elements_of(d, 1));
}

UNITY_INLINE definition dropout() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto rate = a.real("rate");
    if (s.require_floating() && s.require(rate >= 0 && rate < 1, "a rate in [0, 1)")) {
      iterate_each(s, s.inputs()[0].element);
    }
  };
  const auto adjoint = [](body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    return std::vector{b.add("dropout", {p.cotangents[0]}, {{"rate", a.real("rate")}, {"seed", a.integer("seed")}})};
  };
  return define("dropout", 1, 1, {real_field("rate"), integer_field("seed", 0)}, primitive{iteration, copy_kernel})
      .with_adjoint(adjoint)
      .with_layouts()
      .running_in(runs_in::training);
}

UNITY_INLINE definition cast() {
  const auto iteration = [](space& s, const attribute_reader& a) { iterate_each(s, a.choice<dtype>("element")); };
  const auto kernel = [](const attribute_reader& a, std::span<const tensor_type> inputs) {
    const auto to = a.choice<dtype>("element");
    if (to == dtype::boolean && inputs[0].element != dtype::boolean) {
      return kernels::apply(scalar_op::nonzero, kernels::x(0));
    }
    const bool truncates = is_integral(to) && is_floating(inputs[0].element);
    return truncates ? kernels::apply(scalar_op::truncate, kernels::x(0)) : kernels::x(0);
  };
  const auto adjoint = [](body_builder& b, const attribute_reader&, const adjoint_problem& p) {
    const bool smooth = is_floating(p.inputs[0].element) && is_floating(p.outputs[0].element);
    return std::vector{smooth ? b.add("cast", {p.cotangents[0]}, {{"element", name_of(p.inputs[0].element)}})
                              : value_id{}};
  };
  return define("cast", 1, 1, {dtype_field("element")}, primitive{iteration, kernel})
      .with_adjoint(adjoint)
      .with_layouts();
}

UNITY_INLINE definition binary(std::string name, scalar_op function, domain d) {
  const auto iteration = [d](space& s, const attribute_reader&) {
    const auto joint = broadcast(s.dims(0), s.dims(1));
    if (require(s, d) && s.require(joint.has_value(), "operands that broadcast")) {
      const auto indices = declare_all(s, *joint);
      s.read(seen(indices, *joint, s.dims(0)));
      s.read(seen(indices, *joint, s.dims(1)));
      s.write(indices);
    }
  };
  const auto kernel = [function](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::apply(function, kernels::x(0), kernels::x(1));
  };
  return define(std::move(name), 2, 1, {}, primitive{iteration, kernel})
      .with_layouts()
      .with_elements(elements_of(d, 2));
}

UNITY_INLINE definition scalar_multiply() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (s.require_numeric()) {
      const auto indices = declare_all(s, s.dims(0));
      s.read(indices);
      s.read({});
      s.write(indices);
    }
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    return kernels::x(0) * kernels::x(1);
  };
  return define("scalar_multiply", 2, 1, {}, primitive{iteration, kernel}).with_layouts();
}

UNITY_INLINE std::vector<definition> elementwise() {
  return {unary("relu", scalar_op::relu, domain::numbers),
          unary("gelu", scalar_op::gelu, domain::reals),
          unary("tanh", scalar_op::tanh, domain::reals),
          unary("sigmoid", scalar_op::sigmoid, domain::reals),
          unary("exp", scalar_op::exp, domain::reals),
          unary("log", scalar_op::log, domain::reals),
          unary("erf", scalar_op::erf, domain::reals),
          unary("sqrt", scalar_op::sqrt, domain::reals),
          unary("reciprocal", scalar_op::reciprocal, domain::reals),
          unary("negate", scalar_op::negate, domain::numbers),
          unary("abs", scalar_op::abs, domain::numbers),
          identity(),
          binary("add", scalar_op::add, domain::numbers).commutative(),
          binary("sub", scalar_op::sub, domain::numbers),
          binary("mul", scalar_op::mul, domain::numbers).commutative(),
          binary("div", scalar_op::div, domain::reals),
          binary("pow", scalar_op::pow, domain::reals),
          binary("maximum", scalar_op::maximum, domain::numbers).commutative(),
          binary("minimum", scalar_op::minimum, domain::numbers).commutative(),
          scalar_multiply(),
          cast(),
          dropout()};
}

UNITY_INLINE void iterate_jointly(space& s, dtype element) {
  std::optional<shape> joint{shape{}};
  for (std::size_t i = 0; joint && i < s.inputs().size(); ++i) {
    joint = broadcast(*joint, s.dims(i));
  }
  if (s.require(joint.has_value(), "operands that broadcast")) {
    const auto indices = declare_all(s, *joint);
    for (std::size_t i = 0; i < s.inputs().size(); ++i) {
      s.read(seen(indices, *joint, s.dims(i)));
    }
    s.write(indices, element);
  }
}

UNITY_INLINE definition each(std::string name, int operands, scalar_kernel kernel, domain d) {
  const auto iteration = [d](space& s, const attribute_reader&) {
    if (require(s, d)) {
      iterate_jointly(s, s.inputs()[0].element);
    }
  };
  const auto value = [kernel = std::move(kernel)](const attribute_reader&, std::span<const tensor_type>) {
    return kernel;
  };
  return define(std::move(name), operands, 1, {}, primitive{iteration, value})
      .with_layouts()
      .with_elements(elements_of(d, operands));
}

UNITY_INLINE std::vector<definition> elementwise_gradients() {
  std::vector<definition> all;
  for (const auto& s : scalar_operators) {
    if (s.gradient.empty()) {
      continue;
    }
    const bool reals = s.op != scalar_op::abs && s.op != scalar_op::relu;
    if (const auto d = derivative_of(s.op)) {
      all.push_back(
          each(std::string{s.gradient}, 2, kernels::x(1) * d->factor, reals ? domain::reals : domain::numbers));
    } else {
      all.push_back(each(std::string{s.gradient}, 3, kernels::x(2) * share_of_first(s.op), domain::reals));
    }
  }
  // 1 where the operands are equal, 0 elsewhere.
  all.push_back(each("is_equal", 2, kernels::equal(kernels::x(0), kernels::x(1)), domain::numbers));
  return all;
}

}  // namespace unity::tensor::operators

#endif
