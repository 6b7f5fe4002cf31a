#include <unity/cost/duration.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include <unity/core/random.hpp>

namespace tests_of_kernel_timer {

namespace archetype {

struct algebra {
  struct op_type {
    op_type() = delete;
  };
  struct value_type {
    value_type() = delete;
  };
};
using types = std::span<const algebra::value_type>;

struct kernel_timer {
  kernel_timer() = delete;
  kernel_timer(const kernel_timer&) = delete;
  unity::measurement time(const algebra::op_type&, types, types);
  std::string description() const;
};

}  // namespace archetype

static_assert(unity::kernel_timer<archetype::kernel_timer, archetype::algebra>);

namespace near_miss {

using namespace archetype;

struct seconds_alone : archetype::kernel_timer {
  double time(const algebra::op_type&, types, types);
};
struct nameless {
  unity::measurement time(const algebra::op_type&, types, types);
};

}  // namespace near_miss

static_assert(!unity::kernel_timer<near_miss::seconds_alone, archetype::algebra>);
static_assert(!unity::kernel_timer<near_miss::nameless, archetype::algebra>);

namespace {

using namespace unity;

TEST_CASE("a run summary has the median and the interval of the middle four fifths") {
  const auto one = summarize({3e-6});
  const picoseconds us{1'000'000};
  CHECK(one == measurement{3 * us, 3 * us, 3 * us, 1});
  const auto even = summarize({4e-6, 1e-6, 2e-6, 3e-6});
  CHECK(even == measurement{picoseconds{2'500'000}, picoseconds{1'300'000}, picoseconds{3'700'000}, 4});
  const auto odd = summarize({11e-6, 1e-6, 2e-6, 100e-6, 3e-6, 4e-6, 5e-6, 6e-6, 7e-6, 8e-6, 9e-6});
  CHECK(odd == measurement{6 * us, 2 * us, 11 * us, 11});
}

TEST_CASE("a run summary has a positive median that one outlier does not move") {
  CHECK(summarize({0, 0, 0}) == measurement{picoseconds{1}, picoseconds{1}, picoseconds{1}, 3});
  const auto disturbed = summarize({2e-6, 2e-6, 2e-6, 2e-6, 1.0});
  CHECK(disturbed.median == picoseconds{2'000'000});
  CHECK(disturbed.low == disturbed.median);
  CHECK(disturbed.high > disturbed.median);
}

TEST_CASE("a run summary does not depend on the order of runs") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  CAPTURE(seed);
  random_engine random{seed};
  std::vector<double> runs;
  for (auto n = random.between(1, 60); n > 0; --n) {
    runs.push_back(static_cast<double>(random.between(1, 1000)) * 1e-6);
  }
  const auto m = summarize(runs);
  auto sorted = runs;
  std::sort(sorted.begin(), sorted.end());
  CHECK(m.median >= from_seconds(sorted.front()));
  CHECK(m.median <= from_seconds(sorted.back()));
  CHECK(from_seconds(sorted.front()) <= m.low);
  CHECK(m.low <= m.median);
  CHECK(m.median <= m.high);
  CHECK(m.high <= from_seconds(sorted.back()));
  const auto outside = std::count_if(runs.begin(), runs.end(), [&](double s) {
    return from_seconds(s) < m.low || from_seconds(s) > m.high;
  });
  CHECK(5 * outside <= std::ssize(runs) + 8);  // at most one of each end's tenth more
  const auto below = std::count_if(runs.begin(), runs.end(), [&](double s) { return from_seconds(s) <= m.median; });
  const auto above = std::count_if(runs.begin(), runs.end(), [&](double s) { return from_seconds(s) >= m.median; });
  CHECK(2 * below >= std::ssize(runs));
  CHECK(2 * above >= std::ssize(runs));
  std::reverse(runs.begin(), runs.end());
  CHECK(summarize(runs) == m);
}

}  // namespace

}  // namespace tests_of_kernel_timer
