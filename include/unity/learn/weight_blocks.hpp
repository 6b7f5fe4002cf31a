// The weights of a network as one vector, divided into matrices, and small products with them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>

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

namespace unity::learn {

// A block of the vector is a matrix or a row of biases. Regular.
struct weight_block {
  std::string name{};
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t offset = 0;
  bool is_bias = false;

  [[nodiscard]] std::size_t size() const noexcept { return rows * columns; }

  friend bool operator==(const weight_block&, const weight_block&) = default;
};

// Blocks without gaps between them.
class block_list {
 public:
  void add(std::string name, std::size_t rows, std::size_t columns, bool is_bias = false);
  // A matrix, and a row of biases.
  void add_dense(const std::string& name, std::size_t rows, std::size_t columns) {
    add(name, rows, columns);
    add(name + " bias", 1, columns, true);
  }
  [[nodiscard]] std::vector<weight_block> finish() && { return std::move(all_); }

 private:
  std::vector<weight_block> all_{};
};

// The total number of weights.
[[nodiscard]] inline std::size_t size_of(std::span<const weight_block> blocks) {
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().size();
}

// Matrices uniform with variance 1 / rows; biases and matrices of one column, which make a network's results, 0.
[[nodiscard]] std::vector<float> random_weights(std::span<const weight_block> blocks, std::uint64_t seed);

// The blocks of a value of [size_of(blocks)], each as a matrix.
[[nodiscard]] std::vector<value_id> split_blocks(tensor::builder& b, value_id all,
                                                 std::span<const weight_block> blocks);

}  // namespace unity::learn

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_LEARN_WEIGHT_BLOCKS)

#include <cmath>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::learn {

UNITY_INLINE void block_list::add(std::string name, std::size_t rows, std::size_t columns, bool is_bias) {
  const auto at = size_of(all_);
  all_.push_back({std::move(name), rows, columns, at, is_bias});
}

UNITY_INLINE std::vector<float> random_weights(std::span<const weight_block> blocks, std::uint64_t seed) {
  std::vector<float> weights;
  random_engine random{mix64(seed)};
  for (const auto& b : blocks) {
    const auto spread = !b.is_bias && b.columns > 1 ? std::sqrt(3.0 / static_cast<double>(b.rows)) : 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      weights.push_back(static_cast<float>(spread * (2 * random.unit() - 1)));
    }
  }
  return weights;
}

UNITY_INLINE std::vector<value_id> split_blocks(tensor::builder& b, value_id all,
                                                std::span<const weight_block> blocks) {
  tensor::shape sizes;
  for (const auto& block : blocks) {
    sizes.push_back(static_cast<std::int64_t>(block.size()));
  }
  const auto pieces = b.split(all, 0, sizes);
  std::vector<value_id> matrices;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    matrices.push_back(b.reshape(
        pieces[i], {static_cast<std::int64_t>(blocks[i].rows), static_cast<std::int64_t>(blocks[i].columns)}));
  }
  return matrices;
}

}  // namespace unity::learn

#endif
