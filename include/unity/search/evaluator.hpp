// A session that prices moves one after another, as algorithms that sample moves see it.
#pragma once

#include <concepts>
#include <optional>
#include <type_traits>

#include <unity/core/random.hpp>
#include <unity/cost/cost_model.hpp>

namespace unity {

// A drawn move. log_ratio: log(q(back) / q(forth)), where q is the probability of drawing the move and the one that
// undoes it; 0 where they are equal.
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

// Sampled moves with state between them (strategies under delta simulation). One thread uses one evaluator.
//   reset(state)           makes it the current state; its cost
//   state(), cost()        of the current state
//   try_move(move, bound)  the cost after the move; or nothing where that is more than the bound or the move cannot be
//                          made, and nothing has changed
//   commit(), rollback()   after a cost: the move's result becomes the current state, or all is as before
// Laws: try_move gives what reset gives for the state that commit leads to; after rollback every answer is as
// before the trial; answers depend on the calls made, never on time, addresses or threads.
// Complexity: try_move in what the move changes, and it may stop early at the bound.
// Models: test/search/evaluator.cpp has the smallest. Non-model: a cost_model, which prices whole graphs.
template <class E>
concept evaluator = has_evaluation_types<E> && has_session<E> && has_trial<E>;

// sample(state, random): a move, or nothing where no move leads away. Const: threads may share it.
template <class P, class E>
concept proposal_for =
    evaluator<E> && requires(const P& p, const typename E::state_type& state, random_engine& random) {
      { p.sample(state, random) } -> std::same_as<std::optional<proposed<typename E::move_type>>>;
    };

}  // namespace unity
