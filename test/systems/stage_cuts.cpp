// Cuts into stages, against all cuts and all groups of devices.

#include <unity/systems/unity/stage_cuts.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>

#include "../support/cases.hpp"

namespace tests_of_stage_cuts {

using namespace unity;
using systems::stage_goal;
using systems::stage_piece;

namespace {

// The worth of some stages, which begin before the pieces `first` and run in the given ways: {excess, through + rounds
// * slowest}.
using worth = std::pair<bytes, picoseconds>;
constexpr worth worst{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max()};

struct subject {
  std::vector<std::size_t> nodes{};
  std::vector<std::size_t> sizes{};                // by way
  std::vector<std::vector<stage_piece>> pieces{};  // likewise
  stage_goal goal{};

  [[nodiscard]] worth worth_of(const std::vector<std::size_t>& first, const std::vector<std::size_t>& way) const {
    bytes excess{};
    picoseconds slowest{};
    picoseconds through{};
    std::size_t at = 0;
    for (std::size_t k = 0; k < first.size(); ++k) {
      const auto& own = pieces[way[k]];
      const auto end = k + 1 < first.size() ? first[k + 1] : own.size();
      picoseconds takes{};
      picoseconds handed{};
      if (k > 0) {
        const auto& last = own[first[k] - 1];
        takes = goal.handing ? goal.handing(sizes[way[k - 1]], sizes[way[k]], at, last) : last.sends;
        handed = goal.handing ? takes : picoseconds{};
      }
      at += sizes[way[k]];
      bytes weights{};
      bytes activations{};
      for (auto i = first[k]; i < end; ++i) {
        takes += own[i].takes;
        weights += own[i].weights;
        activations += own[i].activations;
      }
      const auto held = std::min(goal.microbatches, static_cast<std::int64_t>(first.size() - k));
      slowest = std::max({slowest, takes - handed / 2, handed});
      through += takes;
      excess += goal.limit == bytes{} ? bytes{} : std::max(bytes{}, weights + held * activations - goal.limit);
    }
    return {excess, through + goal.rounds * slowest};
  }

  // By device, its node.
  [[nodiscard]] bool lies_well(const std::vector<std::size_t>& way) const {
    std::vector<std::size_t> node_of;
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      node_of.insert(node_of.end(), nodes[n], n);
    }
    std::size_t at = 0;
    for (const auto w : way) {
      const auto end = at + sizes[w];
      if (end > node_of.size()) {
        return false;
      }
      const bool is_within = node_of[at] == node_of[end - 1];
      const bool begins = at == 0 || node_of[at - 1] != node_of[at];
      const bool ends = end == node_of.size() || node_of[end - 1] != node_of[end];
      if (!is_within && !(begins && ends)) {
        return false;
      }
      at = end;
    }
    return at == node_of.size();
  }

  [[nodiscard]] worth best() const {
    worth least = worst;
    std::vector<std::size_t> first{0};
    std::vector<std::size_t> way;
    const std::function<void()> try_ways = [&] {
      if (way.size() == goal.stages) {
        least = lies_well(way) ? std::min(least, worth_of(first, way)) : least;
        return;
      }
      for (std::size_t w = 0; w < sizes.size(); ++w) {
        way.push_back(w);
        try_ways();
        way.pop_back();
      }
    };
    const std::function<void()> try_cuts = [&] {
      if (first.size() == goal.stages) {
        try_ways();
        return;
      }
      for (auto i = first.back() + 1; i < pieces[0].size(); ++i) {
        first.push_back(i);
        try_cuts();
        first.pop_back();
      }
    };
    try_cuts();
    return least;
  }

  void check() const {
    std::vector<systems::stage_way> ways;
    for (std::size_t w = 0; w < sizes.size(); ++w) {
      ways.push_back({sizes[w], pieces[w]});
    }
    const auto found = systems::cut_into_stages(ways, nodes, goal);
    const auto expected = best();
    REQUIRE(found.has_value() == (expected != worst));
    if (!found) {
      return;
    }
    REQUIRE(found->first.size() == goal.stages);
    REQUIRE(found->way.size() == goal.stages);
    CHECK(found->first[0] == 0);
    CHECK(std::adjacent_find(found->first.begin(), found->first.end(), [](auto a, auto b) { return a >= b; }) ==
          found->first.end());
    CHECK(lies_well(found->way));
    CHECK(worth_of(found->first, found->way) == worth{found->excess, found->through + goal.rounds * found->slowest});
    CHECK(found->excess == expected.first);
    if (expected.first == bytes{}) {
      CHECK(worth_of(found->first, found->way) == expected);
    }
  }
};

std::vector<stage_piece> pieces_at_random(std::size_t count, std::uint64_t most, random_engine& random) {
  std::vector<stage_piece> pieces(count);
  for (auto& p : pieces) {
    p.takes = picoseconds{random.between(0, static_cast<std::int64_t>(most) - 1)};
    p.sends = picoseconds{random.between(0, 5)};
    p.weights = bytes{random.between(0, 9)};
    p.activations = bytes{random.between(0, 9)};
  }
  return pieces;
}

stage_goal goal_at_random(std::size_t most_stages, random_engine& random) {
  const auto microbatches = static_cast<std::int64_t>(1 + random.below(6));
  return {1 + random.below(most_stages), microbatches, microbatches - 1,
          bytes{static_cast<std::int64_t>(random.below(3) == 0 ? 0 : 10 + random.below(40))}};
}

}  // namespace

TEST_CASE("cuts into equal stages are as good as exhaustive search", "[law]") {
  for (std::uint64_t seed = 0; seed < unity::test::cases(300); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    subject x;
    x.pieces.push_back(pieces_at_random(1 + random.below(9), 15, random));
    x.goal = goal_at_random(x.pieces[0].size(), random);
    x.sizes = {1 + random.below(3)};
    x.nodes = {x.goal.stages * x.sizes[0]};
    x.check();
  }
}

TEST_CASE("cuts into stages of unequal groups are as good as exhaustive search", "[law]") {
  std::size_t several = 0;
  for (std::uint64_t seed = 0; seed < unity::test::cases(400); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    subject x;
    for (auto nodes = 1 + random.below(3); nodes > 0; --nodes) {
      x.nodes.push_back(1 + random.below(4));
    }
    const auto count = 1 + random.below(6);
    for (auto ways = 1 + random.below(4); ways > 0; --ways) {
      x.sizes.push_back(1 + random.below(5));
      x.pieces.push_back(pieces_at_random(count, 60 / (3 * x.sizes.back()), random));
    }
    x.goal = goal_at_random(std::min<std::size_t>(count, 4), random);
    several += x.best() == worst ? 0 : 1;
    x.check();
  }
  CHECK(several >= unity::test::cases(400) / 10);
}

TEST_CASE("cuts with handover costs by group are as good as exhaustive search", "[law]") {
  std::size_t several = 0;
  for (std::uint64_t seed = 1000; seed < 1000 + unity::test::cases(400); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    subject x;
    for (auto nodes = 1 + random.below(2); nodes > 0; --nodes) {
      x.nodes.push_back(2 + random.below(3));
    }
    const auto count = 2 + random.below(5);
    for (auto ways = 2 + random.below(3); ways > 0; --ways) {
      x.sizes.push_back(1 + random.below(4));
      x.pieces.push_back(pieces_at_random(count, 20, random));
    }
    x.goal = goal_at_random(std::min<std::size_t>(count, 4), random);
    const auto salt = random.below(100);
    x.goal.handing = [salt](std::size_t from, std::size_t to, std::size_t at, const stage_piece& last) {
      return picoseconds{static_cast<std::int64_t>((salt + 7 * from + 13 * to + 3 * at) % 11)} + last.sends;
    };
    several += x.best() == worst ? 0 : 1;
    x.check();
  }
  CHECK(several >= unity::test::cases(400) / 10);
}

TEST_CASE("stage cutting that runs out of time returns a valid cut or none") {
  random_engine random{5};
  const auto pieces = pieces_at_random(40, 100, random);
  const std::vector<systems::stage_way> ways{{1, pieces}};
  const std::vector<std::size_t> nodes{8};
  stage_goal goal{8, 16, 15};
  const auto all = systems::cut_into_stages(ways, nodes, goal);
  REQUIRE(all);
  std::size_t found = 0;
  for (std::size_t reads = 0; reads < 200; reads += 10) {
    std::size_t left = reads;
    goal.is_past_deadline = [&] { return left == 0 || --left == 0; };
    const auto some = systems::cut_into_stages(ways, nodes, goal);
    if (some) {
      ++found;
      CHECK(some->excess == bytes{});
      CHECK(some->through + goal.rounds * some->slowest >= all->through + goal.rounds * all->slowest);
    }
  }
  CHECK(found > 0);
  CHECK(found < 20);
}

TEST_CASE("stage cutting with a memory limit that runs out of time returns a valid cut or none") {
  random_engine random{6};
  subject x;
  x.sizes = {1};
  x.pieces.push_back(pieces_at_random(40, 100, random));
  x.nodes = {8};
  const std::vector<systems::stage_way> ways{{1, x.pieces[0]}};
  for (const auto limit : {bytes{1}, bytes{150}, bytes{10'000}}) {  // nothing fits, some cuts may fit, everything fits
    x.goal = {8, 16, 15, limit};
    const auto all = systems::cut_into_stages(ways, x.nodes, x.goal);
    REQUIRE(all);
    CHECK((limit != bytes{1} || all->excess > bytes{}));
    CHECK((limit != bytes{10'000} || all->excess == bytes{}));
    for (std::size_t reads = 0; reads < 40; ++reads) {
      CAPTURE(limit.count(), reads);
      std::size_t left = reads;
      x.goal.is_past_deadline = [&] { return left == 0 || --left == 0; };
      const auto some = systems::cut_into_stages(ways, x.nodes, x.goal);
      REQUIRE(some.has_value() == (reads > 8));  // the first cut takes a look at the clock for each stage
      if (!some) {
        continue;
      }
      REQUIRE(some->first.size() == 8);
      CHECK(x.lies_well(some->way));
      CHECK(x.worth_of(some->first, some->way) == worth{some->excess, some->through + x.goal.rounds * some->slowest});
      CHECK(some->excess >= all->excess);
      if (some->excess == bytes{}) {
        CHECK(some->through + x.goal.rounds * some->slowest >= all->through + x.goal.rounds * all->slowest);
      }
    }
  }
}

TEST_CASE("a heavy piece gets a stage with more devices") {
  // Pieces take 2, 2, 12 on one device, and a third of that, rounded up, on three.
  const std::vector<stage_piece> one{{picoseconds{2}}, {picoseconds{2}}, {picoseconds{12}}};
  const std::vector<stage_piece> three{{picoseconds{1}}, {picoseconds{1}}, {picoseconds{4}}};
  const std::vector<systems::stage_way> ways{{1, one}, {3, three}};
  const std::vector<std::size_t> nodes{4};
  const auto found = systems::cut_into_stages(ways, nodes, {2, 8, 7});
  REQUIRE(found);
  CHECK(found->way == std::vector<std::size_t>{0, 1});
  CHECK(found->first == std::vector<std::size_t>{0, 2});
  CHECK(found->slowest == picoseconds{4});
  CHECK_FALSE(systems::cut_into_stages(std::span{ways}.last(1), nodes, {2, 8, 7}));
}

TEST_CASE("device groups of stages lie within a node or consist of whole nodes") {
  const std::vector<std::size_t> nodes{4, 4, 2};
  CHECK(systems::is_block(nodes, 0, 4));
  CHECK(systems::is_block(nodes, 1, 3));
  CHECK(systems::is_block(nodes, 0, 8));
  CHECK(systems::is_block(nodes, 4, 6));
  CHECK(systems::is_block(nodes, 0, 10));
  CHECK_FALSE(systems::is_block(nodes, 3, 2));
  CHECK_FALSE(systems::is_block(nodes, 2, 6));
  CHECK_FALSE(systems::is_block(nodes, 4, 5));
  CHECK_FALSE(systems::is_block(nodes, 8, 3));
}

}  // namespace tests_of_stage_cuts
