#include "synchronization_search.hpp"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <unity/search/beam.hpp>
#include <unity/search/evaluator.hpp>
#include <unity/search/mcmc.hpp>
#include <unity/systems/autodist/evaluator.hpp>
#include <unity/systems/autodist/features.hpp>
#include <unity/systems/autodist/reruns.hpp>

namespace support {

using namespace unity;

const sync_outcome& sync_comparison::best() const {
  return best_ ? all_[*best_]
               : *std::min_element(all_.begin(), all_.end(), [](const sync_outcome& x, const sync_outcome& y) {
                   return std::pair{!x.excess.empty(), x.time()} < std::pair{!y.excess.empty(), y.time()};
                 });
}

picoseconds sync_comparison::computing() {
  parallel::synchronization apart;
  for (const auto& w : problem_.weights) {
    apart.weights.emplace_back().parts.front().kind =
        w.is_trained ? parallel::sync_kind::none : parallel::sync_kind::all_reduce;
  }
  return simulation_(apart).iteration;
}

void sync_comparison::add(std::string name, parallel::synchronization sync) {
  const auto measured = run_ ? std::optional{run_(sync)} : std::nullopt;
  add(std::move(name), std::move(sync), measured);
}

void sync_comparison::add(std::string name, parallel::synchronization sync, std::optional<picoseconds> measured) {
  const auto simulated = simulation_(sync);
  auto report = simulation_.report(sync);
  sync_outcome o{.name = std::move(name),
                 .sync = std::move(sync),
                 .iteration = simulated.iteration,
                 .moved = simulated.moved,
                 .memory_peak = report.memory_peak(),
                 .excess = std::move(report.excess),
                 .measured = measured,
                 .runs = measured ? 1U : 0U,
                 .is_rule = rules_.empty()};
  const auto loads = systems::served_bytes(problem_, o.sync);
  bytes sum{};
  for (const auto b : loads) {
    sum += b;
  }
  if (sum > bytes{}) {
    o.load = static_cast<double>(std::max_element(loads.begin(), loads.end())->count()) *
             static_cast<double>(loads.size()) / static_cast<double>(sum.count());
  }
  all_.push_back(std::move(o));
}

void sync_comparison::search(std::string_view name, std::size_t trials, double seconds, std::uint64_t seed) {
  if (rules_.empty()) {
    rules_.push_back(best());
  }
  if (name == "auto" || name == "random") {
    sample(name == "auto", trials, seconds, seed);
  } else {
    walk(name == "beam", trials, seconds, seed);
  }
}

void sync_comparison::run_again(std::size_t rounds) {
  std::vector<picoseconds> first;
  for (const auto& o : all_) {
    first.push_back(o.time());
  }
  const auto rules = std::count_if(all_.begin(), all_.end(), [](const sync_outcome& o) { return o.is_rule; });
  const auto found = systems::run_again(first, static_cast<std::size_t>(rules),
                                        [&](std::size_t i) { return run_(all_[i].sync); }, {.rounds = rounds});
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (const auto& again = found.again[i]) {
      all_[i].measured = again->median;
      all_[i].runs += static_cast<std::size_t>(again->repetitions);
    }
  }
  best_ = found.best;
}

void sync_comparison::sample(bool is_ranked, std::size_t trials, double seconds, std::uint64_t seed) {
  systems::trial_options o;
  o.trials = trials;
  o.seconds = seconds;
  o.seed = seed;
  o.is_ranked = is_ranked;
  const systems::sync_features features{problem_, resources_.machine, resources_.replicas};
  auto found = systems::find_by_trials(
      operators_, problem_, features, baseline(),
      [&](const parallel::synchronization& s) { return run_ ? run_(s) : simulation_(s).iteration; }, o);
  std::vector<picoseconds> times;
  for (const auto& t : found.trials) {
    times.push_back(t.time);
  }
  const auto fastest = systems::fastest_of(times, run_ ? systems::rerun_options{}.finalists : 1);
  for (std::size_t i = 0; i < fastest.size(); ++i) {
    const auto& t = found.trials[fastest[i]];
    const std::string name = is_ranked ? "auto" : "random";
    add(i == 0 ? name : fmt::format("{}_{}", name, i + 1), t.sync, run_ ? std::optional{t.time} : std::nullopt);
  }
  if (is_ranked) {
    trials_ = std::move(found);
  }
}

void sync_comparison::walk(bool is_beam, std::size_t trials, double seconds, std::uint64_t seed) {
  auto start = rules_[0].sync;
  start.weights.resize(problem_.weights.size());  // all by default is written as none
  if (is_beam) {
    beam_options o;
    o.limits.seconds = seconds;
    o.width = 4;
    o.patience = trials;
    const auto of_state = std::min(trials, std::max<std::size_t>(trials / 20, 10));
    o.limits.expansions = trials / of_state;
    const systems::sync_moves moves{problem_, of_state};
    evaluator_space space{moves, systems::sync_evaluator{simulation_, moves}, start};
    add("beam", beam(space, o).best.at);
    return;
  }
  chain_options o;
  o.limits.seconds = seconds;
  o.seed = seed;
  o.proposals = trials;
  o.patience = 1;
  o.keep_path = false;
  const systems::sync_moves moves{problem_};
  const systems::sync_evaluator evaluator{simulation_, moves};
  add("mcmc", mcmc_chains([&] { return evaluator; }, moves, {&start, 1}, o).best);
}

}  // namespace support
