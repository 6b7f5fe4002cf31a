// A folder for files of a run.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

namespace support {

// Is removed with its files at the end of its lifetime.
class scratch_folder {
 public:
  explicit scratch_folder(std::string_view purpose)
      : path_{std::filesystem::temp_directory_path() / fmt::format("unity-{}-{}", purpose, ::getpid())} {
    std::filesystem::create_directories(path_);
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
