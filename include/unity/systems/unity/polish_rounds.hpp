// Improves several plans in rounds, which share the time and the proposals that are left.
#pragma once

#include <cstddef>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems::detail {

struct polish_start {
  tensor::tensor_graph graph{};
  parallel::strategy plan{};
  mesh_solver* solver = nullptr;  // of the plan's mesh; null: it is on none
};

struct polished_plan {
  std::size_t start = 0;  // the position of the plan that it comes from
  tensor::tensor_graph graph{};
  parallel::strategy plan{};
  parallel::strategy_report report{};
  picoseconds bound{};  // lower bound on all plans of the graph
};

// Returns the plans that became better, in the order of the starts. After every second round, only the better half of
// the plans is improved further. Leaves out plans that are too large, of which nothing may change, or for which there
// is no time.
// Effects: counts proposals in the context.
[[nodiscard]] std::vector<polished_plan> polished(search_context& c, std::vector<polish_start> starts);

}  // namespace unity::systems::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_POLISH_ROUNDS)

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/systems/unity/mesh_proposal.hpp>
#include <unity/systems/unity/part_proposal.hpp>
#include <unity/systems/unity/plan_polish.hpp>

namespace unity::systems::detail {

// A plan with what it refers to. Immovable.
struct plan_in_polish {
  std::size_t start;
  tensor::tensor_graph graph;
  parallel::lowering lowering;
  picoseconds bound{};
  std::uint64_t proposals;  // maximum, including proposals from other plans
  std::uint64_t idle;
  std::optional<plan_polish> plan{};

  plan_in_polish(const search_context& c, std::size_t from, tensor::tensor_graph g)
      : start{from},
        graph{std::move(g)},
        lowering{c.lowering_of(graph)},
        proposals{c.options.proposals},
        idle{c.options.idle} {}
};

// Null if the plan is too large, nothing of it may change, or there is no time.
UNITY_INLINE std::unique_ptr<plan_in_polish> begin_polish(search_context& c, std::size_t number, polish_start s) {
  const bool is_free = c.options.uses == parallel::all_index_uses;
  if (c.time.is_over(2 * c.time.reported()) || c.options.proposals == 0 || c.is_large(s.graph.node_count(), 1, 1) ||
      (s.solver == nullptr && !is_free)) {
    return nullptr;
  }
  auto one = std::make_unique<plan_in_polish>(c, number, std::move(s.graph));
  std::optional<part_proposal> mesh;
  if (s.solver != nullptr) {
    const parallel::operator_graph ops{c.algebra, one->graph, one->lowering.dimensions(), one->lowering.training()};
    // For larger graphs, simulations are slow and parts are too many.
    const bool in_parts = is_free && c.is_small(ops.size());
    const bool in_all = in_parts && c.is_tiny(ops.size());
    mesh.emplace(mesh_proposal{*s.solver, ops}, ops, in_parts ? c.devices() : 0,
                 in_all ? part_moves::all : part_moves::connected);
    const auto times = (in_parts ? 8 : 1) * (in_all ? c.tiny_factor : 1);
    one->proposals *= one->proposals < std::numeric_limits<std::uint64_t>::max() / times ? times : 1;
    one->idle *= in_all ? c.tiny_factor : 1;
  }
  one->bound = c.computing_of(one->graph);
  one->plan.emplace(c.algebra, one->graph, c.machine, one->lowering, std::move(s.plan), std::move(mesh), is_free);
  return one;
}

UNITY_INLINE void improve_all(search_context& c, std::span<const std::unique_ptr<plan_in_polish>> plans) {
  polish_options o;
  o.watch = c.options.watch;
  const auto limit = c.options.limits.seconds;
  const auto patience = limit < std::numeric_limits<double>::infinity() ? c.options.patience * limit : 0;
  auto last_better = c.time.seconds();
  std::vector<plan_in_polish*> active;
  for (const auto& one : plans) {
    active.push_back(one.get());
  }
  bool goes_on = true;
  for (std::size_t round = 1; goes_on; ++round) {
    goes_on = false;
    for (auto* one : active) {
      auto& plan = *one->plan;
      const auto most = std::min(one->proposals, c.options.limits.expansions);
      o.proposals = most - std::min(most, c.record.proposals);
      // Reserves time to simulate the result once more at the end.
      o.seconds = c.time.left() - 2 * c.time.reported();
      const bool is_idle = plan.is_idle(one->idle) && c.time.seconds() - last_better >= patience;
      if (o.proposals == 0 || is_idle || plan.cost() <= one->bound.count()) {
        continue;
      }
      if (o.seconds <= c.time.reported()) {  // a round begins with a full simulation
        c.time.note(true);
        return;
      }
      o.seed = c.options.seed;
      const auto before = plan.proposals();
      const auto cost = plan.cost();
      if (plan.improve(o) == stop_reason::observer) {
        return;
      }
      c.record.proposals += std::min(o.proposals, plan.proposals() - before);
      last_better = plan.cost() < cost ? c.time.seconds() : last_better;
      goes_on = true;
    }
    if (round % 2 == 0) {  // the better half shares what is left
      unity::stable_sort(active, [](const auto* a, const auto* b) { return a->plan->cost() < b->plan->cost(); });
      active.resize((active.size() + 1) / 2);
    }
  }
}

UNITY_INLINE std::vector<polished_plan> polished(search_context& c, std::vector<polish_start> starts) {
  std::vector<std::unique_ptr<plan_in_polish>> plans;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (auto one = begin_polish(c, i, std::move(starts[i]))) {
      plans.push_back(std::move(one));
    }
  }
  improve_all(c, plans);
  std::vector<polished_plan> better;
  for (const auto& one : plans) {
    if (one->plan->is_better()) {
      auto report = parallel::report_on(one->lowering, one->graph, c.machine, one->plan->best());
      better.push_back({one->start, std::move(one->graph), one->plan->best(), std::move(report), one->bound});
    }
  }
  return better;
}

}  // namespace unity::systems::detail

#endif
