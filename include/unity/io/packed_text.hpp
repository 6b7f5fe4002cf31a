// Texts from files that may be compressed, or archives of several files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/file.hpp>

namespace unity::io {

struct named_text {
  std::string name{};  // the file, or file:member, such as "traces.tar.gz:rank0.json"
  std::string text{};
};

// The texts of a file: a plain file as it is; a compressed one (gzip and others that libarchive knows) decompressed;
// from an archive (tar, compressed or not) each regular file, in order.
// Throws: unity::error, naming the file, if it cannot be read, is truncated or damaged, is empty, or has more than
// `largest` bytes.
[[nodiscard]] std::vector<named_text> read_packed(const std::filesystem::path& path,
                                                  std::uint64_t largest = largest_stream);

// The same for bytes in memory; `name` is the name of their file.
[[nodiscard]] std::vector<named_text> unpack(std::string bytes, const std::string& name,
                                             std::uint64_t largest = largest_stream);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PACKED_TEXT)

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io {

namespace detail {

class archive_reader {
 public:
  archive_reader(std::string_view bytes, const std::string& name, std::uint64_t largest)
      : archive_{archive_read_new(), &archive_read_free}, name_{name}, left_{largest}, largest_{largest} {
    archive_read_support_filter_all(archive_.get());
    archive_read_support_format_tar(archive_.get());
    archive_read_support_format_raw(archive_.get());
    expect(archive_read_open_memory(archive_.get(), bytes.data(), bytes.size()));
  }

  std::vector<named_text> run() {
    std::vector<named_text> all;
    archive_entry* entry = nullptr;
    for (;;) {
      const auto code = archive_read_next_header(archive_.get(), &entry);
      if (code == ARCHIVE_EOF) {
        return all;
      }
      expect(code);
      const bool is_raw = archive_format(archive_.get()) == ARCHIVE_FORMAT_RAW;
      if (!is_raw && archive_entry_filetype(entry) != AE_IFREG) {
        continue;
      }
      const char* const inner = archive_entry_pathname(entry);
      all.push_back(
          {is_raw ? name_ : fmt::format("{}:{}", name_, printable(inner == nullptr ? "?" : inner, 240)), read()});
    }
  }

 private:
  std::string read() {
    std::string text;
    for (;;) {
      const void* block = nullptr;
      std::size_t size = 0;
      la_int64_t offset = 0;
      const auto code = archive_read_data_block(archive_.get(), &block, &size, &offset);
      if (code == ARCHIVE_EOF) {
        return text;
      }
      expect(code);
      if (size > left_) {
        throw error{name_, fmt::format("holds more than {} bytes", largest_), "less"};
      }
      left_ -= size;
      text.append(static_cast<const char*>(block), size);
    }
  }
  void expect(int code) const {
    if (code < ARCHIVE_WARN) {
      const char* const why = archive_error_string(archive_.get());
      throw error{name_, fmt::format("cannot be unpacked ({})", why == nullptr ? "damaged" : why),
                  "a whole file or archive"};
    }
  }

  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  const std::string& name_;
  std::uint64_t left_;
  std::uint64_t largest_;
};

// Whether it begins like JSON, after whitespace and a UTF-8 byte order mark.
inline bool is_plain_json(std::string_view bytes) {
  bytes = without_byte_order_mark(bytes);
  const auto first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '[');
}

}  // namespace detail

UNITY_INLINE std::vector<named_text> unpack(std::string bytes, const std::string& name, std::uint64_t largest) {
  std::vector<named_text> all;
  if (detail::is_plain_json(bytes)) {
    all.push_back({name, std::move(bytes)});
  } else if (!bytes.empty()) {
    all = detail::archive_reader{bytes, name, largest}.run();
  }
  if (all.empty()) {
    throw error{name, "holds nothing", "text"};
  }
  return all;
}

UNITY_INLINE std::vector<named_text> read_packed(const std::filesystem::path& path, std::uint64_t largest) {
  return unpack(read_file(path, 0, to_end, largest), path.string(), largest);
}

}  // namespace unity::io

#endif
