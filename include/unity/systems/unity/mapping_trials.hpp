// Simulates mappings of whole graphs onto the meshes of a machine, and onto parts of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/systems/unity/branch_splits.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/systems/unity/mapping_candidates.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/search_context.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems::detail {

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

// Owns the solvers of the machine's meshes, which its results refer to. What it simulates is recorded in the context.
class mapping_trials {
 public:
  explicit mapping_trials(search_context& c);

  // The best mapping onto one mesh. number: of the graph; 0 is the given one, which comes first.
  // Effects: sets the graph's candidates. For the given graph, adds solvers of parts of the machine that may be faster.
  // Throws: unity::error if an operator cannot be mapped onto any mesh.
  [[nodiscard]] simulated_best simulate(graph_variant& v, std::size_t number);
  // The best mapping with branches on blocks of devices, for the given graph and for the graph of the best mapping
  // without blocks, within their share of the time. Nothing if placement is not allowed.
  [[nodiscard]] std::optional<simulated_best> best_split(std::span<const graph_variant> variants,
                                                         const simulated_best& without);
  // Effects: adds solvers with the cumulative sets of index uses of the paper's figure 15a. A further use may not bring
  // its predicted gain; then a plan without it is available.
  void add_smaller_sets();

  [[nodiscard]] const std::vector<std::unique_ptr<mesh_solver>>& solvers() const noexcept { return solvers_; }
  // Mappings of the given graph, cheapest first.
  [[nodiscard]] const std::vector<mapping_candidate>& of_given() const noexcept { return first_; }
  [[nodiscard]] bool is_on_all_devices(const mapping_candidate& c) const {
    return c.solver->mesh().devices.size() == context_.devices();
  }

 private:
  static constexpr double most_for_meshes = 0.3;  // of the own time

  void add_solver(const hardware::device_mesh& mesh, parallel::index_uses uses);
  // Effects: adds solvers of subsets of the devices that could compute the graph within that time by themselves.
  // Returns whether there are any.
  [[nodiscard]] bool add_parts(const tensor::tensor_graph& g, picoseconds time);
  // All solvers for the given graph; for other graphs, the solvers with the best mappings of the given one.
  [[nodiscard]] std::vector<mesh_solver*> solvers_for(std::size_t graph) const;
  // Divides samples: the fallback if there was no time for a mapping.
  [[nodiscard]] simulated_best simple(const graph_variant& v, std::size_t number, parallel::lowering& lowering);
  [[nodiscard]] parallel::strategy_report report_of_representatives(mesh_solver& solver,
                                                                    const parallel::operator_graph& ops,
                                                                    const std::vector<std::uint32_t>& options) const;
  // Takes the solvers and objectives of the few cheapest candidates on all devices, and returns for each the cheapest
  // mapping with branches on blocks, cheapest first.
  [[nodiscard]] std::vector<mapping_candidate> split_candidates(const parallel::operator_graph& ops,
                                                                const std::vector<mapping_candidate>& all,
                                                                const std::function<bool()>& late);

  search_context& context_;
  parallel::known_group_costs known_groups_{};
  std::vector<std::unique_ptr<mesh_solver>> solvers_{};
  std::optional<split_mappings> splits_{};  // nullopt if placement is not allowed
  std::vector<mapping_candidate> first_{};  // for the given graph
};

}  // namespace unity::systems::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MAPPING_TRIALS)

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/parallel/strategies/strategy.hpp>

namespace unity::systems::detail {

UNITY_INLINE mapping_trials::mapping_trials(search_context& c) : context_{c} {
  const auto& options = c.options;
  auto meshes = hardware::meshes_of(c.machine.network, options.mesh_axes);
  for (const auto& mesh : options.meshes) {
    hardware::check(c.machine.network, mesh);
    meshes.push_back(mesh);
  }
  // The best plan with fewer uses is often close to the overall best, and simulation may prefer it.
  std::vector<parallel::index_uses> sets{options.uses};
  for (const auto fewer :
       {options.uses & ~bit(parallel::index_use::placement),
        options.uses & (samples_alone | bit(parallel::index_use::model)), options.uses & samples_alone}) {
    if (fewer != 0 && std::find(sets.begin(), sets.end(), fewer) == sets.end()) {
      sets.push_back(fewer);
    }
  }
  for (const auto& mesh : meshes) {  // those of few axes first
    if (mesh.axis_count() > parallel::mesh_layout::most_axes) {
      throw error{fmt::format("device mesh {}", mesh.name), fmt::format("{} axes", mesh.axis_count()),
                  fmt::format("{} at most", parallel::mesh_layout::most_axes)};
    }
    const bool is_late = !solvers_.empty() && c.time.note(c.time.seconds() >= most_for_meshes * c.time.own());
    for (const auto uses : is_late ? std::vector<parallel::index_uses>{} : sets) {
      add_solver(mesh, uses);
    }
  }
  if (c.allows(parallel::index_use::placement) && options.joint.dynamic) {
    constexpr std::size_t axes = 2;  // blocks are small
    splits_.emplace(c.algebra, c.machine, c.routes, c.clock, options.uses & ~bit(parallel::index_use::placement),
                    options.optimizer, std::min(axes, options.mesh_axes), c.memory_limit);
  }
}

UNITY_INLINE simulated_best mapping_trials::simulate(graph_variant& v, std::size_t number) {
  auto lowering = context_.lowering_of(v.graph);
  const parallel::operator_graph ops{context_.algebra, v.graph, lowering.dimensions(), lowering.training()};
  auto all = mapping_candidates(solvers_for(number), ops, context_.memory_limit,
                                context_.time.seconds_for(number == 0 ? 0.3 : 0.1));
  if (number == 0 && !all.empty() && !context_.time.is_past_deadline() && add_parts(v.graph, all.front().predicted)) {
    all = mapping_candidates(solvers_for(number), ops, context_.memory_limit, context_.time.seconds_for(0.2));
  }
  const bool is_cut =
      std::any_of(solvers_.begin(), solvers_.end(), [](const auto& solver) { return solver->ended_early(); });
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
  const auto first_simulated = context_.record.simulated.size();
  const auto least = context_.options.candidates;
  std::uint64_t tasks = 0;
  for (const auto& c : chosen_candidates(all, 4 * least, context_.memory_limit)) {
    if ((context_.record.simulated.size() >= first_simulated + least && tasks > context_.options.program_tasks / 4) ||
        (!is_first && context_.time.is_past_deadline(context_.time.reported()))) {
      break;
    }
    auto strategy = c.solver->strategy_of(ops, c.solution.options, v.graph.node_count());
    auto report = context_.time.timed([&] {
      return context_.is_large(ops.size(), 1, 1) ? report_of_representatives(*c.solver, ops, c.solution.options)
                                                 : parallel::report_on(lowering, v.graph, context_.machine, strategy);
    });
    tasks += report.tasks;
    context_.record.simulated.push_back({number, c.solver->mesh(), 1, 1, c.solver->uses(), c.predicted, report});
    if (is_first || is_better(report, best.report)) {
      best = {number, c, std::move(strategy), std::move(report)};
      is_first = false;
    }
  }
  v.candidates = std::move(all);
  return best;
}

UNITY_INLINE simulated_best mapping_trials::simple(const graph_variant& v, std::size_t number,
                                                   parallel::lowering& lowering) {
  simulated_best best;
  best.graph = number;
  best.strategy = parallel::replicated_data_parallel(lowering.dimensions(), context_.machine.network);
  best.report =
      context_.time.timed([&] { return parallel::report_on(lowering, v.graph, context_.machine, best.strategy); });
  return best;
}

UNITY_INLINE parallel::strategy_report mapping_trials::report_of_representatives(
    mesh_solver& solver, const parallel::operator_graph& ops, const std::vector<std::uint32_t>& options) const {
  const parallel::stage_mesh all{context_.machine, context_.routes, solver.mesh().devices, 1};
  return parallel::mesh_report(context_.algebra, context_.machine, solver.tables(), all, ops,
                               {options, std::vector<std::uint32_t>(ops.size()), 1});
}

UNITY_INLINE std::vector<mesh_solver*> mapping_trials::solvers_for(std::size_t graph) const {
  constexpr std::array<std::size_t, 3> most{4, 4, 1};  // on all devices, on some, and with only samples divided
  std::vector<mesh_solver*> all;
  if (graph == 0) {
    for (const auto& solver : solvers_) {
      all.push_back(solver.get());
    }
    // With fewer uses a mapping is found sooner, so these are available however little time is left for more uses.
    unity::stable_sort(all, [](const mesh_solver* a, const mesh_solver* b) {
      return std::popcount(a->uses()) < std::popcount(b->uses());
    });
  }
  std::array<std::size_t, 3> counts{};
  for (std::size_t i = 0; i < first_.size() && graph != 0; ++i) {
    const bool is_whole = is_on_all_devices(first_[i]);
    const auto kind = first_[i].solver->uses() == samples_alone ? 2U : is_whole ? 0U : 1U;
    auto& count = counts[kind];
    if (count < most[kind] && std::find(all.begin(), all.end(), first_[i].solver) == all.end()) {
      all.push_back(first_[i].solver);
      ++count;
    }
  }
  return all;
}

UNITY_INLINE void mapping_trials::add_solver(const hardware::device_mesh& mesh, parallel::index_uses uses) {
  const auto enumeration = context_.options.joint.dynamic
                               ? std::nullopt
                               : std::optional{enumeration_end{&context_.time.watch(), context_.time.own()}};
  solvers_.push_back(std::make_unique<mesh_solver>(context_.algebra, context_.machine, context_.routes, mesh,
                                                   context_.clock, uses, context_.options.optimizer,
                                                   context_.memory_limit, enumeration, &known_groups_));
}

UNITY_INLINE void mapping_trials::add_smaller_sets() {
  using use = parallel::index_use;
  const auto count = solvers_.size();
  parallel::index_uses uses = 0;
  for (const auto kind : {use::data, use::model, use::reduction, use::special, use::spatial}) {
    uses |= bit(kind) & context_.options.uses;
    const auto has_uses = [&](const auto& solver) {  // apart from pipelining
      return (solver->uses() & ~bit(use::pipeline)) == uses;
    };
    if (uses == 0 || std::any_of(solvers_.begin(), solvers_.end(), has_uses)) {
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (solvers_[i]->uses() == context_.options.uses) {
        add_solver(solvers_[i]->mesh(), uses);
      }
    }
  }
}

UNITY_INLINE bool mapping_trials::add_parts(const tensor::tensor_graph& g, picoseconds time) {
  const auto count = solvers_.size();
  const auto all = context_.devices();
  if (!context_.allows(parallel::index_use::placement)) {
    return false;
  }
  for (const auto& part : hardware::parts_of(context_.machine.network)) {
    std::size_t devices = 0;
    for (const auto& row : part) {
      devices += row.size();
    }
    if (context_.computing_of(g).count() / static_cast<std::int64_t>(devices) >=
        time.count() / static_cast<std::int64_t>(all)) {
      continue;
    }
    for (const auto& mesh : hardware::meshes_of(part, context_.options.mesh_axes)) {
      add_solver(mesh, context_.options.uses);
    }
  }
  return solvers_.size() > count;
}

UNITY_INLINE std::optional<simulated_best> mapping_trials::best_split(std::span<const graph_variant> variants,
                                                                      const simulated_best& without) {
  std::optional<simulated_best> best;
  const auto end = context_.time.seconds() + context_.time.seconds_for(0.2);
  const auto late = [&] { return context_.time.note(context_.time.seconds() >= end); };
  for (const auto v : without.graph == 0 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{without.graph, 0}) {
    const auto& g = variants[v].graph;
    auto lowering = context_.lowering_of(g);
    const parallel::operator_graph ops{context_.algebra, g, lowering.dimensions(), lowering.training()};
    std::vector<parallel::strategy> met;
    for (const auto& c : split_candidates(ops, variants[v].candidates, late)) {
      auto strategy = splits_->strategy_of(*c.solver, ops, c.solution, g.node_count());
      if (met.size() >= context_.options.candidates || context_.time.is_past_deadline(context_.time.reported()) ||
          std::find(met.begin(), met.end(), strategy) != met.end()) {
        continue;
      }
      met.push_back(strategy);
      auto report = context_.time.timed([&] { return parallel::report_on(lowering, g, context_.machine, strategy); });
      context_.record.simulated.push_back({v, c.solver->mesh(), 1, 1, c.solver->uses(), c.predicted, report, true});
      if (!best || is_better(report, best->report)) {
        best = simulated_best{v, c, std::move(strategy), std::move(report)};
      }
    }
  }
  return best;
}

UNITY_INLINE std::vector<mapping_candidate> mapping_trials::split_candidates(const parallel::operator_graph& ops,
                                                                             const std::vector<mapping_candidate>& all,
                                                                             const std::function<bool()>& late) {
  std::vector<mapping_candidate> found;
  if (!splits_ || context_.is_large(ops.size(), 1, 1)) {
    return found;
  }
  constexpr std::size_t few = 4;  // each of the cheapest needs its own dynamic program over blocks
  std::size_t looked_at = 0;
  for (const auto& one : all) {
    const bool is_whole = is_on_all_devices(one);
    if (one.solver->uses() == samples_alone || !is_whole || looked_at == few || late()) {
      continue;
    }
    ++looked_at;
    mapping_candidate c{one.solver, one.objective,
                        splits_->solve(*one.solver, ops, one.objective, late, context_.time.own_left())};
    if (!split_mappings::has_blocks(c.solution)) {
      continue;
    }
    const auto [memory, synchronizing] = splits_->memory_and_synchronizing(*c.solver, ops, c.solution);
    c.memory = memory;
    c.predicted = picoseconds{c.solution.cost - parallel::price_of_memory(memory, c.objective.per_mebibyte)} +
                  synchronizing * (16 - c.objective.synchronizing_16ths) / 16;
    found.push_back(std::move(c));
  }
  unity::stable_sort(found,
                     [](const mapping_candidate& a, const mapping_candidate& b) { return a.predicted < b.predicted; });
  return found;
}

}  // namespace unity::systems::detail

#endif
