// Coefficients of the model of kernels, fitted to measurements of NeuSight (P4, P100, V100, T4, A100), as
// machines/kernels.json holds them. Written by cmake/device_table.py: run `fit_kernels DIR --out machines/kernels.json`
// first.
#pragma once

#include <array>
#include <span>

#include <unity/cost/kernel_model.hpp>

namespace unity {

inline constexpr std::array<double, 11> batched_product_coefficients{
    1.04294, 1.04824, 0.88329, 0.56436, 0.285631, 16.0647, 0.768745, 0.952731, 1.32866, 2.00238, 0.621487};
inline constexpr std::array<double, 16> convolution_coefficients{
    0.642827, 0.669061, 0.622397, 0.623069, 0.423845, 18.0132, 0.998552, 5.10365, 1.37833, 2.00239, 1.2647, 1.38972,
    0.86772, 0.259085, 5.58135, 1.15928};
inline constexpr std::array<double, 5> elementwise_coefficients{
    0.984234, 1.48973, 0.0910442, 0.0200006, 0.512836};
inline constexpr std::array<double, 9> layer_norm_coefficients{
    0.650553, 1, 589.609, 0.389205, 100, 0.7, 2.00786, 0.100653, 0.777666};
inline constexpr std::array<double, 11> product_coefficients{
    1, 1.04128, 1.03586, 0.555234, 0.51244, 18.3932, 0.407939, 0.921483, 1.39353, 2.00742, 0.68692};
inline constexpr std::array<double, 9> softmax_coefficients{
    0.916699, 0.797242, 20.6024, 0.317407, 89.1367, 1.30939, 2.00326, 0.25631, 0.689518};

// Of a kind of kernels, as kernel_seconds takes them.
[[nodiscard]] constexpr std::span<const double> kernel_coefficients(kernel_kind kind) noexcept {
  switch (kind) {
    case kernel_kind::softmax:
      return softmax_coefficients;
    case kernel_kind::layer_norm:
      return layer_norm_coefficients;
    case kernel_kind::batched_product:
      return batched_product_coefficients;
    case kernel_kind::product:
      return product_coefficients;
    case kernel_kind::convolution:
      return convolution_coefficients;
    default:
      return elementwise_coefficients;
  }
}

}  // namespace unity
