// Divisions of devices among branches, against exhaustive search.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/systems/unity/branch_divisions.hpp>

#include "../support/cases.hpp"

namespace tests_of_branch_divisions {

namespace {

using namespace unity;
using systems::device_range;
using cost_table = std::vector<std::map<device_range, std::int64_t>>;  // by branch

cost_table random_costs(random_engine& random, std::size_t branches, std::uint32_t devices) {
  cost_table costs(branches);
  for (auto& c : costs) {
    const auto work = static_cast<std::int64_t>(1 + random.below(1000));
    for (std::uint32_t first = 0; first < devices; ++first) {
      for (std::uint32_t count = 1; first + count <= devices; ++count) {
        c[{first, count}] = work / count + static_cast<std::int64_t>(random.below(100));
      }
    }
  }
  return costs;
}

bool are_apart(device_range a, device_range b) {
  return a == b || a.first + a.count <= b.first || b.first + b.count <= a.first;
}

// The least time over all assignments of ranges to branches; two ranges are equal or disjoint.
std::int64_t slow_least(const cost_table& costs, std::uint32_t devices, std::vector<device_range>& chosen) {
  if (chosen.size() == costs.size()) {
    std::map<device_range, std::int64_t> load;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      load[chosen[i]] += costs[i].at(chosen[i]);
    }
    const bool is_undivided = load.begin()->first.count == devices;
    std::int64_t longest = is_undivided ? std::numeric_limits<std::int64_t>::max() : 0;
    for (const auto& [range, sum] : load) {
      longest = std::max(longest, sum);
    }
    return longest;
  }
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [range, cost] : costs[chosen.size()]) {
    if (std::all_of(chosen.begin(), chosen.end(), [&](device_range r) { return are_apart(r, range); })) {
      chosen.push_back(range);
      least = std::min(least, slow_least(costs, devices, chosen));
      chosen.pop_back();
    }
  }
  return least;
}

// Checks that each branch occurs once, on disjoint blocks; returns the time of the slowest block.
std::int64_t checked_time(const systems::branch_division& d, const cost_table& costs) {
  std::vector<bool> seen(costs.size());
  std::int64_t longest = 0;
  for (std::size_t a = 0; a < d.size(); ++a) {
    std::int64_t sum = 0;
    for (const auto b : d[a].branches) {
      REQUIRE_FALSE(seen[b]);
      seen[b] = true;
      sum += costs[b].at(d[a].block);
    }
    longest = std::max(longest, sum);
    for (std::size_t b = 0; b < a; ++b) {
      REQUIRE(d[a].block != d[b].block);
      REQUIRE(are_apart(d[a].block, d[b].block));
    }
  }
  REQUIRE(std::count(seen.begin(), seen.end(), false) == 0);
  return longest;
}

}  // namespace

TEST_CASE("the best division of devices among branches equals exhaustive search") {
  const std::uint64_t seed = 28;
  INFO("seed " << seed);
  random_engine random{seed};
  std::set<std::uint32_t> sizes;  // sizes of the best blocks
  for (std::uint64_t i = 0; i < unity::test::cases(60); ++i) {
    const auto devices = static_cast<std::uint32_t>(2 + random.below(4));
    const auto costs = random_costs(random, 2 + random.below(3), devices);
    CAPTURE(i, devices, costs.size());
    const auto all = systems::branch_divisions(
        costs.size(), {0, devices}, [](device_range, std::uint32_t) { return true; },
        [&](std::size_t b, device_range on) { return costs[b].at(on); });
    REQUIRE_FALSE(all.empty());
    for (const auto& [time, division] : all) {
      CHECK(checked_time(division, costs) == time);
    }
    std::vector<device_range> chosen;
    CHECK(all.front().first == slow_least(costs, devices, chosen));
    CHECK(std::is_sorted(all.begin(), all.end()));
    for (const auto& part : all.front().second) {
      sizes.insert(part.block.count);
    }
  }
  CHECK(sizes.size() >= 3);
}

TEST_CASE("branch divisions cut only where allowed and nearly balance eight branches") {
  const auto even = [](device_range, std::uint32_t cut) { return cut % 2 == 0; };
  const auto all = systems::branch_divisions(8, {0, 8}, even, [](std::size_t b, device_range on) {
    return static_cast<std::int64_t>((b + 1) * 840 / on.count);
  });
  REQUIRE_FALSE(all.empty());
  for (const auto& [time, division] : all) {
    for (const auto& part : division) {
      CHECK((part.block.first % 2 == 0 && part.block.count % 2 == 0));
    }
  }
  CHECK(all.front().first >= 36 * 840 / 8);
  CHECK(all.front().first <= 36 * 840 / 8 + 840);
  CHECK(systems::branch_divisions(
            2, {0, 4}, [](device_range, std::uint32_t) { return false; },
            [](std::size_t, device_range) { return std::int64_t{1}; })
            .empty());
}

}  // namespace tests_of_branch_divisions
