// Softmax, layer norm and the lookup of rows: what needs a whole row before it can write an element of it.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/host_device.hpp>
#include <unity/backend/cuda/loops.hpp>
#include <unity/backend/cuda/scalar.hpp>

namespace unity::backend::cuda {

// exp(x - largest) / sum along one axis, of operand and result in any layout.
struct softmax_function {
  loop_nest others{};  // the dimensions but the axis
  loop_moves from_moves{};
  loop_moves to_moves{};
  std::int64_t size = 1;  // of the axis
  std::int64_t from_step = 1;
  std::int64_t to_step = 1;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t row) const {
    std::int64_t read = 0;
    std::int64_t write = 0;
    for (int l = others.count - 1; l >= 0; --l) {
      const auto i = others.sizes[l].split(row);
      read += i * from_moves.steps[l];
      write += i * to_moves.steps[l];
    }
    double largest = -infinity;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      const auto x = static_cast<double>(load_element<float>(element, from, read + i * from_step));
      largest = largest < x ? x : largest;
    }
    const auto top = static_cast<float>(group.largest(largest));
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      sum += static_cast<double>(std::exp(load_element<float>(element, from, read + i * from_step) - top));
    }
    const auto factor = static_cast<float>(1 / group.sum(sum));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      const auto x = load_element<float>(element, from, read + i * from_step);
      store_element<float>(element, to, write + i * to_step, std::exp(x - top) * factor);
    }
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + shift over rows that lie one after another.
struct layer_norm_function {
  std::int64_t size = 1;
  double epsilon = 0;
  const std::byte* from = nullptr;
  const std::byte* scale = nullptr;
  const std::byte* shift = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t row) const {
    const auto first = row * size;
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      sum += load_element<double>(element, from, first + i);
    }
    const auto mean = group.sum(sum) / static_cast<double>(size);
    double squares = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      const auto x = load_element<double>(element, from, first + i) - mean;
      squares += x * x;
    }
    const auto variance = group.sum(squares) / static_cast<double>(size);
    const auto factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < size; i += group.size()) {
      const auto x = static_cast<float>(load_element<double>(element, from, first + i) - mean);
      const auto y = x * factor * load_element<float>(element, scale, i) + load_element<float>(element, shift, i);
      store_element<float>(element, to, first + i, y);
    }
  }
};

// Row ids[i] of a table; zeros where the table has no such row. T: as many bytes as divide a row.
template <class T>
struct lookup_function {
  loop_size row{};  // of the table, in T
  std::int64_t rows = 0;
  const T* table = nullptr;
  const std::byte* ids = nullptr;
  T* to = nullptr;
  tensor::dtype number = tensor::dtype::int64;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto which = i;
    const auto place = row.split(which);
    const auto id = integer(which);
    to[i] = id >= 0 && id < rows ? table[id * row.size + place] : T{};
  }

 private:
  [[nodiscard]] UNITY_HOST_DEVICE std::int64_t integer(std::int64_t i) const {
    switch (number) {
      case tensor::dtype::int64: return reinterpret_cast<const std::int64_t*>(ids)[i];
      case tensor::dtype::int32: return reinterpret_cast<const std::int32_t*>(ids)[i];
      case tensor::dtype::int8: return reinterpret_cast<const std::int8_t*>(ids)[i];
      default: return reinterpret_cast<const std::uint8_t*>(ids)[i];
    }
  }
};

}  // namespace unity::backend::cuda
