// Rules at every place where they apply, whatever that costs.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

namespace unity {

// A graph that no move changes any more, or the last one met, and how many moves led to it.
template <class State>
struct rewritten_everywhere {
  State state;
  std::size_t moves = 0;
};

// Makes the first move that applies, from the space's initial state on, at most `most` times: rules that make places
// for themselves never end. `Space` is a rewrite_space. Complexity: moves times those that a state has.
template <class Space>
[[nodiscard]] rewritten_everywhere<typename Space::state_type> rewrite_everywhere(Space& space, std::size_t most) {
  rewritten_everywhere<typename Space::state_type> r{space.initial()};
  typename Space::scratch_type from;
  typename Space::scratch_type to;
  const auto applying = [&]() -> std::optional<typename Space::move_type> {
    space.prepare(r.state, from);
    for (const auto m : space.moves(r.state)) {
      if (space.price(r.state, m, from)) {
        return m;
      }
    }
    return std::nullopt;
  };
  while (r.moves < most) {
    const auto move = applying();
    if (!move) {
      break;
    }
    r.state = space.apply(r.state, *move, from, to);
    ++r.moves;
  }
  return r;
}

}  // namespace unity
