#include "synchronization_search.hpp"

#include <algorithm>
#include <utility>

#include <unity/search/beam.hpp>
#include <unity/search/evaluator_mcmc.hpp>
#include <unity/search/evaluator_space.hpp>
#include <unity/systems/autodist/evaluator.hpp>
#include <unity/systems/autodist/features.hpp>
#include <unity/systems/autodist/moves.hpp>

namespace support {

using namespace unity;

const sync_outcome& sync_comparison::best() const {
  return *std::min_element(all_.begin(), all_.end(),
                           [](const sync_outcome& x, const sync_outcome& y) { return x.time() < y.time(); });
}

picoseconds sync_comparison::computing() {
  parallel::synchronization apart;
  for (const auto& w : problem_.weights) {
    apart.weights.emplace_back().parts.front().kind =
        w.is_trained ? parallel::sync_kind::none : parallel::sync_kind::all_reduce;
  }
  return simulation_(apart).iteration;
}

void sync_comparison::add(std::string name, parallel::synchronization how) {
  const auto simulated = simulation_(how);
  sync_outcome o{std::move(name), std::move(how), simulated.iteration, simulated.moved, {}, {}};
  const auto loads = systems::served_bytes(problem_, o.how);
  bytes sum{};
  for (const auto b : loads) {
    sum += b;
  }
  if (sum > bytes{}) {
    o.load = static_cast<double>(std::max_element(loads.begin(), loads.end())->count()) *
             static_cast<double>(loads.size()) / static_cast<double>(sum.count());
  }
  if (run_) {
    o.measured = run_(o.how);
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
  add(is_ranked ? "auto" : "random", found.trials[found.best].how);
  if (is_ranked) {
    trials_ = std::move(found);
  }
}

void sync_comparison::walk(bool is_beam, std::size_t trials, double seconds, std::uint64_t seed) {
  auto start = rules_[0].how;
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
