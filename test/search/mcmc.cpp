#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/child.hpp"
#include "../support/circuits.hpp"
#include "../support/explicit_space.hpp"
#include "../support/recording_space.hpp"
#include "../support/space_laws.hpp"
#include "circuit_space.hpp"

namespace tests_of_mcmc {

using namespace unity;
using namespace unity::test;

namespace {

// Counts how often each state is the current one: mcmc prepares the current state once per proposal.
struct visited_space : explicit_space {
  std::vector<std::uint64_t> visits;
  explicit visited_space(explicit_space s) : explicit_space{std::move(s)}, visits(costs.size()) {}
  void prepare(state_type s, scratch_type&) const { ++const_cast<visited_space*>(this)->visits[s]; }
};

}  // namespace

TEST_CASE("mcmc visits states with Boltzmann frequencies despite unequal numbers of moves", "[law]") {
  // A reversible graph with one move between neighbours, and very different degrees.
  const std::vector<std::vector<std::uint32_t>> edges{{1, 2, 3, 4}, {0}, {0, 3}, {0, 2, 4}, {0, 3, 5}, {4}};
  const std::vector<cost_value> costs{100, 110, 95, 130, 105, 90};
  const double beta = GENERATE(0.0, 3.0, 8.0);
  visited_space space{explicit_space{costs, edges}};
  mcmc_options o;
  o.beta = beta;
  o.proposals = 400000;
  o.seed = 5;
  CAPTURE(beta, o.seed);
  const auto r = mcmc(space, o);
  CHECK(r.stopped == stop_reason::converged);
  CHECK(r.cost == 90);
  double sum = 0;
  for (const auto c : costs) {
    sum += std::exp(-beta * static_cast<double>(c) / 100);
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    CAPTURE(i);
    const auto expected = std::exp(-beta * static_cast<double>(costs[i]) / 100) / sum;
    const auto seen = static_cast<double>(space.visits[i]) / static_cast<double>(o.proposals);
    CHECK(std::abs(seen - expected) < 0.01);
  }
}

TEST_CASE("mcmc stays at its state on a move that does not apply") {
  const std::vector<std::vector<std::uint32_t>> edges{{1, explicit_space::nowhere, explicit_space::nowhere}, {0}};
  visited_space space{explicit_space{{100, 100}, edges}};
  mcmc_options o;
  o.beta = 1;
  o.proposals = 200000;
  const auto r = mcmc(space, o);
  CHECK(std::abs(static_cast<double>(space.visits[0]) / static_cast<double>(o.proposals) - 0.5) < 0.01);
  CHECK(r.counts.rejected > 50000);
}

TEST_CASE("mcmc repeats its result for a seed and differs for another seed") {
  const auto run = [](std::uint64_t seed) {
    auto space = random_circuit_space(4, 14);
    mcmc_options o;
    o.beta = 5;
    o.proposals = 500;
    o.seed = seed;
    return mcmc(space, o);
  };
  const auto one = run(1);
  CHECK(run(1).path == one.path);
  CHECK(run(1).counts == one.counts);
  CHECK(run(2).counts != one.counts);
}

TEST_CASE("mcmc reports which limit stopped it") {
  const std::vector<std::vector<std::uint32_t>> edges{{1}, {0}};
  explicit_space space{{100, 100}, edges};
  mcmc_options o;
  o.proposals = 1000;
  auto expansions = o;
  expansions.limits.expansions = 7;
  const auto r = mcmc(space, expansions);
  CHECK(r.stopped == stop_reason::expansions);
  CHECK(r.counts.expanded == 7);
  auto time = o;
  time.limits.seconds = 0;
  CHECK(mcmc(space, time).stopped == stop_reason::time);
  measured_explicit_space measured{space};
  auto memory = o;
  memory.limits.memory = 10 * 1024;
  CHECK(mcmc(measured, memory).stopped == stop_reason::memory);
  auto path = o;  // the accepted moves fill the memory; the space does not report its own
  path.limits.memory = 1024;
  const auto long_path = mcmc(space, path);
  CHECK(long_path.stopped == stop_reason::memory);
  CHECK(long_path.counts.expanded > 32);
  auto watched = o;
  watched.watch = [](const progress& p) { return p.counts.expanded < 100; };
  CHECK(mcmc(space, watched).stopped == stop_reason::observer);
  CHECK(mcmc(space, o).stopped == stop_reason::converged);
  explicit_space dead_end{{100, 90}, {{1}, {}}};
  const auto end = mcmc(dead_end, o);
  CHECK(end.stopped == stop_reason::exhausted);
  CHECK(end.cost == 90);
}

TEST_CASE("mcmc returns to the best state after restart_after proposals without improvement") {
  // A trap: a long plateau leads away from the best state.
  explicit_space space = staircase(2);
  for (std::uint32_t i = 2; i < 500; ++i) {
    space.costs.push_back(1001);
    space.edges[i - 1].push_back(i);
    space.edges.emplace_back();
  }
  visited_space visited{space};
  mcmc_options o;
  o.beta = 0;
  o.proposals = 450;
  o.restart_after = 20;
  (void)mcmc(visited, o);
  CHECK(visited.visits[1] >= 20);
  CHECK(visited.visits[40] == 0);
}

TEST_CASE("mcmc with negative beta violates a precondition") {
  const auto result = in_child([] {
    auto space = staircase(3);
    mcmc_options o;
    o.beta = -1;
    (void)mcmc(space, o);
  });
  CHECK(result.aborted);
}

TEST_CASE("mcmc returns an equivalent circuit with the reported cost and path", "[law]") {
  std::size_t improved = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    auto space = random_circuit_space(seed, 14);
    const auto first = space.initial();
    const auto truth = meaning(space.graph(first));
    std::size_t met = 0;
    recording_space<circuit_space> all{space, [&](const auto& s) {
                                         if (++met % 4 == 0) {
                                           REQUIRE(structural_fault(space, s) == "");
                                           REQUIRE(meaning(space.graph(s)) == truth);
                                         }
                                       }};
    mcmc_options o;
    o.beta = 10;
    o.proposals = 1000;
    o.restart_after = seed % 2 == 0 ? 0 : 100;
    o.seed = seed;
    const auto r = mcmc(all, o);
    REQUIRE(recomputed(space, r.best).cost == r.cost);
    REQUIRE(r.cost <= space.cost(first));
    improved += r.cost < space.cost(first) ? 1 : 0;
    REQUIRE(path_fault(space, r) == "");
  }
  CHECK(improved > 15);
}

}  // namespace tests_of_mcmc
