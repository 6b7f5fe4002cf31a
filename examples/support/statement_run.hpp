// A plan statement's iteration of a model, simulated.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/io/chrome_trace.hpp>
#include <unity/io/html_report.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/strategies/layer_work.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/statement_loss.hpp>
#include <unity/parallel/strategies/statement_program.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/zoo.hpp>

#include "machines.hpp"
#include "operation_times.hpp"
#include "outputs.hpp"

namespace support {

struct statement_flags {
  std::string plan{};  // empty: none is stated
  std::string machine{};
  unity::parallel::optimizer optimizer = unity::parallel::optimizer::sgd;
  unity::tensor::dtype element = unity::tensor::dtype::float32;
  std::string budget{};  // of a search
};

// The files of results; empty: none.
struct statement_files {
  std::string json{};
  std::string trace{};
  std::string report{};
};

inline void declare(CLI::App& app, statement_flags& f) {
  using namespace unity;
  auto* const plan = app.add_option("--plan", f.plan,
                                    "PLAN is a transformer of the zoo (zoo:gpt?...), trained so: "
                                    "megatron:t=,p=,d=,micro=,batch=,interleave=,first=,last=,sp,zero=,overlap,"
                                    "recompute=; batch: samples of an iteration on all devices; or by the fastest "
                                    "that fits, of those with the given values: megatron:search,batch=");
  auto* const machine = app.add_option("--machine", f.machine, "with --plan: " + machine_help())->needs(plan);
  plan->needs(machine);
  app.add_option_function<std::string>(
         "--optimizer", [&f](const std::string& name) { f.optimizer = *parallel::find_optimizer(name); },
         "with --plan: what is kept for each weight: sgd (nothing), momentum, adam")
      ->needs(plan)
      ->check(
          CLI::IsMember(std::vector<std::string>{parallel::optimizer_names.begin(), parallel::optimizer_names.end()}));
  app.add_option_function<std::string>(
         "--element", [&f](const std::string& name) { f.element = *tensor::find_dtype(name); },
         "with --plan: type that replaces float32 in the model")
      ->needs(plan)
      ->check(CLI::IsMember({"float32", "float16", "bfloat16"}));
  app.add_option("--budget", f.budget, "with --plan megatron:search: its time limit: 30s, 5m; default: 60s")
      ->needs(plan);
}

struct statement_run {
  unity::parallel::plan_statement statement{};
  unity::hardware::machine machine{};
  unity::parallel::statement_program program{};
  std::vector<unity::simulate::task_times> times{};
  unity::picoseconds iteration{};
  std::pair<unity::picoseconds, unity::picoseconds> interval{};
  unity::parallel::time_breakdown breakdown{};
  std::vector<unity::bytes> peaks{};  // of a device of each stage
  unity::fingerprint durations{};
};

// The model with its loss, on one micro-batch instead of the batch in its name. With the given number of layers, if it
// has this key and the number is not 0.
inline unity::tensor::tensor_graph microbatch_of(const unity::tensor::algebra& operators, const std::string& model,
                                                 std::int64_t micro, unity::tensor::dtype element,
                                                 std::uint32_t layers = 0) {
  using namespace unity;
  if (!tensor::zoo::is_name(model)) {
    throw error{model, "no model of the zoo", "zoo:NAME[?key=value&...] with --plan"};
  }
  auto r = tensor::zoo::parse(model);
  if (r.values.batch != tensor::zoo::sizes::absent) {
    r.values.batch = micro;
  }
  if (layers > 0 && r.values.layers != tensor::zoo::sizes::absent) {
    r.values.layers = layers;
  }
  auto g = r.chosen->build(operators, r.values);
  return parallel::with_wide_loss(operators, element == tensor::dtype::float32
                                                 ? g
                                                 : tensor::converted(operators, g, tensor::dtype::float32, element));
}

// Throws: unity::error if statement, model and machine do not fit together.
inline statement_run simulated_statement(const unity::tensor::algebra& operators, const std::string& model,
                                         const statement_flags& f, const timing_flags& timing) {
  using namespace unity;
  statement_run r;
  r.statement = parallel::parse_plan_statement(f.plan);
  r.machine = load_machine(f.machine);
  check(r.statement, r.machine.network.device_count());
  const auto graph = microbatch_of(operators, model, r.statement.micro, f.element);
  simulate::full_simulation run;
  const auto model_number = r.machine.network[hardware::device_id{std::size_t{0}}].model;
  const auto work = [&](const tensor::durations& all) {
    return parallel::work_of(operators, graph, r.statement, all, model_number);
  };
  const auto simulated = [&](const hardware::machine& on, const parallel::transformer_work& w,
                             const tensor::durations& all) {
    const parallel::task_times times{operators, all, f.optimizer};
    r.program = parallel::program_of(r.statement, on, w, times);
    return run.run(r.program.program);
  };
  with_durations(timing, operators, r.machine, "simulate", [&](const tensor::durations& all) {
    const auto expected = work(all);
    const auto at = [&](picoseconds duration::* end, double hardware::cost_interval::* of_exchanges) {
      const tensor::durations there = durations_at{all, end};
      const auto machine = hardware::machine_at(r.machine, of_exchanges);
      const auto w = work(there);
      return w == expected && machine == r.machine ? std::optional<picoseconds>{} : simulated(machine, w, there);
    };
    const auto low = at(&duration::low, &hardware::cost_interval::low);
    const auto high = at(&duration::high, &hardware::cost_interval::high);
    r.iteration = simulated(r.machine, expected, all);
    r.interval = std::minmax({r.iteration, low.value_or(r.iteration), high.value_or(r.iteration)});
    r.durations = all.version();
  });
  r.times.assign(run.times().begin(), run.times().end());
  r.breakdown = parallel::breakdown_of(r.program, r.times);
  for (const auto& m : simulate::memory_profiles(r.program.program, r.times)) {
    r.peaks.push_back(m.peak);
  }
  return r;
}

inline nlohmann::json to_json(const statement_run& r, const std::string& model) {
  using unity::to_seconds;
  auto stages = nlohmann::json::array();
  for (std::size_t k = 0; k < r.peaks.size(); ++k) {
    const auto has = unity::hardware::model_of(r.machine, r.program.devices[k]).memory;
    stages.push_back({{"device", r.machine.network[r.program.devices[k]].name},
                      {"peak_bytes", r.peaks[k].count()},
                      {"memory_bytes", has.count()},
                      {"bytes_over", has.count() > 0 ? std::max<std::int64_t>(0, (r.peaks[k] - has).count()) : 0}});
  }
  const auto& b = r.breakdown;
  return {{"model", model},
          {"machine", r.machine.name},
          {"plan", to_string(r.statement)},
          {"iteration_s", to_seconds(r.iteration)},
          {"interval_s", {to_seconds(r.interval.first), to_seconds(r.interval.second)}},
          {"memory_peak_bytes", std::max_element(r.peaks.begin(), r.peaks.end())->count()},
          {"breakdown_s",
           {{"compute", b.compute},
            {"bubble", b.bubble},
            {"communication", b.communication},
            {"optimizer", b.optimizer},
            {"recompute", b.recompute}}},
          {"stages", std::move(stages)},
          {"tasks", r.program.program.task_count()},
          {"durations", fmt::format("{}", r.durations)}};
}

inline void print(const statement_run& r, const std::string& model) {
  const auto& b = r.breakdown;
  const auto [low, high] = r.interval;
  fmt::print("{} on {}, {}: an iteration takes {:.6f} s{}\n", model, r.machine.name, to_string(r.statement),
             unity::to_seconds(r.iteration),
             low == high ? "" : fmt::format(" ({:.6f} to {:.6f})", unity::to_seconds(low), unity::to_seconds(high)));
  print_assumed(r.machine);
  fmt::print(
      "of a device, on average: compute {:.3f} s, recompute {:.3f}, communication {:.3f}, optimizer {:.3f}, "
      "bubble {:.3f}\n",
      b.compute, b.recompute, b.communication, b.optimizer, b.bubble);
  for (std::size_t k = 0; k < r.peaks.size(); ++k) {
    const auto has = unity::hardware::model_of(r.machine, r.program.devices[k]).memory;
    const bool is_over = has > unity::bytes{} && r.peaks[k] > has;
    fmt::print("stage {:3}: {:.3f} GB{}\n", k, static_cast<double>(r.peaks[k].count()) * 1e-9,
               is_over ? ", more than it has" : "");
  }
}

// add: adds further parts to the report; (unity::io::html_report&) -> void.
template <class F>
void write(const statement_run& r, const std::string& model, const nlohmann::json& json, const statement_files& names,
           const F& add) {
  std::vector<output> files;
  if (!names.json.empty()) {
    files.push_back({names.json, json.dump(2) + "\n"});
  }
  if (!names.trace.empty()) {
    files.push_back({names.trace, unity::io::to_chrome_trace(r.program.program, r.times)});
  }
  if (!names.report.empty()) {
    unity::io::html_report page{fmt::format("{} on {}", model, r.machine.name)};
    page.paragraph(fmt::format("{}: an iteration takes {:.6f} s, simulated.", to_string(r.statement),
                               unity::to_seconds(r.iteration)));
    add(page);
    unity::io::add_simulation(page, r.program.program, r.times);
    files.push_back({names.report, page.text()});
  }
  write_all(files);
}

inline void run_statement(const unity::tensor::algebra& operators, const std::string& model, const statement_flags& f,
                          const timing_flags& timing, const statement_files& names) {
  if (!f.budget.empty()) {
    throw unity::error{"--budget", "given, but nothing is searched", "--plan megatron:search,batch=.."};
  }
  const auto r = simulated_statement(operators, model, f, timing);
  write(r, model, to_json(r, model), names, [](unity::io::html_report&) {});
  print(r, model);
}

}  // namespace support
