// Divides a training iteration among the devices of a machine: reads a model and a machine, and writes a plan.
//
// run: zoo:lenet --machine p100:1x4 --search flexflow --max-proposals 300 --out {out} --json {out}/result.json
// run: zoo:rnnlm?seq=2&hidden=64&vocab=100 --machine k80:2x4 --search flexflow --max-proposals 200 --seed 3 --threads 2
// run: zoo:mlp?form=fig1 --machine host:1x2 --algorithm greedy --out {out}
// run: zoo:lenet?batch=4 --machine p100:1x4 --algorithm exact --placement one
// run: zoo:lenet?batch=4 --machine p100:1x2 --algorithm beam --width 2 --placement one --json {out}/result.json
// run: zoo:mlp?form=fig1 --machine summit:1x2 --search unity --out {out} --json {out}/result.json
// run: zoo:bert?form=ae&layers=2&hidden=64&heads=4&seq=16 --machine p100:1x4 --search unity --optimizer adam
// run: zoo:mlp?form=ae --machine p100:1x2 --search unity --optimizer adam --frontier --max-proposals 20 --json {out}/r.json
// run: zoo:dlrm?form=ae --machine summit:2x6 --search unity --dims data,model --mesh-axes 2 --candidates 4

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/io/dot.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_json.hpp>
#include <unity/io/strategy_svg.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/mesh_report.hpp>
#include <unity/simulate/full.hpp>
#include <unity/systems/flexflow/explanation.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/unflatten.hpp>

#include "support/explanation_table.hpp"
#include "support/flexflow_program.hpp"
#include "support/machines.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/pcg_picture.hpp"
#include "support/plan_trace.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/recomputation_flag.hpp"
#include "support/report_picture.hpp"
#include "support/search_flags.hpp"
#include "support/strategy_comparison.hpp"
#include "support/synchronization_flag.hpp"
#include "support/unity_program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model{};
  std::string machine{};
  std::string search = "flexflow";
  std::string budget{};  // by default 30 s
  std::optional<double> patience{};
  std::string out{};
  std::string plans{};
  std::string json{};
  std::string report{};
  std::vector<std::string> dimensions{};
  std::vector<std::string> strategies{};  // files
  std::uint64_t proposals = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t seed = 0;
  std::size_t threads = 1;
  support::search_flags flags{};
  support::flexflow_flags flexflow{};
  support::unity_flags unity{};
  support::timing_flags timing{};
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  tensor::dtype element = tensor::dtype::float32;
  std::string sync{};
  std::string offload{};  // a rate
  support::memory_flags memory{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("MODEL", a.model, std::string{support::model_help} + "; the batch of a zoo model is per device")
      ->required();
  app.add_option("--machine", a.machine, support::machine_help())->required();
  app.add_option("--search", a.search, "search algorithm: flexflow divides operators, unity also rewrites the graph")
      ->check(CLI::IsMember({"flexflow", "unity"}));
  app.add_option("--budget", a.budget,
                 "time limit of all searches together, including unity's --baselines: 500ms, 30s, 5m; default: 30s");
  app.add_option("--patience", a.patience,
                 "end a chain, or unity's polish, after this share of its budget without a better strategy; 1: never; "
                 "default: 0.5, and 0 for unity without --budget")
      ->check(support::number_in(0.0, 1.0));
  app.add_option("--max-proposals", a.proposals,
                 "limit on proposals of all chains together (on prices for beam, on prefixes for exact); with unity, "
                 "on those that change the best plan")
      ->check(support::number_in(std::uint64_t{0}, std::uint64_t{1'000'000'000'000'000'000}));
  app.add_option("--seed", a.seed, "random seed; equal seeds give equal results where time does not end the search")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--threads", a.threads,
                 "threads of FlexFlow's search; they do not change the result where time does not end it")
      ->check(support::number_in(1, 1024));
  app.add_option("--strategy", a.strategies, "strategy file to compare with; flexflow also starts from it")
      ->allow_extra_args(false);
  app.add_option_function<std::string>(
         "--optimizer", [&a](const std::string& name) { a.optimizer = *parallel::find_optimizer(name); },
         "optimizer, which decides the state per weight")
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option_function<std::string>(
         "--element", [&a](const std::string& name) { a.element = *tensor::find_dtype(name); },
         "type that replaces float32 in the model")
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  support::declare_sync(app, a.sync);
  support::declare(app, a.memory);
  app.add_option(
      "--offload", a.offload,
      "bandwidth between a device and its host, such as 12GB/s: strategies that do not fit in memory offload values "
      "to the host, and are compared with the time that takes");
  support::declare(app, a.flags, a.flexflow);
  support::declare(app, a.flags, a.unity);
  support::declare(app, a.timing);
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option("--out", a.out,
                 "folder for plan.json, strategy.json and strategy.svg of the best strategy; with unity also pcg.dot, "
                 "pcg.svg and substitutions.txt");
  app.add_option("--plans", a.plans, "folder for a plan of each compared strategy, NAME.json");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report,
                 "file for an HTML report: strategies side by side, and the best one's iteration");
}

// The batch of a zoo model is per device, so machines are compared on work that grows with them; but figure 1 of the
// paper has one batch, whatever the machine.
tensor::tensor_graph load_graph(const tensor::algebra& operators, const arguments& a, std::size_t devices) {
  support::expect_file_for(a.model, a.dimensions);
  if (!tensor::zoo::is_name(a.model)) {
    auto g = support::load_training_graph(operators, a.model, a.dimensions);
    return a.unity.keeps_graph ? g : tensor::unflattened(operators, g);
  }
  auto r = tensor::zoo::parse(a.model);
  if (r.values.batch != tensor::zoo::sizes::absent && r.chosen->name != "fig1") {
    r.values.batch *= static_cast<std::int64_t>(devices);
  }
  return r.chosen->build(operators, r.values);
}

double seconds_of(const arguments& a) {
  return a.budget.empty() ? 30 : support::parse_quantity("--budget", a.budget, support::durations);
}

std::vector<support::named_strategy> given_strategies(const support::strategy_comparison& c, const arguments& a) {
  std::vector<support::named_strategy> given;
  for (const auto& file : a.strategies) {
    given.push_back({file, 0, io::read_strategy(c.operators(), c.graph(), c.machine(), file), {}, {}, {}, {}, {}});
  }
  return given;
}

// The members that both searches have, and those of one.
nlohmann::json to_json(const arguments& a, const support::strategy_comparison& c, const nlohmann::json& own) {
  auto left_out = nlohmann::json::array();
  for (const auto& s : c.left_out()) {
    left_out.push_back({{"name", s.name}, {"reason", s.reason}});
  }
  nlohmann::json all{{"model", a.model},
                     {"machine", a.machine},
                     {"devices", c.machine().network.device_count()},
                     {"strategies", support::to_json(c)},
                     {"left_out", left_out},
                     {"best", c.best().name},
                     {"plan", a.out.empty() ? nlohmann::json{} : nlohmann::json("plan.json")}};
  all.update(own);
  return all;
}

void print(const arguments& a, const support::strategy_comparison& c) {
  fmt::print("{} on {} ({} devices)\n", a.model, c.machine().name, c.machine().network.device_count());
  support::print_assumed(c.machine());
  support::print(c);
}

std::string title_of(const arguments& a, const support::strategy_comparison& c) {
  return fmt::format("{} on {}: {}", a.model, c.machine().name, c.best().name);
}

constexpr const char* frontier_name = "frontier";

bool is_of_frontier(const support::named_strategy& s) { return s.name.starts_with(frontier_name); }

// The operators that take most. The number of simulations has a limit that does not depend on the machine's speed.
void add_explanation(io::html_report& page, const support::strategy_comparison& c, const parallel::plan& plan,
                     std::size_t tasks) {
  constexpr std::size_t most_rows = 20;
  constexpr std::size_t most_tasks = 10'000'000;  // of all simulations
  constexpr std::size_t most_simulations = 2000;
  auto left = std::min(most_simulations, most_tasks / std::max<std::size_t>(tasks, 1));
  systems::plan_prices prices{c.operators(), plan, c.durations()};
  const auto own = prices.own();
  const auto operators = systems::explain(c.operators(), prices, [&] { return left > 0 && left-- > 0; });
  page.heading("What each division gains");
  page.paragraph("The iteration with the best other division of the operator, simulated, against the best strategy.");
  support::add_explanation(page, plan, own, operators, most_rows);
}

// The model's graph, and that of the best strategy.
void add_graphs(io::html_report& page, const support::strategy_comparison& c) {
  page.heading("Both graphs");
  const auto both = io::to_dot(c.operators(), c.graph(), {.title = "the model"}, c.graph(c.best().graph),
                               {.title = "the best strategy"});
  support::add_graph(page, both, "The search changed the model's graph.", "the graphs before and after");
}

std::string to_report(const arguments& a, const support::strategy_comparison& c) {
  io::html_report page{fmt::format("{} on {}", a.model, c.machine().name)};
  page.paragraph(
      fmt::format("Strategies for an iteration on {} devices, simulated.", c.machine().network.device_count()));
  std::vector<io::chart_bar> times;
  std::vector<std::vector<std::string>> rows;
  io::line_chart frontier{"ms of an iteration", "MB that the fullest device holds", {}, false, true};
  for (const auto& s : c.strategies()) {
    const double ms = to_seconds(s.report.iteration) * 1e3;
    const double held = static_cast<double>(s.report.memory_peak().count()) * 1e-6;
    times.push_back({s.name, ms});
    // Plans of the frontier are one line, and the others a point each.
    if (is_of_frontier(s) && !frontier.lines.empty() && frontier.lines.back().name == frontier_name) {
      frontier.lines.back().points.push_back({ms, held});
    } else {
      frontier.lines.push_back({is_of_frontier(s) ? frontier_name : s.name, {{ms, held}}});
    }
    rows.push_back({s.name, fmt::format("{:.3f}", ms), fmt::format("{:.3f}", to_seconds(s.report.compute) * 1e3),
                    fmt::format("{:.3f}", to_seconds(s.report.communication) * 1e3), fmt::format("{:.3f}", held),
                    s.report.excess.empty() ? "yes" : "no", &s == &c.best() ? "best" : ""});
  }
  page.chart(times, "ms");
  page.table(std::vector<std::string>{"strategy", "iteration, ms", "computing, ms", "communicating, ms", "memory, MB",
                                      "fits", ""},
             rows);
  page.heading("Time and memory");
  page.chart(frontier);
  const auto& best = c.best();
  if (!best.report.is_of_representatives()) {
    const auto plan = c.plan_of(best);
    const auto program = parallel::lower(c.operators(), plan, c.durations());
    simulate::full_simulation simulation;
    simulation.run(program);
    io::add_simulation(page, program, simulation.times());
    page.heading("Divisions");
    page.paragraph("Operators of the best strategy, divided and coloured by devices.");
    page.picture(io::to_strategy_svg(c.operators(), plan, title_of(a, c)), "operators, divided");
    if (!best.offloaded) {  // alternatives would be simulated without moves to the host
      add_explanation(page, c, plan, program.task_count());
    }
  }
  if (best.graph != 0) {
    add_graphs(page, c);
  }
  return page.text();
}

// The members of the best strategy, and of the result.
std::vector<support::output> files_of(const arguments& a, const support::strategy_comparison& c,
                                      const nlohmann::json& own, const io::plan_notes& notes) {
  std::vector<support::output> files;
  if (!a.out.empty()) {
    const std::filesystem::path folder{a.out};
    const auto plan = c.plan_of(c.best());
    const auto& operators = c.operators();
    files.push_back({folder / "plan.json", io::to_plan_text(operators, plan, notes)});
    files.push_back({folder / "strategy.json", io::to_strategy_text(operators, plan, a.model)});
    files.push_back({folder / "strategy.svg", io::to_strategy_svg(operators, plan, title_of(a, c))});
  }
  std::set<std::string> names;  // files of strategies in different folders can have one
  for (const auto& s : c.strategies()) {
    if (!a.plans.empty()) {
      const auto stem = std::filesystem::path{s.name}.stem().string();
      auto name = stem;
      for (std::size_t again = 2; !names.insert(name).second; ++again) {
        name = fmt::format("{}-{}", stem, again);
      }
      io::plan_notes prediction;
      prediction.predicted = io::noted_prediction{to_seconds(s.report.iteration), s.report.memory_peaks};
      files.push_back({std::filesystem::path{a.plans} / (name + ".json"),
                       io::to_plan_text(c.operators(), c.plan_of(s), prediction)});
    }
  }
  if (!a.json.empty()) {
    files.push_back({a.json, to_json(a, c, own).dump(2) + "\n"});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(a, c)});
  }
  return files;
}

// Searches assume separate all-reduces of weights, whole batches and kept results; this applies the flags to the plans
// that are reported and written.
void apply_flags(const arguments& a, support::strategy_comparison& c) {
  if (!a.memory.recompute.empty() || a.memory.microbatches > 1) {
    c.economize(a.memory);
  }
  if (!a.sync.empty()) {
    c.synchronize(a.sync);
  }
  if (!a.offload.empty()) {
    c.offload(support::parse_host_rate(a.offload));
  }
}

void run_flexflow(arguments& a, support::strategy_comparison& c) {
  auto& o = a.flexflow.options;
  o.proposals = std::numeric_limits<std::uint64_t>::max();
  o.limits.expansions = a.proposals;
  o.limits.seconds = seconds_of(a);
  o.patience = a.patience.value_or(o.patience);
  o.seed = a.seed;
  o.threads = a.threads;
  const auto r = support::compare_flexflow(c, a.flexflow, given_strategies(c, a));
  apply_flags(a, c);
  print(a, c);
  support::print(a.flexflow, r);
  support::write_all(files_of(a, c, support::to_json(r), {}));
}

void run_unity(arguments& a, support::strategy_comparison& c) {
  auto& o = a.unity.options;
  o.proposals = std::numeric_limits<std::uint64_t>::max();
  o.limits.expansions = a.proposals;
  o.optimizer = a.optimizer;
  o.patience = a.patience.value_or(a.budget.empty() ? 0 : 0.5);
  o.limits.seconds = seconds_of(a);
  o.seed = a.seed;
  a.unity.threads = a.threads;
  auto r = support::compare_unity(c, a.unity, given_strategies(c, a));
  apply_flags(a, c);
  support::check_best(c, r);
  auto files = files_of(a, c, support::to_json(r), support::notes_of(r, c.best()));
  if (!a.out.empty()) {
    const auto pictures = support::pcg_pictures(c.operators(), c.plan_of(c.best()), title_of(a, c), a.out);
    files.insert(files.end(), pictures.begin(), pictures.end());
    const auto steps = support::to_text(c.operators(), c.plan_of(c.best()), r.trace_to_best);
    files.push_back({std::filesystem::path{a.out} / "substitutions.txt", steps});
  }
  print(a, c);
  support::print(r);
  support::write_all(files);
}

void run(arguments& a) {
  a.flags.check(a.search);
  support::check(a.flexflow);
  support::check(a.unity);
  static_cast<void>(support::check_sync(a.sync));
  static_cast<void>(support::check_recompute(a.memory.recompute));
  static_cast<void>(a.offload.empty() ? 0.0 : support::parse_host_rate(a.offload));
  static_cast<void>(seconds_of(a));
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  static_cast<void>(io::utf8_word("--machine", a.machine));
  for (const auto& file : a.strategies) {
    static_cast<void>(io::utf8_word("--strategy", file));
  }
  std::vector<std::filesystem::path> others{a.model, a.json, a.report, a.timing.timings};
  others.insert(others.end(), a.strategies.begin(), a.strategies.end());
  support::expect_outside(
      a.out, {"plan.json", "strategy.json", "strategy.svg", "pcg.dot", "pcg.svg", "substitutions.txt"}, others);
  const auto operators = tensor::training_algebra();
  const support::output_folder folder{a.out};  // before the search: it takes long
  const support::output_folder plans{a.plans};
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  if (!support::measured_backend(a.timing).empty() &&
      a.threads > 1) {  // other threads would disturb the measurement
    throw error{"--threads", fmt::format("{} of them, beside measurements", a.threads), "1 with --cost measured"};
  }
  auto machine = support::load_machine(a.machine);
  auto graph = load_graph(operators, a, machine.network.device_count());
  if (a.element != tensor::dtype::float32) {
    graph = tensor::converted(operators, graph, tensor::dtype::float32, a.element);
  }
  if (a.memory.microbatches > 1) {  // an error now, not after the search
    static_cast<void>(support::graph_of_microbatch(operators, graph, a.memory.microbatches));
  }
  support::with_durations(a.timing, operators, machine, "parallelize", [&](const tensor::durations& times) {
    support::strategy_comparison c{operators, machine, graph, times, a.optimizer};
    a.search == "flexflow" ? run_flexflow(a, c) : run_unity(a, c);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("parallelize", "Divides a training iteration among the devices of a machine.",
                                         argc, argv, declare, run);
}
