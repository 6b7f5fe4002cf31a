// An operator on other sizes: what the function of its definition that rewrites attributes gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/rewrite/attribute.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// An operator, the types that it has, and the sizes that it shall have.
struct resizing {
  const operation& op;
  std::span<const tensor_type> inputs;  // types before
  std::span<const tensor_type> outputs;
  std::vector<shape> new_inputs{};
  std::vector<shape> new_outputs{};
  // Of a slice or pad, per dimension: the new sizes before and after the part that stays. Empty: as they are, and of
  // dimensions that a slice takes whole and that have other sizes all is taken.
  shape before{};
  shape after{};
};

// Rewrites an operation's attributes by name. A view: lives no longer than the fields and the values.
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

// Of operators whose attribute `dims` is the shape of their result.
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
