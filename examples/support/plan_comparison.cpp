#include "plan_comparison.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/synchronization_json.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/algebra.hpp>

namespace support {

namespace {

namespace io = unity::io;
namespace trace = unity::trace;

struct collective_row {
  std::string_view name;
  double recorded = 0;  // of an iteration, on all stages
  std::optional<std::size_t> planned{};
};

// Each exchange that was recorded or is planned.
std::vector<collective_row> rows_of(const plan_comparison& p, const trace::flow_graph& job) {
  const auto recorded = trace::collectives_per_rank(job);
  const std::array<std::pair<trace::exchange, std::size_t io::collective_counts::*>, 4> planned{
      {{trace::exchange::all_reduce, &io::collective_counts::all_reduce},
       {trace::exchange::all_gather, &io::collective_counts::all_gather},
       {trace::exchange::reduce_scatter, &io::collective_counts::reduce_scatter},
       {trace::exchange::all_to_all, &io::collective_counts::all_to_all}}};
  std::vector<collective_row> all;
  for (std::size_t way = 0; way < recorded.size(); ++way) {
    collective_row row{trace::exchange_names[way], recorded[way] * p.stages, {}};
    for (const auto& [exchange, count] : planned) {
      if (p.stated && static_cast<std::size_t>(exchange) == way) {
        row.planned = (*p.stated).*count;
      }
    }
    if (row.recorded > 0 || row.planned.value_or(0) > 0) {
      all.push_back(row);
    }
  }
  return all;
}

double seconds(unity::picoseconds t) { return unity::to_seconds(t); }

// Effects: sets the plan's collectives, or the reason why they are not known. text: the plan's file.
void count_collectives(const unity::tensor::algebra& operators, const unity::parallel::plan& plan,
                       const std::string& text, plan_comparison& all) {
  try {
    const auto modules = io::module_plan_of(operators, plan, io::parse_plan_notes(text, all.plan).mesh);
    all.stated = modules.forward;
    all.stated->all_reduce += modules.backward.all_reduce;
    all.stated->all_gather += modules.backward.all_gather;
    all.stated->reduce_scatter += modules.backward.reduce_scatter;
    all.stated->all_to_all += modules.backward.all_to_all;
    all.stages = static_cast<double>(modules.devices.size()) / static_cast<double>(modules.mesh.devices.size());
  } catch (const unity::error& e) {
    all.unstated = e.what();
  }
}

}  // namespace

void declare(CLI::App& app, plan_flags& f) {
  app.add_option("--plan", f.plan,
                 "plan that the job ran, on PyTorch or by `train`: also simulate it, and print the simulated iteration "
                 "beside the replayed one");
  declare(app, f.timing);
}

void check(const plan_flags& f) {
  static_cast<void>(measured_backend(f.timing));
  if (f.plan.empty() && f.timing.cost != timing_flags{}.cost) {
    throw unity::error{"--cost", "given, but nothing is simulated", "--plan besides"};
  }
}

plan_comparison compare_plan(const plan_flags& f, trace::job_trace& job) {
  const auto operators = unity::tensor::training_algebra();
  const auto text = unity::read_file(f.plan);
  const auto plan = io::parse_plan(operators, text, f.plan);
  const auto ranks = std::max<std::size_t>(job.ranks.size(), static_cast<std::size_t>(job.ranks.front().world_size));
  if (const auto devices = io::replicas_of(plan).size(); devices != ranks) {
    throw unity::error{f.plan, fmt::format("a plan for {} devices, and traces of a job of {} ranks", devices, ranks),
                       "the plan that the job ran"};
  }
  plan_comparison all;
  all.plan = f.plan;
  all.machine = plan.machine.name;
  count_collectives(operators, plan, text, all);
  with_durations(f.timing, operators, plan.machine, "replay", [&](const unity::tensor::durations& durations) {
    const auto program = unity::parallel::lower(operators, plan, durations);
    unity::simulate::full_simulation simulation;
    all.iteration = simulation.run(program);
    all.simulated = trace::to_flow_graph(program, simulation.times(), job.names);
  });
  return all;
}

std::string to_text(const plan_comparison& p, const trace::flow_graph& job, const trace::replayed_iteration& replayed) {
  const auto ms = [](unity::picoseconds t) { return seconds(t) * 1e3; };
  auto text = fmt::format("\n{:<34} {:>12} {:>14}\n", "beside the plan", "replayed, ms", "simulated, ms");
  const auto row = [&](const std::string& name, unity::picoseconds one, unity::picoseconds other) {
    if (one > unity::picoseconds{} || other > unity::picoseconds{}) {
      text += fmt::format("{:<34} {:12.3f} {:14.3f}\n", name, ms(one), ms(other));
    }
  };
  const auto found = trace::work_of(job, replayed.times);
  const auto simulated = trace::work_of(p.simulated.graph, p.simulated.times);
  row("iteration", replayed.iteration, p.iteration);
  for (std::size_t part = 0; part < trace::phase_names.size(); ++part) {
    row(fmt::format("computing, {}", trace::phase_names[part]), found.computing[part], simulated.computing[part]);
  }
  row("between operators", found.between, simulated.between);
  row("data on their way", found.communicating, simulated.communicating);
  text += fmt::format("simulated: {} on {}; computing: the mean of ranks\n", p.plan, p.machine);
  text += fmt::format("{:<34} {:>12} {:>14}\n", "collectives", "recorded", "of the plan");
  for (const auto& c : rows_of(p, job)) {
    text += fmt::format("{:<34} {:12.4g} {:>14}\n", c.name, c.recorded, c.planned ? std::to_string(*c.planned) : "-");
  }
  if (!p.stated) {
    text += fmt::format("the plan's collectives are not counted: {}\n", p.unstated);
  }
  return text;
}

nlohmann::json to_json(const plan_comparison& p, const trace::flow_graph& job,
                       const trace::replayed_iteration& replayed) {
  const auto found = trace::work_of(job, replayed.times);
  const auto simulated = trace::work_of(p.simulated.graph, p.simulated.times);
  const auto work = [](unity::picoseconds iteration, const trace::iteration_work& w) {
    nlohmann::json computing;
    for (std::size_t part = 0; part < trace::phase_names.size(); ++part) {
      computing[std::string{trace::phase_names[part]}] = seconds(w.computing[part]);
    }
    return nlohmann::json{{"iteration_s", seconds(iteration)},
                          {"computing_s", std::move(computing)},
                          {"between_s", seconds(w.between)},
                          {"communicating_s", seconds(w.communicating)}};
  };
  auto collectives = nlohmann::json::array();
  for (const auto& c : rows_of(p, job)) {
    collectives.push_back({{"kind", c.name},
                           {"recorded", c.recorded},
                           {"planned", c.planned ? nlohmann::json(*c.planned) : nlohmann::json(nullptr)}});
  }
  return {{"plan", p.plan},
          {"machine", p.machine},
          {"replayed", work(replayed.iteration, found)},
          {"simulated", work(p.iteration, simulated)},
          {"collectives", std::move(collectives)}};
}

}  // namespace support
