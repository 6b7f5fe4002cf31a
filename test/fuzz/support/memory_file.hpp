// An in-memory file that has a path; the operating system removes it when the process ends, however it ends.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>

namespace unity::test {

class memory_file {
 public:
  memory_file() : file_{::memfd_create("fuzz", MFD_CLOEXEC)}, path_{"/proc/self/fd/" + std::to_string(file_)} {
    UNITY_EXPECTS(file_ >= 0, "files in memory");
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { ::close(file_); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Effects: replaces the content of the file.
  void assign(std::string_view content) {
    UNITY_EXPECTS(::ftruncate(file_, 0) == 0, "a file in memory that can be emptied");
    for (std::size_t at = 0; at < content.size();) {
      const auto put = ::pwrite(file_, content.data() + at, content.size() - at, static_cast<off_t>(at));
      UNITY_EXPECTS(put > 0, "memory for the file");
      at += static_cast<std::size_t>(put);
    }
  }

 private:
  int file_;
  std::string path_;
};

}  // namespace unity::test
