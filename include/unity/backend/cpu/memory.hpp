// Memory of the host, aligned for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <unity/backend/device_backend.hpp>
#include <unity/core/error.hpp>

namespace unity::backend::cpu {

[[nodiscard]] constexpr std::size_t aligned_size(std::size_t bytes) noexcept {
  return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
}

// Owns bytes, not initialized. Large ones lie in large pages where the system has them: finding where a page of 4 KiB
// lies takes as long as reading much of it.
class memory {
 public:
  // Throws: unity::error where there is not as much.
  explicit memory(std::size_t bytes) : size_{bytes} {
    const auto alignment = bytes >= large_page ? large_page : memory_alignment;
    const bool countable = bytes <= static_cast<std::size_t>(-1) - alignment;
    const auto size = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    data_.reset(countable ? static_cast<std::byte*>(std::aligned_alloc(alignment, size)) : nullptr);
    if (data_ == nullptr) {
      throw error{"cpu backend", "no room for " + std::to_string(bytes) + " bytes", "as much free memory"};
    }
#if defined(__linux__)
    if (alignment == large_page) {
      static_cast<void>(madvise(data_.get(), size, MADV_HUGEPAGE));
    }
#endif
  }

  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] const std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t large_page = std::size_t{2} << 20U;

  struct release {
    void operator()(std::byte* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

}  // namespace unity::backend::cpu
