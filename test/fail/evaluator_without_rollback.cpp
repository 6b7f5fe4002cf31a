// expect: (satisf[a-z ]+[^a-z]+evaluator|evaluator<[^>]*>. evaluated to false)
// expect: satisf[a-z ]+[^a-z]+has_trial
// expect: e[.]rollback[(][)][^ ]* (is|would be) invalid
// An evaluator that cannot take a move back.
#include <optional>
#include <span>

#include <unity/search/mcmc.hpp>

struct distance {
  using state_type = int;
  using move_type = int;
  unity::cost_value reset(const int&);
  const int& state() const;
  unity::cost_value cost() const;
  std::optional<unity::cost_value> try_move(const int&, unity::cost_value);
  void commit();
};
struct steps {
  std::optional<unity::proposed<int>> sample(const int&, unity::random_engine&) const;
};

auto search(const steps& proposal, std::span<const int> initial) {
  return unity::mcmc_chains([] { return distance{}; }, proposal, initial);
}
