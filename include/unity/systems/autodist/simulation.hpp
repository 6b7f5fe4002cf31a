// Simulates an iteration for a given synchronization of the weights.
#pragma once

#include <memory>
#include <optional>

#include <unity/core/units.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
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

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_AUTODIST_SIMULATION)

#include <utility>

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

}  // namespace unity::systems

#endif
