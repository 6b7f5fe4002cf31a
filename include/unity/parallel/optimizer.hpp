// What training stores and moves per weight besides the weight and its gradient.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <unity/core/printable.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// sgd keeps nothing per element, momentum one number, adam two.
// Source: Kingma and Ba, Adam: a method for stochastic optimization, ICLR 2015.
enum class optimizer : std::uint8_t { sgd, momentum, adam };
inline constexpr std::array<std::string_view, 3> optimizer_names{"sgd", "momentum", "adam"};

[[nodiscard]] constexpr std::optional<optimizer> find_optimizer(std::string_view name) noexcept {
  return find_enumerator<optimizer>(optimizer_names, name);
}

// Bytes of optimizer state per element of a weight. Each number has at least 4 bytes, and a weight of narrower elements
// has a 4-byte master copy, because an optimizer step is small relative to the weight.
// Source: Micikevicius et al., Mixed precision training, ICLR 2018.
[[nodiscard]] constexpr std::int64_t state_bytes(optimizer o, tensor::dtype element) noexcept {
  const auto size = tensor::size_of(element);
  const auto wide = size < 4 ? std::int64_t{4} : size;
  return static_cast<std::int64_t>(o) * wide + (size < 4 ? wide : 0);
}

}  // namespace unity::parallel
