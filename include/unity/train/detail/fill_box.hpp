// Fills boxes of tensors whose elements are functions of their position.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/backend/host_values.hpp>
#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/box_runs.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::train::detail {

// Uniform in [0, 1), in steps of 2^-24: exact in float32, so that wider types get the same numbers.
[[nodiscard]] constexpr double unit_of(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 40U) * 0x1.0p-24;
}

// Writes the elements of a box of a tensor, in row-major order of the box: value_of(index of the element in row-major
// order of the whole tensor), as a double. Complexity: linear in the box; allocates nothing.
template <class ValueOf>
void fill_box(const tensor::tensor_type& type, const parallel::box& b, std::span<std::byte> out,
              const ValueOf& value_of) {
  UNITY_EXPECTS(b.begin.size() == type.rank() && b.end.size() == type.rank(), "a box of the tensor's rank");
  UNITY_EXPECTS(out.size() == static_cast<std::size_t>(b.volume() * tensor::size_of(type.element)),
                "as many bytes as the box has");
  std::size_t written = 0;
  parallel::for_each_run(type.dims, b, [&](std::int64_t first, std::int64_t, std::int64_t count) {
    while (count > 0) {
      std::array<double, 512> values;
      const auto n = std::min(count, static_cast<std::int64_t>(values.size()));
      for (std::int64_t i = 0; i < n; ++i) {
        values[static_cast<std::size_t>(i)] = value_of(static_cast<std::uint64_t>(first + i));
      }
      const auto size = static_cast<std::size_t>(n * tensor::size_of(type.element));
      const tensor::tensor_type part{type.element, tensor::layout::row_major, false, {n}};
      backend::encode<double>(std::span<const double>{values.data(), static_cast<std::size_t>(n)}, part,
                              out.subspan(written, size));
      written += size;
      first += n;
      count -= n;
    }
  });
}

}  // namespace unity::train::detail
