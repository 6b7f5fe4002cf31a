// The memory layout of an image and its windows in the adjoints of pooling.
#pragma once

#include <algorithm>
#include <cstdint>

#include <unity/tensor/operators/sliding.hpp>

namespace unity::backend::cpu {

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
  // size of a line of windows at the positions of their first taps, those of image points starting at `first_spread`
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

}  // namespace unity::backend::cpu

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_CPU_POOL_DESK)

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

#endif
