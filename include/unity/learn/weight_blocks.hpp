// The weights of a network as one vector, divided into matrices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/tensor/builder.hpp>

namespace unity::learn {

// A block of the vector is a matrix or a row of biases. Regular.
struct weight_block {
  std::string name{};
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t offset = 0;

  [[nodiscard]] std::size_t size() const noexcept { return rows * columns; }

  friend bool operator==(const weight_block&, const weight_block&) = default;
};

// Blocks without gaps between them.
class block_list {
 public:
  void add(std::string name, std::size_t rows, std::size_t columns);
  // A matrix, and a row of biases.
  void add_dense(const std::string& name, std::size_t rows, std::size_t columns) {
    add(name, rows, columns);
    add(name + " bias", 1, columns);
  }
  [[nodiscard]] std::vector<weight_block> finish() && { return std::move(all_); }

 private:
  std::vector<weight_block> all_{};
};

// The total number of weights.
[[nodiscard]] inline std::size_t size_of(std::span<const weight_block> blocks) {
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().size();
}

// Matrices uniform with variance 1 / rows; biases 0.
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

UNITY_INLINE void block_list::add(std::string name, std::size_t rows, std::size_t columns) {
  const auto at = size_of(all_);
  all_.push_back({std::move(name), rows, columns, at});
}

UNITY_INLINE std::vector<float> random_weights(std::span<const weight_block> blocks, std::uint64_t seed) {
  std::vector<float> weights;
  random_engine random{mix64(seed)};
  for (const auto& b : blocks) {
    const auto spread = b.rows > 1 && b.columns > 1 ? std::sqrt(3.0 / static_cast<double>(b.rows)) : 0;
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
