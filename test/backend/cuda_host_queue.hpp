// A queue on which the functions of the cuda backend run as loops on the host.
#pragma once

#include <catch2/catch.hpp>

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace unity::backend::test {

struct lone_thread {
  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 1; }
  [[nodiscard]] double sum(double x) const { return x; }
  [[nodiscard]] double largest(double x) const { return x; }
};

// Threads of the host as a group that shares a row.
class team {
 public:
  explicit team(int size) : numbers_(static_cast<std::size_t>(size)), meeting_{size} {}

  template <class F>
  double fold(int rank, double x, const F& f) {
    numbers_[static_cast<std::size_t>(rank)] = x;
    meeting_.arrive_and_wait();
    auto total = numbers_[0];
    for (std::size_t i = 1; i < numbers_.size(); ++i) {
      total = f(total, numbers_[i]);
    }
    meeting_.arrive_and_wait();
    return total;
  }

 private:
  std::vector<double> numbers_;
  std::barrier<> meeting_;
};
struct team_member {
  int rank_;
  int size_;
  team* all_;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] double sum(double x) const { return all_->fold(rank_, x, std::plus<double>{}); }
  [[nodiscard]] double largest(double x) const {
    return all_->fold(rank_, x, [](double a, double b) { return std::max(a, b); });
  }
};

// members: threads per group; 1, or a team that stands for any width above 1.
struct host_queue {
  int members = 1;

  template <class F>
  void each(std::int64_t n, const F& f) {
    for (std::int64_t i = n; i-- > 0;) {  // any order
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
    team all{members};
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < members; ++rank) {
      threads.emplace_back([&, rank] {
        for (std::int64_t i = 0; i < n; ++i) {
          f(team_member{rank, members, &all}, i);
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
