// Tutorial 6: a new search algorithm, for any space of states and moves.
//
// run:
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/cost.hpp>

namespace tensor = unity::tensor;

// The move that reduces the cost most, or nothing. Effects: prepares the scratch for the state.
template <unity::search_space Space>
std::optional<typename Space::move_type> best_move(Space& space, const typename Space::state_type& state,
                                                   typename Space::scratch_type& scratch) {
  std::optional<typename Space::move_type> best;
  auto least = space.cost(state);
  space.prepare(state, scratch);
  for (const auto move : std::span{space.moves(state)}) {
    const auto next = space.price(state, move, scratch);
    if (next && next->cost < least) {
      least = next->cost;
      best = move;
    }
  }
  return best;
}

// Iterated local search: descends to a local minimum, makes a few random moves, and descends again.
template <unity::search_space Space>
auto iterated_descent(Space& space, int rounds, std::uint64_t seed) {
  unity::search_result<typename Space::state_type, typename Space::move_type> found{space.initial()};
  found.cost = space.cost(found.best);
  auto state = space.initial();
  typename Space::scratch_type scratch{}, next_scratch{};
  unity::random_engine random{seed};
  for (int round = 0; round < rounds; ++round) {
    while (const auto move = best_move(space, state, scratch)) {
      state = space.apply(state, *move, scratch, next_scratch);
      ++found.counts.expanded;
    }
    if (space.cost(state) < found.cost) {
      found.best = state;
      found.cost = space.cost(state);
    }
    for (int kick = 0; kick < 3; ++kick) {
      const auto moves = std::span{space.moves(state)};
      if (moves.empty()) {
        break;
      }
      const auto move = moves[random.below(moves.size())];
      space.prepare(state, scratch);
      if (space.price(state, move, scratch)) {
        state = space.apply(state, move, scratch, next_scratch);
      }
    }
  }
  return found;
}

int failures = 0;
void check(bool holds, const std::string& what) {
  fmt::print("{:8}{}\n", holds ? "ok" : "FAILED", what);
  failures += holds ? 0 : 1;
}

int main() {
  const auto operators = tensor::standard_algebra();
  // In which order is a chain of matrices multiplied?
  tensor::builder b{operators};
  auto product = b.input("m0", {30, 35});
  const std::int64_t sizes[] = {35, 15, 5, 10, 20, 25};
  for (std::size_t i = 0; i + 1 < std::size(sizes); ++i) {
    product = b.matmul(product, b.input(fmt::format("m{}", i + 1), {sizes[i], sizes[i + 1]}));
  }
  const auto graph = std::move(b).finish({product});
  const auto rules = unity::compile_rules(
      operators, unity::parse_rules("rule association  matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z)"));

  const tensor::flop_cost operations{operators};
  unity::rewrite_space space{operators, operations, rules, graph};
  const auto found = iterated_descent(space, 20, 1);
  fmt::print("{} operations before, {} after, {} states\n", space.cost(space.initial()), found.cost,
             found.counts.expanded);

  unity::rewrite_space again{operators, operations, rules, graph};
  const auto optimum = unity::exact(again);
  check(found.cost == optimum.cost, "it finds the optimum of this space");
  unity::rewrite_space third{operators, operations, rules, graph};
  check(iterated_descent(third, 20, 1).counts.expanded == found.counts.expanded,
        "and again, with the same seed, in as many steps");
  return failures == 0 ? 0 : 1;
}
