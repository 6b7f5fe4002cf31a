// How each weight of a model that is trained by data parallelism is synchronized, on a cluster that AutoDist's
// resource_spec.yml describes: by the rules of AutoDist's builders, or as one of its strategy files says.
//
// run: zoo:lenet --resources {source}/examples/data/two_nodes.yml --json {out}/result.json --out {out}
// run: zoo:lenet --resources {source}/examples/data/two_nodes.yml,v100 --strategy partitioned_ps --proxies --optimizer adam --out {out}
// run: zoo:bert?layers=1&hidden=32&heads=4&seq=16&vocab=50&batch=8 --resources {source}/examples/data/two_nodes.yml --chunk 8 --compressor float16 --feedback

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/io/autodist_plan.hpp>
#include <unity/io/autodist_strategy.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/resource_spec.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/compressor.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/simulate/iterations.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model;
  std::string resources;
  std::string strategy = "all";
  std::string compressor = "none";
  std::string json;
  std::string out;
  std::vector<std::string> dimensions{};
  systems::builder_options options{};
  parallel::optimizer optimizer = parallel::optimizer::sgd;
};

std::string builder_names() {
  std::string names;
  for (const auto& b : systems::sync_builders) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", b.name);
  }
  return names;
}

void declare(CLI::App& app, arguments& a) {
  app.add_option("model", a.model, support::model_help)->type_name("MODEL")->required();
  app.add_option("--dim", a.dimensions, support::dimension_help);
  app.add_option("--resources", a.resources, "resource_spec.yml, after a comma the kind of its GPUs (FILE.yml,v100)")
      ->type_name("FILE")
      ->required();
  app.add_option("--strategy", a.strategy,
                 fmt::format("all; one of {}; or a strategy FILE, .pb or .json", builder_names()))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--chunk", a.options.chunk, "neighbouring weights that are all-reduced together")
      ->check(support::number_in(1, 1'000'000))
      ->capture_default_str();
  app.add_flag("--proxies", a.options.is_proxied, "devices keep what servers serve");
  app.add_option("--staleness", a.options.staleness, "iterations that devices may be behind their servers")
      ->check(support::number_in(0, 64))
      ->capture_default_str();
  app.add_option("--compressor", a.compressor, "of gradients that are all-reduced")
      ->check(CLI::IsMember(
          std::vector<std::string>{parallel::compression_names.begin(), parallel::compression_names.end()}))
      ->capture_default_str();
  app.add_flag("--feedback", a.options.compressor.has_feedback, "what rounding lost is added to the next gradient");
  app.add_option("--amount", a.options.compressor.amount,
                 "top_k: elements of 1,000 that are sent; power_sgd: columns of its matrices")
      ->check(support::number_in(1, 1'000'000));
  app.add_option_function<std::string>(
         "--optimizer", [&a](const std::string& name) { a.optimizer = *parallel::find_optimizer(name); },
         "of the updates that are simulated and trained")
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option("--seed", a.options.seed, "of random_axis_all_reduce")->capture_default_str();
  app.add_option("--json", a.json, "FILE for the result");
  app.add_option("--out", a.out, "DIR for strategy.pb, strategy.json and plan.json of the fastest");
}

io::resources resources_of(const std::string& argument) {
  const auto comma = argument.rfind(',');
  return comma == std::string::npos ? io::read_resources(argument)
                                    : io::read_resources(argument.substr(0, comma), argument.substr(comma + 1));
}

// A way to synchronize, and what it takes. Simulated.
struct outcome {
  std::string name{};
  parallel::plan plan{};
  picoseconds iteration{};  // of many, one after the other
  bytes moved{};
  std::optional<double> load{};  // bytes of the fullest server over their mean; nothing without servers
};

outcome measured(const tensor::algebra& operators, const systems::sync_problem& problem, std::string name,
                 parallel::plan plan) {
  outcome o{std::move(name), std::move(plan), {}, {}, {}};
  const auto code = parallel::lower(operators, o.plan);
  o.iteration = simulate::run_until_steady(code, parallel::carried_dependencies(operators, o.plan, code), 16).time;
  o.moved = parallel::message_bytes(code);
  const auto loads = systems::served_bytes(problem, o.plan.synchronization);
  bytes all{};
  for (const auto b : loads) {
    all += b;
  }
  if (all > bytes{}) {
    o.load = static_cast<double>(std::max_element(loads.begin(), loads.end())->count()) *
             static_cast<double>(loads.size()) / static_cast<double>(all.count());
  }
  return o;
}

parallel::plan plan_with(const tensor::algebra& operators, const tensor::tensor_graph& graph, const io::resources& r,
                         const arguments& a, std::span<const machine::device_id> replicas,
                         parallel::synchronization how) {
  parallel::plan p;
  p.graph = graph;
  p.machine = r.machine;
  p.updates = a.optimizer;
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators, graph}, replicas);
  p.synchronization = std::move(how);
  parallel::check(operators, p);
  return p;
}

std::vector<outcome> outcomes_of(const tensor::algebra& operators, const arguments& a, const io::resources& r) {
  const auto model = support::load_model(operators, a.model, a.dimensions);
  const auto problem = systems::sync_problem_of(operators, model.graph, r.servers);
  std::vector<outcome> all;
  const bool is_json = a.strategy.ends_with(".json");
  if (is_json || a.strategy.ends_with(".pb")) {
    const auto found = is_json ? io::parse_synchronization(operators, model.graph, r.machine.network,
                                                           read_file(a.strategy), a.strategy)
                               : io::from_autodist(operators, model.graph, r.machine.network,
                                                   io::read_autodist_strategy(a.strategy), a.strategy);
    all.push_back(
        measured(operators, problem, a.strategy, plan_with(operators, model.graph, r, a, found.replicas, found.how)));
    return all;
  }
  for (const auto& b : systems::sync_builders) {
    if (a.strategy == "all" || a.strategy == b.name) {
      all.push_back(measured(operators, problem, std::string{b.name},
                             plan_with(operators, model.graph, r, a, r.replicas, b.build(problem, a.options))));
    }
  }
  if (all.empty()) {
    throw error{"--strategy", fmt::format("'{}'", a.strategy),
                fmt::format("all, a file .pb or .json, or one of {}", builder_names())};
  }
  return all;
}

std::string result_text(const arguments& a, const io::resources& r, const std::vector<outcome>& all,
                        const outcome& best) {
  auto strategies = nlohmann::json::array();
  for (const auto& o : all) {
    strategies.push_back({{"name", o.name},
                          {"iteration_s", to_seconds(o.iteration)},
                          {"bytes", o.moved.count()},
                          {"load_max_over_mean", o.load ? nlohmann::json(*o.load) : nlohmann::json(nullptr)}});
  }
  return nlohmann::json{{"model", a.model},
                        {"resources", a.resources},
                        {"chief", r.chief},
                        {"replicas", r.replicas.size()},
                        {"servers", r.servers.size()},
                        {"strategies", std::move(strategies)},
                        {"best", best.name}}
             .dump(1) +
         "\n";
}

std::vector<support::output> files_of(const tensor::algebra& operators, const arguments& a, const outcome& best) {
  std::vector<support::output> files;
  const std::filesystem::path folder{a.out};
  files.push_back({folder / "plan.json", io::to_plan_text(operators, best.plan)});
  files.push_back({folder / "strategy.json", io::to_synchronization_text(operators, best.plan)});
  try {
    files.push_back({folder / "strategy.pb", io::to_bytes(io::to_autodist(operators, best.plan, best.name))});
  } catch (const error& e) {
    fmt::print("strategy.pb is not written: {}\n", e.what());
  }
  return files;
}

void run(arguments& a) {
  const support::output_folder folder{a.out};
  support::expect_writable(a.json);
  a.options.compressor.kind = *parallel::find_compression(a.compressor);
  const auto operators = tensor::training_algebra();
  const auto r = resources_of(a.resources);
  const auto all = outcomes_of(operators, a, r);
  const auto& best = *std::min_element(all.begin(), all.end(),
                                       [](const outcome& x, const outcome& y) { return x.iteration < y.iteration; });
  fmt::print("{} on {}: {} replicas, {} servers; simulated\n", a.model, a.resources, r.replicas.size(),
             r.servers.size());
  fmt::print("{:24} {:>12} {:>12} {:>10}\n", "", "ms", "MB moved", "load");
  for (const auto& o : all) {
    fmt::print("{:24} {:12.3f} {:12.3f} {:>10}{}\n", o.name, 1e3 * to_seconds(o.iteration),
               static_cast<double>(o.moved.count()) / 1e6, o.load ? fmt::format("{:.3f}", *o.load) : "-",
               all.size() > 1 && &o == &best ? "  best" : "");
  }
  std::vector<support::output> files;
  if (!a.out.empty()) {
    files = files_of(operators, a, best);
  }
  if (!a.json.empty()) {
    files.push_back({a.json, result_text(a, r, all, best)});
  }
  support::write_all(files);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("distribute", "Synchronizes the weights of data-parallel training (AutoDist).",
                                         argc, argv, declare, run);
}
