// A folder of this process, in memory where the system supports it; deleted with the process unless it crashes.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

#include <unity/core/config.hpp>

namespace unity::test {

class fuzz_folder {
 public:
  fuzz_folder() {
    const std::filesystem::path memory = "/dev/shm";
    auto name = ((exists(memory) ? memory : std::filesystem::temp_directory_path()) / "fuzz_XXXXXX").string();
    UNITY_EXPECTS(::mkdtemp(name.data()) != nullptr, "a folder that can be made");
    path_ = name;
  }
  fuzz_folder(const fuzz_folder&) = delete;
  fuzz_folder& operator=(const fuzz_folder&) = delete;
  ~fuzz_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace unity::test
