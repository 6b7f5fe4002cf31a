// Claims: where moves are cheap, the search protocols cost little more than a hand-written loop: descent on a tour by a
// beam of width 1 at most 5 times, Markov chains and branch and bound at most 1.5 times, dynamic programming over a
// matrix chain at most 5 times. Both sides find the same result; chains make the same number of proposals.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/search/mcmc.hpp>

namespace {

using namespace unity;

// ------------------------------------------------------------------------------------------------------------ a tour

constexpr std::size_t cities = 100;
using tour = std::vector<std::uint16_t>;

struct map {
  map() {
    random_engine random{1};
    std::array<std::pair<std::int64_t, std::int64_t>, cities> at;
    for (auto& c : at) {
      c = {random.between(0, 1'000'000), random.between(0, 1'000'000)};
    }
    for (std::size_t a = 0; a < cities; ++a) {
      fingerprints[a] = {random() | 1U, random() | 1U};
      for (std::size_t b = 0; b < cities; ++b) {
        distance[a][b] = static_cast<std::int32_t>(std::hypot(static_cast<double>(at[a].first - at[b].first),
                                                              static_cast<double>(at[a].second - at[b].second)));
      }
    }
  }
  [[nodiscard]] cost_value length(const tour& t) const {
    cost_value sum = 0;
    for (std::size_t i = 0; i < cities; ++i) {
      sum += distance[t[i]][t[(i + 1) % cities]];
    }
    return sum;
  }
  // Fingerprint of an edge; a tour's fingerprint is the sum over its edges.
  [[nodiscard]] fingerprint edge(std::size_t a, std::size_t b) const {
    return {fingerprints[a].low * fingerprints[b].low, fingerprints[a].high * fingerprints[b].high};
  }

  std::array<std::array<std::int32_t, cities>, cities> distance{};
  std::array<fingerprint, cities> fingerprints{};
};
const map& world() {
  static const map m;
  return m;
}
tour first_tour() {
  tour t(cities);
  for (std::size_t i = 0; i < cities; ++i) {
    t[i] = static_cast<std::uint16_t>(i);
  }
  return t;
}

// Reverses the cities at positions `first` to `last` (2-opt).
struct reversal {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  friend bool operator==(reversal, reversal) = default;
};
cost_value change(const tour& t, reversal m) {
  const auto& d = world().distance;
  const auto a = t[m.first];
  const auto b = t[m.first + 1U];
  const auto c = t[m.last];
  const auto e = t[m.last + 1U == cities ? 0 : m.last + 1U];
  return cost_value{d[a][c]} + d[b][e] - d[a][b] - d[c][e];
}
void reverse(tour& t, reversal m) { std::reverse(t.begin() + m.first + 1, t.begin() + m.last + 1); }
std::vector<reversal> all_reversals() {
  std::vector<reversal> all;
  for (std::uint16_t i = 0; i + 2U < cities; ++i) {
    for (auto j = static_cast<std::uint16_t>(i + 2U); j < cities; ++j) {
      if (i != 0 || j + 1U != cities) {
        all.push_back({i, j});
      }
    }
  }
  return all;
}

struct tour_space {
  struct state_type {
    tour order;
    cost_value length;
    unity::fingerprint fingerprint;
  };
  using move_type = reversal;
  struct scratch_type {};

  state_type initial() const {
    const auto t = first_tour();
    unity::fingerprint sum{};
    for (std::size_t i = 0; i < cities; ++i) {
      sum += world().edge(t[i], t[(i + 1) % cities]);
    }
    return {t, world().length(t), sum};
  }
  cost_value cost(const state_type& s) const { return s.length; }
  fingerprint fingerprint_of(const state_type& s) const { return s.fingerprint; }
  std::span<const reversal> moves(const state_type&) const { return all; }
  void prepare(const state_type&, scratch_type&) const {}
  std::optional<candidate> price(const state_type& s, reversal m, scratch_type&) const {
    const auto& w = world();
    const auto a = s.order[m.first];
    const auto b = s.order[m.first + 1U];
    const auto c = s.order[m.last];
    const auto e = s.order[m.last + 1U == cities ? 0 : m.last + 1U];
    return candidate{s.length + change(s.order, m),
                     s.fingerprint + w.edge(a, c) + w.edge(b, e) - w.edge(a, b) - w.edge(c, e)};
  }
  state_type apply(const state_type& s, reversal m, scratch_type& scratch, scratch_type&) const {
    const auto c = price(s, m, scratch);
    state_type next{s.order, c->cost, c->fingerprint};
    reverse(next.order, m);
    return next;
  }

  std::vector<reversal> all = all_reversals();
};
static_assert(search_space<tour_space>);

cost_value descent_through_a_beam() {
  tour_space space;
  beam_options o;
  o.width = 1;
  o.patience = 1;
  return beam(space, o).cost;
}
cost_value descent_by_hand() {
  auto t = first_tour();
  auto length = world().length(t);
  for (;;) {
    cost_value best = 0;
    reversal by;
    for (std::uint16_t i = 0; i + 2U < cities; ++i) {
      for (auto j = static_cast<std::uint16_t>(i + 2U); j < cities; ++j) {
        const auto c = change(t, {i, j});
        if (c < best) {
          best = c;
          by = {i, j};
        }
      }
    }
    if (best == 0) {
      return length;
    }
    length += best;
    reverse(t, by);
  }
}

constexpr std::uint64_t proposals = 1'000'000;

reversal drawn(random_engine& random) {
  const auto i = random.below(cities);
  const auto j = random.below(cities - 1);
  const auto other = j + (j >= i ? 1 : 0);
  return {static_cast<std::uint16_t>(std::min(i, other)), static_cast<std::uint16_t>(std::max(i, other))};
}
struct tour_evaluator {
  using state_type = tour;
  using move_type = reversal;

  cost_value reset(const tour& t) {
    now = t;
    return length = world().length(t);
  }
  const tour& state() const { return now; }
  cost_value cost() const { return length; }
  std::optional<cost_value> try_move(reversal m, cost_value bound) {
    tried = m;
    priced = length + change(now, m);
    return priced <= bound ? std::optional{priced} : std::nullopt;
  }
  void commit() {
    reverse(now, tried);
    length = priced;
  }
  void rollback() {}

  tour now{};
  cost_value length = 0;
  cost_value priced = 0;
  reversal tried{};
};
struct any_reversal {
  std::optional<proposed<reversal>> sample(const tour&, random_engine& random) const {
    return proposed<reversal>{drawn(random), 0};
  }
};

cost_value chain_through_concepts() {
  chain_options o;
  o.proposals = proposals;
  o.patience = 1;
  o.beta = 2000;
  const auto start = first_tour();
  return mcmc_chains([] { return tour_evaluator{}; }, any_reversal{}, std::span{&start, 1}, o).cost;
}
cost_value chain_by_hand() {
  random_engine random{mix64(0)};
  auto t = first_tour();
  auto length = world().length(t);
  auto best = t;
  auto best_length = length;
  const auto scale = 2000 / static_cast<double>(length);
  for (std::uint64_t i = 0; i < proposals; ++i) {
    const auto m = drawn(random);
    const auto c = change(t, m);
    if (c <= 0 || random.unit() < std::exp(-scale * static_cast<double>(c))) {
      reverse(t, m);
      length += c;
      if (length < best_length) {
        best = t;
        best_length = length;
      }
    }
  }
  benchmark::DoNotOptimize(best);
  return best_length;
}

// -------------------------------------------------------------------------------------------------------- a knapsack

constexpr std::size_t items = 45;
struct item {
  std::int64_t value = 0;
  std::int64_t weight = 0;
};
struct sack {
  sack() {
    random_engine random{3};
    for (auto& i : all) {  // similar value per weight: bounds are close, and many prefixes survive
      i.weight = random.between(100, 999);
      i.value = i.weight + 100;
      room += i.weight;
    }
    room /= 2;
    std::sort(all.begin(), all.end(),
              [](const item& a, const item& b) { return a.value * b.weight > b.value * a.weight; });
  }
  // Dantzig's upper bound on the value that items from `next` on can add.
  [[nodiscard]] std::int64_t bound(std::size_t next, std::int64_t left) const {
    std::int64_t sum = 0;
    for (; next < items && all[next].weight <= left; ++next) {
      sum += all[next].value;
      left -= all[next].weight;
    }
    return next == items ? sum : sum + all[next].value * left / all[next].weight;
  }

  std::array<item, items> all{};
  std::int64_t room = 0;
};
const sack& goods() {
  static const sack s;
  return s;
}

struct knapsack_problem {
  [[nodiscard]] std::size_t decision_count() const { return items; }
  [[nodiscard]] std::size_t choice_count(std::size_t) const { return 2; }
  [[nodiscard]] cost_value bound(std::uint32_t choice) const {
    const auto& i = goods().all[next];
    const auto rest = left - (choice != 0 ? i.weight : 0);
    return rest < 0 ? std::numeric_limits<cost_value>::max()
                    : -(value + (choice != 0 ? i.value : 0) + goods().bound(next + 1, rest));
  }
  void push(std::uint32_t choice) {
    const auto& i = goods().all[next];
    taken[next++] = choice != 0;
    if (choice != 0) {
      left -= i.weight;
      value += i.value;
    }
  }
  void pop() {
    if (taken[--next]) {
      left += goods().all[next].weight;
      value -= goods().all[next].value;
    }
  }
  [[nodiscard]] std::optional<cost_value> cost(cost_value) const { return -value; }

  std::array<bool, items> taken{};
  std::size_t next = 0;
  std::int64_t left = goods().room;
  std::int64_t value = 0;
};
cost_value knapsack_through_concepts() {
  knapsack_problem problem;
  return -branch_and_bound(problem).cost;
}
struct knapsack_search {
  void visit(std::size_t next, std::int64_t left, std::int64_t value) {
    if (next == items) {
      if (value > best) {
        best = value;
        best_taken = taken;
      }
      return;
    }
    const auto& i = goods().all[next];
    const auto with = i.weight <= left ? value + i.value + goods().bound(next + 1, left - i.weight) : -1;
    const auto without = value + goods().bound(next + 1, left);
    const auto take = [&] {
      if (with > best) {
        taken[next] = true;
        visit(next + 1, left - i.weight, value + i.value);
      }
    };
    if (with >= without) {
      take();
    }
    if (without > best) {
      taken[next] = false;
      visit(next + 1, left, value);
    }
    if (with < without) {
      take();
    }
  }
  std::int64_t best = 0;
  std::array<bool, items> taken{};
  std::array<bool, items> best_taken{};
};
cost_value knapsack_by_hand() {
  knapsack_search s;
  s.visit(0, goods().room, 0);
  benchmark::DoNotOptimize(s.best_taken);
  return s.best;
}

// --------------------------------------------------------------------------------------------------- a matrix chain

constexpr std::uint32_t matrices = 300;
const std::vector<std::int64_t>& sizes() {
  static const auto all = [] {
    random_engine random{5};
    std::vector<std::int64_t> s(matrices + 1);
    std::generate(s.begin(), s.end(), [&] { return random.between(1, 100); });
    return s;
  }();
  return all;
}
struct chain_problem {
  using goal_type = std::pair<std::uint32_t, std::uint32_t>;  // the product of [first, last)
  using value_type = std::int64_t;

  [[nodiscard]] fingerprint fingerprint_of(const goal_type& g) const { return {g.first, g.second}; }
  [[nodiscard]] std::uint32_t number_of(const goal_type& g) const { return g.first * (matrices + 1) + g.second; }
  [[nodiscard]] std::vector<goal_type> subgoals(const goal_type& g) const {
    std::vector<goal_type> all;
    if (g.second - g.first > 1) {
      all.reserve(2 * (g.second - g.first - 1));
    }
    for (auto k = g.first + 1; k < g.second; ++k) {
      all.push_back({g.first, k});
      all.push_back({k, g.second});
    }
    return all;
  }
  std::int64_t combine(const goal_type& g, std::span<const std::int64_t* const> values) const {
    auto best = values.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
    for (std::uint32_t k = 0; 2 * k < values.size(); ++k) {
      best = std::min(
          best, *values[2 * k] + *values[2 * k + 1] + sizes()[g.first] * sizes()[g.first + 1 + k] * sizes()[g.second]);
    }
    return best;
  }
};
cost_value matrix_chain_through_concepts() {
  chain_problem problem;
  dynamic_program<chain_problem> program{problem};
  return program.solve({0, matrices});
}
cost_value matrix_chain_by_hand() {
  const auto& s = sizes();
  const auto width = std::size_t{matrices} + 1;
  std::vector<std::int64_t> best(width * width, 0);
  for (std::size_t length = 2; length <= matrices; ++length) {
    for (std::size_t i = 0; i + length <= matrices; ++i) {
      const auto j = i + length;
      auto least = std::numeric_limits<std::int64_t>::max();
      for (auto k = i + 1; k < j; ++k) {
        least = std::min(least, best[i * width + k] + best[k * width + j] + s[i] * s[k] * s[j]);
      }
      best[i * width + j] = least;
    }
  }
  return best[matrices];
}

// ---------------------------------------------------------------------------------------------------------- in turns

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double seconds_of(cost_value (*work)(), cost_value& answer) {
  const auto start = cpu_seconds();
  answer = work();
  return cpu_seconds() - start;
}
// Runs the two alternately; reports the ratio of the medians.
void compare(benchmark::State& state, cost_value (*through_concepts)(), cost_value (*by_hand)(), double target,
             bool same_answer) {
  std::vector<double> concepts;
  std::vector<double> hand;
  for (auto _ : state) {
    cost_value a = 0;
    cost_value b = 0;
    concepts.push_back(seconds_of(through_concepts, a));
    hand.push_back(seconds_of(by_hand, b));
    if (same_answer && a != b) {
      throw std::logic_error{"the two searches disagree"};
    }
  }
  std::sort(concepts.begin(), concepts.end());
  std::sort(hand.begin(), hand.end());
  state.counters["by_hand_ms"] = hand[hand.size() / 2] * 1e3;
  state.counters["ratio"] = concepts[concepts.size() / 2] / hand[hand.size() / 2];
  state.counters["target_at_most"] = target;
}
BENCHMARK_CAPTURE(compare, tour_descent, descent_through_a_beam, descent_by_hand, 5.0, true)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(21);
BENCHMARK_CAPTURE(compare, tour_chain, chain_through_concepts, chain_by_hand, 1.5, false)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(11);
BENCHMARK_CAPTURE(compare, knapsack, knapsack_through_concepts, knapsack_by_hand, 1.5, true)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(11);
BENCHMARK_CAPTURE(compare, matrix_chain, matrix_chain_through_concepts, matrix_chain_by_hand, 5.0, true)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(11);

}  // namespace

BENCHMARK_MAIN();
