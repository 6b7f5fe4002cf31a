// Pipelines: mappings of a graph in stages, which work on different micro-batches at the same time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/mesh/mapping_core.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/systems/unity/memory_trading.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/microbatch_graphs.hpp>
#include <unity/systems/unity/program_size.hpp>
#include <unity/systems/unity/stage_cuts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

struct pipeline_options {
  std::size_t stages = 64;    // at most
  std::size_t mesh_axes = 2;  // of the devices of a stage, at most
  parallel::index_uses uses = parallel::all_index_uses;
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  bytes memory_limit{};  // of a device; 0: not known
  // none: each mesh has one candidate, at the least price of memory at which it fits, or else with the least excess.
  // Otherwise it has a candidate for each price of memory, with the trades that pay off at that price.
  parallel::memory_trades trades = parallel::memory_trades::none;
};

// All device groups of one size: solvers for the meshes of the first group, which stand for those of the others, and
// the links between groups.
struct stage_solvers {
  parallel::stage_mesh stages;
  std::vector<std::unique_ptr<mesh_solver>> solvers{};
};

struct pipeline_candidate {
  const microbatch_graph* graph = nullptr;
  stage_solvers* stage = nullptr;  // null: a single stage, on the devices of the solver
  mesh_solver* solver = nullptr;   // of the first stage
  parallel::staged_mapping mapping{};
  picoseconds predicted{};  // of an iteration
  bytes excess{};           // above the limit of memory, as far as the estimate goes
  bytes held{};             // of the fullest device, likewise
  // By stage, if stages are unequal (unequal_stages.hpp; `stage` has all devices in order). Empty: all as `solver`.
  std::vector<mesh_solver*> solvers{};

  [[nodiscard]] mesh_solver& solver_of(std::uint32_t k) const { return solvers.empty() ? *solver : *solvers[k]; }
  // How many tasks of operators are lowered for all devices, if the report is made by folding one micro-batch (stages
  // are unequal, and the whole program too large); otherwise zero. most: see is_large_program.
  [[nodiscard]] std::uint64_t folded_tasks(std::uint64_t most, std::size_t devices) const {
    const auto operators = graph->ops.size();
    const bool is_folded =
        !solvers.empty() && is_large_program(most, devices, operators, mapping.stage_count, graph->count);
    return is_folded ? operator_tasks(devices, operators, mapping.stage_count) : 0;
  }
};

// What the pieces of a graph cost under one mapping.
struct priced_pieces {
  std::vector<stage_piece> pieces{};
  std::vector<picoseconds> once{};  // by piece: reductions and updates, which come once for all micro-batches
};

// Searches pipelines of equal stages. Tries all numbers of stages that divide the devices into equal groups, each
// within a node or of whole nodes, and some numbers of micro-batches for each. A micro-batch of the whole graph is
// mapped onto each mesh of a group, and that mapping is cut into stages for the least predicted time (stage_cuts.hpp).
// Since all stages are parts of one mapping, a value has the same layout in the stages that send and receive it.
// Source: Unger et al., Unity (OSDI 2022), section 5. There, too, all operators are pipelined and a stage only sends to
// the next one. Here the time to fill and drain the pipeline counts as well.
class pipeline_search {
 public:
  pipeline_search(const tensor::algebra& a, const hardware::machine& m, const hardware::route_table& routes,
                  parallel::shard_clock& clock, const pipeline_options& options)
      : algebra_{a}, machine_{m}, routes_{routes}, clock_{clock}, options_{options} {}

  // The candidates found within so many seconds, by excess, then by predicted time.
  // Complexity: a mapping for each mesh of each group, number of micro-batches and price of memory.
  [[nodiscard]] std::vector<pipeline_candidate> run(const tensor::tensor_graph& g,
                                                    double seconds = std::numeric_limits<double>::infinity());
  // What candidates are made of.
  [[nodiscard]] const tensor::algebra& operators() const noexcept { return algebra_; }
  [[nodiscard]] const hardware::machine& machine() const noexcept { return machine_; }
  [[nodiscard]] const hardware::route_table& routes() const noexcept { return routes_; }
  [[nodiscard]] const pipeline_options& options() const noexcept { return options_; }
  [[nodiscard]] const microbatch_graph* microbatches(const tensor::tensor_graph& g, std::int64_t count) {
    return graphs_.of(g, count);
  }
  // Solvers for the machine, divided into as many groups of this size as possible. Remaining devices are in no group.
  [[nodiscard]] stage_solvers& solvers_of(std::size_t group);
  // The costs of a mapping, by step of the spine: the pieces of stage_cuts.hpp.
  [[nodiscard]] priced_pieces pieces_of(const microbatch_graph& g, const stage_solvers& stage, mesh_solver& solver,
                                        std::span<const std::uint32_t> options,
                                        std::span<const parallel::memory_trade> trades);

  // The candidate as a strategy and a pipeline for its graph: each operator is on the devices of its stage.
  [[nodiscard]] static parallel::strategy strategy_of(const pipeline_candidate& c);
  [[nodiscard]] static parallel::pipeline pipeline_of(const pipeline_candidate& c);
  // The same mapping under other schedules: zero_bubble, and, if stages are equal, interleaved with two and with four
  // chunks for each stage, as far as the graph allows. Without gpipe, which is no faster than one_forward_one_backward
  // and holds more. Those that are found within so many seconds.
  [[nodiscard]] std::vector<pipeline_candidate> schedules_of(const pipeline_candidate& c,
                                                             double seconds = std::numeric_limits<double>::infinity());
  [[nodiscard]] std::uint64_t goals() const;
  // What a device keeps for an operator's backward pass: the results that it reads, and the operands that it reads
  // unless their maker keeps them anyway in the same layout. Recomputed results are not kept.
  [[nodiscard]] bytes kept_bytes(const microbatch_graph& g, mesh_solver& solver, std::span<const std::uint32_t> options,
                                 std::span<const parallel::memory_trade> trades, std::uint32_t i);

 private:
  // One, two, four and eight for each stage, or the next larger number that divides the samples.
  [[nodiscard]] static std::vector<std::int64_t> microbatch_counts(std::int64_t samples, std::int64_t stages);
  void add(const microbatch_graph& g, stage_solvers& stage, mesh_solver& solver, std::vector<pipeline_candidate>& all);

  // Respects the limit of memory only if a stage is a single chunk. Nothing if there was no time for any cut.
  [[nodiscard]] std::optional<pipeline_candidate> cut(const microbatch_graph& g, stage_solvers& stage,
                                                      mesh_solver& solver, std::vector<std::uint32_t> options,
                                                      std::vector<parallel::memory_trade> trades,
                                                      std::uint32_t chunks = 1);
  [[nodiscard]] bool is_past_deadline() const { return watch_.seconds() >= seconds_; }
  [[nodiscard]] static bool has_backward(const parallel::placed_operator& p) {
    return std::find(p.wanted.begin(), p.wanted.end(), true) != p.wanted.end();
  }
  [[nodiscard]] const parallel::backward_reads& kept(const parallel::placed_operator& p);
  // Effects: adds to the operator's piece the time to convert its operands to the layouts that it reads. If another
  // piece makes an operand, raises what that piece sends and passes to at least the time and the bytes of this operand.
  void add_reads(const microbatch_graph& g, const stage_solvers& stage, mesh_solver& solver,
                 std::span<const std::uint32_t> options, std::span<const std::size_t> step_of, std::uint32_t i,
                 std::vector<stage_piece>& pieces);

  const tensor::algebra& algebra_;
  const hardware::machine& machine_;
  const hardware::route_table& routes_;
  parallel::shard_clock& clock_;
  pipeline_options options_;
  microbatch_graphs graphs_{algebra_};
  std::map<std::size_t, std::unique_ptr<stage_solvers>> solvers_{};  // by devices of a group
  std::map<fingerprint, parallel::backward_reads> kept_{};
  std::map<const mesh_solver*, parallel::layout_distances> distances_{};
  stopwatch watch_{};  // of the current call
  double seconds_ = std::numeric_limits<double>::infinity();
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_PIPELINES)

#include <array>
#include <numeric>
#include <tuple>

#include <unity/core/id.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/systems/unity/mapping_candidates.hpp>

namespace unity::systems {

UNITY_INLINE std::vector<pipeline_candidate> pipeline_search::run(const tensor::tensor_graph& g, double seconds) {
  watch_ = {};
  seconds_ = seconds;
  const auto rows = hardware::devices_by_node(machine_.network);
  const auto width = rows.front().size();
  const bool alike = std::all_of(rows.begin(), rows.end(), [&](const auto& r) { return r.size() == width; });
  const auto devices = machine_.network.device_count();
  const auto samples = parallel::sample_count(algebra_, g);
  std::vector<pipeline_candidate> all;
  for (std::size_t s = 2; alike && samples > 1 && s <= std::min(devices, options_.stages); ++s) {
    const auto group = devices / s;
    if (devices % s != 0 || (group % width != 0 && width % group != 0)) {
      continue;
    }
    for (const auto count : microbatch_counts(samples, static_cast<std::int64_t>(s))) {
      const auto* part = is_past_deadline() ? nullptr : graphs_.of(g, count);
      if (part == nullptr || part->steps.size() < s) {
        continue;
      }
      auto& stage = solvers_of(group);
      for (auto& solver : stage.solvers) {
        if (!is_past_deadline()) {
          solver->end_in(seconds - watch_.seconds());
          add(*part, stage, *solver, all);
        }
      }
    }
  }
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple{all[a].excess, all[a].predicted, a} < std::tuple{all[b].excess, all[b].predicted, b};
  });
  std::vector<pipeline_candidate> sorted;
  for (const auto i : order) {
    sorted.push_back(std::move(all[i]));
  }
  return sorted;
}

UNITY_INLINE parallel::strategy pipeline_search::strategy_of(const pipeline_candidate& c) {
  if (c.stage == nullptr) {
    return c.solver->strategy_of(c.graph->ops, c.mapping.options, c.graph->graph.node_count());
  }
  parallel::strategy s(c.graph->graph.node_count());
  const auto& devices = c.stage->stages.mesh.devices;
  std::map<hardware::device_id, std::size_t> place;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    place.emplace(devices[i], i);
  }
  std::vector<std::size_t> first{0};  // by stage; configurations are those of the machine's first devices
  for (std::uint32_t k = 0; k < c.mapping.stage_count; ++k) {
    first.push_back(first.back() + c.solver_of(k).mesh().devices.size());
  }
  for (std::uint32_t i = 0; i < c.graph->ops.size(); ++i) {
    const auto k = c.mapping.stage_of(i);
    auto own = c.solver_of(k).configuration_of(c.graph->ops, i, c.mapping.options[i]);
    for (auto& d : own.devices) {
      d = devices[first[k] + place.at(d)];
    }
    s[c.graph->ops.node(i).index()] = std::move(own);
  }
  return s;
}

UNITY_INLINE parallel::pipeline pipeline_search::pipeline_of(const pipeline_candidate& c) {
  parallel::pipeline p{c.graph->count, {}, false, c.mapping.schedule, c.mapping.chunks};
  if (c.stage == nullptr) {
    p.stages.assign(c.graph->count > 1 ? c.solver->mesh().devices.size() : 0, 0);
    return p;
  }
  const auto& devices = c.stage->stages.mesh.devices;
  p.stages.resize(devices.size());
  std::size_t at = 0;
  for (std::uint32_t k = 0; k < c.mapping.stage_count; ++k) {
    for (std::size_t i = 0; i < c.solver_of(k).mesh().devices.size(); ++i) {
      p.stages[devices[at++].index()] = k;
    }
  }
  return p;
}

UNITY_INLINE std::uint64_t pipeline_search::goals() const {
  std::uint64_t sum = 0;
  for (const auto& [group, one] : solvers_) {
    for (const auto& solver : one->solvers) {
      sum += solver->goals();
    }
  }
  return sum;
}

UNITY_INLINE std::vector<std::int64_t> pipeline_search::microbatch_counts(std::int64_t samples, std::int64_t stages) {
  std::vector<std::int64_t> counts;
  for (auto wanted = stages; wanted <= std::min(samples, 8 * stages); wanted *= 2) {
    auto count = wanted;
    while (samples % count != 0) {
      ++count;
    }
    if (counts.empty() || counts.back() < count) {
      counts.push_back(count);
    }
  }
  return counts;
}

UNITY_INLINE stage_solvers& pipeline_search::solvers_of(std::size_t group) {
  auto& known = solvers_[group];
  if (known == nullptr) {
    std::vector<hardware::device_id> devices;
    for (const auto& row : hardware::devices_by_node(machine_.network)) {
      devices.insert(devices.end(), row.begin(), row.end());
    }
    const auto stages = static_cast<std::uint32_t>(devices.size() / group);
    devices.resize(stages * group);
    std::vector<std::vector<hardware::device_id>> first;  // devices of the first stage, by node
    for (std::size_t i = 0; i < group; ++i) {
      if (first.empty() || machine_.network[first.back().front()].node != machine_.network[devices[i]].node) {
        first.emplace_back();
      }
      first.back().push_back(devices[i]);
    }
    known = std::make_unique<stage_solvers>(stage_solvers{{machine_, routes_, std::move(devices), stages}, {}});
    constexpr auto placed = parallel::index_uses{1} << static_cast<unsigned>(parallel::index_use::placement);
    for (auto& mesh : hardware::meshes_of(first, options_.mesh_axes)) {
      known->solvers.push_back(std::make_unique<mesh_solver>(algebra_, machine_, routes_, std::move(mesh), clock_,
                                                             options_.uses & ~placed, options_.optimizer,
                                                             options_.memory_limit));
    }
  }
  return *known;
}

UNITY_INLINE void pipeline_search::add(const microbatch_graph& g, stage_solvers& stage, mesh_solver& solver,
                                       std::vector<pipeline_candidate>& all) {
  const auto stages = stage.stages.mesh.sizes[0];
  const auto shared = static_cast<int>((16 + g.count - 1) / g.count);  // reductions come once for all micro-batches
  const bool has_trades = options_.trades != parallel::memory_trades::none;
  std::optional<pipeline_candidate> best;
  for (const auto price : memory_prices) {
    parallel::mapping_objective o{shared, price, price == 0 ? 1 : std::min(stages, g.count)};
    o.trades = price == 0 ? parallel::memory_trades::none : options_.trades;
    auto found = solver.solve(g.ops, o);
    if (found.cost >= parallel::unreachable) {
      break;
    }
    auto trades =
        has_trades ? trades_of(solver, g.graph, g.ops, found.options, o) : std::vector<parallel::memory_trade>{};
    if (best && best->mapping.options == found.options && best->mapping.trades == trades) {
      continue;
    }
    auto c = cut(g, stage, solver, std::move(found.options), std::move(trades));
    if (!c) {
      break;
    }
    if (has_trades) {
      all.push_back(*c);
      best = std::move(c);
      continue;
    }
    if (!best || std::pair{c->excess, c->predicted} < std::pair{best->excess, best->predicted}) {
      best = std::move(c);
    }
    if (best->excess == bytes{}) {
      break;
    }
  }
  if (best && !has_trades) {
    all.push_back(*std::move(best));
  }
}

UNITY_INLINE auto pipeline_search::cut(const microbatch_graph& g, stage_solvers& stage, mesh_solver& solver,
                                       std::vector<std::uint32_t> options, std::vector<parallel::memory_trade> trades,
                                       std::uint32_t chunks) -> std::optional<pipeline_candidate> {
  const auto stages = static_cast<std::size_t>(stage.stages.mesh.sizes[0]);
  const auto priced = pieces_of(g, stage, solver, options, trades);
  // Equal groups may be cut as one device each.
  const std::vector<stage_way> ways{{1, priced.pieces}};
  const std::vector<std::size_t> groups{stages * chunks};
  stage_goal goal{groups[0], g.count, (g.count - 1) * chunks, chunks == 1 ? options_.memory_limit : bytes{}};
  goal.is_past_deadline = [&] { return is_past_deadline(); };
  const auto cuts = cut_into_stages(ways, groups, goal);
  if (!cuts) {
    return std::nullopt;
  }
  pipeline_candidate c{
      &g, &stage,       &solver,   {std::move(options), stages_of(g, cuts->first), static_cast<std::uint32_t>(stages)},
      {}, cuts->excess, cuts->held};
  c.mapping.chunks = chunks;
  c.mapping.trades = std::move(trades);
  if (chunks > 1) {
    c.mapping.schedule = parallel::pipeline_schedule::interleaved;
  }
  c.predicted =
      std::accumulate(priced.once.begin(), priced.once.end(), picoseconds{}) / static_cast<std::int64_t>(stages) +
      (g.count - 1) * chunks * cuts->slowest;
  for (const auto& p : priced.pieces) {
    c.predicted += p.takes;
  }
  return c;
}

UNITY_INLINE priced_pieces pipeline_search::pieces_of(const microbatch_graph& g, const stage_solvers& stage,
                                                      mesh_solver& solver, std::span<const std::uint32_t> options,
                                                      std::span<const parallel::memory_trade> trades) {
  const auto step_of = steps_of(g);
  priced_pieces all{std::vector<stage_piece>(g.steps.size()), std::vector<picoseconds>(g.steps.size())};
  for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
    const auto& o = solver.tables().of(g.ops.placed(i)).options[options[i]];
    const auto trade = trades.empty() ? parallel::memory_trade{} : trades[i];
    const auto costs = parallel::costs_of(o, trade, {});
    const auto updating = trade.sharding > 0 ? o.share_updating : o.updating;
    auto& piece = all.pieces[step_of[i]];
    piece.takes += costs.computing - updating;
    piece.weights += costs.weights;
    piece.activations += kept_bytes(g, solver, options, trades, i);
    all.once[step_of[i]] += updating + costs.synchronizing;
    add_reads(g, stage, solver, options, step_of, i, all.pieces);
  }
  return all;
}

UNITY_INLINE std::vector<pipeline_candidate> pipeline_search::schedules_of(const pipeline_candidate& c,
                                                                           double seconds) {
  watch_ = {};
  seconds_ = seconds;
  std::vector<pipeline_candidate> all{c};
  all.front().mapping.schedule = parallel::pipeline_schedule::zero_bubble;
  const auto stages = c.mapping.stage_count;
  for (const auto chunks : {2U, 4U}) {
    if (!c.solvers.empty() || c.graph->count % stages != 0 || c.graph->steps.size() < std::size_t{stages} * chunks) {
      continue;
    }
    auto other = cut(*c.graph, *c.stage, *c.solver, c.mapping.options, c.mapping.trades, chunks);
    if (!other) {
      break;
    }
    // An operator that reads nothing of the stages before would be executed in an earlier chunk than it was priced in.
    const auto found = parallel::chunks_of(c.graph->graph, strategy_of(*other), pipeline_of(*other));
    bool is_same = true;
    for (std::uint32_t i = 0; i < c.graph->ops.size(); ++i) {
      is_same = is_same && found[c.graph->ops.node(i).index()] == other->mapping.stages[i] / stages;
    }
    if (is_same) {
      all.push_back(*std::move(other));
    }
  }
  return all;
}

UNITY_INLINE const parallel::backward_reads& pipeline_search::kept(const parallel::placed_operator& p) {
  const auto [at, is_new] = kept_.try_emplace(p.key);
  if (is_new && has_backward(p)) {
    at->second = parallel::reads_of_adjoint(algebra_, p.dimensions->op, p.dimensions->inputs,
                                            p.dimensions->outputs.size(), p.wanted);
  }
  return at->second;
}

UNITY_INLINE bytes pipeline_search::kept_bytes(const microbatch_graph& g, mesh_solver& solver,
                                               std::span<const std::uint32_t> options,
                                               std::span<const parallel::memory_trade> trades, std::uint32_t i) {
  const auto& p = g.ops.placed(i);
  if (!has_backward(p)) {
    return {};
  }
  const auto& o = solver.tables().of(p).options[options[i]];
  const auto& reads = kept(p);
  const auto is_recomputed = [&](std::uint32_t k) { return !trades.empty() && trades[k].is_recomputed; };
  bytes sum{};
  for (std::size_t r = 0; r < p.dimensions->outputs.size() && !is_recomputed(i); ++r) {
    sum += reads.results[r] ? parallel::shard_bytes(p.dimensions->outputs[r], solver.mesh(), o.results[r]) : bytes{};
  }
  for (std::size_t x = 0; x < p.uses.size(); ++x) {
    const auto source = g.ops.sources(i)[x];
    if (p.uses[x] != parallel::operand_use::made || !reads.operands[x]) {
      continue;
    }
    const auto& maker = g.ops.placed(source.from);
    const bool is_kept_there =
        is_recomputed(source.from) ||
        (has_backward(maker) && kept(maker).results[source.result] &&
         solver.tables().of(maker).options[options[source.from]].results[source.result] == o.operands[x]);
    sum += is_kept_there ? bytes{} : parallel::shard_bytes(p.dimensions->inputs[x], solver.mesh(), o.operands[x]);
  }
  return sum;
}

UNITY_INLINE void pipeline_search::add_reads(const microbatch_graph& g, const stage_solvers& stage, mesh_solver& solver,
                                             std::span<const std::uint32_t> options,
                                             std::span<const std::size_t> step_of, std::uint32_t i,
                                             std::vector<stage_piece>& pieces) {
  const auto& t = solver.tables().of(g.ops.placed(i));
  const auto sources = g.ops.sources(i);
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from == parallel::operand_source::none) {
      continue;
    }
    const auto& maker = solver.tables().of(g.ops.placed(sources[x].from));
    const auto from = maker.states[maker.numbered[options[sources[x].from]].state][sources[x].result];
    const auto& space = *t.operands[x];
    pieces[step_of[i]].takes += picoseconds{distances_[&solver].from(space, from)[t.numbered[options[i]].operands[x]]};
    if (auto& before = pieces[step_of[sources[x].from]]; step_of[sources[x].from] != step_of[i]) {
      const auto held = parallel::shard_bytes(g.ops.placed(i).dimensions->inputs[x], solver.mesh(), space[from]);
      const auto ways = g.ops.placed(i).wanted[x] ? 2 : 1;
      const auto& costs = stage.stages.costs;
      before.sends = std::max(before.sends, ways * (costs.shift(1, held) + costs.delay(1)));
      before.passes = std::max(before.passes, held);
    }
  }
}

}  // namespace unity::systems

#endif
