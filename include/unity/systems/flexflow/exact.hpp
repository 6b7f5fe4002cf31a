// Finds a provably optimal SOAP strategy of a small graph.
// Source: Jia's dissertation (2020), section 3.7.5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy_bound.hpp>
#include <unity/parallel/strategies/strategy_tables.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Models unity::assignment_problem: each operator in turn gets one of its configurations. Costs are those of
// strategy_evaluator, and bounds those of parallel::strategy_bound, which hold because exceeding memory only increases
// a cost. Refers to the choices and tables.
class strategy_problem {
 public:
  strategy_problem(const parallel::strategy_choices& choices, const parallel::strategy_tables& tables,
                   strategy_evaluator evaluator)
      : choices_{&choices}, bound_{tables}, evaluator_{std::move(evaluator)} {}

  [[nodiscard]] std::size_t decision_count() const noexcept { return choices_->size(); }
  [[nodiscard]] std::size_t choice_count(std::size_t decision) const {
    return choices_->configurations[decision].size();
  }
  cost_value push(std::uint32_t choice) { return bound_.push(choice).count(); }
  void pop() { bound_.pop(); }

  // Complexity: a trial with the differences from the last strategy that was priced.
  std::optional<cost_value> cost(cost_value bound);
  [[nodiscard]] parallel::strategy strategy_of(const std::vector<std::uint32_t>& made) const;

 private:
  const parallel::strategy_choices* choices_;
  parallel::strategy_bound bound_;
  strategy_evaluator evaluator_;
};

struct flexflow_exact_options : search_options {
  parallel::block_strides strides = parallel::block_strides::one;
};

struct flexflow_exact_result {
  parallel::strategy best{};
  cost_value cost = 0;         // picoseconds, or at least over_memory
  cost_value lower_bound = 0;  // no strategy of the space costs less
  double strategies = 0;       // size of the space
  std::vector<improvement> history{};
  counters counts{};            // see branch_and_bound_result
  std::uint64_t simulated = 0;  // complete strategies
  double seconds = 0;
  stop_reason stopped = stop_reason::exhausted;
};

// The cheapest strategy among those with operators on aligned blocks of devices (parallel::placements) and the initial
// ones, of which there may be none; better ones shorten the search. Does not exploit symmetry of devices. If it ends
// with stop_reason::exhausted, best is a proven optimum; see branch_and_bound.
// Complexity: see parallel::strategy_tables and branch_and_bound; for graphs of some tens of operators and few devices.
// Throws: unity::error if an initial strategy does not fit the graph and machine, or there are too many choices
// (strategy_tables).
[[nodiscard]] flexflow_exact_result flexflow_exact(const tensor::tensor_graph& g, const hardware::machine& m,
                                                   parallel::lowering lowering,
                                                   const std::vector<parallel::strategy>& initial,
                                                   const flexflow_exact_options& options = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_EXACT)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/systems/flexflow/moves.hpp>

namespace unity::systems {

UNITY_INLINE std::optional<cost_value> strategy_problem::cost(cost_value bound) {
  const auto& made = bound_.choices();
  UNITY_EXPECTS(made.size() == choices_->size(), "all decisions");
  if (evaluator_.state().empty()) {
    const auto cost = evaluator_.reset(strategy_of(made));
    return cost <= bound ? std::optional{cost} : std::nullopt;
  }
  strategy_change change;
  for (const auto& [op, options, number] : ranges::views::zip(choices_->operators, choices_->configurations, made)) {
    if (evaluator_.state()[op.index()] != options[number]) {
      change.push_back({op, options[number]});
    }
  }
  const auto cost = evaluator_.try_move(change, bound);
  if (cost) {
    evaluator_.commit();
  }
  return cost;
}

UNITY_INLINE parallel::strategy strategy_problem::strategy_of(const std::vector<std::uint32_t>& made) const {
  parallel::strategy s(evaluator_.dimensions().node_count());
  for (const auto& [op, options, number] : ranges::views::zip(choices_->operators, choices_->configurations, made)) {
    s[op.index()] = options[number];
  }
  return s;
}

UNITY_INLINE flexflow_exact_result flexflow_exact(const tensor::tensor_graph& g, const hardware::machine& m,
                                                  parallel::lowering lowering,
                                                  const std::vector<parallel::strategy>& initial,
                                                  const flexflow_exact_options& options) {
  const auto devices = m.network.device_count();
  const stopwatch clock;
  const auto choices = parallel::choices_of(g, parallel::placements{lowering.dimensions(), devices, options.strides});
  const parallel::strategy_tables tables{lowering, choices, devices};
  strategy_evaluator evaluator{std::move(lowering), parallel::memory_limits(m)};
  flexflow_exact_result r;
  branch_and_bound_options bounded{options};
  for (const auto& s : initial) {
    if (const auto cost = evaluator.reset(s); cost < bounded.incumbent) {
      bounded.incumbent = cost;
      r.best = s;
    }
  }
  strategy_problem problem{choices, tables, std::move(evaluator)};
  bounded.limits.seconds = std::max(0.0, options.limits.seconds - clock.seconds());
  const auto found = branch_and_bound(problem, bounded);
  if (found.best) {
    r.best = problem.strategy_of(*found.best);
  }
  r.strategies = 1;
  for (const auto& c : choices.configurations) {
    r.strategies *= static_cast<double>(c.size());
  }
  r.cost = found.cost;
  r.lower_bound = found.lower_bound;
  r.history = found.history;
  r.counts = found.counts;
  r.simulated = found.evaluated;
  r.seconds = clock.seconds();
  r.stopped = found.stopped;
  return r;
}

}  // namespace unity::systems

#endif
