// The indices of the largest elements of a vector, and the operators that define them.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::tensor::operators {

// The type of indices of this many elements.
[[nodiscard]] constexpr dtype number_type(std::int64_t elements) noexcept {
  return elements <= std::numeric_limits<std::int32_t>::max() ? dtype::int32 : dtype::int64;
}

// For each y with its index, the number of elements of x that precede it by magnitude: those with larger absolute
// value, and equal ones with a lower index. A NaN is larger than all numbers and equal to another NaN, so it comes
// first and is not lost.
// Shapes: x[n], y[n] -> [n], integers.
[[nodiscard]] definition magnitude_place();

// Element r is the index of the element of places that equals r, or the sum of the indices of all that do.
// Shapes: places[n] -> [count].
[[nodiscard]] definition elements_at_places();

// The indices of the `count` elements of largest magnitude, in descending order; equal ones by lower index, NaN as in
// magnitude_place. Defined by the places of all elements in O(n^2); backends need not compute them. The adjoint is
// zero.
// Shapes: x[n] -> [count], int32, or int64 if n requires it.
[[nodiscard]] definition top_k();

[[nodiscard]] inline std::vector<definition> selections() { return {magnitude_place(), elements_at_places(), top_k()}; }

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_SELECTION)

#include <span>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/tensor/operators/broadcasting.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::operators {

UNITY_INLINE definition magnitude_place() {
  const auto iteration = [](space& s, const attribute_reader&) {
    if (!s.require_floating() || !s.require(s.dims(0) == s.dims(1), "as many elements", 1)) {
      return;
    }
    const auto other = s.reduced("j");
    const auto own = s.parallel("i");
    s.read({other});
    s.read({own});
    const accesses places{own};
    s.write(places, number_type(element_count(s.dims(0))));
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    const auto size = [](int operand) { return apply(scalar_op::abs, x(operand)); };
    const auto is_number = [](int operand) { return equal(x(operand), x(operand)); };
    const auto at_most = [](const scalar_kernel& a, const scalar_kernel& b) {
      return equal(apply(scalar_op::maximum, a, b), b);
    };
    const auto is_larger = [&](int a, int b) {
      return is_number(b) * (literal(1) - is_number(a) * at_most(size(a), size(b)));
    };
    const auto comes_first = literal(1) - at_most(coordinate(1), coordinate(0));
    return sum(is_larger(0, 1) + (literal(1) - is_larger(0, 1)) * (literal(1) - is_larger(1, 0)) * comes_first);
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}, value_id{}};
  };
  return define("magnitude_place", 2, 1, {}, primitive{iteration, kernel}).with_adjoint(adjoint);
}

UNITY_INLINE definition elements_at_places() {
  const auto iteration = [](space& s, const attribute_reader& a) {
    const auto count = a.integer("count");
    if (!s.require(is_integral(s.inputs()[0].element), "integers", 0) ||
        !s.require(count > 0 && count <= max_elements, "a positive number of elements")) {
      return;
    }
    const auto place = s.parallel("r", count);
    const auto element = s.reduced("i");
    s.read({element});
    s.write({place});
  };
  const auto kernel = [](const attribute_reader&, std::span<const tensor_type>) {
    using namespace kernels;
    return sum(equal(x(0), coordinate(0)) * coordinate(1));
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  return define("elements_at_places", 1, 1, {integer_field("count")}, primitive{iteration, kernel})
      .with_adjoint(adjoint);
}

UNITY_INLINE definition top_k() {
  const auto types = [](judgement& j, const attribute_reader& a) {
    const auto count = a.integer("count");
    if (j.require_floating() && j.require(j.rank(0) == 1, "a vector", 0) &&
        j.require(count > 0 && count <= j.dims(0)[0], "a number of elements that the vector has")) {
      j.result({count}, number_type(j.dims(0)[0]));
    }
  };
  const auto body = [](body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    return std::vector{
        b.add("elements_at_places", {b.add("magnitude_place", {x[0], x[0]})}, {{"count", a.integer("count")}})};
  };
  const auto adjoint = [](body_builder&, const attribute_reader&, const adjoint_problem&) {
    return std::vector{value_id{}};
  };
  auto d = define("top_k", 1, 1, {integer_field("count")}, composite{body, types}).with_adjoint(adjoint);
  // One comparison per element: selection takes linear time.
  d.own_work = [](const attribute_reader&, std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
    return work{flops{element_count(inputs[0].dims)}, total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

}  // namespace unity::tensor::operators

#endif
