// Files that a program writes: all or none.
#pragma once

#include <exception>
#include <filesystem>
#include <functional>
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

// A folder that is there from now on. One that was made for it and stays empty is taken back at the end.
class output_folder {
 public:
  // None for an empty name. Throws: as make_folder.
  explicit output_folder(std::filesystem::path folder) : folder_{std::move(folder)} {
    if (!folder_.empty()) {
      std::error_code ignored;
      was_there_ = std::filesystem::exists(folder_, ignored);
      make_folder(folder_);
    }
  }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;
  ~output_folder() {
    if (!was_there_) {
      std::error_code ignored;
      std::filesystem::remove(folder_, ignored);  // fails where there are files in it
    }
  }

 private:
  std::filesystem::path folder_;
  bool was_there_ = true;
};

// A file with that text; or what `write` makes of its path, which on failure leaves the file as it was, and may leave
// `beside`.
struct output {
  std::filesystem::path path{};
  std::string text{};
  std::function<void(const std::filesystem::path&)> write{};
  std::filesystem::path beside{};
};

// A failure takes back what was written before it. Throws: unity::error where a file cannot be written.
inline void write_all(const std::vector<output>& files) {
  std::vector<std::filesystem::path> written;
  try {
    for (const auto& f : files) {
      if (!f.beside.empty()) {
        written.push_back(f.beside);
      }
      if (f.write) {
        f.write(f.path);
      } else {
        unity::atomic_write(f.path, f.text);
      }
      written.push_back(f.path);
    }
  } catch (const std::exception&) {
    for (const auto& path : written) {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
    throw;
  }
}

}  // namespace support
