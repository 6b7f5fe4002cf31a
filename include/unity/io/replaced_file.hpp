// A file that is written in any order of places and then takes the place of an earlier one, which is kept.
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

// The file itself where `path` is a link.
[[nodiscard]] std::filesystem::path link_target(const std::filesystem::path& path);

// Where what `path` held before is kept.
[[nodiscard]] inline std::filesystem::path previous_of(const std::filesystem::path& path) {
  return name_beside(link_target(path), ".previous");
}

// Under construction it is PATH.partial, which one process at a time can write; what a process that was killed left
// there is overwritten by the next one. Without commit() nothing remains of it.
class replaced_file {
 public:
  // Throws: unity::error where nothing can be created there, or another process is writing it.
  explicit replaced_file(const std::filesystem::path& path);
  replaced_file(const replaced_file&) = delete;
  replaced_file& operator=(const replaced_file&) = delete;
  ~replaced_file() { discard(); }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  // Throws: unity::error where there is no room; nothing remains then of what was written.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // What was written. Throws: unity::error where that ends before.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const { read_at(file_.get(), offset, bytes, name_); }

  // Effects: what was written lasts under its name, and what had that name under that of previous_of. Whenever this is
  // interrupted there is a complete file under the one name or the other, if there was one before.
  // Throws: unity::error where that cannot be done.
  void commit();

 private:
  // Whether the file under construction is this process' own: not if its owner gave it another name in between.
  bool lock();
  // Gives what is there a second name; where the file system has no second names, another one.
  void keep();
  // Names last once their folder does. Where a folder cannot be opened, nothing better can be done.
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
