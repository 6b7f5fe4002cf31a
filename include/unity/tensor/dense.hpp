// Tensors with values.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Elements in row-major order, whatever the layout of their tensor type.
template <class Scalar>
struct dense {
  shape dims{};
  std::vector<Scalar> data{};

  dense() = default;
  dense(shape sizes, std::vector<Scalar> elements) : dims{std::move(sizes)}, data{std::move(elements)} {}
  explicit dense(shape sizes) : dims{std::move(sizes)}, data(static_cast<std::size_t>(element_count(dims))) {}

  friend bool operator==(const dense&, const dense&) = default;
};

}  // namespace unity::tensor
