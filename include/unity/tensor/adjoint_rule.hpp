// The types with which an operator definition states its own adjoint, if it is not derived.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// An application of an operator whose adjoint is to be built.
struct adjoint_problem {
  std::span<const tensor_type> inputs{};
  std::span<const tensor_type> outputs{};
  // The values of operands and results, computed on request if they do not exist yet.
  std::function<value_id(std::size_t)> operand{};
  std::function<value_id(std::size_t)> result{};
  std::vector<value_id> cotangents{};  // per result; the null id means zero
  std::vector<bool> wanted{};          // per operand
};

// Appends operators that compute the cotangents of the wanted operands: the transposed derivative, applied to the
// cotangents of the results. Result: one value per operand; the null id means zero or not wanted.
using adjoint_rule =
    std::function<std::vector<value_id>(body_builder&, const attribute_reader&, const adjoint_problem&)>;

// The value, or zeros of type `t` if it is null.
[[nodiscard]] inline value_id or_zeros(body_builder& b, value_id v, const tensor_type& t) {
  return v.valid() ? v : b.add("fill", {}, {{"value", 0.0}, {"element", name_of(t.element)}, {"dims", t.dims}});
}

// The attributes `names` of a reader, plus `more`, for an operator that shares them.
[[nodiscard]] std::vector<named_attribute> shared_attributes(const attribute_reader& a,
                                                             std::initializer_list<std::string_view> names,
                                                             std::initializer_list<named_attribute> more = {});

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ADJOINT_RULE)

#include <unity/tensor/operation.hpp>

namespace unity::tensor {

UNITY_INLINE std::vector<named_attribute> shared_attributes(const attribute_reader& a,
                                                            std::initializer_list<std::string_view> names,
                                                            std::initializer_list<named_attribute> more) {
  std::vector<named_attribute> all;
  for (const auto name : names) {
    all.push_back(a.named(name));
  }
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace unity::tensor

#endif
