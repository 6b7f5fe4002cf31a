// Files that a program writes: all or none.
#pragma once

#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>

namespace support {

// Throws: unity::error where there is no such folder and none can be made.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw unity::error{folder.string(), "the folder cannot be made (" + failed.message() + ")", "a writable place"};
  }
}

struct output {
  std::filesystem::path path{};
  std::string text{};
};

// A failure takes back what was written before it. Throws: unity::error where a file cannot be written.
inline void write_all(const std::vector<output>& files) {
  std::size_t written = 0;
  try {
    for (; written < files.size(); ++written) {
      unity::atomic_write(files[written].path, files[written].text);
    }
  } catch (const std::exception&) {
    for (std::size_t i = 0; i < written; ++i) {
      std::error_code ignored;
      std::filesystem::remove(files[i].path, ignored);
    }
    throw;
  }
}

}  // namespace support
