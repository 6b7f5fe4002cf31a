// The type of a value in a tensor graph (element type, dimensions, layout in memory), and values of such types.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>

namespace unity::tensor {

enum class dtype : std::uint8_t { float32, float64, float16, bfloat16, int64, int32, int8, uint8, boolean };

// Names as in rule text and error messages, in the order of the values.
inline constexpr std::array<std::string_view, 9> dtype_names{"float32", "float64", "float16", "bfloat16", "int64",
                                                             "int32",   "int8",    "uint8",   "bool"};

[[nodiscard]] constexpr std::string_view name_of(dtype t) noexcept { return dtype_names[static_cast<std::size_t>(t)]; }

[[nodiscard]] constexpr std::optional<dtype> find_dtype(std::string_view name) noexcept {
  return find_enumerator<dtype>(dtype_names, name);
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

namespace unity::tensor {

// Sizes, outermost dimension first. Rank 0 is a scalar.
using shape = small_vector<std::int64_t, 6>;

// Bounds within which no count or offset in this room overflows 64 bits.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 48;
inline constexpr std::size_t max_rank = 16;

// The order of elements in memory. Never changes a value.
// Source: Jia's dissertation (2020) section 2.7; column_major swaps the last two dimensions.
enum class layout : std::uint8_t { row_major, column_major };

struct tensor_type {
  dtype element = dtype::float32;
  layout order = layout::row_major;
  bool constant = false;  // depends only on weights and constants: can be computed before inference
  shape dims{};

  [[nodiscard]] std::size_t rank() const noexcept { return dims.size(); }

  friend bool operator==(const tensor_type&, const tensor_type&) = default;
};

// The number of elements, or nothing if a dimension is not positive, or rank or count exceed the bounds above.
[[nodiscard]] std::optional<std::int64_t> checked_element_count(std::span<const std::int64_t> dims) noexcept;

// The number of elements of a valid shape.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> dims) noexcept;

// The distance in elements between neighbours along each dimension.
[[nodiscard]] shape strides_of(std::span<const std::int64_t> dims, layout order = layout::row_major);

// Always true for rank 0 and 1, which have only one layout.
[[nodiscard]] inline bool is_row_major(const tensor_type& t) {
  return t.order == layout::row_major || strides_of(t.dims, t.order) == strides_of(t.dims);
}

// Two shapes broadcast as in NumPy (aligned at the last dimension, 1 stretches), or nothing if they do not fit.
[[nodiscard]] std::optional<shape> broadcast(std::span<const std::int64_t> a, std::span<const std::int64_t> b);

}  // namespace unity::tensor

template <>
struct fmt::formatter<unity::tensor::layout> : unity::plain_formatter {
  template <class Context>
  auto format(unity::tensor::layout order, Context& context) const -> decltype(context.out()) {
    return put(context, order == unity::tensor::layout::column_major ? "column_major" : "row_major");
  }
};

// For messages: float32[2,3], plus the layout if it is not the default: float32[2,3] column_major.
template <>
struct fmt::formatter<unity::tensor::tensor_type> : unity::plain_formatter {
  template <class Context>
  auto format(const unity::tensor::tensor_type& t, Context& context) const -> decltype(context.out()) {
    const auto plain = fmt::format("{}{}", t.element, t.dims);
    return put(context, t.order == unity::tensor::layout::row_major ? plain : fmt::format("{} {}", plain, t.order));
  }
};

namespace unity::tensor {

[[nodiscard]] inline std::string to_string(const tensor_type& t) { return fmt::format("{}", t); }

}  // namespace unity::tensor

template <>
struct std::hash<unity::tensor::tensor_type> {
  std::size_t operator()(const unity::tensor::tensor_type& t) const noexcept {
    const auto head = static_cast<std::uint64_t>(t.element) | static_cast<std::uint64_t>(t.order) << 8U |
                      static_cast<std::uint64_t>(t.constant ? 1 : 0) << 16U;
    return unity::hash_combine(head, unity::hash_value(t.dims));
  }
};

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_SHAPE)

namespace unity::tensor {

UNITY_INLINE std::optional<std::int64_t> checked_element_count(std::span<const std::int64_t> dims) noexcept {
  if (dims.size() > max_rank) {
    return std::nullopt;
  }
  std::int64_t count = 1;
  for (const auto d : dims) {
    if (d < 1 || __builtin_mul_overflow(count, d, &count) || count > max_elements) {
      return std::nullopt;
    }
  }
  return count;
}

UNITY_INLINE std::int64_t element_count(std::span<const std::int64_t> dims) noexcept {
  std::int64_t count = 1;
  for (const auto d : dims) {
    count *= d;
  }
  return count;
}

UNITY_INLINE shape strides_of(std::span<const std::int64_t> dims, layout order) {
  shape strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * dims[d];
  }
  if (dims.size() >= 2 && order == layout::column_major) {
    strides[dims.size() - 1] = dims[dims.size() - 2];
    strides[dims.size() - 2] = 1;
  }
  return strides;
}

UNITY_INLINE std::optional<shape> broadcast(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  if (a.size() < b.size()) {
    std::swap(a, b);
  }
  shape joint(a);
  const auto skipped = a.size() - b.size();
  for (std::size_t d = 0; d < b.size(); ++d) {
    auto& size = joint[d + skipped];
    if (size != b[d] && size != 1 && b[d] != 1) {
      return std::nullopt;
    }
    size = size == 1 ? b[d] : size;
  }
  return joint;
}

}  // namespace unity::tensor

#endif
