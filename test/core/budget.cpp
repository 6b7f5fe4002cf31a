#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string_view>
#include <thread>

#include <fmt/core.h>

#include <catch2/catch.hpp>

#include <unity/core/budget.hpp>

namespace tests_of_budget {

using namespace unity;

TEST_CASE("a default-constructed budget has no limits") {
  const budget b;
  CHECK(std::isinf(b.seconds));
  CHECK(b.expansions == UINT64_MAX);
  CHECK(b.memory == SIZE_MAX);
}

TEST_CASE("each stop_reason has a distinct name") {
  static_assert(to_string(stop_reason::exhausted) == "exhausted");
  std::set<std::string_view> names;
  for (const auto r : {stop_reason::exhausted, stop_reason::converged, stop_reason::time, stop_reason::expansions,
                       stop_reason::memory, stop_reason::observer}) {
    CHECK(names.insert(to_string(r)).second);
    CHECK(to_string(r) != "unknown");
  }
  CHECK(to_string(static_cast<stop_reason>(200)) == "unknown");
}

TEST_CASE("a stopwatch measures elapsed seconds and does not go back") {
  const stopwatch watch;
  auto last = watch.seconds();
  CHECK(last >= 0);
  for (int i = 0; i < 100; ++i) {
    const auto now = watch.seconds();
    REQUIRE(now >= last);
    last = now;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  CHECK(watch.seconds() >= 0.02);
  CHECK(watch.seconds() < 5);
}

TEST_CASE("counters are equal if their fields are equal") {
  CHECK(counters{1, 2, 3, 4, 5} == counters{1, 2, 3, 4, 5});
  CHECK(counters{1, 2, 3, 4, 5} != counters{1, 2, 3, 4, 6});
}

TEST_CASE("a stop_reason is formatted as its name") {
  CHECK(fmt::format("{}", unity::stop_reason::observer) == "observer");
}

TEST_CASE("clock_pace reads the clock at every 64th short step and at every long step") {
  clock_pace pace;
  double now = 0;
  int reads = 0;
  const auto times = [&](int n, double seconds) {
    reads = 0;
    for (int i = 0; i < n; ++i) {
      now += seconds;
      if (pace.is_due()) {
        ++reads;
        pace.read(now);
      }
    }
    return reads;
  };
  times(200, 1e-7);
  CHECK(times(6400, 1e-7) == 100);
  CHECK(times(64, 0.01) == 10);  // from the next reading on, after 54 steps, at every step
  CHECK(times(100, 0.01) == 100);
  CHECK(times(6400, 1e-7) == 105);  // after 1, 2, 4, 8, 16 and 32 steps, then after every 64
  pace = clock_pace{};
  now = 0;
  CHECK(times(1600, 1e-5) == 103);  // after 1, 2, 4 and 8 steps, then after every 16, which take 0.16 ms
}

TEST_CASE("a time_limit throws from its end on and never without an end") {
  time_limit limit;
  CHECK_NOTHROW(limit.check());
  limit.end_in(0);
  CHECK_THROWS_AS(limit.check(), out_of_time);
  limit.end_in(-1);
  CHECK_THROWS_WITH(limit.check(), "the time ran out");
  limit.end_in(0.01);
  std::this_thread::sleep_for(std::chrono::milliseconds{15});
  CHECK_THROWS_AS(limit.check(), out_of_time);
  for (const double seconds : {1000.0, 1e9, 1e300, std::numeric_limits<double>::infinity()}) {
    CAPTURE(seconds);
    limit.end_in(seconds);
    CHECK_NOTHROW(limit.check());
  }
}

}  // namespace tests_of_budget
