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
      merge(0, f);
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

  struct run {
    file stream{};
    std::size_t count = 0;
    std::size_t merges = 0;  // that its elements went through
  };
  // Systems limit the number of open files, often to 1,024.
  static constexpr std::size_t most_alike = 256;

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
    run next{unnamed_file(), 0, 0};
    write(next, held_.data(), held_.size());
    finish(next);
    spilled_ += held_.size();
    runs_.push_back(std::move(next));
    held_.clear();
    while (runs_.size() >= most_alike && runs_[runs_.size() - most_alike].merges == runs_.back().merges) {
      unite();
    }
  }
  void write(run& to, const T* from, std::size_t count) {
    if (std::fwrite(from, sizeof(T), count, to.stream.get()) != count) {
      refuse(to.count + count);
    }
    to.count += count;
  }
  void finish(run& written) {
    if (std::fflush(written.stream.get()) != 0) {
      refuse(written.count);
    }
    std::rewind(written.stream.get());
  }
  [[noreturn]] void refuse(std::size_t count) const {
    throw error{folder_.string(), std::strerror(errno), fmt::format("room for {} bytes", count * sizeof(T))};
  }
  // Makes one run of the last ones.
  void unite() {
    std::vector<T>{}.swap(held_);  // the readers use the same amount
    const auto first = runs_.size() - most_alike;
    run all{unnamed_file(), 0, runs_.back().merges + 1};
    merge(first, [&](const T& v) { write(all, &v, 1); });
    finish(all);
    runs_.resize(first);
    runs_.push_back(std::move(all));
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
  // f(element) for the elements of the runs from this one on.
  template <class F>
  void merge(std::size_t first, F&& f) {
    std::vector<reader> readers;
    const auto count = runs_.size() - first;
    std::vector<T> heads(count);
    const auto block = std::max<std::size_t>(1, most_ / count);
    const auto later = [&](std::size_t a, std::size_t b) {
      return less_(heads[b], heads[a]);
    };
    std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(later)> next{later};
    for (std::size_t r = 0; r < count; ++r) {
      readers.emplace_back(runs_[first + r].stream.get(), runs_[first + r].count, block);
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
  std::vector<run> runs_;  // merged ones first
};

}  // namespace unity
