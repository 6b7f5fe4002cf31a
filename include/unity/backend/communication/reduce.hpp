// Element-wise reductions of host memory, for every element type.
//
// Integers wrap around. For booleans, sum and maximum are "or", product and minimum are "and".
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <unity/backend/communicator.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

// The stored type of elements, and the type in which they are accumulated.
template <class T>
struct plain_element {
  using stored = T;
  using value = T;
  static constexpr T load(T x) noexcept { return x; }
  static constexpr T store(T x) noexcept { return x; }
};
struct float16_element {
  using stored = std::uint16_t;
  using value = float;
  static constexpr float load(std::uint16_t x) noexcept { return tensor::from_float16(x); }
  static constexpr std::uint16_t store(float x) noexcept { return tensor::to_float16(x); }
};
struct bfloat16_element {
  using stored = std::uint16_t;
  using value = float;
  static constexpr float load(std::uint16_t x) noexcept { return tensor::from_bfloat16(x); }
  static constexpr std::uint16_t store(float x) noexcept { return tensor::to_bfloat16(x); }
};
struct boolean_element {
  using stored = std::uint8_t;
  using value = bool;
  static constexpr bool load(std::uint8_t x) noexcept { return x != 0; }
  static constexpr std::uint8_t store(bool x) noexcept { return x ? 1 : 0; }
};

template <reduction Op, class T>
[[nodiscard]] constexpr T combined(T a, T b) noexcept {
  if constexpr (std::same_as<T, bool>) {
    return Op == reduction::sum || Op == reduction::maximum ? a || b : a && b;
  } else if constexpr (Op == reduction::minimum) {
    return b < a ? b : a;
  } else if constexpr (Op == reduction::maximum) {
    return a < b ? b : a;
  } else if constexpr (std::integral<T>) {
    // Unsigned and at least as wide as int, so neither operation overflows.
    using wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    const auto x = static_cast<wide>(a);
    const auto y = static_cast<wide>(b);
    return static_cast<T>(Op == reduction::sum ? x + y : x * y);
  } else {
    return Op == reduction::sum ? a + b : a * b;
  }
}

// Calls f<Element, Op>().
template <class Element, class F>
decltype(auto) with_operator(reduction op, F&& f) {
  switch (op) {
    case reduction::product: return f.template operator()<Element, reduction::product>();
    case reduction::minimum: return f.template operator()<Element, reduction::minimum>();
    case reduction::maximum: return f.template operator()<Element, reduction::maximum>();
    case reduction::sum: break;
  }
  return f.template operator()<Element, reduction::sum>();
}
template <class F>
decltype(auto) with_element(tensor::dtype type, reduction op, F&& f) {
  using tensor::dtype;
  switch (type) {
    case dtype::float64: return with_operator<plain_element<double>>(op, f);
    case dtype::float16: return with_operator<float16_element>(op, f);
    case dtype::bfloat16: return with_operator<bfloat16_element>(op, f);
    case dtype::int64: return with_operator<plain_element<std::int64_t>>(op, f);
    case dtype::int32: return with_operator<plain_element<std::int32_t>>(op, f);
    case dtype::int8: return with_operator<plain_element<std::int8_t>>(op, f);
    case dtype::uint8: return with_operator<plain_element<std::uint8_t>>(op, f);
    case dtype::boolean: return with_operator<boolean_element>(op, f);
    case dtype::float32: break;
  }
  return with_operator<plain_element<float>>(op, f);
}

// Reduces count elements at in_offset of every input, in order, and writes the result at out_offset of every output.
// 16-bit floats are accumulated in 32 bits and rounded once. An output may alias an input at the same position. Units:
// offsets in bytes.
template <class Element, reduction Op>
void reduce_elements(std::span<const std::byte* const> inputs, std::size_t in_offset,
                     std::span<std::byte* const> outputs, std::size_t out_offset, std::size_t count) noexcept {
  using stored = typename Element::stored;
  constexpr std::size_t block = 1024;
  std::array<typename Element::value, block> sum;
  std::array<stored, block> loaded;
  for (std::size_t begin = 0; begin < count; begin += block) {
    const auto length = std::min(block, count - begin);
    for (std::size_t r = 0; r < inputs.size(); ++r) {
      std::memcpy(loaded.data(), inputs[r] + in_offset + begin * sizeof(stored), length * sizeof(stored));
      if (r == 0) {
        for (std::size_t i = 0; i < length; ++i) {
          sum[i] = Element::load(loaded[i]);
        }
      } else {
        for (std::size_t i = 0; i < length; ++i) {
          sum[i] = combined<Op>(sum[i], Element::load(loaded[i]));
        }
      }
    }
    for (std::size_t i = 0; i < length; ++i) {
      loaded[i] = Element::store(sum[i]);
    }
    for (auto* const out : outputs) {
      std::memcpy(out + out_offset + begin * sizeof(stored), loaded.data(), length * sizeof(stored));
    }
  }
}

void reduce(tensor::dtype type, reduction op, std::span<const std::byte* const> inputs, std::size_t in_offset,
            std::span<std::byte* const> outputs, std::size_t out_offset, std::size_t count) noexcept;

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_COMMUNICATION_REDUCE)

namespace unity::backend::detail {

UNITY_INLINE void reduce(tensor::dtype type, reduction op, std::span<const std::byte* const> inputs,
                         std::size_t in_offset, std::span<std::byte* const> outputs, std::size_t out_offset,
                         std::size_t count) noexcept {
  with_element(type, op, [&]<class Element, reduction Op>() {
    reduce_elements<Element, Op>(inputs, in_offset, outputs, out_offset, count);
  });
}

}  // namespace unity::backend::detail

#endif
