// expect: (satisf[a-z ]+[^a-z]+proposal_for|proposal_for<[^>]*>. evaluated to false)
// expect: p[.]sample[(]state, random[)]([^ ]* does not satisfy return-type| } -> )
// A proposal that draws moves without their proposal ratio.
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
  void rollback();
};
struct steps {
  std::optional<int> sample(const int&, unity::random_engine&) const;
};

auto search(const steps& proposal, std::span<const int> initial) {
  return unity::mcmc_chains([] { return distance{}; }, proposal, initial);
}
