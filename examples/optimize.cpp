// Algebraic optimization of one model for one device: reads a model and writes a cheaper equivalent one.
//
// run: zoo:nasrnn --max-expansions 50 --out {out} --json {out}/result.json
// run: zoo:bert?layers=1 --cost kernels:a100 --max-expansions 20 --json {out}/result.json
// run: {models}/resnet50.onnx --max-expansions 60 --out {out} --json {out}/result.json
// run: {models}/bert.onnx --max-expansions 100 --out {out} --json {out}/result.json
// run: {models}/resnet_small.onnx --dim batch=2 --mode training --search beam --out {out} --json {out}/result.json
// run: {models}/bert_small.onnx --dim batch=1 --dim sequence=16 --layouts searched --budget 2s --out {out}
// run: {models}/bert_small.onnx --budget 2s --out {out} --json {out}/result.json
// run: {models}/resnet_small.onnx --dim batch=1 --budget 2s --target onnxruntime --timer {source}/test/programs/engine.py --out {out}
// run: {models}/resnet_small.onnx --dim batch=1 --cost measured:reference --run reference --timings {out}/timings.txt --max-expansions 3

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/hardware/device_rates.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/dot.hpp>
#include <unity/io/fold_constants.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/onnx.hpp>
#include <unity/io/onnx_open.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/everywhere.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/engine_rules.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "support/backend_names.hpp"
#include "support/choice.hpp"
#include "support/engine_kernels.hpp"
#include "support/engine_process.hpp"
#include "support/engine_target.hpp"
#include "support/models.hpp"
#include "support/number_range.hpp"
#include "support/optimization.hpp"
#include "support/optimization_runs.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/progress.hpp"
#include "support/quantity.hpp"
#include "support/report_picture.hpp"
#include "support/timings.hpp"

namespace {

using namespace unity;
using outcome = support::optimization;

// docs/design/investigations.md lists models that improve after more of them.
constexpr std::uint64_t default_patience = 5000;

struct arguments {
  std::string model{};
  std::string rules{};
  syntax::standing floor = syntax::standing::proved;
  std::string cost = "analytic:v100";
  bool has_cost = false;            // --cost was given
  bool has_default_target = false;  // the engine that --python has
  std::string why_predicted{};      // where the default would be to time files in an engine
  support::run_flags runs{};
  support::target_flags target{};
  hardware::machine calibrated{};             // the machine of --cost analytic:FILE.json or kernels:FILE.json
  std::optional<hardware::device> kernels{};  // of --cost kernels:DEVICE
  std::string out{};
  std::string json{};
  std::string report{};
  std::string memory_limit{};
  std::vector<std::string> dimensions{};
  std::string budget = "10s";
  std::string every = "1m";
  std::uint64_t expansions = std::numeric_limits<std::uint64_t>::max();
  std::optional<double> alpha{};
  std::optional<std::uint64_t> patience{};
  std::optional<double> beta{};
  std::optional<std::size_t> width{};
  std::optional<double> flops_weight{};
  systems::taso_options options{};
};

const std::map<std::string, syntax::standing> floors{
    {"proved", syntax::standing::proved}, {"tested", syntax::standing::tested}, {"assumed", syntax::standing::assumed}};
const std::map<std::string, systems::algorithm> algorithms{{"backtracking", systems::algorithm::backtracking},
                                                           {"beam", systems::algorithm::beam},
                                                           {"mcmc", systems::algorithm::mcmc},
                                                           {"exact", systems::algorithm::exact}};
const std::map<std::string, tensor::mode> modes{{"inference", tensor::mode::inference},
                                                {"training", tensor::mode::training}};
const std::map<std::string, variants> layout_choices{{"kept", variants::kept}, {"searched", variants::searched}};

void declare(CLI::App& app, arguments& a) {
  auto& o = a.options;
  app.add_option("MODEL", a.model, support::model_help)->required();
  app.add_option("--rules", a.rules, "rule file to use instead of the shipped rules");
  support::add_choice(app, "--floor", a.floor, floors,
                      "least confidence of the rules used: proved, tested or assumed");
  app.add_option(
      "--cost", a.cost,
      fmt::format("analytic:DEVICE (taso, {}, or the FILE.json of calibrate), kernels:DEVICE (of PyTorch, on "
                  "one of these but taso), measured:BACKEND ({}; or the engine of --target), or flops",
                  hardware::gpu_names(), support::backend_list()));
  app.add_option("--timings", a.runs.timings,
                 "file that keeps measured times, or none; default: in the user's cache folder");
  app.add_option("--run", a.runs.run,
                 fmt::format("time both graphs end to end on a backend: {}", support::backend_list()));
  app.add_option("--backend-threads", a.runs.threads, "threads of the cpu backend; 0: all of the machine")
      ->check(support::number_in(0, 1024));
  support::declare_target(app, a.target);
  app.add_option("--flops-weight", a.flops_weight,
                 "weight of arithmetic in the cost: 0 is time alone, 1 is arithmetic alone")
      ->check(support::number_in(0.0, 1.0));
  app.add_option("--memory-limit", a.memory_limit, "limit on the memory of results and parameters: 512MB, 2GB");
  support::add_choice(app, "--search", o.algorithm, algorithms, "search algorithm");
  support::add_choice(app, "--mode", o.objective.mode, modes, "inference precomputes what depends on weights alone");
  support::add_choice(app, "--layouts", o.layouts, layout_choices,
                      "searched: choose layouts of intermediate results together with the rewrites");
  app.add_option("--alpha", a.alpha, "backtracking keeps candidates of up to this many times the best cost")
      ->check(support::number_in(1.0, 1e9));
  app.add_option("--patience", a.patience,
                 fmt::format("backtracking stops after expanding this many graphs without a better one; default: {}",
                             default_patience))
      ->check(support::number_from(std::uint64_t{1}));
  app.add_option("--width", a.width, "graphs that a beam keeps per level")->check(support::number_in(1, 1 << 20));
  app.add_option("--beta", a.beta,
                 "inverse temperature of mcmc: the higher, the more rarely a more expensive graph is accepted")
      ->check(support::number_in(0.0, 1e9));
  app.add_option("--budget", a.budget, "time limit of the search, without measuring: 500ms, 30s, 5m; default: 10s");
  app.add_option("--max-expansions", a.expansions, "limit on expanded graphs")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--seed", o.seed, "random seed of mcmc and of the equality check")
      ->check(support::number_from(std::uint64_t{0}));
  app.add_option("--threads", o.threads, "threads of the search; they do not change the result")
      ->check(support::number_in(1, 1024));
  app.add_option("--dim", a.dimensions, support::open_dimension_help)->allow_extra_args(false);
  auto* const checkpoint =
      app.add_option("--checkpoint", o.checkpoint, "file to save the search to, regularly and at the end");
  app.add_option("--every", a.every, "time between two checkpoints: 500ms, 30s, 5m")->needs(checkpoint);
  app.add_option("--resume", o.resume, "checkpoint to continue from");
  app.add_option("--out", a.out, "folder for optimized.onnx, optimized.dot, before_after.dot and .svg");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: times, rules and what each gained, both graphs");
  app.parse_complete_callback([&app, &a] { a.has_cost = app.count("--cost") > 0; });
}

// The rates that `calibrate` measured.
const hardware::device& calibrated_device(arguments& a, const std::string& file) {
  a.calibrated = io::read_machine(file);
  for (const auto& d : a.calibrated.devices) {
    if (hardware::roofline_of(d)) {
      return d;
    }
  }
  throw error{file, "no device with a rate for float32", "one"};
}

// Throws: unity::error if there is no such device.
void resolve_kernels(arguments& a, const std::string& device) {
  if (device.ends_with(".json")) {
    a.kernels = calibrated_device(a, device);
    a.options.objective.device = *hardware::roofline_of(*a.kernels);
  } else if (auto found = hardware::find_model(device); found && found->kind == hardware::device_kind::gpu) {
    a.kernels = std::move(found);
    a.options.objective.device = *hardware::find_device(device);
  } else {
    throw error{"--cost kernels", fmt::format("'{}'", device),
                fmt::format("FILE.json, or one of {}", hardware::gpu_names())};
  }
}

void resolve_cost(arguments& a) {
  const auto after = [&](std::string_view prefix) {
    return a.cost.starts_with(prefix) ? a.cost.substr(prefix.size()) : std::string{};
  };
  if (a.cost == "flops") {
    if (a.flops_weight) {
      throw error{"--flops-weight", "given with --cost flops, which has no times", "another --cost besides"};
    }
    a.options.objective.flops_weight = 1;
  } else if (a.runs.measured = after("measured:"); !a.runs.measured.empty()) {
    if (a.target.name.empty()) {
      support::check_backend(a.runs.measured, "--cost measured");
    }
  } else if (const auto device = after("analytic:"); device.ends_with(".json")) {
    a.options.objective.device = *hardware::roofline_of(calibrated_device(a, device));
  } else if (const auto preset = hardware::find_device(device)) {
    a.options.objective.device = *preset;
  } else if (const auto of_kernels = after("kernels:"); !of_kernels.empty()) {
    resolve_kernels(a, of_kernels);
  } else {
    throw error{"--cost", fmt::format("'{}'", a.cost),
                fmt::format("flops, measured:BACKEND, analytic: or kernels: and FILE.json or one of {}; analytic:taso",
                            hardware::gpu_names())};
  }
}

// The flags of runs on a backend.
void resolve_measuring(const arguments& a) {
  if (!a.runs.timings.empty() && a.runs.measured.empty()) {
    throw error{"--timings", "a file for times that are not measured", "--cost measured:BACKEND besides"};
  }
  for (const auto& name : {a.runs.measured, a.runs.run}) {
    if (!name.empty() && a.options.objective.mode == tensor::mode::training) {
      throw error{"--mode", "training, whose weights change, on a backend", "inference with --cost measured and --run"};
    }
  }
  if (!a.runs.measured.empty() && a.options.threads > 1) {  // other threads would disturb the measurement
    throw error{"--threads", fmt::format("{} of them, beside measurements", a.options.threads),
                "1 with --cost measured"};
  }
  if (a.runs.threads != 0 && a.runs.measured != "cpu" && a.runs.run != "cpu") {
    throw error{"--backend-threads", fmt::format("{} for a backend that takes none", a.runs.threads),
                "--cost measured:cpu or --run cpu"};
  }
}

// The flags of engines.
void resolve_target(arguments& a) {
  const bool saves = !a.options.checkpoint.empty() || !a.options.resume.empty();
  const bool is_file = !tensor::zoo::is_name(a.model);
  if (a.target.name.empty() && !a.has_cost && is_file && a.runs.run.empty() && !saves &&
      a.options.objective.mode == tensor::mode::inference) {
    a.target.name = support::installed_engine(a.target);
    a.has_default_target = !a.target.name.empty();
    a.why_predicted = a.has_default_target ? "" : fmt::format("{} has no engine to time files in", a.target.python);
  }
  if (a.target.name == "none") {
    a.target.name.clear();
  }
  support::check_target(a.target, !a.why_predicted.empty());
  if (a.target.name.empty()) {
    return;
  }
  if (!is_file) {
    throw error{"--target", fmt::format("{}, which has no file", a.model), "an ONNX model"};
  }
  if (a.options.objective.mode == tensor::mode::training) {
    throw error{"--target", "--mode training, whose weights change", "inference"};
  }
  if (!a.runs.measured.empty() && a.runs.measured != a.target.name) {
    throw error{"--cost", fmt::format("measured:{}, besides --target {}", a.runs.measured, a.target.name),
                fmt::format("measured:{}, or a cost that is predicted", a.target.name)};
  }
  if (saves) {
    throw error{"--target", "a search that is saved or goes on, besides several searches", "one of both"};
  }
}

void resolve(arguments& a) {
  auto& o = a.options;
  const bool saves = !o.checkpoint.empty() || !o.resume.empty();
  if (saves && o.algorithm != systems::algorithm::backtracking && o.algorithm != systems::algorithm::exact) {
    throw error{"--checkpoint, --resume", "a search that cannot be saved", "--search backtracking or exact"};
  }
  if (a.alpha && o.algorithm != systems::algorithm::backtracking) {
    throw error{"--alpha", "a search that keeps candidates in another way", "--search backtracking"};
  }
  if (a.patience && o.algorithm != systems::algorithm::backtracking) {
    throw error{"--patience", "a search that stops in another way", "--search backtracking"};
  }
  if (a.width && o.algorithm != systems::algorithm::beam) {
    throw error{"--width", "a search that keeps no levels", "--search beam"};
  }
  if (a.beta && o.algorithm != systems::algorithm::mcmc) {
    throw error{"--beta", "a search without a temperature", "--search mcmc"};
  }
  o.alpha = a.alpha.value_or(o.alpha);
  if (o.algorithm == systems::algorithm::backtracking) {
    o.patience = a.patience.value_or(default_patience);
  }
  o.width = a.width.value_or(o.width);
  o.beta = a.beta.value_or(o.beta);
  o.objective.flops_weight = a.flops_weight.value_or(o.objective.flops_weight);
  o.limits.expansions = a.expansions;
  o.limits.seconds = support::parse_quantity("--budget", a.budget, support::durations);
  o.checkpoint_seconds = support::parse_quantity("--every", a.every, support::durations);
  if (!a.memory_limit.empty()) {
    o.objective.memory_limit = support::parse_memory("--memory-limit", a.memory_limit).count();
  }
  if (!a.runs.run.empty()) {
    support::check_backend(a.runs.run, "--run");
  }
  resolve_cost(a);
  resolve_measuring(a);
  resolve_target(a);
}

rule_set load_rules(const tensor::algebra& operators, const arguments& a) {
  const auto shipped = fmt::format("{}{}", tensor::standard_rules, tensor::generated_rules);
  const auto text = a.rules.empty() ? shipped : read_file(a.rules);
  const auto rules = compile_rules(operators, parse_rules(text, a.rules.empty() ? "shipped rules" : a.rules));
  if (!a.rules.empty()) {
    tensor::check_rules(operators, rules, a.rules);
  }
  const auto known = static_cast<std::size_t>(
      std::count_if(rules.begin(), rules.end(), [&](const substitution& r) { return r.rule.known >= a.floor; }));
  if (known < rules.size()) {
    fmt::print(stderr, "optimize: {} of {} rules are not known well enough and left out; see --floor\n",
               rules.size() - known, rules.size());
  }
  return systems::select_rules(rules, a.floor, a.options.objective.mode);
}

support::optimization_title about(const arguments& a) {
  const auto& to = a.options.objective;
  return {a.model, a.cost, a.runs.measured.empty() ? std::string{to.device.name} : a.runs.measured, a.runs.run,
          to.mode};
}

// By predicted times.
systems::taso_result search(const tensor::algebra& operators, const rule_set& rules, const tensor::tensor_graph& graph,
                            const std::optional<hardware::device>& kernels, const systems::taso_options& options) {
  return kernels ? support::search_by(*kernels, operators, rules, options, graph)
                 : systems::taso(operators, rules, graph, options);
}

std::string title(const char* what, double seconds) { return fmt::format("{}: {:f} us", what, seconds * 1e6); }

// Checks that the model still computes the same, in the arithmetic of its types and with the values of its constants.
// Graphs whose evaluation would take long are not checked: folding has separate tests.
// Throws: unity::error if it does not.
void check_folded(const tensor::algebra& operators, const io::onnx_model& before, const io::onnx_model& after) {
  const auto data = [&](std::string_view name) -> std::optional<tensor::dense<double>> {
    for (const auto* table : {&before.data, &after.data}) {
      if (const auto found = table->find(name); found != table->end() && !before.defaults.contains(name)) {
        return tensor::dense<double>{found->second.dims, io::elements_of<double>(found->second)};
      }
    }
    return std::nullopt;
  };
  const auto report =
      tensor::check_own_sizes(operators, before.graph, after.graph,
                              {.numbers = tensor::arithmetic::rounded, .data = data, .affordable = flops{100'000'000}});
  if (report && !report->passed) {
    throw error{before.name, fmt::format("the folded graph differs: {}", report->problem),
                "equal graphs; please report this"};
  }
}

// The graph that is written: in inference mode, values that depend on weights alone are computed.
io::onnx_model written_model(const tensor::algebra& operators, const io::onnx_model& before,
                             const systems::taso_result& found, bool folds) {
  auto after = before;
  after.graph = found.graph;
  after.labels = io::stayed_labels(before.labels, found.origins);
  if (folds) {
    after = io::fold_constants(operators, std::move(after));
    check_folded(operators, before, after);
  }
  return after;
}

// Effects: replaces the result by the original.
void keep_original(outcome& r) {
  r.kept_original = true;
  r.signature_kept = true;
  r.file = r.before.file;
  r.found.graph = r.before.graph;
  r.found.origins.clear();
  for (const auto n : node_ids(r.before.graph)) {
    r.found.origins.push_back(n);
  }
  r.found.cost_after_s = r.found.cost_before_s;
  r.found.rules_used.clear();
  r.found.real_only = false;
}

// Effects: records the size of the file; keeps the original if the result is larger, or has more nodes, and is not
// faster beyond noise. No effect for a model of the zoo, and for a graph that cannot be written.
void weigh(const tensor::algebra& operators, const io::onnx_model& written, outcome& r) {
  if (written.signature.empty() || r.kept_original) {
    return;
  }
  try {
    r.signature_kept = io::keeps_signature(operators, written);
    r.file = io::written_size(operators, written);
  } catch (const error&) {
    return;
  }
  constexpr double noise = 0.01;
  const bool is_faster = r.found.cost_after_s < (1 - noise) * r.found.cost_before_s;
  const auto& old = r.before.file;
  if (!r.engine && !is_faster && (r.file->bytes > old.bytes || r.file->nodes > old.nodes)) {
    keep_original(r);
  }
}

// Effects: prints what the result takes if that is more than --memory-limit, which the search then came near to.
void print_excess(const tensor::algebra& operators, const arguments& a, const tensor::tensor_graph& g) {
  rewrite_space space{operators, tensor::memory_cost{operators, a.options.objective.mode}, rule_set{}, g};
  const auto taken = space.cost(space.initial());
  if (!a.memory_limit.empty() && taken > a.options.objective.memory_limit) {
    fmt::print("does not fit: results and parameters take {} bytes, {} more than --memory-limit\n", taken,
               taken - a.options.objective.memory_limit);
  }
}

// New nodes are marked.
io::dot_options drawn_after(const outcome& r) {
  io::dot_options after{.title = title("after", r.found.cost_after_s)};
  for (std::size_t n = 0; n < r.found.origins.size(); ++n) {
    if (!r.found.origins[n].valid()) {
      after.highlighted.insert(node_id{n});
    }
  }
  return after;
}

// Effects: writes a report, with a picture if Graphviz draws one in time.
void write_report(const std::filesystem::path& file, const arguments& a, const outcome& r, const std::string& both) {
  io::html_report page{fmt::format("{}, optimized", a.model)};
  page.paragraph(fmt::format("{} operators before, {} after; times are those of --cost {}. {}",
                             support::running_operators(r.before.graph, a.options.objective.mode),
                             support::running_operators(r.found.graph, a.options.objective.mode), a.cost,
                             r.kept_original ? "The original is kept: nothing that was found is better." : ""));
  page.chart(std::vector<io::chart_bar>{{"before", r.found.cost_before_s * 1e6}, {"after", r.found.cost_after_s * 1e6}},
             "us");
  if (!r.found.rules_used.empty()) {
    page.heading("What each rule gained");
    std::vector<io::chart_bar> gains;
    for (const auto& use : r.found.rules_used) {
      gains.push_back({fmt::format("{} x {}", use.count, use.name), std::max(use.gain_s * 1e6, 0.0)});
    }
    page.chart(gains, "us");
    page.paragraph("A rule without a gain of its own makes another one possible.");
  }
  page.heading("Both graphs");
  support::add_graph(page, both, "Nodes that the search made are marked.", "the graphs before and after");
  atomic_write(file, page.text());
}

// The model, its graph, and both graphs side by side with new nodes marked.
void write(const tensor::algebra& operators, const arguments& a, const io::onnx_model& written, outcome& r) {
  std::vector<support::output> files;
  const auto after = drawn_after(r);
  const auto both = a.out.empty() && a.report.empty()
                        ? std::string{}
                        : io::to_dot(operators, r.before.graph, {.title = title("before", r.found.cost_before_s)},
                                     r.found.graph, after);
  if (!a.out.empty()) {
    const std::filesystem::path folder{a.out};
    const auto write_model = [&](const std::filesystem::path& file) {
      if (r.kept_original) {
        support::copy_model(a.model, file);
      } else {
        io::export_onnx(operators, written, file);
      }
    };
    const auto draw = [&both](const std::filesystem::path& file) {
      if (const auto problem = io::write_svg(file, both, std::chrono::seconds{5})) {
        fmt::print(stderr, "no picture: {}\n", *problem);
      }
    };
    files.push_back({folder / "optimized.onnx", "", write_model, folder / "optimized.onnx.data"});
    files.push_back({folder / "optimized.dot", io::to_dot(operators, r.found.graph, after)});
    files.push_back({folder / "before_after.dot", both});
    files.push_back({folder / "before_after.svg", "", draw});
  }
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", support::to_json(about(a), r).dump(2))});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, "", [&](const std::filesystem::path& file) { write_report(file, a, r, both); }});
  }
  support::write_all(files);
}

// For files with open dimensions, the result is compared at other sizes, as it would be written.
// Throws: unity::error if the optimized graph computes something else.
tensor::equivalence_report check(const tensor::algebra& operators, const arguments& a, const io::onnx_model& before,
                                 const systems::taso_result& found) {
  // Exporters round constants such as sqrt(2) to float.
  const tensor::equivalence_options options{
      .modular = !found.real_only, .seed = a.options.seed, .tolerance = found.real_only ? 1e-6 : 1e-9};
  if (!before.open.empty()) {
    const std::filesystem::path file{a.model};
    return io::check_open(operators, read_file(file), a.model, file.parent_path(),
                          written_model(operators, before, found, false),
                          {.dimensions = support::parse_dimensions(a.dimensions), .keep_rest = true}, options);
  }
  auto report = tensor::check_equivalence(operators, before.graph, found.graph, options);
  if (!report.passed) {
    throw error{a.model, fmt::format("the optimized graph differs: {}", report.problem),
                "equal graphs; please report this"};
  }
  return report;
}

// The searches of one run, by predicted times or by the engine's own.
class engine_search {
 public:
  engine_search(const tensor::algebra& operators, const arguments& a, const io::onnx_model& before,
                support::engine_timer& engine)
      : operators_{operators}, a_{a}, before_{before} {
    if (a.runs.measured.empty()) {
      return;
    }
    kernels_.emplace(engine, operators);
    timer_ = {[this](const auto& op, auto inputs, auto outputs) { return kernels_->time(op, inputs, outputs); },
              kernels_->description()};
    const auto warn = [](const std::string& line) { fmt::print(stderr, "optimize: {}\n", line); };
    times_.emplace(operators, timer_, support::timings_file(a.runs.timings, timer_.about, warn), warn);
  }
  engine_search(const engine_search&) = delete;
  engine_search& operator=(const engine_search&) = delete;

  [[nodiscard]] systems::taso_result operator()(const rule_set& rules, double seconds) {
    return search(rules, seconds, before_.graph);
  }
  // Applies the rule at every match in the best graph.
  [[nodiscard]] std::optional<systems::taso_result> everywhere(const systems::taso_result& found,
                                                               const substitution& rule) {
    constexpr std::size_t most = 10'000;
    rewrite_space space{operators_, tensor::flop_cost{operators_, a_.options.objective.mode}, rule_set{rule},
                        found.graph};
    const auto all = rewrite_everywhere(space, most);
    if (all.moves == 0) {
      return std::nullopt;
    }
    auto r = search({}, a_.options.limits.seconds, space.graph(all.state));
    const auto stayed = space.origins(all.state);
    for (auto& n : r.origins) {
      n = n.valid() ? stayed[n.index()] : n;
      n = n.valid() ? found.origins[n.index()] : n;
    }
    r.cost_before_s = found.cost_before_s;
    r.rules_used = found.rules_used;
    r.rules_used.push_back({rule.name, all.moves, found.cost_after_s - r.cost_after_s});
    r.real_only = found.real_only || rule.rule.real_only;
    return r;
  }
  [[nodiscard]] std::optional<support::measuring> measuring() const {
    return times_
               ? std::optional{support::measuring{timer_.about, times_->measured(), times_->known(), times_->seconds()}}
               : std::nullopt;
  }

 private:
  [[nodiscard]] systems::taso_result search(const rule_set& rules, double seconds, const tensor::tensor_graph& g) {
    auto options = a_.options;
    options.limits.seconds = seconds;
    options.stages = 2;
    return times_ ? support::search_by(*times_, operators_, rules, options, g, false)
                  : ::search(operators_, rules, g, a_.kernels, options);
  }

  const tensor::algebra& operators_;
  const arguments& a_;
  const io::onnx_model& before_;
  std::optional<support::engine_kernels> kernels_{};
  support::any_timer timer_{};
  std::optional<tensor::timing_cache<support::any_timer>> times_{};
};

// The engine, which has loaded the original. Nothing if --target did not name it and it does not run the original.
std::optional<support::engine_timer> start_engine(arguments& a, const io::onnx_model& before) {
  auto sizes = support::parse_dimensions(a.dimensions);
  for (const auto& axis : before.open.axes) {
    sizes.emplace(axis.name, axis.size);
  }
  try {
    return support::engine_timer{a.target, a.model, sizes, a.options.seed, support::run_tolerance(before.graph)};
  } catch (const error& e) {
    if (!a.has_default_target) {
      throw;
    }
    a.why_predicted = fmt::format("the engine does not run the original ({})", e.what());
    return std::nullopt;
  }
}

// Sets the result, and the engine's timings of it.
void search_for_engine(const tensor::algebra& operators, const rule_set& rules, const arguments& a,
                       support::engine_timer& timer, outcome& r) {
  engine_search search{operators, a, r.before, timer};
  const support::candidate_source source{
      [&](const rule_set& some, double seconds) { return search(some, seconds); },
      [&](const systems::taso_result& found, const std::filesystem::path& file) {
        // The engine compares outputs at one size. It need not hold for others; what is chosen is checked at the end.
        if (!r.before.open.empty()) {
          static_cast<void>(check(operators, a, r.before, found));
        }
        io::export_onnx(operators, written_model(operators, r.before, found, true), file);
      },
      [&](const systems::taso_result& found, const substitution& rule) { return search.everywhere(found, rule); }};
  const auto engine_rules =
      a.rules.empty() ? compile_rules(operators, parse_rules(tensor::engine_rules, "engine_rules")) : rule_set{};
  r.engine = support::choose(timer, source, rules, engine_rules, a.options.limits.seconds, r.found);
  r.measured = search.measuring();
  if (r.engine->kept_original) {
    keep_original(r);
  }
}

void run(arguments& a) {
  resolve(a);
  static_cast<void>(io::utf8_word("MODEL", a.model));  // reports an error now, not when results are written
  support::expect_outside(
      a.out, {"optimized.onnx", "optimized.onnx.data", "optimized.dot", "before_after.dot", "before_after.svg"},
      {a.model, a.json, a.report, a.rules, a.runs.timings, a.options.checkpoint, a.options.resume});
  const support::output_folder folder{a.out};  // before the search: it takes long
  support::expect_writable(a.json);
  support::expect_writable(a.report);
  const auto operators = tensor::standard_algebra();
  const auto rules = load_rules(operators, a);
  outcome r{.before = support::load_open_model(operators, a.model, a.dimensions)};
  a.options.watch = support::progress_line({"us", 1e6, "expanded", "candidates"});
  support::expect_kernels(a.runs, operators, r.before.graph);
  const auto check_found = [&] {
    try {
      r.check = r.kept_original && !r.before.open.empty()
                    ? tensor::equivalence_report{.passed = true, .sizes = "all, being the original"}
                    : check(operators, a, r.before, r.found);
    } catch (const error& e) {
      if (r.before.open.empty()) {
        throw;
      }
      r.held_size = e.what();
      r.check = {.passed = true, .sizes = "all, being the original"};
      keep_original(r);
    }
  };
  auto engine = a.target.name.empty() ? std::nullopt : start_engine(a, r.before);
  if (engine) {
    search_for_engine(operators, rules, a, *engine, r);
    check_found();
  } else if (a.runs.measured.empty()) {
    r.found = search(operators, rules, r.before.graph, a.kernels, a.options);
    check_found();
  } else {
    support::search_measured(a.runs, operators, rules, a.options, r, check_found);
  }
  support::end_progress(a.options.watch);
  const bool is_written = !a.out.empty() || !a.json.empty() || !a.report.empty();
  const bool folds = a.options.objective.mode == tensor::mode::inference;
  const auto written = is_written ? written_model(operators, r.before, r.found, folds) : io::onnx_model{};
  weigh(operators, written, r);
  support::run_both(a.runs, operators, a.options.seed, r);
  write(operators, a, written, r);
  support::print(about(a), r);
  print_excess(operators, a, r.found.graph);
  if (!a.why_predicted.empty()) {
    fmt::print("predicted for {} from its data sheet: {}; see --target and --cost\n", a.options.objective.device.name,
               a.why_predicted);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("optimize", "Rewrites a tensor graph into a cheaper equal one", argc, argv,
                                         declare, run);
}
