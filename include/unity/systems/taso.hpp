// TASO's optimizer: searches substitutions and layouts of a tensor graph for a cheaper equivalent graph.
// Source: Jia's dissertation (2020), sections 2.6 to 2.8.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_rates.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/beam.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

enum class algorithm : std::uint8_t { backtracking, beam, mcmc, exact };

// The objective to minimize: time, or a mix of time (picoseconds) and arithmetic (operations), under a memory limit.
struct objective {
  tensor::roofline_rates device = *hardware::find_device("v100");  // for the roofline, if no other time model is given
  tensor::mode mode = tensor::mode::inference;
  double flops_weight = 0;                                           // 0: only time; 1: only operations
  cost_value memory_limit = std::numeric_limits<cost_value>::max();  // bytes; see tensor::memory_cost
};

// Options that apply only to some algorithms must keep their defaults for the others: alpha, sleep_sets and patience
// are for backtracking, checkpoint and resume for backtracking and exact, width for beam, beta for mcmc. The seed is
// used by mcmc only, threads by all but mcmc; they do not change the results of the others.
struct taso_options : backtracking_options {
  systems::objective objective{};
  systems::algorithm algorithm = systems::algorithm::backtracking;
  variants layouts = variants::kept;
  std::string resume{};  // checkpoint to resume from; empty: start anew
  std::size_t width = beam_options{}.width;
  double beta = mcmc_options{}.beta;
  std::uint64_t seed = mcmc_options{}.seed;
  std::size_t stages = 0;  // maximum number of graphs between the given one and the best to return as well
};

struct rule_use {
  std::string name{};
  std::size_t count = 0;
  double gain_s = 0;  // decrease of the objective over all uses, negative if it rose; in seconds if it is time alone
};

struct taso_result {
  tensor::tensor_graph graph{};
  // By node of `graph`: the same node of the given graph; null: made by rewriting.
  std::vector<node_id> origins{};
  double cost_before_s = 0;
  double cost_after_s = 0;
  std::vector<rule_use> rules_used{};  // largest gain first
  bool real_only = false;              // some used rule holds over the reals but not modulo a prime
  counters counts{};
  double seconds = 0;
  double cpu_s = 0;
  double seconds_to_best = 0;
  cost_value lower_bound = std::numeric_limits<cost_value>::min();
  std::uint64_t queued = 0;  // graphs that were found and worth expanding, but were not expanded
  stop_reason stopped = stop_reason::exhausted;
  // Graphs on the way to the best, spaced evenly by gain, the nearest to the given graph first. They include how they
  // were derived; search statistics are zero in them.
  std::vector<taso_result> stages{};
};

// The rules with a standing of at least `floor` that are safe for the mode.
[[nodiscard]] rule_set select_rules(const rule_set& rules, syntax::standing floor, tensor::mode mode);

// A model that sums operator times: tensor::time_cost with any durations, or tensor::analytic_cost.
template <class M>
concept time_model = staged_cost_model<M, tensor::algebra> && std::same_as<typename M::cost_type, picoseconds>;

template <time_model Time>
using objective_cost = constrained_cost<weighted_cost<Time, tensor::flop_cost>, tensor::memory_cost>;
using taso_cost = objective_cost<tensor::analytic_cost>;
using taso_space = rewrite_space<tensor::algebra, taso_cost>;

// `time` must be for the objective's mode; the objective's device is ignored.
template <time_model Time>
[[nodiscard]] objective_cost<Time> make_cost(const tensor::algebra& operators, Time time, const objective& o) {
  return {{std::move(time), tensor::flop_cost{operators, o.mode}, 1 - o.flops_weight},
          tensor::memory_cost{operators, o.mode},
          o.memory_limit};
}
[[nodiscard]] inline taso_cost make_cost(const tensor::algebra& operators, const objective& o) {
  return make_cost(operators, tensor::analytic_cost{operators, o.device, o.mode}, o);
}

namespace detail {

template <class Space>
using search_of = search_result<typename Space::state_type, typename Space::move_type>;

inline void check_options(const taso_options& o) {
  const taso_options plain;
  const bool saves = o.algorithm == algorithm::backtracking || o.algorithm == algorithm::exact;
  if (!saves && !(o.checkpoint.empty() && o.resume.empty())) {
    throw error{"search", "a checkpoint for another algorithm", "backtracking or exact"};
  }
  if (o.algorithm != algorithm::backtracking &&
      (o.alpha != plain.alpha || o.sleep_sets != plain.sleep_sets || o.patience != plain.patience)) {
    throw error{"search", "alpha, sleep sets or patience for another algorithm", "backtracking"};
  }
  if (o.algorithm != algorithm::beam && o.width != plain.width) {
    throw error{"search", "a width for another algorithm", "beam"};
  }
  if (o.algorithm != algorithm::mcmc && o.beta != plain.beta) {
    throw error{"search", "beta for another algorithm", "mcmc"};
  }
}

template <class Space>
search_of<Space> search(Space& space, const taso_options& options) {
  check_options(options);
  const best_first_options& common = options;
  switch (options.algorithm) {
    case algorithm::backtracking:
      return options.resume.empty() ? backtracking(space, options)
                                    : backtracking.resume(space, options.resume, options);
    case algorithm::exact:
      return options.resume.empty() ? exact(space, common) : exact.resume(space, options.resume, common);
    case algorithm::beam: return beam(space, beam_options{common, common.threads, options.width});
    case algorithm::mcmc: {
      mcmc_options o{common, options.seed};
      o.beta = options.beta;
      return mcmc(space, o);
    }
  }
  throw error{"search", "no such algorithm", "backtracking, beam, mcmc or exact"};
}

// The gain of each rule on the first `steps` moves toward the best graph: picoseconds of the objective, converted to
// seconds.
template <class Space>
std::vector<rule_use> uses(const Space& space, const search_of<Space>& found, std::size_t steps, cost_value start) {
  std::vector<rule_use> all;
  auto before = start;
  for (const auto& [move, cost] : std::span{found.path}.first(steps)) {
    const auto& name = space.rule_of(move).name;
    auto use = std::find_if(all.begin(), all.end(), [&](const rule_use& u) { return u.name == name; });
    if (use == all.end()) {
      use = all.insert(all.end(), rule_use{name});
    }
    ++use->count;
    use->gain_s += to_seconds(picoseconds{before - cost});
    before = cost;
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.gain_s != b.gain_s ? a.gain_s > b.gain_s : a.name < b.name; });
  return all;
}

// The result for the state after `steps` moves, with its derivation.
template <class Space>
taso_result result_of(const Space& space, const search_of<Space>& found, const typename Space::state_type& start,
                      const typename Space::state_type& state, std::size_t steps) {
  taso_result r;
  r.graph = space.graph(state);
  r.origins = space.origins(state);
  r.cost_before_s = to_seconds(start.total.first.first);
  r.cost_after_s = to_seconds(state.total.first.first);
  r.rules_used = uses(space, found, steps, space.cost(start));
  const auto path = std::span{found.path}.first(steps);
  r.real_only =
      std::any_of(path.begin(), path.end(), [&](const auto& step) { return space.rule_of(step.first).rule.real_only; });
  return r;
}

// States on the way to the best one: the first that achieve 1, 2, ..., `count` of `count` + 1 equal parts of its gain.
template <class Space>
std::vector<taso_result> stages_of(Space& space, const search_of<Space>& found, std::size_t count) {
  std::vector<taso_result> all;
  const auto start = space.initial();
  auto state = start;
  typename Space::scratch_type from;
  typename Space::scratch_type to;
  const auto gain = static_cast<double>(space.cost(start)) - static_cast<double>(found.cost);
  const auto parts = static_cast<double>(count + 1);
  for (std::size_t step = 0; step + 1 < found.path.size() && all.size() < count; ++step) {
    state = space.apply(state, found.path[step].first, from, to);
    std::swap(from, to);
    const auto part = (static_cast<double>(space.cost(start)) - static_cast<double>(space.cost(state))) / gain * parts;
    if (part >= static_cast<double>(all.size() + 1)) {
      all.push_back(result_of(space, found, start, state, step + 1));
    }
  }
  return all;
}

// Sums of costs are 64-bit, also those of more expensive graphs that a search visits.
// Throws: unity::error if the costs of the graph are so large that these sums could overflow.
template <time_model Time>
void expect_sums(const tensor::algebra& operators, const Time& time, const tensor::tensor_graph& g,
                 const objective& o) {
  constexpr double most = 0x1p61;
  const tensor::flop_cost arithmetic{operators, o.mode};
  double picoseconds_of_all = 0;
  double flops_of_all = 0;
  for (const auto n : node_ids(g)) {
    const auto types = [&](const auto& values) {
      std::vector<tensor::tensor_type> all;
      for (const auto v : values) {
        all.push_back(g.type(v));
      }
      return all;
    };
    const auto inputs = types(g.operands(n));
    const auto outputs = types(g.results(n));
    const auto& op = g.operation(n);
    if (operators.infer(op, inputs) != std::optional{outputs}) {
      return;  // the search itself reports the error
    }
    picoseconds_of_all += static_cast<double>(time.node_cost(op, inputs, outputs).count());
    flops_of_all += static_cast<double>(arithmetic.node_cost(op, inputs, outputs).count());
  }
  if (picoseconds_of_all > most || flops_of_all > most) {
    throw error{"cost", picoseconds_of_all > most ? "more than 2^61 picoseconds" : "more than 2^61 operations",
                "a smaller model, or a faster device"};
  }
}

inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace detail

// Searches for the cheapest graph that is equivalent to `graph` under the rules, with operators priced by `time`; all
// given rules are used.
// Throws: unity::error if the graph does not type-check, its costs do not fit in 64 bits, or the checkpoint is from
// another search.
template <time_model Time>
[[nodiscard]] taso_result taso(const tensor::algebra& operators, Time time, rule_set rules,
                               const tensor::tensor_graph& graph, const taso_options& options = {}) {
  const auto cpu_before = detail::cpu_seconds();
  const stopwatch watch;
  const auto end = end_of(options);
  detail::expect_sums(operators, time, graph, options.objective);
  rewrite_space space{operators, make_cost(operators, std::move(time), options.objective), std::move(rules), graph,
                      options.layouts};
  space.end_at(end);
  const auto start = space.initial();
  const auto seconds_before = options.excluded_seconds ? 0 : watch.seconds();
  auto rest = options;
  rest.limits.seconds -= seconds_before;
  const auto found = detail::search(space, rest);
  auto r = detail::result_of(space, found, start, found.best, found.path.size());
  r.counts = found.counts;
  r.seconds = seconds_before + found.seconds;
  r.cpu_s = detail::cpu_seconds() - cpu_before;
  r.seconds_to_best = seconds_before + found.history.back().seconds;
  r.lower_bound = found.lower_bound;
  r.queued = found.queued;
  r.stopped = found.stopped;
  if (options.stages > 0 && r.cost_after_s < r.cost_before_s) {
    r.stages = detail::stages_of(space, found, options.stages);
  }
  return r;
}
// With a roofline of the objective's device.
[[nodiscard]] inline taso_result taso(const tensor::algebra& operators, rule_set rules,
                                      const tensor::tensor_graph& graph, const taso_options& options = {}) {
  const auto& o = options.objective;
  return taso(operators, tensor::analytic_cost{operators, o.device, o.mode}, std::move(rules), graph, options);
}

#if defined(UNITY_COMPILED)
// The instance with the most common time model; defined in unity::compiled.
extern template taso_result taso(const tensor::algebra&, tensor::analytic_cost, rule_set, const tensor::tensor_graph&,
                                 const taso_options&);
#endif

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_TASO)

#include <iterator>

namespace unity::systems {

UNITY_INLINE rule_set select_rules(const rule_set& rules, syntax::standing floor, tensor::mode mode) {
  rule_set chosen;
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(chosen), [&](const substitution& s) {
    return s.rule.known >= floor &&
           (mode == tensor::mode::inference || s.rule.safe_for != tensor::algebra::inference_use);
  });
  return chosen;
}

}  // namespace unity::systems

#endif

#if defined(UNITY_DEFINE_SYSTEMS_TASO)
template unity::systems::taso_result unity::systems::taso(const unity::tensor::algebra&, unity::tensor::analytic_cost,
                                                          unity::rule_set, const unity::tensor::tensor_graph&,
                                                          const taso_options&);
#endif
