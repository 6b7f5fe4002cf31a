// The numbers of a vector's largest elements, and what they are stated with.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::tensor::operators {

// Of the numbers of so many elements.
[[nodiscard]] constexpr dtype number_type(std::int64_t elements) noexcept {
  return elements <= std::numeric_limits<std::int32_t>::max() ? dtype::int32 : dtype::int64;
}

// How many of the elements x would come before one like y that has its number: those that are larger without their
// sign, and those as large that have a lower number. A NaN is larger than all numbers and as large as another NaN, so
// that it is among the first and not lost.
// Shapes: x[n], y[n] -> [n], integers.
[[nodiscard]] definition magnitude_place();

// Element r is the number of the element r of places, or the sum of the numbers of all that are r.
// Shapes: places[n] -> [count].
[[nodiscard]] definition elements_at_places();

// The numbers of the `count` elements that are the largest without their sign, the largest first; of equal ones that
// with the lowest number, and of NaN as magnitude_place has it. Stated by the places of all elements, which takes n^2;
// backends need not form them. Its adjoint is zero.
// Shapes: x[n] -> [count], int32, or int64 where n asks for it.
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
  // A comparison for each element: selecting takes linear time.
  d.own_work = [](const attribute_reader&, std::span<const tensor_type> inputs, std::span<const tensor_type> outputs) {
    return work{flops{element_count(inputs[0].dims)}, total_bytes(inputs) + total_bytes(outputs)};
  };
  return d;
}

}  // namespace unity::tensor::operators

#endif
