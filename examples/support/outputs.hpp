// Files that a program writes: all or none.
#pragma once

#include <algorithm>
#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/sealed_file.hpp>

#include "same_file.hpp"

namespace support {

// Throws: unity::error if there is no such folder and none can be made.
inline void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw unity::error{folder.string(), fmt::format("the folder cannot be made ({})", failed.message()),
                       "a writable place"};
  }
}

// Checks before the work that the file can be written, and leaves no file behind. Pipes are not opened, as their reader
// would see the end of file, and empty names are ignored. Throws: unity::error if the file could not be written.
inline void expect_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool is_pipe = std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored) &&
                       !std::filesystem::is_directory(path, ignored);
  if (!path.empty() && !is_pipe) {
    const unity::atomic_file place{path};
  }
}

// For the files of these names that are written to the folder of --out. Throws: unity::error if one of the others,
// which are read or written, too, is one of them; no folder and empty paths are ignored.
inline void expect_outside(const std::filesystem::path& folder, std::initializer_list<const char*> names,
                           const std::vector<std::filesystem::path>& others) {
  for (const auto& other : others) {
    for (const auto* name : names) {
      if (!folder.empty() && !other.empty() && is_same_file(folder / name, other)) {
        throw unity::error{"--out", fmt::format("its {} is {}, which another argument names", name, other.string()),
                           "a folder without that file"};
      }
    }
  }
}

// A folder for results, which is made if necessary and can be written to. If it was made and stays empty, it is removed
// at the end.
class output_folder {
 public:
  // No folder for an empty name. Throws: as make_folder.
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

// A file with this text, or the file that `write` makes of its path. On failure `write` leaves the file unchanged, and
// may leave `beside`.
struct output {
  std::filesystem::path path{};
  std::string text{};
  std::function<void(const std::filesystem::path&)> write{};
  std::filesystem::path beside{};
};

namespace detail {

// Keeps the previous contents of files under a second name during its lifetime.
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

  // Throws: unity::error if the contents cannot be kept, or are kept already: two results would be in one file.
  void keep(const std::filesystem::path& path) {
    if (unity::named_descriptor(path) >= 0) {
      return;  // what was printed stays
    }
    const auto target = unity::io::link_target(path);
    std::error_code problem;
    if (std::filesystem::exists(target, problem) && !std::filesystem::is_regular_file(target, problem)) {
      return;  // a device, or a pipe
    }
    if (std::any_of(all_.begin(), all_.end(), [&](const file& f) { return is_same_file(f.path, target); })) {
      throw unity::error{path.string(), "another result of this run, too", "a file of its own for each"};
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
  // Effects: restores the previous contents of files, and removes files that did not exist.
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

// Writes all files or none: a failure restores all previous contents. Throws: unity::error if a file cannot be written.
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
