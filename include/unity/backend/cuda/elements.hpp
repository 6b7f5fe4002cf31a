// Elements of every type, converted from and to the type of computation; one at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <unity/backend/cuda/host_device.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

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

// tensor::to_integer for the device, where neither host functions nor numeric_limits can be used. least and most + 1
// are powers of two, or least is 0, so they are exact in Real.
template <class Integer, class Real>
[[nodiscard]] UNITY_HOST_DEVICE Integer to_integer(Real x, Real least, Real beyond, Integer most) {
  if (!(x == x)) {
    return 0;
  }
  if (x >= beyond) {
    return most;
  }
  return static_cast<Integer>(x < least ? least : x);
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
    case dtype::int64:
      reinterpret_cast<std::int64_t*>(to)[i] =
          to_integer<std::int64_t, Real>(x, static_cast<Real>(-0x1p63), static_cast<Real>(0x1p63), INT64_MAX);
      return;
    case dtype::int32:
      reinterpret_cast<std::int32_t*>(to)[i] =
          to_integer<std::int32_t, Real>(x, static_cast<Real>(-0x1p31), static_cast<Real>(0x1p31), INT32_MAX);
      return;
    case dtype::int8:
      reinterpret_cast<std::int8_t*>(to)[i] =
          to_integer<std::int8_t, Real>(x, static_cast<Real>(-0x1p7), static_cast<Real>(0x1p7), INT8_MAX);
      return;
    case dtype::uint8:
      reinterpret_cast<std::uint8_t*>(to)[i] =
          to_integer<std::uint8_t, Real>(x, static_cast<Real>(0), static_cast<Real>(0x1p8), UINT8_MAX);
      return;
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
