// Unity's optimizer: searches algebraic rewrites and parallelization of a training iteration together.
// Source: Unger et al., Unity: accelerating DNN training through joint optimization of algebraic transformations and
// parallelization, OSDI 2022, section 5.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/memory_search.hpp>
#include <unity/systems/unity/options.hpp>
#include <unity/systems/unity/search_record.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

struct unity_result : search_record {
  tensor::tensor_graph graph{};  // of one micro-batch; dedicated operators deliver its outputs
  parallel::strategy strategy{};
  parallel::pipeline pipeline{};
  parallel::synchronization synchronization{};
  parallel::recomputation recomputed{};
  parallel::strategy_report report{};
  std::vector<memory_plan> frontier{};  // of time and memory, fastest first, if it was searched
  hardware::device_mesh mesh{};         // of the first stage; empty if the plan began on no mesh
  std::vector<applied_rule> rules{};    // substitutions that led to the graph, in order
  // A lower bound on the time of plans of this graph: of those on the machine's meshes, or of all plans if the plan is
  // on no mesh, beats that bound, or there was no time to find it.
  picoseconds mapping_bound{};
  std::uint64_t goals = 0;                       // of dynamic programs
  stop_reason stopped = stop_reason::exhausted;  // time: some step was cut short
  double seconds = 0;
};

// The fastest plan found for one training iteration. All given rules are used; without rules the graph is unchanged.
// Without time limits the result depends only on the seed.
// Throws: unity::error if an operator cannot be mapped onto any mesh, or if a tensor has more dimensions or a mesh more
// axes than a mesh_layout.
[[nodiscard]] unity_result unity(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g,
                                 const hardware::machine& m, tensor::durations durations,
                                 const unity_options& options = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY)

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/unity/computing_bound.hpp>
#include <unity/systems/unity/mapping_trials.hpp>
#include <unity/systems/unity/pipeline_trials.hpp>
#include <unity/systems/unity/polish_rounds.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/systems/unity/substituted_graphs.hpp>
#include <unity/tensor/convert.hpp>

namespace unity::systems::detail {

// The steps of one search, in order.
class unity_search {
 public:
  unity_search(const tensor::algebra& a, const hardware::machine& m, tensor::durations durations,
               const unity_options& options)
      : context_{a, m, std::move(durations), options} {}

  [[nodiscard]] unity_result run(const rule_set& rules, const tensor::tensor_graph& g);

 private:
  // The results of the steps before the polish.
  struct found_mappings {
    simulated_best first{};  // of the given graph
    simulated_best best{};   // without stages
    std::optional<simulated_pipeline> in_stages{};
  };
  // Effects: adds the graphs that substitutions yield.
  [[nodiscard]] found_mappings search(const rule_set& rules, std::vector<graph_variant>& variants);
  // Searches again without the last allowed kind of parallelism in the order of the paper's figure 15a, and returns the
  // best mapping of that search, or nothing if it is not better than `best`. The inner search does the same in turn,
  // down to a single kind; together the inner searches get at most a quarter of the time that is left. Runs only for
  // small graphs, whose searches take little of the time, and only if at least as much time is left as this search has
  // taken.
  // Effects: adds the graph of the result.
  [[nodiscard]] std::optional<simulated_best> best_of_fewer_kinds(const rule_set& rules, const simulated_best& best,
                                                                  std::vector<graph_variant>& variants);
  // Effects: makes the pipeline the result.
  void take(const simulated_pipeline& best, unity_result& r);
  // Effects: completes the result for the chosen plan, which has no stages. has_blocks: it is not on a mesh of all
  // devices.
  void finish(unity_result& r, bool has_blocks);
  // Effects: simulates plans that trade time for memory, for the given graph and for that of the best mapping. Does so
  // if options ask for them, if no plan fits in memory, or if a faster plan does not. Adopts the best of them as the
  // result if it is better.
  void trade_memory(std::span<const graph_variant> variants, const simulated_best& best, unity_result& r);
  // Effects: improves plans while there is time and progress: the best own plan, the plan of the given graph (because
  // substitutions that are predicted to help may lead away from it), plans of nearby graphs, and the known plans.
  // Adopts a better plan as the result.
  void polish(std::span<const graph_variant> variants, const found_mappings& found,
              std::span<const simulated_best> nearby, unity_result& r);
  // Effects: adopts the plan as the result if it is better; it has no mesh and no known substitutions.
  void take(known_plan p, unity_result& r);
  [[nodiscard]] std::uint64_t goals() const;

  search_context context_;
  mapping_trials mappings_{context_};
  pipeline_trials pipelines_{context_};
  // The search with one kind less. Kept because it owns the solvers of the mappings that it found.
  std::optional<unity_options> fewer_options_{};
  std::unique_ptr<unity_search> fewer_{};
  bool is_within_ = false;  // searches fewer kinds for another search
};

UNITY_INLINE unity_result unity_search::run(const rule_set& rules, const tensor::tensor_graph& g) {
  for (const auto v : g.outputs()) {
    if (g.operands(g.producer(v)).empty()) {
      throw error{"graph", "an output that no operator makes", "operators between inputs and outputs"};
    }
  }
  for (const auto v : value_ids(g)) {
    if (const auto rank = g.type(v).dims.size(); rank > parallel::mesh_layout::most_dimensions) {
      throw error{fmt::format("node {}", g.producer(v).index()), fmt::format("a tensor of {} dimensions", rank),
                  fmt::format("{} at most", parallel::mesh_layout::most_dimensions)};
    }
  }
  std::vector<graph_variant> variants{{tensor::with_delivered_outputs(context_.algebra, g), {}}};
  constexpr double without_memory = 0.6;
  const auto own_seconds = context_.time.own();
  context_.time.set_own(own_seconds * (context_.options.frontier ? without_memory : 1));
  auto found = search(rules, variants);
  auto& best = found.best;
  auto& in_stages = found.in_stages;
  unity_result r;
  const auto nearby = add_nearby(context_, mappings_, rules, variants, best.graph);
  if (!nearby.empty() && is_better(nearby.front().report, best.report)) {
    best = nearby.front();
  }
  context_.end_phase("nearby_graphs");
  const bool is_pipeline = in_stages && is_better(in_stages->report, best.report);
  const auto& chosen = variants[is_pipeline ? in_stages->graph : best.graph];
  r.rules = chosen.rules;
  if (is_pipeline) {
    take(*in_stages, r);
  } else {
    r.mesh = best.candidate.solver == nullptr ? hardware::device_mesh{} : best.candidate.solver->mesh();
    r.strategy = best.strategy;
    r.report = best.report;
    r.graph = chosen.graph;
    finish(r, split_mappings::has_blocks(best.candidate.solution));
  }
  context_.end_phase("bounds");
  context_.time.set_own(own_seconds);
  trade_memory(variants, best, r);
  context_.end_phase("memory");
  polish(variants, found, nearby, r);
  if (context_.options.frontier) {
    r.frontier.push_back({r.graph, r.strategy, r.pipeline, r.synchronization, r.recomputed, r.report});
    r.frontier = frontier_of(std::move(r.frontier));
  }
  r.goals = goals();
  for (const auto& one : mappings_.solvers()) {
    context_.time.note(one->ended_early());
  }
  r.seconds = context_.time.seconds();
  r.stopped = context_.time.ended_early() ? stop_reason::time : stop_reason::exhausted;
  static_cast<search_record&>(r) = std::move(context_.record);
  return r;
}

UNITY_INLINE std::uint64_t unity_search::goals() const {
  auto sum = pipelines_.goals() + (fewer_ ? fewer_->goals() : 0);
  for (const auto& one : mappings_.solvers()) {
    sum += one->goals();
  }
  return sum;
}

UNITY_INLINE auto unity_search::search(const rule_set& rules, std::vector<graph_variant>& variants) -> found_mappings {
  context_.record.graphs_bound = context_.computing_of(variants[0].graph);
  if (context_.is_small(variants[0].graph.node_count())) {
    mappings_.add_smaller_sets();
  }
  found_mappings all;
  all.first = mappings_.simulate(variants[0], 0);
  all.best = all.first;
  auto& best = all.best;
  context_.end_phase("mappings");
  add_substituted(context_, mappings_, rules, variants);
  context_.end_phase("substitutions");
  for (std::size_t v = 1; v < variants.size() && !context_.time.is_past_deadline(); ++v) {
    if (const auto other = mappings_.simulate(variants[v], v); is_better(other.report, best.report)) {
      best = other;
    }
  }
  context_.end_phase("mappings_after_substitutions");
  all.in_stages = pipelines_.best(variants, best);
  context_.end_phase("pipelines");
  if (auto split = mappings_.best_split(variants, best); split && is_better(split->report, best.report)) {
    best = *std::move(split);
  }
  context_.end_phase("splits");
  if (auto fewer = best_of_fewer_kinds(rules, best, variants)) {
    best = *std::move(fewer);
  }
  context_.end_phase("fewer_kinds");
  return all;
}

UNITY_INLINE auto unity_search::best_of_fewer_kinds(const rule_set& rules, const simulated_best& best,
                                                    std::vector<graph_variant>& variants)
    -> std::optional<simulated_best> {
  using use = parallel::index_use;
  constexpr std::array order{use::data,    use::model,     use::reduction, use::special,
                             use::spatial, use::placement, use::pipeline};
  const auto last = std::find_if(order.rbegin(), order.rend(), [&](use k) { return context_.allows(k); });
  const auto uses = last == order.rend() ? 0 : context_.options.uses & ~bit(*last);
  const auto left = context_.time.own_left();
  if (uses == 0 || !context_.options.joint.dynamic || !context_.is_small(variants[0].graph.node_count()) ||
      left < context_.time.seconds()) {
    return std::nullopt;
  }
  fewer_options_ = context_.options;
  fewer_options_->uses = uses;
  fewer_options_->proposals = 0;
  fewer_options_->known = {};
  fewer_options_->known_share = 0;
  fewer_ = std::make_unique<unity_search>(context_.algebra, context_.machine, context_.durations, *fewer_options_);
  // Only the outermost search gives a share of its time, so that inner searches do not get too little.
  fewer_->context_.time.set_own(is_within_ ? left : left / 4);
  fewer_->is_within_ = true;
  std::vector<graph_variant> theirs{{variants[0].graph, {}}};
  auto found = fewer_->search(rules, theirs).best;
  const auto& of_them = fewer_->context_.record;
  context_.time.note(fewer_->context_.time.ended_early());
  context_.record.expanded += of_them.expanded;
  context_.record.graphs_bound = std::min(context_.record.graphs_bound, of_them.graphs_bound);
  if (!is_better(found.report, best.report)) {
    return std::nullopt;
  }
  variants.push_back(std::move(theirs[found.graph]));
  found.graph = variants.size() - 1;
  const auto* solver = found.candidate.solver;
  context_.record.simulated.push_back({found.graph, solver != nullptr ? solver->mesh() : hardware::device_mesh{}, 1, 1,
                                       uses, found.candidate.predicted, found.report,
                                       split_mappings::has_blocks(found.candidate.solution)});
  return found;
}

UNITY_INLINE void unity_search::take(const simulated_pipeline& best, unity_result& r) {
  const auto& c = best.candidate;
  r.mesh = c.solver->mesh();
  r.strategy = pipeline_search::strategy_of(c);
  r.pipeline = pipeline_search::pipeline_of(c);
  r.report = best.report;
  r.graph = c.graph->graph;
  r.mapping_bound = picoseconds{context_.computing_of(r.graph).count() * c.graph->count};
  if (!c.solvers.empty()) {
    return;
  }
  try {
    const auto of_one = work_bound(c.graph->ops, c.stage->solvers, c.solver->mesh().devices.size());
    r.mapping_bound = picoseconds{of_one.count() * c.graph->count / c.mapping.stage_count};
  } catch (const out_of_time&) {  // a mesh of a stage was not searched in time and has no tables
    context_.time.note(true);
  }
}

UNITY_INLINE void unity_search::finish(unity_result& r, bool has_blocks) {
  r.mapping_bound = context_.computing_of(r.graph);
  // Building tables of meshes on which no mapping was searched takes time. Tables have the times of the slowest kind of
  // device. So they give no bound if there are several kinds, or for a plan on blocks.
  if (context_.time.is_past_deadline() || has_blocks || context_.models.size() > 1) {
    return;
  }
  const auto& solvers = mappings_.solvers();
  for (const auto& solver : solvers) {
    solver->end_in(context_.time.seconds_for(0.1));
  }
  try {
    const analyzed_graph analyzed{context_.algebra, r.graph, context_.clock.dimensions()};
    r.mapping_bound =
        std::max(work_bound(analyzed.ops, solvers, context_.devices()), path_bound(analyzed.ops, solvers));
  } catch (const out_of_time&) {
    context_.time.note(true);
  }
  for (const auto& solver : solvers) {
    solver->end_in(std::numeric_limits<double>::infinity());
  }
}

UNITY_INLINE void unity_search::trade_memory(std::span<const graph_variant> variants, const simulated_best& best,
                                             unity_result& r) {
  // The memory limit costs time if nothing fits, or if a faster plan does not fit.
  const auto& simulated = context_.record.simulated;
  const bool is_limited =
      !r.report.excess.empty() || std::any_of(simulated.begin(), simulated.end(), [&](const simulated_mapping& s) {
        return !s.report.excess.empty() && s.report.iteration < r.report.iteration;
      });
  if ((!context_.options.frontier && !is_limited) || !context_.options.joint.dynamic) {
    return;
  }
  constexpr std::size_t most_solvers = 3;
  std::vector<std::pair<mesh_solver*, int>> solvers;
  for (const auto& c : mappings_.of_given()) {
    const bool is_known =
        std::any_of(solvers.begin(), solvers.end(), [&](const auto& k) { return k.first == c.solver; });
    if (mappings_.is_on_all_devices(c) && !is_known && solvers.size() < most_solvers) {
      solvers.emplace_back(c.solver, c.objective.synchronizing_16ths);
    }
  }
  const auto graphs = best.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{best.graph, 0};
  memory_options o;
  o.program_tasks = context_.options.program_tasks;
  o.stages = context_.allows(parallel::index_use::pipeline) ? context_.options.stages : 1;
  o.mesh_axes = std::max<std::size_t>(context_.options.mesh_axes, 2) - 1;
  o.uses = context_.options.uses;
  o.optimizer = context_.options.optimizer;
  o.memory_limit = context_.memory_limit;
  o.is_whole = context_.options.frontier;
  constexpr double share = 0.6;  // share of the time that is left; the polish has the rest
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    o.seconds = std::max(0.0, share * context_.time.left() / static_cast<double>(graphs.size() - i));
    const auto& variant = variants[graphs[i]];
    for (auto& p : memory_plans(context_.algebra, context_.machine, context_.routes, context_.clock, context_.durations,
                                variant.graph, solvers, o)) {
      context_.record.simulated.push_back({graphs[i],
                                           {},
                                           p.pipeline.stage_count(),
                                           p.pipeline.microbatches,
                                           context_.options.uses,
                                           {},
                                           p.report,
                                           false,
                                           p.pipeline.schedule,
                                           p.pipeline.chunks});
      const bool is_smaller = context_.options.frontier && p.report.iteration == r.report.iteration &&
                              p.report.memory_peak() < r.report.memory_peak() && r.report.excess.empty();
      if (is_smaller || is_better(p.report, r.report)) {
        r.mapping_bound = picoseconds{context_.computing_of(p.graph).count() * p.pipeline.microbatches};
        r.mesh = {};
        r.rules = variant.rules;
        r.graph = p.graph;
        r.strategy = p.strategy;
        r.pipeline = p.pipeline;
        r.synchronization = p.synchronization;
        r.recomputed = p.recomputed;
        r.report = p.report;
      }
      if (context_.options.frontier) {
        r.frontier.push_back(std::move(p));
      }
    }
  }
}

UNITY_INLINE void unity_search::polish(std::span<const graph_variant> variants, const found_mappings& found,
                                       std::span<const simulated_best> nearby, unity_result& r) {
  const auto& options = context_.options;
  const auto known = options.known && context_.time.left() > 0 ? options.known() : std::vector<known_plan>{};
  if (options.known) {
    context_.end_phase("baselines");
  }
  std::vector<polish_start> starts;
  std::vector<const simulated_best*> own;  // by start; known plans come after them
  const auto add = [&](const simulated_best& one) {
    starts.push_back({variants[one.graph].graph, one.strategy, one.candidate.solver});
    own.push_back(&one);
  };
  if (!found.best.report.is_of_representatives()) {
    add(found.best);
  }
  if (!found.first.report.is_of_representatives() && found.best.graph != 0) {
    add(found.first);
  }
  for (const auto& one : nearby) {
    if (one.graph != found.best.graph) {
      add(one);
    }
  }
  for (const auto& k : known) {
    if (options.uses == parallel::all_index_uses) {
      take(k, r);
      starts.push_back({k.graph, k.strategy});
    }
  }
  for (auto& p : polished(context_, std::move(starts))) {
    if (!is_better(p.report, r.report)) {
      continue;
    }
    const auto* from = p.start < own.size() ? own[p.start] : nullptr;
    const bool is_mapped = from != nullptr && r.graph == p.graph && p.report.iteration >= r.mapping_bound;
    const auto bound = is_mapped ? r.mapping_bound : p.bound;
    take({std::move(p.graph), std::move(p.plan), std::move(p.report)}, r);
    r.mapping_bound = bound;
    if (from != nullptr) {
      r.mesh = from->candidate.solver != nullptr ? from->candidate.solver->mesh() : hardware::device_mesh{};
      r.rules = variants[from->graph].rules;
    }
  }
  context_.end_phase("polish");
}

UNITY_INLINE void unity_search::take(known_plan p, unity_result& r) {
  if (!is_better(p.report, r.report)) {
    return;
  }
  r.mapping_bound = context_.computing_of(p.graph);
  context_.record.graphs_bound = std::min(context_.record.graphs_bound, r.mapping_bound);
  r.mesh = {};
  r.rules.clear();
  r.graph = std::move(p.graph);
  r.strategy = std::move(p.strategy);
  r.pipeline = {};
  r.synchronization = {};
  r.recomputed = {};
  r.report = std::move(p.report);
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE unity_result unity(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g,
                                const hardware::machine& m, tensor::durations durations, const unity_options& options) {
  return detail::unity_search{a, m, std::move(durations), options}.run(rules, g);
}

}  // namespace unity::systems

#endif
