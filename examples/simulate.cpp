// One training iteration of a plan, simulated: how long it takes and why, who is busy, what is moved and held.
//
// run: {source}/examples/plans/lenet_p100.json --json {out}/result.json --trace {out}/trace.json --svg {out}/plan.svg
// run: zoo:gpt?layers=4&vocab=51200 --machine dgx_a100_80:2x4 --plan megatron:t=2,p=2,d=2,micro=1,batch=16,sp,zero=1 --element bfloat16 --optimizer adam --json {out}/stated.json
// run: zoo:gpt?layers=4&vocab=51200 --machine dgx_a100_80:1x4 --plan megatron:search,batch=8 --element bfloat16 --optimizer adam --json {out}/searched.json --report {out}/searched.html

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/algorithm/stable_sort.hpp>
#include <range/v3/numeric/accumulate.hpp>
#include <range/v3/range/conversion.hpp>
#include <range/v3/view/indices.hpp>
#include <range/v3/view/take.hpp>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/io/chrome_trace.hpp>
#include <unity/io/html_report.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_svg.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/next_iteration.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/strategies/memory_limits.hpp>
#include <unity/parallel/strategies/statement_space.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/iterations.hpp>
#include <unity/simulate/launches.hpp>
#include <unity/simulate/list_scheduling.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/offloaded_values.hpp>
#include <unity/train/training_plan.hpp>
#include <unity/train/value_places.hpp>

#include "support/backends.hpp"
#include "support/machines.hpp"
#include "support/operation_times.hpp"
#include "support/outputs.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/recomputation_flag.hpp"
#include "support/statement_run.hpp"
#include "support/statement_search_run.hpp"
#include "support/synchronization_flag.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string plan{};
  support::statement_flags stated{};
  support::timing_flags timing{};
  std::string sync{};
  support::memory_flags memory{};
  std::string schedule = "fifo";
  std::string launch{};
  bool steady = false;
  std::string ranks{};  // a backend
  std::string json{};
  std::string trace{};
  std::string svg{};
  std::string report{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("PLAN", a.plan, "a plan's .json file: graph, machine and strategy; or, with --plan, a model")
      ->required();
  support::declare(app, a.stated);
  support::declare(app, a.timing);
  support::declare_sync(app, a.sync);
  support::declare(app, a.memory);
  support::declare_offloading(app, a.memory);
  app.add_option("--schedule", a.schedule,
                 "which ready task a free device or link runs first: fifo, the one that was ready first; kind, forward "
                 "before backward before messages; order, front layers; path, the longest remaining path")
      ->check(CLI::IsMember({"fifo", "kind", "order", "path"}))
      ->capture_default_str();
  auto* const launch =
      app.add_option("--launch", a.launch,
                     "simulate a host thread per device that launches one operator after another, each in this time "
                     "(6us), instead of the launch overhead of the device model");
  app.add_flag("--steady", a.steady, "also simulate overlapping iterations until they are steady")->excludes(launch);
  app.add_option("--ranks", a.ranks,
                 "also compute what each rank of `train` holds on this backend, with the loss cross_entropy: " +
                     support::backend_list());
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--trace", a.trace, "file for a trace for Perfetto or chrome://tracing");
  app.add_option("--svg", a.svg, "file for a picture of the operators, divided and coloured by devices");
  app.add_option("--report", a.report, "file for an HTML report: timeline, memory, critical path, divisions");
}

struct outcome {
  parallel::plan plan;
  tasks::program program;
  std::vector<simulate::task_times> times;
  simulate::timeline line;
  std::vector<bytes> over;  // by device: more than it has
  std::optional<simulate::steady_iteration> steady;
  std::vector<bytes> held;                                      // by device, with --ranks
  fingerprint durations{};                                      // of what operators' times come from
  std::optional<std::pair<picoseconds, picoseconds>> interval;  // where those have one
};

template <class Simulation>
std::vector<simulate::task_times> times_by(Simulation simulation, const tasks::program& p) {
  simulation.run(p);
  return {simulation.times().begin(), simulation.times().end()};
}
std::vector<simulate::task_times> times_of(const tasks::program& p, const std::string& schedule) {
  return schedule == "kind"    ? times_by(simulate::list_simulation<simulate::by_kind>{}, p)
         : schedule == "order" ? times_by(simulate::list_simulation<simulate::by_order>{}, p)
         : schedule == "path"  ? times_by(simulate::list_simulation{simulate::by_path{p}}, p)
                               : times_by(simulate::full_simulation{}, p);
}

// Of --launch.
std::optional<picoseconds> launch_time(const arguments& a) {
  if (a.launch.empty()) {
    return std::nullopt;
  }
  if (!support::measured_backend(a.timing).empty()) {
    throw error{"--launch", "given, but measured times have launches in them", "--cost analytic"};
  }
  const auto seconds = support::parse_quantity("--launch", a.launch, support::durations);
  if (seconds > 1) {
    throw error{"--launch", fmt::format("'{}'", a.launch), "a second at most"};
  }
  return from_seconds(seconds);
}

// An iteration whose operators and exchanges all take the least, and the most, that is expected of them.
std::pair<picoseconds, picoseconds> interval_of(const tensor::algebra& operators, const arguments& a,
                                                const parallel::plan& plan, const tensor::durations& durations) {
  const auto takes = [&](picoseconds duration::* end, double hardware::cost_interval::* of_exchanges) {
    auto at = plan;
    at.machine = hardware::machine_at(std::move(at.machine), of_exchanges);
    const auto program = parallel::lower(operators, at, durations_at{durations, end});
    return simulate::summarize(program, times_of(program, a.schedule)).iteration;
  };
  return std::minmax({takes(&duration::low, &hardware::cost_interval::low),
                      takes(&duration::high, &hardware::cost_interval::high)});
}

std::vector<bytes> held_by_ranks(const tensor::algebra& operators, const parallel::plan& p, const std::string& on) {
  const auto trained = train::with_loss(operators, p, tensor::loss::cross_entropy);
  std::vector<bytes> all;
  const auto threads =  // as `train` has on this machine
      static_cast<int>(std::thread::hardware_concurrency() /
                       std::max<std::size_t>(p.machine.network.device_count(), 1));
  support::with_backend(on, operators, std::max(threads, 1), [&](auto& b) {
    for (const auto& each : parallel::programs_of_ranks(operators, trained).ranks) {
      const auto rank = train::with_offloaded_values(operators, each, trained.offloaded);
      all.push_back(train::memory_of_rank(operators, rank, p.updates, train::workspaces_of(b, operators, rank)).sum());
    }
  });
  return all;
}

outcome simulated(const tensor::algebra& operators, const arguments& a) {
  static_cast<void>(support::check_sync(a.sync));
  if (!a.ranks.empty()) {
    support::check_backend(a.ranks, "--ranks");
  }
  outcome r{io::read_plan(operators, a.plan), {}, {}, {}, {}, {}, {}, {}, {}};
  support::apply(a.memory, operators, r.plan);
  support::apply_sync(a.sync, operators, r.plan);
  const auto launch = launch_time(a);
  auto timing = a.timing;
  timing.has_launches = !launch;
  support::with_durations(timing, operators, r.plan.machine, "simulate", [&](const tensor::durations& durations) {
    r.program = parallel::lower(operators, r.plan, durations);
    r.durations = durations.version();
    if (!support::measured_backend(a.timing).empty()) {
      r.interval = interval_of(operators, a, r.plan, durations);
    }
  });
  if (launch) {
    r.program = simulate::with_launches(r.program, *launch);
  }
  r.times = times_of(r.program, a.schedule);
  if (a.steady) {
    if (r.plan.pipeline.is_delayed) {
      throw error{a.plan, "--steady with updates that are delayed", "a plan that updates after each iteration"};
    }
    r.steady = simulate::run_until_steady(r.program, parallel::carried_dependencies(operators, r.plan, r.program), 64,
                                          [&](const tasks::program& some) { return times_of(some, a.schedule); });
  }
  if (!a.ranks.empty()) {
    r.held = held_by_ranks(operators, r.plan, a.ranks);
  }
  r.line = simulate::summarize(r.program, r.times);
  if (r.interval) {  // an order of tasks can be worse where they are faster
    r.interval = std::minmax({r.line.iteration, r.interval->first, r.interval->second});
  }
  std::vector<bytes> peaks;
  for (const auto& m : r.line.memory) {
    peaks.push_back(m.peak);
  }
  r.over.resize(peaks.size());
  for (const auto& e : parallel::excess_over(parallel::memory_limits(r.plan.machine), peaks)) {
    r.over[e.device] = e.over;
  }
  return r;
}

// "conv2d 3 backward 1 on n0/gpu0"
std::string name_of(const outcome& r, tasks::task_id t) {
  const auto& task = r.program[t];
  return fmt::format("{} {} {} on {}", r.program.owner_of(r.program.where(t).fragment).name,
                     r.program.name_of(task.kind), task.shard,
                     task.resource.valid() ? r.program.resources()[task.resource.index()].name : "no resource");
}
// Of a step of the critical path.
std::string waited_for(const outcome& r, const simulate::critical_step& step) {
  switch (step.reason) {
    case simulate::wait_reason::dependency: return fmt::format("dependency: {}", name_of(r, step.cause));
    case simulate::wait_reason::resource: return fmt::format("resource: {}", name_of(r, step.cause));
    case simulate::wait_reason::nothing: break;
  }
  return "nothing";
}

std::size_t device_count(const outcome& r) { return r.plan.machine.network.device_count(); }
std::vector<std::size_t> links_of(const outcome& r) {
  std::vector<std::size_t> all(r.plan.machine.network.resource_count());
  std::iota(all.begin(), all.end(), device_count(r));
  return all;
}
// The busiest first.
void sort_by_use(const outcome& r, std::vector<std::size_t>& resources) {
  std::sort(resources.begin(), resources.end(), [&](std::size_t a, std::size_t b) {
    const auto& uses = r.line.resources;
    return uses[a].busy != uses[b].busy ? uses[a].busy > uses[b].busy : a < b;
  });
}

double percent(picoseconds part, picoseconds whole) {
  return whole.count() == 0 ? 0 : 100 * static_cast<double>(part.count()) / static_cast<double>(whole.count());
}
double milliseconds(picoseconds t) { return to_seconds(t) * 1e3; }
double megabytes(bytes b) { return static_cast<double>(b.count()) * 1e-6; }

void print_devices(const outcome& r) {
  constexpr std::size_t most = 16;
  std::vector<std::size_t> shown(device_count(r));
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() > most) {
    sort_by_use(r, shown);
    shown.resize(most);
  }
  fmt::print("\n{:<24} {:>12} {:>8} {:>14}\n", device_count(r) > most ? "busiest devices" : "device", "busy, ms",
             "busy, %", "peak, MB");
  for (const auto d : shown) {
    const auto& use = r.line.resources[d];
    fmt::print("{:<24} {:12.3f} {:8.1f} {:14.3f}\n", r.program.resources()[d].name, milliseconds(use.busy),
               percent(use.busy, r.line.iteration), megabytes(r.line.memory[d].peak));
  }
  if (!r.held.empty()) {
    fmt::print("a rank that trains it holds {:.3f} MB at most\n",
               megabytes(*std::max_element(r.held.begin(), r.held.end())));
  }
  const auto busy = ranges::accumulate(r.line.resources | ranges::views::take(device_count(r)), picoseconds{}, {},
                                       [](const auto& use) { return use.busy; });
  fmt::print("{} devices are busy {:.1f}% of the time\n", device_count(r),
             percent(busy, r.line.iteration) / static_cast<double>(device_count(r)));
  for (std::size_t d = 0; d < device_count(r); ++d) {
    if (r.over[d] > bytes{}) {
      fmt::print("out of memory: {} needs {} bytes more than its {}\n", r.program.resources()[d].name,
                 r.over[d].count(), hardware::model_of(r.plan.machine, hardware::device_id{d}).memory.count());
    }
  }
}

void print_links(const outcome& r) {
  constexpr std::size_t most = 8;
  auto shown = links_of(r);
  sort_by_use(r, shown);
  fmt::print("\n{:<40} {:>12} {:>8} {:>14}\n", "busiest links", "busy, ms", "busy, %", "moved, MB");
  for (const auto link : shown | ranges::views::take(most)) {
    const auto& use = r.line.resources[link];
    if (use.busy == picoseconds{}) {
      break;  // they are sorted: those behind it are idle, too
    }
    fmt::print("{:<40} {:12.3f} {:8.1f} {:14.3f}\n", r.program.resources()[link].name, milliseconds(use.busy),
               percent(use.busy, r.line.iteration), megabytes(use.moved));
  }
  fmt::print("messages of {:.3f} MB, {:.3f} MB over all their links\n", megabytes(parallel::message_bytes(r.program)),
             megabytes(r.line.communicated));
}

std::string_view name_of(simulate::wait_reason w) {
  return w == simulate::wait_reason::dependency ? "dependency"
         : w == simulate::wait_reason::resource ? "resource"
                                                : "nothing";
}

void print_critical_path(const outcome& r) {
  fmt::print("\n{:<24} {:<12} {:>8} {:>12} {:>8}\n", "critical path", "waited for", "steps", "ms", "%");
  for (const auto& share : simulate::path_shares(r.program, r.line.critical_path, r.times)) {
    fmt::print("{:<24} {:<12} {:8} {:12.3f} {:8.1f}\n", r.program.name_of(share.kind), name_of(share.reason),
               share.steps, milliseconds(share.time), percent(share.time, r.line.iteration));
  }
  constexpr std::size_t most = 8;
  const auto taken = simulate::step_times(r.line.critical_path, r.times);
  auto longest = ranges::views::indices(taken.size()) | ranges::to<std::vector>();
  ranges::stable_sort(longest, ranges::greater{}, [&](std::size_t step) { return taken[step]; });
  fmt::print("its longest steps\n");
  for (const auto k : longest | ranges::views::take(most)) {
    const auto& step = r.line.critical_path[k];
    fmt::print("{:12.3f} ms  {}; waited for {}\n", milliseconds(taken[k]), name_of(r, step.task), waited_for(r, step));
  }
}

void print(const arguments& a, const outcome& r) {
  fmt::print("{} on {}: an iteration takes {:.6f} ms, {} tasks\n", a.plan, r.plan.machine.name,
             milliseconds(r.line.iteration), r.line.tasks);
  if (r.interval && r.interval->first != r.interval->second) {
    fmt::print("where operators and exchanges are as fast, or as slow, as four of five measured ones: {:.6f} to "
               "{:.6f} ms\n",
               milliseconds(r.interval->first), milliseconds(r.interval->second));
  }
  if (r.steady) {
    fmt::print("among others it takes {:.6f} ms{}\n", milliseconds(r.steady->time),
               r.steady->is_steady ? fmt::format(", from iteration {} on", r.steady->before + 1)
                                   : ", on average: they do not fall into step");
  }
  support::print_assumed(r.plan.machine);
  if (r.plan.pipeline.is_delayed) {
    fmt::print("its updates are delayed; this is one iteration alone, which is flushed: ");
    fmt::print("`train` tells what one takes without a flush\n");
  }
  print_devices(r);
  print_links(r);
  print_critical_path(r);
}

nlohmann::json to_json(const outcome& r) {
  auto path = nlohmann::json::array();
  for (const auto& step : r.line.critical_path) {
    const auto& times = r.times[step.task.index()];
    path.push_back({{"task", name_of(r, step.task)},
                    {"start_s", to_seconds(picoseconds{times.start})},
                    {"end_s", to_seconds(picoseconds{times.end})},
                    {"waited_for", waited_for(r, step)}});
  }
  auto devices = nlohmann::json::array();
  for (std::size_t d = 0; d < device_count(r); ++d) {
    devices.push_back({{"name", r.program.resources()[d].name},
                       {"busy_s", to_seconds(r.line.resources[d].busy)},
                       {"utilization", percent(r.line.resources[d].busy, r.line.iteration) / 100},
                       {"peak_bytes", r.line.memory[d].peak.count()},
                       {"memory_bytes", hardware::model_of(r.plan.machine, hardware::device_id{d}).memory.count()},
                       {"bytes_over", r.over[d].count()}});
    if (!r.held.empty()) {
      devices.back()["held_bytes"] = r.held[d].count();
    }
  }
  auto links = nlohmann::json::array();
  for (const auto l : links_of(r)) {
    const auto& use = r.line.resources[l];
    links.push_back({{"name", r.program.resources()[l].name},
                     {"busy_s", to_seconds(use.busy)},
                     {"utilization", percent(use.busy, r.line.iteration) / 100},
                     {"bytes", use.moved.count()},
                     {"tasks", use.tasks}});
  }
  nlohmann::json all{{"iteration_s", to_seconds(r.line.iteration)},
                     {"durations", fmt::format("{}", r.durations)},
                     {"tasks", r.line.tasks},
                     {"critical_path", std::move(path)},
                     {"devices", std::move(devices)},
                     {"links", std::move(links)}};
  if (r.interval) {
    all["interval_s"] = {to_seconds(r.interval->first), to_seconds(r.interval->second)};
  }
  if (r.steady) {
    all["steady"] = {{"iteration_s", to_seconds(r.steady->time)},
                     {"is_steady", r.steady->is_steady},
                     {"iterations_before", r.steady->before}};
  }
  return all;
}

std::string to_report(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  io::html_report page{fmt::format("{} on {}", a.plan, r.plan.machine.name)};
  io::add_simulation(page, r.program, r.times);
  page.heading("Critical path");
  page.paragraph("What the iteration waits for, from its begin to its end, by kinds of tasks.");
  std::vector<std::vector<std::string>> rows;
  for (const auto& share : simulate::path_shares(r.program, r.line.critical_path, r.times)) {
    rows.push_back({r.program.name_of(share.kind), std::string{name_of(share.reason)}, fmt::format("{}", share.steps),
                    fmt::format("{:.3f}", milliseconds(share.time)),
                    fmt::format("{:.1f}", percent(share.time, r.line.iteration))});
  }
  page.table(std::vector<std::string>{"tasks", "waited for", "steps", "ms", "%"}, rows);
  page.heading("Divisions");
  page.paragraph("Operators, divided as the plan says and coloured by devices.");
  page.picture(io::to_strategy_svg(operators, r.plan, a.plan), "operators, divided and coloured by devices");
  return page.text();
}

// All texts come first.
void write(const tensor::algebra& operators, const arguments& a, const outcome& r) {
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", to_json(r).dump(2))});
  }
  if (!a.trace.empty()) {
    files.push_back({a.trace, io::to_chrome_trace(r.program, r.times)});
  }
  if (!a.svg.empty()) {
    files.push_back({a.svg, io::to_strategy_svg(operators, r.plan, a.plan)});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, to_report(operators, a, r)});
  }
  support::write_all(files);
}

// Flags of plan files do not go with a statement, which says what they say.
void expect_statement_alone(const arguments& a) {
  const auto refuse = [](bool is_given, const char* flag) {
    if (is_given) {
      throw error{"--plan", fmt::format("{} besides", flag), "a statement alone"};
    }
  };
  refuse(!a.sync.empty(), "--sync");
  refuse(!a.memory.recompute.empty(), "--recompute");
  refuse(!a.memory.offload.empty(), "--offload-results");
  refuse(a.memory.microbatches != 1, "--microbatches");
  refuse(a.schedule != "fifo", "--schedule");
  refuse(!a.launch.empty(), "--launch");
  refuse(a.steady, "--steady");
  refuse(!a.ranks.empty(), "--ranks");
  refuse(!a.svg.empty(), "--svg");
}

void run(const arguments& a) {
  for (const auto& path : {a.json, a.trace, a.svg, a.report}) {
    support::expect_writable(path);
  }
  const auto operators = tensor::training_algebra();
  if (!a.stated.plan.empty()) {
    expect_statement_alone(a);
    const support::statement_files files{a.json, a.trace, a.report};
    if (parallel::is_statement_search(a.stated.plan)) {
      support::run_statement_search(operators, a.plan, a.stated, a.timing, files);
    } else {
      support::run_statement(operators, a.plan, a.stated, a.timing, files);
    }
    return;
  }
  const auto r = simulated(operators, a);
  write(operators, a, r);
  print(a, r);
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("simulate", "Simulates a training iteration of a plan", argc, argv, declare,
                                         run);
}
