// Simulates an iteration for a given synchronization of the weights, and evaluates synchronizations for searches.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/systems/autodist/moves.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::systems {

// A simulated result.
struct sync_outcome {
  picoseconds iteration{};  // average over consecutive iterations
  bytes moved{};            // over links, per iteration
};

// A plan whose synchronization varies. The algebra must outlive it. Not thread-safe; copies are independent.
class sync_simulation {
 public:
  // Throws: unity::error if the plan does not fit its graph and machine.
  sync_simulation(const tensor::algebra& a, parallel::plan p, tensor::durations durations);
  // With the roofline of its devices.
  sync_simulation(const tensor::algebra& a, parallel::plan p);

  [[nodiscard]] const parallel::plan& plan() const noexcept { return *plan_; }
  [[nodiscard]] parallel::plan plan_with(parallel::synchronization s) const;

  // The steady-state time after the first few iterations; if it stays irregular, the average over the last 4 of 8.
  // Complexity: lowering, and simulating 10 iterations.
  // Throws: unity::error if the synchronization does not fit the plan.
  [[nodiscard]] sync_outcome operator()(const parallel::synchronization& s);

  // A report on a single iteration, mainly for the memory of each device. Complexity: lowering, and one simulation.
  // Throws: unity::error if the synchronization does not fit the plan.
  [[nodiscard]] parallel::strategy_report report(const parallel::synchronization& s);

 private:
  const tensor::algebra* algebra_;
  std::shared_ptr<const parallel::plan> plan_;  // the lowering refers to it
  parallel::lowering lowering_;
};

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
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/iterations.hpp>

namespace unity::systems {

UNITY_INLINE sync_simulation::sync_simulation(const tensor::algebra& a, parallel::plan p, tensor::durations durations)
    : algebra_{&a},
      plan_{std::make_shared<const parallel::plan>(std::move(p))},
      lowering_{a, plan_->graph, plan_->machine, std::move(durations), parallel::transfers::exchanges, plan_->updates} {
  parallel::check(a, *plan_);
}

UNITY_INLINE sync_simulation::sync_simulation(const tensor::algebra& a, parallel::plan p)
    : sync_simulation{a, p, parallel::analytic_durations(a, p.machine)} {}

UNITY_INLINE parallel::plan sync_simulation::plan_with(parallel::synchronization s) const {
  auto p = *plan_;
  p.synchronization = std::move(s);
  return p;
}

UNITY_INLINE sync_outcome sync_simulation::operator()(const parallel::synchronization& s) {
  parallel::check(*algebra_, plan_->graph, s, plan_->machine.network.device_count());
  const auto code = lowering_.run(plan_->configurations, s);
  const auto carried = parallel::carried_dependencies(*algebra_, plan_with(s), code);
  return {simulate::run_until_steady(code, carried, 8, 8).time, parallel::message_bytes(code)};
}

UNITY_INLINE parallel::strategy_report sync_simulation::report(const parallel::synchronization& s) {
  parallel::check(*algebra_, plan_->graph, s, plan_->machine.network.device_count());
  return parallel::report_on(lowering_, plan_->graph, plan_->machine, plan_->configurations, {}, s);
}

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
