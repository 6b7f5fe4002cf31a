// A session that prices moves one after another, for algorithms that sample moves.
#pragma once

#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

// A drawn move. log_ratio: log(q(back) / q(forth)), where q is the probability of drawing the move or its inverse; 0 if
// they are equal.
template <class Move>
struct proposed {
  Move move{};
  double log_ratio = 0;
};

template <class E>
concept has_evaluation_types = requires {
  typename E::state_type;
  typename E::move_type;
} && std::copyable<typename E::state_type> && std::copyable<typename E::move_type>;

template <class E>
concept has_session = requires(E& e, const E& c, const typename E::state_type& state) {
  { e.reset(state) } -> std::same_as<cost_value>;
  { c.state() } -> std::convertible_to<const typename E::state_type&>;
  { c.cost() } -> std::same_as<cost_value>;
};

template <class E>
concept has_trial = requires(E& e, const typename E::move_type& move, cost_value bound) {
  { e.try_move(move, bound) } -> std::same_as<std::optional<cost_value>>;
  e.commit();
  e.rollback();
};

// Sampled moves with state between them (strategies under delta simulation). An evaluator is used by one thread at a
// time.
//   reset(state)           sets the current state; returns its cost
//   state(), cost()        of the current state
//   try_move(move, bound)  the cost after the move; or nothing, without effect, if that exceeds the bound or the
//                          move is impossible
//   commit(), rollback()   after a cost: accepts the result of the move as the current state, or restores the old state
// Laws: try_move returns the cost that reset returns for the state after commit; rollback restores all results; results
// depend on the calls made, never on time, addresses or threads.
// Complexity: try_move in what the move changes; it may stop early at the bound.
// Models: test/search/evaluator.cpp has the smallest. Non-model: a cost_model, which prices whole graphs.
template <class E>
concept evaluator = has_evaluation_types<E> && has_session<E> && has_trial<E>;

// sample(state, random): a move, or nothing if there is none. Const: threads may share it.
template <class P, class E>
concept proposal_for =
    evaluator<E> && requires(const P& p, const typename E::state_type& state, random_engine& random) {
      { p.sample(state, random) } -> std::same_as<std::optional<proposed<typename E::move_type>>>;
    };

// The states of an evaluator and numbered moves between them, as a search space.

// Describes the moves of an evaluator:
//   move_type                        small: the number of a change
//   moves(state)                     all moves that may change the state, in a stable order
//   change(move)                     what the evaluator tries
//   fingerprint_of(state)            equal for equal states
//   fingerprint_after(state, fingerprint, change)  of the state after the change; nothing if it changes nothing
// Const: threads share it. Law: fingerprint_after equals fingerprint_of for the resulting state.
template <class M, class E>
concept move_list_for = evaluator<E> && std::movable<M> && small_move<typename M::move_type> &&
                        requires(const M& m, const typename E::state_type& state, typename M::move_type move,
                                 const typename E::move_type& change, fingerprint before) {
                          { m.moves(state) } -> std::convertible_to<std::span<const typename M::move_type>>;
                          { m.change(move) } -> std::convertible_to<typename E::move_type>;
                          { m.fingerprint_of(state) } -> std::same_as<fingerprint>;
                          { m.fingerprint_after(state, before, change) } -> std::same_as<std::optional<fingerprint>>;
                        };

template <class State>
struct evaluated_state {
  State at{};
  cost_value cost = 0;
  unity::fingerprint fingerprint{};
};

// A model of search_space. Each scratch has a copy of the evaluator and is used by one thread at a time.
template <evaluator Evaluator, move_list_for<Evaluator> Moves>
  requires std::copyable<Evaluator>
class evaluator_space {
 public:
  using state_type = evaluated_state<typename Evaluator::state_type>;
  using move_type = typename Moves::move_type;
  static constexpr std::size_t pricing_slice = 1;  // a trial takes longer than handing it to a thread
  struct scratch_type {
    std::optional<Evaluator> evaluator{};
    unity::fingerprint at{};  // of the evaluator's state
  };

  evaluator_space(Moves moves, Evaluator evaluator, typename Evaluator::state_type start)
      : moves_{std::move(moves)}, prototype_{std::move(evaluator)}, start_{std::move(start)} {}

  [[nodiscard]] state_type initial() { return {start_, prototype_.reset(start_), moves_.fingerprint_of(start_)}; }
  [[nodiscard]] cost_value cost(const state_type& s) const noexcept { return s.cost; }
  [[nodiscard]] unity::fingerprint fingerprint_of(const state_type& s) const noexcept { return s.fingerprint; }
  [[nodiscard]] std::span<const move_type> moves(const state_type& s) const { return moves_.moves(s.at); }
  [[nodiscard]] typename Evaluator::move_type change(move_type m) const { return moves_.change(m); }

  // Complexity: one reset, unless the scratch is prepared for this state.
  void prepare(const state_type& s, scratch_type& scratch) const {
    if (scratch.evaluator && scratch.at == s.fingerprint) {
      return;
    }
    if (!scratch.evaluator) {
      scratch.evaluator.emplace(prototype_);
    }
    scratch.evaluator->reset(s.at);
    scratch.at = s.fingerprint;
  }
  // Nothing if the move changes nothing or is impossible. Complexity: one trial.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const {
    auto result = tried(s, change(m), scratch);
    if (result) {
      scratch.evaluator->rollback();
    }
    return result;
  }
  // Complexity: one trial, and prepare.
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to) const {
    prepare(s, from);
    prepare(s, to);
    const auto result = tried(s, change(m), to);
    UNITY_EXPECTS(result.has_value(), "a move that applies");
    to.evaluator->commit();
    to.at = result->fingerprint;
    return {to.evaluator->state(), result->cost, result->fingerprint};
  }

 private:
  // If it returns a candidate, the trial is open.
  [[nodiscard]] std::optional<candidate> tried(const state_type& s, const typename Evaluator::move_type& change,
                                               scratch_type& scratch) const {
    const auto after = moves_.fingerprint_after(s.at, s.fingerprint, change);
    if (!after) {
      return std::nullopt;
    }
    const auto cost = scratch.evaluator->try_move(change, std::numeric_limits<cost_value>::max());
    return cost ? std::optional{candidate{*cost, *after}} : std::nullopt;
  }

  Moves moves_;
  Evaluator prototype_;
  typename Evaluator::state_type start_;
};

}  // namespace unity
