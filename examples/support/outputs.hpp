// Files that a program writes: all or none.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/sealed_file.hpp>

namespace support {

// Throws: unity::error where there is no such folder and none can be made.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw unity::error{folder.string(), fmt::format("the folder cannot be made ({})", failed.message()),
                       "a writable place"};
  }
}

// Before the work, not after it: what is not committed leaves nothing. A pipe is left alone, as its reader would see it
// end, and an empty name is none. Throws: unity::error where the file could not be written.
inline void expect_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_pipe = std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored) &&
                       !std::filesystem::is_directory(path, ignored);
  if (!path.empty() && !is_pipe) {
    const unity::atomic_file place{path};
  }
}

// A folder that is there from now on, and can be written to. One that was made for it and stays empty is taken back at
// the end.
class output_folder {
 public:
  // None for an empty name. Throws: as make_folder.
  explicit output_folder(std::filesystem::path folder) : folder_{std::move(folder)} {
    if (!folder_.empty()) {
      std::error_code ignored;
      was_there_ = std::filesystem::exists(folder_, ignored);
      make_folder(folder_);
      expect_writable(folder_ / "written-here");
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

namespace detail {

// What files held before they are written, under a second name as long as this lives.
class earlier_files {
 public:
  earlier_files() = default;
  earlier_files(const earlier_files&) = delete;
  earlier_files& operator=(const earlier_files&) = delete;
  ~earlier_files() {
    std::error_code ignored;
    for (const auto& f : all_) {
      std::filesystem::remove(f.kept, ignored);
    }
  }

  // Throws: unity::error where what is there cannot be kept.
  void keep(const std::filesystem::path& path) {
    const auto target = unity::io::link_target(path);
    if (std::any_of(all_.begin(), all_.end(), [&](const file& f) { return f.path == target; })) {
      return;
    }
    std::error_code problem;
    if (std::filesystem::exists(target, problem) && !std::filesystem::is_regular_file(target, problem)) {
      return;  // a device, or a pipe
    }
    all_.push_back({target, unity::name_beside(target, ".unity-before")});
    auto& f = all_.back();
    std::filesystem::remove(f.kept, problem);  // of a run that was killed
    f.was_there = std::filesystem::exists(target, problem);
    if (!f.was_there) {
      return;
    }
    std::filesystem::create_hard_link(target, f.kept, problem);
    if (problem) {  // a file system without second names
      std::filesystem::copy_file(target, f.kept, problem);
    }
    if (problem) {
      throw unity::error{path.string(), fmt::format("what it holds cannot be kept ({})", problem.message()),
                         "a writable place with enough room"};
    }
  }
  // Effects: files hold what they held, or are not there as they were not.
  void restore() noexcept {
    std::error_code ignored;
    for (const auto& f : all_) {
      if (f.was_there) {
        std::filesystem::rename(f.kept, f.path, ignored);
      } else {
        std::filesystem::remove(f.path, ignored);
      }
    }
  }

 private:
  struct file {
    std::filesystem::path path{};
    std::filesystem::path kept{};
    bool was_there = false;
  };
  std::vector<file> all_{};
};

}  // namespace detail

// A failure takes back what was written before it, and brings back what was there. Throws:
// unity::error where a file cannot be written.
inline void write_all(const std::vector<output>& files) {
  detail::earlier_files earlier;
  try {
    for (const auto& f : files) {
      if (!f.beside.empty()) {
        earlier.keep(f.beside);
      }
      earlier.keep(f.path);
      if (f.write) {
        f.write(f.path);
      } else {
        unity::atomic_write(f.path, f.text);
      }
    }
  } catch (const std::exception&) {
    earlier.restore();
    throw;
  }
}

}  // namespace support
