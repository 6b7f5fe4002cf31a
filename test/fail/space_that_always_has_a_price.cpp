// expect: satisf[a-z ]+[^a-z]+search_space
// expect: satisf[a-z ]+[^a-z]+has_pricing
// expect: s[.]price[(]state, move, scratch[)]([^ ]* does not satisfy return-type| } -> )
// A space whose price cannot express that a move does not apply.
#include <optional>
#include <span>

#include <unity/search/mcmc.hpp>

struct positions {
  using state_type = int;
  using move_type = int;
  using scratch_type = int;
  int initial();
  unity::cost_value cost(const int&);
  unity::fingerprint fingerprint_of(const int&);
  std::span<const move_type> moves(const int&);
  void prepare(const int&, int&) const;
  unity::candidate price(const int&, move_type, int&) const;
  int apply(const int&, move_type, int&, int&);
};

void search(positions& space) { static_cast<void>(unity::mcmc(space)); }
