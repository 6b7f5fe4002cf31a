// Algebraic optimization of one model for one device: a model goes in, a cheaper equal model comes out.
//
// run: zoo:nasrnn --max-expansions 50 --out {out} --json {out}/result.json
// run: {models}/resnet50.onnx --max-expansions 60 --out {out} --json {out}/result.json
// run: {models}/bert.onnx --max-expansions 100 --out {out} --json {out}/result.json
// run: {models}/resnet_small.onnx --dim batch=2 --mode training --search beam --out {out} --json {out}/result.json
// run: {models}/bert_small.onnx --dim batch=1 --dim sequence=16 --layouts searched --budget 2s --out {out}
// run: {models}/resnet_small.onnx --dim batch=1 --cost measured:reference --run reference --timings {out}/timings.txt --max-expansions 3

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <unity/backend/device_timer.hpp>
#include <unity/backend/predicted_time.hpp>
#include <unity/backend/run_comparison.hpp>
#include <unity/io/dot.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/onnx.hpp>
#include <unity/io/svg.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/systems/taso.hpp>
#include <unity/tensor/equivalence.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/measured_cost.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/standard_rules.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "support/backends.hpp"
#include "support/models.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/timings.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string model{};
  std::string rules{};
  syntax::standing floor = syntax::standing::proved;
  std::string cost = "analytic:v100";
  std::string measured{};         // the backend of --cost measured:BACKEND
  machine::machine calibrated{};  // the machine of --cost analytic:FILE.json
  std::string timings{};
  std::string run{};
  int backend_threads = 0;
  std::string out{};
  std::string json{};
  std::string memory_limit{};
  std::vector<std::string> dimensions{};
  std::string budget = "10s";
  std::uint64_t expansions = std::numeric_limits<std::uint64_t>::max();
  systems::taso_options options{};
};

const std::map<std::string, syntax::standing> floors{{"proved", syntax::standing::proved},
                                                     {"tested", syntax::standing::tested},
                                                     {"assumed", syntax::standing::assumed}};
const std::map<std::string, systems::algorithm> algorithms{{"backtracking", systems::algorithm::backtracking},
                                                           {"beam", systems::algorithm::beam},
                                                           {"mcmc", systems::algorithm::mcmc},
                                                           {"exact", systems::algorithm::exact}};
const std::map<std::string, tensor::mode> modes{{"inference", tensor::mode::inference},
                                                {"training", tensor::mode::training}};
const std::map<std::string, layouts> layout_choices{{"kept", layouts::kept}, {"searched", layouts::searched}};

void declare(CLI::App& app, arguments& a) {
  auto& o = a.options;
  app.add_option("MODEL", a.model, support::model_help)->required();
  app.add_option("--rules", a.rules, "rule file to use instead of the shipped rules");
  app.add_option("--floor", a.floor, "use rules that are known at least so well: proved, tested or assumed")
      ->transform(CLI::CheckedTransformer(floors));
  app.add_option("--cost", a.cost,
                 std::string{"analytic:DEVICE (taso, k80, p100, v100, t4, a100, h100, h200, or the FILE.json of calibrate), "} +
                     "measured:BACKEND (" + support::backend_list() + "), or flops");
  app.add_option("--timings", a.timings, "file that keeps measured times, or none; default: in the user's cache folder");
  app.add_option("--run", a.run, "time both graphs end to end on a backend: " + support::backend_list());
  app.add_option("--backend-threads", a.backend_threads, "of the cpu backend; 0: all that the machine has")->check(CLI::Range(0, 1024));
  app.add_option("--flops-weight", o.objective.flops_weight, "0: time alone ... 1: arithmetic alone")->check(CLI::Range(0.0, 1.0));
  app.add_option("--memory-limit", a.memory_limit, "most memory that results and parameters may take: 512MB, 2GB");
  app.add_option("--search", o.algorithm, "backtracking, beam, mcmc or exact")->transform(CLI::CheckedTransformer(algorithms));
  app.add_option("--mode", o.objective.mode, "inference or training")->transform(CLI::CheckedTransformer(modes));
  app.add_option("--layouts", o.layouts, "kept or searched")->transform(CLI::CheckedTransformer(layout_choices));
  app.add_option("--alpha", o.alpha, "keep candidates up to this times the best cost")->check(CLI::Range(1.0, 1e9));
  app.add_option("--budget", a.budget, "time to search, measuring apart: 500ms, 30s, 5m");
  app.add_option("--max-expansions", a.expansions, "graphs to expand at most");
  app.add_option("--seed", o.seed, "of mcmc and of the equality check");
  app.add_option("--threads", o.threads, "the result does not depend on it")->check(CLI::Range(1, 1024));
  app.add_option("--dim", a.dimensions, support::dimension_help);
  app.add_option("--checkpoint", o.checkpoint, "file to save the search to, every minute and at the end");
  app.add_option("--resume", o.resume, "checkpoint to go on from");
  app.add_option("--out", a.out, "folder for optimized.onnx, optimized.dot, before_after.dot and .svg");
  app.add_option("--json", a.json, "file for the result as JSON");
}

// The rates that `calibrate` measured.
device_rates calibrated_rates(arguments& a, const std::string& file) {
  a.calibrated = io::read_machine(file);
  for (const auto& d : a.calibrated.devices) {
    if (const auto rates = machine::roofline_of(d)) {
      return *rates;
    }
  }
  throw error{file, "no device with a rate for float32", "one"};
}

void resolve_cost(arguments& a) {
  const auto after = [&](std::string_view prefix) {
    return a.cost.starts_with(prefix) ? a.cost.substr(prefix.size()) : std::string{};
  };
  if (a.cost == "flops") {
    a.options.objective.flops_weight = 1;
  } else if (a.measured = after("measured:"); !a.measured.empty()) {
    support::check_backend(a.measured, "--cost measured");
  } else if (const auto device = after("analytic:"); device.ends_with(".json")) {
    a.options.objective.device = calibrated_rates(a, device);
  } else if (const auto preset = find_device(device)) {
    a.options.objective.device = *preset;
  } else {
    throw error{"--cost", "'" + a.cost + "'",
                "flops, measured:BACKEND, analytic:FILE.json, or analytic: and one of taso, k80, p100, v100, t4, a100, h100, h200"};
  }
}

// What runs on a backend.
void resolve_measuring(const arguments& a) {
  if (!a.timings.empty() && a.measured.empty()) {
    throw error{"--timings", "a file for times that are not measured", "--cost measured:BACKEND besides"};
  }
  for (const auto& name : {a.measured, a.run}) {
    if (!name.empty() && a.options.objective.mode == tensor::mode::training) {
      throw error{"--mode", "training, whose weights change, on a backend", "inference with --cost measured and --run"};
    }
  }
  if (!a.measured.empty() && a.options.threads > 1) {  // the others would disturb the one that measures
    throw error{"--threads", std::to_string(a.options.threads) + " of them, beside measurements", "1 with --cost measured"};
  }
  if (a.backend_threads != 0 && a.measured != "cpu" && a.run != "cpu") {
    throw error{"--backend-threads", std::to_string(a.backend_threads) + " for a backend that takes none", "--cost measured:cpu or --run cpu"};
  }
}

void resolve(arguments& a) {
  auto& o = a.options;
  const bool saves = !o.checkpoint.empty() || !o.resume.empty();
  if (saves && o.algorithm != systems::algorithm::backtracking && o.algorithm != systems::algorithm::exact) {
    throw error{"--checkpoint, --resume", "a search that cannot be saved", "--search backtracking or exact"};
  }
  if (!(o.alpha >= 1) || !(o.objective.flops_weight >= 0)) {  // what is not a number passes every range
    throw error{"--alpha, --flops-weight", "not a number", "a number"};
  }
  o.limits.expansions = a.expansions;
  o.limits.seconds = support::parse_quantity("--budget", a.budget, support::durations);
  if (!a.memory_limit.empty()) {
    o.objective.memory_limit =
        static_cast<cost_value>(support::parse_quantity("--memory-limit", a.memory_limit, support::memory_sizes));
  }
  if (!a.run.empty()) {
    support::check_backend(a.run, "--run");
  }
  resolve_cost(a);
  resolve_measuring(a);
}

rule_set load_rules(const tensor::algebra& operators, const arguments& a) {
  const auto shipped = std::string{tensor::standard_rules} + std::string{tensor::generated_rules};
  const auto text = a.rules.empty() ? shipped : read_file(a.rules);
  const auto rules = compile_rules(operators, parse_rules(text, a.rules.empty() ? "shipped rules" : a.rules));
  if (!a.rules.empty()) {
    tensor::check_rules(operators, rules, a.rules);
  }
  const auto known = static_cast<std::size_t>(std::count_if(
      rules.begin(), rules.end(), [&](const substitution& r) { return r.rule.known >= a.floor; }));
  if (known < rules.size()) {
    std::fprintf(stderr, "optimize: %zu of %zu rules are not known well enough and left out; see --floor\n",
                 rules.size() - known, rules.size());
  }
  return systems::select_rules(rules, a.floor, a.options.objective.mode);
}

std::size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

// Operators that run every time: in inference mode those that depend on weights alone do not.
std::size_t running_operators(const tensor::tensor_graph& g, tensor::mode m) {
  std::size_t count = 0;
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    const auto results = g.results(node_id{n});
    const bool precomputed = m == tensor::mode::inference && std::all_of(results.begin(), results.end(), [&](value_id v) {
      return g.type(v).constant;
    });
    count += !g.operands(node_id{n}).empty() && !precomputed ? 1 : 0;
  }
  return count;
}

// Of a search that measures.
struct measuring {
  std::string device;        // and library versions
  std::size_t measured = 0;  // what was not known from an earlier run
  std::size_t known = 0;
  double seconds = 0;
};

// Both graphs end to end on a backend, and what the sums of their measured operators said.
struct end_to_end {
  backend::run_comparison times;
  std::optional<picoseconds> predicted_before;
  std::optional<picoseconds> predicted_after;
};

struct outcome {
  io::onnx_model before;
  systems::taso_result found;
  tensor::equivalence_report check;
  std::optional<measuring> measured;
  std::optional<end_to_end> run;
};

void print(const arguments& a, const outcome& r) {
  const auto mode = a.options.objective.mode;
  std::printf("%-28s %14s %14s\n", a.model.c_str(), "before", "after");
  std::printf("%-28s %14zu %14zu\n", "operators", running_operators(r.before.graph, mode),
              running_operators(r.found.graph, mode));
  std::printf("%-28s %14.3f %14.3f   %.4f of before\n",
              ("time, us (" + (a.measured.empty() ? std::string{a.options.objective.device.name} : a.measured) + ")").c_str(),
              r.found.cost_before_s * 1e6, r.found.cost_after_s * 1e6, r.found.cost_after_s / r.found.cost_before_s);
  for (const auto& use : r.found.rules_used) {
    std::printf("  %4zu x %-40s %12.3f us\n", use.count, use.name.c_str(), -use.gain_s * 1e6);
  }
  std::printf("search: %llu expanded, %llu candidates, %.3f s (best after %.4f s), stopped: %s\n",
              static_cast<unsigned long long>(r.found.counts.expanded),
              static_cast<unsigned long long>(r.found.counts.candidates), r.found.seconds, r.found.seconds_to_best,
              std::string{to_string(r.found.stopped)}.c_str());
  for (const auto& name : r.before.opaque_operators) {
    std::printf("opaque: %s was kept as it is\n", name.c_str());
  }
  std::printf("equal: yes, largest relative error %.2g on %s\n", r.check.max_rel_error, r.check.sizes.c_str());
  if (r.measured) {
    std::printf("measured: %zu operators in %.1f s, %zu known, on %s\n", r.measured->measured, r.measured->seconds,
                r.measured->known, r.measured->device.c_str());
  }
  if (r.run) {
    const auto before = to_seconds(r.run->times.first.median);
    const auto after = to_seconds(r.run->times.second.median);
    std::printf("%-28s %14.3f %14.3f   %.4f of before, largest relative error %.2g\n", ("run, us (" + a.run + ")").c_str(),
                before * 1e6, after * 1e6, after / before, r.run->times.max_relative_error);
    if (r.run->predicted_before) {
      const auto first = to_seconds(*r.run->predicted_before);
      const auto second = to_seconds(*r.run->predicted_after);
      std::printf("%-28s %14.3f %14.3f   %.4f and %.4f of what was measured\n", "predicted, us", first * 1e6, second * 1e6,
                  first / before, second / after);
    }
  }
}

nlohmann::json to_json(const arguments& a, const end_to_end& run) {
  const auto before = to_seconds(run.times.first.median);
  const auto after = to_seconds(run.times.second.median);
  nlohmann::json all{{"backend", a.run},
                     {"original_s", before},
                     {"optimized_s", after},
                     {"ratio", before / after},
                     {"max_rel_error", run.times.max_relative_error},
                     {"runs", run.times.first.repetitions}};
  if (run.predicted_before) {
    all["predicted_original_s"] = to_seconds(*run.predicted_before);
    all["predicted_optimized_s"] = to_seconds(*run.predicted_after);
  }
  return all;
}

nlohmann::json to_json(const arguments& a, const outcome& r) {
  const auto& f = r.found;
  nlohmann::json rules = nlohmann::json::array();
  for (const auto& use : f.rules_used) {
    rules.push_back({{"name", use.name}, {"count", use.count}, {"gain_s", use.gain_s}});
  }
  nlohmann::json all{
          {"model", a.model},
          {"cost", a.cost},
          {"nodes_before", running_operators(r.before.graph, a.options.objective.mode)},
          {"nodes_after", running_operators(f.graph, a.options.objective.mode)},
          {"cost_before_s", f.cost_before_s},
          {"cost_after_s", f.cost_after_s},
          {"speedup", f.cost_after_s > 0 ? f.cost_before_s / f.cost_after_s : 1.0},
          {"rules_used", rules},
          {"search",
           {{"expanded", f.counts.expanded},
            {"candidates", f.counts.candidates},
            {"candidates_per_s", f.seconds > 0 ? static_cast<double>(f.counts.candidates) / f.seconds : 0.0},
            {"seconds", f.seconds},
            {"cpu_s", f.cpu_s},
            {"seconds_to_best", f.seconds_to_best},
            {"peak_rss_bytes", peak_rss_bytes()},
            {"stop_reason", to_string(f.stopped)}}},
          {"check", {{"passed", r.check.passed}, {"max_rel_error", r.check.max_rel_error}, {"sizes", r.check.sizes}}},
          {"opaque_ops", r.before.opaque_operators}};
  if (r.measured) {
    all["measuring"] = {{"device", r.measured->device},
                        {"measured", r.measured->measured},
                        {"known", r.measured->known},
                        {"seconds", r.measured->seconds}};
  }
  if (r.run) {
    all["run"] = to_json(a, *r.run);
  }
  return all;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed || !std::filesystem::is_directory(folder)) {
    throw error{folder.string(), "the folder cannot be made (" + failed.message() + ")", "a writable place"};
  }
}

std::string title(const char* what, double seconds) {
  return std::string{what} + ": " + std::to_string(seconds * 1e6) + " us";
}

// The optimized graph, and both side by side with what is new marked.
void draw(const tensor::algebra& operators, const outcome& r, const std::filesystem::path& folder) {
  io::dot_options before{.title = title("before", r.found.cost_before_s)};
  io::dot_options after{.title = title("after", r.found.cost_after_s),
                        .highlighted = {r.found.new_nodes.begin(), r.found.new_nodes.end()}};
  atomic_write(folder / "optimized.dot", io::to_dot(operators, r.found.graph, after));
  const auto both = io::to_dot(operators, r.before.graph, before, r.found.graph, after);
  atomic_write(folder / "before_after.dot", both);
  if (const auto problem = io::write_svg(folder / "before_after.svg", both)) {
    std::fprintf(stderr, "no picture: %s\n", problem->c_str());
  }
}

void write(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  if (!a.out.empty()) {
    const std::filesystem::path folder{a.out};
    make_folder(folder);
    auto after = r.before;
    after.graph = r.found.graph;
    io::export_options options;
    options.fold_constants = a.options.objective.mode == tensor::mode::inference;
    io::export_onnx(operators, after, folder / "optimized.onnx", options);
    draw(operators, r, folder);
  }
  if (!a.json.empty()) {
    atomic_write(a.json, to_json(a, r).dump(2) + "\n");
  }
}

// A failure in the middle takes back what was written before it.
void write_all_or_nothing(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  try {
    write(operators, a, r);
  } catch (const std::exception&) {
    for (const auto* name : {"optimized.onnx", "optimized.onnx.data", "optimized.dot", "before_after.dot", "before_after.svg"}) {
      std::error_code ignored;
      if (!a.out.empty()) {
        std::filesystem::remove(std::filesystem::path{a.out} / name, ignored);
      }
    }
    throw;
  }
}

bool show_progress(const progress& p) {
  std::fprintf(stderr, "\r%7.1f s  best %.3f us  %llu expanded  %llu candidates ", p.seconds, static_cast<double>(p.best) * 1e-6,
               static_cast<unsigned long long>(p.counts.expanded), static_cast<unsigned long long>(p.counts.candidates));
  return true;
}

// Throws: unity::error where the optimized graph computes something else.
void check(const tensor::algebra& operators, const arguments& a, outcome& r) {
  r.check = tensor::check_equivalence(operators, r.before.graph, r.found.graph,
                                      {.modular = !r.found.real_only,
                                       .seed = a.options.seed,
                                       // Exporters round constants such as sqrt(2) to float.
                                       .tolerance = r.found.real_only ? 1e-6 : 1e-9});
  if (!r.check.passed) {
    throw error{a.model, "the optimized graph differs: " + r.check.problem, "equal graphs; please report this"};
  }
}

// Throws: unity::error where the results differ by more than rounding explains.
template <class Backend>
backend::run_comparison run_both(Backend& backend, const tensor::algebra& operators, const arguments& a, const outcome& r) {
  backend::comparison_options options;
  options.run.seed = a.options.seed;
  options.run.data = support::model_values(operators, r.before, a.options.seed);
  const auto found = backend::compare_runs(backend, operators, r.before.graph, r.found.graph, options);
  double tolerance = 1e-4;
  for (const auto v : r.before.graph.outputs()) {
    tolerance = tensor::size_of(r.before.graph.type(v).element) < 4 ? 3e-2 : tolerance;
  }
  if (!(found.max_relative_error <= tolerance)) {
    throw error{a.model, "on " + a.run + " the outputs of the optimized graph differ by " + std::to_string(found.max_relative_error),
                "a relative error of at most " + std::to_string(tolerance)};
  }
  return found;
}

void warn(const std::string& line) { std::fprintf(stderr, "optimize: %s\n", line.c_str()); }

// A device_timer of any backend: the search is compiled once for all.
struct any_timer {
  std::function<measurement(const tensor::operation&, std::span<const tensor::tensor_type>, std::span<const tensor::tensor_type>)> ask;
  std::string about;

  [[nodiscard]] measurement time(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                 std::span<const tensor::tensor_type> outputs) const {
    return ask(op, inputs, outputs);
  }
  [[nodiscard]] std::string description() const { return about; }
};
using times = tensor::timing_cache<any_timer>;

// Measuring does not count as searching: a second run, which need not measure, finds the same.
systems::taso_result search_beside(times& cache, const tensor::algebra& operators, const rule_set& rules, const arguments& a,
                                   const outcome& r) {
  const tensor::measured_cost time{operators, cache, a.options.objective.mode};
  static_cast<void>(time.time(r.before.graph));  // says what cannot be run
  auto options = a.options;
  options.limits.seconds = std::numeric_limits<double>::infinity();
  options.watch = [&, before = cache.seconds()](const progress& p) {
    return (!a.options.watch || a.options.watch(p)) && p.seconds - (cache.seconds() - before) < a.options.limits.seconds;
  };
  auto found = systems::taso(operators, time, rules, r.before.graph, options);
  if (found.stopped == stop_reason::observer) {
    found.stopped = stop_reason::time;
  }
  return found;
}

// The search, its check and, on the same backend, the run.
template <class Backend>
void measure(Backend& backend, const tensor::algebra& operators, const rule_set& rules, const arguments& a, outcome& r) {
  support::warn_if_busy(warn);
  backend::device_timer device{backend};
  any_timer timer{[&](const auto& op, auto inputs, auto outputs) { return device.time(op, inputs, outputs); }, device.description()};
  times cache{operators, timer, support::timings_file(a.timings, timer.about, warn), warn};
  r.found = search_beside(cache, operators, rules, a, r);
  check(operators, a, r);
  if (a.run == a.measured) {
    r.run = {run_both(backend, operators, a, r), backend::predicted_time(operators, r.before.graph, device, cache),
             backend::predicted_time(operators, r.found.graph, device, cache)};
  }
  cache.save();
  r.measured = {timer.about, cache.measured(), cache.known(), cache.seconds()};
}

void run(arguments& a) {
  resolve(a);
  const auto operators = tensor::standard_algebra();
  const auto rules = load_rules(operators, a);
  outcome r{support::load_model(operators, a.model, a.dimensions), {}, {}, {}, {}};
  if (isatty(STDERR_FILENO) != 0) {
    a.options.watch = show_progress;
  }
  if (!a.run.empty()) {
    support::with_backend(a.run, operators, a.backend_threads,
                          [&](auto& backend) { backend::expect_kernels(backend, operators, r.before.graph); });
  }
  if (a.measured.empty()) {
    r.found = systems::taso(operators, rules, r.before.graph, a.options);
    check(operators, a, r);
  } else {
    support::with_backend(a.measured, operators, a.backend_threads,
                          [&](auto& backend) { measure(backend, operators, rules, a, r); });
  }
  if (a.options.watch) {
    std::fprintf(stderr, "\r%80s\r", "");
  }
  if (!a.run.empty() && !r.run) {
    support::with_backend(a.run, operators, a.backend_threads,
                          [&](auto& backend) { r.run = {run_both(backend, operators, a, r), {}, {}}; });
  }
  write_all_or_nothing(operators, a, r);
  print(a, r);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("optimize", "Rewrites a tensor graph into a cheaper equal one", argc, argv, declare, run);
}
