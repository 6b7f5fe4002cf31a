// An operator on other sizes: the argument of the function in its definition that rewrites attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// An operator, its types, and its new sizes.
struct resizing {
  const operation& op;
  std::span<const tensor_type> inputs;  // old types
  std::span<const tensor_type> outputs;
  std::vector<shape> new_inputs{};
  std::vector<shape> new_outputs{};
  // For a slice or pad, per dimension: the new sizes before and after the part that stays. Empty: unchanged, except
  // that a slice that takes a whole dimension takes all of its new size.
  shape before{};
  shape after{};
};

// Rewrites an operation's attributes by name. A view: must not outlive the fields and the values.
class attribute_writer {
 public:
  attribute_writer(std::span<const attribute_field> fields, std::span<attribute> values) noexcept
      : fields_{fields}, values_{values} {}

  [[nodiscard]] attribute& operator[](std::string_view name) const;
  void set(std::string_view name, attribute value) const { (*this)[name] = std::move(value); }

 private:
  std::span<const attribute_field> fields_;
  std::span<attribute> values_;
};

// For operators whose attribute `dims` is the shape of their result.
inline void resize_dims(const attribute_writer& w, const resizing& r) {
  w.set("dims", attribute(std::span<const std::int64_t>{r.new_outputs[0]}));
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RESIZING)

#include <unity/core/config.hpp>

namespace unity::tensor {

UNITY_INLINE attribute& attribute_writer::operator[](std::string_view name) const {
  std::size_t i = 0;
  while (i < fields_.size() && fields_[i].signature.name != name) {
    ++i;
  }
  UNITY_EXPECTS(i < values_.size(), "the name of a declared attribute");
  return values_[i];
}

}  // namespace unity::tensor

#endif
