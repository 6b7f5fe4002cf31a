// One problem for each kind of search: a tour, a matrix chain and a knapsack, each checked against a brute-force loop.
// docs/search.md says which kind fits which problem.
//
// run:
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/search/mcmc.hpp>

using unity::cost_value;

// ------------------------------------------------------------------------------- a tour: whole states, and small moves

constexpr std::size_t cities = 8;
using tour = std::array<std::uint8_t, cities>;

cost_value distance(std::uint8_t a, std::uint8_t b) {
  constexpr std::array<std::pair<int, int>, cities> at{
      {{0, 0}, {60, 10}, {20, 90}, {80, 80}, {10, 50}, {90, 30}, {50, 60}, {40, 20}}};
  return std::abs(at[a].first - at[b].first) + std::abs(at[a].second - at[b].second);
}
cost_value length_of(const tour& t) {
  cost_value sum = 0;
  for (std::size_t i = 0; i < cities; ++i) {
    sum += distance(t[i], t[(i + 1) % cities]);
  }
  return sum;
}

// The cities from place `first` to place `last` are visited in reverse.
struct reversal {
  std::uint8_t first = 0;
  std::uint8_t last = 0;

  friend bool operator==(reversal, reversal) = default;
};
void reverse(tour& t, reversal m) { std::reverse(t.begin() + m.first, t.begin() + m.last + 1); }

// Models unity::evaluator: the cost of a move follows from the two edges that it replaces.
struct tour_evaluator {
  using state_type = tour;
  using move_type = reversal;

  cost_value reset(const tour& t) {
    now = t;
    return length = length_of(t);
  }
  const tour& state() const { return now; }
  cost_value cost() const { return length; }
  std::optional<cost_value> try_move(reversal m, cost_value bound) {
    const auto before = now[m.first - 1U];
    const auto after = now[(m.last + 1U) % cities];
    tried = m;
    priced = length - distance(before, now[m.first]) - distance(now[m.last], after) + distance(before, now[m.last]) +
             distance(now[m.first], after);
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

// Markov chains need a random move.
struct random_reversal {
  std::optional<unity::proposed<reversal>> sample(const tour&, unity::random_engine& random) const {
    const auto first = random.between(1, cities - 2);
    const auto last = random.between(first + 1, cities - 1);
    return unity::proposed<reversal>{{static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last)}, 0};
  }
};

// A search over spaces (beam, exact, backtracking) needs all moves, and fingerprints that tell states apart.
struct all_reversals {
  using move_type = reversal;

  all_reversals() {
    for (std::uint8_t first = 1; first < cities; ++first) {
      for (auto last = static_cast<std::uint8_t>(first + 1); last < cities; ++last) {
        list.push_back({first, last});
      }
    }
  }
  std::span<const reversal> moves(const tour&) const { return list; }
  reversal change(reversal m) const { return m; }
  unity::fingerprint fingerprint_of(const tour& t) const {
    unity::hasher h;
    for (const auto city : t) {
      h.add(std::uint64_t{city});
    }
    return h.result();
  }
  std::optional<unity::fingerprint> fingerprint_after(tour t, unity::fingerprint, reversal m) const {
    reverse(t, m);
    return fingerprint_of(t);
  }

  std::vector<reversal> list{};
};

// ------------------------------------------------------------------------------ a matrix chain: goals below other
// goals

struct matrix_chain {
  using goal_type = std::pair<std::uint32_t, std::uint32_t>;  // the product of the matrices from first to before last
  using value_type = std::int64_t;                            // multiplications
  using decision_type = std::uint32_t;                        // where its right factor begins

  unity::fingerprint fingerprint_of(const goal_type& g) const { return {g.first, g.second}; }
  std::vector<goal_type> subgoals(const goal_type& g) const {
    std::vector<goal_type> all;
    for (auto k = g.first + 1; k < g.second; ++k) {
      all.insert(all.end(), {{g.first, k}, {k, g.second}});
    }
    return all;
  }
  std::int64_t combine(const goal_type& g, std::span<const std::int64_t* const> values, std::uint32_t& middle) const {
    auto best = values.empty() ? 0 : std::numeric_limits<std::int64_t>::max();
    for (auto k = g.first + 1; k < g.second; ++k) {
      const auto at = 2 * std::size_t{k - g.first - 1};
      const auto all = *values[at] + *values[at + 1] + sizes[g.first] * sizes[k] * sizes[g.second];
      middle = all < best ? k : middle;
      best = std::min(best, all);
    }
    return best;
  }

  std::vector<std::int64_t> sizes;  // matrix i has sizes[i] rows and sizes[i + 1] columns
};

std::string written(unity::dynamic_program<matrix_chain>& solved, matrix_chain::goal_type g) {
  if (g.second - g.first == 1) {
    return fmt::format("m{}", g.first);
  }
  const auto middle = solved.decision(g);
  return fmt::format("({} {})", written(solved, {g.first, middle}), written(solved, {middle, g.second}));
}
std::int64_t least_by_trying(const std::vector<std::int64_t>& sizes, std::size_t first, std::size_t last) {
  std::int64_t best = last - first == 1 ? 0 : std::numeric_limits<std::int64_t>::max();
  for (auto k = first + 1; k < last; ++k) {
    best = std::min(best, least_by_trying(sizes, first, k) + least_by_trying(sizes, k, last) +
                              sizes[first] * sizes[k] * sizes[last]);
  }
  return best;
}

// ------------------------------------------------------------- a knapsack: decisions one by one, and bounds on the
// rest

struct item {
  std::int64_t value;
  std::int64_t weight;
};

// Costs are minimized, so the cost of a knapsack is minus its value. Items are in descending order of value by weight.
struct knapsack {
  std::size_t decision_count() const { return items.size(); }
  std::size_t choice_count(std::size_t) const { return 2; }
  // The bound fills the rest as if the last item could be cut: no completion has a larger value.
  cost_value push(std::uint32_t choice) {
    const auto& i = items[taken.size()];
    taken.push_back(choice != 0);
    left -= choice != 0 ? i.weight : 0;
    value += choice != 0 ? i.value : 0;
    if (left < 0) {
      return std::numeric_limits<cost_value>::max();
    }
    auto room = left;
    auto most = value;
    for (auto next = taken.size(); next < items.size() && room > 0; ++next) {
      const auto part = std::min(room, items[next].weight);
      most += (items[next].value * part + items[next].weight - 1) / items[next].weight;
      room -= part;
    }
    return -most;
  }
  void pop() {
    const bool was_taken = taken.back();
    taken.pop_back();
    left += was_taken ? items[taken.size()].weight : 0;
    value -= was_taken ? items[taken.size()].value : 0;
  }
  std::optional<cost_value> cost(cost_value bound) const {
    return -value <= bound ? std::optional{-value} : std::nullopt;
  }

  std::vector<item> items;
  std::int64_t left;
  std::int64_t value = 0;
  std::vector<bool> taken{};
};
std::int64_t most_by_trying(const std::vector<item>& items, std::int64_t room) {
  std::int64_t most = 0;
  for (std::uint32_t set = 0; set < 1U << items.size(); ++set) {
    std::int64_t value = 0;
    std::int64_t weight = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      value += (set >> i & 1U) != 0 ? items[i].value : 0;
      weight += (set >> i & 1U) != 0 ? items[i].weight : 0;
    }
    most = weight <= room ? std::max(most, value) : most;
  }
  return most;
}

// ---------------------------------------------------------------------------------------------------------------- all

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

void search_tours() {
  tour start{};
  std::iota(start.begin(), start.end(), std::uint8_t{0});
  auto shortest = length_of(start);
  for (auto t = start; std::next_permutation(t.begin() + 1, t.end());) {
    shortest = std::min(shortest, length_of(t));
  }

  unity::chain_options chains;
  chains.proposals = 20'000;
  const auto cooled = unity::mcmc_chains([] { return tour_evaluator{}; }, random_reversal{}, {&start, 1}, chains);
  check(cooled.cost == shortest, fmt::format("a Markov chain finds the shortest tour, {}", cooled.cost));

  unity::evaluator_space space{all_reversals{}, tour_evaluator{}, start};
  unity::beam_options wide;
  wide.width = 32;
  check(unity::beam(space, wide).cost == shortest, "and so does a beam, by the same evaluator");
  check(unity::exact(space).lower_bound == shortest, "no tour is shorter: all were looked at");
}

void order_products() {
  matrix_chain chain{{30, 35, 15, 5, 10, 20, 25}};
  const auto count = static_cast<std::uint32_t>(chain.sizes.size() - 1);
  unity::dynamic_program program{chain};
  const auto least = program.solve({0, count});
  check(least == least_by_trying(chain.sizes, 0, count),
        fmt::format("{} takes {} multiplications", written(program, {0, count}), least));
}

void fill_a_sack() {
  const std::vector<item> items{{60, 10}, {50, 10}, {110, 25}, {40, 12}, {70, 24}, {30, 15}, {20, 11}, {15, 9}};
  knapsack sack{items, 50};
  const auto found = unity::branch_and_bound(sack);
  check(
      -found.cost == most_by_trying(items, 50) && found.lower_bound == found.cost,
      fmt::format("the best sack is worth {}; {} of {} were priced", -found.cost, found.evaluated, 1U << items.size()));
}

int main() {
  search_tours();
  order_products();
  fill_a_sack();
  return failures == 0 ? 0 : 1;
}
