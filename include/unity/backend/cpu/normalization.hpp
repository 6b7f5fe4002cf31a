// Softmax, the normalizations, and their adjoints.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

namespace detail {

// The sums of f(i) over [0, n), where f returns a pair; with as many partial sums as vector lanes.
template <class F>
[[gnu::always_inline]] inline std::pair<double, double> sum_pairs(std::int64_t n, const F& f) {
  constexpr std::int64_t lanes = 16;
  std::array<double, static_cast<std::size_t>(lanes)> first{};
  std::array<double, static_cast<std::size_t>(lanes)> second{};
  auto* const a = first.data();
  auto* const b = second.data();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t j = 0; j < lanes; ++j) {
      const auto [x, y] = f(i + j);
      a[j] += static_cast<double>(x);
      b[j] += static_cast<double>(y);
    }
  }
  for (std::int64_t j = 0; i + j < n; ++j) {
    const auto [x, y] = f(i + j);
    a[j] += static_cast<double>(x);
    b[j] += static_cast<double>(y);
  }
  std::pair<double, double> sum{0, 0};
  for (std::int64_t j = 0; j < lanes; ++j) {
    sum.first += a[j];
    sum.second += b[j];
  }
  return sum;
}

// The addresses of requested cotangents, by operand; null if it is not requested.
template <std::size_t Operands>
[[nodiscard]] std::array<float*, Operands> cotangents_of(const call& c, const std::vector<std::int64_t>& of) {
  std::array<float*, Operands> to{};
  for (std::size_t i = 0; i < of.size(); ++i) {
    to[static_cast<std::size_t>(of[i])] = reinterpret_cast<float*>(c.outputs[i]);
  }
  return to;
}

[[nodiscard]] inline std::vector<std::int64_t> wanted_operands(const tensor::attribute_reader& a) {
  const auto of = a.integers("of");
  return {of.begin(), of.end()};
}

}  // namespace detail

// Inputs of both: float32, row-major.

// The adjoint of layer_norm. Each block of rows is computed by one thread. Values that rows share are summed within
// each block and then in the order of the blocks, so the result does not depend on the number of threads.
class layer_norm_gradient_routine final : public routine {
 public:
  layer_norm_gradient_routine(const tensor::attribute_reader& a, types inputs);

  // A sum for scale and one for shift, per block.
  [[nodiscard]] std::size_t workspace() const override {
    return static_cast<std::size_t>(2 * blocks_ * size_) * sizeof(float);
  }

  void run(const call& c) const override;

 private:
  static constexpr std::int64_t block_rows = 32;
  static constexpr std::int64_t least_elements = 16384;

  [[gnu::always_inline]] void run_block(const call& c, std::int64_t b, float* of_x, float* sums) const {
    const auto operand = [&](std::size_t i) { return reinterpret_cast<const float*>(c.inputs[i]); };
    const auto* const scale = operand(1);
    float* const of_scale = sums;
    float* const of_shift = sums + size_;
    std::fill_n(sums, 2 * size_, 0.0F);
    for (auto row = b * block_rows; row < std::min(rows_, (b + 1) * block_rows); ++row) {
      const auto* const x = operand(0) + row * size_;
      const auto* const y = operand(3) + row * size_;
      const auto n = static_cast<double>(size_);
      const auto mean =
          static_cast<float>(detail::sum_pairs(size_, [&](std::int64_t i) { return std::pair{x[i], 0.0F}; }).first / n);
      const auto [squares, rest] = detail::sum_pairs(size_, [&](std::int64_t i) {
        const auto centred = x[i] - mean;
        return std::pair{centred * centred, centred};
      });
      // The mean is rounded: subtracts the remaining error.
      const auto left = rest / n;
      const auto factor = static_cast<float>(1 / std::sqrt(squares / n - left * left + epsilon_));
      const auto centre = static_cast<float>(left);
      const auto normalized = [&](std::int64_t i) { return (x[i] - mean - centre) * factor; };
      const auto [sum, product] = detail::sum_pairs(size_, [&](std::int64_t i) {
        const auto scaled = y[i] * scale[i];
        return std::pair{scaled, scaled * normalized(i)};
      });
      const auto average = static_cast<float>(sum / n);
      const auto slope = static_cast<float>(product / n);
      write_each(of_scale, size_, [&](std::int64_t i) { return of_scale[i] + y[i] * normalized(i); });
      write_each(of_shift, size_, [&](std::int64_t i) { return of_shift[i] + y[i]; });
      if (of_x != nullptr) {
        write_each(of_x + row * size_, size_,
                   [&](std::int64_t i) { return (y[i] * scale[i] - average - normalized(i) * slope) * factor; });
      }
    }
  }

  // from: the sums of the first block.
  void join(int threads, const float* from, float* to) const;

  double epsilon_;
  std::vector<std::int64_t> of_;
  std::int64_t rows_ = 1;
  std::int64_t size_ = 1;
  std::int64_t blocks_ = 1;
};

// The adjoint of batch_norm with given statistics: each channel is computed by one thread.
class batch_norm_gradient_routine final : public routine {
 public:
  batch_norm_gradient_routine(const tensor::attribute_reader& a, types inputs)
      : epsilon_{a.real("epsilon")},
        of_{detail::wanted_operands(a)},
        batch_{inputs[0].dims[0]},
        channels_{inputs[0].dims[1]} {
    points_ = tensor::element_count(std::span<const std::int64_t>{inputs[0].dims}.subspan(2));
    sums_ = of_.back() > 0;
  }

  void run(const call& c) const override;

 private:
  [[gnu::always_inline]] void run_channel(const call& c, std::int64_t channel, const std::array<float*, 5>& to) const {
    const auto operand = [&](std::size_t i) { return reinterpret_cast<const float*>(c.inputs[i]); };
    const auto scale = static_cast<double>(operand(1)[channel]);
    const auto mean = operand(3)[channel];
    const auto factor = 1 / std::sqrt(static_cast<double>(operand(4)[channel]) + epsilon_);
    double sum = 0;
    double product = 0;
    for (std::int64_t b = 0; b < batch_; ++b) {
      const auto at = (b * channels_ + channel) * points_;
      const auto* const x = operand(0) + at;
      const auto* const y = operand(5) + at;
      if (sums_) {
        const auto [of_image, with_centred] =
            detail::sum_pairs(points_, [&](std::int64_t i) { return std::pair{y[i], y[i] * (x[i] - mean)}; });
        sum += of_image;
        product += with_centred;
      }
      if (to[0] != nullptr) {
        const auto slope = static_cast<float>(scale * factor);
        write_each(to[0] + at, points_, [&](std::int64_t i) { return y[i] * slope; });
      }
    }
    const auto of_scale = product * factor;
    const std::array<double, 5> sums{0, of_scale, sum, -sum * scale * factor,
                                     -0.5 * of_scale * scale * factor * factor};
    for (std::size_t i = 1; i < sums.size(); ++i) {
      if (to[i] != nullptr) {
        to[i][channel] = static_cast<float>(sums[i]);
      }
    }
  }

  double epsilon_;
  std::vector<std::int64_t> of_;
  std::int64_t batch_;
  std::int64_t channels_;
  std::int64_t points_ = 1;
  bool sums_ = true;
};

// All inputs: float32, row-major.

[[nodiscard]] std::unique_ptr<routine> softmax_routine(const onednn& library, const tensor::attribute_reader& a,
                                                       types inputs);

[[nodiscard]] std::unique_ptr<routine> layer_norm_routine(const onednn& library, const tensor::attribute_reader& a,
                                                          types inputs);

// Any rank, which oneDNN does not support: multiplies and adds one number per channel.
class batch_norm_routine final : public routine {
 public:
  batch_norm_routine(const tensor::attribute_reader& a, types inputs)
      : epsilon_{a.real("epsilon")}, batch_{inputs[0].dims[0]}, channels_{inputs[0].dims[1]} {
    points_ = tensor::element_count(std::span<const std::int64_t>{inputs[0].dims}.subspan(2));
  }

  void run(const call& c) const override;

 private:
  double epsilon_;
  std::int64_t batch_;
  std::int64_t channels_;
  std::int64_t points_ = 1;
};

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_NORMALIZATION)

#include <dnnl.hpp>

namespace unity::backend::cpu {

UNITY_INLINE layer_norm_gradient_routine::layer_norm_gradient_routine(const tensor::attribute_reader& a, types inputs)
    : epsilon_{a.real("epsilon")}, of_{detail::wanted_operands(a)} {
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const std::span<const std::int64_t> dims{inputs[0].dims};
  rows_ = tensor::element_count(dims.first(axis));
  size_ = tensor::element_count(dims.subspan(axis));
  blocks_ = (rows_ + block_rows - 1) / block_rows;
}

UNITY_INLINE void layer_norm_gradient_routine::run(const call& c) const {
  const auto to = detail::cotangents_of<3>(c, of_);
  auto* const sums = reinterpret_cast<float*>(c.work);
  parallel_for(c.threads, blocks_, least_elements / (block_rows * size_) + 1,
               [&](int, std::int64_t begin, std::int64_t end) {
                 with_widest_vectors([&] {
                   for (auto b = begin; b < end; ++b) {
                     run_block(c, b, to[0], sums + 2 * b * size_);
                   }
                 });
               });
  for (std::size_t operand : {1U, 2U}) {
    if (to[operand] != nullptr) {
      join(c.threads, sums + (operand == 1 ? 0 : size_), to[operand]);
    }
  }
}

UNITY_INLINE void layer_norm_gradient_routine::join(int threads, const float* from, float* to) const {
  parallel_for(threads, size_, least_elements / blocks_ + 1, [&](int, std::int64_t begin, std::int64_t end) {
    with_widest_vectors([&] {
      constexpr std::int64_t most = 256;
      std::array<double, static_cast<std::size_t>(most)> sums;
      auto* const sum = sums.data();
      for (auto first = begin; first < end; first += most) {
        const auto n = std::min(most, end - first);
        std::fill_n(sum, n, 0.0);
        for (std::int64_t b = 0; b < blocks_; ++b) {
          const auto* const some = from + 2 * b * size_ + first;
          write_each(sum, n, [&](std::int64_t i) { return sum[i] + static_cast<double>(some[i]); });
        }
        write_each(to + first, n, [&](std::int64_t i) { return static_cast<float>(sum[i]); });
      }
    });
  });
}

UNITY_INLINE void batch_norm_gradient_routine::run(const call& c) const {
  const auto to = detail::cotangents_of<5>(c, of_);
  constexpr std::int64_t least_elements = 16384;
  parallel_for(c.threads, channels_, least_elements / (batch_ * points_) + 1,
               [&](int, std::int64_t begin, std::int64_t end) {
                 with_widest_vectors([&] {
                   for (auto channel = begin; channel < end; ++channel) {
                     run_channel(c, channel, to);
                   }
                 });
               });
}

UNITY_INLINE std::unique_ptr<routine> softmax_routine(const onednn& library, const tensor::attribute_reader& a,
                                                      types inputs) {
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const std::span<const std::int64_t> dims{inputs[0].dims};
  const auto outer = tensor::element_count(dims.first(axis));
  const auto inner = tensor::element_count(dims.subspan(axis + 1));
  const auto shape = inner == 1 ? plain_desc({outer, dims[axis]}) : plain_desc({outer, dims[axis], inner});
  const dnnl::softmax_forward::desc d{dnnl::prop_kind::forward_inference, shape, 1};
  const dnnl::softmax_forward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine};
  auto r = std::make_unique<onednn_routine>(library);
  r->add(dnnl::softmax_forward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_SRC, shape, place::input(0)}, {DNNL_ARG_DST, shape, place::output(0)}});
  return r;
}

UNITY_INLINE std::unique_ptr<routine> layer_norm_routine(const onednn& library, const tensor::attribute_reader& a,
                                                         types inputs) {
  const auto axis = static_cast<std::size_t>(a.integer("axis"));
  const std::span<const std::int64_t> dims{inputs[0].dims};
  const auto normalized = tensor::element_count(dims.subspan(axis));
  const auto shape = plain_desc({tensor::element_count(dims.first(axis)), normalized});
  const auto scale = plain_desc({normalized});
  const dnnl::layer_normalization_forward::desc d{
      dnnl::prop_kind::forward_inference, shape, static_cast<float>(a.real("epsilon")),
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift};
  const dnnl::layer_normalization_forward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine};
  auto r = std::make_unique<onednn_routine>(library);
  r->add(dnnl::layer_normalization_forward{pd}, pd.scratchpad_desc(),
         {{DNNL_ARG_SRC, shape, place::input(0)},
          {DNNL_ARG_SCALE, scale, place::input(1)},
          {DNNL_ARG_SHIFT, scale, place::input(2)},
          {DNNL_ARG_DST, shape, place::output(0)}});
  return r;
}

UNITY_INLINE void batch_norm_routine::run(const call& c) const {
  const auto operand = [&](std::size_t i) { return reinterpret_cast<const float*>(c.inputs[i]); };
  const auto* x = operand(0);
  auto* to = reinterpret_cast<float*>(c.outputs[0]);
  constexpr std::int64_t least_elements = 16384;
  parallel_for(
      c.threads, batch_ * channels_, least_elements / points_ + 1, [&](int, std::int64_t begin, std::int64_t end) {
        with_widest_vectors([&] {
          for (auto i = begin; i < end; ++i) {
            const auto channel = i % channels_;
            const auto factor = static_cast<float>(operand(1)[channel] / std::sqrt(operand(4)[channel] + epsilon_));
            const auto mean = operand(3)[channel];
            const auto shift = operand(2)[channel];
            const float* from = x + i * points_;
            float* __restrict out = to + i * points_;
            for (std::int64_t j = 0; j < points_; ++j) {
              out[j] = (from[j] - mean) * factor + shift;
            }
          }
        });
      });
}

}  // namespace unity::backend::cpu

#endif
