// Numbers as tensor elements store them: integers, and the 16-bit floats, for hosts whose compilers lack them.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <unity/core/config.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Whether the type, or one of the types, holds numbers that float32 rounds.
[[nodiscard]] constexpr bool exceeds_float32(dtype t) noexcept {
  return t == dtype::float64 || t == dtype::int64 || t == dtype::int32;
}
[[nodiscard]] bool exceeds_float32(std::span<const tensor_type> types) noexcept;

namespace detail {

// The value itself if it is a float32, otherwise the one of its two neighbours whose last bit is set. Rounding that
// again, to a format with at least two fewer bits, gives the same as rounding once.
// Source: Boldo and Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd,
// 2008.
[[nodiscard]] constexpr float round_to_odd(double value) noexcept {
  const auto nearest = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const auto found = static_cast<double>(nearest);
  if (found == value || value != value || (bits & 1U) != 0) {
    return nearest;
  }
  const bool grew = (found > value) == (value > 0);
  return std::bit_cast<float>(grew ? bits - 1 : bits + 1);
}

}  // namespace detail

// bfloat16: the upper half of a float32. Rounds to nearest, ties to even; overflow gives infinity, NaN gives NaN.
[[nodiscard]] constexpr std::uint16_t to_bfloat16(double value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(detail::round_to_odd(value));
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}
[[nodiscard]] constexpr float from_bfloat16(std::uint16_t value) noexcept {
  return std::bit_cast<float>(std::uint32_t{value} << 16U);
}

// IEEE 754 binary16. Rounds to nearest, ties to even; overflow gives infinity, NaN gives NaN.
[[nodiscard]] constexpr std::uint16_t to_float16(double value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(detail::round_to_odd(value));
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const auto magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477ff000U) {  // 65520: halfway between the largest number and the next one
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {
    // Subnormal. The last bit of a sum with 0.5 counts units of 2^-24, as the last bit of a subnormal float16 does; the
    // addition rounds.
    const auto shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const auto rounded = magnitude + 0xfffU + ((magnitude >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U));
}
[[nodiscard]] constexpr float from_float16(std::uint16_t value) noexcept {
  const auto sign = std::uint32_t{value & 0x8000U} << 16U;
  const auto magnitude = std::uint32_t{value & 0x7fffU};
  if (magnitude >= 0x7c00U) {
    return std::bit_cast<float>(sign | 0x7f800000U | (magnitude << 13U));
  }
  if (magnitude < 0x400U) {
    const auto scaled = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(scaled));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13U) + 0x38000000U));
}

// Rounds toward zero; clamps what does not fit; NaN gives 0.
template <std::integral Integer, std::floating_point Real>
[[nodiscard]] constexpr Integer to_integer(Real value) noexcept {
  using limits = std::numeric_limits<Integer>;
  // One more than the largest integer: a power of two and thus exact.
  constexpr auto end = 2 * static_cast<Real>(Integer{1} << (limits::digits - 1));
  if (value != value) {
    return 0;
  }
  if (value >= end) {
    return limits::max();
  }
  if (value < (std::is_signed_v<Integer> ? -end : Real{0})) {
    return limits::min();
  }
  return static_cast<Integer>(value);
}

// Rounds toward zero and keeps the low bits of what does not fit, of a number clamped to 64 bits; NaN gives 0.
template <std::integral Integer, std::floating_point Real>
[[nodiscard]] constexpr Integer low_bits(Real value) noexcept {
  return static_cast<Integer>(to_integer<std::int64_t>(value));
}

// Calls f with a value-initialized element of the C++ type that stores `element`; 16-bit floats are stored as uint16_t.
template <class F>
decltype(auto) with_storage(dtype element, F&& f) {
  switch (element) {
    case dtype::float32: return f(float{});
    case dtype::float64: return f(double{});
    case dtype::float16:
    case dtype::bfloat16: return f(std::uint16_t{});
    case dtype::int64: return f(std::int64_t{});
    case dtype::int32: return f(std::int32_t{});
    case dtype::int8: return f(std::int8_t{});
    case dtype::uint8:
    case dtype::boolean: break;
  }
  return f(std::uint8_t{});
}

// Converts a number to what an element stores. Reals round to nearest, or toward zero if the element is an integer. An
// integer element keeps the low bits of a number that does not fit. A bool is 0 or 1.
template <class Stored, class Number>
[[nodiscard]] Stored to_storage(dtype element, Number number) {
  if constexpr (std::is_same_v<Stored, std::uint16_t>) {
    const auto wide = static_cast<double>(number);
    return element == dtype::float16 ? to_float16(wide) : to_bfloat16(wide);
  } else if constexpr (std::is_integral_v<Stored> && std::is_floating_point_v<Number>) {
    return element == dtype::boolean ? Stored{number != Number{}} : low_bits<Stored>(number);
  } else {
    return element == dtype::boolean ? static_cast<Stored>(number != Number{}) : static_cast<Stored>(number);
  }
}

// The stored number.
template <class Stored>
[[nodiscard]] auto from_storage(dtype element, Stored stored) {
  if constexpr (std::is_same_v<Stored, std::uint16_t>) {
    return element == dtype::float16 ? from_float16(stored) : from_bfloat16(stored);
  } else {
    return stored;
  }
}

// Rounds each number to what an element can store.
void round_to(dtype element, std::span<double> numbers);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ELEMENT)

namespace unity::tensor {

UNITY_INLINE void round_to(dtype element, std::span<double> numbers) {
  with_storage(element, [&]<class Stored>(Stored) {
    for (auto& x : numbers) {
      x = static_cast<double>(from_storage(element, to_storage<Stored>(element, x)));
    }
  });
}

UNITY_INLINE bool exceeds_float32(std::span<const tensor_type> types) noexcept {
  bool any = false;
  for (const auto& t : types) {
    any = any || exceeds_float32(t.element);
  }
  return any;
}

}  // namespace unity::tensor

#endif
