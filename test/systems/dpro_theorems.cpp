#include <unity/systems/dpro/synchronization.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>

#include "../support/cases.hpp"

namespace tests_of_dpro_theorems {

using namespace unity;
using systems::fusion_pair;

namespace {

// T_n by executing operators and tensors in order, with the given groups.
picoseconds slow_end(picoseconds begin, picoseconds sync_begin, const std::vector<picoseconds>& operators,
                     const std::vector<std::pair<std::size_t, picoseconds>>& tensors) {
  std::vector<picoseconds> ends;
  for (const auto o : operators) {
    begin += o;
    ends.push_back(begin);
  }
  for (const auto& [producer, time] : tensors) {
    sync_begin = std::max(sync_begin, ends[producer]) + time;
  }
  return std::max(begin, sync_begin);
}

fusion_pair random_pair(random_engine& random) {
  const auto between = [&](std::int64_t least, picoseconds most) {
    return picoseconds{random.between(least, most.count())};
  };
  fusion_pair p;
  p.begin = between(0, picoseconds{100});
  p.sync_begin = between(0, picoseconds{200});
  p.first = between(1, picoseconds{60});
  p.second = between(1, picoseconds{60});
  p.fused = between(1, p.first + p.second);
  p.first_sync = between(0, picoseconds{80});
  p.second_sync = between(0, picoseconds{80});
  p.fused_sync = between(0, p.first_sync + p.second_sync + picoseconds{10});
  return p;
}

fusion_pair pair_of(std::int64_t begin, std::int64_t sync_begin, std::int64_t first, std::int64_t second,
                    std::int64_t fused, std::int64_t first_sync, std::int64_t second_sync, std::int64_t fused_sync) {
  return {picoseconds{begin}, picoseconds{sync_begin}, picoseconds{first},       picoseconds{second},
          picoseconds{fused}, picoseconds{first_sync}, picoseconds{second_sync}, picoseconds{fused_sync}};
}

constexpr std::uint64_t seed = 20261124;
constexpr int wanted = static_cast<int>(test::cases(100'000));

}  // namespace

TEST_CASE("predicted end times of fused operators and tensors equal executing them in order", "[systems][law]") {
  random_engine random{seed};
  CAPTURE(seed);
  for (int k = 0; k < wanted; ++k) {
    const auto p = random_pair(random);
    CHECK(p.separate() ==
          slow_end(p.begin, p.sync_begin, {p.first, p.second}, {{0, p.first_sync}, {1, p.second_sync}}));
    CHECK(p.operators_fused() == slow_end(p.begin, p.sync_begin, {p.fused}, {{0, p.first_sync}, {0, p.second_sync}}));
    CHECK(p.tensors_fused() == slow_end(p.begin, p.sync_begin, {p.first, p.second}, {{1, p.fused_sync}}));
    CHECK(p.both_fused() == slow_end(p.begin, p.sync_begin, {p.fused}, {{0, p.fused_sync}}));
  }
}

TEST_CASE("dPRO's Theorem 1 holds under its premises", "[systems][law]") {
  random_engine random{seed};
  CAPTURE(seed);
  int pays = 0;
  for (int seen = 0; seen < wanted;) {
    const auto p = random_pair(random);
    if (!systems::fits_theorem_1(p)) {
      continue;
    }
    ++seen;
    const auto fuse = systems::fusing_operators_pays(p);
    pays += fuse ? 1 : 0;
    REQUIRE(fuse == (p.operators_fused() < p.separate()));
  }
  CHECK(pays > wanted / 20);
  CHECK(pays < wanted - wanted / 20);
}

TEST_CASE("dPRO's Theorem 1 as printed fails without its premises", "[systems]") {
  // The network is busy until long after operator n: fusing saves operator time, but the pair does not end earlier.
  const auto busy = pair_of(0, 100, 10, 10, 12, 5, 5, 10);
  REQUIRE_FALSE(systems::fits_theorem_1(busy));
  CHECK(busy.first_sync < busy.first + busy.second - busy.fused);
  CHECK(busy.operators_fused() == busy.separate());
  // Tensor n - 1 takes longer than operator n: the theorem as printed says not to fuse, but fusing pays.
  const auto hidden = pair_of(0, 0, 10, 10, 9, 40, 5, 45);
  REQUIRE_FALSE(systems::fits_theorem_1(hidden));
  CHECK_FALSE(hidden.first_sync < hidden.first + hidden.second - hidden.fused);
  CHECK(hidden.operators_fused() < hidden.separate());
  random_engine random{1};
  int wrong = 0;
  for (int k = 0; k < wanted; ++k) {
    const auto p = random_pair(random);
    wrong += (p.first_sync < p.first + p.second - p.fused) != (p.operators_fused() < p.separate()) ? 1 : 0;
  }
  CHECK(wrong > wanted / 50);
}

TEST_CASE("dPRO's Theorem 2 holds under its premises", "[systems][law]") {
  random_engine random{seed};
  CAPTURE(seed);
  int pays = 0;
  for (int seen = 0; seen < wanted;) {
    const auto p = random_pair(random);
    if (!systems::fits_theorem_2(p)) {
      continue;
    }
    ++seen;
    if (systems::fusing_tensors_pays(p)) {
      ++pays;
      REQUIRE(p.tensors_fused() <= p.separate());
      REQUIRE((p.tensors_fused() < p.separate() || p.fused_sync == p.first_sync + p.second_sync));
    } else {
      REQUIRE(p.separate() <= p.tensors_fused());
    }
  }
  CHECK(pays > wanted / 20);
  CHECK(pays < wanted - wanted / 20);
}

TEST_CASE("dPRO's Theorem 2 fails without its premises", "[systems]") {
  // One large tensor takes longer than two small ones: the network is busy, and keeping them separate pays.
  const auto p = pair_of(0, 50, 10, 10, 20, 20, 5, 30);
  REQUIRE_FALSE(systems::fits_theorem_2(p));
  CHECK(p.first_sync_end() > p.second_end() + p.fused_sync - p.second_sync);
  CHECK(p.tensors_fused() > p.separate());
}

TEST_CASE("dPRO's Theorem 3 holds under its premises and fails without them", "[systems][law]") {
  random_engine random{seed};
  CAPTURE(seed);
  for (int seen = 0; seen < wanted;) {
    const auto p = random_pair(random);
    if (systems::fits_theorem_3(p)) {
      ++seen;
      REQUIRE(p.both_fused() <= p.tensors_fused());
      REQUIRE(p.both_fused() <= p.operators_fused());
    }
  }
  const auto slower = pair_of(0, 0, 10, 10, 30, 5, 5, 8);  // the fused operator takes longer than both
  REQUIRE_FALSE(systems::fits_theorem_3(slower));
  CHECK(slower.both_fused() > slower.tensors_fused());
}

TEST_CASE("best_partition equals trying all numbers of parts", "[systems][law]") {
  random_engine random{seed};
  CAPTURE(seed);
  for (int k = 0; k < 2000; ++k) {
    const auto latency = random.between(0, 50);
    const auto size = random.between(1, 5000);
    const auto stages = random.between(1, 4);
    const auto most = static_cast<std::uint32_t>(random.between(1, 100));
    const auto time = [&](std::uint32_t parts) {
      return picoseconds{(parts + stages - 1) * (latency + (size + parts - 1) / parts)};
    };
    systems::partition_choice best{1, time(1)};
    for (std::uint32_t parts = 2; parts <= most; ++parts) {
      if (time(parts) < best.time) {
        best = {parts, time(parts)};
      }
    }
    CHECK(systems::best_partition(time, picoseconds{latency}, most) == best);
  }
}

}  // namespace tests_of_dpro_theorems
