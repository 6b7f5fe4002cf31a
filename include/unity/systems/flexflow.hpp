// FlexFlow's optimizer: searches SOAP strategies of a training iteration by delta simulation.
// Source: Jia's dissertation (2020), chapter 3; sections 3.5 and 3.7.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/units.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/flexflow/evaluator.hpp>
#include <unity/systems/flexflow/moves.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A unit and an index into the configurations of its lead.
struct strategy_move {
  std::uint32_t unit = 0;
  std::uint32_t choice = 0;

  friend bool operator==(const strategy_move&, const strategy_move&) = default;
};

// Moves give any unit any of its configurations on aligned blocks. Refers to the strategy_moves.
class strategy_choices {
 public:
  using move_type = strategy_move;

  explicit strategy_choices(const strategy_moves& moves);

  [[nodiscard]] std::span<const strategy_move> moves(const parallel::strategy&) const noexcept { return all_; }
  [[nodiscard]] strategy_change change(strategy_move m) const {
    return moves_->change_unit(m.unit, choices_[m.unit][m.choice]);
  }
  // A sum over operators. Complexity: linear in them.
  [[nodiscard]] unity::fingerprint fingerprint_of(const parallel::strategy& s) const;
  // Complexity: linear in the change.
  [[nodiscard]] std::optional<unity::fingerprint> fingerprint_after(const parallel::strategy& s,
                                                                    unity::fingerprint sum,
                                                                    const strategy_change& by) const;

 private:
  [[nodiscard]] static unity::fingerprint fingerprint_of(node_id n, const parallel::configuration& c);

  const strategy_moves* moves_;
  std::vector<std::vector<parallel::configuration>> choices_{};  // by unit
  std::vector<strategy_move> all_{};
};

using strategy_space = evaluator_space<strategy_evaluator, strategy_choices>;

}  // namespace unity::systems

// "unit 3: choice 5"
template <>
struct fmt::formatter<unity::systems::strategy_move> : unity::plain_formatter {
  template <class Context>
  auto format(unity::systems::strategy_move m, Context& context) const -> decltype(context.out()) {
    return put(context, fmt::format("unit {}: choice {}", m.unit, m.choice));
  }
};

namespace unity::systems {

// mcmc: chains of strategy_proposal from every initial strategy. beam, greedy (a beam of width one): each unit may get
// any configuration on aligned blocks; from the cheapest initial strategy. exact: flexflow_exact, for small graphs.
enum class strategy_algorithm : std::uint8_t { mcmc, beam, greedy, exact };

// Options that apply only to some algorithms must keep their defaults for the others: unit_share, spread and the
// members of chain_options except seed and threads are for mcmc, width is for beam. Seed and threads do not change the
// results of the others. `limits` and `proposals` are totals over all chains, which get equal shares. limits.expansions
// counts proposals (mcmc), prices (beams) or prefixes (exact).
struct flexflow_options : chain_options {
  strategy_algorithm algorithm = strategy_algorithm::mcmc;
  std::optional<double> unit_share{};  // see strategy_proposal; nullopt: strategy_moves::unit_share
  double spread = 0.3;
  device_choice devices = device_choice::blocks;
  parallel::block_strides strides = parallel::block_strides::all;
  std::size_t width = 8;  // of the beam
};

struct flexflow_result {
  parallel::strategy best{};
  cost_value cost = 0;         // picoseconds, or at least over_memory
  cost_value lower_bound = 0;  // for exact: no strategy of its space costs less
  std::vector<cost_value> initial_costs{};
  std::vector<improvement> history{};
  std::uint64_t proposals = 0;  // for beams: prices; for exact: prefixes
  std::uint64_t accepted = 0;
  double seconds = 0;
  stop_reason stopped = stop_reason::converged;
};

namespace detail {

class flexflow_search {
 public:
  flexflow_search(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m,
                  parallel::lowering lowering, const flexflow_options& options)
      : prototype_{std::move(lowering), parallel::memory_limits(m)},
        moves_{a, g, prototype_.dimensions(), m.network.device_count(), options.strides},
        options_{options} {}

  [[nodiscard]] flexflow_result run(std::vector<parallel::strategy> initial) {
    return options_.algorithm == strategy_algorithm::mcmc ? chains(std::move(initial)) : beams(initial);
  }

 private:
  flexflow_result chains(std::vector<parallel::strategy> initial);
  flexflow_result beams(const std::vector<parallel::strategy>& initial);

  strategy_evaluator prototype_;
  strategy_moves moves_;
  const flexflow_options& options_;
};

// Throws: unity::error if an option for another algorithm differs from its default.
void check_options(const flexflow_options& o);

[[nodiscard]] flexflow_result prove(const tensor::tensor_graph& g, const hardware::machine& m,
                                    parallel::lowering lowering, const std::vector<parallel::strategy>& initial,
                                    const flexflow_options& options);

}  // namespace detail

// The data-parallel strategy, the expert one, and `random` strategies with randomly drawn units (random_unit_strategy).
[[nodiscard]] std::vector<parallel::strategy> initial_strategies(
    const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m, std::size_t random,
    std::uint64_t seed, parallel::block_strides strides = parallel::block_strides::all);

// The cheapest strategy found for one training iteration, starting from the initial ones. `lowering`: for the graph on
// the machine; it contains the time model. Without a time limit the result depends on the seed, not on threads.
// Complexity: per proposal, a trial of strategy_evaluator.
// Throws: unity::error if an initial strategy does not fit the graph and machine, or an option is for another
// algorithm.
[[nodiscard]] flexflow_result flexflow(const tensor::algebra& a, const tensor::tensor_graph& g,
                                       const hardware::machine& m, parallel::lowering lowering,
                                       std::vector<parallel::strategy> initial, const flexflow_options& options = {});

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_FLEXFLOW)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/search/beam.hpp>
#include <unity/systems/flexflow/exact.hpp>

namespace unity::systems {

UNITY_INLINE strategy_choices::strategy_choices(const strategy_moves& moves) : moves_{&moves} {
  for (std::size_t u = 0; u < moves.units().size(); ++u) {
    choices_.push_back(moves.placements().all(moves.units()[u].lead));
    for (std::size_t c = 0; c < choices_.back().size(); ++c) {
      all_.push_back({static_cast<std::uint32_t>(u), static_cast<std::uint32_t>(c)});
    }
  }
}

UNITY_INLINE unity::fingerprint strategy_choices::fingerprint_of(const parallel::strategy& s) const {
  unity::fingerprint sum{};
  for (std::size_t n = 0; n < s.size(); ++n) {
    sum += fingerprint_of(node_id{n}, s[n]);
  }
  return sum;
}

UNITY_INLINE std::optional<unity::fingerprint> strategy_choices::fingerprint_after(const parallel::strategy& s,
                                                                                   unity::fingerprint sum,
                                                                                   const strategy_change& by) const {
  bool changes = false;
  for (const auto& r : by) {
    const auto& now = s[r.node.index()];
    if (now != r.to) {
      changes = true;
      sum -= fingerprint_of(r.node, now);
      sum += fingerprint_of(r.node, r.to);
    }
  }
  return changes ? std::optional{sum} : std::nullopt;
}

UNITY_INLINE unity::fingerprint strategy_choices::fingerprint_of(node_id n, const parallel::configuration& c) {
  hasher h{n.index()};
  h.add(c.degrees.size());
  for (const auto d : c.degrees) {
    h.add(static_cast<std::uint64_t>(d));
  }
  for (const auto d : c.devices) {
    h.add(d.index());
  }
  return h.result();
}

}  // namespace unity::systems

namespace unity::systems::detail {

UNITY_INLINE void check_options(const flexflow_options& o) {
  const flexflow_options plain;
  if (o.algorithm != strategy_algorithm::mcmc &&
      (o.beta != plain.beta || o.chains != plain.chains || o.patience != plain.patience ||
       o.restart_after != plain.restart_after || o.unit_share != plain.unit_share || o.spread != plain.spread)) {
    throw error{"search",
                "options of mcmc (beta, chains, patience, restarts, unit share, spread) for another algorithm", "mcmc"};
  }
  if (o.algorithm != strategy_algorithm::beam && o.width != plain.width) {
    throw error{"search", "a width for another algorithm", "beam"};
  }
}

UNITY_INLINE flexflow_result flexflow_search::chains(std::vector<parallel::strategy> initial) {
  chain_options options = options_;
  options.keep_path = false;
  const auto most = std::min(options.proposals, options.limits.expansions);
  initial.resize(std::min<std::size_t>(initial.size(), std::max<std::uint64_t>(1, most)));
  options.chains = std::min<std::size_t>(options.chains, std::max<std::uint64_t>(1, most / initial.size()));
  const auto share = initial.size() * options.chains;
  options.proposals /= share;
  options.limits.expansions /= share;
  const strategy_proposal proposal{&moves_, options_.unit_share.value_or(moves_.unit_share()), options_.spread,
                                   options_.devices};
  const auto found = mcmc_chains([this] { return prototype_; }, proposal, initial, options);
  flexflow_result r{found.best,    found.cost,   0, {}, found.history, found.counts.expanded, found.counts.candidates,
                    found.seconds, found.stopped};
  for (std::size_t i = 0; i < found.chains.size(); i += options.chains) {
    r.initial_costs.push_back(found.chains[i].initial_cost);
  }
  return r;
}

UNITY_INLINE flexflow_result flexflow_search::beams(const std::vector<parallel::strategy>& initial) {
  flexflow_result r;
  std::size_t cheapest = 0;
  for (const auto& s : initial) {
    r.initial_costs.push_back(prototype_.reset(s));
    cheapest = r.initial_costs.back() < r.initial_costs[cheapest] ? r.initial_costs.size() - 1 : cheapest;
  }
  beam_options options{options_, options_.threads};
  const bool is_greedy = options_.algorithm == strategy_algorithm::greedy;
  options.width = is_greedy ? 1 : options_.width;
  options.patience = is_greedy ? 1 : options.patience;
  strategy_space space{strategy_choices{moves_}, prototype_, initial[cheapest]};
  // Each expansion prices all moves.
  options.limits.expansions /= std::max<std::size_t>(1, space.moves(space.initial()).size());
  const auto found = beam(space, options);
  r.best = found.best.at;
  r.cost = found.cost;
  r.history = found.history;
  r.proposals = found.counts.candidates + found.counts.rejected;
  r.accepted = found.path.size();
  r.seconds = found.seconds;
  r.stopped = found.stopped;
  return r;
}

UNITY_INLINE flexflow_result prove(const tensor::tensor_graph& g, const hardware::machine& m,
                                   parallel::lowering lowering, const std::vector<parallel::strategy>& initial,
                                   const flexflow_options& options) {
  flexflow_exact_options exact{options};
  exact.strides = options.strides;
  auto found = flexflow_exact(g, m, std::move(lowering), initial, exact);
  return {std::move(found.best), found.cost,      found.lower_bound, {},           std::move(found.history),
          found.counts.expanded, found.simulated, found.seconds,     found.stopped};
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE std::vector<parallel::strategy> initial_strategies(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                                const hardware::machine& m, std::size_t random,
                                                                std::uint64_t seed, parallel::block_strides strides) {
  const parallel::graph_dimensions all{a, g};
  std::vector<parallel::strategy> s{parallel::data_parallel(all, m.network), parallel::expert(a, g, all, m.network)};
  const strategy_moves moves{a, g, all, m.network.device_count(), strides};
  random_engine engine{seed};
  for (std::size_t i = 0; i < random; ++i) {
    s.push_back(random_unit_strategy(moves, engine));
  }
  return s;
}

UNITY_INLINE flexflow_result flexflow(const tensor::algebra& a, const tensor::tensor_graph& g,
                                      const hardware::machine& m, parallel::lowering lowering,
                                      std::vector<parallel::strategy> initial, const flexflow_options& options) {
  UNITY_EXPECTS(!initial.empty(), "at least one initial strategy");
  detail::check_options(options);
  if (options.algorithm == strategy_algorithm::exact) {
    return detail::prove(g, m, std::move(lowering), initial, options);
  }
  return detail::flexflow_search{a, g, m, std::move(lowering), options}.run(std::move(initial));
}

}  // namespace unity::systems

#endif
