// Plans of a graph that trade time for memory, and the frontier of both.
// Source: Unger et al., Unity (OSDI 2022), section 5.2, for the price of memory; the trades are those of Chen et al.,
// Training deep nets with sublinear memory cost (2016), and Rajbhandari et al., ZeRO (SC 2020).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/unity/memory_trading.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/systems/unity/microbatch_graphs.hpp>
#include <unity/systems/unity/pipelines.hpp>
#include <unity/systems/unity/program_size.hpp>
#include <unity/systems/unity/unequal_stages.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A plan with its simulated time and memory.
struct memory_plan {
  tensor::tensor_graph graph{};  // of one micro-batch
  parallel::strategy strategy{};
  parallel::pipeline pipeline{};
  parallel::synchronization synchronization{};
  parallel::recomputation recomputed{};
  parallel::strategy_report report{};
};

// The plans that no other plan beats: none is at least as fast and holds at most as much. Of equal plans, the first.
// Fastest first.
// Complexity: n log n.
[[nodiscard]] std::vector<memory_plan> frontier_of(std::vector<memory_plan> plans);

struct memory_options {
  std::size_t plans = 64;                   // how many are simulated for each graph, at most
  std::uint64_t program_tasks = 2'000'000;  // of larger programs, only one device of each stage, or kind, is simulated
  std::size_t stages = 64;                  // the most that a pipeline has; 1: no pipelines
  std::size_t mesh_axes = 2;                // the most that the meshes of a stage's devices have
  bool has_unequal = true;                  // also simulates half as many pipelines of unequal stages
  parallel::index_uses uses = parallel::all_index_uses;
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  bytes memory_limit{};  // of a device; 0: not known
  double seconds = 0;    // for each graph; infinity: no limit
  // Whether to simulate plans from all parts of the predicted frontier. false: those whose predicted memory is nearest
  // to the limit.
  bool is_whole = true;
};

// Finds plans of a graph that trade time for memory, and simulates those that are predicted to be near the frontier.
// Candidates are mappings onto the meshes of the solvers, with 1 to 64 micro-batches one after another, and pipelines.
// At each of several prices of memory, dynamic programs choose how each operator is divided, whether its results are
// recomputed, and which of ZeRO's stages its weights have (in pipelines none or the first). Also tries what people
// choose by hand: the mapping that is fastest without trades, with the same trade for all operators. Tries further
// schedules for the pipelines that were simulated.
// Leaves out pipelines of unequal stages (unequal_stages.hpp) whose programs are too large even to simulate one device
// of each kind. What is found without unequal stages is also found with them, unless time runs out.
// solvers: each with the share of gradient reductions that its objective counts, in sixteenths.
// Complexity: a solution for each solver or stage mesh, number of micro-batches and price.
[[nodiscard]] std::vector<memory_plan> memory_plans(const tensor::algebra& a, const hardware::machine& m,
                                                    const hardware::route_table& routes, parallel::shard_clock& clock,
                                                    const tensor::durations& durations, const tensor::tensor_graph& g,
                                                    std::span<const std::pair<mesh_solver*, int>> solvers,
                                                    const memory_options& options);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MEMORY_SEARCH)

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/mesh/mesh_program.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/folded_report.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>

namespace unity::systems {

namespace detail {

class memory_search {
 public:
  memory_search(const tensor::algebra& a, const hardware::machine& m, const hardware::route_table& routes,
                parallel::shard_clock& clock, const tensor::durations& durations, const memory_options& options)
      : algebra_{a},
        machine_{m},
        routes_{routes},
        durations_{durations},
        options_{options},
        graphs_{a},
        pipelines_{a, m, routes, clock,
                   pipeline_options{options.stages, options.mesh_axes, options.uses, options.optimizer,
                                    options.memory_limit, parallel::memory_trades::recomputing}} {}

  [[nodiscard]] std::vector<memory_plan> run(const tensor::tensor_graph& g,
                                             std::span<const std::pair<mesh_solver*, int>> solvers) &&;

 private:
  [[nodiscard]] bool is_past_deadline(double share = 1) const { return watch_.seconds() >= share * options_.seconds; }
  // Whether its report is predicted to end too late. Only reports on folded programs take long enough to predict it.
  [[nodiscard]] bool is_late_for(const pipeline_candidate& c, double share = 1) const {
    return watch_.seconds() + folding_.seconds(folded_tasks(c)) >= share * options_.seconds;
  }
  [[nodiscard]] std::uint64_t folded_tasks(const pipeline_candidate& c) const {
    return c.folded_tasks(options_.program_tasks, machine_.network.device_count());
  }
  // Effects: adds the mappings at all prices of memory. share: of gradient reductions that count, in sixteenths.
  void add(const microbatch_graph& g, mesh_solver& solver, int share);
  // Effects: adds this mapping once for each trade, made by all operators.
  void add_uniform(const microbatch_graph& g, mesh_solver& solver, const std::vector<std::uint32_t>& options,
                   picoseconds between, const parallel::mapping_objective& o);
  // between: the time of a micro-batch to convert operands to the layouts in which they are read.
  void add(const microbatch_graph& g, mesh_solver& solver, std::vector<std::uint32_t> options,
           std::vector<parallel::memory_trade> trades, picoseconds between, const parallel::mapping_objective& o);
  // Effects: puts the candidates in the order in which they are simulated, those by hand first. Removes others that are
  // far from the predicted frontier.
  void choose();
  // The candidates near the predicted frontier, in the order in which they are simulated.
  [[nodiscard]] std::vector<pipeline_candidate> near_frontier(std::vector<pipeline_candidate> all) const;
  // Pipelines of unequal stages that are near the predicted frontier of all candidates, including them.
  [[nodiscard]] std::vector<pipeline_candidate> unequal(const tensor::tensor_graph& g);
  // Effects: simulates the first `most` of them, as long as that share of the time lasts.
  void simulate(std::span<const pipeline_candidate> all, std::size_t most, double share);
  // Effects: simulates the first `most` of them under further schedules.
  void try_schedules(std::span<const pipeline_candidate> all, std::size_t most);
  void simulate(const pipeline_candidate& c);
  // Whether a program of all devices would be too large. Such plans do not have ZeRO's stages 2 and 3, which cannot be
  // simulated by one device of each stage.
  [[nodiscard]] bool is_large(const microbatch_graph& g, std::uint32_t stages) const {
    return is_large_program(options_.program_tasks, machine_.network.device_count(), g.ops.size(), stages, g.count);
  }
  [[nodiscard]] bool can_simulate(std::size_t operators, std::uint32_t stages, std::int64_t microbatches) const {
    const auto devices = machine_.network.device_count();
    return !is_large_program(options_.program_tasks, devices, operators, stages, microbatches) ||
           can_fold_program(options_.program_tasks, devices, operators, stages, microbatches);
  }
  [[nodiscard]] parallel::strategy_report report_on(const pipeline_candidate& c, const memory_plan& p) const;

  static constexpr std::int64_t most_microbatches = 64;

  const tensor::algebra& algebra_;
  const hardware::machine& machine_;
  const hardware::route_table& routes_;
  const tensor::durations& durations_;
  const memory_options& options_;
  microbatch_graphs graphs_;
  pipeline_search pipelines_;
  std::vector<pipeline_candidate> candidates_{};
  // The number of candidates such as people choose by hand: the first solver's mapping of all samples at once, with the
  // same trade for all operators. They come first in candidates_ and are simulated first, because their overlap of
  // exchanges is predicted poorly.
  std::size_t by_hand_ = 0;
  std::vector<memory_plan> plans_{};
  folding_pace folding_{};
  stopwatch watch_{};
};

UNITY_INLINE std::vector<memory_plan> memory_search::run(const tensor::tensor_graph& g,
                                                         std::span<const std::pair<mesh_solver*, int>> solvers) && {
  const auto samples = parallel::sample_count(algebra_, g);
  for (std::int64_t count = 1; count == 1 || count <= std::min(samples, most_microbatches); count *= 2) {
    for (const auto& [solver, share] : solvers) {
      const auto* part = is_past_deadline(0.3) || samples % count != 0 ? nullptr : graphs_.of(g, count);
      if (part != nullptr) {
        solver->end_in(0.3 * options_.seconds - watch_.seconds());
        add(*part, *solver, share);
        solver->end_in(std::numeric_limits<double>::infinity());
      }
    }
  }
  if (options_.stages > 1) {
    auto staged = pipelines_.run(g, 0.6 * options_.seconds - watch_.seconds());
    std::move(staged.begin(), staged.end(), std::back_inserter(candidates_));
  }
  const auto others = options_.stages > 1 && options_.has_unequal ? unequal(g) : std::vector<pipeline_candidate>{};
  choose();
  simulate(candidates_, options_.plans, others.empty() ? 0.9 : 0.85);
  simulate(others, options_.plans / 2, 0.9);
  try_schedules(candidates_, options_.plans);
  try_schedules(others, options_.plans / 2);
  return std::move(plans_);
}

UNITY_INLINE std::vector<pipeline_candidate> memory_search::unequal(const tensor::tensor_graph& g) {
  constexpr double share = 0.65;
  const auto most = static_cast<std::uint32_t>(std::min(options_.stages, unequal_stages::most_stages));
  if (is_past_deadline(share) || !can_simulate(g.node_count(), most, 2)) {
    return {};
  }
  unequal_stages search{pipelines_};
  auto all = search.run(g, share * options_.seconds - watch_.seconds());
  const auto is_out = [&](const pipeline_candidate& c) {
    return !can_simulate(c.graph->ops.size(), c.mapping.stage_count, c.graph->count);
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_out), all.end());
  all.insert(all.end(), candidates_.begin(), candidates_.end());
  auto front = near_frontier(std::move(all));
  const auto is_known = [](const pipeline_candidate& c) { return c.solvers.empty(); };
  front.erase(std::remove_if(front.begin(), front.end(), is_known), front.end());
  return front;
}

UNITY_INLINE void memory_search::simulate(std::span<const pipeline_candidate> all, std::size_t most, double share) {
  for (std::size_t i = 0; i < std::min(all.size(), most) && !is_past_deadline(share); ++i) {
    if (!is_late_for(all[i], share)) {
      simulate(all[i]);
    }
  }
}

UNITY_INLINE void memory_search::try_schedules(std::span<const pipeline_candidate> all, std::size_t most) {
  for (std::size_t i = 0; i < std::min(all.size(), most) && !is_past_deadline(); ++i) {
    if (all[i].stage != nullptr) {
      for (const auto& c : pipelines_.schedules_of(all[i], options_.seconds - watch_.seconds())) {
        if (!is_late_for(c)) {
          simulate(c);
        }
      }
    }
  }
}

UNITY_INLINE void memory_search::add(const microbatch_graph& g, mesh_solver& solver, int share) {
  const auto count = static_cast<int>(g.count);
  for (std::int64_t price = 0; price <= memory_prices.back();  // like memory_prices, but in smaller steps
       price = price == 0 ? memory_prices[1] : 4 * price) {
    const bool is_free = price == 0;
    parallel::mapping_objective o{(share + count - 1) / count, price};
    const auto trades = is_large(g, 1) ? parallel::memory_trades::recomputing : parallel::memory_trades::sharding;
    o.trades = is_free ? parallel::memory_trades::none : trades;
    o.sharding_16ths = count > 1 ? 16 : share;
    auto found = solver.solve(g.ops, o);
    if (found.cost >= parallel::unreachable) {
      return;
    }
    auto cost = found.cost;
    for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
      cost -= parallel::price_of(solver.tables().of(g.ops.placed(i)).options[found.options[i]], o);
    }
    const picoseconds between{cost};
    if (is_free) {
      o.trades = trades;
      const bool is_first = candidates_.empty();
      add_uniform(g, solver, found.options, between, o);
      by_hand_ = is_first ? candidates_.size() : by_hand_;
    } else {
      auto own = trades_of(solver, g.graph, g.ops, found.options, o);
      add(g, solver, std::move(found.options), std::move(own), between, o);
    }
  }
}

UNITY_INLINE void memory_search::add_uniform(const microbatch_graph& g, mesh_solver& solver,
                                             const std::vector<std::uint32_t>& options, picoseconds between,
                                             const parallel::mapping_objective& o) {
  const auto products = parallel::recomputation_between_products(algebra_, g.graph);
  const auto full = parallel::full_recomputation(g.graph);
  const auto stages = o.trades == parallel::memory_trades::sharding ? 3U : 1U;
  for (std::uint32_t stage = 0; stage <= stages; ++stage) {
    for (const auto* again : {static_cast<const parallel::recomputation*>(nullptr), &products, &full}) {
      std::vector<parallel::memory_trade> trades(g.ops.size());
      for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
        const auto& option = solver.tables().of(g.ops.placed(i)).options[options[i]];
        trades[i].sharding = option.weight_copies > bytes{} ? stage : 0;
        trades[i].is_recomputed = again != nullptr && (*again)[g.ops.node(i).index()];
      }
      add(g, solver, options, std::move(trades), between, o);
    }
  }
}

UNITY_INLINE void memory_search::add(const microbatch_graph& g, mesh_solver& solver, std::vector<std::uint32_t> options,
                                     std::vector<parallel::memory_trade> trades, picoseconds between,
                                     const parallel::mapping_objective& o) {
  const auto is_same = [&](const pipeline_candidate& c) {
    return c.graph == &g && c.solver == &solver && c.mapping.options == options && c.mapping.trades == trades;
  };
  if (std::any_of(candidates_.begin(), candidates_.end(), is_same)) {
    return;
  }
  pipeline_candidate c{&g, nullptr, &solver, {std::move(options), {}, 1}};
  c.mapping.stages.assign(g.ops.size(), 0);
  for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
    const auto costs =
        parallel::costs_of(solver.tables().of(g.ops.placed(i)).options[c.mapping.options[i]], trades[i], o);
    c.predicted += costs.computing + costs.synchronizing;
    c.held += costs.weights + pipelines_.kept_bytes(g, solver, c.mapping.options, trades, i);
  }
  c.predicted = g.count * (c.predicted + between);
  c.mapping.trades = std::move(trades);
  candidates_.push_back(std::move(c));
}

UNITY_INLINE std::vector<pipeline_candidate> memory_search::near_frontier(std::vector<pipeline_candidate> all) const {
  unity::stable_sort(all, [](const pipeline_candidate& x, const pipeline_candidate& y) {
    return std::tuple{x.predicted, x.held} < std::tuple{y.predicted, y.held};
  });
  // Predictions are not exact, so a candidate is removed only if another one is better by this factor in both.
  constexpr double near = 0.95;
  std::vector<pipeline_candidate> front;
  std::size_t faster = 0;  // the number of candidates that are faster by that factor
  auto least = std::numeric_limits<double>::infinity();
  for (const auto& c : all) {
    const auto limit = near * static_cast<double>(c.predicted.count());
    for (; faster < all.size() && static_cast<double>(all[faster].predicted.count()) <= limit; ++faster) {
      least = std::min(least, static_cast<double>(all[faster].held.count()));
    }
    if (near * static_cast<double>(c.held.count()) < least) {
      front.push_back(c);
    }
  }
  if (!options_.is_whole) {
    const auto distance = [&](const pipeline_candidate& c) {
      const auto limit = static_cast<double>(options_.memory_limit.count()) + 1;
      return std::abs(std::log((static_cast<double>(c.held.count()) + 1) / limit));
    };
    unity::stable_sort(front, [&](const auto& x, const auto& y) { return distance(x) < distance(y); });
    return front;
  }
  // Every 2^k-th candidate, with k falling to 0, so that any first part of the order covers the whole frontier.
  std::vector<pipeline_candidate> ordered;
  std::vector<bool> is_taken(front.size());
  for (auto step = std::max<std::size_t>(1, std::bit_floor(front.size())); step > 0; step /= 2) {
    for (std::size_t i = 0; i < front.size(); i += step) {
      if (!is_taken[i]) {
        is_taken[i] = true;
        ordered.push_back(front[i]);
      }
    }
  }
  return ordered;
}

UNITY_INLINE void memory_search::choose() {
  std::vector<pipeline_candidate> chosen(candidates_.begin(),
                                         candidates_.begin() + static_cast<std::ptrdiff_t>(by_hand_));
  for (auto& c : near_frontier(std::move(candidates_))) {
    const auto is_same = [&](const pipeline_candidate& k) {
      return k.graph == c.graph && k.solver == c.solver && k.stage == c.stage && k.mapping == c.mapping;
    };
    if (std::none_of(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(by_hand_), is_same)) {
      chosen.push_back(std::move(c));
    }
  }
  candidates_ = std::move(chosen);
}

UNITY_INLINE void memory_search::simulate(const pipeline_candidate& c) {
  if (c.mapping.schedule == parallel::pipeline_schedule::zero_bubble && c.solvers.empty() &&
      is_large(*c.graph, c.mapping.stage_count)) {
    return;  // mesh_report does not support separate weight gradients
  }
  const auto& g = *c.graph;
  memory_plan p{g.graph,
                pipeline_search::strategy_of(c),
                pipeline_search::pipeline_of(c),
                synchronization_of(g.graph, g.training, g.ops, c.mapping.trades),
                recomputation_of(g.graph, g.ops, c.mapping.trades),
                {}};
  const stopwatch watch;
  p.report = report_on(c, p);
  if (const auto folded = folded_tasks(c); folded > 0) {
    folding_.took(folded, watch.seconds());
  }
  plans_.push_back(std::move(p));
}

UNITY_INLINE parallel::strategy_report memory_search::report_on(const pipeline_candidate& c,
                                                                const memory_plan& p) const {
  const auto& g = *c.graph;
  const bool is_folded = is_large(g, c.mapping.stage_count);
  if (!is_folded || !c.solvers.empty()) {
    parallel::lowering lowering{algebra_,          g.graph, machine_, durations_, parallel::transfers::exchanges,
                                options_.optimizer};
    return is_folded ? parallel::folded_report(lowering, p.graph, machine_, p.strategy, p.pipeline, p.synchronization,
                                               p.recomputed, most_exact_tasks(options_.program_tasks, g.count))
                     : parallel::report_on(lowering, p.graph, machine_, p.strategy, p.pipeline, p.synchronization,
                                           p.recomputed);
  }
  if (c.stage != nullptr) {
    return parallel::mesh_report(algebra_, machine_, c.solver->tables(), c.stage->stages, g.ops, c.mapping, g.count);
  }
  const parallel::stage_mesh all{machine_, routes_, c.solver->mesh().devices, 1};
  return parallel::mesh_report(algebra_, machine_, c.solver->tables(), all, g.ops, c.mapping, g.count);
}

}  // namespace detail

UNITY_INLINE std::vector<memory_plan> frontier_of(std::vector<memory_plan> plans) {
  unity::stable_sort(plans, [](const memory_plan& x, const memory_plan& y) {
    return std::tuple{x.report.iteration, x.report.memory_peak()} <
           std::tuple{y.report.iteration, y.report.memory_peak()};
  });
  std::vector<memory_plan> front;
  for (auto& p : plans) {
    if (front.empty() || p.report.memory_peak() < front.back().report.memory_peak()) {
      front.push_back(std::move(p));
    }
  }
  return front;
}

UNITY_INLINE std::vector<memory_plan> memory_plans(const tensor::algebra& a, const hardware::machine& m,
                                                   const hardware::route_table& routes, parallel::shard_clock& clock,
                                                   const tensor::durations& durations, const tensor::tensor_graph& g,
                                                   std::span<const std::pair<mesh_solver*, int>> solvers,
                                                   const memory_options& options) {
  return detail::memory_search{a, m, routes, clock, durations, options}.run(g, solvers);
}

}  // namespace unity::systems

#endif
