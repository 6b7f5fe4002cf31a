// Flat binary files for checkpoints: written whole or not at all, and refused when cut short or altered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/hash.hpp>

namespace unity {

class archive_writer {
 public:
  template <class T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const auto& v : values) {
      put(v);
    }
  }

  void save(const std::string& path, std::string_view magic) const {
    atomic_write(path, std::string{magic} + checksum() + bytes_);
  }

 private:
  [[nodiscard]] std::string checksum() const {
    const auto h = hash_bytes(bytes_);
    return {reinterpret_cast<const char*>(&h), sizeof h};
  }
  std::string bytes_;
};

class archive_reader {
 public:
  // Throws: unity::error if the file is missing, of another kind, cut short or altered.
  archive_reader(std::string path, std::string_view magic) : path_{std::move(path)} {
    bytes_ = read_file(path_);
    std::uint64_t sum = 0;
    const auto header = magic.size() + sizeof sum;
    if (bytes_.size() < header || std::string_view{bytes_}.substr(0, magic.size()) != magic) {
      throw error{path_, "another kind of file", "a checkpoint of this version"};
    }
    std::memcpy(&sum, bytes_.data() + magic.size(), sizeof sum);
    at_ = header;
    if (hash_bytes(std::string_view{bytes_}.substr(header)) != sum) {
      throw error{path_, "a checksum that does not match", "a file that was neither cut short nor altered"};
    }
  }

  template <class T>
    requires std::is_trivially_copyable_v<T>
  void get(T& value) {
    if (bytes_.size() - at_ < sizeof value) {
      fail("the end of the file");
    }
    std::memcpy(static_cast<void*>(&value), bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
  }
  template <class T>
  void get(std::vector<T>& values) {
    std::uint64_t size = 0;
    get(size);
    if (size > bytes_.size()) {
      fail(fmt::format("a length of {}", size));
    }
    values.resize(size);
    for (auto& v : values) {
      get(v);
    }
  }
  [[noreturn]] void fail(const std::string& found) const {
    throw error{fmt::format("{} at byte {}", path_, at_), found, "a checkpoint of the same run"};
  }

 private:
  std::string path_;
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace unity
