// A queue that runs the cuda backend's device functions as loops on the host.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace unity::backend::test {

struct lone_thread {
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] double sum(double x) const { return x; }
  [[nodiscard]] double largest(double x) const { return x; }
};

// Host threads that act as the thread group sharing a row. They block instead of spinning, because there are more
// threads than cores (std::barrier spins and yields first).
class team {
 public:
  explicit team(std::size_t size) : numbers_{numbers(size), numbers(size)} {}

  // Folds alternate between two arrays: before a thread overwrites one, all have met since they read it.
  template <class F>
  double fold(int rank, std::size_t turn, double x, const F& f) {
    const auto& all = numbers_[turn % 2];
    numbers_[turn % 2][static_cast<std::size_t>(rank)] = x;
    meet();
    auto total = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) {
      total = f(total, all[i]);
    }
    return total;
  }

 private:
  using numbers = std::vector<double>;

  void meet() {
    std::unique_lock lock{mutex_};
    const auto meeting = meetings_;
    if (++arrived_ < numbers_[0].size()) {
      all_here_.wait(lock, [&] { return meetings_ != meeting; });
      return;
    }
    arrived_ = 0;
    ++meetings_;
    lock.unlock();
    all_here_.notify_all();
  }

  std::array<numbers, 2> numbers_;
  std::mutex mutex_{};
  std::condition_variable all_here_{};
  std::size_t arrived_ = 0;
  std::size_t meetings_ = 0;
};
struct team_member {
  int rank_;
  int size_;
  team* all_;
  std::size_t* turns_;  // number of its folds so far

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] double sum(double x) const { return all_->fold(rank_, (*turns_)++, x, std::plus<double>{}); }
  [[nodiscard]] double largest(double x) const {
    return all_->fold(rank_, (*turns_)++, x, [](double a, double b) { return std::max(a, b); });
  }
};

// members: threads per group; 1, or a number that represents any width above 1.
struct host_queue {
  int members = 1;

  template <class F>
  void each(std::int64_t n, const F& f) {
    for (std::int64_t i = n; i-- > 0;) {  // the order must not matter
      f(i);
    }
  }
  template <class F>
  void rows(std::int64_t n, int width, const F& f) {
    REQUIRE((width == 1 || width == 32 || width == 256));
    if (width == 1 || members == 1) {
      each(n, [&](std::int64_t i) { f(lone_thread{}, i); });
      return;
    }
    team all{static_cast<std::size_t>(members)};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < members; ++rank) {
      threads.emplace_back([&, rank] {
        std::size_t turns = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          f(team_member{rank, members, &all, &turns}, i);
        }
      });
    }
  }
  template <class F>
  void tiles(std::int64_t n, const F& f) {
    for (std::int64_t i = n; i-- > 0;) {
      std::vector<typename F::element> tile(F::tile_size);
      for (int t = 0; t < cuda::block_threads; ++t) {
        f.read(tile.data(), t, i);
      }
      for (int t = 0; t < cuda::block_threads; ++t) {
        f.write(tile.data(), t, i);
      }
    }
  }
};

}  // namespace unity::backend::test
