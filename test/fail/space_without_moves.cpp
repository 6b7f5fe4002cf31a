// expect: satisf[a-z ]+[^a-z]+search_space
// expect: satisf[a-z ]+[^a-z]+has_moves
// expect: s[.]moves[(]state[)][^ ]* (is|would be) invalid
// A search space that does not list its moves.
#include <optional>

#include <unity/search/backtracking.hpp>

struct positions {
  using state_type = int;
  using move_type = int;
  using scratch_type = int;
  int initial();
  unity::cost_value cost(const int&);
  unity::fingerprint fingerprint_of(const int&);
  void prepare(const int&, int&) const;
  std::optional<unity::candidate> price(const int&, move_type, int&) const;
  int apply(const int&, move_type, int&, int&);
};

void search(positions& space) { static_cast<void>(unity::backtracking(space)); }
