// Small tensors whose values are known during import: shapes, axes, sizes, scalar constants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// Integers and booleans are in `integers`, floating-point numbers in `reals`, row-major. Unlike elsewhere, a dimension
// may be 0, which is how ONNX expresses absent axes and sizes. Regular.
struct known_tensor {
  tensor::dtype element = tensor::dtype::int64;
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;

  [[nodiscard]] bool is_real() const noexcept { return tensor::is_floating(element); }
  [[nodiscard]] std::size_t size() const noexcept { return is_real() ? reals.size() : integers.size(); }
  [[nodiscard]] double real(std::size_t i) const { return is_real() ? reals[i] : static_cast<double>(integers[i]); }

  friend bool operator==(const known_tensor&, const known_tensor&) = default;
};

// A tensor with more elements is data, not shape arithmetic.
inline constexpr std::size_t most_known_elements = 1U << 16U;

[[nodiscard]] std::optional<std::size_t> known_count(std::span<const std::int64_t> dims);

[[nodiscard]] inline known_tensor known_integers(std::vector<std::int64_t> values,
                                                 tensor::dtype element = tensor::dtype::int64) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {element, {size}, std::move(values), {}};
}
[[nodiscard]] inline known_tensor known_scalar(std::int64_t value) { return {tensor::dtype::int64, {}, {value}, {}}; }

[[nodiscard]] std::optional<known_tensor> known_from(const tensor_data& data);

[[nodiscard]] inline tensor_data data_from(const known_tensor& known) {
  const tensor::shape dims(std::span<const std::int64_t>{known.dims});
  return known.is_real() ? make_data(known.element, dims, known.reals) : make_data(known.element, dims, known.integers);
}

// Rounds the result of a computation in double or 64 bits to the element type.
[[nodiscard]] inline known_tensor settle(known_tensor known) {
  return known_from(data_from(known)).value_or(known_tensor{});
}

// An axis counted from the front; empty if it is outside of [-rank, rank).
[[nodiscard]] std::optional<std::size_t> front_axis(std::int64_t axis, std::size_t rank);

// Ascending axes counted from the front; empty if one is out of range or repeated.
[[nodiscard]] std::optional<std::vector<std::int64_t>> front_axes(std::span<const std::int64_t> axes, std::size_t rank);

// What Slice selects along one dimension: indices from, from + step, ... (count of them).
struct slice_range {
  std::int64_t from = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;
};
[[nodiscard]] std::optional<slice_range> clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step,
                                                     std::int64_t size);

// The dimensions that Reshape requests: 0 copies a dimension (unless zeros are allowed), -1 is inferred.
[[nodiscard]] std::optional<std::vector<std::int64_t>> reshaped(std::span<const std::int64_t> from,
                                                                std::span<const std::int64_t> wanted, bool allow_zero);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_KNOWN)

#include <algorithm>
#include <limits>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::size_t> known_count(std::span<const std::int64_t> dims) {
  std::size_t count = 1;
  for (const auto d : dims) {
    if (d < 0 || (d > 0 && count > most_known_elements / static_cast<std::size_t>(d))) {
      return std::nullopt;
    }
    count *= static_cast<std::size_t>(d);
  }
  return dims.size() <= tensor::max_rank ? std::optional{count} : std::nullopt;
}

UNITY_INLINE std::optional<known_tensor> known_from(const tensor_data& data) {
  known_tensor known{data.element, {data.dims.begin(), data.dims.end()}, {}, {}};
  if (!known_count(known.dims)) {
    return std::nullopt;
  }
  if (known.is_real()) {
    known.reals = elements_of<double>(data);
  } else {
    known.integers = elements_of<std::int64_t>(data);
  }
  return known;
}

UNITY_INLINE std::optional<std::size_t> front_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> front_axes(std::span<const std::int64_t> axes, std::size_t rank) {
  std::vector<std::int64_t> all;
  for (const auto a : axes) {
    const auto axis = front_axis(a, rank);
    if (!axis) {
      return std::nullopt;
    }
    all.push_back(static_cast<std::int64_t>(*axis));
  }
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end() ? std::optional{all} : std::nullopt;
}

UNITY_INLINE std::optional<slice_range> clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step,
                                                    std::int64_t size) {
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  if (step == 0 || step == least) {
    return std::nullopt;
  }
  const auto clamp = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
    return std::clamp(at < 0 ? (at < -size ? least : at + size) : at, low, high);
  };
  const auto low = step > 0 ? std::int64_t{0} : std::int64_t{-1};
  const auto from = clamp(start, 0, step > 0 ? size : size - 1);
  const auto to = end == least && step < 0 ? low : clamp(end, low, step > 0 ? size : size - 1);
  const auto distance = step > 0 ? to - from : from - to;
  const auto stride = step > 0 ? step : -step;
  return slice_range{from, step, distance > 0 ? (distance - 1) / stride + 1 : 0};
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> reshaped(std::span<const std::int64_t> from,
                                                               std::span<const std::int64_t> wanted, bool allow_zero) {
  std::vector<std::int64_t> dims(wanted.begin(), wanted.end());
  std::int64_t count = 1;
  for (const auto d : from) {
    count *= d;
  }
  std::int64_t known = 1;
  std::optional<std::size_t> open;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allow_zero) {
      if (i >= from.size()) {
        return std::nullopt;
      }
      dims[i] = from[i];
    }
    if (dims[i] == -1) {
      if (open) {
        return std::nullopt;
      }
      open = i;
    } else if (dims[i] < 0 || (dims[i] > 0 && known > tensor::max_elements / dims[i])) {
      return std::nullopt;
    } else {
      known *= dims[i];
    }
  }
  if (open) {
    if (known == 0 || count % known != 0) {
      return std::nullopt;
    }
    dims[*open] = count / known;
    known *= dims[*open];
  }
  return known == count ? std::optional{dims} : std::nullopt;
}

}  // namespace unity::io::detail

#endif
