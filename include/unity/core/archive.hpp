// Flat binary files for checkpoints: written whole or not at all, and refused when cut short or altered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>

namespace unity {

// Writes `content` to a temporary beside `path`, then renames it.
// Throws: unity::error if the file cannot be written (unwritable folder, full disk); `path` is then untouched.
inline void write_file_atomically(const std::string& path, std::string_view content) {
  const auto temporary = path + ".partial";
  std::ofstream out{temporary, std::ios::binary | std::ios::trunc};
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  std::error_code failed;
  if (out) {
    std::filesystem::rename(temporary, path, failed);
  }
  if (!out || failed) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw error{path, "the file cannot be written", "a writable folder with " + std::to_string(content.size()) + " bytes free"};
  }
}

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
    write_file_atomically(path, std::string{magic} + checksum() + bytes_);
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
    std::ifstream in{path_, std::ios::binary};
    if (!in) {
      throw error{path_, "the file cannot be read", "a checkpoint"};
    }
    std::array<char, 65536> chunk;
    while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
      bytes_.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    }
    if (in.bad()) {  // a folder, or a disk that fails
      throw error{path_, "the file cannot be read", "a checkpoint"};
    }
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
      fail("a length of " + std::to_string(size));
    }
    values.resize(size);
    for (auto& v : values) {
      get(v);
    }
  }
  [[noreturn]] void fail(const std::string& found) const {
    throw error{path_ + " at byte " + std::to_string(at_), found, "a checkpoint of the same model, rules and cost"};
  }

 private:
  std::string path_;
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace unity
