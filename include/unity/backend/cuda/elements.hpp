// What device functions compute with: elements of every type, scalar instructions, and loops over elements.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <unity/core/config.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#if defined(__CUDACC__)
#define UNITY_HOST_DEVICE __host__ __device__
// Put before a loop over an array that must stay in registers: registers have no address, so every index must be a
// constant.
#define UNITY_UNROLL _Pragma("unroll")
#else
#define UNITY_HOST_DEVICE
#define UNITY_UNROLL
#endif

namespace unity::backend::cuda {

// One scalar instruction, as defined by tensor::scalar_traits.

// A constant, because device code may not call numeric_limits.
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// Unary instructions ignore b.
template <class Real>
[[nodiscard]] UNITY_HOST_DEVICE Real apply(tensor::scalar_op op, Real a, Real b) {
  using tensor::scalar_op;
  constexpr Real root_of_half = static_cast<Real>(0.70710678118654752440);
  switch (op) {
    case scalar_op::negate: return -a;
    case scalar_op::reciprocal: return Real{1} / a;
    case scalar_op::abs: return std::abs(a);
    case scalar_op::relu: return a < Real{0} ? Real{0} : a;
    case scalar_op::sigmoid: return Real{1} / (Real{1} + std::exp(-a));
    case scalar_op::tanh: return std::tanh(a);
    case scalar_op::gelu: return a / 2 * (Real{1} + std::erf(a * root_of_half));
    case scalar_op::exp: return std::exp(a);
    case scalar_op::log: return std::log(a);
    case scalar_op::erf: return std::erf(a);
    case scalar_op::sqrt: return std::sqrt(a);
    case scalar_op::truncate: return std::trunc(a);
    case scalar_op::nonzero: return a != Real{0} ? Real{1} : Real{0};
    case scalar_op::floor: return std::floor(a);
    case scalar_op::round: return std::nearbyint(a);
    case scalar_op::sin: return std::sin(a);
    case scalar_op::cos: return std::cos(a);
    case scalar_op::add: return a + b;
    case scalar_op::sub: return a - b;
    case scalar_op::mul: return a * b;
    case scalar_op::div: return a / b;
    case scalar_op::pow: return b == Real{2} ? a * a : std::pow(a, b);
    case scalar_op::maximum: return a < b ? b : a;
    case scalar_op::minimum: return b < a ? b : a;
    case scalar_op::equal: return a == b ? Real{1} : Real{0};
    case scalar_op::less: return a < b ? Real{1} : Real{0};
    case scalar_op::masked: return a != Real{0} ? b : Real{0};
    case scalar_op::remainder: return std::fmod(a, b);
    default: return a;
  }
}

// Loops over elements as one flat index, which each thread decomposes.

// The maximum number of dimensions of a tensor.
inline constexpr int max_loops = 16;

// The size of a loop with a precomputed divisor: a multiplication and a shift instead of a division, for numbers below
// 2^31.
// Source: Granlund and Montgomery, Division by invariant integers using multiplication (1994), section 4.
struct loop_size {
  std::int64_t size = 1;
  std::uint32_t factor = 1;
  std::uint32_t shift = 0;

  loop_size() = default;
  explicit loop_size(std::int64_t n) : size{n} {
    UNITY_EXPECTS(n >= 1, "a loop that runs");
    while (shift < 31 && (std::int64_t{1} << shift) < n) {
      ++shift;
    }
    const auto power = std::uint64_t{1} << shift;
    const auto d = static_cast<std::uint64_t>(n);
    factor = n > limit ? 0 : static_cast<std::uint32_t>((power - d) * (std::uint64_t{1} << 32U) / d + 1);
  }

  static constexpr std::int64_t limit = (std::int64_t{1} << 31) - 1;

  // Returns the position along this loop; flat becomes the index of the outer loops.
  UNITY_HOST_DEVICE std::int64_t split(std::int64_t& flat) const {
    if (flat <= limit && size <= limit) {
      auto narrow = static_cast<std::int32_t>(flat);
      const auto at = split(narrow);
      flat = narrow;
      return at;
    }
    const auto quotient = flat / size;
    const auto rest = flat - quotient * size;
    flat = quotient;
    return rest;
  }
  // The same for a size and flat index that are known to be at most the limit.
  UNITY_HOST_DEVICE std::int32_t split(std::int32_t& flat) const {
    const auto n = static_cast<std::uint32_t>(flat);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * factor >> 32U);
    const auto quotient = (high + n) >> shift;
    flat = static_cast<std::int32_t>(quotient);
    return static_cast<std::int32_t>(n - quotient * static_cast<std::uint32_t>(size));
  }
};

// Nested loops, outermost first.
struct loop_nest {
  int count = 0;
  loop_size sizes[max_loops];

  void add(std::int64_t size) {
    UNITY_EXPECTS(count < max_loops, "at most as many loops as a tensor has dimensions");
    sizes[count++] = loop_size{size};
  }
  [[nodiscard]] std::int64_t points() const {
    std::int64_t n = 1;
    for (int l = 0; l < count; ++l) {
      n *= sizes[l].size;
    }
    return n;
  }
};

// The stride of a tensor for each loop. Unit: elements.
struct loop_moves {
  std::int64_t steps[max_loops] = {};
};

[[nodiscard]] UNITY_HOST_DEVICE inline float widen_float16(std::uint16_t x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x));
#else
  return tensor::from_float16(x);
#endif
}
[[nodiscard]] UNITY_HOST_DEVICE inline float widen_bfloat16(std::uint16_t x) {
#if defined(__CUDA_ARCH__)
  return __bfloat162float(__ushort_as_bfloat16(x));
#else
  return tensor::from_bfloat16(x);
#endif
}
// Rounds once, also from double.
template <class Real>
[[nodiscard]] UNITY_HOST_DEVICE std::uint16_t narrow_float16(Real x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Real, double>) {
    return __half_as_ushort(__double2half(x));
  } else {
    return __half_as_ushort(__float2half_rn(x));
  }
#else
  return tensor::to_float16(static_cast<double>(x));
#endif
}
template <class Real>
[[nodiscard]] UNITY_HOST_DEVICE std::uint16_t narrow_bfloat16(Real x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<Real, double>) {
    return __bfloat16_as_ushort(__double2bfloat16(x));
  } else {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
#else
  return tensor::to_bfloat16(static_cast<double>(x));
#endif
}

// The elements that a thread moves at once.
template <class T>
struct alignas(4 * sizeof(T)) quad {
  T x[4];
};

// tensor::low_bits for the device, where neither host functions nor numeric_limits can be used.
template <class Integer, class Real>
[[nodiscard]] UNITY_HOST_DEVICE Integer low_bits(Real x) {
  if (!(x == x)) {
    return 0;
  }
  if (x >= static_cast<Real>(0x1p63)) {
    return static_cast<Integer>(INT64_MAX);
  }
  constexpr auto least = static_cast<Real>(-0x1p63);
  return static_cast<Integer>(static_cast<std::int64_t>(x < least ? least : x));
}

// Element i of a tensor.
template <class Real>
[[nodiscard]] UNITY_HOST_DEVICE Real load_element(tensor::dtype t, const std::byte* from, std::int64_t i) {
  using tensor::dtype;
  switch (t) {
    case dtype::float32: return static_cast<Real>(reinterpret_cast<const float*>(from)[i]);
    case dtype::float64: return static_cast<Real>(reinterpret_cast<const double*>(from)[i]);
    case dtype::float16: return static_cast<Real>(widen_float16(reinterpret_cast<const std::uint16_t*>(from)[i]));
    case dtype::bfloat16: return static_cast<Real>(widen_bfloat16(reinterpret_cast<const std::uint16_t*>(from)[i]));
    case dtype::int64: return static_cast<Real>(reinterpret_cast<const std::int64_t*>(from)[i]);
    case dtype::int32: return static_cast<Real>(reinterpret_cast<const std::int32_t*>(from)[i]);
    case dtype::int8: return static_cast<Real>(reinterpret_cast<const std::int8_t*>(from)[i]);
    default: return static_cast<Real>(reinterpret_cast<const std::uint8_t*>(from)[i]);
  }
}

template <class Real>
UNITY_HOST_DEVICE void store_element(tensor::dtype t, std::byte* to, std::int64_t i, Real x) {
  using tensor::dtype;
  switch (t) {
    case dtype::float32: reinterpret_cast<float*>(to)[i] = static_cast<float>(x); return;
    case dtype::float64: reinterpret_cast<double*>(to)[i] = static_cast<double>(x); return;
    case dtype::float16: reinterpret_cast<std::uint16_t*>(to)[i] = narrow_float16(x); return;
    case dtype::bfloat16: reinterpret_cast<std::uint16_t*>(to)[i] = narrow_bfloat16(x); return;
    case dtype::int64: reinterpret_cast<std::int64_t*>(to)[i] = low_bits<std::int64_t>(x); return;
    case dtype::int32: reinterpret_cast<std::int32_t*>(to)[i] = low_bits<std::int32_t>(x); return;
    case dtype::int8: reinterpret_cast<std::int8_t*>(to)[i] = low_bits<std::int8_t>(x); return;
    case dtype::uint8: reinterpret_cast<std::uint8_t*>(to)[i] = low_bits<std::uint8_t>(x); return;
    case dtype::boolean: reinterpret_cast<std::uint8_t*>(to)[i] = x != Real{0} ? 1 : 0; return;
  }
}

// Whether load_quad supports the type.
[[nodiscard]] constexpr bool has_quads(tensor::dtype t) noexcept {
  return t == tensor::dtype::float32 || t == tensor::dtype::float16 || t == tensor::dtype::bfloat16;
}
// Elements 4 i to 4 i + 3 of a tensor whose address is a multiple of the size of a quad.
[[nodiscard]] UNITY_HOST_DEVICE inline quad<float> load_quad(tensor::dtype t, const std::byte* from, std::int64_t i) {
  if (t == tensor::dtype::float32) {
    return reinterpret_cast<const quad<float>*>(from)[i];
  }
  const auto q = reinterpret_cast<const quad<std::uint16_t>*>(from)[i];
  if (t == tensor::dtype::float16) {
    return {{widen_float16(q.x[0]), widen_float16(q.x[1]), widen_float16(q.x[2]), widen_float16(q.x[3])}};
  }
  return {{widen_bfloat16(q.x[0]), widen_bfloat16(q.x[1]), widen_bfloat16(q.x[2]), widen_bfloat16(q.x[3])}};
}
UNITY_HOST_DEVICE inline void store_quad(tensor::dtype t, std::byte* to, std::int64_t i, const quad<float>& x) {
  if (t == tensor::dtype::float32) {
    reinterpret_cast<quad<float>*>(to)[i] = x;
  } else if (t == tensor::dtype::float16) {
    reinterpret_cast<quad<std::uint16_t>*>(to)[i] = {
        {narrow_float16(x.x[0]), narrow_float16(x.x[1]), narrow_float16(x.x[2]), narrow_float16(x.x[3])}};
  } else {
    reinterpret_cast<quad<std::uint16_t>*>(to)[i] = {
        {narrow_bfloat16(x.x[0]), narrow_bfloat16(x.x[1]), narrow_bfloat16(x.x[2]), narrow_bfloat16(x.x[3])}};
  }
}

}  // namespace unity::backend::cuda
