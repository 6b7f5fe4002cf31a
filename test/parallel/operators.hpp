// The algebra and dimensions of operators, for the tests of this room.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/parallel/dimensions.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel::test {

inline const tensor::algebra& operators() {
  static const auto a = tensor::training_algebra();
  return a;
}

inline tensor::tensor_type type(tensor::shape dims, bool constant = false) {
  tensor::tensor_type t;
  t.dims = std::move(dims);
  t.constant = constant;
  return t;
}

inline operator_dimensions dimensions(std::string_view name, std::initializer_list<tensor::named_attribute> attributes,
                                      const std::vector<tensor::tensor_type>& inputs) {
  return dimensions_of(operators(), operators().make_operation(name, attributes), inputs).value();
}

}  // namespace unity::parallel::test
