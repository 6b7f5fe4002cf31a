// Chooses the operators of a training iteration to fuse, and the gradients to reduce together, on a machine whose
// devices train by data parallelism.
//
// run: zoo:lenet --machine 1080ti:6x2 --budget 2s --seed 1 --json {out}/result.json --out {out}
// run: zoo:lenet?batch=4 --machine host:1x2 --budget 1s --cost measured:cpu --backend-threads 1 --timings none --estimator {source}/examples/data/kernel_estimator.bin
// run: --hlo {source}/test/io/hlo_data/data_parallel.after.hlo --machine t4:1x4 --budget 1s --out {out} --json {out}/result.json
// run: zoo:mlp?form=fig1 --machine t4:1x4 --budget 1s --refine off --channels 2 --methods fuse,join

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/fusion_session.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/reduction_times.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/io/fusion_json.hpp>
#include <unity/io/hlo_instructions.hpp>
#include <unity/io/hlo_text.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/measurements_csv.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/learn/estimator_file.hpp>
#include <unity/systems/disco.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>

#include "support/fusion_job.hpp"
#include "support/fusion_report.hpp"
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
  std::optional<std::string> grain{};
  std::vector<std::string> methods{};
  std::vector<std::string> dimensions{};
  std::size_t channels = 1;
  int beta = 10;
  systems::disco_options options{};
  bool is_bounded = false;  // --alpha or --patience was given
  support::timing_flags timing{};
  std::optional<parallel::optimizer> optimizer{};
  std::string out{};
  std::string json{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  auto* const model =
      app.add_option("MODEL", a.model, std::string{support::model_help} + "; the batch of a zoo model is per device");
  app.add_option(
         "--hlo", a.hlo,
         "HLO text instead of MODEL, as printed by jax.jit(f).lower(x).compile().as_text(); its entry computation "
         "is one iteration of one device")
      ->excludes(model);
  app.add_option("--machine", a.machine, support::machine_help())->required();
  app.add_option("--budget", a.budget, "time limit of the search: 500ms, 10s, 5m")->capture_default_str();
  app.add_option("--seed", a.options.moves.seed,
                 "random seed; equal seeds give equal results where time does not end the search")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--alpha", a.options.alpha, "drop strategies that take at least this many times the best")
      ->check(support::number_in(1.0, 100.0))
      ->capture_default_str();
  app.add_option("--beta", a.beta, "most changes per move")->check(support::number_in(1, 255))->capture_default_str();
  app.add_option("--samples", a.options.moves.samples, "moves per method and strategy")
      ->check(support::number_in(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--patience", a.options.patience, "a round ends after this many strategies without a better one")
      ->check(support::number_from(std::uint64_t{1}))
      ->capture_default_str();
  app.add_option("--refine", a.refine,
                 "on: further rounds with smaller moves while time is left; off: one round, as in the paper")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  app.add_option("--methods", a.methods, "kinds of moves; default: all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"fuse", "duplicate", "join", "separate"}));
  app.add_option(
         "--grain", a.grain,
         "primitives (default): expand composite operators such as layer norm; operators: keep them, for devices that "
         "have kernels for them")
      ->check(CLI::IsMember({"primitives", "operators"}));
  app.add_option("--threads", a.options.threads, "threads that price moves; they do not change the result")
      ->check(support::number_in(1, 1024));
  app.add_option("--reductions", a.reductions,
                 "time of all-reduces: line, T = C x + D fitted to the machine; curve, the fastest algorithm per size")
      ->check(CLI::IsMember({"line", "curve"}))
      ->capture_default_str();
  app.add_option(
      "--collectives", a.collectives,
      "measured all-reduces (.csv: collective,gpus,size_mb,time_ms) that T = C x + D is fitted to, instead of "
      "the machine's links");
  app.add_option("--estimator", a.estimator,
                 "file of `train_estimator` that predicts fused kernels, instead of the device's rates");
  app.add_option("--channels", a.channels, "also simulate the result with this many concurrent all-reduces")
      ->check(support::number_in(1, 64));
  app.add_option_function<std::string>(
         "--optimizer", [&a](const std::string& name) { a.optimizer = *parallel::find_optimizer(name); },
         "optimizer, which decides the state per weight; default: sgd")
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option("--algorithm", a.algorithm,
                 "search algorithm; --alpha, --patience and checkpoints belong to backtracking")
      ->check(CLI::IsMember(
          std::vector<std::string>{systems::disco_algorithm_names.begin(), systems::disco_algorithm_names.end()}))
      ->capture_default_str();
  app.add_option("--checkpoint", a.options.checkpoint, "file for the state of the first round, saved regularly");
  app.add_option("--resume", a.options.resume, "checkpoint to continue from");
  support::declare(app, a.timing);
  app.add_option("--dim", a.dimensions, support::dimension_help)->allow_extra_args(false);
  app.add_option("--strategy", a.strategy, "strategy to write to --out; default: the best")
      ->check(CLI::IsMember(std::vector<std::string>{support::fusion_names.begin(), support::fusion_names.end()}));
  app.add_option(
      "--out", a.out,
      "folder for plan.json, fusion.json (for `train --fusion`), ddp_buckets.json and xla_flags.txt; with --hlo also "
      "module.hlo");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: strategies side by side, and how the search went on");
  app.parse_complete_callback([&app, &a] { a.is_bounded = app.count("--alpha") + app.count("--patience") > 0; });
}

// The times of all-reduces, and the line C x + D that they follow, if they do.
struct reduction_model {
  std::function<picoseconds(double)> time{};
  fusion::reduction_line line{};
};

reduction_model reductions_for(const arguments& a, const hardware::machine& m) {
  if (a.collectives.empty()) {
    const auto line = fusion::reduction_line_of(m);
    return {a.reductions == "line" ? std::function<picoseconds(double)>{line} : fusion::reductions_on(m), line};
  }
  if (a.reductions != "line") {
    throw error{"--collectives", "given with --reductions curve", "--reductions line"};
  }
  std::vector<fusion::reduction_sample> samples;
  const auto ranks = static_cast<int>(m.network.device_count());
  for (const auto& s : io::read_collectives(a.collectives)) {
    if (s.kind == hardware::exchange::all_reduce && s.ranks == ranks) {
      samples.push_back({static_cast<double>(s.size.count()), s.seconds});
    }
  }
  if (samples.empty()) {
    throw error{a.collectives, fmt::format("no all-reduces of {} devices", ranks), "some, as the machine has so many"};
  }
  const auto line = fusion::fit_reductions(samples);
  return {line, line};
}

void check(arguments& a) {
  auto& o = a.options;
  o.limits.seconds = support::parse_quantity("--budget", a.budget, support::durations);
  o.refine = a.refine == "on";
  o.algorithm = static_cast<systems::disco_algorithm>(
      std::find(systems::disco_algorithm_names.begin(), systems::disco_algorithm_names.end(), a.algorithm) -
      systems::disco_algorithm_names.begin());
  if (o.algorithm != systems::disco_algorithm::backtracking &&
      (a.is_bounded || !o.checkpoint.empty() || !o.resume.empty())) {
    throw error{a.is_bounded ? "--alpha and --patience" : "--checkpoint and --resume",
                fmt::format("given with --algorithm {}", a.algorithm), "--algorithm backtracking"};
  }
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

using kernel_estimate = std::function<picoseconds(const fusion::kernel_description&)>;

// The input that is fused, and the files of a strategy.
struct fusion_input {
  const fusion::instruction_graph& graph;
  fusion::kernel_limits limits{};
  kernel_estimate estimate{};  // with --estimator
  // The part of the strategy that can be built, and the number of kernels that cannot.
  std::function<std::pair<std::size_t, fusion::fusion_strategy>(const fusion::fusion_strategy&)> available{};
  std::function<std::vector<support::output>(const std::filesystem::path& folder, const fusion::fusion_strategy&,
                                             const fusion::fusion_session&)>
      files{};
};

// Throws: unity::error if operators and kernels would be priced by different models.
kernel_estimate estimator_for(const arguments& a) {
  if (a.timing.cost.starts_with("kernels")) {
    throw error{"--cost", "operators by the kernels of PyTorch, which fuse some already",
                "analytic or measured:BACKEND"};
  }
  const bool is_measured = !support::measured_backend(a.timing).empty();
  if (a.estimator.empty()) {
    if (is_measured) {
      throw error{"--cost", "measured operators, and kernels by the device's rates", "--estimator FILE besides"};
    }
    return {};
  }
  const auto estimator = learn::read_estimator(a.estimator);
  if (estimator.own_times && !is_measured) {
    throw error{a.estimator, "an estimator that reads what operators take alone, where none is measured",
                "--cost measured:BACKEND besides, or one that was trained --without-times"};
  }
  return estimator;
}

void search_and_write(const arguments& a, const hardware::machine& machine, const fusion_input& in) {
  const auto& g = in.graph;
  const auto reductions = reductions_for(a, machine);
  fusion::fusion_target target;
  target.limits = in.limits;
  target.all_reduce = reductions.time;
  target.kernels = fusion::roofline_kernels(machine);
  target.kernels.estimate = in.estimate;
  support::fusion_comparison c{g, target, machine, a.channels};
  for (auto& b : systems::fusion_baselines(g, target)) {
    c.add(std::move(b.name), in.available(b.strategy).second);
  }
  const support::fusion_summary about{a.model.empty() ? a.hlo : a.model, a.machine,
                                      systems::disco_search(g, target, fusion::unfused(g), a.options),
                                      systems::full_overlap_bound(g, target), reductions.line};
  const auto [left_out, strategy] = in.available(about.found.strategy);
  c.add("disco", strategy);
  const auto& chosen = a.strategy.empty() ? c.best() : c.named(a.strategy);
  std::vector<support::output> files;
  if (!a.out.empty()) {
    fusion::fusion_session session{g, target};
    session.reset(chosen.strategy);
    files = in.files(a.out, chosen.strategy, session);
    files.push_back(
        {std::filesystem::path{a.out} / "xla_flags.txt", support::to_xla_flags(g, target, chosen.strategy)});
  }
  if (!a.json.empty()) {
    auto result = support::to_json(c, about);
    if (!a.estimator.empty()) {
      result["estimator"] = a.estimator;
    }
    files.push_back({a.json, result.dump(2) + "\n"});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, support::to_report(c, about)});
  }
  support::print(c, about);
  if (left_out > 0) {
    fmt::print("{} kernels are left out, as XLA cannot make them\n", left_out);
  }
  support::write_all(files);
}

void run_model(const arguments& a, const hardware::machine& machine, const kernel_estimate& estimate) {
  const auto operators = tensor::training_algebra();
  auto job = support::load_fusion_job(operators, a.model, a.dimensions, machine,
                                      a.optimizer.value_or(parallel::optimizer::sgd), a.grain != "operators");
  support::with_durations(a.timing, operators, machine, "fuse", [&](const tensor::durations& times) {
    support::add_instructions(operators, times, job);
    const auto files = [&](const std::filesystem::path& folder, const fusion::fusion_strategy& s,
                           const fusion::fusion_session& session) {
      auto plan = fusion::plan_of(operators, job.program, job.instructions, s, session.order(), job.weights);
      plan.is_spelled_out = job.is_spelled_out;
      const auto bucketed = support::with_buckets(operators, job, plan);
      return std::vector<support::output>{{folder / "plan.json", io::to_plan_text(operators, bucketed, {})},
                                          {folder / "fusion.json", io::to_fusion_text(plan)},
                                          {folder / "ddp_buckets.json", support::to_ddp_text(operators, job, plan)}};
    };
    search_and_write(
        a, machine,
        {job.instructions.graph, {}, estimate, [](const auto& s) { return std::pair{std::size_t{0}, s}; }, files});
  });
}

void run_hlo(const arguments& a, const hardware::machine& machine, const kernel_estimate& estimate) {
  if (!support::measured_backend(a.timing).empty() || !a.dimensions.empty()) {
    throw error{a.dimensions.empty() ? "--cost" : "--dim", "given with --hlo", "a MODEL"};
  }
  if (a.optimizer || a.grain) {
    throw error{a.optimizer ? "--optimizer" : "--grain", "given with --hlo", "a MODEL"};
  }
  const auto rates = hardware::roofline_of(machine.devices.front());
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
  search_and_write(a, machine, {all.graph, io::hlo_limits(), estimate, available, files});
}

void run(arguments& a) {
  check(a);
  if (a.model.empty() && a.hlo.empty()) {
    throw error{"MODEL", "missing", "a model, or --hlo FILE"};
  }
  if (!a.strategy.empty() && a.out.empty()) {
    throw error{"--strategy", "given without --out, which it is written to", "--out FOLDER besides"};
  }
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  static_cast<void>(io::utf8_word("--hlo", a.hlo));
  static_cast<void>(io::utf8_word("--machine", a.machine));
  static_cast<void>(io::utf8_word("--estimator", a.estimator));
  support::expect_outside(a.out, {"plan.json", "fusion.json", "ddp_buckets.json", "xla_flags.txt", "module.hlo"},
                          {a.model, a.hlo, a.collectives, a.estimator, a.options.checkpoint, a.options.resume,
                           a.timing.timings, a.json, a.report});
  const support::output_folder folder{a.out};
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto estimate = estimator_for(a);
  const auto machine = support::load_machine(a.machine);
  a.hlo.empty() ? run_model(a, machine, estimate) : run_hlo(a, machine, estimate);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("fuse", "Fuses operators and gradients of data-parallel training (DisCo).",
                                         argc, argv, declare, run);
}
