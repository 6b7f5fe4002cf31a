// Elements of every type, and loops over them that compilers vectorize for the widest vectors of the current processor.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>

#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// Compiles code for the widest vectors of the current processor, without a compiler flag.

#if defined(__x86_64__) && defined(__GNUC__)

namespace detail {

// A function compiled for a larger instruction set may inline functions compiled for the baseline: loops in f are
// vectorized for the wider set.
template <class F>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"), flatten)) void run_avx512(const F& f) {
  f();
}
template <class F>
__attribute__((target("avx2,fma"), flatten)) void run_avx2(const F& f) {
  f();
}

}  // namespace detail

// Calls f. Results may differ in the last bit between processors, but not between runs on one processor.
template <class F>
void with_widest_vectors(const F& f) {
  static const int level = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                               ? 2
                           : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1
                                                                                             : 0;
  if (level == 2) {
    detail::run_avx512(f);
  } else if (level == 1) {
    detail::run_avx2(f);
  } else {
    f();
  }
}

#else

template <class F>
void with_widest_vectors(const F& f) {
  f();
}

#endif

// Loops over elements in blocks of a fixed size, which compilers vectorize at every optimization level.

namespace detail {

template <std::int64_t Size, class Real, class F>
[[gnu::always_inline]] inline void write_block(Real* to, std::int64_t step, std::int64_t first, const F& f) {
  std::array<Real, static_cast<std::size_t>(Size)> block;
  auto* const b = block.data();
  for (std::int64_t j = 0; j < Size; ++j) {
    b[j] = f(first + j);
  }
  for (std::int64_t j = 0; j < Size; ++j) {
    to[(first + j) * step] = b[j];
  }
}

}  // namespace detail

// to[i * step] = f(i) for i in [begin, end). f may read the destination, because each block is computed completely
// before it is written; so the compiler needs no check for dependencies between elements.
template <class Real, class F>
[[gnu::always_inline]] inline void write_each(Real* to, std::int64_t step, std::int64_t begin, std::int64_t end,
                                              const F& f) {
  auto i = begin;
  for (; i + 16 <= end; i += 16) {
    detail::write_block<16>(to, step, i, f);
  }
  if (i + 8 <= end) {
    detail::write_block<8>(to, step, i, f);
    i += 8;
  }
  for (; i < end; ++i) {
    to[i * step] = f(i);
  }
}
template <class Real, class F>
[[gnu::always_inline]] inline void write_each(Real* to, std::int64_t n, const F& f) {
  write_each(to, 1, 0, n, f);
}

}  // namespace unity::backend::cpu

namespace unity::backend::cpu::functions {

// Branch-free transcendental functions in single precision, so that compilers vectorize loops over them.
//
// Polynomials are Chebyshev interpolants in the stated ranges. Relative errors are below 1e-6.

[[gnu::always_inline]] inline float polynomial(float, float c) noexcept { return c; }
// c + x * (c1 + x * ...)
template <class... Rest>
[[gnu::always_inline]] inline float polynomial(float x, float c, Rest... rest) noexcept {
  return c + x * polynomial(x, rest...);
}

[[gnu::always_inline]] inline float magnitude(float x) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU);
}
[[gnu::always_inline]] inline float with_sign_of(float magnitude, float sign) noexcept {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) |
                              (std::bit_cast<std::uint32_t>(sign) & 0x80000000U));
}

// condition ? a : b, in bits: a compiler may turn a conditional expression into a branch.
[[gnu::always_inline]] inline float choose(bool condition, float a, float b) noexcept {
  const auto mask = 0U - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & mask) | (std::bit_cast<std::uint32_t>(b) & ~mask));
}

// exp(n log 2 + r) = 2^n (1 + r + r^2 p(r)), |r| <= log(2) / 2; 2^n as two factors, because n ranges from -150 to 129.
[[gnu::always_inline]] inline float exp(float x) noexcept {
  x = choose(x > 89.0F, 89.0F, x);
  x = choose(x < -104.0F, -104.0F, x);
  constexpr float to_nearest = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, in the low bits
  const float shifted = x * std::numbers::log2e_v<float> + to_nearest;
  const float n = shifted - to_nearest;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  const float p =
      polynomial(r, 0.5F, 0.16666576266288757F, 0.04166655242443085F, 0.00836323294788599F, 0.0013926250394433737F);
  const auto integer = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U);
  const auto half = integer >> 1;
  const auto power = [](std::int32_t e) { return std::bit_cast<float>((e + 127) << 23); };
  return (1.0F + (r + r * r * p)) * power(half) * power(integer - half);
}

[[gnu::always_inline]] inline float sigmoid(float x) noexcept { return 1.0F / (1.0F + exp(-x)); }

// x + x^3 p(x^2) below 0.625, 1 - 2 / (exp(2 |x|) + 1) above.
[[gnu::always_inline]] inline float tanh(float x) noexcept {
  const float s = x * x;
  const float low = x + x * s *
                            polynomial(s, -0.333333283662796F, 0.13332583010196686F, -0.05382375791668892F,
                                       0.020873460918664932F, -0.005923726130276918F);
  const float m = magnitude(x);
  const float high = with_sign_of(1.0F - 2.0F / (exp(2.0F * m) + 1.0F), x);
  return choose(m < 0.625F, low, high);
}

// x + x p(x^2) below 1, 1 - exp(-t q(t)) at t = |x| above; 1 from 4 on.
[[gnu::always_inline]] inline float erf(float x) noexcept {
  const float s = x * x;
  const float low =
      x + x * polynomial(s, 0.12837916612625122F, -0.3761262595653534F, 0.11283594369888306F, -0.02685421146452427F,
                         0.005189087241888046F, -0.000801686430349946F, 7.875874871388078e-05F);
  const float m = magnitude(x);
  const float t = choose(m > 4.0F, 4.0F, m);
  const float q =
      polynomial(t, 1.128943920135498F, 0.6340141296386719F, 0.10803550481796265F, -0.025268640369176865F,
                 0.004357486497610807F, -0.0005118096596561372F, 3.608354745665565e-05F, -1.1384655635993113e-06F);
  const float high = with_sign_of(1.0F - exp(-t * q), x);
  return choose(m < 1.0F, low, high);
}

[[gnu::always_inline]] inline float gelu(float x) noexcept {
  return 0.5F * x * (1.0F + erf(x * (1.0F / std::numbers::sqrt2_v<float>)));
}

// log(2^n (1 + f)) = n log 2 + f - f^2 / 2 + f^3 p(f), sqrt(1/2) <= 1 + f < sqrt(2).
[[gnu::always_inline]] inline float log(float x) noexcept {
  constexpr float smallest_normal = std::numeric_limits<float>::min();
  const bool tiny = x < smallest_normal;
  const float scaled = choose(tiny, x * 8388608.0F, x);  // 2^23
  const auto bits = std::bit_cast<std::uint32_t>(scaled);
  const auto exponent = static_cast<std::int32_t>(bits - 0x3F3504F3U) >> 23;  // relative to the exponent of sqrt(1/2)
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23U)) - 1.0F;
  const float n = static_cast<float>(exponent) - choose(tiny, 23.0F, 0.0F);
  const float p = polynomial(f, 0.3333333134651184F, -0.2499999701976776F, 0.20000730454921722F, -0.1666785031557083F,
                             0.14248551428318024F, -0.12424037605524063F, 0.11689071357250214F, -0.11494546383619308F,
                             0.0698070228099823F);
  const float s = f * f;
  const float value = (f * s * p + n * -2.12194440e-4F) - 0.5F * s + f + n * 0.693359375F;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float special = choose(x == 0.0F, -infinity, std::numeric_limits<float>::quiet_NaN());
  return choose(x > 0.0F, choose(x < infinity, value, x), special);
}

}  // namespace unity::backend::cpu::functions

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
      return detail::store_each<Real, std::int32_t>(to, first, from, n, tensor::low_bits<std::int32_t, Real>);
    case tensor::dtype::int8:
      return detail::store_each<Real, std::int8_t>(to, first, from, n, tensor::low_bits<std::int8_t, Real>);
    case tensor::dtype::uint8:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, tensor::low_bits<std::uint8_t, Real>);
    case tensor::dtype::boolean:
      return detail::store_each<Real, std::uint8_t>(to, first, from, n, [](Real x) { return x != Real{0} ? 1 : 0; });
  }
}

}  // namespace unity::backend::cpu
