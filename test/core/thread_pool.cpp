#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/thread_pool.hpp>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNITY_TEST_SHADOW_MEMORY  // sanitizers reserve the address space, so RLIMIT_AS cannot be set
#endif
#endif

#include "../support/child.hpp"

namespace tests_of_thread_pool {

using unity::thread_pool;

namespace {

// Waits for the condition; false if it does not come true within five seconds.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("parallel_for calls its body once per index for various thread counts and grains") {
  for (const std::size_t threads : {0U, 1U, 2U, 4U, 7U}) {
    thread_pool pool{threads};
    CHECK(pool.size() == (threads == 0 ? 1 : threads));
    for (const std::size_t count : {0U, 1U, 2U, 99U, 1000U}) {
      for (const std::size_t grain : {1U, 3U, 100U, 5000U}) {
        CAPTURE(threads, count, grain);
        std::vector<std::atomic<int>> calls(count);
        std::atomic<bool> fits{true};
        pool.parallel_for(count, grain, [&](std::size_t worker, std::size_t begin, std::size_t end) {
          fits =
              fits && worker < pool.size() && begin < end && end <= count && (end - begin <= grain || pool.size() == 1);
          for (auto i = begin; i < end; ++i) {
            ++calls[i];
          }
        });
        REQUIRE(fits);
        for (const auto& c : calls) {
          REQUIRE(c == 1);
        }
      }
    }
  }
}

TEST_CASE("repeated parallel_for loops on one thread_pool give correct sums") {
  thread_pool pool{4};
  std::vector<long> values(2000, 1);
  for (int round = 0; round < 500; ++round) {
    pool.parallel_for(values.size(), 16, [&](std::size_t, std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        values[i] += static_cast<long>(i);
      }
    });
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    REQUIRE(values[i] == 1 + 500 * static_cast<long>(i));
  }
}

TEST_CASE("parallel_for gives a worker number to one thread at a time") {
  thread_pool pool{4};
  std::vector<std::atomic<int>> inside(pool.size());
  std::atomic<bool> alone{true};
  pool.parallel_for(5000, 1, [&](std::size_t worker, std::size_t, std::size_t) {
    alone = alone && inside[worker]++ == 0;
    --inside[worker];
  });
  CHECK(alone);
}

TEST_CASE("parallel_for runs its body on all threads at the same time") {
  for (const std::size_t threads : {2U, 4U}) {
    CAPTURE(threads);
    thread_pool pool{threads};
    std::vector<std::atomic<int>> calls(threads);
    std::atomic<std::size_t> begun{0};
    std::atomic<bool> met{true};
    // No call ends before all have begun, so each needs a thread of its own.
    pool.parallel_for(threads, 1, [&](std::size_t worker, std::size_t, std::size_t) {
      ++calls[worker];
      ++begun;
      if (!comes_true([&] { return begun == threads; })) {
        met = false;
      }
    });
    CHECK(met);
    for (const auto& c : calls) {
      CHECK(c == 1);
    }
  }
}

TEST_CASE("parallel_for rethrows an exception of its body and the thread_pool stays usable") {
  for (const std::size_t threads : {1U, 3U}) {
    CAPTURE(threads);
    thread_pool pool{threads};
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS_WITH(pool.parallel_for(100, 1,
                                          [](std::size_t, std::size_t begin, std::size_t) {
                                            if (begin % 10 == 7 || begin == 0) {
                                              throw std::runtime_error{"no"};
                                            }
                                          }),
                        "no");
      std::atomic<std::size_t> sum{0};
      pool.parallel_for(100, 1, [&](std::size_t, std::size_t begin, std::size_t end) { sum += end - begin; });
      REQUIRE(sum == 100);
    }
  }
}

TEST_CASE("parallel_for rethrows only after the calls of its body that began have ended") {
  thread_pool pool{2};
  std::atomic<bool> begun{false};
  std::atomic<bool> ended{false};
  const auto body = [&](std::size_t, std::size_t begin, std::size_t) {
    if (begin == 1) {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      ended = true;
    } else if (comes_true([&] { return begun.load(); })) {
      throw std::runtime_error{"while the other runs"};
    }
  };
  CHECK_THROWS_WITH(pool.parallel_for(2, 1, body), "while the other runs");
  CHECK(ended);
}

TEST_CASE("parallel_for with grain 0 violates a precondition") {
  const auto result =
      unity::test::in_child([] { thread_pool{1}.parallel_for(10, 0, [](std::size_t, std::size_t, std::size_t) {}); });
  CHECK(result.aborted);
}

TEST_CASE("a thread_pool that never ran a loop can be destroyed") {
  for (int i = 0; i < 100; ++i) {
    const thread_pool pool{3};
  }
  SUCCEED();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(UNITY_TEST_SHADOW_MEMORY)
TEST_CASE("a thread_pool that cannot start its threads reports an error without aborting") {
  const auto child = unity::test::in_child([] {
    const rlimit limit{std::size_t{1} << 29U, std::size_t{1} << 29U};  // address space for a few stacks
    setrlimit(RLIMIT_AS, &limit);
    try {
      thread_pool pool{1000};
    } catch (const unity::error& e) {
      std::fputs(e.what(), stderr);
    }
  });
  CHECK_FALSE(child.aborted);
  CHECK_THAT(child.messages, Catch::Matches("thread [0-9]+: cannot be started \\(.*\\); expected 1000 of them"));
}
#endif

}  // namespace tests_of_thread_pool
