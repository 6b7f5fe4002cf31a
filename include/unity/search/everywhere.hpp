// Applies rules wherever they apply, regardless of cost.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

namespace unity {

// The graph to which no rule applies any more, or the last graph reached, and the number of moves.
template <class State>
struct rewritten_everywhere {
  State state;
  std::size_t moves = 0;
};

// Applies the first applicable move repeatedly, from the initial state of the space, at most `most` times: rules that
// enable themselves never end. `Space` is a rewrite_space, whose end of an earlier search no longer holds. Complexity:
// moves made times moves per state.
template <class Space>
[[nodiscard]] rewritten_everywhere<typename Space::state_type> rewrite_everywhere(Space& space, std::size_t most) {
  space.end_at(std::chrono::steady_clock::time_point::max());
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
