// Softmax and layer norm, which need a whole row before they can write any element, and the lookup of rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/host_device.hpp>
#include <unity/backend/cuda/loops.hpp>
#include <unity/backend/cuda/scalar.hpp>

namespace unity::backend::cuda {

// exp(x - largest) / sum along one axis; operand and result may have any layout.
struct softmax_function {
  loop_nest others{};  // the dimensions except the axis
  loop_moves from_moves{};
  loop_moves to_moves{};
  std::int64_t size = 1;  // of the axis
  std::int64_t from_step = 1;
  std::int64_t to_step = 1;
  bool quads = false;  // whether rows are in aligned groups of four, in operand and result
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
    if (quads) {
      normalize<4>(group, read, write);
    } else {
      normalize<1>(group, read, write);
    }
  }

 private:
  // Processes Width elements at once: adds them in float, and those sums in double, because a device has far fewer
  // units for double.
  template <int Width, class Group>
  UNITY_HOST_DEVICE void normalize(const Group& group, std::int64_t read, std::int64_t write) const {
    const auto count = size / Width;
    auto most = -static_cast<float>(infinity);
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(read, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        most = most < q.x[j] ? q.x[j] : most;
      }
    }
    const auto top = static_cast<float>(group.largest(static_cast<double>(most)));
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(read, i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        some += std::exp(q.x[j] - top);
      }
      sum += static_cast<double>(some);
    }
    const auto factor = static_cast<float>(1 / group.sum(sum));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      auto q = load<Width>(read, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        q.x[j] = std::exp(q.x[j] - top) * factor;
      }
      if constexpr (Width == 4) {
        store_quad(element, to, write / 4 + i, q);
      } else {
        store_element<float>(element, to, write + i * to_step, q.x[0]);
      }
    }
  }
  template <int Width>
  [[nodiscard]] UNITY_HOST_DEVICE quad<float> load(std::int64_t read, std::int64_t i) const {
    if constexpr (Width == 4) {
      return load_quad(element, from, read / 4 + i);
    } else {
      return {{load_element<float>(element, from, read + i * from_step), 0, 0, 0}};
    }
  }
};

// (x - mean) / sqrt(variance + epsilon) * scale + shift over contiguous rows. The element type must support quads.
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
    if (size % 4 == 0) {
      normalize<4>(group, row * size / 4);
    } else {
      normalize<1>(group, row * size);
    }
  }

 private:
  // Processes Width elements of a row at once, from `first`: adds them in float, and those sums in double, because a
  // device has far fewer units for double.
  template <int Width, class Group>
  UNITY_HOST_DEVICE void normalize(const Group& group, std::int64_t first) const {
    const auto count = size / Width;
    double sum = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(from, first + i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        some += q.x[j];
      }
      sum += static_cast<double>(some);
    }
    const auto mean = group.sum(sum) / static_cast<double>(size);
    // The mean as the sum of two floats, which is more precise than one: the difference may cancel.
    const auto high = static_cast<float>(mean);
    const auto low = static_cast<float>(mean - static_cast<double>(high));
    double squares = 0;
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      const auto q = load<Width>(from, first + i);
      float some = 0;
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        const auto x = q.x[j] - high - low;
        some += x * x;
      }
      squares += static_cast<double>(some);
    }
    const auto variance = group.sum(squares) / static_cast<double>(size);
    const auto factor = static_cast<float>(1 / std::sqrt(variance + epsilon));
    for (auto i = static_cast<std::int64_t>(group.rank()); i < count; i += group.size()) {
      auto q = load<Width>(from, first + i);
      const auto by = load<Width>(scale, i);
      const auto plus = load<Width>(shift, i);
      UNITY_UNROLL
      for (int j = 0; j < Width; ++j) {
        q.x[j] = (q.x[j] - high - low) * factor * by.x[j] + plus.x[j];
      }
      if constexpr (Width == 4) {
        store_quad(element, to, first + i, q);
      } else {
        store_element<float>(element, to, first + i, q.x[0]);
      }
    }
  }
  template <int Width>
  [[nodiscard]] UNITY_HOST_DEVICE quad<float> load(const std::byte* of, std::int64_t i) const {
    if constexpr (Width == 4) {
      return load_quad(element, of, i);
    } else {
      return {{load_element<float>(element, of, i), 0, 0, 0}};
    }
  }
};

// Element i of a tensor of integers.
[[nodiscard]] UNITY_HOST_DEVICE inline std::int64_t load_integer(tensor::dtype t, const std::byte* from,
                                                                 std::int64_t i) {
  switch (t) {
    case tensor::dtype::int64: return reinterpret_cast<const std::int64_t*>(from)[i];
    case tensor::dtype::int32: return reinterpret_cast<const std::int32_t*>(from)[i];
    case tensor::dtype::int8: return reinterpret_cast<const std::int8_t*>(from)[i];
    default: return reinterpret_cast<const std::uint8_t*>(from)[i];
  }
}

// Row ids[i] of a table; zeros if there is no such row. T: a type whose size divides the size of a row.
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
    const auto id = load_integer(number, ids, which);
    to[i] = id >= 0 && id < rows ? table[id * row.size + place] : T{};
  }
};

// The sum of the rows of bag i of ids, ignoring ids without a row.
struct bag_function {
  loop_size row{};  // of the table, in elements
  std::int64_t rows = 0;
  std::int64_t bag = 1;
  const std::byte* table = nullptr;
  const std::byte* ids = nullptr;
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;
  tensor::dtype number = tensor::dtype::int64;

  UNITY_HOST_DEVICE void operator()(std::int64_t i) const {
    auto which = i;
    const auto place = row.split(which);
    double sum = 0;
    for (std::int64_t k = 0; k < bag; ++k) {
      const auto id = load_integer(number, ids, which * bag + k);
      sum += id >= 0 && id < rows ? load_element<double>(element, table, id * row.size + place) : 0;
    }
    store_element<double>(element, to, i, sum);
  }
};

}  // namespace unity::backend::cuda
