// Pooling and its adjoints: on oneDNN, and by own loops for windows that it does not support.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/backend/cpu/elements.hpp>
#include <unity/backend/cpu/onednn.hpp>
#include <unity/backend/cpu/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cpu {

// The memory layout of an image and its windows in the adjoints of pooling.

namespace detail {

// Windows that slide along one dimension.
struct window_line : tensor::operators::slide {
  bool counts_padding = false;

  // The number of points that count in a window.
  [[nodiscard]] std::int64_t count(std::int64_t window) const noexcept;
};

// Lines of one image, padded to blocks of a fixed size and beyond their ends, so that loops need no border checks. All
// units: elements.
struct pool_desk {
  static constexpr std::int64_t block = 16;
  [[nodiscard]] static constexpr std::int64_t blocks(std::int64_t n) noexcept {
    return (n + block - 1) / block * block;
  }

  std::int64_t line;  // size of an image line, from the first point that a window reaches
  // size of a line that has the value of each window at the position of its first tap; that of window 0 is at
  // `first_spread`
  std::int64_t spread;
  std::int64_t first_spread;
  std::int64_t row;  // size of a row of windows
  std::int64_t sum;  // size of a line of sums
  std::int64_t lines_at;
  std::int64_t shares_at;
  std::int64_t largest_at;
  std::int64_t sums_at;
  std::int64_t rows_at;
  std::int64_t size;

  pool_desk(const window_line& y, const window_line& x)
      : line{std::max(x.before + blocks(x.in), (blocks(x.out) - 1) * x.stride + x.reach())},
        spread{blocks(std::max(x.before + blocks(x.in), (x.out - 1) * x.stride + 1) + x.reach())},
        first_spread{x.reach() - 1},
        row{blocks(x.out)},
        sum{blocks(x.in)},
        lines_at{0},
        shares_at{blocks(y.in * line)},
        largest_at{shares_at + y.out * spread},
        sums_at{largest_at + y.out * spread},
        rows_at{sums_at + y.in * sum},
        size{rows_at + 2 * row} {}
};

}  // namespace detail

enum class pool_adjoint : std::uint8_t { counts, ties, select, scatter, largest, mean };

[[nodiscard]] std::optional<pool_adjoint> pool_adjoint_of(std::string_view name);

// One image after another, each element independently: the result does not depend on the number of threads. Values of
// windows are stored at the positions of their first taps, so that a point finds the value for tap j at a fixed offset.
class pool_gradient_routine final : public routine {
 public:
  // Inputs: float32, row-major. image: the shape of the image.
  pool_gradient_routine(pool_adjoint what, const tensor::attribute_reader& a, types inputs,
                        std::span<const std::int64_t> image, int threads);

  [[nodiscard]] std::size_t workspace() const override {
    return what_ == pool_adjoint::counts ? 0 : static_cast<std::size_t>(threads_) * desk_size();
  }

  void run(const call& c) const override;

 private:
  static constexpr std::int64_t block = detail::pool_desk::block;
  // Kept in registers from tap to tap.
  using lanes [[gnu::vector_size(block * sizeof(float))]] = float;

  [[nodiscard]] static detail::window_line line_of(pool_adjoint what, const tensor::attribute_reader& a, types inputs,
                                                   std::span<const std::int64_t> image, std::size_t d);

  [[nodiscard]] std::size_t desk_size() const {
    return backend::detail::aligned_size(static_cast<std::size_t>(desk_.size) * sizeof(float));
  }

  [[gnu::always_inline]] void run_image(const call& c, std::int64_t i, float* desk) const {
    const auto points = y_.in * x_.in;
    const auto windows = y_.out * x_.out;
    const auto operand = [&](std::size_t number, std::int64_t size) {
      return reinterpret_cast<const float*>(c.inputs[number]) + i * size;
    };
    auto* const to = reinterpret_cast<float*>(c.outputs[0]);
    if (what_ == pool_adjoint::scatter || what_ == pool_adjoint::mean) {
      spread(operand(0, windows), nullptr, desk);
      gather<false>(desk, to + i * points);
      return;
    }
    const auto* const image = operand(0, points);
    for (std::int64_t line = 0; line < y_.in; ++line) {
      std::copy_n(image + line * x_.in, x_.in, desk + desk_.lines_at + line * desk_.line + x_.before);
    }
    if (what_ == pool_adjoint::ties) {
      for (std::int64_t row = 0; row < y_.out; ++row) {
        std::copy_n(ties_of(operand(1, windows) + row * x_.out, row, desk), x_.out, to + i * windows + row * x_.out);
      }
      return;
    }
    spread(operand(2, windows), operand(1, windows), desk);
    gather<true>(desk, to + i * points);
  }

  void count(float* to) const;

  // Stores the share that each window gives to a point, at the position of the window; and its largest element, if
  // given.
  [[gnu::always_inline]] void spread(const float* cotangents, const float* largest, float* desk) const {
    for (std::int64_t row = 0; row < y_.out; ++row) {
      const auto* const given = cotangents + row * x_.out;
      auto* const shares = desk + desk_.shares_at + row * desk_.spread + desk_.first_spread;
      if (what_ == pool_adjoint::largest) {
        const auto* const ties = ties_of(largest + row * x_.out, row, desk);
        write_each(shares, x_.stride, 0, x_.out, [&](std::int64_t w) { return given[w] / ties[w]; });
      } else if (what_ == pool_adjoint::mean) {
        const auto rows = static_cast<float>(y_.count(row));
        const auto* const columns = counts_.data();
        write_each(shares, x_.stride, 0, x_.out, [&](std::int64_t w) { return given[w] / (rows * columns[w]); });
      } else {
        write_each(shares, x_.stride, 0, x_.out, [&](std::int64_t w) { return given[w]; });
      }
      if (largest != nullptr) {
        write_each(desk + desk_.largest_at + row * desk_.spread + desk_.first_spread, x_.stride, 0, x_.out,
                   [&](std::int64_t w) { return largest[row * x_.out + w]; });
      }
    }
  }

  // Counts the occurrences of the largest element in each window of a row.
  [[gnu::always_inline]] const float* ties_of(const float* largest, std::int64_t row, float* desk) const {
    auto* const given = desk + desk_.rows_at;
    auto* const ties = given + desk_.row;
    std::copy_n(largest, x_.out, given);
    const auto count_with = [&](auto stride) {
      for (std::int64_t w = 0; w < x_.out; w += block) {
        lanes sum{};
        lanes most;
        std::memcpy(&most, given + w, sizeof most);
        for (std::int64_t i = 0; i < y_.kernel; ++i) {
          const auto line = row * y_.stride + i * y_.dilation - y_.before;
          if (line < 0 || line >= y_.in) {
            continue;
          }
          for (std::int64_t j = 0; j < x_.kernel; ++j) {
            const auto* const from = desk + desk_.lines_at + line * desk_.line + w * stride + j * x_.dilation;
            lanes x;
            if constexpr (std::is_same_v<decltype(stride), std::integral_constant<std::int64_t, 1>>) {
              std::memcpy(&x, from, sizeof x);
            } else {
              for (std::int64_t k = 0; k < block; ++k) {
                x[k] = from[k * stride];
              }
            }
            sum += x == most ? lanes{} + 1.0F : lanes{};
          }
        }
        std::memcpy(ties + w, &sum, sizeof sum);
      }
    };
    if (x_.stride == 1) {
      count_with(std::integral_constant<std::int64_t, 1>{});
    } else if (x_.stride == 2) {
      count_with(std::integral_constant<std::int64_t, 2>{});
    } else {
      count_with(x_.stride);
    }
    return ties;
  }

  // Sums, for each point of the image, the shares of its windows. Equal: only of windows whose largest element it
  // equals.
  template <bool Equal>
  [[gnu::always_inline]] void gather(float* desk, float* to) const {
    std::fill_n(desk + desk_.sums_at, y_.in * desk_.sum, 0.0F);
    for (std::int64_t row = 0; row < y_.out; ++row) {
      for (std::int64_t i = 0; i < y_.kernel; ++i) {
        if (const auto line = row * y_.stride + i * y_.dilation - y_.before; line >= 0 && line < y_.in) {
          gather_line<Equal>(desk, row, line);
        }
      }
    }
    for (std::int64_t line = 0; line < y_.in; ++line) {
      std::copy_n(desk + desk_.sums_at + line * desk_.sum, x_.in, to + line * x_.in);
    }
  }
  template <bool Equal>
  [[gnu::always_inline]] void gather_line(float* desk, std::int64_t row, std::int64_t line) const {
    auto* const sums = desk + desk_.sums_at + line * desk_.sum;
    const auto* const image = desk + desk_.lines_at + line * desk_.line + x_.before;
    const auto first = row * desk_.spread + desk_.first_spread + x_.before;
    for (std::int64_t at = 0; at < x_.in; at += block) {
      lanes sum;
      lanes x;
      std::memcpy(&sum, sums + at, sizeof sum);
      std::memcpy(&x, image + at, sizeof x);
      for (std::int64_t j = 0; j < x_.kernel; ++j) {
        lanes share;
        std::memcpy(&share, desk + desk_.shares_at + first + at - j * x_.dilation, sizeof share);
        if constexpr (Equal) {
          lanes most;
          std::memcpy(&most, desk + desk_.largest_at + first + at - j * x_.dilation, sizeof most);
          share = x == most ? share : lanes{};
        }
        sum += share;
      }
      std::memcpy(sums + at, &sum, sizeof sum);
    }
  }

  pool_adjoint what_;
  detail::window_line y_;
  detail::window_line x_;
  detail::pool_desk desk_;
  std::vector<float> counts_;  // number of points per window, along a row of windows
  std::int64_t images_;
  int threads_;
};

// Inputs: float32, row-major.
[[nodiscard]] std::unique_ptr<routine> pool_gradient(pool_adjoint what, const tensor::attribute_reader& a, types inputs,
                                                     types outputs, int threads);

enum class pool : std::uint8_t { largest, mean, padded_mean };

struct pool_windows {
  pool kind = pool::largest;
  tensor::operators::slide y{};
  tensor::operators::slide x{};
};

namespace detail {

// Own loops, for all windows, or for those of which a library's maximum may be wrong: it begins with the lowest finite
// number, which remains if all elements are -infinity or NaN, or if a dilated window has none but padding.
class pool_loops final : public routine {
 public:
  // maxima: of the library; null if it has none.
  pool_loops(const pool_windows& w, const tensor::tensor_type& image, std::unique_ptr<routine> maxima = nullptr)
      : windows_{w}, images_{image.dims[0] * image.dims[1]}, maxima_{std::move(maxima)} {}

  [[nodiscard]] std::size_t workspace() const override { return maxima_ == nullptr ? 0 : maxima_->workspace(); }
  void run(const call& c) const override;

 private:
  [[nodiscard]] float window(const float* image, std::int64_t row, std::int64_t column) const;

  pool_windows windows_;
  std::int64_t images_;
  std::unique_ptr<routine> maxima_;
};

}  // namespace detail

// Inputs: float32, row-major.
[[nodiscard]] std::unique_ptr<routine> pooling_routine(const onednn& library, const tensor::attribute_reader& a,
                                                       bool average, types inputs, types outputs);

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_POOLING)

#include <array>
#include <limits>

#include <dnnl.hpp>

#include <unity/tensor/operators/pooling.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cpu::detail {

UNITY_INLINE std::int64_t window_line::count(std::int64_t window) const noexcept {
  const auto least = counts_padding ? -before : 0;
  const auto most = counts_padding ? in + after : in;
  const auto first = window * stride - before;
  const auto begin = first >= least ? 0 : (least - first + dilation - 1) / dilation;
  const auto end = first >= most ? 0 : std::min(kernel, (most - first - 1) / dilation + 1);
  return std::max(end - begin, std::int64_t{0});
}

}  // namespace unity::backend::cpu::detail

namespace unity::backend::cpu {

UNITY_INLINE std::optional<pool_adjoint> pool_adjoint_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, pool_adjoint>, 6> all{
      {{"pool_counts", pool_adjoint::counts},
       {"pool_ties", pool_adjoint::ties},
       {"pool_select", pool_adjoint::select},
       {"pool_scatter", pool_adjoint::scatter},
       {"max_pool_gradient", pool_adjoint::largest},
       {"average_pool_gradient", pool_adjoint::mean}}};
  const auto* const found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.first == name; });
  return found == all.end() ? std::nullopt : std::optional{found->second};
}

UNITY_INLINE pool_gradient_routine::pool_gradient_routine(pool_adjoint what, const tensor::attribute_reader& a,
                                                          types inputs, std::span<const std::int64_t> image,
                                                          int threads)
    : what_{what},
      y_{line_of(what, a, inputs, image, 0)},
      x_{line_of(what, a, inputs, image, 1)},
      desk_{y_, x_},
      images_{what == pool_adjoint::counts ? 1 : image[0] * image[1]},
      threads_{threads} {
  for (std::int64_t w = 0; w < x_.out; ++w) {
    counts_.push_back(static_cast<float>(x_.count(w)));
  }
}

UNITY_INLINE void pool_gradient_routine::run(const call& c) const {
  if (what_ == pool_adjoint::counts) {
    return count(reinterpret_cast<float*>(c.outputs[0]));
  }
  const auto points = y_.out * x_.out * y_.kernel * x_.kernel;
  constexpr std::int64_t least_points = 16384;
  parallel_for(std::min(c.threads, threads_), images_, least_points / points + 1,
               [&](int thread, std::int64_t begin, std::int64_t end) {
                 auto* const desk = reinterpret_cast<float*>(c.work + static_cast<std::size_t>(thread) * desk_size());
                 std::fill_n(desk, desk_.shares_at, std::numeric_limits<float>::quiet_NaN());  // equals nothing
                 std::fill(desk + desk_.shares_at, desk + desk_.size, 0.0F);
                 with_widest_vectors([&] {
                   for (auto i = begin; i < end; ++i) {
                     run_image(c, i, desk);
                   }
                 });
               });
}

UNITY_INLINE detail::window_line pool_gradient_routine::line_of(pool_adjoint what, const tensor::attribute_reader& a,
                                                                types inputs, std::span<const std::int64_t> image,
                                                                std::size_t d) {
  tensor::space s{inputs};
  const bool averages = what == pool_adjoint::mean;
  const auto dilation = averages ? 1 : a.integers("dilation")[d];
  return {tensor::operators::pool_slide_over(s, a, d, image[2 + d], dilation),
          (averages || what == pool_adjoint::counts) && a.flag("count_include_pad")};
}

UNITY_INLINE void pool_gradient_routine::count(float* to) const {
  for (std::int64_t row = 0; row < y_.out; ++row) {
    for (std::int64_t column = 0; column < x_.out; ++column) {
      to[row * x_.out + column] = static_cast<float>(y_.count(row)) * counts_[static_cast<std::size_t>(column)];
    }
  }
}

UNITY_INLINE std::unique_ptr<routine> pool_gradient(pool_adjoint what, const tensor::attribute_reader& a, types inputs,
                                                    types outputs, int threads) {
  const bool reads_image = what == pool_adjoint::ties || what == pool_adjoint::select || what == pool_adjoint::largest;
  const auto image = what == pool_adjoint::counts ? tensor::shape(a.integers("dims"))
                     : reads_image                ? inputs[0].dims
                                                  : outputs[0].dims;
  return std::make_unique<pool_gradient_routine>(what, a, inputs, image, threads);
}

}  // namespace unity::backend::cpu

namespace unity::backend::cpu::detail {

UNITY_INLINE void pool_loops::run(const call& c) const {
  const auto& [kind, y, x] = windows_;
  const auto* from = reinterpret_cast<const float*>(c.inputs[0]);
  auto* to = reinterpret_cast<float*>(c.outputs[0]);
  if (maxima_ != nullptr) {
    maxima_->run(c);
  }
  constexpr float lowest = std::numeric_limits<float>::lowest();
  constexpr std::int64_t block = 256;
  parallel_for(c.threads, images_ * y.out * x.out, 16 * block, [&](int, std::int64_t begin, std::int64_t end) {
    for (auto first = begin; first < end; first += block) {
      const auto last = std::min(first + block, end);
      int due = maxima_ == nullptr ? 1 : 0;
      for (auto i = first; i < last && maxima_ != nullptr; ++i) {
        due |= static_cast<int>(to[i] == lowest);
      }
      for (auto i = first; i < last && due != 0; ++i) {
        const auto row = i / x.out;
        if (maxima_ == nullptr || to[i] == lowest) {
          to[i] = window(from + row / y.out * y.in * x.in, row % y.out, i % x.out);
        }
      }
    }
  });
}

UNITY_INLINE float pool_loops::window(const float* image, std::int64_t row, std::int64_t column) const {
  const auto& [kind, y, x] = windows_;
  float value = kind == pool::largest ? -std::numeric_limits<float>::infinity() : 0.0F;
  for (std::int64_t i = 0; i < y.kernel; ++i) {
    const auto at_y = row * y.stride + i * y.dilation - y.before;
    for (std::int64_t j = 0; j < x.kernel; ++j) {
      const auto at_x = column * x.stride + j * x.dilation - x.before;
      if (at_y >= 0 && at_y < y.in && at_x >= 0 && at_x < x.in) {
        const auto element = image[at_y * x.in + at_x];
        value = kind == pool::largest ? std::max(value, element) : value + element;
      }
    }
  }
  const auto count = [mean = kind == pool::mean](const tensor::operators::slide& s, std::int64_t at) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < s.kernel; ++i) {
      const auto position = at * s.stride + i * s.dilation - s.before;
      n += mean ? position >= 0 && position < s.in : position >= -s.before && position < s.in + s.after;
    }
    return n;
  };
  return kind == pool::largest ? value : value / static_cast<float>(count(y, row) * count(x, column));
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
  const auto algorithm = w.kind == pool::largest ? dnnl::algorithm::pooling_max
                         : w.kind == pool::mean  ? dnnl::algorithm::pooling_avg_exclude_padding
                                                 : dnnl::algorithm::pooling_avg_include_padding;
  const auto image = plain_desc(inputs[0].dims);
  const auto result = plain_desc(outputs[0].dims);
  try {
    const dnnl::pooling_v2_forward::desc d{dnnl::prop_kind::forward_inference,
                                           algorithm,
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
    if (w.kind == pool::largest) {
      return std::make_unique<detail::pool_loops>(w, inputs[0], std::move(r));
    }
    return r;
  } catch (const dnnl::error&) {
    return std::make_unique<detail::pool_loops>(w, inputs[0]);
  }
}

}  // namespace unity::backend::cpu

#endif
