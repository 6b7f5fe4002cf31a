// Claim: searching through the concepts costs less than 1.1 times hand-written code on flat arrays.
//
// The problem: fuse a chain of 48 operators into groups. A state is the set of cuts between groups; a move toggles a
// cut; a group costs a launch plus a spill term that grows with its size. Both searches expand the same states.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <ctime>
#include <optional>
#include <queue>
#include <span>
#include <stdexcept>
#include <vector>

#include <unity/core/index_table.hpp>
#include <unity/search/backtracking.hpp>

namespace {

using namespace unity;

constexpr unsigned operators = 48;
constexpr std::uint64_t expansions = 20000;
constexpr double alpha = 1.05;

// The cost of the group of operators [first, last).
cost_value group_cost(unsigned first, unsigned last) {
  const auto size = static_cast<cost_value>(last - first);
  return 5000 + 40 * size * size + 13 * static_cast<cost_value>((first * 7 + last * 5) % 11);
}
unsigned group_begin(std::uint64_t cuts, unsigned at) {  // cut i stands before operator i
  const auto below = cuts & ((std::uint64_t{2} << at) - 1);
  return below == 0 ? 0 : 63U - static_cast<unsigned>(std::countl_zero(below));
}
unsigned group_end(std::uint64_t cuts, unsigned at) {
  const auto above = cuts >> (at + 1);
  return above == 0 ? operators : at + 1 + static_cast<unsigned>(std::countr_zero(above));
}
cost_value toggled(std::uint64_t cuts, cost_value cost, unsigned cut) {
  const auto without = cuts & ~(std::uint64_t{1} << cut);
  const auto begin = group_begin(without, cut - 1);
  const auto end = group_end(without, cut);
  const auto parts = group_cost(begin, cut) + group_cost(cut, end);
  const auto whole = group_cost(begin, end);
  return (cuts >> cut & 1U) != 0 ? cost - parts + whole : cost - whole + parts;
}
fingerprint fingerprint_of_cuts(std::uint64_t cuts) { return {mix64(cuts), mix64(~cuts)}; }
constexpr std::uint64_t all_cuts = ((std::uint64_t{1} << operators) - 1) & ~std::uint64_t{1};
cost_value cost_of_all_cuts() {
  cost_value sum = 0;
  for (unsigned i = 0; i < operators; ++i) {
    sum += group_cost(i, i + 1);
  }
  return sum;
}

struct fusion_space {
  struct state_type {
    std::uint64_t cuts;
    cost_value total;
  };
  using move_type = std::uint32_t;
  struct scratch_type {};

  fusion_space() {
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      all[i] = i + 1;
    }
  }
  state_type initial() const { return {all_cuts, cost_of_all_cuts()}; }
  cost_value cost(const state_type& s) const { return s.total; }
  fingerprint fingerprint_of(const state_type& s) const { return fingerprint_of_cuts(s.cuts); }
  std::span<const move_type> moves(const state_type&) const { return all; }
  void prepare(const state_type&, scratch_type&) const {}
  std::optional<candidate> price(const state_type& s, move_type m, scratch_type&) const {
    return candidate{toggled(s.cuts, s.total, m), fingerprint_of_cuts(s.cuts ^ std::uint64_t{1} << m)};
  }
  state_type apply(const state_type& s, move_type m, scratch_type&, scratch_type&) const {
    return {s.cuts ^ std::uint64_t{1} << m, toggled(s.cuts, s.total, m)};
  }

  std::array<move_type, operators - 1> all{};
};
static_assert(search_space<fusion_space>);

// The same search, hand-written.
cost_value hand_written() {
  struct record {
    std::uint64_t cuts;
    cost_value cost;
    std::uint32_t parent;
    std::uint32_t move;
  };
  struct entry {
    cost_value cost;
    std::uint32_t order;
    std::uint32_t parent;
    std::uint32_t move;
    bool operator<(const entry& o) const { return cost != o.cost ? cost > o.cost : order > o.order; }
  };
  std::vector<record> records{{all_cuts, cost_of_all_cuts(), 0, 0}};
  std::priority_queue<entry> queue;
  fingerprint_set seen;
  seen.insert(fingerprint_of_cuts(all_cuts));
  auto best = records[0].cost;
  std::uint32_t order = 0;
  for (std::uint64_t expanded = 0;; ++expanded) {
    const auto at = static_cast<std::uint32_t>(records.size() - 1);
    const auto [cuts, cost, parent, by] = records[at];
    for (std::uint32_t m = 1; m < operators; ++m) {
      const auto next = toggled(cuts, cost, m);
      best = std::min(best, next);
      const bool keeps = next <= best || static_cast<double>(next) < alpha * static_cast<double>(best);
      if (keeps && seen.insert(fingerprint_of_cuts(cuts ^ std::uint64_t{1} << m))) {
        queue.push({next, order++, at, m});
      }
    }
    if (expanded + 1 >= expansions || queue.empty()) {
      return best;
    }
    const auto e = queue.top();
    queue.pop();
    records.push_back({records[e.parent].cuts ^ std::uint64_t{1} << e.move, e.cost, e.parent, e.move});
  }
}

cost_value through_concepts() {
  fusion_space space;
  backtracking_options options;
  options.alpha = alpha;
  options.limits.expansions = expansions;
  return backtracking(space, options).cost;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Work>
double seconds_of(Work work, cost_value& answer) {
  const auto start = cpu_seconds();
  answer = work();
  return cpu_seconds() - start;
}

// Runs the two alternately; reports the ratio of the medians.
void search_through_concepts_within_1_1_of_hand_written(benchmark::State& state) {
  std::vector<double> concepts;
  std::vector<double> hand;
  for (auto _ : state) {
    cost_value a = 0;
    cost_value b = 0;
    concepts.push_back(seconds_of(through_concepts, a));
    hand.push_back(seconds_of(hand_written, b));
    if (a != b) {
      throw std::logic_error{"the two searches disagree"};
    }
  }
  std::sort(concepts.begin(), concepts.end());
  std::sort(hand.begin(), hand.end());
  state.counters["ratio"] = concepts[concepts.size() / 2] / hand[hand.size() / 2];
  state.counters["target_below"] = 1.1;
}
BENCHMARK(search_through_concepts_within_1_1_of_hand_written)->Unit(benchmark::kMillisecond)->Iterations(31);

}  // namespace

BENCHMARK_MAIN();
