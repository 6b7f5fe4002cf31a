// Chooses how each weight is synchronized in data-parallel training, on a cluster that AutoDist's resource_spec.yml
// describes, or on a machine: by the rules of AutoDist's builders, by one of its strategy files, or by a search.
//
// run: zoo:lenet --resources {source}/examples/data/two_nodes.yml --json {out}/result.json --out {out}
// run: zoo:lenet --resources {source}/examples/data/two_nodes.yml,v100 --strategy partitioned_ps --proxies --optimizer adam --out {out}
// run: zoo:bert?layers=1&hidden=32&heads=4&seq=16&vocab=50&batch=8 --resources {source}/examples/data/two_nodes.yml --chunk 8 --compressor float16 --feedback
// run: zoo:lenet --resources {source}/examples/data/two_nodes.yml --strategy search --trials 30 --json {out}/found.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/autodist_plan.hpp>
#include <unity/io/autodist_strategy.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/resource_spec.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/systems/autodist/evaluator.hpp>
#include <unity/systems/autodist/reruns.hpp>
#include <unity/systems/autodist/trials.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/standard_operators.hpp>

#include "support/machines.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/synchronization_search.hpp"
#include "support/trial_command.hpp"

namespace {

using namespace unity;

constexpr std::size_t usual_trials = 200;
constexpr const char* usual_budget = "1h";

struct arguments {
  std::string model;
  std::string resources;
  std::string machine;
  std::string strategy = "all";
  std::string compressor = "none";
  std::string trial;
  std::optional<std::string> budget{};
  std::string json;
  std::string report;
  std::string out;
  std::vector<std::string> dimensions{};
  systems::builder_options options{};
  std::optional<std::uint32_t> chunk{};
  std::optional<std::size_t> trials{};
  std::optional<std::size_t> reruns{};
  bool is_per_device = false;
  bool has_seed = false;  // --seed was given
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  support::timing_flags timing{};
};

bool is_search(const std::string& name) {
  return name == "search" ||
         std::find(support::sync_searches.begin(), support::sync_searches.end(), name) != support::sync_searches.end();
}

std::string builder_names() {
  std::string names;
  for (const auto& b : systems::sync_builders) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", b.name);
  }
  return names;
}

void declare(CLI::App& app, arguments& a) {
  app.add_option("model", a.model, std::string{support::model_help} + "; the batch of a zoo model is the global one")
      ->type_name("MODEL")
      ->required();
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option(
         "--resources", a.resources,
         "resource_spec.yml, after a comma the kind of its GPUs (FILE.yml,v100), or of each node (FILE.yml,m60+t4)")
      ->type_name("FILE");
  app.add_option("--machine", a.machine,
                 "instead of --resources; each device computes and serves: " + support::machine_help())
      ->type_name("MACHINE");
  app.add_option(
         "--strategy", a.strategy,
         fmt::format("all (rules); one of {}; a strategy FILE, .pb or .json; all rules and then auto (AutoDist's "
                     "search), random (the same without a ranker), mcmc, beam, or search: all four",
                     builder_names()))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--trials", a.trials, fmt::format("trials of each search ({})", usual_trials))
      ->check(support::number_in(1, 1'000'000));
  app.add_option(
         "--trial", a.trial,
         "shell command that runs the plan in the file {plan} and prints the seconds of an iteration as its last "
         "line; trials of rules, auto and random run it instead of simulating")
      ->type_name("COMMAND");
  app.add_option("--reruns", a.reruns,
                 fmt::format("repeated runs of the fastest three rules and the fastest three found strategies, in "
                             "turns; medians decide; 0: the first runs decide ({})",
                             systems::rerun_options{}.rounds))
      ->check(support::number_in(0, 1000));
  app.add_option("--budget", a.budget, fmt::format("time limit of each search ({})", usual_budget));
  app.add_option("--chunk", a.chunk,
                 fmt::format("neighbouring weights per all-reduce ({}; 1 with top_k and power_sgd)", a.options.chunk))
      ->check(support::number_in(1, 1'000'000));
  app.add_flag("--proxies", a.options.is_proxied, "devices keep a copy of the weights that servers hold");
  app.add_flag("--per-device", a.is_per_device,
               "each device exchanges with the servers itself, instead of one device per node");
  app.add_option("--staleness", a.options.staleness, "iterations by which devices may lag behind their servers")
      ->check(support::number_in(0, 64))
      ->capture_default_str();
  app.add_option("--compressor", a.compressor, "compression of all-reduced gradients")
      ->check(CLI::IsMember(
          std::vector<std::string>{parallel::compression_names.begin(), parallel::compression_names.end()}))
      ->capture_default_str();
  app.add_flag("--feedback", a.options.compressor.has_feedback,
               "error feedback: add the compression error to the next gradient");
  app.add_option("--amount", a.options.compressor.amount, "top_k: elements sent per 1,000; power_sgd: the rank")
      ->check(support::number_in(1, 1'000'000));
  app.add_option_function<std::string>(
         "--optimizer", [&a](const std::string& name) { a.optimizer = *parallel::find_optimizer(name); }, "optimizer")
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option("--seed", a.options.seed, "random seed of random_axis_all_reduce and of the searches")
      ->check(support::number_from(std::uint64_t{0}))
      ->capture_default_str();
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: strategies side by side, and the trials of a search");
  app.add_option(
      "--out", a.out,
      "folder for strategy.pb, strategy.json and plan.json of the fastest strategy, and a copy of the resources");
  support::declare(app, a.timing);
  app.parse_complete_callback([&app, &a] { a.has_seed = app.count("--seed") > 0; });
}

// The file, and the kinds of its GPUs; "" if --resources does not state them.
std::pair<std::string, std::string> resource_file(const arguments& a) {
  const auto comma = a.resources.rfind(',');
  return comma == std::string::npos ? std::pair{a.resources, std::string{}}
                                    : std::pair{a.resources.substr(0, comma), a.resources.substr(comma + 1)};
}

io::resources resources_of(const arguments& a) {
  if (a.resources.empty() == a.machine.empty()) {
    throw error{"--resources", a.machine.empty() ? "not given" : "given, and --machine, too", "one of the two"};
  }
  if (a.machine.empty()) {
    const auto [file, kinds] = resource_file(a);
    return file == a.resources ? io::read_resources(file) : io::read_resources(file, kinds);
  }
  io::resources r;
  r.machine = support::load_machine(a.machine);
  for (std::size_t d = 0; d < r.machine.network.device_count(); ++d) {
    r.replicas.emplace_back(d);
  }
  r.servers = r.replicas;
  r.chief = r.machine.network.devices().front().name;
  return r;
}

bool is_file(const std::string& strategy) { return strategy.ends_with(".json") || strategy.ends_with(".pb"); }

// Effects: sets the options of rules from the flags. Throws: unity::error for flags that would have no effect.
void set_options(arguments& a) {
  auto& o = a.options;
  o.compressor.kind = *parallel::find_compression(a.compressor);
  const bool is_of_one = is_of_one_weight(o.compressor);
  if (is_of_one && a.chunk.value_or(1) != 1) {
    throw error{"--chunk", fmt::format("{} with {}", *a.chunk, a.compressor), "1: each weight is compressed alone"};
  }
  o.chunk = a.chunk.value_or(is_of_one ? 1 : o.chunk);
  const auto refuse = [&](std::string_view flag, bool is_given, std::string_view expected) {
    if (is_given) {
      throw error{flag, fmt::format("given with '{}'", a.strategy), expected};
    }
  };
  const bool is_compressed = o.compressor != parallel::compressor{};
  if (is_file(a.strategy)) {
    constexpr auto none = "none: the file says it";
    refuse("--staleness", o.staleness > 0, none);
    refuse("--compressor or what goes with it", is_compressed, none);
    refuse("--chunk", a.chunk.has_value(), none);
    refuse("--proxies", o.is_proxied, none);
    refuse("--per-device", a.is_per_device, none);
  }
  if (is_search(a.strategy)) {
    constexpr auto none = "none: searches do not change what is learned";
    refuse("--staleness", o.staleness > 0, none);
    refuse("--compressor or what goes with it", is_compressed, none);
  } else {
    refuse("--trials", a.trials.has_value(), "a search");
    refuse("--budget", a.budget.has_value(), "a search");
    refuse("--seed", a.has_seed && a.strategy != "all" && a.strategy != "random_axis_all_reduce",
           "random_axis_all_reduce, all or a search");
  }
  if (a.reruns && a.trial.empty()) {
    throw error{"--reruns", "given without --trial", "a command that runs plans"};
  }
}

// The strategy of a file, if one is given.
std::optional<io::synchronization_on> file_of(const tensor::algebra& operators, const tensor::tensor_graph& graph,
                                              const arguments& a, const hardware::topology& network) {
  if (a.strategy.ends_with(".json")) {
    return io::parse_synchronization(operators, graph, network, read_file(a.strategy), a.strategy);
  }
  if (a.strategy.ends_with(".pb")) {
    const auto found = io::from_autodist(operators, graph, network, io::read_autodist_strategy(a.strategy), a.strategy);
    return io::synchronization_on{found.sync, found.replicas};
  }
  return std::nullopt;
}

// Why the strategy of a rule does not meet the request; "" if it does.
std::string why_not(const arguments& a, const parallel::synchronization& sync) {
  if (const auto option = systems::left_out_of(sync, a.options); !option.empty()) {
    return fmt::format("no weight has the {}", option);
  }
  std::size_t most = 0;
  for (const auto& w : sync.weights) {
    most = std::max(most, w.parts.size());  // if the number of rows is prime, each row is a part
  }
  return most <= parallel::most_weight_parts
             ? ""
             : fmt::format("a weight has {} parts, {} is the most", most, parallel::most_weight_parts);
}

// Throws: unity::error for a flag that has no effect on the rule.
void expect_effects(const arguments& a, const systems::named_builder& b, const systems::sync_problem& p) {
  const auto sync = b.build(p, a.options);
  const auto compare = [&](std::string_view flag, bool is_given, const systems::sync_problem& problem, const auto& o) {
    if (is_given && b.build(problem, o) == sync) {
      throw error{flag, fmt::format("given with '{}'", a.strategy), "none: this rule does the same without"};
    }
  };
  auto o = a.options;
  o.is_proxied = false;
  compare("--proxies", a.options.is_proxied, p, o);
  o = a.options;
  o.chunk = a.options.chunk == 1 ? 2 : 1;
  compare("--chunk", a.chunk.has_value() && !is_of_one_weight(o.compressor), p, o);
  auto per_node = p;
  per_node.is_per_node = true;
  compare("--per-device", a.is_per_device, per_node, a.options);
}

void add_rules(const arguments& a, support::sync_comparison& c) {
  bool is_known = false;
  for (const auto& b : systems::sync_builders) {
    if (a.strategy != b.name && a.strategy != "all" && !is_search(a.strategy)) {
      continue;
    }
    is_known = true;
    if (a.strategy == b.name) {
      expect_effects(a, b, c.problem());
    }
    auto sync = b.build(c.problem(), a.options);
    const auto reason = why_not(a, sync);
    if (reason.empty()) {
      c.add(std::string{b.name}, std::move(sync));
    } else if (a.strategy == b.name) {
      throw error{"--strategy", fmt::format("of {} {}", b.name, reason), "a rule, or options, that go with the model"};
    } else {
      fmt::print("{} is left out: {}\n", b.name, reason);
    }
  }
  if (!is_known) {
    throw error{
        "--strategy", fmt::format("'{}'", a.strategy),
        fmt::format("all, search, auto, random, mcmc, beam, a file .pb or .json, or one of {}", builder_names())};
  }
  if (c.all().empty()) {
    throw error{"--strategy", "no rule has what --compressor and --staleness ask for", "one of them, or another model"};
  }
}

void compare(const arguments& a, double seconds, support::sync_comparison& c) {
  add_rules(a, c);
  for (const auto name : support::sync_searches) {
    if (a.strategy == name || a.strategy == "search") {
      c.search(name, a.trials.value_or(usual_trials), seconds, a.options.seed);
    }
  }
}

nlohmann::json trials_json(const systems::trial_result& t, picoseconds baseline) {
  auto times = nlohmann::json::array();
  for (const auto& one : t.trials) {
    times.push_back(to_seconds(one.time));
  }
  auto phases = nlohmann::json::array();
  for (const auto& p : t.phases) {
    phases.push_back({{"phase", p.phase},
                      {"bucket", p.bucket},
                      {"pairs", p.pairs.pairs},
                      {"accuracy", p.pairs.pairs > 0 ? nlohmann::json(p.pairs.share()) : nlohmann::json(nullptr)}});
  }
  return {{"trials", t.trials.size()},
          {"baseline_s", to_seconds(baseline)},
          {"first_win", t.first_hit ? nlohmann::json(*t.first_hit + 1) : nlohmann::json(nullptr)},
          {"hit_rate", t.hit_rate()},
          {"pairs", t.held_out.pairs},
          {"pair_accuracy", t.held_out.pairs > 0 ? nlohmann::json(t.held_out.share()) : nlohmann::json(nullptr)},
          {"phases", std::move(phases)},
          {"score_s", t.score_seconds},
          {"trial_s", std::move(times)}};
}

std::string result_text(const arguments& a, const io::resources& r, support::sync_comparison& c, bool has_autodist) {
  auto strategies = nlohmann::json::array();
  for (const auto& o : c.all()) {
    auto over = nlohmann::json::array();
    for (const auto& e : o.excess) {
      over.push_back(
          {{"device", r.machine.network[hardware::device_id{e.device}].name}, {"bytes_over", e.over.count()}});
    }
    strategies.push_back({{"name", o.name},
                          {"iteration_s", to_seconds(o.iteration)},
                          {"bytes", o.moved.count()},
                          {"memory_peak_bytes", o.memory_peak.count()},
                          {"out_of_memory", std::move(over)},
                          {"load_max_over_mean", o.load ? nlohmann::json(*o.load) : nlohmann::json(nullptr)}});
    if (o.measured) {
      strategies.back()["measured_s"] = to_seconds(*o.measured);
      strategies.back()["runs"] = o.runs;
    }
  }
  nlohmann::json all{{"model", a.model},
                     {"resources", a.resources.empty() ? a.machine : a.resources},
                     {"chief", r.chief},
                     {"replicas", r.replicas.size()},
                     {"servers", r.servers.size()},
                     {"computing_s", to_seconds(c.computing())},
                     {"strategies", std::move(strategies)},
                     {"best", c.best().name},
                     {"strategy_pb", has_autodist ? nlohmann::json("strategy.pb") : nlohmann::json(nullptr)}};
  if (c.trials()) {
    all["auto"] = trials_json(*c.trials(), c.baseline());
  }
  return all.dump(1) + "\n";
}

std::string report_text(const arguments& a, const io::resources& r, support::sync_comparison& c) {
  io::html_report page{fmt::format("{} on {}, synchronized", a.model, a.resources.empty() ? a.machine : a.resources)};
  page.paragraph(
      fmt::format("{} replicas, {} servers. Times are {}; computing alone, with all gradients and "
                  "updates on each device, takes {:.3f} ms.",
                  r.replicas.size(), r.servers.size(),
                  a.trial.empty() ? "simulated" : "measured where a strategy was run, simulated elsewhere",
                  1e3 * to_seconds(c.computing())));
  std::vector<io::chart_bar> times;
  std::vector<std::vector<std::string>> rows;
  for (const auto& o : c.all()) {
    times.push_back({o.name, 1e3 * to_seconds(o.time())});
    rows.push_back({o.name, fmt::format("{:.3f}", 1e3 * to_seconds(o.time())),
                    fmt::format("{:.3f}", static_cast<double>(o.moved.count()) / 1e6),
                    fmt::format("{:.3f}", static_cast<double>(o.memory_peak.count()) / 1e6),
                    o.load ? fmt::format("{:.3f}", *o.load) : "", o.excess.empty() ? "yes" : "no",
                    &o == &c.best() ? "best" : ""});
  }
  page.chart(times, "ms");
  page.table(std::vector<std::string>{"strategy", "ms", "MB moved", "MB held", "load", "fits", ""}, rows);
  if (c.trials() && !c.trials()->trials.empty()) {
    page.heading("Trials of the search");
    io::line_chart chart{"trials", "ms of an iteration", {{"trial", {}}, {"best so far", {}}}, false, false};
    auto best = c.trials()->trials.front().time;
    for (std::size_t k = 0; k < c.trials()->trials.size(); ++k) {
      const auto time = c.trials()->trials[k].time;
      best = std::min(best, time);
      chart.lines[0].points.push_back({static_cast<double>(k + 1), 1e3 * to_seconds(time)});
      chart.lines[1].points.push_back({static_cast<double>(k + 1), 1e3 * to_seconds(best)});
    }
    page.chart(chart);
  }
  return page.text();
}

void print(const arguments& a, const io::resources& r, support::sync_comparison& c) {
  fmt::print("{} on {}: {} replicas, {} servers; simulated{}\n", a.model, a.resources.empty() ? a.machine : a.resources,
             r.replicas.size(), r.servers.size(), a.trial.empty() ? "" : ", and measured");
  fmt::print("{:24} {:>12} {:>12} {:>10} {:>10}{}\n", "", "ms", "MB moved", "MB held", "load",
             a.trial.empty() ? std::string{} : fmt::format("{:>14} {:>6}", "measured", "runs"));
  for (const auto& o : c.all()) {
    fmt::print("{:24} {:12.3f} {:12.3f} {:10.3f} {:>10}{}{}\n", o.name, 1e3 * to_seconds(o.iteration),
               static_cast<double>(o.moved.count()) / 1e6, static_cast<double>(o.memory_peak.count()) / 1e6,
               o.load ? fmt::format("{:.3f}", *o.load) : "-",
               o.measured ? fmt::format("{:14.3f} {:6}", 1e3 * to_seconds(*o.measured), o.runs) : std::string{},
               c.all().size() > 1 && &o == &c.best() ? "  best" : "");
  }
  for (const auto& o : c.all()) {
    if (!o.excess.empty()) {
      fmt::print("{} does not fit: {}\n", o.name, parallel::describe(r.machine, o.excess));
    }
  }
  fmt::print("computing alone, with all gradients and updates on each device: {:.3f} ms\n",
             1e3 * to_seconds(c.computing()));
  if (c.trials()) {
    const auto& t = *c.trials();
    fmt::print(
        "auto: {} trials, {:.0f}% of them faster than every rule{}{}; a score takes {:.3f} ms\n", t.trials.size(),
        100 * t.hit_rate(), t.first_hit ? fmt::format(", trial {} the first", *t.first_hit + 1) : std::string{},
        t.held_out.pairs > 0
            ? fmt::format("; of {} held-out pairs {:.1f}% ranked right", t.held_out.pairs, 100 * t.held_out.share())
            : std::string{},
        1e3 * t.score_seconds);
  }
}

// The contents of AutoDist's file; nothing, and a line with the reason, if AutoDist cannot express the plan.
std::optional<std::string> autodist_bytes(const tensor::algebra& operators, const std::string& name,
                                          const parallel::plan& plan) {
  try {
    return io::to_bytes(io::to_autodist(operators, plan, name));
  } catch (const error& e) {
    fmt::print("strategy.pb is not written: {}\n", e.what());
    return std::nullopt;
  }
}

// A folder never holds files of two strategies.
std::vector<support::output> files_of(const tensor::algebra& operators, const arguments& a, const parallel::plan& plan,
                                      const std::optional<std::string>& autodist) {
  std::vector<support::output> files;
  const std::filesystem::path folder{a.out};
  files.push_back({folder / "plan.json", io::to_plan_text(operators, plan)});
  files.push_back({folder / "strategy.json", io::to_synchronization_text(operators, plan)});
  files.push_back({folder / "strategy.pb", autodist.value_or("")});
  if (!autodist) {
    files.back().write = [](const std::filesystem::path& earlier) { std::filesystem::remove(earlier); };
  }
  if (!a.resources.empty()) {  // the launcher of the ranks needs its addresses, its chief and its ssh settings
    files.push_back({folder / "resource_spec.yml", read_file(resource_file(a).first)});
  }
  return files;
}

// Keeps the replicas that have samples, with a warning if others have none.
void keep_used(io::resources& r, const parallel::plan& p) {
  auto used = io::replicas_of(p);
  if (used.size() < r.replicas.size()) {
    fmt::print(stderr,
               "distribute: only {} of {} replicas have samples; a batch that {} divides gives samples to all\n",
               used.size(), r.replicas.size(), r.replicas.size());
    r.replicas = std::move(used);
  }
}

void run(arguments& a) {
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  static_cast<void>(io::utf8_word("--resources", a.resources));
  static_cast<void>(io::utf8_word("--machine", a.machine));
  static_cast<void>(io::utf8_word("--strategy", a.strategy));
  support::expect_outside(a.out, {"strategy.pb", "strategy.json", "plan.json", "resource_spec.yml"},
                          {a.model, a.timing.timings, a.json, a.report});
  const support::output_folder folder{a.out};
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  set_options(a);
  const auto seconds = support::parse_quantity("--budget", a.budget.value_or(usual_budget), support::durations);
  const auto operators = tensor::training_algebra();
  auto r = resources_of(a);
  parallel::plan p;
  p.graph = support::load_training_graph(operators, a.model, a.dimensions);
  p.machine = r.machine;
  p.updates = a.optimizer;
  const auto file = file_of(operators, p.graph, a, r.machine.network);
  if (file) {
    r.replicas = file->replicas;
  }
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators, p.graph}, r.replicas);
  keep_used(r, p);
  std::optional<support::trial_command> command;
  if (!a.trial.empty()) {
    command.emplace(a.trial);
  }
  support::with_durations(a.timing, operators, r.machine, "distribute", [&](const tensor::durations& times) {
    const systems::sync_simulation simulation{operators, p, times};
    support::sync_comparison::run_function measured;
    if (command) {
      measured = [&](const parallel::synchronization& s) {
        return (*command)(io::to_plan_text(operators, simulation.plan_with(s)));
      };
    }
    auto problem = systems::sync_problem_of(operators, p.graph, r.servers);
    problem.is_per_node = !a.is_per_device;
    support::sync_comparison c{operators, r, std::move(problem), simulation, measured};
    if (file) {
      c.add(a.strategy, file->sync);
    } else {
      compare(a, seconds, c);
    }
    if (command) {
      c.run_again(a.reruns.value_or(systems::rerun_options{}.rounds));
    }
    print(a, r, c);
    std::vector<support::output> files;
    std::optional<std::string> autodist;
    if (!a.out.empty()) {
      const auto plan = simulation.plan_with(c.best().sync);
      autodist = autodist_bytes(operators, c.best().name, plan);
      files = files_of(operators, a, plan, autodist);
    }
    if (!a.json.empty()) {
      files.push_back({a.json, result_text(a, r, c, autodist.has_value())});
    }
    if (!a.report.empty()) {
      files.push_back({a.report, report_text(a, r, c)});
    }
    support::write_all(files);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("distribute", "Synchronizes the weights of data-parallel training (AutoDist).",
                                         argc, argv, declare, run);
}
