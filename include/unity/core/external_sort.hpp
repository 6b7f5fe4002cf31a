// Sorting with limited memory: sorted runs on disk, merged as they are read.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <queue>
#include <string>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity {

// Collects elements, then returns them in order. Beyond `memory` bytes, sorted runs go to unnamed files in `folder`, or
// in the system's temporary folder if that is empty; they vanish with the sorter, however the program ends.
// Precondition: equivalent elements are equal in every byte, so the order is unique.
template <class T, class Less>
  requires std::is_trivially_copyable_v<T>
class external_sorter {
 public:
  external_sorter(Less less, std::size_t memory, std::filesystem::path folder)
      : less_{std::move(less)}, most_{std::max<std::size_t>(1024, memory / sizeof(T))}, folder_{std::move(folder)} {}

  // Throws: unity::error naming the folder if a run cannot be written.
  void push(const T& value) {
    if (held_.size() == held_.capacity()) {
      held_.reserve(std::min(most_, std::max<std::size_t>(1024, 2 * held_.size())));
    }
    held_.push_back(value);
    if (held_.size() >= most_) {
      spill();
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return spilled_ + held_.size(); }
  [[nodiscard]] std::size_t runs() const noexcept { return runs_.size(); }

  // Calls f(element) in order, and removes all elements. Complexity: n log n.
  // Throws: unity::error if a run cannot be written or read.
  template <class F>
  void drain(F&& f) {
    if (runs_.empty()) {
      sort();
      for (const auto& v : held_) {
        f(v);
      }
    } else {
      spill();
      std::vector<T>{}.swap(held_);  // the readers use the same amount
      merge(f);
    }
    std::vector<T>{}.swap(held_);
    runs_.clear();
    spilled_ = 0;
  }

 private:
  struct close_file {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
  };
  using file = std::unique_ptr<std::FILE, close_file>;

  // Reads a run a block at a time.
  class reader {
   public:
    reader(std::FILE* from, std::size_t count, std::size_t block) : from_{from}, left_{count}, block_(block) {}
    // Throws: unity::error if the file ends early.
    [[nodiscard]] bool next(T& out) {
      if (at_ == have_) {
        have_ = std::min(block_.size(), left_);
        if (have_ == 0) {
          return false;
        }
        if (std::fread(block_.data(), sizeof(T), have_, from_) != have_) {
          throw error{"a sorted run on disk", "its end", fmt::format("{} more elements", left_)};
        }
        left_ -= have_;
        at_ = 0;
      }
      out = block_[at_++];
      return true;
    }

   private:
    std::FILE* from_;
    std::size_t left_;
    std::vector<T> block_;
    std::size_t at_ = 0;
    std::size_t have_ = 0;
  };

  void sort() { std::sort(held_.begin(), held_.end(), less_); }
  void spill() {
    choose_folder();
    sort();
    auto run = unnamed_file();
    const bool written = std::fwrite(held_.data(), sizeof(T), held_.size(), run.get()) == held_.size() &&
                         std::fflush(run.get()) == 0;
    if (!written) {
      throw error{folder_.string(), std::strerror(errno),
                  fmt::format("room for {} bytes", held_.size() * sizeof(T))};
    }
    std::rewind(run.get());
    spilled_ += held_.size();
    runs_.emplace_back(std::move(run), held_.size());
    held_.clear();
  }
  void choose_folder() {
    std::error_code problem;
    if (folder_.empty()) {
      folder_ = std::filesystem::temp_directory_path(problem);
    }
    if (problem) {
      throw error{"the system's folder for temporary files", problem.message(), "a folder: TMPDIR names it"};
    }
  }
  [[nodiscard]] file unnamed_file() const {
    auto name = (folder_ / "unity-run-XXXXXX").string();
    const auto descriptor = ::mkstemp(name.data());
    if (descriptor < 0) {
      throw error{folder_.string(), std::strerror(errno), "a folder that files can be written to"};
    }
    ::unlink(name.c_str());
    file stream{::fdopen(descriptor, "w+b")};
    if (stream == nullptr) {
      const auto problem = errno;
      ::close(descriptor);
      throw error{folder_.string(), std::strerror(problem), "memory for one more open file"};
    }
    return stream;
  }
  template <class F>
  void merge(F& f) {
    std::vector<reader> readers;
    std::vector<T> heads(runs_.size());
    const auto block = std::max<std::size_t>(1, most_ / runs_.size());
    const auto later = [&](std::size_t a, std::size_t b) {
      return less_(heads[b], heads[a]);
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> next{later};
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      readers.emplace_back(runs_[r].first.get(), runs_[r].second, block);
      if (readers[r].next(heads[r])) {
        next.push(r);
      }
    }
    while (!next.empty()) {
      const auto r = next.top();
      next.pop();
      f(std::as_const(heads[r]));
      if (readers[r].next(heads[r])) {
        next.push(r);
      }
    }
  }

  Less less_;
  std::size_t most_;
  std::filesystem::path folder_;
  std::vector<T> held_;
  std::size_t spilled_ = 0;
  std::vector<std::pair<file, std::size_t>> runs_;
};

}  // namespace unity
