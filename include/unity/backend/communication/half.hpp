// The two 16-bit floating-point formats, on hosts whose compilers lack them.
#pragma once

#include <bit>
#include <cstdint>

namespace unity::backend {

// The upper half of a float32, rounded to nearest, ties to even; a NaN stays one.
[[nodiscard]] constexpr std::uint16_t to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}
[[nodiscard]] constexpr float from_bfloat16(std::uint16_t value) noexcept {
  return std::bit_cast<float>(std::uint32_t{value} << 16U);
}

// IEEE 754 binary16, rounded to nearest, ties to even; what is too large becomes infinite, a NaN stays one.
[[nodiscard]] constexpr std::uint16_t to_float16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const auto magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    return static_cast<std::uint16_t>(sign | 0x7e00U);
  }
  if (magnitude >= 0x477ff000U) {  // 65520: halfway from the largest to what would follow it
    return static_cast<std::uint16_t>(sign | 0x7c00U);
  }
  if (magnitude < 0x38800000U) {
    // Subnormal. Added to a half, the last bit of the sum counts in units of 2^-24, as float16 does here; the addition
    // rounds.
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

}  // namespace unity::backend
