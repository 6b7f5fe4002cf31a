// Files read whole and written whole: a reader of the output never sees half of it.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>

namespace unity {

// A file descriptor that closes itself.
class file_descriptor {
 public:
  explicit file_descriptor(int fd) noexcept : fd_{fd} {}
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor(file_descriptor&& o) noexcept : fd_{std::exchange(o.fd_, -1)} {}
  file_descriptor& operator=(const file_descriptor&) = delete;
  file_descriptor& operator=(file_descriptor&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~file_descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  // Returns errno of the close, which is where some file systems report a full disk.
  [[nodiscard]] int close() noexcept { return ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

namespace detail {

// /dev/null counts as an empty file; a terminal or a generator of bytes has no end.
inline bool is_null_device(const struct stat& status) {
  struct stat null {};
  return ::stat("/dev/null", &null) == 0 && null.st_rdev == status.st_rdev;
}

}  // namespace detail

// The most that is read at once: larger than any model, plan or set of rules, and small enough not to fill a machine.
inline constexpr std::uint64_t largest_file = std::uint64_t{64} << 30U;
// The same limit for pipes, whose length is unknown.
inline constexpr std::uint64_t largest_stream = std::uint64_t{4} << 30U;

// The bytes [offset, offset + length) of a file, or up to its end if length is `to_end`.
// Throws: unity::error naming the file if it cannot be read, is a device, is shorter than that, or if more than
// `largest` bytes would be read (from a pipe, more than largest_stream).
inline constexpr std::uint64_t to_end = ~std::uint64_t{0};
[[nodiscard]] inline std::string read_file(const std::filesystem::path& path, std::uint64_t offset = 0,
                                           std::uint64_t length = to_end, std::uint64_t largest = largest_file) {
  const file_descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) {
    throw error{path.string(), fmt::format("cannot be read ({})", std::strerror(errno)), "a readable file"};
  }
  if (S_ISDIR(status.st_mode)) {
    throw error{path.string(), "is a directory", "a readable file"};
  }
  if (S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !detail::is_null_device(status))) {
    throw error{path.string(), "is a device", "a readable file"};
  }
  // Files of /proc have size 0 whatever is in them.
  const bool is_sized = S_ISREG(status.st_mode) && (status.st_size > 0 || offset > 0 || length != to_end);
  const auto size = is_sized ? static_cast<std::uint64_t>(status.st_size) : to_end;
  if (size != to_end && (offset > size || (length != to_end && length > size - offset))) {
    throw error{path.string(), fmt::format("ends at byte {}", size),
                fmt::format("{} bytes from byte {}", length == to_end ? 0 : length, offset)};
  }
  if (offset > 0 && ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0) {
    throw error{path.string(), "cannot be positioned", "a file that can"};
  }
  std::string content;
  auto wanted = length;
  if (length == to_end && size != to_end) {
    wanted = size - offset;
  }
  if (size == to_end) {
    largest = std::min(largest, largest_stream);
  }
  const auto refuse_size = [&] {
    throw error{path.string(), fmt::format("has more than {} bytes", largest), "a smaller file"};
  };
  if (wanted != to_end && wanted > largest) {
    refuse_size();
  }
  constexpr std::size_t chunk = std::size_t{1} << 20U;
  while (content.size() < wanted) {
    const auto have = content.size();
    content.resize(have + static_cast<std::size_t>(
                            std::min<std::uint64_t>(wanted - have, size == to_end ? chunk : std::uint64_t{1} << 30U)));
    const auto got = ::read(file.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno != EINTR) {
      throw error{path.string(), fmt::format("cannot be read ({})", std::strerror(errno)), "a readable file"};
    }
    content.resize(have + static_cast<std::size_t>(got < 0 ? 0 : got));
    if (got == 0) {
      break;
    }
    if (content.size() > largest) {
      refuse_size();
    }
  }
  if (length != to_end && content.size() < length) {
    throw error{path.string(), "ends early", fmt::format("{} bytes from byte {}", length, offset)};
  }
  return content;
}

// A name for a temporary companion of a file, in the same folder: the file's name and `suffix`, or, if that is longer
// than file systems allow (255 bytes), a number derived from the file's name.
[[nodiscard]] inline std::filesystem::path name_beside(const std::filesystem::path& path, std::string_view suffix) {
  auto own = path.filename().string();
  if (own.size() + suffix.size() > 255) {
    own = fmt::format(".unity-{}", hash_bytes(own));
  }
  return path.parent_path() / (fmt::format("{}{}", own, suffix));
}

// The descriptor that a name such as /dev/stdout or /dev/fd/3 stands for; -1 for names of files.
[[nodiscard]] inline int named_descriptor(std::filesystem::path path) {
  std::error_code problem;
  const auto descriptors = std::filesystem::canonical("/proc/self/fd", problem);
  for (int links = 0; links < 40 && !problem && std::filesystem::is_symlink(path, problem); ++links) {
    const auto folder = std::filesystem::canonical(path.has_parent_path() ? path.parent_path() : ".", problem);
    if (!problem && folder == descriptors) {
      return std::atoi(path.filename().c_str());
    }
    path = folder / std::filesystem::read_symlink(path, problem);
  }
  return -1;
}

// A file under construction beside its final name. commit() gives it that name in one step; without commit() nothing
// remains. Leftovers of a killed process are replaced by the next one. A new file inherits the mode bits of the file
// that it replaces, or those of the umask. A target that is not a regular file (a pipe, a device), or that is a
// descriptor of the process (/dev/stdout), is written in place.
class atomic_file {
 public:
  // Throws: unity::error if no file can be created there.
  explicit atomic_file(const std::filesystem::path& path) : target_{resolved(path)}, shown_{path.string()} {
    if (const int given = named_descriptor(path); given >= 0) {
      in_place_ = true;
      file_ = file_descriptor{::fcntl(given, F_DUPFD_CLOEXEC, 0)};  // shares the position with what is printed
      if (file_.get() < 0) {
        fail("cannot be written", errno);
      }
      return;
    }
    struct stat status {};
    const bool is_there = ::stat(target_.c_str(), &status) == 0;
    if (is_there && S_ISDIR(status.st_mode)) {
      throw error{shown_, "is a directory", "a name for a file"};
    }
    in_place_ = is_there && !S_ISREG(status.st_mode);
    replaces_ = is_there && !in_place_;
    mode_ = status.st_mode & 07777U;
    if (in_place_) {
      temporary_ = target_;
      file_ = file_descriptor{::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC)};
      if (file_.get() < 0) {
        fail("cannot be created", errno);
      }
      return;
    }
    for (int attempt = 0; !take(attempt); ++attempt) {
    }
    // Before anything is written, so that private content is private at all times.
    struct stat own {};
    if (replaces_ && ::fstat(file_.get(), &own) == 0 && (own.st_mode & 07777U) != mode_ &&
        ::fchmod(file_.get(), mode_) != 0) {
      fail("cannot be given the mode of what it replaces", errno);
    }
  }
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  ~atomic_file() { discard(); }

  // Throws: unity::error if the content does not fit (a full disk); the file under construction is then removed.
  void write(std::string_view content) {
    while (!content.empty()) {
      const auto put = ::write(file_.get(), content.data(), std::min(content.size(), std::size_t{1} << 30U));
      if (put < 0 && errno == EINTR) {
        continue;
      }
      if (put < 0) {
        fail("cannot be written", errno);
      }
      content.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  // Effects: writes the bytes from `offset` on; the position of write() does not change. Gaps are filled with 0.
  // Throws: unity::error likewise, and for a pipe.
  void write_at(std::uint64_t offset, std::string_view content) {
    while (!content.empty()) {
      const auto most = std::min(content.size(), std::size_t{1} << 30U);
      const auto put = ::pwrite(file_.get(), content.data(), most, static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) {
        continue;
      }
      if (put < 0) {
        fail("cannot be written", errno);
      }
      content.remove_prefix(static_cast<std::size_t>(put));
      offset += static_cast<std::uint64_t>(put);
    }
  }

  // Throws: unity::error if the content written so far cannot be stored durably under the final name.
  void commit() {
    if (!in_place_ && ::fsync(file_.get()) != 0 && errno != EINVAL && errno != EROFS) {
      fail("cannot be written", errno);
    }
    // Closes a copy: closing the descriptor itself would release the lock on the temporary name.
    if (const int problem = file_descriptor{::dup(file_.get())}.close(); problem != 0) {
      fail("cannot be written", problem);
    }
    if (!in_place_) {
      if (std::error_code problem; std::filesystem::rename(temporary_, target_, problem), problem) {
        fail("cannot be replaced", problem.value());
      }
    }
    temporary_.clear();
    file_ = file_descriptor{-1};
  }

 private:
  // Whether this object now owns the temporary file of that number, a new one: not if another process is writing it. A
  // leftover is removed first, because its mode and its owner may be others than those of a new file.
  bool take(int attempt) {
    temporary_ = name_beside(target_, fmt::format(".partial{}", attempt));
    if (lock(O_CREAT | O_EXCL)) {
      return true;
    }
    if (const int problem = errno; file_.get() < 0 && problem != EEXIST) {
      fail("cannot be created", problem);
    }
    if (lock(0) && ::unlink(temporary_.c_str()) == 0 && lock(O_CREAT | O_EXCL)) {
      return true;
    }
    if (const int problem = errno; file_.get() < 0 && attempt == 100) {
      fail("cannot be created", problem);
    }
    return false;
  }
  // Opens the temporary file, and returns whether no other process is writing it, or has renamed it in between.
  bool lock(int flags) {
    file_ = file_descriptor{::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0666)};
    struct stat own {};
    struct stat named {};
    return file_.get() >= 0 && (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
           ::fstat(file_.get(), &own) == 0 && ::stat(temporary_.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
           own.st_dev == named.st_dev;
  }
  // Follows links, so that the target of a link is replaced, or made, and the link stays.
  static std::filesystem::path resolved(std::filesystem::path path) {
    std::error_code problem;
    for (int links = 0; links < 40 && std::filesystem::is_symlink(path, problem); ++links) {
      auto next = path.parent_path() / std::filesystem::read_symlink(path, problem);
      if (problem) {
        break;
      }
      path = std::move(next);
    }
    return path;
  }
  void discard() noexcept {
    if (!temporary_.empty() && !in_place_) {
      ::unlink(temporary_.c_str());
    }
    temporary_.clear();
  }
  [[noreturn]] void fail(std::string_view what, int problem) {
    if (file_.get() >= 0) {
      discard();
    }
    throw error{shown_, fmt::format("{} ({})", what, std::strerror(problem)), "a writable place with enough room"};
  }

  std::filesystem::path target_;
  std::string shown_;
  std::filesystem::path temporary_;
  bool in_place_ = false;
  bool replaces_ = false;
  mode_t mode_ = 0;  // of the file that is replaced
  file_descriptor file_{-1};
};

// Effects: the file holds exactly `content`, or what it held before.
// Throws: unity::error.
inline void atomic_write(const std::filesystem::path& path, std::string_view content) {
  atomic_file file{path};
  file.write(content);
  file.commit();
}

}  // namespace unity
