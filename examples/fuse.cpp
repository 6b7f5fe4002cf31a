// Which operators of a training iteration to fuse, and which gradients to reduce together, on a machine whose devices
// train by data parallelism.
//
// run: zoo:lenet --machine 1080ti:6x2 --budget 2s --seed 1 --json {out}/result.json --out {out}
// run: zoo:lenet?batch=4 --machine host:1x2 --budget 1s --estimator {source}/examples/data/kernel_estimator.bin
// run: --hlo {source}/test/io/hlo_data/data_parallel.after.hlo --machine t4:1x4 --budget 1s --out {out} --json
// {out}/result.json run: zoo:mlp?form=fig1 --machine t4:1x4 --budget 1s --refine off --channels 2 --methods fuse,join

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_program.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/reduction_times.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/fusion/target.hpp>
#include <unity/io/collective_csv.hpp>
#include <unity/io/fusion_json.hpp>
#include <unity/io/hlo_instructions.hpp>
#include <unity/io/hlo_text.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/learn/estimator_file.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/systems/disco.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

#include "support/fusion_job.hpp"
#include "support/machines.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model{};
  std::string hlo{};
  std::string machine{};
  std::string budget = "10s";
  std::string collectives{};
  std::string estimator{};
  std::string strategy{};
  std::string algorithm = "backtracking";
  std::string reductions = "line";
  std::string refine = "on";
  std::vector<std::string> methods{};
  std::vector<std::string> dimensions{};
  std::size_t channels = 1;
  int beta = 10;
  systems::disco_options options{};
  support::timing_flags timing{};
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  std::string out{};
  std::string json{};
};

void declare(CLI::App& app, arguments& a) {
  auto* const model = app.add_option("MODEL", a.model,
                                     std::string{support::model_help} + "; the batch of a zoo model is of each device");
  app.add_option("--hlo", a.hlo,
                 "instead of MODEL: a file of HLO text, as jax.jit(f).lower(x).compile().as_text() gives; its entry "
                 "computation is what a device does in an iteration")
      ->excludes(model);
  app.add_option("--machine", a.machine, support::machine_help())->required();
  app.add_option("--budget", a.budget, "time to search: 500ms, 10s, 5m")->capture_default_str();
  app.add_option("--seed", a.options.moves.seed, "with equal seeds and no limit of time results are equal")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--alpha", a.options.alpha, "strategies that take this times the best or more are not followed")
      ->check(support::number_in(1.0, 100.0))
      ->capture_default_str();
  app.add_option("--beta", a.beta, "changes that a move makes at most")
      ->check(support::number_in(1, 255))
      ->capture_default_str();
  app.add_option("--samples", a.options.moves.samples, "moves of each method that are tried from a strategy")
      ->check(support::number_in(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--patience", a.options.patience, "strategies looked at without a better one before a round ends")
      ->check(support::number_from(std::uint64_t{1}))
      ->capture_default_str();
  app.add_option(
         "--refine", a.refine,
         "on: rounds with moves of fewer changes follow, while there is time; off: one round, as the paper has it")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--methods", a.methods, "fuse, duplicate, join, separate: those that are searched; default: all")
      ->delimiter(',')
      ->check(CLI::IsMember({"fuse", "duplicate", "join", "separate"}));
  app.add_option("--threads", a.options.threads, "that price moves; the result does not depend on it")
      ->check(support::number_in(1, 1024));
  app.add_option(
         "--reductions", a.reductions,
         "what all-reduces take: line, T = C x + D fitted to the machine; curve, by the way that suits each size")
      ->check(CLI::IsMember({"line", "curve"}))
      ->capture_default_str();
  app.add_option("--collectives", a.collectives,
                 "measured all-reduces (.csv: collective,gpus,size_mb,time_ms) to fit T = C x + D to, instead of the "
                 "machine's links");
  app.add_option("--estimator", a.estimator,
                 "what fused kernels take, by a file of `train_estimator` instead of the device's rates");
  app.add_option("--channels", a.channels, "also simulate what is found with so many channels of all-reduces")
      ->check(support::number_in(1, 64));
  app.add_option_function<std::string>(
         "--optimizer", [&a](const std::string& name) { a.optimizer = *parallel::find_optimizer(name); },
         "what is kept for each weight: sgd (nothing), momentum, adam")
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option("--algorithm", a.algorithm,
                 "of the search; alpha and patience are of backtracking, as checkpoints are")
      ->check(CLI::IsMember(
          std::vector<std::string>{systems::disco_algorithm_names.begin(), systems::disco_algorithm_names.end()}))
      ->capture_default_str();
  app.add_option("--checkpoint", a.options.checkpoint,
                 "file for the state of the search's first round, written as it goes");
  app.add_option("--resume", a.options.resume, "go on from such a file");
  support::declare(app, a.timing);
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option("--strategy", a.strategy, "which one to write, by its name; default: the best");
  app.add_option(
      "--out", a.out,
      "folder for plan.json and fusion.json, which `train --fusion` runs, and ddp_buckets.json; with --hlo for "
      "module.hlo; xla_flags.txt");
  app.add_option("--json", a.json, "file for the result as JSON");
}

// What all-reduces take, and the line that says so where one does.
struct reduction_model {
  std::function<std::int64_t(double)> time{};
  fusion::reduction_line line{};
};

reduction_model reductions_for(const arguments& a, const machine::machine& m) {
  if (a.collectives.empty()) {
    const auto line = fusion::reduction_line_of(m);
    return {a.reductions == "line" ? std::function<std::int64_t(double)>{line} : fusion::reductions_on(m), line};
  }
  if (a.reductions != "line") {
    throw error{"--collectives", "given with --reductions curve", "--reductions line"};
  }
  std::vector<fusion::reduction_sample> samples;
  const auto ranks = static_cast<int>(m.network.device_count());
  for (const auto& s : io::read_collectives(a.collectives)) {
    if (s.kind == machine::exchange::all_reduce && s.ranks == ranks) {
      samples.push_back({static_cast<double>(s.size), s.seconds});
    }
  }
  if (samples.empty()) {
    throw error{a.collectives, fmt::format("no all-reduces of {} devices", ranks), "some, as the machine has so many"};
  }
  const auto line = fusion::fit_reductions(samples);
  return {line, line};
}

struct outcome {
  std::string name{};
  fusion::fusion_strategy strategy{};
  fusion::fusion_times times{};
  fusion::group_counts groups{};
  picoseconds on_network{};   // simulated with messages over the machine's links
  picoseconds on_channels{};  // with --channels
};

class comparison {
 public:
  comparison(const arguments& a, const fusion::instruction_graph& g, const fusion::fusion_target& t,
             const machine::machine& m)
      : arguments_{a}, graph_{g}, target_{t}, machine_{m} {}

  void add(std::string name, fusion::fusion_strategy s) {
    outcome o{std::move(name), std::move(s), {}, {}, {}, {}};
    fusion::fusion_session session{graph_, target_};
    session.reset(o.strategy);
    o.times = session.times();
    o.groups = fusion::count_groups(graph_, o.strategy);
    const auto simulated = [&](const fusion::reduction_writer& reduce) {
      const auto p = fusion::fusion_program(
          graph_, o.strategy,
          [&](std::uint32_t group) { return picoseconds{session.duration(session.groups().group_of(group))}; }, reduce);
      simulate::full_simulation full;
      full.run(p);
      return simulate::summarize(p, full.times()).iteration;
    };
    o.on_network = simulated(fusion::on_network(machine_));
    if (arguments_.channels > 1) {
      o.on_channels = simulated(fusion::on_channels(arguments_.channels, [&](bytes size) {
        return picoseconds{std::max<std::int64_t>(target_.all_reduce(static_cast<double>(size.count())), 1)};
      }));
    }
    all_.push_back(std::move(o));
  }
  [[nodiscard]] const std::vector<outcome>& all() const noexcept { return all_; }
  // Throws: unity::error where none has that name.
  [[nodiscard]] const outcome& named(const std::string& name) const {
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const outcome& o) { return o.name == name; });
    if (found == all_.end()) {
      std::string names;
      for (const auto& o : all_) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", o.name);
      }
      throw error{"--strategy", fmt::format("'{}'", printable(name)), fmt::format("one of {}", names)};
    }
    return *found;
  }
  // The first of the fastest.
  [[nodiscard]] const outcome& best() const {
    return *std::min_element(all_.begin(), all_.end(),
                             [](const outcome& a, const outcome& b) { return a.times.iteration < b.times.iteration; });
  }

 private:
  const arguments& arguments_;
  const fusion::instruction_graph& graph_;
  const fusion::fusion_target& target_;
  const machine::machine& machine_;
  std::vector<outcome> all_{};
};

double seconds(std::int64_t picoseconds) { return static_cast<double>(picoseconds) * 1e-12; }

void print(const arguments& a, const comparison& c, const systems::disco_result& found, std::int64_t bound,
           const fusion::reduction_line& line) {
  fmt::print("{} on {}, simulated; an all-reduce takes {:.1f} us and {:.3f} ms per MB\n",
             a.model.empty() ? a.hlo : a.model, a.machine, line.fixed * 1e-6, line.per_byte * 1e-3);
  fmt::print("{:16} {:>12} {:>12} {:>12} {:>8} {:>6} {:>8} {:>12}\n", "strategy", "iteration ms", "compute ms",
             "reduce ms", "kernels", "copies", "buckets", "network ms");
  for (const auto& o : c.all()) {
    fmt::print("{:16} {:12.3f} {:12.3f} {:12.3f} {:8} {:6} {:8} {:12.3f}\n", o.name, seconds(o.times.iteration) * 1e3,
               seconds(o.times.compute) * 1e3, seconds(o.times.communication) * 1e3, o.groups.kernels, o.groups.copies,
               o.groups.buckets, to_seconds(o.on_network) * 1e3);
  }
  fmt::print("no strategy takes less than {:.3f} ms\n", seconds(bound) * 1e3);
  fmt::print("best: {}; {} candidates in {:.2f} s, {:.0f} a second, the best after {:.2f} s\n", c.best().name,
             found.counts.candidates, found.seconds,
             static_cast<double>(found.counts.candidates) / std::max(found.seconds, 1e-9),
             found.history.back().seconds);
}

nlohmann::json to_json(const arguments& a, const comparison& c, const systems::disco_result& found, std::int64_t bound,
                       const fusion::reduction_line& line, const fusion::instruction_graph& g) {
  auto strategies = nlohmann::json::array();
  for (const auto& o : c.all()) {
    nlohmann::json s{{"name", o.name},
                     {"iteration_s", seconds(o.times.iteration)},
                     {"compute_s", seconds(o.times.compute)},
                     {"communication_s", seconds(o.times.communication)},
                     {"network_s", to_seconds(o.on_network)},
                     {"kernels", o.groups.kernels},
                     {"fused", o.groups.fused},
                     {"copies", o.groups.copies},
                     {"buckets", o.groups.buckets}};
    if (a.channels > 1) {
      s["channels_s"] = to_seconds(o.on_channels);
    }
    strategies.push_back(std::move(s));
  }
  auto groups = nlohmann::json::array();
  auto buckets = nlohmann::json::array();
  const auto& best = c.best().strategy;
  const auto members = fusion::members_of(best);
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (members[k].size() < 2 || !(g.computes(members[k].front()) || g.reduces(members[k].front()))) {
      continue;
    }
    auto names = nlohmann::json::array();
    for (const auto m : members[k]) {
      names.push_back(fmt::format("{} {}{}", m, g[m].name, best.group_of[m] == k ? "" : " (copy)"));
    }
    (g.reduces(members[k].front()) ? buckets : groups).push_back(std::move(names));
  }
  nlohmann::json all{{"model", a.model.empty() ? a.hlo : a.model},
                     {"machine", a.machine},
                     {"strategies", strategies},
                     {"bound_s", seconds(bound)},
                     {"best", c.best().name},
                     {"reductions", {{"seconds_per_byte", line.per_byte * 1e-12}, {"fixed_s", line.fixed * 1e-12}}},
                     {"search",
                      {{"candidates", found.counts.candidates},
                       {"expanded", found.counts.expanded},
                       {"seconds", found.seconds},
                       {"best_after_s", found.history.back().seconds},
                       {"stopped", to_string(found.stopped)}}},
                     {"groups", groups},
                     {"buckets", buckets}};
  if (!a.estimator.empty()) {
    all["estimator"] = a.estimator;
  }
  return all;
}

void check(arguments& a) {
  auto& o = a.options;
  o.limits.seconds = support::parse_quantity("--budget", a.budget, support::durations);
  o.refine = a.refine == "on";
  o.algorithm = static_cast<systems::disco_algorithm>(
      std::find(systems::disco_algorithm_names.begin(), systems::disco_algorithm_names.end(), a.algorithm) -
      systems::disco_algorithm_names.begin());
  o.moves.most = static_cast<std::uint8_t>(a.beta);
  if (!a.methods.empty()) {
    const auto has = [&](const char* name) {
      return std::find(a.methods.begin(), a.methods.end(), name) != a.methods.end();
    };
    o.moves.fuse = has("fuse");
    o.moves.duplicate = has("duplicate");
    o.moves.join = has("join");
    o.moves.separate = has("separate");
  }
}

// What is fused, and what is written of a strategy.
struct fusion_input {
  const fusion::instruction_graph& graph;
  fusion::kernel_limits limits{};
  // What of the strategy can be had; the first number of the pair: how many kernels cannot.
  std::function<std::pair<std::size_t, fusion::fusion_strategy>(const fusion::fusion_strategy&)> available{};
  std::function<std::vector<support::output>(const std::filesystem::path& folder, const fusion::fusion_strategy&,
                                             const fusion::fusion_session&)>
      files{};
};

// The threshold with which XLA's combiner makes these buckets, if one does.
support::output xla_flags(const std::filesystem::path& folder, const fusion::instruction_graph& g,
                          const fusion::fusion_target& t, const fusion::fusion_strategy& s) {
  std::string text = "# No threshold of XLA's all-reduce combiner makes these buckets.\n";
  bool reduces = false;
  auto kernels = s;
  for (fusion::instruction_id i = 0; i < g.size(); ++i) {
    kernels.group_of[i] = g.reduces(i) ? i : kernels.group_of[i];
  }
  const auto members = fusion::members_of(s);
  for (std::uint32_t k = 0; k < members.size(); ++k) {
    double size = 0;
    for (const auto m : members[k]) {
      size += g.reduces(m) ? g[m].size : 0;
    }
    reduces = reduces || size > 0;
    if (size > 0 && systems::combined_reductions(g, t, kernels, size).group_of == s.group_of) {
      text = fmt::format("XLA_FLAGS=--xla_gpu_all_reduce_combine_threshold_bytes={:.0f}\n", size);
    }
  }
  return {folder / "xla_flags.txt", reduces ? text : "# There are no all-reduces.\n"};
}

void search_and_write(const arguments& a, const machine::machine& machine, const fusion_input& in) {
  const auto& g = in.graph;
  const auto reductions = reductions_for(a, machine);
  fusion::fusion_target target;
  target.limits = in.limits;
  target.all_reduce = reductions.time;
  target.kernels = fusion::roofline_kernels(machine);
  if (!a.estimator.empty()) {
    target.kernels.estimate = learn::read_estimator(a.estimator);
  }
  comparison c{a, g, target, machine};
  for (auto& b : systems::fusion_baselines(g, target)) {
    c.add(std::move(b.name), in.available(b.strategy).second);
  }
  const auto found = systems::disco_search(g, target, fusion::unfused(g), a.options);
  const auto [left_out, strategy] = in.available(found.strategy);
  c.add("disco", strategy);
  const auto bound = systems::full_overlap_bound(g, target);
  const auto& chosen = a.strategy.empty() ? c.best() : c.named(a.strategy);
  std::vector<support::output> files;
  if (!a.out.empty()) {
    fusion::fusion_session session{g, target};
    session.reset(chosen.strategy);
    files = in.files(a.out, chosen.strategy, session);
    files.push_back(xla_flags(a.out, g, target, chosen.strategy));
  }
  if (!a.json.empty()) {
    files.push_back({a.json, to_json(a, c, found, bound, reductions.line, g).dump(2) + "\n"});
  }
  print(a, c, found, bound, reductions.line);
  if (left_out > 0) {
    fmt::print("{} kernels are left out, as XLA cannot make them\n", left_out);
  }
  support::write_all(files);
}

void run_model(const arguments& a, const machine::machine& machine) {
  const auto operators = tensor::training_algebra();
  auto job = support::load_fusion_job(operators, a.model, a.dimensions, machine, a.optimizer);
  support::with_durations(a.timing, operators, machine, "fuse", [&](const tensor::durations& times) {
    support::add_instructions(operators, times, job);
    const auto files = [&](const std::filesystem::path& folder, const fusion::fusion_strategy& s,
                           const fusion::fusion_session& session) {
      const auto plan = fusion::plan_of(operators, job.program, job.instructions, s, session.order(), job.weights);
      const auto bucketed = support::with_buckets(operators, job, plan);
      return std::vector<support::output>{{folder / "plan.json", io::to_plan_text(operators, bucketed, {})},
                                          {folder / "fusion.json", io::to_fusion_text(plan)},
                                          {folder / "ddp_buckets.json", support::to_ddp_text(operators, job, plan)}};
    };
    search_and_write(a, machine,
                     {job.instructions.graph, {}, [](const auto& s) { return std::pair{std::size_t{0}, s}; }, files});
  });
}

void run_hlo(const arguments& a, const machine::machine& machine) {
  if (!support::measured_backend(a.timing).empty() || !a.dimensions.empty()) {
    throw error{a.dimensions.empty() ? "--cost" : "--dim", "given with --hlo", "a MODEL"};
  }
  const auto rates = machine::roofline_of(machine.devices.front());
  const auto kernels = fusion::roofline_kernels(machine);
  const auto module = io::read_hlo(a.hlo);
  const auto all = io::instructions_of(module, kernels, rates->flops_per_second);
  const auto available = [&](const fusion::fusion_strategy& s) {
    auto made = io::with_fusions(module, all, s);
    return std::pair{made.left_out, std::move(made.strategy)};
  };
  const auto files = [&](const std::filesystem::path& folder, const fusion::fusion_strategy& s,
                         const fusion::fusion_session&) {
    return std::vector<support::output>{{folder / "module.hlo", io::to_text(io::with_fusions(module, all, s).module)}};
  };
  search_and_write(a, machine, {all.graph, io::hlo_limits(), available, files});
}

void run(arguments& a) {
  check(a);
  if (a.model.empty() && a.hlo.empty()) {
    throw error{"MODEL", "missing", "a model, or --hlo FILE"};
  }
  const support::output_folder folder{a.out};
  support::expect_writable(a.json);
  const auto machine = support::load_machine(a.machine);
  a.hlo.empty() ? run_model(a, machine) : run_hlo(a, machine);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("fuse", "Fuses operators and gradients of data-parallel training (DisCo).",
                                         argc, argv, declare, run);
}
