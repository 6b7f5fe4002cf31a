// Memory of the host, aligned for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include <fmt/core.h>

#if defined(__linux__)
#include <sys/mman.h>
#undef MAP_TYPE  // a name that the headers of ONNX use
#endif

#include <unity/backend/device_backend.hpp>
#include <unity/core/error.hpp>

namespace unity::backend {

// Owns uninitialized bytes at a multiple of memory_alignment. Large blocks use large pages if the system has them:
// address translation for pages of 4 KiB takes as long as reading much of the data.
class host_memory {
 public:
  // Throws: unity::error if there is not enough memory.
  explicit host_memory(std::size_t bytes)
      : data_{nullptr, release{std::align_val_t{bytes >= large_page ? large_page : memory_alignment}}}, size_{bytes} {
    const auto alignment = static_cast<std::size_t>(data_.get_deleter().alignment);
    const bool countable = bytes <= static_cast<std::size_t>(-1) - alignment;
    const auto whole = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
    data_.reset(countable ? static_cast<std::byte*>(::operator new(whole, std::align_val_t{alignment}, std::nothrow))
                          : nullptr);
    if (data_ == nullptr) {
      throw error{"memory of the host", fmt::format("no {} bytes", bytes), "as much free memory"};
    }
#if defined(__linux__)
    if (alignment == large_page) {
      static_cast<void>(madvise(data_.get(), whole, MADV_HUGEPAGE));
    }
#endif
  }

  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] const std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t large_page = std::size_t{2} << 20U;

  struct release {
    std::align_val_t alignment;
    void operator()(std::byte* p) const noexcept { ::operator delete(p, alignment); }
  };
  std::unique_ptr<std::byte, release> data_;
  std::size_t size_ = 0;
};

}  // namespace unity::backend
