// The interface of a space of states and moves for search algorithms.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/cost/cost_model.hpp>

namespace unity {

// Options and results of searches.

// Options of every search; algorithms add their own.
struct search_options {
  budget limits{};
  observer watch{};  // may be empty
  // Monotonic seconds to exclude from the search time, such as measuring the cost of moves; of all threads together,
  // which may call it at the same time. Empty: none.
  std::function<double()> excluded_seconds{};
};

// When a search that starts now ends, if its time is limited and none of it is excluded.
[[nodiscard]] inline std::chrono::steady_clock::time_point end_of(const search_options& o) {
  using clock = std::chrono::steady_clock;
  constexpr double longest = 1e8;  // seconds: three years
  if (o.excluded_seconds || o.limits.seconds > longest) {
    return clock::time_point::max();
  }
  return clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.limits.seconds));
}

// Measures the seconds of a search.
class search_clock {
 public:
  // Starts the clock. The options must outlive it.
  explicit search_clock(const search_options& o) : options_{o} {}

  [[nodiscard]] double seconds() const { return earlier_ + watch_.seconds() - (excluded() - excluded_before_); }
  // Effects: restarts as the continuation of a search that ran for this many seconds.
  void resume_from(double seconds) {
    earlier_ = seconds;
    watch_ = {};
    excluded_before_ = excluded();
  }

 private:
  [[nodiscard]] double excluded() const { return options_.excluded_seconds ? options_.excluded_seconds() : 0; }

  const search_options& options_;
  stopwatch watch_{};
  double earlier_ = 0;
  double excluded_before_ = excluded();
};

// A better state that was found.
struct improvement {
  double seconds = 0;
  std::uint64_t expanded = 0;
  cost_value cost = 0;
};

template <class State, class Move>
struct search_result {
  State best;  // need not be default-constructible
  cost_value cost = 0;
  // No state of the searched space (see the algorithm) costs less. Minimum: unknown.
  cost_value lower_bound = std::numeric_limits<cost_value>::min();
  std::vector<std::pair<Move, cost_value>> path{};  // moves from the start to best, and the cost after each
  std::vector<improvement> history{};
  counters counts{};
  // Candidates that the algorithm would still expand. For searches with a queue.
  std::uint64_t queued = 0;
  double seconds = 0;
  stop_reason stopped = stop_reason::exhausted;
};

// The result of a move.
struct candidate {
  cost_value cost = 0;
  unity::fingerprint fingerprint{};
};

template <class M>
concept small_move = std::is_trivially_copyable_v<M> && sizeof(M) <= 8 && std::equality_comparable<M>;

template <class S>
concept has_states = std::movable<typename S::state_type> && requires(S& s, const typename S::state_type& state) {
  { s.initial() } -> std::same_as<typename S::state_type>;
  { s.cost(state) } -> std::same_as<cost_value>;
  { s.fingerprint_of(state) } -> std::same_as<fingerprint>;
};
template <class S>
concept has_moves = small_move<typename S::move_type> && requires(S& s, const typename S::state_type& state) {
  { s.moves(state) } -> std::convertible_to<std::span<const typename S::move_type>>;
};
template <class S>
concept has_pricing = std::default_initializable<typename S::scratch_type> &&
                      requires(const S& s, const typename S::state_type& state, typename S::move_type move,
                               typename S::scratch_type& scratch) {
                        s.prepare(state, scratch);
                        { s.price(state, move, scratch) } -> std::same_as<std::optional<candidate>>;
                      };
template <class S>
concept has_application =
    requires(S& s, const typename S::state_type& state, typename S::move_type move, typename S::scratch_type& scratch) {
      { s.apply(state, move, scratch, scratch) } -> std::same_as<typename S::state_type>;
    };

// Enumerable moves with local prices (rewriting, fusion).
//   initial()                     the initial state
//   cost(state), fingerprint_of(state)
//   moves(state)                  all moves that may apply, in a stable order; moves inherited from the parent state
//                                 come first, in the parent's order
//   prepare(state, scratch)       prepares scratch for a state; one scratch per thread
//   price(state, move, scratch)   the cost and fingerprint of the state after the move, or nothing if it does
//                                 not apply here. Const: threads price moves of one state concurrently
//   apply(state, move, from, to)  that state; called by one thread at a time. Leaves `from` prepared for the old
//                                 state and `to`, another scratch, for the new one
// Laws: price(s, m) == {cost(apply(s, m)), fingerprint_of(apply(s, m))}; equal states have equal fingerprints; the
// order of moves and all results depend on the calls made, never on time, addresses or threads.
// Complexity: price in the size of the move, not of the state.
template <class S>
concept search_space = has_states<S> && has_moves<S> && has_pricing<S> && has_application<S>;

// canonical_fingerprint(state, scratch): equal for states with the same meaning even if their fingerprints differ. Used
// when a state is expanded; scratch is prepared for the state.
template <class S>
concept canonical_space =
    search_space<S> && requires(const S& s, const typename S::state_type& state, typename S::scratch_type& scratch) {
      { s.canonical_fingerprint(state, scratch) } -> std::same_as<fingerprint>;
    };

// independent(a, b): neither move touches what the other reads, so both orders are possible and lead to the same state.
// Lets searches explore a single interleaving (sleep sets).
template <class S>
concept commuting_space = search_space<S> && requires(const S& s, typename S::move_type a, typename S::move_type b) {
  { s.independent(a, b) } -> std::same_as<bool>;
};

// lower_bound(state): at most the cost of every state reachable from it.
template <class S>
concept bounded_space = search_space<S> && requires(const S& s, const typename S::state_type& state) {
  { s.lower_bound(state) } -> std::same_as<cost_value>;
};

// S::pricing_slice: how many moves a thread prices at a time, and a search between two looks at the clock. For spaces
// whose prices take longer than handing over work between threads; the default is for prices of a microsecond.
template <class S>
[[nodiscard]] constexpr std::size_t pricing_slice() noexcept {
  if constexpr (requires { std::size_t{S::pricing_slice}; }) {
    return S::pricing_slice;
  }
  return 256;
}

// end_at(time): after this time the space answers as soon as possible and may leave moves out, because the search is
// about to end.
template <class S>
concept timed_space = search_space<S> && requires(S& s, std::chrono::steady_clock::time_point when) { s.end_at(when); };

// memory(), memory(state): bytes held by the space itself and by one state, for budgets.
template <class S>
concept measured_space = search_space<S> && requires(const S& s, const typename S::state_type& state) {
  { s.memory() } -> std::same_as<std::size_t>;
  { s.memory(state) } -> std::same_as<std::size_t>;
};

}  // namespace unity
