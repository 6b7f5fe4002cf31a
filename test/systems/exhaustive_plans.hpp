// The fastest plan of a small graph on a few devices by exhaustive search. It uses no tables, layouts or predictions of
// Unity's search, only the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy_tables.hpp>
#include <unity/search/branch_and_bound.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/exact.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::test {

// Device lists for tasks in a grid: aligned blocks of every device or of every second one; where two axes of the grid
// have more than one task, with either of them the inner one.
inline std::vector<std::vector<hardware::device_id>> device_lists(std::size_t tasks, std::size_t devices,
                                                                  bool is_grid) {
  std::vector<std::vector<hardware::device_id>> all;
  for (std::size_t stride = 1; stride * tasks <= devices && (stride == 1 || tasks > 1); stride *= 2) {
    for (std::size_t first = 0; first < devices; ++first) {
      if (first % (stride * tasks) < stride) {
        auto& list = all.emplace_back();
        for (std::size_t t = 0; t < tasks; ++t) {
          list.emplace_back(first + t * stride);
        }
      }
    }
  }
  if (is_grid) {
    auto list = all[0];
    std::swap(list[1], list[2]);
    all.push_back(std::move(list));
  }
  return all;
}

// Every division of an operator into 1, 2 or 4 tasks (dimensions, sums, terms and copies) on each device list. sums:
// results may be partial sums.
inline std::vector<parallel::configuration> all_configurations(const parallel::operator_dimensions& o,
                                                               std::size_t devices, bool sums) {
  const auto axes = o.divisible.size() + o.reductions.size() + o.groups.size() + 1;
  std::vector<parallel::configuration> all;
  std::vector<std::int64_t> degrees(axes, 1);
  const auto add = [&] {
    parallel::configuration c;
    std::size_t tasks = 1;
    std::size_t divided = 0;
    for (const auto d : degrees) {
      tasks *= static_cast<std::size_t>(d);
      divided += d > 1 ? 1 : 0;
    }
    auto next = degrees.begin();
    const auto take = [&](parallel::degree_list& into, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        into.push_back(*next++);
      }
    };
    take(c.degrees, o.divisible.size());
    take(c.reductions, o.reductions.size());
    take(c.partials, o.groups.size());
    c.copies = *next;
    if (!sums && parallel::product(c.reductions) * parallel::product(c.partials) > 1) {
      return;
    }
    for (const auto& list : device_lists(tasks, devices, divided > 1)) {
      c.devices = {};
      for (const auto d : list) {
        c.devices.push_back(d);
      }
      if (parallel::why_not(o, c, devices).empty()) {
        all.push_back(c);
      }
    }
  };
  const auto extend = [&](const auto& self, std::size_t axis, std::size_t left) -> void {
    if (axis == axes) {
      add();
      return;
    }
    for (std::size_t d = 1; d <= left; d *= 2) {
      degrees[axis] = static_cast<std::int64_t>(d);
      self(self, axis + 1, left / d);
    }
    degrees[axis] = 1;
  };
  extend(extend, 0, devices);
  return all;
}

struct exhaustive_result {
  std::optional<parallel::strategy> best{};  // if faster than `known`
  cost_value cost = 0;                       // the cost of `best`, or `known`
  cost_value lower_bound = 0;                // no plan is faster
  bool is_complete = true;
  std::uint64_t simulated = 0;
};

// Branch and bound over all configurations of all operators. The bound is the longest path and the loads of the decided
// operators, which are lower bounds on the simulator's time (parallel/strategies/strategy_bound). known: searches only
// for plans faster than this.
inline exhaustive_result exhaustive_plan(const tensor::algebra& a, const tensor::tensor_graph& g,
                                         const hardware::machine& m, cost_value known, std::uint64_t most_prefixes) {
  parallel::lowering lowering{a, g, m};
  std::vector<bool> is_output(g.node_count());
  for (const auto v : g.outputs()) {
    is_output[g.producer(v).index()] = true;
  }
  const auto devices = m.network.device_count();
  parallel::strategy_choices choices;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      choices.operators.push_back(n);
      choices.configurations.push_back(all_configurations(lowering.dimensions()[n], devices, !is_output[n.index()]));
    }
  }
  const parallel::strategy_tables tables{lowering, choices, devices};
  systems::strategy_problem problem{choices, tables,
                                    systems::strategy_evaluator{std::move(lowering), parallel::memory_limits(m)}};
  branch_and_bound_options options;
  options.incumbent = known;
  options.limits.expansions = most_prefixes;
  const auto found = branch_and_bound(problem, options);
  exhaustive_result r{{}, found.cost, found.lower_bound, found.stopped == stop_reason::exhausted, found.evaluated};
  if (found.best) {
    r.best = problem.strategy_of(*found.best);
  }
  return r;
}

}  // namespace unity::test
