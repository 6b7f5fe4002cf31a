#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/shared_memo.hpp>
#include <unity/core/thread_pool.hpp>

namespace tests_of_shared_memo {

using unity::shared_memo;
using unity::thread_pool;

TEST_CASE("shared_memo computes a value once and keeps the first value of a key") {
  shared_memo<int, int> memo;
  CHECK(memo.find(3) == std::nullopt);
  CHECK(memo.get(3, [] { return std::optional{9}; }) == 9);
  CHECK(memo.get(3, [] { return std::optional{10}; }) == 9);
  CHECK(memo.find(3) == 9);
  memo.insert(3, 11);
  CHECK(memo.find(3) == 9);
  memo.insert(4, 16);
  CHECK(memo.get(4, [] { return std::optional{0}; }) == 16);
  CHECK(memo.size() == 2);
}

TEST_CASE("shared_memo does not store failed computations") {
  shared_memo<int, int> memo;
  CHECK(memo.get(1, [] { return std::optional<int>{}; }) == std::nullopt);
  CHECK_THROWS_AS(memo.get(1, []() -> std::optional<int> { throw std::runtime_error{"no"}; }), std::runtime_error);
  CHECK(memo.find(1) == std::nullopt);
  CHECK(memo.size() == 0);
  CHECK(memo.get(1, [] { return std::optional{5}; }) == 5);
}

TEST_CASE("shared_memo keeps a value inserted during a failed computation of its key") {
  shared_memo<int, int> memo;
  const auto made = memo.get(1, [&] {
    memo.insert(1, 7);
    return std::optional<int>{};
  });
  CHECK(made == std::nullopt);
  CHECK(memo.find(1) == 7);
  CHECK(memo.get(1, [] { return std::optional{5}; }) == 7);
}

TEST_CASE("shared_memo computes each value once across threads") {
  for (const std::size_t threads : {2U, 4U, 8U}) {
    shared_memo<std::size_t, std::size_t> memo;
    std::vector<std::atomic<int>> made(50);
    std::vector<std::size_t> got(1000);
    thread_pool pool{threads};
    pool.parallel_for(got.size(), 1, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto key = i / 20;
        got[i] = memo.get(key, [&] {
                       ++made[key];
                       return std::optional{key * key};
                     }).value();
      }
    });
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i] == (i / 20) * (i / 20));
    }
    for (const auto& count : made) {
      REQUIRE(count == 1);
    }
  }
}

TEST_CASE("shared_memo::get waits for a value that another thread is making and shared_memo::find does not") {
  shared_memo<int, int> memo;
  std::atomic<bool> making{false};
  std::atomic<bool> asked{false};
  std::atomic<int> made{0};
  std::optional<int> first;
  std::jthread maker{[&] {
    first = memo.get(1, [&] {
      ++made;
      making = true;
      while (!asked) {
        std::this_thread::yield();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{50});  // so that the other thread has to wait
      return std::optional{7};
    });
  }};
  while (!making) {
    std::this_thread::yield();
  }
  CHECK(memo.find(1) == std::nullopt);
  CHECK(memo.get(2, [] { return std::optional{4}; }) == 4);  // another key need not wait
  asked = true;
  const auto second = memo.get(1, [&] {
    ++made;
    return std::optional{8};
  });
  maker.join();
  CHECK(first == 7);
  CHECK(second == 7);
  CHECK(made == 1);
}

TEST_CASE("shared_memo retries a failed computation in the waiting threads") {
  shared_memo<int, int> memo;
  std::atomic<int> tries = 0;
  std::vector<std::optional<int>> got(64);
  thread_pool pool{4};
  pool.parallel_for(got.size(), 1, [&](std::size_t, std::size_t begin, std::size_t end) {
    for (auto i = begin; i < end; ++i) {
      got[i] = memo.get(0, [&] { return ++tries < 10 ? std::nullopt : std::optional{1}; });
    }
  });
  CHECK(tries == 10);
  std::size_t without = 0;
  for (const auto& g : got) {
    without += g ? 0 : 1;
  }
  CHECK(without == 9);
}

}  // namespace tests_of_shared_memo
