// Loops over elements as one flat index, which each thread decomposes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <unity/backend/cuda/host_device.hpp>
#include <unity/core/config.hpp>

namespace unity::backend::cuda {

// The maximum number of dimensions of a tensor.
inline constexpr int max_loops = 16;

// The size of a loop with a precomputed divisor: a multiplication and a shift instead of a division, for numbers below
// 2^31.
// Source: Granlund and Montgomery, Division by invariant integers using multiplication (1994), section 4.
struct loop_size {
  std::int64_t size = 1;
  std::uint32_t factor = 1;
  std::uint32_t shift = 0;

  loop_size() = default;
  explicit loop_size(std::int64_t n) : size{n} {
    UNITY_EXPECTS(n >= 1, "a loop that runs");
    while (shift < 31 && (std::int64_t{1} << shift) < n) {
      ++shift;
    }
    const auto power = std::uint64_t{1} << shift;
    const auto d = static_cast<std::uint64_t>(n);
    factor = n > limit ? 0 : static_cast<std::uint32_t>((power - d) * (std::uint64_t{1} << 32U) / d + 1);
  }

  static constexpr std::int64_t limit = (std::int64_t{1} << 31) - 1;

  // Returns the position along this loop; flat becomes the index of the outer loops.
  UNITY_HOST_DEVICE std::int64_t split(std::int64_t& flat) const {
    if (flat <= limit && size <= limit) {
      auto narrow = static_cast<std::int32_t>(flat);
      const auto at = split(narrow);
      flat = narrow;
      return at;
    }
    const auto quotient = flat / size;
    const auto rest = flat - quotient * size;
    flat = quotient;
    return rest;
  }
  // The same for a size and flat index that are known to be at most the limit.
  UNITY_HOST_DEVICE std::int32_t split(std::int32_t& flat) const {
    const auto n = static_cast<std::uint32_t>(flat);
    const auto high = static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * factor >> 32U);
    const auto quotient = (high + n) >> shift;
    flat = static_cast<std::int32_t>(quotient);
    return static_cast<std::int32_t>(n - quotient * static_cast<std::uint32_t>(size));
  }
};

// Nested loops, outermost first.
struct loop_nest {
  int count = 0;
  loop_size sizes[max_loops];

  void add(std::int64_t size) {
    UNITY_EXPECTS(count < max_loops, "at most as many loops as a tensor has dimensions");
    sizes[count++] = loop_size{size};
  }
  [[nodiscard]] std::int64_t points() const {
    std::int64_t n = 1;
    for (int l = 0; l < count; ++l) {
      n *= sizes[l].size;
    }
    return n;
  }
};

// The stride of a tensor for each loop. Unit: elements.
struct loop_moves {
  std::int64_t steps[max_loops] = {};
};

}  // namespace unity::backend::cuda
