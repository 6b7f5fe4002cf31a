// A session that prices moves one after another, for algorithms that sample moves.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>

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

}  // namespace unity
