// Files that detect truncation and alteration, for checkpoints of training and data sets:
//
//   16 bytes   a line: the kind of file and the version, such as "unity weights 1\n"
//    8 bytes   the length of the file
//    8 bytes   the length of the header
//              the header, JSON
//              zeros up to a multiple of 64, then the values
//   16 bytes   the checksum of everything before it
//
// Numbers are little-endian.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>

namespace unity::io {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

// The first line; 16 bytes that end in a version and a line break.
inline constexpr std::size_t sealed_line_length = 16;
inline constexpr std::uint64_t sealed_prefix_length = sealed_line_length + 2 * sizeof(std::uint64_t);
inline constexpr std::uint64_t sealed_checksum_length = 2 * sizeof(std::uint64_t);
inline constexpr std::uint64_t sealed_alignment = 64;

[[nodiscard]] constexpr std::uint64_t sealed_aligned(std::uint64_t offset) noexcept {
  return (offset + sealed_alignment - 1) / sealed_alignment * sealed_alignment;
}

// The checksum of a stream of bytes, in pieces of any lengths: core/hash.hpp's `hasher` over its words of 8 bytes,
// little-endian, with the last one padded with zeros, then over its length.
class byte_hasher {
 public:
  void add(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] fingerprint result() const noexcept;

 private:
  hasher words_;
  std::uint64_t tail_ = 0;
  unsigned filled_ = 0;
  std::uint64_t length_ = 0;
};

// Everything before the values: the first line, the two lengths, the header and zeros. values: their number of bytes.
[[nodiscard]] std::string sealed_head(std::string_view line, std::string_view header, std::uint64_t values);

// The checksum of the first `length` bytes, read by read(offset, bytes). Memory: 1 MiB.
template <class Read>
[[nodiscard]] fingerprint checksum_of(std::uint64_t length, Read&& read) {
  constexpr std::uint64_t most = std::uint64_t{1} << 20U;
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(length, most)));
  byte_hasher sum;
  for (std::uint64_t at = 0; at < length; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(length - at, most)));
    read(at, std::span{piece});
    sum.add(piece);
  }
  return sum.result();
}

// Effects: fills `bytes` from an offset of an open file.
// Throws: unity::error naming the file if it cannot be read or ends too early.
void read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, const std::string& name);

// An open sealed file, which was intact when it was opened.
class sealed_reader {
 public:
  // `line`: the required first line. `other`: a file that messages mention if it exists. Effects: reads the whole file
  // once. Memory: 1 MiB and the header.
  // Throws: unity::error if the file is missing, of another kind or version, truncated or altered.
  sealed_reader(const std::filesystem::path& path, std::string_view line, const std::filesystem::path& other = {});

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& header() const noexcept { return header_; }
  // The checksum.
  [[nodiscard]] const fingerprint& sum() const noexcept { return sum_; }
  // Units: bytes.
  [[nodiscard]] std::uint64_t value_bytes() const noexcept { return end_ - begin_; }

  // `offset`: relative to the first value.
  // Throws: unity::error if the file can no longer be read.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const {
    UNITY_EXPECTS(offset <= value_bytes() && bytes.size() <= value_bytes() - offset, "a place among the values");
    read_at(file_.get(), begin_ + offset, bytes, name_);
  }

  // Throws: unity::error about this file, which mentions the other one if it exists.
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{name_, found, fmt::format("{}{}", expected, instead_)};
  }

 private:
  [[nodiscard]] static std::string kind_of(std::string_view line) {
    return std::string{line.substr(0, line.size() - 1)};
  }

  void check(std::string_view line, std::uint64_t size);
  void check_sum();

  std::string name_;
  unity::file_descriptor file_;
  std::string instead_;
  std::string header_;
  fingerprint sum_{};
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

// A file that is written in any order and then replaces an earlier file, which is kept.

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
  unity::file_descriptor file_{-1};
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SEALED_FILE)

#include <cerrno>
#include <system_error>

namespace unity::io {

UNITY_INLINE void byte_hasher::add(std::span<const std::byte> bytes) noexcept {
  length_ += bytes.size();
  while (filled_ > 0 && !bytes.empty()) {
    tail_ |= std::uint64_t{static_cast<std::uint8_t>(bytes.front())} << (8 * filled_);
    bytes = bytes.subspan(1);
    if (++filled_ == sizeof tail_) {
      words_.add(std::exchange(tail_, 0));
      filled_ = 0;
    }
  }
  for (; bytes.size() >= sizeof tail_; bytes = bytes.subspan(sizeof tail_)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    words_.add(word);
  }
  for (const auto b : bytes) {
    tail_ |= std::uint64_t{static_cast<std::uint8_t>(b)} << (8 * filled_++);
  }
}

UNITY_INLINE fingerprint byte_hasher::result() const noexcept {
  auto all = words_;
  if (filled_ > 0) {
    all.add(tail_);
  }
  return all.add(length_).result();
}

UNITY_INLINE std::string sealed_head(std::string_view line, std::string_view header, std::uint64_t values) {
  UNITY_EXPECTS(line.size() == sealed_line_length, "a first line of 16 bytes");
  const auto begin = sealed_aligned(sealed_prefix_length + header.size());
  const std::uint64_t lengths[2]{begin + values + sealed_checksum_length, header.size()};
  std::string head{line};
  head.append(reinterpret_cast<const char*>(lengths), sizeof lengths).append(header);
  head.resize(begin, '\0');
  return head;
}

UNITY_INLINE void read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const auto got =
        ::pread(file, bytes.data(), std::min(bytes.size(), std::size_t{1} << 30U), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      throw error{name, got == 0 ? std::string{"ends early"} : fmt::format("cannot be read ({})", std::strerror(errno)),
                  fmt::format("{} bytes from byte {}", bytes.size(), offset)};
    }
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

UNITY_INLINE sealed_reader::sealed_reader(const std::filesystem::path& path, std::string_view line,
                                          const std::filesystem::path& other)
    : name_{path.string()}, file_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
  UNITY_EXPECTS(line.size() == sealed_line_length, "a first line of 16 bytes");
  std::error_code ignored;
  if (!other.empty() && std::filesystem::is_regular_file(other, ignored)) {
    instead_ = fmt::format("; {} is there", other.string());
  }
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) {
    refuse(fmt::format("cannot be read ({})", std::strerror(errno)), "a readable file");
  }
  if (!S_ISREG(status.st_mode)) {
    refuse("not a regular file", fmt::format("a file of \"{}\"", kind_of(line)));
  }
  if (static_cast<std::uint64_t>(status.st_size) > largest_file) {
    refuse(fmt::format("has more than {} bytes", largest_file), "a smaller file");
  }
  check(line, static_cast<std::uint64_t>(status.st_size));
}

UNITY_INLINE void sealed_reader::check(std::string_view line, std::uint64_t size) {
  std::string prefix(std::min(size, sealed_prefix_length), '\0');
  read_at(file_.get(), 0, std::as_writable_bytes(std::span{prefix}), name_);
  const auto known = std::min(prefix.size(), line.size() - 2);  // without version and newline
  if (known == 0 || prefix.compare(0, known, line.substr(0, known)) != 0) {
    refuse("another kind of file", fmt::format("one that begins with \"{}\"", kind_of(line)));
  }
  if (prefix.size() < sealed_prefix_length) {
    refuse(fmt::format("is cut short at byte {}", size), fmt::format("{} bytes at least", sealed_prefix_length));
  }
  if (prefix.compare(0, line.size(), line) != 0) {
    refuse("another version", fmt::format("\"{}\"", kind_of(line)));
  }
  std::uint64_t lengths[2]{};
  std::memcpy(lengths, prefix.data() + sealed_line_length, sizeof lengths);
  if (size != lengths[0]) {
    refuse(fmt::format("{}{}", size < lengths[0] ? "is cut short at byte " : "goes on to byte ", size),
           fmt::format("{} bytes, as it says", lengths[0]));
  }
  if (size < sealed_prefix_length + sealed_checksum_length || lengths[1] > size) {
    refuse(fmt::format("a header of {} bytes in a file of {}", lengths[1], size), "one that fits");
  }
  begin_ = sealed_aligned(sealed_prefix_length + lengths[1]);
  end_ = size - sealed_checksum_length;
  if (begin_ > end_) {
    refuse(fmt::format("a header of {} bytes in a file of {}", lengths[1], size), "one that fits");
  }
  check_sum();
  header_.resize(static_cast<std::size_t>(lengths[1]));
  read_at(file_.get(), sealed_prefix_length, std::as_writable_bytes(std::span{header_}), name_);
}

UNITY_INLINE void sealed_reader::check_sum() {
  const auto read = [&](std::uint64_t at, std::span<std::byte> bytes) { read_at(file_.get(), at, bytes, name_); };
  sum_ = checksum_of(end_, read);
  std::uint64_t stored[2]{};
  read(end_, std::as_writable_bytes(std::span{stored}));
  if (sum_ != fingerprint{stored[0], stored[1]}) {
    refuse("its checksum is not that of its content", "a file that was not altered");
  }
}

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
    throw error{name_, "not a regular file", "a name for a file"};
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
  file_ = unity::file_descriptor{-1};
  sync_folder();
}

UNITY_INLINE bool replaced_file::lock() {
  file_ = unity::file_descriptor{::open(partial_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)};
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
  const unity::file_descriptor opened{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (opened.get() >= 0) {
    ::fsync(opened.get());
  }
}

UNITY_INLINE void replaced_file::discard() noexcept {
  if (!partial_.empty()) {
    ::unlink(partial_.c_str());
    partial_.clear();
  }
  file_ = unity::file_descriptor{-1};
}

}  // namespace unity::io

#endif
