// The lower bound on loads, against exhaustive search.

#include <unity/placement/load_bound.hpp>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

#include "../support/cases.hpp"
#include "memory_oracles.hpp"

namespace tests_of_load_bound {

using namespace unity;
using namespace unity::placement;

TEST_CASE("the least-loads bound is below the loads of all plans") {
  const std::uint64_t seed = 31;
  INFO("seed " << seed);
  random_engine random{seed};
  std::size_t above_inputs = 0;
  for (std::size_t i = 0; i < test::cases(400); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(9), random.below(4), random.below(3) == 0);
    const auto least = least_capacity(g).size.count();
    const auto capacity = least + random.between(0, least / 4 + 1);
    const auto bound = least_loads(g, bytes{capacity});
    INFO("graph " << i);
    CHECK(bound.count() <= test::least_of_all_plans(g, capacity));
    CHECK(bound >= input_bytes(g));
    above_inputs += bound > input_bytes(g) ? 1U : 0U;
  }
  CHECK(above_inputs > test::cases(400) / 20);
}

TEST_CASE("the least-loads bound is exact for chains of unit tensors") {
  const std::uint64_t seed = 37;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(200); ++i) {
    memory_graph g;
    std::vector<tensor_id> all;
    for (std::size_t t = 0; t < 3; ++t) {
      all.push_back(g.add_tensor(fmt::format("t{}", t), bytes{1}));
    }
    std::vector<operator_id> chain;
    for (std::size_t o = 0; o < 8; ++o) {
      const auto next = g.add_tensor(fmt::format("t{}", all.size()), bytes{1});
      chain.push_back(g.add_operator(fmt::format("o{}", o), {all[random.below(all.size())], all.back()}, {next}));
      all.push_back(next);
    }
    const auto least = least_capacity(g).size.count();
    for (auto capacity = least; capacity < least + 3; ++capacity) {
      const load_bound bound{g, bytes{capacity}, chain};
      const auto loads = bound.loads_after(operator_set(g.operator_count()), tensor_set(g.tensor_count()));
      CHECK(loads.count() == test::least_of_all_plans(g, capacity));
      CHECK(loads == least_loads(g, bytes{capacity}));
    }
  }
}

TEST_CASE("the load bound is below the remaining loads at each step of a plan") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  random_engine random{seed};
  for (std::size_t i = 0; i < test::cases(300); ++i) {
    const auto g = test::random_memory_graph(random, 2 + random.below(20), random.below(5), random.below(2) == 0);
    const auto least = least_capacity(g).size;
    const auto capacity = least + bytes{random.between(0, least.count())};
    const load_bound bound{g, capacity, longest_chain(g)};
    operator_set done(g.operator_count());
    tensor_set cached(g.tensor_count());
    std::vector<bytes> expected{bound.loads_after(done, cached)};
    std::vector<bytes> loaded;
    while (!done.all()) {  // a random runnable operator; keeps a random part of the rest that fits
      std::vector<operator_id> ready;
      for (std::size_t o = 0; o < g.operator_count(); ++o) {
        bool is_ready = !done[o];
        for (const auto p : g.predecessors(operator_id{o})) {
          is_ready = is_ready && done[p.index()];
        }
        if (is_ready) {
          ready.emplace_back(o);
        }
      }
      const auto o = ready[random.below(ready.size())];
      const auto touched = g.touched(o);
      bytes now;
      for (const auto t : g.operation(o).reads) {
        now += cached[t.index()] ? bytes{} : g.tensor(t).size;
      }
      auto held = touched;
      for (std::size_t t = 0; t < g.tensor_count(); ++t) {
        if (cached[t] && random.below(5) > 0 && g.size_of(tensor_set{held}.set(t)) <= capacity) {
          held.set(t);
        }
      }
      loaded.push_back(now);
      done.set(o.index());
      cached = held;
      expected.push_back(bound.loads_after(done, cached));
    }
    bytes left;
    for (auto s = loaded.size(); s-- > 0;) {
      left += loaded[s];
      CHECK(expected[s] <= left);
    }
    CHECK(expected.back() == bytes{});
  }
}

// The room shrinks with each operator, so that each evicts a byte of `early`, and the operand `late` of the one before,
// which is needed near the end. A bound that is quadratic in the operators takes a hundred times as long.
TEST_CASE("the load bound is quick where the room for other tensors shrinks") {
  constexpr std::int64_t operators = 4000;
  memory_graph g;
  auto last = g.add_tensor("x", bytes{1});
  const auto early = g.add_tensor("early", bytes{operators});
  std::vector<tensor_id> late;
  g.add_operator("first", {early}, {last});
  const auto then = [&](std::vector<tensor_id> reads) {
    reads.push_back(last);
    last = g.add_tensor("x", bytes{1});
    g.add_operator("o", std::move(reads), {last});
  };
  for (std::int64_t o = 0; o < operators; ++o) {
    late.push_back(g.add_tensor("late", bytes{3}));
    then({late.back(), g.add_tensor("once", bytes{o})});
  }
  then({early});
  for (; !late.empty(); late.pop_back()) {
    then({late.back()});
  }
  const load_bound bound{g, least_capacity(g).size, longest_chain(g)};
  const auto start = std::clock();  // of this process: other programs may have the cores
  for (int i = 0; i < 200; ++i) {
    // `early` and `late` are loaded twice, but for two bytes that fit beside `early`.
    CHECK(bound.loads_after(operator_set(g.operator_count()), tensor_set(g.tensor_count())) ==
          input_bytes(g) + bytes{4 * operators - 2});
  }
  CHECK((std::clock() - start) / CLOCKS_PER_SEC < 5);
}

TEST_CASE("the longest chain through an operator contains it and follows dependencies and is the longest") {
  random_engine random{43};
  for (std::size_t i = 0; i < test::cases(100); ++i) {
    const auto g = test::random_memory_graph(random, 1 + random.below(20), 2);
    // The lengths of the longest chains that end at and begin at each operator.
    std::vector<std::size_t> until(g.operator_count(), 1);
    std::vector<std::size_t> from(g.operator_count(), 1);
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      for (const auto p : g.predecessors(operator_id{o})) {
        until[o] = std::max(until[o], until[p.index()] + 1);
      }
    }
    for (auto o = g.operator_count(); o-- > 0;) {
      for (const auto p : g.predecessors(operator_id{o})) {
        from[p.index()] = std::max(from[p.index()], from[o] + 1);
      }
    }
    const auto longest = longest_chain(g);
    CHECK(longest.size() == *std::max_element(until.begin(), until.end()));
    for (std::size_t o = 0; o < g.operator_count(); ++o) {
      const auto chain = longest_chain(g, operator_id{o});
      CHECK(chain.size() == until[o] + from[o] - 1);
      bool has_it = false;
      for (std::size_t k = 0; k < chain.size(); ++k) {
        has_it = has_it || chain[k] == operator_id{o};
        const auto before = g.predecessors(chain[k]);
        CHECK((k == 0 || std::find(before.begin(), before.end(), chain[k - 1]) != before.end()));
      }
      CHECK(has_it);
    }
  }
  CHECK(longest_chain(memory_graph{}).empty());
}

}  // namespace tests_of_load_bound
