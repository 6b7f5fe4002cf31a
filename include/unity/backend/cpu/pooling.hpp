// Pooling on oneDNN; own loops for windows that it does not support.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

enum class pool : std::uint8_t { largest, mean, padded_mean };

struct pool_windows {
  pool how = pool::largest;
  tensor::operators::slide y{};
  tensor::operators::slide x{};
};

namespace detail {

class pool_loops final : public routine {
 public:
  pool_loops(const pool_windows& w, const tensor::tensor_type& image)
      : windows_{w}, images_{image.dims[0] * image.dims[1]} {}

  void run(const call& c) const override;

 private:
  [[nodiscard]] float window(const float* image, std::int64_t row, std::int64_t column) const;

  pool_windows windows_;
  std::int64_t images_;
};

}  // namespace detail

// Inputs: float32, row-major.
[[nodiscard]] std::unique_ptr<routine> pooling_routine(const onednn& library, const tensor::attribute_reader& a,
                                                       bool average, types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_POOLING)

#include <algorithm>
#include <limits>

#include <dnnl.hpp>

#include <unity/backend/cpu/threads.hpp>
#include <unity/tensor/operators/pooling.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu::detail {

UNITY_INLINE void pool_loops::run(const call& c) const {
  const auto& [how, y, x] = windows_;
  const auto* from = reinterpret_cast<const float*>(c.inputs[0]);
  auto* to = reinterpret_cast<float*>(c.outputs[0]);
  parallel_for(c.threads, images_, 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      for (std::int64_t row = 0; row < y.out; ++row) {
        for (std::int64_t column = 0; column < x.out; ++column) {
          to[(i * y.out + row) * x.out + column] = window(from + i * y.in * x.in, row, column);
        }
      }
    }
  });
}

UNITY_INLINE float pool_loops::window(const float* image, std::int64_t row, std::int64_t column) const {
  const auto& [how, y, x] = windows_;
  float value = how == pool::largest ? -std::numeric_limits<float>::infinity() : 0.0F;
  for (std::int64_t i = 0; i < y.kernel; ++i) {
    const auto at_y = row * y.stride + i * y.dilation - y.before;
    for (std::int64_t j = 0; j < x.kernel; ++j) {
      const auto at_x = column * x.stride + j * x.dilation - x.before;
      if (at_y >= 0 && at_y < y.in && at_x >= 0 && at_x < x.in) {
        const auto element = image[at_y * x.in + at_x];
        value = how == pool::largest ? std::max(value, element) : value + element;
      }
    }
  }
  const auto count = [mean = how == pool::mean](const tensor::operators::slide& s, std::int64_t at) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < s.kernel; ++i) {
      const auto position = at * s.stride + i * s.dilation - s.before;
      n += mean ? position >= 0 && position < s.in : position >= -s.before && position < s.in + s.after;
    }
    return n;
  };
  return how == pool::largest ? value : value / static_cast<float>(count(y, row) * count(x, column));
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::unique_ptr<routine> pooling_routine(const onednn& library, const tensor::attribute_reader& a,
                                                      bool average, types inputs, types outputs) {
  tensor::space s{inputs};
  const bool padded = average && a.flag("count_include_pad");
  const auto dilation = [&](std::size_t d) { return average ? 1 : a.integers("dilation")[d]; };
  const pool_windows w{!average ? pool::largest
                       : padded ? pool::padded_mean
                                : pool::mean,
                       tensor::operators::pool_slide(s, a, 0, dilation(0)),
                       tensor::operators::pool_slide(s, a, 1, dilation(1))};
  // The part of the padding that the last window reaches.
  const auto reached = [](const tensor::operators::slide& d) {
    return std::max((d.out - 1) * d.stride + d.reach() - d.in - d.before, std::int64_t{0});
  };
  // The library divides by the size of the kernel, even if the kernel reaches beyond the padding.
  if (padded && (reached(w.y) > w.y.after || reached(w.x) > w.x.after)) {
    return std::make_unique<detail::pool_loops>(w, inputs[0]);
  }
  const auto how = w.how == pool::largest ? dnnl::algorithm::pooling_max
                   : w.how == pool::mean  ? dnnl::algorithm::pooling_avg_exclude_padding
                                          : dnnl::algorithm::pooling_avg_include_padding;
  const auto image = plain_desc(inputs[0].dims);
  const auto result = plain_desc(outputs[0].dims);
  try {
    const dnnl::pooling_v2_forward::desc d{dnnl::prop_kind::forward_inference,
                                           how,
                                           image,
                                           result,
                                           {w.y.stride, w.x.stride},
                                           {w.y.kernel, w.x.kernel},
                                           {w.y.dilation - 1, w.x.dilation - 1},
                                           {w.y.before, w.x.before},
                                           {reached(w.y), reached(w.x)}};
    const dnnl::pooling_v2_forward::primitive_desc pd{d, onednn_routine::user_scratch(), library.engine};
    auto r = std::make_unique<onednn_routine>(library);
    r->add(dnnl::pooling_v2_forward{pd}, pd.scratchpad_desc(),
           {{DNNL_ARG_SRC, image, place::input(0)}, {DNNL_ARG_DST, result, place::output(0)}});
    return r;
  } catch (const dnnl::error&) {
    return std::make_unique<detail::pool_loops>(w, inputs[0]);
  }
}

}  // namespace unity::backend::cpu

#endif
