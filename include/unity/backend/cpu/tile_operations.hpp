// The effect of one instruction on a tile.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include <unity/backend/cpu/elements.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>

namespace unity::backend::cpu {

// The number of elements of a tile, and of the blocks that instructions process: compile-time constants, so that loops
// over them vectorize. A tile of floats is 2 KiB: a dozen fit into a first-level cache besides the data that streams
// through it; larger tiles are measurably slower (bench/fused_elementwise.cpp).
inline constexpr std::int64_t tile_size = 512;
inline constexpr std::int64_t block_size = 64;

[[nodiscard]] constexpr std::int64_t in_blocks(std::int64_t n) noexcept {
  return (n + block_size - 1) / block_size * block_size;
}

namespace detail {

// The pragmas state that `to` is not read: compilers cannot deduce that from pointers or references.
template <class F>
[[gnu::always_inline]] inline void each_in_block(float* to, const float* a, const float* b, const F& f) {
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"  // under a sanitizer no loop is vectorized
#pragma clang loop vectorize(assume_safety)
#elif defined(__GNUC__)
#pragma GCC ivdep
#endif
  for (std::int64_t i = 0; i < block_size; ++i) {
    to[i] = f(a[i], b[i]);
  }
#if defined(__clang__)
#pragma clang diagnostic pop
#endif
}

// Forces inlining of a function.
template <float (*F)(float)>
inline constexpr auto in_line = [](float x, float) __attribute__((always_inline)) { return F(x); };

template <class F>
void each(float* to, const float* a, const float* b, std::int64_t n, const F& f) {
  with_widest_vectors([=] {
    for (std::int64_t begin = 0; begin < n; begin += block_size) {
      each_in_block(to + begin, a + begin, b + begin, f);
    }
  });
}

template <class Real>
void fill_tile(Real* to, Real value, std::int64_t n) {
  with_widest_vectors([=] {
    const Real same = value;  // a local copy: no write can change it
    for (std::int64_t begin = 0; begin < n; begin += block_size) {
      for (std::int64_t i = 0; i < block_size; ++i) {
        to[begin + i] = same;
      }
    }
  });
}

inline void square_roots(float* to, const float* a, std::int64_t n) {
#if defined(__SSE__)
  for (std::int64_t i = 0; i < n; i += 4) {
    _mm_storeu_ps(to + i, _mm_sqrt_ps(_mm_loadu_ps(a + i)));
  }
#else
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = std::sqrt(a[i]);
  }
#endif
}

// Squares and square roots are the most common powers.
inline void powers(float* to, const float* a, const float* b, std::int64_t n) {
  bool uniform = true;
  for (std::int64_t i = 1; i < n && uniform; ++i) {
    uniform = b[i] == b[0];
  }
  if (uniform && b[0] == 2.0F) {
    return each(to, a, b, n, [](float x, float) { return x * x; });
  }
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = std::pow(a[i], b[i]);
  }
}

template <class Real>
void apply_one_by_one(tensor::scalar_op op, Real* to, const Real* a, const Real* b, std::int64_t n) {
  using traits = tensor::scalar_traits<Real>;
  const bool binary = tensor::is_binary(op);
  for (std::int64_t i = 0; i < n; ++i) {
    to[i] = binary ? traits::apply(op, a[i], b[i]) : traits::apply(op, a[i]);
  }
}

}  // namespace detail

// to[0, n) = op(a, b); n is a multiple of block_size; `to` is neither a nor b. Unary operators ignore b, which must be
// readable.
inline void apply_to_tile(tensor::scalar_op op, float* to, const float* a, const float* b, std::int64_t n) {
  using tensor::scalar_op;
  const auto each = [&](const auto& f) { detail::each(to, a, b, n, f); };
  switch (op) {
    case scalar_op::negate: return each([](float x, float) { return -x; });
    case scalar_op::reciprocal: return each([](float x, float) { return 1.0F / x; });
    case scalar_op::abs: return each([](float x, float) { return functions::magnitude(x); });
    case scalar_op::relu: return each([](float x, float) { return x < 0.0F ? 0.0F : x; });
    case scalar_op::sigmoid: return each(detail::in_line<functions::sigmoid>);
    case scalar_op::tanh: return each(detail::in_line<functions::tanh>);
    case scalar_op::gelu: return each(detail::in_line<functions::gelu>);
    case scalar_op::exp: return each(detail::in_line<functions::exp>);
    case scalar_op::log: return each(detail::in_line<functions::log>);
    case scalar_op::erf: return each(detail::in_line<functions::erf>);
    case scalar_op::sqrt: return detail::square_roots(to, a, n);
    case scalar_op::nonzero: return each([](float x, float) { return x != 0.0F ? 1.0F : 0.0F; });
    case scalar_op::add: return each([](float x, float y) { return x + y; });
    case scalar_op::sub: return each([](float x, float y) { return x - y; });
    case scalar_op::mul: return each([](float x, float y) { return x * y; });
    case scalar_op::div: return each([](float x, float y) { return x / y; });
    case scalar_op::pow: return detail::powers(to, a, b, n);
    case scalar_op::maximum: return each([](float x, float y) { return x < y ? y : x; });
    case scalar_op::minimum: return each([](float x, float y) { return y < x ? y : x; });
    case scalar_op::equal: return each([](float x, float y) { return x == y ? 1.0F : 0.0F; });
    case scalar_op::less: return each([](float x, float y) { return x < y ? 1.0F : 0.0F; });
    case scalar_op::masked: return each([](float x, float y) { return functions::choose(x != 0.0F, y, 0.0F); });
    default: break;
  }
  detail::apply_one_by_one(op, to, a, b, n);
}

inline void apply_to_tile(tensor::scalar_op op, double* to, const double* a, const double* b, std::int64_t n) {
  detail::apply_one_by_one(op, to, a, b, n);
}

}  // namespace unity::backend::cpu
