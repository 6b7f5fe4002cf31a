// A file's bytes as memory, which the system reads on access.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include <unity/core/config.hpp>

namespace unity {

// Holds a read-only mapping; movable. The bytes keep their address when it is moved, and are valid until it is
// destroyed. If the file is truncated meanwhile, reading the bytes ends the program with a bus error: replace files
// (atomic_file), do not modify them.
class mapped_file {
 public:
  mapped_file() = default;
  // Throws: unity::error naming the file if it cannot be read, or is not a regular file.
  explicit mapped_file(const std::filesystem::path& path);
  mapped_file(const mapped_file&) = delete;
  mapped_file(mapped_file&& o) noexcept : bytes_{std::exchange(o.bytes_, {})} {}
  mapped_file& operator=(const mapped_file&) = delete;
  mapped_file& operator=(mapped_file&& o) noexcept {
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~mapped_file();

  // Page-aligned. Empty for an empty file.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_{};
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_CORE_MAPPED_FILE)

#include <fcntl.h>
#include <sys/mman.h>  // only here: its macro MAP_TYPE collides with names elsewhere
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>

namespace unity {

UNITY_INLINE mapped_file::mapped_file(const std::filesystem::path& path) {
  const file_descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  const auto refuse = [&] {
    throw error{path.string(), fmt::format("cannot be read ({})", std::strerror(errno)), "a readable file"};
  };
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    refuse();
  }
  if (!S_ISREG(status.st_mode)) {
    throw error{path.string(), "not a regular file", "a regular file"};
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > 0) {  // an empty mapping is not allowed
    auto* const first = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (first == MAP_FAILED) {
      refuse();
    }
    bytes_ = {static_cast<const std::byte*>(first), size};
  }
}

UNITY_INLINE mapped_file::~mapped_file() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

}  // namespace unity

#endif
