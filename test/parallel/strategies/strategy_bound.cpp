#include <unity/parallel/strategies/strategy_bound.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy_tables.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../../support/operators.hpp"
#include "../divided_at_random.hpp"

namespace tests_of_strategy_bound {

using namespace unity;
using unity::test::training::operators;

namespace {

struct subject {
  tensor::tensor_graph graph;
  hardware::machine machine;
  parallel::lowering lower;
  parallel::strategy_choices choices;
  parallel::strategy_tables tables;

  subject(tensor::tensor_graph g, std::string_view on, parallel::block_strides strides)
      : graph{std::move(g)},
        machine{hardware::preset(on)},
        lower{operators(), graph, machine},
        choices{parallel::choices_of(
            graph, parallel::placements{lower.dimensions(), machine.network.device_count(), strides})},
        tables{lower, choices, machine.network.device_count()} {}
  // Four random configurations per operator.
  subject(tensor::tensor_graph g, std::string_view on, random_engine& random)
      : graph{std::move(g)},
        machine{hardware::preset(on)},
        lower{operators(), graph, machine},
        choices{drawn(graph, lower.dimensions(), machine.network.device_count(), random)},
        tables{lower, choices, machine.network.device_count()} {}
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  [[nodiscard]] static parallel::strategy_choices drawn(const tensor::tensor_graph& g,
                                                        const parallel::graph_dimensions& all, std::size_t devices,
                                                        random_engine& random) {
    parallel::strategy_choices c;
    for (const auto n : node_ids(g)) {
      if (!g.operands(n).empty()) {
        c.operators.push_back(n);
        c.configurations.emplace_back();
      }
    }
    for (int i = 0; i < 4; ++i) {
      const auto s = parallel::test::divided_at_random(g, all, devices, random);
      for (std::size_t k = 0; k < c.size(); ++k) {
        c.configurations[k].push_back(s[c.operators[k].index()]);
      }
    }
    return c;
  }
  [[nodiscard]] std::vector<std::uint32_t> draw(random_engine& random) const {
    std::vector<std::uint32_t> made;
    for (const auto& c : choices.configurations) {
      made.push_back(static_cast<std::uint32_t>(random.below(c.size())));
    }
    return made;
  }
  [[nodiscard]] std::int64_t simulated(const std::vector<std::uint32_t>& made) {
    parallel::strategy s(graph.node_count());
    for (std::size_t i = 0; i < made.size(); ++i) {
      s[choices.operators[i].index()] = choices.configurations[i][made[i]];
    }
    simulate::full_simulation full;
    return full.run(lower.run(s)).count();
  }
};

// Two branches from one product, one twice as long as the other, that join again; the last product shares its weight
// with the first.
tensor::tensor_graph branches() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {16, 64});
  const auto w = b.weight("w", {64, 64});
  const auto first = b.matmul(x, w);
  const auto left = b.relu(b.matmul(first, b.weight("left", {64, 64})));
  const auto right = b.tanh(first);
  return std::move(b).finish({b.matmul(b.add(left, right), w), b.sigmoid(right)});
}

// The mean ratio of the bounds of whole strategies to their times.
double check_bounds(subject& x, std::uint64_t seed) {
  INFO("seed " << seed);
  random_engine random{seed};
  parallel::strategy_bound bound{x.tables};
  constexpr auto count = unity::test::cases(60);
  double sum = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    auto made = x.draw(random);
    const auto at = random.below(made.size());
    for (int k = 0; k < 3; ++k) {  // completions of one prefix
      const auto other = x.draw(random);
      std::copy(other.begin() + static_cast<std::ptrdiff_t>(at), other.end(),
                made.begin() + static_cast<std::ptrdiff_t>(at));
      const auto time = x.simulated(made);
      std::int64_t whole = 0;
      for (std::size_t d = 0; d < made.size(); ++d) {
        whole = bound.push(made[d]).count();
        INFO("strategy " << i << ", " << d + 1 << " operators decided");
        REQUIRE(whole <= time);
      }
      while (bound.decided() > 0) {
        bound.pop();
      }
      sum += k == 0 ? static_cast<double>(whole) / static_cast<double>(time) : 0;
    }
  }
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("strategy_bound of a prefix is at most the time of its completions") {
  unity::test::one_of_some is_tried;
  for (const auto* on : {"p100:1x4", "k80:1x4", "p100:2x2", "summit:1x6", "t4:1x8"}) {
    for (const auto* model :
         {"zoo:lenet?batch=48", "zoo:rnnlm?seq=2&batch=24&hidden=48&vocab=96", "zoo:mlp?batch=24&hidden=48"}) {
      if (!is_tried()) {
        continue;
      }
      DYNAMIC_SECTION(model << " on " << on) {
        subject x{tensor::zoo::build(operators(), model), on, parallel::block_strides::one};
        REQUIRE(check_bounds(x, 71) > 0.3);
      }
    }
    DYNAMIC_SECTION("branches on " << on) {
      subject x{branches(), on, parallel::block_strides::all};
      REQUIRE(check_bounds(x, 72) > 0.3);
    }
  }
}

TEST_CASE("strategy_bound on one device equals the simulated time") {
  for (const auto* model : {"zoo:lenet", "zoo:rnnlm?seq=2"}) {
    subject x{tensor::zoo::build(operators(), model), "p100:1x1", parallel::block_strides::one};
    parallel::strategy_bound bound{x.tables};
    picoseconds last{};
    for (std::size_t i = 0; i < x.choices.size(); ++i) {
      last = bound.push(0);
      REQUIRE(last ==
              picoseconds{x.simulated(std::vector<std::uint32_t>(x.choices.size(), 0))});  // the sum of all work
    }
  }
}

TEST_CASE("strategy_bound averages over 95 percent of the time for lenet and over 65 for rnnlm") {
  const std::uint64_t seed = 73;
  INFO("seed " << seed);
  subject lenet{tensor::zoo::build(operators(), "zoo:lenet?batch=256"), "p100:1x4", parallel::block_strides::one};
  REQUIRE(check_bounds(lenet, seed) > 0.95);
  subject rnnlm{tensor::zoo::build(operators(), "zoo:rnnlm?seq=2&batch=256"), "p100:1x4", parallel::block_strides::one};
  REQUIRE(check_bounds(rnnlm, seed) > 0.65);
}

TEST_CASE("strategy_bound does not depend on choices that were taken back") {
  const std::uint64_t seed = 74;
  INFO("seed " << seed);
  random_engine random{seed};
  for (const auto* model : {"zoo:lenet", "zoo:rnnlm?seq=2"}) {
    subject x{tensor::zoo::build(operators(), model), "p100:1x4", parallel::block_strides::one};
    parallel::strategy_bound walked{x.tables};
    for (int step = 0; step < static_cast<int>(unity::test::cases(400)); ++step) {
      const auto d = walked.decided();
      if (d == x.choices.size() || (d > 0 && random.below(3) == 0)) {
        walked.pop();
        continue;
      }
      const auto now = walked.push(static_cast<std::uint32_t>(random.below(x.choices.configurations[d].size())));
      parallel::strategy_bound fresh{x.tables};
      picoseconds again{};
      for (const auto c : walked.choices()) {
        again = fresh.push(c);
      }
      REQUIRE(now == again);
    }
  }
}

TEST_CASE("strategy_bound is a lower bound with partial sums and replicas and divided reductions") {
  for (const std::uint64_t seed : {5U, 6U, 7U}) {
    INFO("seed " << seed);
    random_engine random{seed};
    subject x{branches(), "p100:1x4", random};
    CHECK(check_bounds(x, seed) > 0.5);
  }
}

}  // namespace tests_of_strategy_bound
