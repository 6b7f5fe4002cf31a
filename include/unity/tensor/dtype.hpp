// Element types of tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <unity/core/printable.hpp>

namespace unity::tensor {

enum class dtype : std::uint8_t { float32, float64, float16, bfloat16, int64, int32, int8, uint8, boolean };

// Names as in rule text and error messages, in the order of the values.
inline constexpr std::array<std::string_view, 9> dtype_names{"float32", "float64", "float16", "bfloat16", "int64",
                                                             "int32",   "int8",    "uint8",   "bool"};

[[nodiscard]] constexpr std::string_view name_of(dtype t) noexcept { return dtype_names[static_cast<std::size_t>(t)]; }

[[nodiscard]] constexpr std::optional<dtype> find_dtype(std::string_view name) noexcept {
  for (std::size_t i = 0; i < dtype_names.size(); ++i) {
    if (dtype_names[i] == name) {
      return static_cast<dtype>(i);
    }
  }
  return std::nullopt;
}

// Units: bytes per element.
[[nodiscard]] constexpr std::int64_t size_of(dtype t) noexcept {
  constexpr std::array<std::int64_t, 9> sizes{4, 8, 2, 2, 8, 4, 1, 1, 1};
  return sizes[static_cast<std::size_t>(t)];
}

[[nodiscard]] constexpr bool is_floating(dtype t) noexcept { return t <= dtype::bfloat16; }
[[nodiscard]] constexpr bool is_integral(dtype t) noexcept { return t >= dtype::int64 && t <= dtype::uint8; }

}  // namespace unity::tensor

template <>
struct fmt::formatter<unity::tensor::dtype> : unity::plain_formatter {
  template <class Context>
  auto format(unity::tensor::dtype t, Context& context) const -> decltype(context.out()) {
    return put(context, unity::tensor::name_of(t));
  }
};
