// A file's bytes as memory, which the system reads when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include <boost/interprocess/mapped_region.hpp>

#include <unity/core/config.hpp>

namespace unity {

// Holds a mapping for reading; movable. The bytes stay where they are when it is moved, and are valid until it is
// destroyed. Whoever makes the file shorter meanwhile ends the program with a bus error when the bytes are read:
// replace files (atomic_file), do not change them.
class mapped_file {
 public:
  mapped_file() = default;
  // Throws: unity::error naming the file where it cannot be read, or is no regular file.
  explicit mapped_file(const std::filesystem::path& path);

  // Aligned to a page. Empty for an empty file.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(region_.get_address()), region_.get_size()};
  }

 private:
  boost::interprocess::mapped_region region_{};
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_CORE_MAPPED_FILE)

#include <system_error>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/file_mapping.hpp>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity {

UNITY_INLINE mapped_file::mapped_file(const std::filesystem::path& path) {
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw error{path.string(), "is no regular file", "one"};
  }
  try {
    const boost::interprocess::file_mapping file{path.c_str(), boost::interprocess::read_only};
    if (std::filesystem::file_size(path) > 0) {  // of nothing there is no mapping
      region_ = boost::interprocess::mapped_region{file, boost::interprocess::read_only};
    }
  } catch (const boost::interprocess::interprocess_exception& e) {
    throw error{path.string(), fmt::format("cannot be read ({})", e.what()), "a readable file"};
  } catch (const std::filesystem::filesystem_error& e) {
    throw error{path.string(), fmt::format("cannot be read ({})", e.code().message()), "a readable file"};
  }
}

}  // namespace unity

#endif
