#include <unity/parallel/mesh/mesh_tables.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>

namespace tests_of_mesh_tables {

using unity::parallel::memory_trades;
using unity::parallel::price_of_memory;
using unity::parallel::unreachable;

TEST_CASE("price_of_memory equals 128-bit arithmetic below its saturation", "[law]") {
  const std::uint64_t seed = 21;
  INFO("seed " << seed);
  unity::random_engine random{seed};
  std::size_t large = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto size = random.between(0, std::int64_t{1} << random.between(1, 62));
    const auto price = random.between(0, std::int64_t{1} << random.between(1, 40));
    CAPTURE(size, price);
    __extension__ using wide = __int128;
    const auto exact = static_cast<wide>(size / 1024) * price / 1024;
    const auto found = price_of_memory(unity::bytes{size}, price);
    REQUIRE(found <= unreachable);
    if (found != unreachable) {
      REQUIRE(static_cast<wide>(found) == exact);
    } else {
      REQUIRE(exact >= unreachable / 2);
      ++large;
    }
  }
  CHECK(large > 100);
  // 640 GB at the highest price of memory.
  CHECK(price_of_memory(unity::bytes{640'000'000'000}, std::int64_t{1} << 34U) == 10'485'760'000'000'000);
}

namespace {

// A random option of a weight with four replicas, in units that keep the price's summands distinguishable.
unity::parallel::mesh_option any_option(unity::random_engine& random) {
  const auto draw = [&](std::int64_t most) { return random.between(0, most); };
  unity::parallel::mesh_option o;
  o.forward = unity::picoseconds{draw(1'000'000)};
  o.updating = unity::picoseconds{draw(100'000)};
  o.share_updating = unity::picoseconds{o.updating.count() / 4};
  o.computing = o.forward + o.forward + o.forward + o.updating;
  o.synchronizing = unity::picoseconds{draw(1'000'000)};
  o.starting = unity::picoseconds{o.synchronizing.count() / 3};
  const auto weight = draw(1 << 22);
  const auto state = random.between(0, 2) * weight;
  o.weights = unity::bytes{2 * weight + state};
  o.weight_copies = unity::bytes{weight - weight / 4};
  o.state_copies = unity::bytes{state - state / 4};
  o.activations = unity::bytes{draw(1 << 22)};
  o.can_recompute = random.between(0, 3) > 0;
  return o;
}

}  // namespace

TEST_CASE("trade_of finds the cheapest of the allowed memory trades", "[law]") {
  const std::uint64_t seed = 22;
  INFO("seed " << seed);
  unity::random_engine random{seed};
  std::size_t recomputed = 0;
  std::array<std::size_t, 4> stages{};
  for (int i = 0; i < 2'000; ++i) {
    const auto o = any_option(random);
    unity::parallel::mapping_objective objective{static_cast<int>(random.between(0, 16)),
                                                 std::int64_t{1} << random.between(0, 24), random.between(1, 4)};
    objective.trades = random.between(0, 1) == 0 ? memory_trades::recomputing : memory_trades::sharding;
    const auto price = [&](const unity::parallel::memory_trade& t) {
      const auto c = costs_of(o, t, objective);
      return (c.computing + c.synchronizing).count() +
             price_of_memory(c.weights + objective.in_flight * c.activations, objective.per_mebibyte);
    };
    const auto found = trade_of(o, objective);
    REQUIRE(price_of(o, objective) == price(found));
    for (const bool again : {false, true}) {
      for (std::uint32_t stage = 0; stage <= (objective.trades == memory_trades::sharding ? 3 : 1); ++stage) {
        if (!again || o.can_recompute) {
          REQUIRE(price(found) <= price({again, stage}));
        }
      }
    }
    REQUIRE((o.can_recompute || !found.is_recomputed));
    REQUIRE((objective.trades == memory_trades::sharding || found.sharding <= 1));
    recomputed += found.is_recomputed ? 1 : 0;
    ++stages[found.sharding];
    objective.trades = memory_trades::none;
    REQUIRE(price_of(o, objective) >= price(found));
    REQUIRE(price_of(o, objective) == price({}));
  }
  CHECK(recomputed > 100);
  CHECK(*std::min_element(stages.begin(), stages.end()) > 50);
}

TEST_CASE("costs_of a memory trade: recomputation adds forward time; sharding divides memory") {
  unity::parallel::mesh_option o;
  o.forward = unity::picoseconds{10};
  o.updating = unity::picoseconds{8};
  o.share_updating = unity::picoseconds{2};
  o.computing = unity::picoseconds{38};
  o.synchronizing = unity::picoseconds{16};
  o.weights = unity::bytes{400};  // weight, gradient and two states of 100 each; four replicas
  o.weight_copies = unity::bytes{75};
  o.state_copies = unity::bytes{150};
  o.activations = unity::bytes{30};
  const auto costs = [](std::int64_t computing, std::int64_t synchronizing, std::int64_t weights, std::int64_t kept) {
    return unity::parallel::traded_costs{unity::picoseconds{computing}, unity::picoseconds{synchronizing},
                                         unity::bytes{weights}, unity::bytes{kept}};
  };
  CHECK(costs_of(o, {false, 0}, {}) == costs(38, 16, 400, 30));
  CHECK(costs_of(o, {true, 0}, {}) == costs(48, 16, 400, 0));
  CHECK(costs_of(o, {false, 1}, {}) == costs(32, 16, 250, 30));
  CHECK(costs_of(o, {false, 2}, {}) == costs(32, 16, 175, 30));
  CHECK(costs_of(o, {true, 3}, {}) == costs(42, 24, 100, 0));
  unity::parallel::mapping_objective once{4};  // four micro-batches
  CHECK(costs_of(o, {false, 1}, once) == costs(32, 4, 250, 30));
  CHECK(costs_of(o, {false, 2}, once) == costs(32, 10, 175, 30));
  CHECK(costs_of(o, {false, 3}, once) == costs(32, 24, 100, 30));
}

}  // namespace tests_of_mesh_tables
