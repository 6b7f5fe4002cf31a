// A folder for files of a run.
#pragma once

#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace support {

// No other folder, of this process or another, has its name. Is removed with its files at the end of its lifetime.
class scratch_folder {
 public:
  // Throws: unity::error if it cannot be made.
  explicit scratch_folder(std::string_view purpose) {
    std::error_code problem;
    const auto parent = std::filesystem::temp_directory_path(problem);
    auto name = (parent / fmt::format("unity-{}-XXXXXX", purpose)).string();
    if (!problem && ::mkdtemp(name.data()) == nullptr) {
      problem = {errno, std::generic_category()};
    }
    if (problem) {
      throw unity::error{parent.empty() ? "TMPDIR" : parent.string(),
                         fmt::format("no folder can be made there ({})", problem.message()), "a writable folder"};
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
