// Evaluates synchronizations of weights for searches.
#pragma once

#include <optional>
#include <utility>

#include <unity/cost/cost_model.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/autodist/moves.hpp>
#include <unity/systems/autodist/simulation.hpp>

namespace unity::systems {

// Models unity::evaluator: the simulated time of an iteration in picoseconds. Each trial is a full simulation, because
// a move affects links that messages of other weights share, so nearly everything changes. Refers to the moves. Not
// thread-safe; copies are independent.
class sync_evaluator {
 public:
  using state_type = parallel::synchronization;
  using move_type = sync_change;

  sync_evaluator(sync_simulation simulation, const sync_moves& moves)
      : simulation_{std::move(simulation)}, moves_{&moves} {}

  // Throws: unity::error if the synchronization does not fit the plan.
  cost_value reset(const parallel::synchronization& s);
  [[nodiscard]] const parallel::synchronization& state() const noexcept { return state_; }
  [[nodiscard]] cost_value cost() const noexcept { return cost_; }
  std::optional<cost_value> try_move(const sync_change& c, cost_value bound);
  void commit();
  void rollback() { trial_.reset(); }

 private:
  [[nodiscard]] cost_value simulated(const parallel::synchronization& s) { return simulation_(s).iteration.count(); }

  sync_simulation simulation_;
  const sync_moves* moves_;
  parallel::synchronization state_{};
  cost_value cost_ = 0;
  std::optional<parallel::synchronization> trial_{};
  cost_value trial_cost_ = 0;
  bool has_state_ = false;
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_EVALUATOR)

#include <unity/core/config.hpp>

namespace unity::systems {

UNITY_INLINE cost_value sync_evaluator::reset(const parallel::synchronization& s) {
  trial_.reset();
  if (!has_state_ || !(s == state_)) {
    cost_ = simulated(s);
    state_ = s;
    has_state_ = true;
  }
  return cost_;
}

UNITY_INLINE std::optional<cost_value> sync_evaluator::try_move(const sync_change& c, cost_value bound) {
  trial_ = moves_->after(state_, c);
  if (!trial_) {
    return std::nullopt;
  }
  trial_cost_ = simulated(*trial_);
  if (trial_cost_ > bound) {
    trial_.reset();
    return std::nullopt;
  }
  return trial_cost_;
}

UNITY_INLINE void sync_evaluator::commit() {
  UNITY_EXPECTS(trial_.has_value(), "a trial that is open");
  state_ = std::move(*trial_);
  cost_ = trial_cost_;
  trial_.reset();
}

}  // namespace unity::systems

#endif
