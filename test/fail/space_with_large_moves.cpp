// expect: satisf[a-z ]+[^a-z]+search_space
// expect: satisf[a-z ]+[^a-z]+small_move
// expect: sizeof.*8
// A move that holds a list; a search stores millions of moves.
#include <optional>
#include <span>

#include <unity/search/beam.hpp>

struct long_move {
  long from, to;
  friend bool operator==(const long_move&, const long_move&) = default;
};
struct positions {
  using state_type = int;
  using move_type = long_move;
  using scratch_type = int;
  int initial();
  unity::cost_value cost(const int&);
  unity::fingerprint fingerprint_of(const int&);
  std::span<const move_type> moves(const int&);
  void prepare(const int&, int&) const;
  std::optional<unity::candidate> price(const int&, move_type, int&) const;
  int apply(const int&, move_type, int&, int&);
};

void search(positions& space) { static_cast<void>(unity::beam(space)); }
