#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/config.hpp>
#include <unity/core/random.hpp>
#include <unity/search/mcmc.hpp>

#include "../support/child.hpp"

namespace tests_of_evaluator_mcmc {

using namespace unity;

namespace {

struct landscape {
  std::vector<cost_value> costs{};
  std::vector<std::vector<std::uint32_t>> edges{};
};

// States are numbers; a move is the number of the state that it leads to.
struct walker {
  using state_type = std::uint32_t;
  using move_type = std::uint32_t;
  const landscape* in = nullptr;
  state_type at = 0;
  state_type next = 0;
  bool is_open = false;

  cost_value reset(const state_type& s) {
    at = s;
    return cost();
  }
  const state_type& state() const { return at; }
  cost_value cost() const { return in->costs[at]; }
  std::optional<cost_value> try_move(const move_type& m, cost_value bound) {
    UNITY_EXPECTS(!is_open, "no open trial");
    if (m >= in->costs.size() || in->costs[m] > bound) {
      return std::nullopt;
    }
    next = m;
    is_open = true;
    return in->costs[m];
  }
  void commit() {
    at = next;
    is_open = false;
  }
  void rollback() { is_open = false; }
};
static_assert(evaluator<walker>);

struct neighbours {
  const landscape* in;
  std::vector<std::uint64_t>* visits = nullptr;
  std::optional<proposed<std::uint32_t>> sample(const std::uint32_t& s, random_engine& random) const {
    if (visits != nullptr) {
      ++(*visits)[s];
    }
    const auto& ways = in->edges[s];
    if (ways.empty()) {
      return std::nullopt;
    }
    const auto to = ways[random.below(ways.size())];
    const auto back = to < in->edges.size() ? in->edges[to].size() : 1;
    return proposed<std::uint32_t>{to, std::log(static_cast<double>(ways.size()) / static_cast<double>(back))};
  }
};
static_assert(proposal_for<neighbours, walker>);

auto run(const landscape& l, const std::vector<std::uint32_t>& initial, const chain_options& o,
         std::vector<std::uint64_t>* visits = nullptr) {
  return mcmc_chains([&] { return walker{&l}; }, neighbours{&l, visits}, initial, o);
}

// A ring of states with random costs.
landscape ring(std::uint64_t seed, std::uint32_t size) {
  random_engine random{seed};
  landscape l;
  for (std::uint32_t i = 0; i < size; ++i) {
    l.costs.push_back(random.between(1000, 2000));
    l.edges.push_back({(i + 1) % size, (i + size - 1) % size});
  }
  return l;
}

}  // namespace

TEST_CASE("an mcmc_chains chain visits states with Boltzmann frequencies", "[law]") {
  const landscape l{{100, 110, 95, 130, 105, 90}, {{1, 2, 3, 4}, {0}, {0, 3}, {0, 2, 4}, {0, 3, 5}, {4}}};
  chain_options o;
  o.beta = GENERATE(0.0, 3.0, 8.0);
  o.proposals = 400000;
  o.patience = 1;
  o.seed = 5;
  CAPTURE(o.beta, o.seed);
  std::vector<std::uint64_t> visits(l.costs.size(), 0);
  const auto r = run(l, {0}, o, &visits);
  CHECK(r.stopped == stop_reason::converged);
  CHECK(r.cost == 90);
  CHECK(r.best == 5);
  double sum = 0;
  for (const auto c : l.costs) {
    sum += std::exp(-o.beta * static_cast<double>(c) / 100);
  }
  for (std::size_t i = 0; i < l.costs.size(); ++i) {
    CAPTURE(i);
    const auto expected = std::exp(-o.beta * static_cast<double>(l.costs[i]) / 100) / sum;
    CHECK(std::abs(static_cast<double>(visits[i]) / static_cast<double>(o.proposals) - expected) < 0.01);
  }
}

TEST_CASE("mcmc_chains results depend on the seed and not on the thread count") {
  const auto l = ring(3, 200);
  const auto with = [&](std::uint64_t seed, std::size_t threads) {
    chain_options o;
    o.beta = 5;
    o.proposals = 2000;
    o.seed = seed;
    o.threads = threads;
    o.chains = 3;
    return run(l, {0, 50, 100}, o);
  };
  const auto one = with(1, 1);
  REQUIRE(one.chains.size() == 9);
  for (std::size_t i = 0; i < 9; ++i) {
    CHECK(one.chains[i].initial == i / 3);
    CHECK(one.chains[i].initial_cost == l.costs[50 * (i / 3)]);
  }
  // Each chain draws its own random numbers.
  for (const std::size_t start : {0U, 1U, 2U}) {
    const auto walked = [&](std::size_t chain) {
      const auto& c = one.chains[3 * start + chain];
      return std::pair{c.proposals, c.accepted};
    };
    CHECK((walked(0) != walked(1) || walked(0) != walked(2)));
  }
  for (const std::size_t threads : {2U, 4U, 16U}) {
    const auto other = with(1, threads);
    CHECK(other.path == one.path);
    CHECK(other.best == one.best);
    CHECK(other.best_chain == one.best_chain);
    CHECK(other.counts == one.counts);
    for (std::size_t i = 0; i < one.chains.size(); ++i) {
      CAPTURE(threads, i);
      CHECK(other.chains[i].cost == one.chains[i].cost);
      CHECK(other.chains[i].proposals == one.chains[i].proposals);
      CHECK(other.chains[i].accepted == one.chains[i].accepted);
      CHECK(other.chains[i].stopped == one.chains[i].stopped);
    }
  }
  CHECK(with(2, 1).counts != one.counts);
}

TEST_CASE("the best path of mcmc_chains leads to the best state and counts sum over chains") {
  const auto l = ring(7, 100);
  chain_options o;
  o.beta = 10;
  o.proposals = 3000;
  o.restart_after = GENERATE(0U, 50U);
  const auto r = run(l, {10, 60}, o);
  std::uint32_t at = r.chains[r.best_chain].initial == 0 ? 10 : 60;
  for (const auto& [move, cost] : r.path) {
    REQUIRE((move == (at + 1) % 100 || at == (move + 1) % 100));
    at = move;
    REQUIRE(cost == l.costs[at]);
  }
  CHECK(at == r.best);
  CHECK(r.cost == l.costs[r.best]);
  CHECK(r.history.back().cost == r.cost);
  std::uint64_t proposals = 0;
  std::uint64_t accepted = 0;
  for (const auto& c : r.chains) {
    proposals += c.proposals;
    accepted += c.accepted;
    CHECK(c.cost <= c.initial_cost);
    CHECK(r.cost <= c.cost);
  }
  CHECK(r.counts.expanded == proposals);
  CHECK(r.counts.candidates == accepted);
  CHECK(r.counts.rejected == proposals - accepted);
}

TEST_CASE("an mcmc_chains chain stops after half of its proposals without improvement") {
  const landscape l{{100, 90}, {{1}, {0}}};
  chain_options o;
  o.beta = 0;
  o.proposals = 1000;
  const auto r = run(l, {0}, o);
  CHECK(r.stopped == stop_reason::converged);
  CHECK(r.counts.expanded == 501);  // the first finds the best, 500 more nothing better
  o.patience = 1;
  CHECK(run(l, {0}, o).counts.expanded == 1000);
}

TEST_CASE("an mcmc_chains chain stops after half of its time without improvement") {
  const landscape l{{100, 100}, {{1}, {0}}};
  chain_options o;
  o.proposals = std::numeric_limits<std::uint64_t>::max();
  o.limits.seconds = 0.2;
  const auto r = run(l, {0}, o);
  CHECK(r.stopped == stop_reason::converged);
  CHECK(r.chains[0].seconds >= 0.1);
  o.patience = 1;
  const auto all = run(l, {0}, o);
  CHECK(all.stopped == stop_reason::time);
  CHECK(all.chains[0].seconds >= 0.2);
}

TEST_CASE("an mcmc_chains chain returns to its best state after as many proposals as it may not improve") {
  // A ring in one direction whose second state is the cheapest.
  landscape l;
  for (std::uint32_t i = 0; i < 500; ++i) {
    l.costs.push_back(i == 0 ? 1002 : i == 1 ? 1000 : 1001);
    l.edges.push_back({(i + 1) % 500});
  }
  chain_options o;
  o.beta = 0;
  o.proposals = 450;
  o.patience = 1;
  o.restart_after = 20;
  std::vector<std::uint64_t> visits(l.costs.size(), 0);
  const auto r = run(l, {0}, o, &visits);
  CHECK(r.best == 1);
  CHECK(r.path == std::vector<std::pair<std::uint32_t, cost_value>>{{1, 1000}});
  CHECK(r.counts.expanded == 450);
  CHECK(visits[0] == 1);
  CHECK(visits[1] == 23);  // proposals 1, 21, .., 441
  CHECK(visits[20] == 22);
  CHECK(visits[21] == 0);
}

TEST_CASE("the time limit of mcmc_chains is divided among the chains that a thread runs") {
  const landscape l{{100, 100}, {{1}, {0}}};
  chain_options o;
  o.proposals = std::numeric_limits<std::uint64_t>::max();
  o.patience = 1;
  o.chains = 2;
  o.limits.seconds = 400;
  double excluded = 0;
  o.excluded_seconds = [&] { return excluded -= 1; };  // each look at the clock takes a second
  const auto r = run(l, {0, 1}, o);
  REQUIRE(r.chains.size() == 4);
  for (const auto& c : r.chains) {
    CHECK(c.stopped == stop_reason::time);
    CHECK(c.seconds >= 100);
    CHECK(c.seconds < 150);
  }
}

TEST_CASE("mcmc_chains reports why it stopped") {
  const landscape l{{100, 100, 90}, {{1}, {0}, {}}};
  chain_options o;
  o.limits.expansions = 7;
  o.patience = 1;
  const auto limited = run(l, {0}, o);
  CHECK(limited.stopped == stop_reason::expansions);
  CHECK(limited.counts.expanded == 7);
  const auto stuck = run(l, {2}, o);
  CHECK(stuck.stopped == stop_reason::exhausted);
  CHECK(stuck.cost == 90);
  chain_options watched;
  watched.watch = [](const progress& p) { return p.counts.expanded < 100; };
  CHECK(run(l, {0}, watched).stopped == stop_reason::observer);
}

TEST_CASE("the path of an mcmc_chains chain stays within the memory limit") {
  const landscape l{{100, 100}, {{1}, {0}}};
  chain_options o;
  o.proposals = 100'000;
  o.patience = 1;
  o.limits.memory = 4096;
  const auto r = run(l, {0}, o);
  CHECK(r.stopped == stop_reason::memory);
  CHECK(r.counts.expanded >= 4096 / 32);
  CHECK(r.counts.expanded <= 4096 / 16 + 1);  // each step of the path takes a move and a cost
  o.keep_path = false;
  CHECK(run(l, {0}, o).stopped == stop_reason::converged);
}

TEST_CASE("mcmc_chains does not count excluded seconds") {
  const landscape l{{100, 100}, {{1}, {0}}};
  double excluded = 0;
  chain_options o;
  o.proposals = 1000;
  o.patience = 1;
  o.limits.seconds = 1e-9;
  CHECK(run(l, {0}, o).stopped == stop_reason::time);
  o.limits.seconds = 1000;
  o.excluded_seconds = [&] { return excluded += 1e6; };  // more than all elapsed time
  const auto r = run(l, {0}, o);
  CHECK(r.stopped == stop_reason::converged);
  CHECK(r.seconds < 0);
  CHECK(r.chains[0].seconds < 0);
  o.excluded_seconds = [&] { return excluded -= 1e6; };  // negative: makes time pass faster
  CHECK(run(l, {0}, o).stopped == stop_reason::time);
}

TEST_CASE("mcmc_chains supports states without a default constructor") {
  struct place {
    explicit place(std::uint32_t n) : number{n} {}
    std::uint32_t number;
  };
  struct stroller {
    using state_type = place;
    using move_type = std::uint32_t;
    place at{0};
    std::uint32_t next = 0;

    cost_value reset(const place& s) {
      at = s;
      return cost();
    }
    const place& state() const { return at; }
    cost_value cost() const { return 100 - at.number; }
    std::optional<cost_value> try_move(const std::uint32_t& to, cost_value bound) {
      next = to;
      return 100 - to > bound ? std::nullopt : std::optional<cost_value>{100 - to};
    }
    void commit() { at = place{next}; }
    void rollback() {}
  };
  struct onwards {
    std::optional<proposed<std::uint32_t>> sample(const place& s, random_engine&) const {
      return s.number < 50 ? std::optional{proposed<std::uint32_t>{s.number + 1}} : std::nullopt;
    }
  };
  static_assert(evaluator<stroller> && !std::default_initializable<place>);
  const std::vector<place> initial{place{3}, place{7}};
  const auto r = mcmc_chains([] { return stroller{}; }, onwards{}, initial, {});
  CHECK(r.best.number == 50);
  CHECK(r.cost == 50);
  CHECK(r.chains.size() == 2);
}

TEST_CASE("mcmc_chains rejects moves that cannot be made") {
  const landscape l{{100}, {{7}}};
  chain_options o;
  o.proposals = 100;
  o.patience = 1;
  const auto r = run(l, {0}, o);
  CHECK(r.counts.rejected == 100);
  CHECK(r.counts.candidates == 0);
}

TEST_CASE("mcmc_chains without chains or with negative beta violates a precondition") {
  const landscape l{{100}, {{0}}};
  CHECK(test::in_child([&] { (void)run(l, {}, {}); }).aborted);
  chain_options o;
  o.beta = -1;
  CHECK(test::in_child([&] { (void)run(l, {0}, o); }).aborted);
}

}  // namespace tests_of_evaluator_mcmc
