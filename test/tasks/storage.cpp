#include <unity/tasks/storage.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/random.hpp>
#include <unity/core/units.hpp>

#include "../support/cases.hpp"
#include "scanned_storage.hpp"

namespace tests_of_storage {

namespace {

using unity::bytes;
using unity::random_engine;
using unity::tasks::alive_together;
using unity::tasks::least_storage;
using unity::tasks::plan_storage;
using unity::tasks::storage_plan;
using unity::tasks::stored_value;

std::vector<stored_value> random_values(random_engine& random, std::size_t count, std::int64_t steps,
                                        std::int64_t largest) {
  std::vector<stored_value> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = random.between(0, steps - 1);
    const auto last = random.between(first, std::min(first + random.between(0, steps / 2), steps - 1));
    values.push_back(
        {bytes{random.between(0, largest)}, static_cast<std::size_t>(first), static_cast<std::size_t>(last)});
  }
  return values;
}

// Marks every byte of every value at every step; false if one is marked already.
bool paints_without_overlap(std::span<const stored_value> values, const storage_plan& plan) {
  std::size_t steps = 0;
  for (const auto& v : values) {
    steps = std::max(steps, v.last + 1);
  }
  const auto peak = static_cast<std::size_t>(plan.peak.count());
  std::vector<bool> taken(steps * peak);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto offset = static_cast<std::size_t>(plan.offsets[i].count());
    const auto size = static_cast<std::size_t>(values[i].size.count());
    for (auto s = values[i].first; s <= values[i].last; ++s) {
      for (auto b = offset; b < offset + size; ++b) {
        if (b >= peak || taken[s * peak + b]) {
          return false;
        }
        taken[s * peak + b] = true;
      }
    }
  }
  return true;
}

// Places each value at the lowest free offset, in all orders. One of them is the order of offsets in an optimal plan,
// whose peak this placement does not exceed.
std::int64_t optimal_peak(std::span<const stored_value> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto best = std::numeric_limits<std::int64_t>::max();
  do {
    std::vector<std::int64_t> offsets(values.size(), 0);
    std::int64_t peak = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto i = order[k];
      const auto size = values[i].size.count();
      const auto is_free = [&](std::int64_t at) {
        return std::none_of(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), [&](std::size_t j) {
          return alive_together(values[i], values[j]) && at < offsets[j] + values[j].size.count() &&
                 offsets[j] < at + size;
        });
      };
      while (!is_free(offsets[i])) {
        ++offsets[i];
      }
      peak = std::max(peak, offsets[i] + size);
    }
    best = std::min(best, peak);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::int64_t largest_sum_alive(std::span<const stored_value> values) {
  std::int64_t most = 0;
  for (std::size_t step = 0; step < 64; ++step) {
    std::int64_t sum = 0;
    for (const auto& v : values) {
      sum += v.first <= step && step <= v.last ? v.size.count() : 0;
    }
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

TEST_CASE("plan_storage aligns values and never overlaps those alive at the same step", "[storage]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto values = random_values(random, random.below(60), 20, 90);
    const bytes alignment{random.between(1, 16)};
    const auto plan = plan_storage(values, alignment);
    REQUIRE(plan.offsets.size() == values.size());
    CHECK(paints_without_overlap(values, plan));
    CHECK(plan.peak.count() % alignment.count() == 0);
    CHECK(plan.peak >= least_storage(values, alignment));
    for (const auto offset : plan.offsets) {
      CHECK(offset.count() % alignment.count() == 0);
    }
  }
}

TEST_CASE("least_storage is the largest sum of values alive at a step", "[storage]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    auto values = random_values(random, random.below(40), 30, 50);
    CHECK(least_storage(values, bytes{1}).count() == largest_sum_alive(values));
    for (auto& v : values) {
      v.size = bytes{(v.size.count() + 7) / 8 * 8};
    }
    CHECK(least_storage(values, bytes{8}).count() == largest_sum_alive(values));
  }
}

TEST_CASE("plan_storage of tiny problems is within 25 percent of the optimum", "[storage]") {
  std::int64_t planned = 0;
  std::int64_t optimal = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto values = random_values(random, 1 + random.below(6), 6, 12);
    const auto found = plan_storage(values, bytes{1}).peak.count();
    const auto best = optimal_peak(values);
    CHECK(found >= best);
    CHECK(static_cast<double>(found) <= 1.25 * static_cast<double>(best));
    CHECK(best >= least_storage(values, bytes{1}).count());
    planned += found;
    optimal += best;
  }
  CHECK(static_cast<double>(planned) <= 1.005 * static_cast<double>(optimal));
}

TEST_CASE("plan_storage of large random problems is within 10 percent of the lower bound", "[storage]") {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    random_engine random{seed};
    const auto values = random_values(random, 400, 60, 4000);
    const auto peak = plan_storage(values, bytes{64}).peak.count();
    worst = std::max(worst, static_cast<double>(peak) / static_cast<double>(least_storage(values, bytes{64}).count()));
  }
  CAPTURE(worst);
  CHECK(worst < 1.1);
}

TEST_CASE("plan_storage of a chain of equal values needs the memory of two", "[storage]") {
  std::vector<stored_value> values;
  for (std::size_t i = 0; i < 50; ++i) {
    values.push_back({bytes{100}, i, i + 1});
  }
  CHECK(plan_storage(values, bytes{4}).peak == bytes{200});
  CHECK(plan_storage(values, bytes{64}).peak == bytes{256});
}

TEST_CASE("plan_storage places values as a search through all of them does", "[storage][law]") {
  const auto cases = unity::test::cases(400);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto steps = random.between(1, 200);
    const auto count = random.below(150);
    const auto largest = random.between(0, 3) == 0 ? 3 : 5000;
    auto values = random_values(random, count, steps, largest);
    if (random.between(0, 1) == 0) {  // mostly short lifetimes
      for (auto& v : values) {
        v.last = std::min(v.last, v.first + random.below(4));
      }
    }
    const bytes alignment{random.between(0, 1) == 0 ? 1 : 64};
    CHECK(plan_storage(values, alignment) == unity::tasks::test::plan_by_scanning(values, alignment));
  }
}

TEST_CASE("among many values with short lifetimes a gap is found without a search through all", "[storage]") {
  random_engine random{1};
  std::vector<stored_value> values;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < 20'000; ++i) {
    values.push_back({bytes{random.between(1, 5000)}, i, i + 1 + random.below(30)});
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return values[a].size != values[b].size ? values[a].size > values[b].size : a < b;
  });
  const unity::stopwatch all;
  const auto slow = unity::tasks::test::scanning_fit{values, bytes{64}}.run(order);
  const auto scanned = all.seconds();
  const unity::stopwatch few;
  unity::tasks::detail::best_fit fit{values, bytes{64}};
  CHECK(fit.run(order) == slow);
  CHECK(few.seconds() < scanned / 3);
}

TEST_CASE("plan_storage of no values or of empty values needs no memory", "[storage]") {
  CHECK(plan_storage({}, bytes{64}) == storage_plan{});
  const std::vector<stored_value> empty(3, {bytes{0}, 1, 5});
  CHECK(plan_storage(empty, bytes{64}).peak == bytes{0});
  CHECK(plan_storage(empty, bytes{64}).offsets == std::vector<bytes>(3));
}

}  // namespace tests_of_storage
