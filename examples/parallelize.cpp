// How to divide one iteration of training among the devices of a machine: a model and a machine go in, a plan comes out.
//
// run: zoo:lenet --machine p100:1x4 --search flexflow --max-proposals 300 --out {out} --json {out}/result.json
// run: zoo:rnnlm?seq=2&hidden=64&vocab=100 --machine k80:2x4 --search flexflow --max-proposals 200 --seed 3 --threads 2
// run: zoo:mlp?form=fig1 --machine host:1x2 --algorithm greedy --out {out}
// run: zoo:lenet?batch=4 --machine p100:1x4 --algorithm exact --placement one
// run: zoo:lenet?batch=4 --machine p100:1x2 --algorithm beam --width 2 --placement one --json {out}/result.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/io/strategy_svg.hpp>
#include <unity/parallel/compute_bound.hpp>
#include <unity/parallel/lowering.hpp>
#include <unity/parallel/memory_limits.hpp>
#include <unity/parallel/placements.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategy.hpp>
#include <unity/parallel/strategy_report.hpp>
#include <unity/systems/flexflow.hpp>
#include <unity/tensor/differentiate.hpp>

#include "support/machines.hpp"
#include "support/models.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/progress.hpp"
#include "support/quantity.hpp"

namespace {

using namespace unity;

constexpr std::string_view searched = "flexflow";
constexpr std::ptrdiff_t first_file = 3;  // of given_strategies

struct arguments {
  std::string model{};
  std::string machine{};
  std::string search = "flexflow";
  std::string budget = "30s";
  std::string out{};
  std::string json{};
  std::vector<std::string> dimensions{};
  std::vector<std::string> strategies{};  // files
  std::size_t random = 1;
  systems::flexflow_options options{};
};

const std::map<std::string, systems::strategy_algorithm> algorithms{{"mcmc", systems::strategy_algorithm::mcmc},
                                                                    {"beam", systems::strategy_algorithm::beam},
                                                                    {"greedy", systems::strategy_algorithm::greedy},
                                                                    {"exact", systems::strategy_algorithm::exact}};

// Where a drawn configuration's tasks lie.
struct placement_choice {
  systems::device_choice devices;
  parallel::block_strides strides;
};
const std::map<std::string, placement_choice> placement_choices{
    {"one", {systems::device_choice::blocks, parallel::block_strides::one}},
    {"strided", {systems::device_choice::blocks, parallel::block_strides::all}},
    {"any", {systems::device_choice::any, parallel::block_strides::all}}};

void declare(CLI::App& app, arguments& a) {
  auto& o = a.options;
  o.proposals = std::numeric_limits<std::uint64_t>::max();
  app.add_option("MODEL", a.model, std::string{support::model_help} + "; the batch of a zoo model is of each device")->required();
  app.add_option("--machine", a.machine, support::machine_help)->required();
  app.add_option("--search", a.search, "the system whose strategies are searched")->check(CLI::IsMember({"flexflow"}));
  app.add_option_function<std::string>(
         "--algorithm", [&o](const std::string& name) { o.algorithm = algorithms.at(name); },
         "mcmc, beam, greedy, or exact, which proves an optimum of small graphs")
      ->check(CLI::IsMember({"mcmc", "beam", "greedy", "exact"}));
  app.add_option("--budget", a.budget, "time to search: 500ms, 30s, 5m");
  app.add_option("--max-proposals", o.limits.expansions, "proposals (prices of beams, prefixes of exact) at most, of all chains together")
      ->check(CLI::Range(0.0, 1e18));
  app.add_option("--seed", o.seed, "with equal seeds and no limit of time results are equal");
  app.add_option("--threads", o.threads, "the result does not depend on it, but for a limit of time")->check(CLI::Range(1, 1024));
  app.add_option("--beta", o.beta, "a strategy dearer by the share r of the first is kept with probability exp(-beta r)")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--chains", o.chains, "from each strategy that the search starts with")->check(CLI::Range(1, 1024));
  app.add_option("--patience", o.patience, "a chain ends without a better strategy for this share of its budget; 1: never")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--random", a.random, "random strategies to start from, besides data parallel and expert ones")
      ->check(CLI::Range(0, 1024));
  app.add_option("--strategy", a.strategies, "file of a strategy to compare and to start from");
  app.add_option("--unit-share", o.unit_share,
                 "share of proposals that change all steps of a layer and what follows it at once; default: the more the longer the layers")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--spread", o.spread, "probability that a neighbour of what changes at once changes with it")->check(CLI::Range(0.0, 1.0));
  app.add_option_function<std::string>(
         "--placement",
         [&o](const std::string& name) {
           o.devices = placement_choices.at(name).devices;
           o.strides = placement_choices.at(name).strides;
         },
         "of tasks that a proposal draws: one (neighbouring devices), strided (also every k-th), any")
      ->check(CLI::IsMember({"one", "strided", "any"}));
  app.add_option("--width", o.width, "of beams")->check(CLI::Range(1, 1 << 20));
  app.add_option("--dim", a.dimensions, support::dimension_help);
  app.add_option("--out", a.out, "folder for plan.json, strategy.json and strategy.svg of the best strategy");
  app.add_option("--json", a.json, "file for the result as JSON");
}

// The batch of a zoo model is per device, so machines are compared on work that grows with them.
tensor::tensor_graph load_graph(const tensor::algebra& operators, const arguments& a, std::size_t devices) {
  if (!tensor::zoo::is_name(a.model)) {
    return support::load_model(operators, a.model, a.dimensions).graph;
  }
  auto r = tensor::zoo::parse(a.model);
  if (r.values.batch != tensor::zoo::sizes::absent) {
    r.values.batch *= static_cast<std::int64_t>(devices);
  }
  return r.chosen->build(operators, r.values);
}

struct named_strategy {
  std::string name{};
  parallel::strategy strategy{};
  parallel::strategy_report report{};
};

struct outcome {
  tensor::tensor_graph graph{};
  machine::machine machine{};
  std::vector<named_strategy> strategies{};
  std::size_t best = 0;
  picoseconds compute_bound{};
  systems::flexflow_result found{};
};

// The fastest of those that fit in memory; where none does, the one that is least over.
std::size_t best_of(const std::vector<named_strategy>& all) {
  const auto over = [](const named_strategy& s) {
    bytes sum{};
    for (const auto& e : s.report.excess) {
      sum += e.over;
    }
    return sum;
  };
  const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
    return over(a) != over(b) ? over(a) < over(b) : a.report.iteration < b.report.iteration;
  });
  return static_cast<std::size_t>(best - all.begin());
}

std::vector<named_strategy> given_strategies(const tensor::algebra& operators, const arguments& a, const outcome& r,
                                             const parallel::graph_dimensions& all) {
  const auto& t = r.machine.network;
  std::vector<named_strategy> given{{"data", parallel::data_parallel(all, t), {}},
                                    {"model", parallel::model_parallel(operators, r.graph, all, t), {}},
                                    {"expert", parallel::expert(operators, r.graph, all, t), {}}};
  for (const auto& file : a.strategies) {
    given.push_back({file, io::read_strategy(operators, r.graph, r.machine, file), {}});
  }
  return given;
}

outcome run_search(const tensor::algebra& operators, arguments& a) {
  outcome r;
  r.machine = support::load_machine(a.machine);
  r.graph = load_graph(operators, a, r.machine.network.device_count());
  parallel::lowering lowering{operators, r.graph, r.machine};
  r.strategies = given_strategies(operators, a, r, lowering.dimensions());
  auto initial = systems::initial_strategies(operators, r.graph, r.machine, a.random, a.options.seed, a.options.strides);
  for (auto s = r.strategies.begin() + first_file; s != r.strategies.end(); ++s) {
    initial.push_back(s->strategy);
  }
  a.options.watch = support::progress_line({"ms", 1e9, "proposals", "accepted"});
  r.found = systems::flexflow(operators, r.graph, r.machine, lowering, initial, a.options);
  support::end_progress(a.options.watch);
  r.strategies.push_back({std::string{searched}, r.found.best, {}});
  for (auto& s : r.strategies) {
    s.report = parallel::report_on(lowering, r.graph, r.machine, s.strategy);
  }
  r.best = best_of(r.strategies);
  const parallel::placements placements{lowering.dimensions(), r.machine.network.device_count(), a.options.strides};
  r.compute_bound = parallel::compute_bound(lowering, r.machine, placements);
  return r;
}

nlohmann::json to_json(const outcome& r, const named_strategy& s) {
  const auto& p = s.report;
  auto over = nlohmann::json::array();
  for (const auto& e : p.excess) {
    over.push_back({{"device", r.machine.network[machine::device_id{e.device}].name}, {"bytes_over", e.over.count()}});
  }
  return {{"name", s.name},
          {"iteration_s", to_seconds(p.iteration)},
          {"compute_s", to_seconds(p.compute)},
          {"communication_s", to_seconds(p.communication)},
          {"communication_bytes", p.communicated.count()},
          {"communication_elements", p.communicated_elements},
          {"memory_peak_bytes", p.memory_peak().count()},
          {"out_of_memory", over}};
}

nlohmann::json to_json(const arguments& a, const outcome& r) {
  auto strategies = nlohmann::json::array();
  for (const auto& s : r.strategies) {
    strategies.push_back(to_json(r, s));
  }
  return {{"model", a.model},
          {"machine", a.machine},
          {"devices", r.machine.network.device_count()},
          {"strategies", strategies},
          {"best", r.strategies[r.best].name},
          {"compute_bound_s", to_seconds(r.compute_bound)},
          {"plan", a.out.empty() ? nlohmann::json{} : nlohmann::json("plan.json")},
          {"search",
           {{"proposals", r.found.proposals},
            {"accepted", r.found.accepted},
            {"seconds", r.found.seconds},
            {"stop_reason", to_string(r.found.stopped)}}}};
}

void print(const arguments& a, const outcome& r) {
  std::printf("%s on %s (%zu devices)\n", a.model.c_str(), r.machine.name.c_str(), r.machine.network.device_count());
  std::printf("%-12s %14s %14s %16s %14s %14s\n", "strategy", "iteration, ms", "computing, ms", "communicating, ms",
              "moved, MB", "memory, MB");
  for (const auto& s : r.strategies) {
    const auto& p = s.report;
    std::printf("%-12s %14.3f %14.3f %16.3f %14.3f %14.3f%s\n", s.name.c_str(), to_seconds(p.iteration) * 1e3, to_seconds(p.compute) * 1e3,
                to_seconds(p.communication) * 1e3, static_cast<double>(p.communicated.count()) * 1e-6,
                static_cast<double>(p.memory_peak().count()) * 1e-6, &s == &r.strategies[r.best] ? "  best" : "");
  }
  for (const auto& s : r.strategies) {
    if (!s.report.excess.empty()) {
      std::printf("%s does not fit: %s\n", s.name.c_str(), parallel::describe(r.machine, s.report.excess).c_str());
    }
  }
  if (a.options.algorithm == systems::strategy_algorithm::exact) {
    std::printf("no strategy takes less than %.3f ms\n", static_cast<double>(r.found.lower_bound) * 1e-9);
  }
  std::printf("computing alone takes %.3f ms at least on aligned blocks of devices\n", to_seconds(r.compute_bound) * 1e3);
  std::printf("search: %llu proposals, %llu accepted, %.3f s, stopped: %s\n", static_cast<unsigned long long>(r.found.proposals),
              static_cast<unsigned long long>(r.found.accepted), r.found.seconds, std::string{to_string(r.found.stopped)}.c_str());
}

void write(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  std::vector<support::output> files;
  if (!a.out.empty()) {
    const std::filesystem::path folder{a.out};
    const auto& best = r.strategies[r.best];
    const parallel::plan plan{r.graph, best.strategy, r.machine};
    files.push_back({folder / "plan.json", io::to_plan_text(operators, plan)});
    files.push_back({folder / "strategy.json", io::to_strategy_text(operators, plan, a.model)});
    files.push_back({folder / "strategy.svg", io::to_strategy_svg(operators, plan, a.model + " on " + r.machine.name + ": " + best.name)});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, to_json(a, r).dump(2) + "\n"});
  }
  support::write_all(files);
}

// What would fail after the search, or be ignored by it.
void check(const arguments& a) {
  if (a.options.devices == systems::device_choice::any && a.options.algorithm != systems::strategy_algorithm::mcmc) {
    throw error{"--placement any", "an algorithm that looks at all configurations", "mcmc, which draws them"};
  }
  static_cast<void>(nlohmann::json{a.model, a.strategies}.dump());  // throws for names that are not UTF-8
}

void run(arguments& a) {
  check(a);
  a.options.limits.seconds = support::parse_quantity("--budget", a.budget, support::durations);
  const auto operators = tensor::training_algebra();
  const support::output_folder folder{a.out};  // before the search: it takes long
  const auto r = run_search(operators, a);
  write(operators, a, r);
  print(a, r);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("parallelize", "Divides a training iteration among the devices of a machine.", argc, argv,
                                         declare, run);
}
