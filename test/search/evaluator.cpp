#include <cstdint>
#include <optional>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/search/evaluator.hpp>

namespace tests_of_evaluator {

using namespace unity;

namespace {

// The smallest: a number, which a move replaces.
struct archetype {
  using state_type = int;
  using move_type = int;
  cost_value reset(const int& s) { return current = s; }
  const int& state() const { return current; }
  cost_value cost() const { return current; }
  std::optional<cost_value> try_move(const int& m, cost_value bound) {
    tried = m;
    return m <= bound ? std::optional<cost_value>{m} : std::nullopt;
  }
  void commit() { current = tried; }
  void rollback() {}
  int current = 0;
  int tried = 0;
};
static_assert(evaluator<archetype>);

struct without_rollback : archetype {
  void rollback() = delete;
};
static_assert(!evaluator<without_rollback>);
static_assert(has_session<without_rollback>);

struct costs_as_double : archetype {
  std::optional<double> try_move(const int& m, cost_value) { return m; }
};
static_assert(!evaluator<costs_as_double>);

struct without_bound : archetype {
  std::optional<cost_value> try_move(const int& m) { return m; }
};
static_assert(!has_trial<without_bound>);

struct moves {
  std::optional<proposed<int>> sample(const int&, random_engine& r) const {
    return proposed<int>{static_cast<int>(r.below(3)), 0};
  }
};
static_assert(proposal_for<moves, archetype>);

struct always_a_move {
  proposed<int> sample(const int&, random_engine&) const { return {}; }
};
static_assert(!proposal_for<always_a_move, archetype>);

}  // namespace

}  // namespace tests_of_evaluator
