// Sizes that the next tensor may follow.
#pragma once

#include <cstddef>

#include <unity/backend/device_backend.hpp>

namespace unity::backend::detail {

// The next multiple of memory_alignment. Unit: bytes.
[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) noexcept {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

}  // namespace unity::backend::detail
