// A file that is written in any order and then replaces an earlier file, which is kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/sealed_file.hpp>

namespace unity::io {

// Follows links: the file itself if `path` is a link.
[[nodiscard]] std::filesystem::path link_target(const std::filesystem::path& path);

// The name under which the previous content of `path` is kept.
[[nodiscard]] inline std::filesystem::path previous_of(const std::filesystem::path& path) {
  return name_beside(link_target(path), ".previous");
}

// While it is written, the file is PATH.partial, which only one process at a time can write; what a killed process left
// there is overwritten. Without commit() it is removed.
class replaced_file {
 public:
  // Throws: unity::error if no file can be created there, or another process is writing it.
  explicit replaced_file(const std::filesystem::path& path);
  replaced_file(const replaced_file&) = delete;
  replaced_file& operator=(const replaced_file&) = delete;
  ~replaced_file() { discard(); }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  // Throws: unity::error if there is no space; then everything written so far is removed.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // Reads what was written.
  // Throws: unity::error if that ends too early.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const { read_at(file_.get(), offset, bytes, name_); }

  // Effects: makes the new content durable under its name, and keeps the old content under previous_of. Whenever this
  // is interrupted, a complete file exists under one of the names, if there was one before.
  // Throws: unity::error if that fails.
  void commit();

 private:
  // Locks the file; false if its owner renamed it in between, so that it is not this process's file.
  bool lock();
  // Adds a second name for the existing file; renames it if the file system has no hard links.
  void keep();
  // Names are durable once their folder is synchronized. Does nothing if the folder cannot be opened.
  void sync_folder() const;
  void discard() noexcept;
  [[noreturn]] void fail(std::string_view what, int problem) {
    discard();
    throw error{name_, fmt::format("{} ({})", what, std::strerror(problem)), "a writable place with enough room"};
  }

  std::filesystem::path target_;
  std::filesystem::path partial_{};
  std::string name_;
  unity::detail::descriptor file_{-1};
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_REPLACED_FILE)

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace unity::io {

UNITY_INLINE std::filesystem::path link_target(const std::filesystem::path& path) {
  std::error_code problem;
  if (!std::filesystem::is_symlink(path, problem)) {
    return path;
  }
  auto real = std::filesystem::weakly_canonical(path, problem);
  return problem ? path : real;
}

UNITY_INLINE replaced_file::replaced_file(const std::filesystem::path& path)
    : target_{link_target(path)}, name_{path.string()} {
  std::error_code ignored;
  if (std::filesystem::exists(target_, ignored) && !std::filesystem::is_regular_file(target_, ignored)) {
    throw error{name_, "is no regular file", "a name for a file"};
  }
  partial_ = name_beside(target_, ".partial");
  while (!lock()) {
  }
  if (::ftruncate(file_.get(), 0) != 0) {
    fail("cannot be written", errno);
  }
}

UNITY_INLINE void replaced_file::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto most = std::min(bytes.size(), std::size_t{1} << 30U);
    const auto put = ::pwrite(file_.get(), bytes.data(), most, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) {
      continue;
    }
    if (put <= 0) {
      fail("cannot be written", put < 0 ? errno : ENOSPC);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(put));
    offset += static_cast<std::uint64_t>(put);
  }
}

UNITY_INLINE void replaced_file::commit() {
  if (::fsync(file_.get()) != 0 && errno != EINVAL) {
    fail("cannot be written", errno);
  }
  keep();
  if (::rename(partial_.c_str(), target_.c_str()) != 0) {
    fail("cannot be replaced", errno);
  }
  partial_.clear();
  file_ = unity::detail::descriptor{-1};
  sync_folder();
}

UNITY_INLINE bool replaced_file::lock() {
  file_ = unity::detail::descriptor{::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)};
  struct stat own {};
  if (file_.get() < 0 || ::fstat(file_.get(), &own) != 0) {
    throw error{name_, fmt::format("cannot be created ({})", std::strerror(errno)), "a writable place"};
  }
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    throw error{name_, "is being written by another process", "one that writes it at a time"};
  }
  struct stat named {};
  return ::stat(partial_.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

UNITY_INLINE void replaced_file::keep() {
  const auto previous = previous_of(target_);
  if (::access(target_.c_str(), F_OK) != 0) {
    return;
  }
  if (::unlink(previous.c_str()) != 0 && errno != ENOENT) {
    fail("the one before cannot be replaced", errno);
  }
  if (::link(target_.c_str(), previous.c_str()) != 0 && ::rename(target_.c_str(), previous.c_str()) != 0) {
    fail(fmt::format("cannot be kept as {}", previous.string()), errno);
  }
}

UNITY_INLINE void replaced_file::sync_folder() const {
  const auto folder = target_.has_parent_path() ? target_.parent_path() : std::filesystem::path{"."};
  const unity::detail::descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened.get() >= 0) {
    ::fsync(opened.get());
  }
}

UNITY_INLINE void replaced_file::discard() noexcept {
  if (!partial_.empty()) {
    ::unlink(partial_.c_str());
    partial_.clear();
  }
  file_ = unity::detail::descriptor{-1};
}

}  // namespace unity::io

#endif
