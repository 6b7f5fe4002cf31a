// Elements of every type, read into and written from the type that is computed in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <unity/backend/communication/half.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::backend::cpu {

// Single precision, or double where a type has more digits than that.
[[nodiscard]] constexpr bool needs_double(tensor::dtype t) noexcept {
  return t == tensor::dtype::float64 || t == tensor::dtype::int64 || t == tensor::dtype::int32;
}

namespace detail {

template <class Real, class Stored, class Widen>
void load_each(Real* to, const std::byte* from, std::int64_t first, std::int64_t n, std::int64_t step, Widen widen) {
  const auto* x = reinterpret_cast<const Stored*>(from) + first;
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<Real>(widen(x[i * step]));
  }
}

template <class Real, class Stored, class Narrow>
void store_each(std::byte* to, std::int64_t first, const Real* from, std::int64_t n, Narrow narrow) {
  auto* x = reinterpret_cast<Stored*>(to) + first;
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<Stored>(narrow(from[i]));
  }
}

// Towards zero; what does not fit becomes the nearest that does, and no number 0.
template <class Integer, class Real>
[[nodiscard]] Integer to_integer(Real value) noexcept {
  // One beyond the largest, which is a power of two and thus exact.
  const auto end = std::ldexp(Real{1}, std::numeric_limits<Integer>::digits);
  if (std::isnan(value)) {
    return 0;
  }
  if (value >= end) {
    return std::numeric_limits<Integer>::max();
  }
  if (value < (std::is_signed_v<Integer> ? -end : Real{0})) {
    return std::numeric_limits<Integer>::min();
  }
  return static_cast<Integer>(value);
}

}  // namespace detail

// to[0, n) from the elements first, first + step, ... of a tensor at `from`.
template <class Real>
void load_elements(tensor::dtype t, Real* to, const std::byte* from, std::int64_t first, std::int64_t n,
                   std::int64_t step) {
  const auto same = [](auto x) { return x; };
  switch (t) {
    case tensor::dtype::float32: return detail::load_each<Real, float>(to, from, first, n, step, same);
    case tensor::dtype::float64: return detail::load_each<Real, double>(to, from, first, n, step, same);
    case tensor::dtype::float16:
      return detail::load_each<Real, std::uint16_t>(to, from, first, n, step, from_float16);
    case tensor::dtype::bfloat16:
      return detail::load_each<Real, std::uint16_t>(to, from, first, n, step, from_bfloat16);
    case tensor::dtype::int64: return detail::load_each<Real, std::int64_t>(to, from, first, n, step, same);
    case tensor::dtype::int32: return detail::load_each<Real, std::int32_t>(to, from, first, n, step, same);
    case tensor::dtype::int8: return detail::load_each<Real, std::int8_t>(to, from, first, n, step, same);
    case tensor::dtype::uint8:
    case tensor::dtype::boolean: return detail::load_each<Real, std::uint8_t>(to, from, first, n, step, same);
  }
}

// Elements first .. first + n of a tensor at `to` from from[0, n).
template <class Real>
void store_elements(tensor::dtype t, std::byte* to, std::int64_t first, const Real* from, std::int64_t n) {
  switch (t) {
    case tensor::dtype::float32:
      return detail::store_each<Real, float>(to, first, from, n, [](Real x) { return x; });
    case tensor::dtype::float64:
      return detail::store_each<Real, double>(to, first, from, n, [](Real x) { return x; });
    case tensor::dtype::float16:
      return detail::store_each<Real, std::uint16_t>(to, first, from, n,
                                                     [](Real x) { return to_float16(static_cast<float>(x)); });
    case tensor::dtype::bfloat16:
      return detail::store_each<Real, std::uint16_t>(to, first, from, n,
                                                     [](Real x) { return to_bfloat16(static_cast<float>(x)); });
    case tensor::dtype::int64:
      return detail::store_each<Real, std::int64_t>(to, first, from, n, detail::to_integer<std::int64_t, Real>);
    case tensor::dtype::int32:
      return detail::store_each<Real, std::int32_t>(to, first, from, n, detail::to_integer<std::int32_t, Real>);
    case tensor::dtype::int8:
      return detail::store_each<Real, std::int8_t>(to, first, from, n, detail::to_integer<std::int8_t, Real>);
    case tensor::dtype::uint8:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, detail::to_integer<std::uint8_t, Real>);
    case tensor::dtype::boolean:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, [](Real x) { return x != Real{0} ? 1 : 0; });
  }
}

}  // namespace unity::backend::cpu
