// Unity's optimizer: searches algebraic rewrites and parallelization of a training iteration together.
// Source: Unger et al., Unity: accelerating DNN training through joint optimization of algebraic transformations and
// parallelization, OSDI 2022, section 5. Over 500 lines because the steps of one search share what they have found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/unity/branch_splits.hpp>
#include <unity/systems/unity/computing_bound.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mapping_candidates.hpp>
#include <unity/systems/unity/memory_search.hpp>
#include <unity/systems/unity/mesh_room.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/systems/unity/plan_polish.hpp>
#include <unity/systems/unity/unequal_stages.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// limits.expansions counts simulated proposals of the polish. Time limits are checked between steps. limits.memory and
// `aside` are not for this search.
struct unity_options : search_options {
  std::uint64_t seed = 0;
  parallel::index_uses uses = parallel::all_index_uses;
  std::size_t mesh_axes = 3;
  std::vector<hardware::device_mesh> meshes{};  // additional meshes to those of the machine
  std::size_t stages = 64;                      // maximum of pipelines
  std::size_t candidates = 12;  // mappings to simulate per graph (4 times as many in small programs), and pipelines
  std::uint64_t program_tasks = 2'000'000;  // for larger programs, only one device of each stage is simulated
  // Of the polish from the best of them: 8 times as many if it moves parts, and 128 times for tiny graphs, whose
  // operators times devices are at most 64.
  std::uint64_t proposals = 300;
  // The polish ends after this many without improvement (16 times as many for tiny graphs), plus 2% for each node,
  std::uint64_t idle = 2000;
  double patience = 0;  // and after this share of the time limit without improvement
  // Plans of other searches, requested after this search's own steps. Their graphs must be equivalent to the given one.
  // If all index uses are allowed, a better plan is adopted, and the polish starts from them, too; time limits include
  // them.
  std::function<std::vector<known_plan>()> known{};
  double known_share = 0;  // share of the time limit for `known`
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  // Also searches plans that trade time for memory (memory_search.hpp), for which the steps before leave 40% of their
  // time. false: only if no plan fits in memory.
  bool frontier = false;
  joint_options joint{};
};

// A simulated mapping.
struct simulated_mapping {
  std::size_t graph = 0;         // 0: the given one; others: results of substitutions for one objective
  hardware::device_mesh mesh{};  // of the first stage's devices
  std::uint32_t stages = 1;
  std::int64_t microbatches = 1;
  parallel::index_uses uses = 0;
  picoseconds predicted{};
  parallel::strategy_report report{};
  bool is_split = false;  // branches run on separate blocks of devices
  parallel::pipeline_schedule schedule = parallel::pipeline_schedule::one_forward_one_backward;
  std::uint32_t chunks = 1;
};

// The duration of one step of the search, in seconds.
struct search_phase {
  std::string_view name{};
  double seconds = 0;
};

struct unity_result {
  tensor::tensor_graph graph{};  // of one micro-batch; dedicated operators deliver its outputs
  parallel::strategy strategy{};
  parallel::pipeline pipeline{};
  parallel::synchronization synchronization{};
  parallel::recomputation recomputed{};
  parallel::strategy_report report{};
  std::vector<memory_plan> frontier{};  // of time and memory, fastest first, if it was searched
  hardware::device_mesh mesh{};         // of the first stage; empty if the plan began on no mesh
  std::vector<applied_rule> rules{};    // substitutions that led to the graph, in order
  std::vector<simulated_mapping> simulated{};
  // A lower bound on mappings of this graph onto the meshes; if the polish found a faster plan on no mesh, on all plans
  // of the graph.
  picoseconds mapping_bound{};
  picoseconds graphs_bound{};  // lower bound on all plans of all graphs considered
  std::size_t segments = 0;
  std::uint64_t goals = 0;     // of dynamic programs
  std::uint64_t expanded = 0;  // graphs whose substitutions were considered
  std::uint64_t proposals = 0;
  std::vector<search_phase> phases{};
  stop_reason stopped = stop_reason::exhausted;  // time: some step was cut short
  double seconds = 0;
};

namespace detail {

// All device kinds that a mesh of all devices may contain.
[[nodiscard]] std::vector<std::uint32_t> models_of(const hardware::machine& m);

class unity_search {
 public:
  unity_search(const tensor::algebra& a, const hardware::machine& m, tensor::durations durations,
               const unity_options& options);

  [[nodiscard]] unity_result run(const rule_set& rules, const tensor::tensor_graph& g);

 private:
  // Whether to skip a further step for lack of time.
  [[nodiscard]] bool is_late(double needed = 0) {
    const bool late = watch_.seconds() + needed >= own_seconds_;
    ended_early_ = ended_early_ || late;
    return late;
  }
  // Effects: assigns the time since the last phase to this one.
  void end_phase(std::string_view name, unity_result& r);
  // The seconds for a step with this share of the total time, starting now.
  [[nodiscard]] double seconds_for(double share) const {
    return std::max(0.0, std::min(share * own_seconds_, own_seconds_ - watch_.seconds()));
  }
  [[nodiscard]] parallel::strategy_report timed(const std::function<parallel::strategy_report()>& report);
  void add_room(const hardware::device_mesh& mesh, parallel::index_uses uses);
  // Effects: adds rooms with the cumulative sets of index uses of the paper's figure 15a. A further use may not bring
  // its predicted gain; then a plan without it is available.
  void add_smaller_sets();
  // A graph and the substitutions that led to it.
  struct graph_variant {
    tensor::tensor_graph graph{};
    std::vector<applied_rule> rules{};
    std::vector<mapping_candidate> candidates{};  // set once it is simulated
  };
  // The best simulated mapping of a graph.
  struct simulated_best {
    std::size_t graph = 0;
    mapping_candidate candidate{};
    parallel::strategy strategy{};
    parallel::strategy_report report{};
  };

  [[nodiscard]] simulated_best simulate(graph_variant& v, std::size_t number, unity_result& r);
  // Divides samples: the fallback if there was no time for a mapping.
  [[nodiscard]] simulated_best simple(const graph_variant& v, std::size_t number, parallel::lowering& lowering);
  // The best simulated mapping with branches on blocks of devices, for the given graph and for the graph of the best
  // mapping without blocks, within their share of the time.
  [[nodiscard]] std::optional<simulated_best> best_split(const std::vector<graph_variant>& variants,
                                                         const simulated_best& without, unity_result& r);
  // Takes the rooms and objectives of the few cheapest candidates on all devices, and returns for each the cheapest
  // mapping with branches on blocks, cheapest first.
  [[nodiscard]] std::vector<mapping_candidate> split_candidates(const parallel::operator_graph& ops,
                                                                const std::vector<mapping_candidate>& all,
                                                                const std::function<bool()>& late);
  // Effects: adds rooms of subsets of the devices that could compute the graph within that time by themselves. Returns
  // whether there are any.
  [[nodiscard]] bool add_parts(const tensor::tensor_graph& g, picoseconds time);
  // All rooms for the given graph; for other graphs, the rooms with the best mappings of the given one.
  [[nodiscard]] std::vector<mesh_room*> rooms_for(std::size_t graph) const;
  // Whether a program of all devices with that many micro-batches would be too large.
  [[nodiscard]] bool is_large(std::size_t operators, std::uint32_t stages, std::int64_t microbatches) const {
    const auto of_one = 2 * operators * machine_.network.device_count() / stages;
    return of_one * static_cast<std::uint64_t>(microbatches) > options_.program_tasks;
  }
  // Whether the graph has so few operators that trying more per device costs little.
  [[nodiscard]] bool is_small(std::size_t operators) const {
    constexpr std::size_t few = 1024;
    return operators * machine_.network.device_count() <= few;
  }
  // Whether the graph has so few operators that all kinds of moves and all graphs a substitution away are tried. For
  // larger ones that would take proposals from what finds more.
  [[nodiscard]] bool is_tiny(std::size_t operators) const { return is_small(tiny_factor * operators); }
  [[nodiscard]] parallel::strategy_report report_of_representatives(mesh_room& room,
                                                                    const parallel::operator_graph& ops,
                                                                    const std::vector<std::uint32_t>& options) const;

  // The best simulated pipeline of the given graph and of the graph of the best mapping so far, over the best few under
  // each schedule.
  struct simulated_pipeline {
    std::size_t graph = 0;
    pipeline_candidate candidate{};
    parallel::strategy_report report{};
  };
  [[nodiscard]] std::optional<simulated_pipeline> best_pipeline(const std::vector<graph_variant>& variants,
                                                                const simulated_best& without, unity_result& r);
  // Likewise of pipelines whose stages differ, in a tenth of the time.
  [[nodiscard]] std::vector<simulated_pipeline> unequal_pipelines(const std::vector<graph_variant>& variants,
                                                                  std::span<const std::size_t> graphs,
                                                                  std::int64_t slowest, unity_result& r);
  // Effects: tries other schedules for the first few, and puts better ones in front of all.
  void try_schedules(std::vector<simulated_pipeline>& best_first, unity_result& r);
  [[nodiscard]] simulated_pipeline simulated(std::size_t graph, pipeline_candidate c, unity_result& r);
  [[nodiscard]] parallel::strategy_report report_on(const pipeline_candidate& c) const;
  void take(simulated_pipeline best, unity_result& r);

  // What the steps before the polish find.
  struct found_mappings {
    simulated_best first{};  // of the given graph
    simulated_best best{};   // without stages
    std::optional<simulated_pipeline> in_stages{};
  };
  // Effects: adds the graphs that substitutions lead to.
  [[nodiscard]] found_mappings search(const rule_set& rules, std::vector<graph_variant>& variants, unity_result& r);
  // The best mapping that a search without the last kind of parallelism finds, in the order of the paper's figure 15a;
  // that search asks another one in turn. Nothing if it is not better than `best`. For small graphs, whose searches
  // take little of the time; in at most a quarter of what is left, and only if what this search took so far can be had
  // again.
  // Effects: adds the graph of the result.
  [[nodiscard]] std::optional<simulated_best> best_of_fewer_kinds(const rule_set& rules, const simulated_best& best,
                                                                  std::vector<graph_variant>& variants,
                                                                  unity_result& r);
  [[nodiscard]] std::uint64_t goals() const;
  // Effects: adopts the plan as the result if it is better; it has no mesh and no known substitutions.
  void take(known_plan p, unity_result& r);

  // Effects: simulates plans that trade time for memory, of the given graph and of the best mapping's, if they are
  // asked for or nothing fits; adopts the best as the result if it is better.
  void trade_memory(const std::vector<graph_variant>& variants, const simulated_best& best, unity_result& r);

  // Effects: adds graphs after substitutions for the cheapest mesh, with gradient reductions counted in full and not
  // counted; the latter also with only samples and weights divided; and with only samples divided, as those reductions
  // overlap best.
  void add_variants(const rule_set& rules, std::vector<graph_variant>& variants, unity_result& r);
  // Effects: adds the graphs one substitution away from a tiny given one and from the best mapping's: what gains only
  // together with a placement is not predicted to. Returns their best mappings, best first.
  [[nodiscard]] std::vector<simulated_best> add_nearby(const rule_set& rules, std::vector<graph_variant>& variants,
                                                       std::size_t best, unity_result& r);
  // Effects: completes the result for the chosen plan, which has no stages. has_blocks: it is not on a mesh of all
  // devices.
  void finish(unity_result& r, bool has_blocks);
  [[nodiscard]] picoseconds computing_of(const tensor::tensor_graph& g) {
    return computing_.of(analyzed_graph{algebra_, g}.ops);
  }
  [[nodiscard]] static bool is_better(const parallel::strategy_report& a, const parallel::strategy_report& b);
  // A plan to improve, with what it refers to.
  struct polish_start;
  // Effects: improves, while there is time and progress, the best own plan, the given graph's plan (which substitutions
  // that are predicted to help may not reach), plans of nearby graphs, and the known plans.
  void polish(const std::vector<graph_variant>& variants, const simulated_best& best, const simulated_best& first,
              std::span<const simulated_best> nearby, unity_result& r);
  // null if the plan is too large, or nothing of it may change.
  [[nodiscard]] std::unique_ptr<polish_start> start(tensor::tensor_graph g, const parallel::strategy& s,
                                                    mesh_room* room);
  void improve_all(std::span<const std::unique_ptr<polish_start>> starts, unity_result& r);
  // A lower bound: the sum over operators of the minimum over meshes, divided by the number of devices; some device
  // computes at least as long. Weight updates are excluded, because operators may share weights.
  [[nodiscard]] static picoseconds bound(const parallel::operator_graph& ops,
                                         const std::vector<std::unique_ptr<mesh_room>>& rooms, std::size_t devices);

  static constexpr std::uint64_t tiny_factor = 16;  // by which tiny graphs are smaller, and have more proposals
  static constexpr auto samples_alone = parallel::index_uses{1} << static_cast<unsigned>(parallel::index_use::data);

  const tensor::algebra& algebra_;
  const hardware::machine& machine_;
  tensor::durations durations_;
  const unity_options& options_;
  hardware::route_table routes_;
  parallel::shard_clock clock_;
  computing_bound computing_;
  std::vector<std::unique_ptr<mesh_room>> rooms_{};
  std::optional<split_mappings> splits_{};  // nullopt if placement is not allowed
  std::optional<pipeline_search> pipelines_{};
  std::vector<mapping_candidate> first_{};  // for the given graph
  // The search with one kind less, which has the rooms of what it found.
  std::optional<unity_options> fewer_options_{};
  std::unique_ptr<unity_search> fewer_{};
  bool is_within_ = false;    // a search of fewer kinds, for another one
  std::int64_t limit_ = 0;    // memory in bytes of the smallest device; 0: unknown
  bool ended_early_ = false;  // whether some step was cut short
  double own_seconds_;        // without the polish
  double reported_ = 0;       // of the longest report
  double phase_end_ = 0;
  stopwatch watch_{};
};

}  // namespace detail

// The fastest plan found for one training iteration. All given rules are used; without rules the graph is unchanged.
// Without time limits the result depends only on the seed.
// Throws: unity::error if an operator cannot be mapped onto any mesh.
[[nodiscard]] inline unity_result unity(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g,
                                        const hardware::machine& m, tensor::durations durations,
                                        const unity_options& options = {}) {
  return detail::unity_search{a, m, std::move(durations), options}.run(rules, g);
}

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY)

#include <array>
#include <bit>
#include <limits>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/convert.hpp>

namespace unity::systems::detail {

UNITY_INLINE std::vector<std::uint32_t> models_of(const hardware::machine& m) {
  std::vector<std::uint32_t> models;
  for (const auto& d : m.network.devices()) {
    if (std::find(models.begin(), models.end(), d.model) == models.end()) {
      models.push_back(d.model);
    }
  }
  return models;
}

UNITY_INLINE unity_search::unity_search(const tensor::algebra& a, const hardware::machine& m,
                                        tensor::durations durations, const unity_options& options)
    : algebra_{a},
      machine_{m},
      durations_{durations},
      options_{options},
      routes_{m.network, fmt::format("machine {}", m.name)},
      clock_{a, durations, models_of(m)},
      computing_{a, std::move(durations), models_of(m), m.network.device_count()},
      own_seconds_{0.75 * (1 - options.known_share) * options.limits.seconds} {
  for (const auto limit : parallel::memory_limits(m)) {
    limit_ = limit_ == 0 ? limit.count() : std::min(limit_, limit.count() == 0 ? limit_ : limit.count());
  }
  auto meshes = hardware::meshes_of(m.network, options.mesh_axes);
  for (const auto& mesh : options.meshes) {
    hardware::check(m.network, mesh);
    meshes.push_back(mesh);
  }
  // The best plan with fewer uses is often close to the overall best, and simulation may prefer it.
  constexpr auto bit = [](parallel::index_use use) { return parallel::index_uses{1} << static_cast<unsigned>(use); };
  std::vector<parallel::index_uses> sets{options.uses};
  for (const auto fewer :
       {options.uses & ~bit(parallel::index_use::placement),
        options.uses & (samples_alone | bit(parallel::index_use::model)), options.uses & samples_alone}) {
    if (fewer != 0 && std::find(sets.begin(), sets.end(), fewer) == sets.end()) {
      sets.push_back(fewer);
    }
  }
  for (const auto& mesh : meshes) {
    for (const auto uses : sets) {
      add_room(mesh, uses);
    }
  }
  if (parallel::has(options.uses, parallel::index_use::placement) && options.joint.dynamic) {
    constexpr std::size_t axes = 2;  // blocks are small
    splits_.emplace(a, m, routes_, clock_, options.uses & ~bit(parallel::index_use::placement), options.optimizer,
                    std::min(axes, options.mesh_axes), limit_);
  }
}

UNITY_INLINE unity_result unity_search::run(const rule_set& rules, const tensor::tensor_graph& g) {
  unity_result r;
  for (const auto v : g.outputs()) {
    if (g.operands(g.producer(v)).empty()) {
      throw error{"graph", "an output that no operator makes", "operators between inputs and outputs"};
    }
  }
  std::vector<graph_variant> variants{{tensor::with_delivered_outputs(algebra_, g), {}}};
  constexpr double without_memory = 0.6;
  const auto own_seconds = own_seconds_;
  own_seconds_ *= options_.frontier ? without_memory : 1;
  auto found = search(rules, variants, r);
  auto& best = found.best;
  auto& in_stages = found.in_stages;
  const auto nearby = add_nearby(rules, variants, best.graph, r);
  if (!nearby.empty() && is_better(nearby.front().report, best.report)) {
    best = nearby.front();
  }
  end_phase("nearby_graphs", r);
  const bool is_pipeline = in_stages && is_better(in_stages->report, best.report);
  const auto& chosen = variants[is_pipeline ? in_stages->graph : best.graph];
  r.rules = chosen.rules;
  if (is_pipeline) {
    take(*std::move(in_stages), r);
  } else {
    r.mesh = best.candidate.room == nullptr ? hardware::device_mesh{} : best.candidate.room->mesh();
    r.strategy = best.strategy;
    r.report = best.report;
    r.graph = chosen.graph;
    finish(r, split_mappings::has_blocks(best.candidate.solution));
  }
  end_phase("bounds", r);
  own_seconds_ = own_seconds;
  trade_memory(variants, best, r);
  end_phase("memory", r);
  polish(variants, best, found.first, nearby, r);
  if (options_.frontier) {
    r.frontier.push_back({r.graph, r.strategy, r.pipeline, r.synchronization, r.recomputed, r.report});
    r.frontier = frontier_of(std::move(r.frontier));
  }
  r.goals = goals();
  for (const auto& one : rooms_) {
    ended_early_ = ended_early_ || one->ended_early();
  }
  r.seconds = watch_.seconds();
  r.stopped = ended_early_ ? stop_reason::time : stop_reason::exhausted;
  return r;
}

UNITY_INLINE std::uint64_t unity_search::goals() const {
  std::uint64_t sum = (pipelines_ ? pipelines_->goals() : 0) + (fewer_ ? fewer_->goals() : 0);
  for (const auto& one : rooms_) {
    sum += one->goals();
  }
  return sum;
}

UNITY_INLINE auto unity_search::search(const rule_set& rules, std::vector<graph_variant>& variants, unity_result& r)
    -> found_mappings {
  r.graphs_bound = computing_of(variants[0].graph);
  if (is_small(variants[0].graph.node_count())) {
    add_smaller_sets();
  }
  found_mappings all;
  all.first = simulate(variants[0], 0, r);
  all.best = all.first;
  auto& best = all.best;
  end_phase("mappings", r);
  add_variants(rules, variants, r);
  end_phase("substitutions", r);
  for (std::size_t v = 1; v < variants.size() && !is_late(); ++v) {
    if (const auto other = simulate(variants[v], v, r); is_better(other.report, best.report)) {
      best = other;
    }
  }
  end_phase("mappings_after_substitutions", r);
  all.in_stages = best_pipeline(variants, best, r);
  end_phase("pipelines", r);
  if (auto split = best_split(variants, best, r); split && is_better(split->report, best.report)) {
    best = *std::move(split);
  }
  end_phase("splits", r);
  if (auto fewer = best_of_fewer_kinds(rules, best, variants, r)) {
    best = *std::move(fewer);
  }
  end_phase("fewer_kinds", r);
  return all;
}

UNITY_INLINE auto unity_search::best_of_fewer_kinds(const rule_set& rules, const simulated_best& best,
                                                    std::vector<graph_variant>& variants, unity_result& r)
    -> std::optional<simulated_best> {
  using use = parallel::index_use;
  constexpr std::array order{use::data,    use::model,     use::reduction, use::special,
                             use::spatial, use::placement, use::pipeline};
  const auto last = std::find_if(order.rbegin(), order.rend(), [&](use k) { return parallel::has(options_.uses, k); });
  const auto uses =
      last == order.rend() ? 0 : options_.uses & ~(parallel::index_uses{1} << static_cast<unsigned>(*last));
  const auto left = own_seconds_ - watch_.seconds();
  if (uses == 0 || !options_.joint.dynamic || !is_small(variants[0].graph.node_count()) || left < watch_.seconds()) {
    return std::nullopt;
  }
  fewer_options_ = options_;
  fewer_options_->uses = uses;
  fewer_options_->proposals = 0;
  fewer_options_->known = {};
  fewer_options_->known_share = 0;
  fewer_ = std::make_unique<unity_search>(algebra_, machine_, durations_, *fewer_options_);
  // Of the time only the outermost search gives a share, so that searches within searches are not ended by a tiny one.
  fewer_->own_seconds_ = is_within_ ? left : left / 4;
  fewer_->is_within_ = true;
  std::vector<graph_variant> theirs{{variants[0].graph, {}}};
  unity_result of_them;
  auto found = fewer_->search(rules, theirs, of_them).best;
  ended_early_ = ended_early_ || fewer_->ended_early_;
  r.expanded += of_them.expanded;
  r.graphs_bound = std::min(r.graphs_bound, of_them.graphs_bound);
  if (!is_better(found.report, best.report)) {
    return std::nullopt;
  }
  variants.push_back(std::move(theirs[found.graph]));
  found.graph = variants.size() - 1;
  const auto* room = found.candidate.room;
  r.simulated.push_back({found.graph, room != nullptr ? room->mesh() : hardware::device_mesh{}, 1, 1, uses,
                         picoseconds{found.candidate.predicted}, found.report,
                         split_mappings::has_blocks(found.candidate.solution)});
  return found;
}

UNITY_INLINE void unity_search::add_room(const hardware::device_mesh& mesh, parallel::index_uses uses) {
  rooms_.push_back(
      std::make_unique<mesh_room>(algebra_, machine_, routes_, mesh, clock_, uses, options_.optimizer, limit_));
  if (!options_.joint.dynamic) {
    rooms_.back()->enumerate_until(watch_, own_seconds_);
  }
}

UNITY_INLINE void unity_search::add_smaller_sets() {
  using use = parallel::index_use;
  const auto count = rooms_.size();
  parallel::index_uses uses = 0;
  for (const auto kind : {use::data, use::model, use::reduction, use::special, use::spatial}) {
    uses |= (parallel::index_uses{1} << static_cast<unsigned>(kind)) & options_.uses;
    const auto has_uses = [&](const auto& room) {  // apart from pipelining
      return (room->uses() & ~(parallel::index_uses{1} << static_cast<unsigned>(use::pipeline))) == uses;
    };
    if (uses == 0 || std::any_of(rooms_.begin(), rooms_.end(), has_uses)) {
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (rooms_[i]->uses() == options_.uses) {
        add_room(rooms_[i]->mesh(), uses);
      }
    }
  }
}

UNITY_INLINE auto unity_search::simulate(graph_variant& v, std::size_t number, unity_result& r) -> simulated_best {
  parallel::lowering lowering{algebra_,          v.graph, machine_, durations_, parallel::transfers::exchanges,
                              options_.optimizer};
  const parallel::operator_graph ops{algebra_, v.graph, lowering.dimensions(), lowering.training()};
  auto all = mapping_candidates(rooms_for(number), ops, limit_, seconds_for(number == 0 ? 0.3 : 0.1));
  if (number == 0 && !all.empty() && !is_late() && add_parts(v.graph, picoseconds{all.front().predicted})) {
    all = mapping_candidates(rooms_for(number), ops, limit_, seconds_for(0.2));
  }
  const bool is_cut = std::any_of(rooms_.begin(), rooms_.end(), [](const auto& room) { return room->ended_early(); });
  if (all.empty() && is_cut) {
    return simple(v, number, lowering);
  }
  if (all.empty()) {
    throw error{"graph", "an operator that runs on no part of the machine", "operators of known meaning and sizes"};
  }
  if (number == 0) {
    first_ = all;
  }
  simulated_best best;
  bool is_first = true;
  const auto first_simulated = r.simulated.size();
  const auto least = options_.candidates;
  std::uint64_t tasks = 0;
  for (const auto& c : chosen_candidates(all, 4 * least, limit_)) {
    if ((r.simulated.size() >= first_simulated + least && tasks > options_.program_tasks / 4) ||
        (!is_first && is_late(reported_))) {
      break;
    }
    auto strategy = c.room->strategy_of(ops, c.solution.options, v.graph.node_count());
    auto report = timed([&] {
      return is_large(ops.size(), 1, 1) ? report_of_representatives(*c.room, ops, c.solution.options)
                                        : parallel::report_on(lowering, v.graph, machine_, strategy);
    });
    tasks += report.tasks;
    r.simulated.push_back({number, c.room->mesh(), 1, 1, c.room->uses(), picoseconds{c.predicted}, report});
    if (is_first || is_better(report, best.report)) {
      best = {number, c, std::move(strategy), std::move(report)};
      is_first = false;
    }
  }
  v.candidates = std::move(all);
  return best;
}

UNITY_INLINE auto unity_search::simple(const graph_variant& v, std::size_t number, parallel::lowering& lowering)
    -> simulated_best {
  simulated_best best;
  best.graph = number;
  best.strategy = parallel::replicated_data_parallel(lowering.dimensions(), machine_.network);
  best.report = timed([&] { return parallel::report_on(lowering, v.graph, machine_, best.strategy); });
  return best;
}

UNITY_INLINE parallel::strategy_report unity_search::timed(const std::function<parallel::strategy_report()>& report) {
  const auto start = watch_.seconds();
  auto r = report();
  reported_ = std::max(reported_, watch_.seconds() - start);
  return r;
}

UNITY_INLINE void unity_search::end_phase(std::string_view name, unity_result& r) {
  r.phases.push_back({name, watch_.seconds() - phase_end_});
  phase_end_ = watch_.seconds();
}

UNITY_INLINE auto unity_search::best_split(const std::vector<graph_variant>& variants, const simulated_best& without,
                                           unity_result& r) -> std::optional<simulated_best> {
  std::optional<simulated_best> best;
  const auto end = watch_.seconds() + seconds_for(0.2);
  const auto late = [&] { return watch_.seconds() >= end; };
  for (const auto v : without.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{without.graph, 0}) {
    const auto& g = variants[v].graph;
    parallel::lowering lowering{algebra_, g, machine_, durations_, parallel::transfers::exchanges, options_.optimizer};
    const parallel::operator_graph ops{algebra_, g, lowering.dimensions(), lowering.training()};
    std::vector<parallel::strategy> met;
    for (const auto& c : split_candidates(ops, variants[v].candidates, late)) {
      auto strategy = splits_->strategy_of(*c.room, ops, c.solution, g.node_count());
      if (met.size() >= options_.candidates || is_late(reported_) ||
          std::find(met.begin(), met.end(), strategy) != met.end()) {
        continue;
      }
      met.push_back(strategy);
      auto report = timed([&] { return parallel::report_on(lowering, g, machine_, strategy); });
      r.simulated.push_back({v, c.room->mesh(), 1, 1, c.room->uses(), picoseconds{c.predicted}, report, true});
      if (!best || is_better(report, best->report)) {
        best = simulated_best{v, c, std::move(strategy), std::move(report)};
      }
    }
  }
  return best;
}

UNITY_INLINE std::vector<mapping_candidate> unity_search::split_candidates(const parallel::operator_graph& ops,
                                                                           const std::vector<mapping_candidate>& all,
                                                                           const std::function<bool()>& late) {
  std::vector<mapping_candidate> found;
  if (!splits_ || is_large(ops.size(), 1, 1)) {
    return found;
  }
  constexpr std::size_t few = 4;  // each of the cheapest needs its own dynamic program over blocks
  std::size_t looked_at = 0;
  for (const auto& one : all) {
    const bool is_whole = one.room->mesh().devices.size() == machine_.network.device_count();
    if (one.room->uses() == samples_alone || !is_whole || looked_at == few || late()) {
      continue;
    }
    ++looked_at;
    mapping_candidate c{one.room, one.objective, splits_->solve(*one.room, ops, one.objective, late), 0, 0};
    if (!split_mappings::has_blocks(c.solution)) {
      continue;
    }
    const auto [memory, synchronizing] = splits_->memory_and_synchronizing(*c.room, ops, c.solution);
    c.memory = memory;
    c.predicted = c.solution.cost - parallel::price_of_memory(memory, c.objective.per_mebibyte) +
                  synchronizing * (16 - c.objective.synchronizing_16ths) / 16;
    found.push_back(std::move(c));
  }
  unity::stable_sort(found,
                     [](const mapping_candidate& a, const mapping_candidate& b) { return a.predicted < b.predicted; });
  return found;
}

UNITY_INLINE bool unity_search::add_parts(const tensor::tensor_graph& g, picoseconds time) {
  const auto count = rooms_.size();
  const auto all = machine_.network.device_count();
  if (!parallel::has(options_.uses, parallel::index_use::placement)) {
    return false;
  }
  for (const auto& part : hardware::parts_of(machine_.network)) {
    std::size_t devices = 0;
    for (const auto& row : part) {
      devices += row.size();
    }
    if (computing_of(g).count() / static_cast<std::int64_t>(devices) >= time.count() / static_cast<std::int64_t>(all)) {
      continue;
    }
    for (const auto& mesh : hardware::meshes_of(part, options_.mesh_axes)) {
      add_room(mesh, options_.uses);
    }
  }
  return rooms_.size() > count;
}

UNITY_INLINE std::vector<mesh_room*> unity_search::rooms_for(std::size_t graph) const {
  constexpr std::array<std::size_t, 3> most{4, 4, 1};  // on all devices, on some, and with only samples divided
  std::vector<mesh_room*> all;
  if (graph == 0) {
    for (const auto& room : rooms_) {
      all.push_back(room.get());
    }
    // With fewer uses a mapping is found sooner, so these are available however little time is left for more uses.
    unity::stable_sort(all, [](const mesh_room* a, const mesh_room* b) {
      return std::popcount(a->uses()) < std::popcount(b->uses());
    });
  }
  std::array<std::size_t, 3> counts{};
  for (std::size_t i = 0; i < first_.size() && graph != 0; ++i) {
    const bool is_whole = first_[i].room->mesh().devices.size() == machine_.network.device_count();
    const auto kind = first_[i].room->uses() == samples_alone ? 2U : is_whole ? 0U : 1U;
    auto& count = counts[kind];
    if (count < most[kind] && std::find(all.begin(), all.end(), first_[i].room) == all.end()) {
      all.push_back(first_[i].room);
      ++count;
    }
  }
  return all;
}

UNITY_INLINE parallel::strategy_report unity_search::report_of_representatives(
    mesh_room& room, const parallel::operator_graph& ops, const std::vector<std::uint32_t>& options) const {
  const parallel::stage_mesh all{machine_, routes_, room.mesh().devices, 1};
  return parallel::mesh_report(algebra_, machine_, room.tables(), all, ops,
                               {options, std::vector<std::uint32_t>(ops.size()), 1});
}

UNITY_INLINE auto unity_search::best_pipeline(const std::vector<graph_variant>& variants, const simulated_best& without,
                                              unity_result& r) -> std::optional<simulated_pipeline> {
  if (!parallel::has(options_.uses, parallel::index_use::pipeline) || !options_.joint.dynamic || is_late()) {
    return std::nullopt;
  }
  pipelines_.emplace(algebra_, machine_, routes_, clock_,
                     pipeline_options{options_.stages, std::max<std::size_t>(options_.mesh_axes, 2) - 1, options_.uses,
                                      options_.optimizer, limit_});
  // Predictions are at most a factor of two off.
  const auto slowest =
      without.report.excess.empty() ? 2 * without.report.iteration.count() : std::numeric_limits<std::int64_t>::max();
  std::vector<simulated_pipeline> found;
  const auto graphs = without.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, without.graph};
  for (const auto v : graphs) {
    auto all = pipelines_->run(variants[v].graph, own_seconds_ - watch_.seconds());
    static_cast<void>(is_late());
    std::uint64_t tasks = 0;  // limits simulations of large programs
    for (std::size_t i = 0; i < std::min(all.size(), options_.candidates) && tasks <= options_.program_tasks; ++i) {
      if (all[i].predicted > slowest || is_late(reported_)) {
        continue;
      }
      found.push_back(simulated(v, std::move(all[i]), r));
      tasks += found.back().report.tasks;
    }
  }
  unity::stable_sort(
      found, [](const simulated_pipeline& x, const simulated_pipeline& y) { return is_better(x.report, y.report); });
  try_schedules(found, r);
  auto others = unequal_pipelines(variants, graphs, slowest, r);
  if (!others.empty() && (found.empty() || is_better(others.front().report, found.front().report))) {
    return std::move(others.front());
  }
  return found.empty() ? std::nullopt : std::optional{std::move(found.front())};
}

UNITY_INLINE auto unity_search::unequal_pipelines(const std::vector<graph_variant>& variants,
                                                  std::span<const std::size_t> graphs, std::int64_t slowest,
                                                  unity_result& r) -> std::vector<simulated_pipeline> {
  constexpr double share = 0.1;
  std::vector<simulated_pipeline> found;
  unequal_stages search{*pipelines_};
  for (const auto v : graphs) {
    if (is_large(variants[v].graph.node_count(), 2, 2)) {
      continue;
    }
    const auto end = watch_.seconds() + seconds_for(share);
    auto all = search.run(variants[v].graph, seconds_for(share) / 2);
    for (std::size_t i = 0; i < std::min(all.size(), options_.candidates); ++i) {
      const auto& c = all[i];
      const bool is_out = c.predicted > slowest || is_large(c.graph->ops.size(), c.mapping.stage_count, c.graph->count);
      if (!is_out && watch_.seconds() + reported_ < end) {
        found.push_back(simulated(v, std::move(all[i]), r));
      }
    }
    ended_early_ = ended_early_ || watch_.seconds() >= end;
  }
  unity::stable_sort(
      found, [](const simulated_pipeline& x, const simulated_pipeline& y) { return is_better(x.report, y.report); });
  try_schedules(found, r);
  return found;
}

UNITY_INLINE void unity_search::try_schedules(std::vector<simulated_pipeline>& best_first, unity_result& r) {
  constexpr std::size_t few = 3;
  std::uint64_t tasks = 0;
  auto all = best_first;
  for (std::size_t i = 0; i < std::min(best_first.size(), few); ++i) {
    for (auto& c : pipelines_->schedules_of(best_first[i].candidate)) {
      const bool is_apart = c.mapping.schedule == parallel::pipeline_schedule::zero_bubble;
      const bool is_whole = !is_large(c.graph->ops.size(), c.mapping.stage_count, c.graph->count);
      if ((is_apart && !is_whole) || tasks > options_.program_tasks || is_late(reported_)) {
        continue;  // a simulation of one device per stage does not support separate weight gradients
      }
      all.push_back(simulated(best_first[i].graph, std::move(c), r));
      tasks += all.back().report.tasks;
      if (is_better(all.back().report, all.front().report)) {
        std::swap(all.back(), all.front());
      }
    }
  }
  best_first = std::move(all);
}

UNITY_INLINE auto unity_search::simulated(std::size_t graph, pipeline_candidate c, unity_result& r)
    -> simulated_pipeline {
  auto report = timed([&] { return report_on(c); });
  r.simulated.push_back({graph, c.room->mesh(), c.mapping.stage_count, c.graph->count, c.room->uses(),
                         picoseconds{c.predicted}, report, false, c.mapping.schedule, c.mapping.chunks});
  return {graph, std::move(c), std::move(report)};
}

UNITY_INLINE parallel::strategy_report unity_search::report_on(const pipeline_candidate& c) const {
  if (is_large(c.graph->ops.size(), c.mapping.stage_count, c.graph->count)) {
    return parallel::mesh_report(algebra_, machine_, c.room->tables(), c.stage->stages, c.graph->ops, c.mapping,
                                 c.graph->count);
  }
  parallel::lowering lowering{algebra_,          c.graph->graph, machine_, durations_, parallel::transfers::exchanges,
                              options_.optimizer};
  return parallel::report_on(lowering, c.graph->graph, machine_, pipeline_search::strategy_of(c),
                             pipeline_search::pipeline_of(c));
}

UNITY_INLINE void unity_search::take(simulated_pipeline best, unity_result& r) {
  const auto& c = best.candidate;
  r.mesh = c.room->mesh();
  r.strategy = pipeline_search::strategy_of(c);
  r.pipeline = pipeline_search::pipeline_of(c);
  r.report = std::move(best.report);
  r.graph = c.graph->graph;
  if (!c.rooms.empty()) {
    r.mapping_bound = picoseconds{computing_of(c.graph->graph).count() * c.graph->count};
    return;
  }
  const auto of_one = bound(c.graph->ops, c.stage->rooms, c.room->mesh().devices.size());
  r.mapping_bound = picoseconds{of_one.count() * c.graph->count / c.mapping.stage_count};
}

UNITY_INLINE void unity_search::trade_memory(const std::vector<graph_variant>& variants, const simulated_best& best,
                                             unity_result& r) {
  if ((!options_.frontier && r.report.excess.empty()) || !options_.joint.dynamic) {
    return;
  }
  constexpr std::size_t most_rooms = 3;
  std::vector<std::pair<mesh_room*, int>> rooms;
  for (const auto& c : first_) {
    const bool is_whole = c.room->mesh().devices.size() == machine_.network.device_count();
    const bool is_known = std::any_of(rooms.begin(), rooms.end(), [&](const auto& k) { return k.first == c.room; });
    if (is_whole && !is_known && rooms.size() < most_rooms) {
      rooms.emplace_back(c.room, c.objective.synchronizing_16ths);
    }
  }
  const auto graphs = best.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{best.graph, 0};
  memory_options o;
  o.program_tasks = options_.program_tasks;
  o.stages = parallel::has(options_.uses, parallel::index_use::pipeline) ? options_.stages : 1;
  o.mesh_axes = std::max<std::size_t>(options_.mesh_axes, 2) - 1;
  o.uses = options_.uses;
  o.optimizer = options_.optimizer;
  o.memory_limit = limit_;
  o.is_whole = options_.frontier;
  constexpr double share = 0.6;  // of what is left; the polish has the rest
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    const auto left = options_.limits.seconds - watch_.seconds();
    o.seconds = std::max(0.0, share * left / static_cast<double>(graphs.size() - i));
    const auto& variant = variants[graphs[i]];
    for (auto& p : memory_plans(algebra_, machine_, routes_, clock_, durations_, variant.graph, rooms, o)) {
      r.simulated.push_back({graphs[i],
                             {},
                             p.pipeline.stage_count(),
                             p.pipeline.microbatches,
                             options_.uses,
                             {},
                             p.report,
                             false,
                             p.pipeline.schedule,
                             p.pipeline.chunks});
      const bool is_smaller = options_.frontier && p.report.iteration == r.report.iteration &&
                              p.report.memory_peak() < r.report.memory_peak() && r.report.excess.empty();
      if (is_smaller || is_better(p.report, r.report)) {
        r.mapping_bound = picoseconds{computing_of(p.graph).count() * p.pipeline.microbatches};
        r.mesh = {};
        r.rules = variant.rules;
        r.graph = p.graph;
        r.strategy = p.strategy;
        r.pipeline = p.pipeline;
        r.synchronization = p.synchronization;
        r.recomputed = p.recomputed;
        r.report = p.report;
      }
      if (options_.frontier) {
        r.frontier.push_back(std::move(p));
      }
    }
  }
}

UNITY_INLINE void unity_search::add_variants(const rule_set& rules, std::vector<graph_variant>& variants,
                                             unity_result& r) {
  if (rules.empty()) {
    return;
  }
  constexpr auto model = parallel::index_uses{1} << static_cast<unsigned>(parallel::index_use::model);
  for (const auto& [uses, share] :
       {std::pair{options_.uses, overlap_shares.front()}, std::pair{options_.uses, overlap_shares.back()},
        std::pair{options_.uses & (samples_alone | model), overlap_shares.back()},
        std::pair{samples_alone, overlap_shares.back()}}) {
    const auto c = std::find_if(first_.begin(), first_.end(), [&](const mapping_candidate& k) {
      return k.room->uses() == uses && (k.objective.synchronizing_16ths == share || uses == samples_alone);
    });
    if (c == first_.end() || is_late()) {
      continue;
    }
    auto joint = options_.joint;
    joint.limits.seconds = std::min(joint.limits.seconds, seconds_for(0.15));
    joint.computing = [this](const parallel::operator_graph& ops) { return computing_.of(ops); };
    auto found = improve(algebra_, rules, variants[0].graph, *c->room, {share, c->objective.per_mebibyte}, joint);
    r.expanded += found.expanded;
    ended_early_ = ended_early_ || found.ended_early;
    r.graphs_bound = std::min(r.graphs_bound, found.computing);
    r.segments = std::max(r.segments, found.segments);
    const bool is_known =
        std::any_of(variants.begin(), variants.end(), [&](const graph_variant& v) { return v.graph == found.graph; });
    if (!is_known) {
      variants.push_back({std::move(found.graph), std::move(found.rules)});
    }
  }
}

UNITY_INLINE auto unity_search::add_nearby(const rule_set& rules, std::vector<graph_variant>& variants,
                                           std::size_t best, unity_result& r) -> std::vector<simulated_best> {
  std::vector<simulated_best> found;
  if (rules.empty() || options_.uses != parallel::all_index_uses || options_.proposals == 0 ||
      !is_tiny(analyzed_graph{algebra_, variants[0].graph}.ops.size())) {
    return found;
  }
  using space_type = rewrite_space<tensor::algebra, tensor::flop_cost>;
  for (const auto v : best == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, best}) {
    space_type space{algebra_, tensor::flop_cost{algebra_, tensor::mode::training}, rules, variants[v].graph};
    space_type::scratch_type from;
    space_type::scratch_type to;
    const auto s = space.initial();
    for (const auto m : space.moves(s)) {
      space.prepare(s, from);
      if (is_late() || !space.price(s, m, from)) {
        continue;
      }
      auto g = space.graph(space.apply(s, m, from, to));
      const auto is_same = [&](const graph_variant& other) { return other.graph == g; };
      if (std::any_of(variants.begin(), variants.end(), is_same)) {
        continue;
      }
      auto applied = variants[v].rules;
      applied.push_back({space.rule_of(m).name, 1});
      r.graphs_bound = std::min(r.graphs_bound, computing_of(g));
      variants.push_back({std::move(g), std::move(applied), {}});
      found.push_back(simulate(variants.back(), variants.size() - 1, r));
    }
  }
  unity::stable_sort(found,
                     [](const simulated_best& x, const simulated_best& y) { return is_better(x.report, y.report); });
  constexpr std::size_t most = 12;  // to polish
  found.resize(std::min(found.size(), most));
  return found;
}

UNITY_INLINE void unity_search::finish(unity_result& r, bool has_blocks) {
  r.mapping_bound = computing_of(r.graph);
  // Building tables of meshes on which no mapping was searched costs time. Tables have the times of the slowest kind of
  // device, so with several kinds, or for a plan on blocks, they give no bound.
  if (is_late() || has_blocks || models_of(machine_).size() > 1) {
    return;
  }
  for (const auto& room : rooms_) {
    room->end_in(seconds_for(0.1));
  }
  try {
    const analyzed_graph analyzed{algebra_, r.graph};
    r.mapping_bound =
        std::max(bound(analyzed.ops, rooms_, machine_.network.device_count()), path_bound(analyzed.ops, rooms_));
  } catch (const time_over&) {
    ended_early_ = true;
  }
  for (const auto& room : rooms_) {
    room->end_in(std::numeric_limits<double>::infinity());
  }
}

UNITY_INLINE bool unity_search::is_better(const parallel::strategy_report& a, const parallel::strategy_report& b) {
  const auto over = [](const parallel::strategy_report& s) {
    bytes sum{};
    for (const auto& e : s.excess) {
      sum += e.over;
    }
    return sum;
  };
  return over(a) != over(b) ? over(a) < over(b) : a.iteration < b.iteration;
}

struct unity_search::polish_start {
  tensor::tensor_graph graph;
  parallel::lowering lowering;
  picoseconds bound{};      // lower bound on all plans of the graph
  std::uint64_t proposals;  // maximum, including proposals from other plans
  std::uint64_t idle;
  std::optional<plan_polish> plan{};
  const mesh_room* room = nullptr;         // of the initial mesh, if any
  const graph_variant* variant = nullptr;  // of this search, if any

  polish_start(const unity_search& s, tensor::tensor_graph g)
      : graph{std::move(g)},
        lowering{s.algebra_, graph, s.machine_, s.durations_, parallel::transfers::exchanges, s.options_.optimizer},
        proposals{s.options_.proposals},
        idle{s.options_.idle} {}
};

UNITY_INLINE auto unity_search::start(tensor::tensor_graph g, const parallel::strategy& s, mesh_room* room)
    -> std::unique_ptr<polish_start> {
  const bool is_free = options_.uses == parallel::all_index_uses;
  const bool is_over = watch_.seconds() + 2 * reported_ >= options_.limits.seconds;
  ended_early_ = ended_early_ || is_over;
  if (is_over || options_.proposals == 0 || is_large(g.node_count(), 1, 1) || (room == nullptr && !is_free)) {
    return nullptr;
  }
  auto one = std::make_unique<polish_start>(*this, std::move(g));
  one->room = room;
  std::optional<part_proposal> mesh;
  if (room != nullptr) {
    const parallel::operator_graph ops{algebra_, one->graph, one->lowering.dimensions(), one->lowering.training()};
    // For larger graphs, simulations are slow and parts are too many.
    const bool in_parts = is_free && is_small(ops.size());
    const bool in_all = in_parts && is_tiny(ops.size());
    mesh.emplace(mesh_proposal{*room, ops}, ops, in_parts ? machine_.network.device_count() : 0,
                 in_all ? part_moves::all : part_moves::connected);
    const auto times = (in_parts ? 8 : 1) * (in_all ? tiny_factor : 1);
    one->proposals *= one->proposals < std::numeric_limits<std::uint64_t>::max() / times ? times : 1;
    one->idle *= in_all ? tiny_factor : 1;
  }
  one->bound = computing_of(one->graph);
  one->plan.emplace(algebra_, one->graph, machine_, one->lowering, s, std::move(mesh), is_free);
  return one;
}

UNITY_INLINE void unity_search::polish(const std::vector<graph_variant>& variants, const simulated_best& best,
                                       const simulated_best& first, std::span<const simulated_best> nearby,
                                       unity_result& r) {
  const bool is_over = watch_.seconds() >= options_.limits.seconds;
  const auto known = options_.known && !is_over ? options_.known() : std::vector<known_plan>{};
  if (options_.known) {
    end_phase("baselines", r);
  }
  if (options_.uses == parallel::all_index_uses) {
    for (const auto& k : known) {
      take(k, r);
    }
  }
  std::vector<std::unique_ptr<polish_start>> starts;
  const auto add = [&](std::unique_ptr<polish_start> one) {
    if (one != nullptr) {
      starts.push_back(std::move(one));
    }
  };
  const auto add_own = [&](const simulated_best& own) {
    auto one = start(variants[own.graph].graph, own.strategy, own.candidate.room);
    if (one != nullptr) {
      one->variant = &variants[own.graph];
    }
    add(std::move(one));
  };
  if (!best.report.is_of_representatives) {
    add_own(best);
  }
  if (!first.report.is_of_representatives && best.graph != 0) {
    add_own(first);
  }
  for (const auto& one : nearby) {
    if (one.graph != best.graph) {
      add_own(one);
    }
  }
  for (const auto& k : known) {
    add(options_.uses == parallel::all_index_uses ? start(k.graph, k.strategy, nullptr) : nullptr);
  }
  improve_all(starts, r);
  for (const auto& one : starts) {
    if (!one->plan->is_better()) {
      continue;
    }
    auto report = parallel::report_on(one->lowering, one->graph, machine_, one->plan->best());
    if (!is_better(report, r.report)) {
      continue;
    }
    const bool is_mapped = one->variant != nullptr && r.graph == one->graph && report.iteration >= r.mapping_bound;
    const auto bound = is_mapped ? r.mapping_bound : one->bound;
    take({one->graph, one->plan->best(), std::move(report)}, r);
    r.mapping_bound = bound;
    if (one->variant != nullptr) {
      r.mesh = one->room != nullptr ? one->room->mesh() : hardware::device_mesh{};
      r.rules = one->variant->rules;
    }
  }
  end_phase("polish", r);
}

UNITY_INLINE void unity_search::take(known_plan p, unity_result& r) {
  if (!is_better(p.report, r.report)) {
    return;
  }
  r.mapping_bound = computing_of(p.graph);
  r.graphs_bound = std::min(r.graphs_bound, r.mapping_bound);
  r.mesh = {};
  r.rules.clear();
  r.graph = std::move(p.graph);
  r.strategy = std::move(p.strategy);
  r.pipeline = {};
  r.synchronization = {};
  r.recomputed = {};
  r.report = std::move(p.report);
}

UNITY_INLINE void unity_search::improve_all(std::span<const std::unique_ptr<polish_start>> starts, unity_result& r) {
  polish_options o;
  o.watch = options_.watch;
  const auto limit = options_.limits.seconds;
  const auto patience = limit < std::numeric_limits<double>::infinity() ? options_.patience * limit : 0;
  auto last_better = watch_.seconds();
  std::vector<polish_start*> active;
  for (const auto& one : starts) {
    active.push_back(one.get());
  }
  bool goes_on = true;
  for (std::size_t round = 1; goes_on; ++round) {
    goes_on = false;
    for (auto* one : active) {
      auto& plan = *one->plan;
      const auto most = std::min(one->proposals, options_.limits.expansions);
      o.proposals = most - std::min(most, r.proposals);
      // Reserves time to simulate the result once more at the end.
      o.seconds = limit - watch_.seconds() - 2 * reported_;
      const bool is_idle = plan.is_idle(one->idle) && watch_.seconds() - last_better >= patience;
      if (o.proposals == 0 || is_idle || plan.cost() <= one->bound.count()) {
        continue;
      }
      if (o.seconds <= reported_) {  // a round begins with a full simulation
        ended_early_ = true;
        return;
      }
      o.seed = options_.seed;
      const auto before = plan.proposals();
      const auto cost = plan.cost();
      if (plan.improve(o) == stop_reason::observer) {
        return;
      }
      r.proposals += std::min(o.proposals, plan.proposals() - before);
      last_better = plan.cost() < cost ? watch_.seconds() : last_better;
      goes_on = true;
    }
    if (round % 2 == 0) {  // the better half shares what is left
      unity::stable_sort(active, [](const auto* a, const auto* b) { return a->plan->cost() < b->plan->cost(); });
      active.resize((active.size() + 1) / 2);
    }
  }
}

UNITY_INLINE picoseconds unity_search::bound(const parallel::operator_graph& ops,
                                             const std::vector<std::unique_ptr<mesh_room>>& rooms,
                                             std::size_t devices) {
  std::int64_t sum = 0;
  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (const auto& room : rooms) {
      for (const auto& o : room->tables().of(ops.placed(i)).options) {
        least = std::min(least, o.busy.count() * static_cast<std::int64_t>(room->mesh().devices.size()));
      }
    }
    sum += least;
  }
  return picoseconds{sum / static_cast<std::int64_t>(devices)};
}

}  // namespace unity::systems::detail

#endif
