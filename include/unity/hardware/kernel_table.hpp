// Coefficients of the kernel model and the devices to which they were fitted, from machines/kernels.json: NeuSight's
// measurements (P4, P100, V100, T4, A100), and those of an H100 (bench/torch_kernels.py). Written by
// cmake/device_table.py: run `fit_kernels DIR --unseen FILE --out machines/kernels.json` first.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include <unity/hardware/kernel_model.hpp>

namespace unity::hardware {

inline constexpr std::array<double, 15> attention_coefficients{
    1.5486, 0.0733567, 0.612297, 0.827266, 0.816296, 0.66061, 4.1995, 2.19153, 1.37742, 0.421024, 1.12766, 0.532492,
    0.727136, 3.16998, 0.5};
inline constexpr std::array<double, 15> attention_gradient_coefficients{
    1.10525, 0.154793, 2.46018, 0.634991, 0.619407, 0.7, 8.30955, 0.973723, 1.06531, 0.537886, 1.23713, 0.658726,
    0.7, 8.67012, 0.5};
inline constexpr std::array<double, 11> batched_product_coefficients{
    1.04294, 1.04824, 0.88329, 0.56436, 0.285631, 16.0647, 0.768745, 0.952731, 1.32866, 2.00238, 0.621487};
inline constexpr std::array<double, 16> convolution_coefficients{
    0.642827, 0.669061, 0.622397, 0.623069, 0.423845, 18.0132, 0.998552, 5.10365, 1.37833, 2.00239, 1.2647, 1.38972,
    0.86772, 0.259085, 5.58135, 1.15928};
inline constexpr std::array<double, 5> elementwise_coefficients{
    0.984234, 1.48973, 0.0910442, 0.0200006, 0.512836};
inline constexpr std::array<double, 9> layer_norm_coefficients{
    0.650553, 1, 589.609, 0.389205, 100, 0.7, 2.00786, 0.100653, 0.777666};
inline constexpr std::array<double, 9> layer_norm_gradient_coefficients{
    0.395824, 1, 960.757, 0.923039, 100, 0.7, 2.0201, 0.210912, 0.5};
inline constexpr std::array<double, 11> product_coefficients{
    1, 1.04128, 1.03586, 0.555234, 0.51244, 18.3932, 0.407939, 0.921483, 1.39353, 2.00742, 0.68692};
inline constexpr std::array<double, 9> softmax_coefficients{
    0.916699, 0.797242, 20.6024, 0.317407, 89.1367, 1.30939, 2.00326, 0.25631, 0.689518};
inline constexpr std::array<double, 13> tensor_product_coefficients{
    1, 1.18987, 0.80811, 0.596706, 0.470733, 83.9347, 1.00001, 2.46502, 1.11662, 2.05023, 0.231826, 0.144173, 0.5};

// The coefficients of a kind of kernels, for kernel_seconds.
[[nodiscard]] constexpr std::span<const double> kernel_coefficients(kernel_kind kind) noexcept {
  switch (kind) {
    case kernel_kind::attention:
      return attention_coefficients;
    case kernel_kind::attention_gradient:
      return attention_gradient_coefficients;
    case kernel_kind::batched_product:
      return batched_product_coefficients;
    case kernel_kind::convolution:
      return convolution_coefficients;
    case kernel_kind::layer_norm:
      return layer_norm_coefficients;
    case kernel_kind::layer_norm_gradient:
      return layer_norm_gradient_coefficients;
    case kernel_kind::product:
      return product_coefficients;
    case kernel_kind::softmax:
      return softmax_coefficients;
    case kernel_kind::tensor_product:
      return tensor_product_coefficients;
    default:
      return elementwise_coefficients;
  }
}

// Two factors of the predicted time, between which four of five measured times lie. These are of kernels that the
// coefficients were not fitted to: all of a device that was left out, or half of the shapes, for kinds that were
// measured on a single device.
[[nodiscard]] constexpr std::array<double, 2> kernel_interval(kernel_kind kind) noexcept {
  switch (kind) {
    case kernel_kind::attention:
      return {0.919, 1.089};
    case kernel_kind::attention_gradient:
      return {0.8735, 1.194};
    case kernel_kind::batched_product:
      return {0.848, 1.231};
    case kernel_kind::convolution:
      return {0.7412, 1.485};
    case kernel_kind::layer_norm:
      return {0.8378, 1.176};
    case kernel_kind::layer_norm_gradient:
      return {0.85, 1.337};
    case kernel_kind::product:
      return {0.7905, 1.258};
    case kernel_kind::softmax:
      return {0.9148, 1.201};
    case kernel_kind::tensor_product:
      return {0.8423, 1.44};
    default:
      return {0.9733, 1.051};
  }
}

// Measurements of a device; rates that were not measured are 0.
struct measured_kernel_device {
  std::string_view id{};  // in machines/devices.json
  double bytes_per_second = 0;
  product_rates float32{};
  product_rates bfloat16{};
};

inline constexpr std::array<measured_kernel_device, 6> measured_kernel_devices{{
    {"a100_pcie", 1.36265e+12,
     {1.55721e+13, 1.63072e+13, 0.842626}, {}},
    {"h100", 3.07404e+12,
     {4.79535e+13, 4.79535e+13, 0.802346}, {6.84446e+14, 6.84446e+14, 1}},
    {"p100", 5.62359e+11,
     {6.09342e+12, 6.24386e+12, 0.434696}, {}},
    {"p4", 1.44474e+11,
     {2.38395e+12, 1.33591e+12, 0.592732}, {}},
    {"t4", 2.43083e+11,
     {3.46472e+12, 3.25859e+12, 0.953373}, {}},
    {"v100", 8.35736e+11,
     {1.20442e+13, 1.23552e+13, 0.935259}, {}},
}};

// The shares of data sheet values that devices reach: the median of the measured ones.
inline constexpr double share_of_bandwidth = 0.876303;
inline constexpr double share_of_float32_rate = 0.715725;
inline constexpr double share_of_bfloat16_rate = 0.691778;

}  // namespace unity::hardware
