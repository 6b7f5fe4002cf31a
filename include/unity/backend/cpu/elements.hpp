// Elements of every type, converted from and to the type of computation.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

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

}  // namespace detail

// Reads the elements first, first + step, ... of a tensor at `from` into to[0, n).
template <class Real>
void load_elements(tensor::dtype t, Real* to, const std::byte* from, std::int64_t first, std::int64_t n,
                   std::int64_t step) {
  const auto same = [](auto x) { return x; };
  switch (t) {
    case tensor::dtype::float32: return detail::load_each<Real, float>(to, from, first, n, step, same);
    case tensor::dtype::float64: return detail::load_each<Real, double>(to, from, first, n, step, same);
    case tensor::dtype::float16:
      return detail::load_each<Real, std::uint16_t>(to, from, first, n, step, tensor::from_float16);
    case tensor::dtype::bfloat16:
      return detail::load_each<Real, std::uint16_t>(to, from, first, n, step, tensor::from_bfloat16);
    case tensor::dtype::int64: return detail::load_each<Real, std::int64_t>(to, from, first, n, step, same);
    case tensor::dtype::int32: return detail::load_each<Real, std::int32_t>(to, from, first, n, step, same);
    case tensor::dtype::int8: return detail::load_each<Real, std::int8_t>(to, from, first, n, step, same);
    case tensor::dtype::uint8:
    case tensor::dtype::boolean: return detail::load_each<Real, std::uint8_t>(to, from, first, n, step, same);
  }
}

// Writes from[0, n) to the elements first .. first + n of a tensor at `to`.
template <class Real>
void store_elements(tensor::dtype t, std::byte* to, std::int64_t first, const Real* from, std::int64_t n) {
  switch (t) {
    case tensor::dtype::float32: return detail::store_each<Real, float>(to, first, from, n, [](Real x) { return x; });
    case tensor::dtype::float64: return detail::store_each<Real, double>(to, first, from, n, [](Real x) { return x; });
    case tensor::dtype::float16:
      return detail::store_each<Real, std::uint16_t>(to, first, from, n, [](Real x) { return tensor::to_float16(x); });
    case tensor::dtype::bfloat16:
      return detail::store_each<Real, std::uint16_t>(to, first, from, n, [](Real x) { return tensor::to_bfloat16(x); });
    case tensor::dtype::int64:
      return detail::store_each<Real, std::int64_t>(to, first, from, n, tensor::to_integer<std::int64_t, Real>);
    case tensor::dtype::int32:
      return detail::store_each<Real, std::int32_t>(to, first, from, n, tensor::to_integer<std::int32_t, Real>);
    case tensor::dtype::int8:
      return detail::store_each<Real, std::int8_t>(to, first, from, n, tensor::to_integer<std::int8_t, Real>);
    case tensor::dtype::uint8:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, tensor::to_integer<std::uint8_t, Real>);
    case tensor::dtype::boolean:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, [](Real x) { return x != Real{0} ? 1 : 0; });
  }
}

}  // namespace unity::backend::cpu
