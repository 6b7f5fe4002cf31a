// The inner loops of products, which dominate the time of matmul and conv2d.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <unity/tensor/scalar.hpp>

namespace unity::tensor::detail {

// A strided vector in memory.
template <class T>
struct strided_pointer {
  T* at = nullptr;
  std::int64_t step = 0;

  [[nodiscard]] T& operator[](std::int64_t i) const noexcept { return at[i * step]; }
  [[nodiscard]] strided_pointer plus(std::int64_t offset) const noexcept { return {at + offset, step}; }
};

// acc[i] += sum over q < Count of a[q * a_next + i] * b[q * b_next + i].
template <std::size_t Count, class Scalar>
void add_products(strided_pointer<Scalar> acc, strided_pointer<const Scalar> a, std::int64_t a_next,
                  strided_pointer<const Scalar> b, std::int64_t b_next, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  const auto loop = [&](auto acc_step, auto a_step, auto b_step) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto sum = traits::widen(acc.at[i * acc_step]);
      for (std::size_t q = 0; q < Count; ++q) {
        const auto k = static_cast<std::int64_t>(q);
        traits::add_product(sum, a.at[k * a_next + i * a_step], b.at[k * b_next + i * b_step]);
      }
      acc.at[i * acc_step] = traits::narrow(sum);
    }
  };
  using one = std::integral_constant<std::int64_t, 1>;
  using zero = std::integral_constant<std::int64_t, 0>;
  if (acc.step == 1 && a.step == 0 && b.step == 1) {
    loop(one{}, zero{}, one{});
  } else if (acc.step == 1 && a.step == 1 && b.step == 0) {
    loop(one{}, one{}, zero{});
  } else {
    loop(acc.step, a.step, b.step);
  }
}

// acc += sum over i of a[i] * b[i].
template <class Scalar>
void add_dot(Scalar& acc, strided_pointer<const Scalar> a, strided_pointer<const Scalar> b, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  constexpr std::int64_t ways = 4;
  typename traits::product_sum sums[ways] = {traits::widen(acc), {}, {}, {}};
  std::int64_t i = 0;
  for (; i + ways <= n; i += ways) {
    for (std::int64_t q = 0; q < ways; ++q) {
      traits::add_product(sums[q], a[i + q], b[i + q]);
      if constexpr (sizeof(typename traits::product_sum) > sizeof(Scalar)) {
        sums[q] = traits::widen(traits::narrow(sums[q]));
      }
    }
  }
  for (; i < n; ++i) {
    traits::add_product(sums[0], a[i], b[i]);
    sums[0] = traits::widen(traits::narrow(sums[0]));
  }
  acc = (traits::narrow(sums[0]) + traits::narrow(sums[1])) + (traits::narrow(sums[2]) + traits::narrow(sums[3]));
}

}  // namespace unity::tensor::detail
