// FlexFlow's search for a program: its flags and its results.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/compute_bound.hpp>
#include <unity/parallel/strategies/placements.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_bound.hpp>
#include <unity/systems/flexflow.hpp>

#include "number_range.hpp"
#include "progress.hpp"
#include "search_flags.hpp"
#include "strategy_comparison.hpp"

namespace support {

struct flexflow_flags {
  std::size_t random = 1;
  unity::systems::flexflow_options options{};
};

inline const std::map<std::string, unity::systems::strategy_algorithm> strategy_algorithms{
    {"mcmc", unity::systems::strategy_algorithm::mcmc},
    {"beam", unity::systems::strategy_algorithm::beam},
    {"greedy", unity::systems::strategy_algorithm::greedy},
    {"exact", unity::systems::strategy_algorithm::exact}};

// The devices of the tasks of a drawn configuration.
struct placement_choice {
  unity::systems::device_choice devices;
  unity::parallel::block_strides strides;
};
inline const std::map<std::string, placement_choice> placement_choices{
    {"one", {unity::systems::device_choice::blocks, unity::parallel::block_strides::one}},
    {"strided", {unity::systems::device_choice::blocks, unity::parallel::block_strides::all}},
    {"any", {unity::systems::device_choice::any, unity::parallel::block_strides::all}}};

inline void declare(CLI::App& app, search_flags& flags, flexflow_flags& f) {
  auto& o = f.options;
  const auto own = [&flags](CLI::Option* flag) { return flags.of("flexflow", flag); };
  own(app.add_option_function<std::string>(
          "--algorithm", [&o](const std::string& name) { o.algorithm = strategy_algorithms.at(name); },
          "search algorithm; exact proves an optimum of small graphs"))
      ->check(CLI::IsMember({"mcmc", "beam", "greedy", "exact"}));
  own(app.add_option("--beta", o.beta,
                     "accept a strategy that is worse by a share r of the first with probability exp(-beta r)"))
      ->check(number_in(0.0, 1e9));
  own(app.add_option("--chains", o.chains, "Markov chains per starting strategy"))->check(number_in(1, 1024));
  own(app.add_option("--random", f.random, "random starting strategies, besides the data-parallel and expert ones"))
      ->check(number_in(0, 1024));
  own(app.add_option("--unit-share", o.unit_share,
                     "share of proposals that change all steps of a layer and its followers together; default: more "
                     "for longer layers"))
      ->check(number_in(0.0, 1.0));
  own(app.add_option("--spread", o.spread, "probability that a neighbouring layer changes with it"))
      ->check(number_in(0.0, 1.0));
  own(app.add_option_function<std::string>(
          "--placement",
          [&o](const std::string& name) {
            o.devices = placement_choices.at(name).devices;
            o.strides = placement_choices.at(name).strides;
          },
          "of tasks that a proposal draws: one (neighbouring devices), strided (also every k-th), any"))
      ->check(CLI::IsMember({"one", "strided", "any"}));
  own(app.add_option("--width", o.width, "strategies that a beam keeps"))->check(number_in(1, 1 << 20));
}

// Refuses flags that the search would ignore. Throws: unity::error.
inline void check(const flexflow_flags& f) {
  if (f.options.devices == unity::systems::device_choice::any &&
      f.options.algorithm != unity::systems::strategy_algorithm::mcmc) {
    throw unity::error{"--placement any", "an algorithm that looks at all configurations", "mcmc, which draws them"};
  }
}

// The search on one of the comparison's graphs, starting from data parallelism, expert, random and further strategies.
inline unity::systems::flexflow_result search_flexflow(strategy_comparison& c, std::size_t graph, flexflow_flags f,
                                                       const std::vector<unity::parallel::strategy>& further = {}) {
  using namespace unity;
  const auto& g = c.graph(graph);
  auto initial =
      systems::initial_strategies(c.operators(), g, c.machine(), f.random, f.options.seed, f.options.strides);
  initial.insert(initial.end(), further.begin(), further.end());
  f.options.watch = progress_line({"ms", 1e9, "proposals", "accepted"});
  auto found = systems::flexflow(c.operators(), g, c.machine(), c.lowering(graph), std::move(initial), f.options);
  end_progress(f.options.watch);
  return found;
}

struct flexflow_outcome {
  unity::picoseconds compute_bound{};
  unity::systems::flexflow_result found{};
};

// Effects: adds data, model, expert, the given strategies of the model's graph, and the result of the search.
inline flexflow_outcome compare_flexflow(strategy_comparison& c, const flexflow_flags& f,
                                         const std::vector<named_strategy>& given) {
  using namespace unity;
  const auto& all = c.lowering().dimensions();
  const auto& t = c.machine().network;
  c.add("data", 0, parallel::data_parallel(all, t));
  c.add("model", 0, parallel::model_parallel(c.operators(), c.graph(), all, t));
  c.add("expert", 0, parallel::expert(c.operators(), c.graph(), all, t));
  std::vector<parallel::strategy> further;
  for (const auto& s : given) {
    c.add(s.name, 0, s.strategy);
    further.push_back(s.strategy);
  }
  flexflow_outcome r;
  r.found = search_flexflow(c, 0, f, further);
  c.add("flexflow", 0, r.found.best);
  const parallel::placements placements{all, t.device_count(), f.options.strides};
  r.compute_bound = parallel::compute_bound(c.lowering(), c.machine(), placements);
  return r;
}

// The members of the result's JSON that only this search has.
inline nlohmann::json to_json(const flexflow_outcome& r) {
  return {{"compute_bound_s", unity::to_seconds(r.compute_bound)},
          {"search",
           {{"proposals", r.found.proposals},
            {"accepted", r.found.accepted},
            {"seconds", r.found.seconds},
            {"stop_reason", to_string(r.found.stopped)}}}};
}

inline void print(const flexflow_flags& f, const flexflow_outcome& r) {
  if (f.options.algorithm == unity::systems::strategy_algorithm::exact) {
    fmt::print("no strategy takes less than {:.3f} ms\n", static_cast<double>(r.found.lower_bound) * 1e-9);
  }
  fmt::print("computing alone takes {:.3f} ms at least on aligned blocks of devices\n",
             unity::to_seconds(r.compute_bound) * 1e3);
  const bool is_limit = r.found.stopped == unity::stop_reason::expansions;
  fmt::print("search: {} proposals, {} accepted, {:.3f} s, stopped: {}\n", r.found.proposals, r.found.accepted,
             r.found.seconds, is_limit ? "proposals" : to_string(r.found.stopped));
}

}  // namespace support
