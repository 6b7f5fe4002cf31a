// A folder for files of a run.
#pragma once

#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

namespace support {

// No other folder, of this process or another, has its name. Is removed with its files at the end of its lifetime.
class scratch_folder {
 public:
  // Throws: std::filesystem::filesystem_error if it cannot be made.
  explicit scratch_folder(std::string_view purpose) {
    auto name = (std::filesystem::temp_directory_path() / fmt::format("unity-{}-XXXXXX", purpose)).string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::filesystem::filesystem_error{"mkdtemp", name, std::error_code{errno, std::generic_category()}};
    }
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace support
