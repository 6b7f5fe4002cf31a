// Simulates pipelines of whole graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/systems/unity/mapping_trials.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/systems/unity/program_size.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/systems/unity/unequal_stages.hpp>

namespace unity::systems::detail {

struct simulated_pipeline {
  std::size_t graph = 0;
  pipeline_candidate candidate{};
  parallel::strategy_report report{};
};

// Owns what its results refer to. What it simulates is recorded in the context.
class pipeline_trials {
 public:
  explicit pipeline_trials(search_context& c) : context_{c} {}

  // Simulates the most promising pipelines of two graphs, the given one and that of the best mapping, and returns the
  // best. Tries equal stages, then, with a tenth of the time for each graph, unequal ones; and further schedules for
  // the best of both. Nothing if pipelines are not allowed, or if all are predicted to be much slower than the mapping.
  [[nodiscard]] std::optional<simulated_pipeline> best(std::span<const graph_variant> variants,
                                                       const simulated_best& without);
  [[nodiscard]] std::uint64_t goals() const { return pipelines_ ? pipelines_->goals() : 0; }

 private:
  // Pipelines of equal stages, simulated: the first few in order of prediction, without those predicted to be slower
  // than `slowest`.
  [[nodiscard]] std::vector<simulated_pipeline> equal(std::span<const graph_variant> variants,
                                                      std::span<const std::size_t> graphs, picoseconds slowest);
  // The same for unequal stages. Leaves out pipelines whose programs are too large to simulate one device of each kind.
  [[nodiscard]] std::vector<simulated_pipeline> unequal(std::span<const graph_variant> variants,
                                                        std::span<const std::size_t> graphs, picoseconds slowest);
  // Effects: sorts them and tries other schedules for the first few. The best of all comes first.
  void try_schedules(std::vector<simulated_pipeline>& found);
  [[nodiscard]] simulated_pipeline simulated(std::size_t graph, pipeline_candidate c);
  [[nodiscard]] parallel::strategy_report report_on(const pipeline_candidate& c) const;
  [[nodiscard]] std::uint64_t folded_tasks(const pipeline_candidate& c) const {
    return c.folded_tasks(context_.options.program_tasks, context_.devices());
  }
  // The predicted seconds of its report.
  [[nodiscard]] double needed(const pipeline_candidate& c) const {
    const auto folded = folded_tasks(c);
    return folded > 0 ? folding_.seconds(folded) : context_.time.reported();
  }

  search_context& context_;
  std::optional<pipeline_search> pipelines_{};
  folding_pace folding_{};  // separate from context_.time, by which later steps predict other reports
};

}  // namespace unity::systems::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_PIPELINE_TRIALS)

#include <algorithm>
#include <limits>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/strategies/folded_report.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>

namespace unity::systems::detail {

UNITY_INLINE std::optional<simulated_pipeline> pipeline_trials::best(std::span<const graph_variant> variants,
                                                                     const simulated_best& without) {
  if (!context_.allows(parallel::index_use::pipeline) || !context_.options.joint.dynamic ||
      context_.time.is_past_deadline()) {
    return std::nullopt;
  }
  pipelines_.emplace(context_.algebra, context_.machine, context_.routes, context_.clock,
                     pipeline_options{context_.options.stages, std::max<std::size_t>(context_.options.mesh_axes, 2) - 1,
                                      context_.options.uses, context_.options.optimizer, context_.memory_limit});
  // Predictions are wrong by at most a factor of two.
  const auto slowest = without.report.excess.empty() ? 2 * without.report.iteration
                                                     : picoseconds{std::numeric_limits<std::int64_t>::max()};
  const auto graphs = without.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, without.graph};
  auto found = equal(variants, graphs, slowest);
  try_schedules(found);
  auto others = unequal(variants, graphs, slowest);
  try_schedules(others);
  if (!others.empty() && (found.empty() || is_better(others.front().report, found.front().report))) {
    return std::move(others.front());
  }
  return found.empty() ? std::nullopt : std::optional{std::move(found.front())};
}

UNITY_INLINE std::vector<simulated_pipeline> pipeline_trials::equal(std::span<const graph_variant> variants,
                                                                    std::span<const std::size_t> graphs,
                                                                    picoseconds slowest) {
  std::vector<simulated_pipeline> found;
  for (const auto v : graphs) {
    auto all = pipelines_->run(variants[v].graph, context_.time.own_left());
    static_cast<void>(context_.time.is_past_deadline());
    std::uint64_t tasks = 0;  // limits simulations of large programs
    for (std::size_t i = 0;
         i < std::min(all.size(), context_.options.candidates) && tasks <= context_.options.program_tasks; ++i) {
      if (all[i].predicted > slowest || context_.time.is_past_deadline(context_.time.reported())) {
        continue;
      }
      found.push_back(simulated(v, std::move(all[i])));
      tasks += found.back().report.tasks;
    }
  }
  return found;
}

UNITY_INLINE std::vector<simulated_pipeline> pipeline_trials::unequal(std::span<const graph_variant> variants,
                                                                      std::span<const std::size_t> graphs,
                                                                      picoseconds slowest) {
  constexpr double share = 0.1;
  auto& time = context_.time;
  std::vector<simulated_pipeline> found;
  unequal_stages search{*pipelines_};
  const auto can_simulate = [&](std::size_t operators, std::uint32_t stages, std::int64_t microbatches) {
    return !context_.is_large(operators, stages, microbatches) || context_.can_fold(operators, stages, microbatches);
  };
  for (const auto v : graphs) {
    const auto most = static_cast<std::uint32_t>(std::min(context_.options.stages, unequal_stages::most_stages));
    if (!can_simulate(variants[v].graph.node_count(), most, 2)) {
      continue;
    }
    const auto end = time.seconds() + time.seconds_for(share);
    auto all = search.run(variants[v].graph, time.seconds_for(share) / 2);
    time.note(search.ended_early());
    std::uint64_t tasks = 0;
    for (std::size_t i = 0; i < std::min(all.size(), context_.options.candidates); ++i) {
      const auto& g = *all[i].graph;
      const bool is_out =
          all[i].predicted > slowest || !can_simulate(g.ops.size(), all[i].mapping.stage_count, g.count);
      if (!is_out && tasks <= context_.options.program_tasks && !time.note(time.seconds() + needed(all[i]) >= end)) {
        tasks += folded_tasks(all[i]);
        found.push_back(simulated(v, std::move(all[i])));
        tasks += found.back().report.tasks;
      }
    }
  }
  return found;
}

UNITY_INLINE void pipeline_trials::try_schedules(std::vector<simulated_pipeline>& found) {
  constexpr std::size_t few = 3;
  std::uint64_t tasks = 0;
  unity::stable_sort(
      found, [](const simulated_pipeline& x, const simulated_pipeline& y) { return is_better(x.report, y.report); });
  auto all = found;
  for (std::size_t i = 0; i < std::min(found.size(), few); ++i) {
    for (auto& c : pipelines_->schedules_of(found[i].candidate, context_.time.own_left())) {
      const bool is_apart = c.mapping.schedule == parallel::pipeline_schedule::zero_bubble;
      const bool is_whole =
          !c.solvers.empty() || !context_.is_large(c.graph->ops.size(), c.mapping.stage_count, c.graph->count);
      if ((is_apart && !is_whole) || tasks > context_.options.program_tasks ||
          context_.time.is_past_deadline(needed(c))) {
        continue;  // mesh_report does not support separate weight gradients
      }
      tasks += folded_tasks(c);
      all.push_back(simulated(found[i].graph, std::move(c)));
      tasks += all.back().report.tasks;
      if (is_better(all.back().report, all.front().report)) {
        std::swap(all.back(), all.front());
      }
    }
  }
  found = std::move(all);
}

UNITY_INLINE simulated_pipeline pipeline_trials::simulated(std::size_t graph, pipeline_candidate c) {
  const auto folded = folded_tasks(c);
  const stopwatch watch;
  auto report = folded > 0 ? report_on(c) : context_.time.timed([&] { return report_on(c); });
  if (folded > 0) {
    folding_.took(folded, watch.seconds());
  }
  context_.record.simulated.push_back({graph, c.solver->mesh(), c.mapping.stage_count, c.graph->count, c.solver->uses(),
                                       c.predicted, report, false, c.mapping.schedule, c.mapping.chunks});
  return {graph, std::move(c), std::move(report)};
}

UNITY_INLINE parallel::strategy_report pipeline_trials::report_on(const pipeline_candidate& c) const {
  const bool is_large = context_.is_large(c.graph->ops.size(), c.mapping.stage_count, c.graph->count);
  if (is_large && c.solvers.empty()) {
    return parallel::mesh_report(context_.algebra, context_.machine, c.solver->tables(), c.stage->stages, c.graph->ops,
                                 c.mapping, c.graph->count);
  }
  const auto& g = c.graph->graph;
  const auto s = pipeline_search::strategy_of(c);
  const auto stages = pipeline_search::pipeline_of(c);
  auto lowering = context_.lowering_of(g);
  return is_large ? parallel::folded_report(lowering, g, context_.machine, s, stages, {}, {},
                                            most_exact_tasks(context_.options.program_tasks, c.graph->count))
                  : parallel::report_on(lowering, g, context_.machine, s, stages);
}

}  // namespace unity::systems::detail

#endif
