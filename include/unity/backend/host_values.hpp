// Converts tensors between numbers and the bytes in a backend's memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// The size of a tensor in bytes.
[[nodiscard]] inline std::size_t byte_count(const tensor::tensor_type& t) {
  return static_cast<std::size_t>(tensor::element_count(t.dims) * tensor::size_of(t.element));
}

// The element at an address, converted to Real: rounded if Real cannot represent it.
template <std::floating_point Real>
[[nodiscard]] Real read_element(tensor::dtype element, const std::byte* from) noexcept {
  const auto as = [from]<class Stored>(Stored stored) {
    std::memcpy(&stored, from, sizeof stored);
    return stored;
  };
  switch (element) {
    case tensor::dtype::float32: return static_cast<Real>(as(float{}));
    case tensor::dtype::float64: return static_cast<Real>(as(double{}));
    case tensor::dtype::float16: return static_cast<Real>(tensor::from_float16(as(std::uint16_t{})));
    case tensor::dtype::bfloat16: return static_cast<Real>(tensor::from_bfloat16(as(std::uint16_t{})));
    case tensor::dtype::int64: return static_cast<Real>(as(std::int64_t{}));
    case tensor::dtype::int32: return static_cast<Real>(as(std::int32_t{}));
    case tensor::dtype::int8: return static_cast<Real>(as(std::int8_t{}));
    case tensor::dtype::uint8:
    case tensor::dtype::boolean: break;
  }
  return static_cast<Real>(as(std::uint8_t{}));
}

namespace detail {

template <std::floating_point Real>
void write_element(tensor::dtype element, Real value, std::byte* to) noexcept {
  tensor::with_storage(element, [&]<class Stored>(Stored) {
    const auto stored = tensor::to_storage<Stored>(element, value);
    std::memcpy(to, &stored, sizeof stored);
  });
}

// Calls f(row-major position, position in memory) for every element.
template <class F>
void for_each_place(const tensor::tensor_type& t, const F& f) {
  const auto count = static_cast<std::size_t>(tensor::element_count(t.dims));
  if (is_row_major(t)) {
    for (std::size_t i = 0; i < count; ++i) {
      f(i, i);
    }
    return;
  }
  const auto rows = static_cast<std::size_t>(t.dims[t.rank() - 2]);
  const auto columns = static_cast<std::size_t>(t.dims[t.rank() - 1]);
  for (std::size_t begin = 0; begin < count; begin += rows * columns) {
    for (std::size_t i = 0; i < rows * columns; ++i) {
      f(begin + i, begin + i % columns * rows + i / columns);
    }
  }
}

}  // namespace detail

// Writes elements, given in row-major order, in the element type and layout of `t`. Floats round to nearest; integers
// truncate and keep the low bits; booleans are 0 or 1. Complexity: linear; a plain copy if `t` is row-major and has the
// elements' type.
template <std::floating_point Real>
void encode(std::span<const Real> elements, const tensor::tensor_type& t, std::span<std::byte> to) {
  UNITY_EXPECTS(
      to.size() == byte_count(t) && elements.size() == static_cast<std::size_t>(tensor::element_count(t.dims)),
      "as many elements and bytes as the type says");
  if (is_row_major(t) && t.element == (std::is_same_v<Real, float> ? tensor::dtype::float32 : tensor::dtype::float64)) {
    std::memcpy(to.data(), elements.data(), to.size());
    return;
  }
  const auto size = static_cast<std::size_t>(tensor::size_of(t.element));
  detail::for_each_place(t, [&](std::size_t i, std::size_t place) {
    detail::write_element(t.element, elements[i], to.data() + place * size);
  });
}
template <std::floating_point Real>
[[nodiscard]] std::vector<std::byte> encode(const tensor::dense<Real>& values, const tensor::tensor_type& t) {
  std::vector<std::byte> stored(byte_count(t));
  encode<Real>(values.data, t, stored);
  return stored;
}

// The inverse of encode. Exact for every type whose values Real can represent.
template <std::floating_point Real>
void decode(const std::byte* from, const tensor::tensor_type& t, std::span<Real> elements) {
  UNITY_EXPECTS(elements.size() == static_cast<std::size_t>(tensor::element_count(t.dims)),
                "as many elements as the type says");
  const auto size = static_cast<std::size_t>(tensor::size_of(t.element));
  detail::for_each_place(
      t, [&](std::size_t i, std::size_t place) { elements[i] = read_element<Real>(t.element, from + place * size); });
}
template <std::floating_point Real>
[[nodiscard]] tensor::dense<Real> decode(const std::byte* from, const tensor::tensor_type& t) {
  tensor::dense<Real> values{t.dims};
  decode<Real>(from, t, values.data);
  return values;
}

// The largest difference, relative to the largest finite magnitude of `expected`; infinite if the sizes differ, or if
// one of two elements is NaN, or only one is infinite, or their infinities differ.
template <std::floating_point A, std::floating_point B>
[[nodiscard]] double relative_error(const tensor::dense<A>& found, const tensor::dense<B>& expected) {
  if (found.dims != expected.dims || found.data.size() != expected.data.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = std::numeric_limits<double>::min();
  double error = 0;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    const auto x = static_cast<double>(found.data[i]);
    const auto y = static_cast<double>(expected.data[i]);
    largest = std::isfinite(y) ? std::max(largest, std::abs(y)) : largest;
    const auto difference = x == y ? 0 : std::abs(x - y);
    error = std::isfinite(difference) ? std::max(error, difference) : std::numeric_limits<double>::infinity();
  }
  return error / largest;
}

}  // namespace unity::backend
