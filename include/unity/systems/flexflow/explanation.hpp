// Explains how each operator of a plan is divided: its cost and the best alternative.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::systems {

// Regular.
struct strategy_price {
  cost_value cost = 0;  // the iteration in picoseconds; more than over_memory if the strategy does not fit in memory
  picoseconds iteration{};  // whether it fits or not

  [[nodiscard]] bool fits() const noexcept { return cost < over_memory; }

  friend bool operator==(const strategy_price&, const strategy_price&) = default;
};

// Another configuration of an operator. All others are unchanged, or the rest of its unit follows it.
struct explained_alternative {
  parallel::configuration to{};
  std::size_t operators = 1;  // that change
  strategy_price price{};

  friend bool operator==(const explained_alternative&, const explained_alternative&) = default;
};

struct operator_explanation {
  node_id node{};
  std::string name{};
  picoseconds computing{};                      // all its tasks of one micro-batch, summed over devices
  picoseconds receiving{};                      // messages for its operands and their gradients, summed over links
  picoseconds gradients{};                      // reductions and updates of the weights whose first reader it is
  std::size_t priced = 0;                       // alternatives
  std::optional<explained_alternative> next{};  // the cheapest alternative; nullopt if none was priced

  [[nodiscard]] picoseconds total() const { return computing + receiving + gradients; }
};

// Prices changes to a plan: by delta simulation if the plan is just a strategy; by full simulation if it has stages,
// micro-batches, recomputation or synchronization methods. The plan and the algebra must outlive it.
class plan_prices {
 public:
  // Throws: unity::error if the plan does not fit its graph and machine.
  plan_prices(const tensor::algebra& a, const parallel::plan& p, tensor::durations durations);

  // Of the plan itself.
  [[nodiscard]] const strategy_price& own() const noexcept { return own_; }
  // nullopt if the change is not valid for the plan, such as devices of another stage. Complexity: that of a
  // simulation.
  [[nodiscard]] std::optional<strategy_price> price(const strategy_change& change);
  [[nodiscard]] parallel::lowering& lowering() noexcept { return lowering_; }
  [[nodiscard]] const parallel::plan& plan() const noexcept { return plan_; }

 private:
  [[nodiscard]] strategy_price simulated(const parallel::strategy& s);

  const parallel::plan& plan_;
  parallel::lowering lowering_;
  std::unique_ptr<strategy_evaluator> evaluator_{};  // null: full simulations
  strategy_price own_{};
};

// All operators of the plan, the most expensive first. The best alternative is taken over all degrees on aligned blocks
// of devices, for the operator alone and, if others follow it (parallel::units_of), for the whole unit. go_on: called
// before each alternative; once false, the rest stays unpriced. Complexity: a price for each alternative;
// parallel::placements::all gives their number.
[[nodiscard]] std::vector<operator_explanation> explain(const tensor::algebra& a, plan_prices& prices,
                                                        const std::function<bool()>& go_on);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW_EXPLANATION)

#include <algorithm>
#include <limits>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/tasks/program.hpp>

namespace unity::systems {

UNITY_INLINE plan_prices::plan_prices(const tensor::algebra& a, const parallel::plan& p, tensor::durations durations)
    : plan_{p}, lowering_{a, p.graph, p.machine, std::move(durations), parallel::transfers::exchanges, p.updates} {
  const bool is_plain = p.pipeline.is_trivial() && p.synchronization.is_trivial() &&
                        std::find(p.recomputed.begin(), p.recomputed.end(), true) == p.recomputed.end() &&
                        std::find(p.offloaded.begin(), p.offloaded.end(), true) == p.offloaded.end();
  if (is_plain) {
    evaluator_ = std::make_unique<strategy_evaluator>(lowering_, parallel::memory_limits(p.machine));
    own_.cost = evaluator_->reset(p.configurations);
    own_.iteration = evaluator_->simulation().iteration_time();
  } else {
    own_ = simulated(p.configurations);
  }
}

UNITY_INLINE std::optional<strategy_price> plan_prices::price(const strategy_change& change) {
  if (evaluator_) {
    const auto cost = evaluator_->try_move(change, std::numeric_limits<cost_value>::max());
    if (!cost) {
      return std::nullopt;
    }
    const strategy_price found{*cost, evaluator_->simulation().iteration_time()};
    evaluator_->rollback();
    return found;
  }
  auto s = plan_.configurations;
  for (const auto& r : change) {
    s[r.node.index()] = r.to;
  }
  try {
    parallel::check(plan_.graph, s, plan_.pipeline, plan_.machine.network.device_count());
  } catch (const error&) {
    return std::nullopt;
  }
  return simulated(s);
}

UNITY_INLINE strategy_price plan_prices::simulated(const parallel::strategy& s) {
  const auto report = parallel::report_on(lowering_, plan_.graph, plan_.machine, s, plan_.pipeline,
                                          plan_.synchronization, plan_.recomputed, plan_.offloaded);
  cost_value over = 0;
  for (const auto& e : report.excess) {
    over += e.over.count();
  }
  const auto time = report.iteration.count();
  return {over == 0 ? time : over_memory + 1000 * over + time, report.iteration};
}

UNITY_INLINE std::vector<operator_explanation> explain(const tensor::algebra& a, plan_prices& prices,
                                                       const std::function<bool()>& go_on) {
  const auto& p = prices.plan();
  auto& l = prices.lowering();
  const auto program = l.run(p.configurations, p.synchronization, p.recomputed, {}, p.offloaded);
  const auto taken = [&](tasks::fragment_id f) {
    picoseconds sum{};
    for (const auto& t : program[f].tasks) {
      sum += t.duration;
    }
    return sum;
  };
  const strategy_moves moves{a, p.graph, l.dimensions(), p.machine.network.device_count()};
  std::vector<std::optional<std::size_t>> led(p.graph.node_count());  // the unit whose lead is the node
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    if (moves.units()[u].nodes.size() > 1) {
      led[moves.units()[u].lead.index()] = u;
    }
  }
  std::vector<operator_explanation> all;
  for (const auto n : moves.operators()) {
    operator_explanation e{n, program.owner_of(l.fragment_of(n)).name, taken(l.fragment_of(n)), {}, {}, 0, {}};
    for (const auto edge : l.training().edges_of(n)) {
      e.receiving += l.training().edges()[edge].to == n ? taken(l.edge_fragment(edge)) : picoseconds{};
    }
    for (const auto w : l.training().weights_of(n)) {
      e.gradients += l.training().weights()[w].uses.front().node == n ? taken(l.weight_fragment(w)) : picoseconds{};
    }
    all.push_back(std::move(e));
  }
  unity::stable_sort(all, [](const auto& x, const auto& y) { return x.total() > y.total(); });
  for (auto& e : all) {
    const auto consider = [&](const strategy_change& change, const parallel::configuration& to) {
      if (const auto price = prices.price(change)) {
        ++e.priced;
        if (!e.next || price->cost < e.next->price.cost) {
          e.next = explained_alternative{to, change.size(), *price};
        }
      }
    };
    for (const auto& c : moves.placements().all(e.node)) {
      if (c == p.configurations[e.node.index()]) {
        continue;
      }
      if (!go_on()) {
        return all;
      }
      consider({{e.node, c}}, c);
      if (const auto unit = led[e.node.index()]) {
        consider(moves.change_unit(*unit, c), c);
      }
    }
  }
  return all;
}

}  // namespace unity::systems

#endif
