// Host versions of the library routines that the cuda backend calls, driven by the same plans.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <unity/backend/cuda/kernel_factory.hpp>
#include <unity/tensor/shape.hpp>

#include "cuda_host_queue.hpp"
#include "operator_suite.hpp"

namespace unity::backend::test {

inline float as_float(tensor::dtype t, const std::byte* from, std::int64_t i) {
  return cuda::load_element<float>(t, from, i);
}

// Checks the workspace: aligned as libraries require it, and null if its size is 0.
inline void check_library_work(const std::byte* work, std::size_t size) {
  REQUIRE((size == 0 ? work == nullptr : reinterpret_cast<std::uintptr_t>(work) % cuda::library_alignment == 0));
}

// A matrix product by the BLAS definition, with the plan as its only input. Refuses whatever cuBLASLt refuses.
class host_product final : public cuda::routine<host_queue> {
 public:
  host_product(cuda::product_plan p, const tensor_type& result)
      : plan_{std::move(p)},
        ending_{cuda::ending_routine<host_queue>(result, plan_.biased && !plan_.bias_by_row, result.rank() - 1,
                                                 plan_.then)} {
    for (const auto& m : {plan_.left, plan_.right, plan_.result}) {
      REQUIRE((m.rows >= 1 && m.columns >= 1 && m.leading >= m.rows && m.batch_step >= 0));
    }
    REQUIRE((plan_.batch >= 1 && !plan_.offsets.empty() && !plan_.result.transposed));
    REQUIRE((plan_.batch == 1 || plan_.result.batch_step >= plan_.result.leading * plan_.result.columns));
  }

  // Every second inner size needs a workspace, so that both cases occur.
  [[nodiscard]] std::size_t workspace() const override { return plan_.inner % 2 == 0 ? 96 : 0; }

  void run(const cuda::call<host_queue>& c) const override {
    check_library_work(c.work, workspace());
    std::fill_n(c.work, workspace(), std::byte{0xFF});
    check_places(c);
    for (const auto& [left, right, result] : plan_.offsets) {
      for (std::int64_t b = 0; b < plan_.batch; ++b) {
        multiply(c, left + b * plan_.left.batch_step, right + b * plan_.right.batch_step,
                 result + b * plan_.result.batch_step);
      }
    }
    cuda::run_ending(ending_.get(), c);
  }

 private:
  // Each matrix must begin at a multiple of the alignment that the library was told.
  void check_places(const cuda::call<host_queue>& c) const {
    const std::array<const std::byte*, 3> from{c.inputs[plan_.left.operand], c.inputs[plan_.right.operand],
                                               c.outputs[0]};
    for (const auto& offsets : plan_.offsets) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        const auto place = reinterpret_cast<std::uintptr_t>(from[i]) +
                           static_cast<std::size_t>(offsets[i] * tensor::size_of(plan_.element));
        REQUIRE(place % cuda::alignment_of(plan_, i) == 0);
      }
    }
  }
  void multiply(const cuda::call<host_queue>& c, std::int64_t left, std::int64_t right, std::int64_t result) const {
    // Checked once for the whole matrix; checking each element would take longer than the product.
    const auto check_size = [](const cuda::product_matrix& m, std::int64_t rows, std::int64_t columns) {
      if (m.transposed) {
        std::swap(rows, columns);
      }
      REQUIRE((rows <= m.rows && columns <= m.columns && m.rows <= m.leading));
    };
    check_size(plan_.left, plan_.result.rows, plan_.inner);
    check_size(plan_.right, plan_.inner, plan_.result.columns);
    check_size(plan_.result, plan_.result.rows, plan_.result.columns);
    const auto at = [](const cuda::product_matrix& m, std::int64_t row, std::int64_t column) {
      return m.transposed ? column + row * m.leading : row + column * m.leading;
    };
    for (std::int64_t i = 0; i < plan_.result.rows; ++i) {
      for (std::int64_t j = 0; j < plan_.result.columns; ++j) {
        double sum =
            plan_.biased && plan_.bias_by_row ? static_cast<double>(as_float(plan_.element, c.inputs[2], i)) : 0;
        for (std::int64_t k = 0; k < plan_.inner; ++k) {
          sum +=
              static_cast<double>(as_float(plan_.element, c.inputs[plan_.left.operand], left + at(plan_.left, i, k))) *
              static_cast<double>(
                  as_float(plan_.element, c.inputs[plan_.right.operand], right + at(plan_.right, k, j)));
        }
        cuda::store_element(plan_.element, c.outputs[0], result + at(plan_.result, i, j), static_cast<float>(sum));
      }
    }
  }

  cuda::product_plan plan_;
  cuda::routine_ptr<host_queue> ending_;
};

// A convolution of NCHW images with the same padding at both ends.
class host_convolution final : public cuda::routine<host_queue> {
 public:
  host_convolution(const cuda::convolution_plan& p, cuda::types inputs, const tensor_type& result)
      : plan_{p},
        image_{inputs[0]},
        weight_{inputs[1]},
        result_{result},
        ending_{cuda::ending_routine<host_queue>(result, p.biased, 1, p.then)} {
    REQUIRE((p.symmetric() && is_row_major(image_) && is_row_major(weight_)));
  }

  [[nodiscard]] std::size_t workspace() const override { return 96; }

  void run(const cuda::call<host_queue>& c) const override {
    check_library_work(c.work, workspace());
    const auto& out = result_.dims;
    std::int64_t to = 0;
    for (std::int64_t n = 0; n < out[0]; ++n) {
      for (std::int64_t channel = 0; channel < out[1]; ++channel) {
        for (std::int64_t row = 0; row < out[2]; ++row) {
          for (std::int64_t column = 0; column < out[3]; ++column) {
            cuda::store_element(result_.element, c.outputs[0], to++,
                                static_cast<float>(sum(c, n, channel, row, column)));
          }
        }
      }
    }
    cuda::run_ending(ending_.get(), c);
  }

 private:
  double sum(const cuda::call<host_queue>& c, std::int64_t n, std::int64_t channel, std::int64_t row,
             std::int64_t column) const {
    const auto& w = weight_.dims;
    const auto first = channel / (w[0] / plan_.groups) * w[1];
    double total = 0;
    for (std::int64_t i = 0; i < w[1]; ++i) {
      for (std::int64_t ky = 0; ky < w[2]; ++ky) {
        for (std::int64_t kx = 0; kx < w[3]; ++kx) {
          const auto y = row * plan_.y.stride + ky * plan_.y.dilation - plan_.y.before;
          const auto x = column * plan_.x.stride + kx * plan_.x.dilation - plan_.x.before;
          if (y >= 0 && y < image_.dims[2] && x >= 0 && x < image_.dims[3]) {
            const auto from = ((n * image_.dims[1] + first + i) * image_.dims[2] + y) * image_.dims[3] + x;
            const auto weight = ((channel * w[1] + i) * w[2] + ky) * w[3] + kx;
            total += static_cast<double>(as_float(image_.element, c.inputs[0], from)) *
                     static_cast<double>(as_float(weight_.element, c.inputs[1], weight));
          }
        }
      }
    }
    return total;
  }

  cuda::convolution_plan plan_;
  tensor_type image_;
  tensor_type weight_;
  tensor_type result_;
  cuda::routine_ptr<host_queue> ending_;
};

// The adjoint of a convolution with the same padding at both ends: scatters each product of the convolution.
class host_convolution_gradient final : public cuda::routine<host_queue> {
 public:
  host_convolution_gradient(const cuda::convolution_plan& p, cuda::convolution_operand of, cuda::types inputs,
                            const tensor_type& result)
      : plan_{p},
        to_image_{of == cuda::convolution_operand::image},
        image_{to_image_ ? result : inputs[0]},
        weight_{to_image_ ? inputs[1] : result},
        cotangent_{to_image_ ? inputs[0] : inputs[1]} {
    REQUIRE((p.symmetric() && is_row_major(inputs[0]) && is_row_major(inputs[1]) && is_row_major(result)));
  }

  [[nodiscard]] std::size_t workspace() const override { return 96; }

  void run(const cuda::call<host_queue>& c) const override {
    check_library_work(c.work, workspace());
    const auto& result = to_image_ ? image_ : weight_;
    std::vector<double> sums(static_cast<std::size_t>(tensor::element_count(result.dims)));
    const auto& d = cotangent_.dims;
    for (std::int64_t i = 0; i < tensor::element_count(d); ++i) {
      add(c, i, i / (d[1] * d[2] * d[3]), i / (d[2] * d[3]) % d[1], i / d[3] % d[2], i % d[3], sums);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      cuda::store_element(result.element, c.outputs[0], static_cast<std::int64_t>(i), sums[i]);
    }
  }

 private:
  void add(const cuda::call<host_queue>& c, std::int64_t i, std::int64_t n, std::int64_t channel, std::int64_t row,
           std::int64_t column, std::vector<double>& sums) const {
    const auto& w = weight_.dims;
    const auto y = static_cast<double>(as_float(cotangent_.element, c.inputs[to_image_ ? 0 : 1], i));
    for (std::int64_t tap = 0; tap < w[1] * w[2] * w[3]; ++tap) {
      const auto at_y = row * plan_.y.stride + tap / w[3] % w[2] * plan_.y.dilation - plan_.y.before;
      const auto at_x = column * plan_.x.stride + tap % w[3] * plan_.x.dilation - plan_.x.before;
      if (at_y < 0 || at_y >= image_.dims[2] || at_x < 0 || at_x >= image_.dims[3]) {
        continue;
      }
      const auto plane = n * image_.dims[1] + channel / (w[0] / plan_.groups) * w[1] + tap / (w[2] * w[3]);
      const auto point = (plane * image_.dims[2] + at_y) * image_.dims[3] + at_x;
      const auto weight = channel * w[1] * w[2] * w[3] + tap;
      const auto factor = as_float(cotangent_.element, c.inputs[to_image_ ? 1 : 0], to_image_ ? weight : point);
      sums[static_cast<std::size_t>(to_image_ ? point : weight)] += y * static_cast<double>(factor);
    }
  }

  cuda::convolution_plan plan_;
  bool to_image_;
  tensor_type image_;
  tensor_type weight_;
  tensor_type cotangent_;
};

// A pooling of NCHW images as cuDNN does it: the same padding at both ends; averages over the whole window or over its
// part within the image.
class host_pooling final : public cuda::routine<host_queue> {
 public:
  host_pooling(const cuda::pooling_plan& p, const tensor_type& image, const tensor_type& result)
      : plan_{p}, image_{image}, result_{result} {
    REQUIRE((p.is_plain() && is_row_major(image) && is_row_major(result)));
    const auto windows = [](const auto& s) { return (s.in + 2 * s.before - s.kernel) / s.stride + 1; };
    REQUIRE((windows(p.y) == result.dims[2] && windows(p.x) == result.dims[3]));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto& d = result_.dims;
    for (std::int64_t to = 0; to < tensor::element_count(d); ++to) {
      const auto x = value(c, to / (d[2] * d[3]) * image_.dims[2] * image_.dims[3], to / d[3] % d[2], to % d[3]);
      cuda::store_element(result_.element, c.outputs[0], to, x);
    }
  }

 private:
  float value(const cuda::call<host_queue>& c, std::int64_t image, std::int64_t row, std::int64_t column) const {
    using kind = cuda::pooling_plan::kind;
    double sum = 0;
    auto largest = -std::numeric_limits<float>::infinity();
    int inside = 0;
    for (std::int64_t ky = 0; ky < plan_.y.kernel; ++ky) {
      for (std::int64_t kx = 0; kx < plan_.x.kernel; ++kx) {
        const auto y = row * plan_.y.stride + ky - plan_.y.before;
        const auto x = column * plan_.x.stride + kx - plan_.x.before;
        if (y >= 0 && y < image_.dims[2] && x >= 0 && x < image_.dims[3]) {
          const auto e = as_float(image_.element, c.inputs[0], image + y * image_.dims[3] + x);
          sum += static_cast<double>(e);
          largest = std::max(largest, e);
          ++inside;
        }
      }
    }
    const auto all = static_cast<double>(plan_.y.kernel * plan_.x.kernel);
    return plan_.pooling == kind::largest
               ? largest
               : static_cast<float>(sum / (plan_.pooling == kind::average_of_window ? all : inside));
  }

  cuda::pooling_plan plan_;
  tensor_type image_;
  tensor_type result_;
};

class host_normalization final : public cuda::routine<host_queue> {
 public:
  host_normalization(double epsilon, const tensor_type& image) : epsilon_{epsilon}, image_{image} {
    REQUIRE((is_row_major(image) && image.element == tensor::dtype::float32));
  }

  void run(const cuda::call<host_queue>& c) const override {
    const auto all = tensor::element_count(image_.dims);
    const auto each = all / (image_.dims[0] * image_.dims[1]);
    for (std::int64_t i = 0; i < all; ++i) {
      const auto of = [&](std::size_t operand) {
        return as_float(tensor::dtype::float32, c.inputs[operand], i / each % image_.dims[1]);
      };
      const auto scaled =
          (as_float(tensor::dtype::float32, c.inputs[0], i) - of(3)) / std::sqrt(of(4) + static_cast<float>(epsilon_));
      cuda::store_element(tensor::dtype::float32, c.outputs[0], i, scaled * of(1) + of(2));
    }
  }

 private:
  double epsilon_;
  tensor_type image_;
};

// present: library routines that check their documented contracts; otherwise unity's own functions do everything.
struct host_library {
  bool present = true;

  [[nodiscard]] cuda::routine_ptr<host_queue> product(const cuda::product_plan& p, const tensor_type& result) const {
    return present ? std::make_unique<host_product>(p, result) : nullptr;
  }
  [[nodiscard]] bool convolves(tensor::dtype) const { return present; }
  [[nodiscard]] cuda::routine_ptr<host_queue> convolution(const cuda::convolution_plan& p, cuda::types inputs,
                                                          const tensor_type& result) const {
    return std::make_unique<host_convolution>(p, inputs, result);
  }
  [[nodiscard]] cuda::routine_ptr<host_queue> convolution_gradient(const cuda::convolution_plan& p,
                                                                   cuda::convolution_operand of, cuda::types inputs,
                                                                   const tensor_type& result) const {
    return std::make_unique<host_convolution_gradient>(p, of, inputs, result);
  }
  [[nodiscard]] cuda::routine_ptr<host_queue> pooling(const cuda::pooling_plan& p, const tensor_type& image,
                                                      const tensor_type& result,
                                                      cuda::routine_ptr<host_queue> own) const {
    return present ? std::make_unique<host_pooling>(p, image, result) : std::move(own);
  }
  [[nodiscard]] cuda::routine_ptr<host_queue> normalization(double epsilon, const tensor_type& image,
                                                            cuda::routine_ptr<host_queue> own) const {
    return present ? std::make_unique<host_normalization>(epsilon, image) : std::move(own);
  }
};

}  // namespace unity::backend::test
