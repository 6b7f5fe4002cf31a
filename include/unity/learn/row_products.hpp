// Small matrix products for forward passes that prepare nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace unity::learn::detail {

using lanes [[gnu::vector_size(16)]] = float;
inline constexpr std::size_t lane_count = 4;

[[nodiscard]] inline lanes load(const float* from) noexcept {
  lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

// Up to four rows of the product and two vectors of columns; missing rows repeat the last one.
inline void add_tile(const float* x, std::size_t rows, std::size_t inner, const float* w, std::size_t columns,
                     float* out) noexcept {
  constexpr std::size_t most = 4;
  const float* from[most];
  float* to[most];
  lanes sums[most][2];
  for (std::size_t r = 0; r < most; ++r) {
    const auto row = std::min(r, rows - 1);
    from[r] = x + row * inner;
    to[r] = out + row * columns;
    sums[r][0] = load(to[r]);
    sums[r][1] = load(to[r] + lane_count);
  }
  for (std::size_t i = 0; i < inner; ++i) {
    const auto left = load(w + i * columns);
    const auto right = load(w + i * columns + lane_count);
    for (std::size_t r = 0; r < most; ++r) {
      sums[r][0] += from[r][i] * left;
      sums[r][1] += from[r][i] * right;
    }
  }
  for (std::size_t r = 0; r < most; ++r) {
    std::memcpy(to[r], sums[r], sizeof sums[r]);
  }
}

// A product of matrices, row-major: out[rows, columns] += x[rows, inner] w[inner, columns].
inline void add_product(const float* x, std::size_t rows, std::size_t inner, const float* w, std::size_t columns,
                        float* out) noexcept {
  std::size_t c = 0;
  for (; c + 2 * lane_count <= columns; c += 2 * lane_count) {
    for (std::size_t r = 0; r < rows; r += 4) {
      add_tile(x + r * inner, rows - r, inner, w + c, columns, out + r * columns + c);
    }
  }
  for (; c < columns; ++c) {
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < inner; ++i) {
        out[r * columns + c] += x[r * inner + i] * w[i * columns + c];
      }
    }
  }
}

inline void relu(std::span<float> all) noexcept {
  for (auto& x : all) {
    x = std::max(x, 0.0F);
  }
}

// Reads blocks of weights in their order.
class block_reader {
 public:
  explicit block_reader(std::span<const float> weights) : next_{weights.data()} {}

  [[nodiscard]] const float* take(std::size_t size) noexcept { return std::exchange(next_, next_ + size); }
  // x W + b, with the next two blocks.
  [[nodiscard]] std::vector<float> dense(std::span<const float> x, std::size_t rows, std::size_t inner,
                                         std::size_t columns) {
    const auto* const w = take(inner * columns);
    const auto* const bias = take(columns);
    std::vector<float> out(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
      std::copy_n(bias, columns, out.data() + r * columns);
    }
    add_product(x.data(), rows, inner, w, columns, out.data());
    return out;
  }

 private:
  const float* next_;
};

}  // namespace unity::learn::detail
