// Replays the traces of a training job: shows where its time goes, and what would make it faster.
//
// run: {source}/examples/traces/planned_2.tar.gz --plan {source}/examples/traces/planned_2.json --json {out}/result.json --report {out}/report.html
// run: {source}/examples/traces/ddp_2.tar.gz --what-if bandwidth=2,bucket=1MB --json {out}/result.json --trace {out}/trace.json --report {out}/report.html

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/flow_timeline.hpp>
#include <unity/io/trace_files.hpp>
#include <unity/trace/eigen_alignment.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "support/job_optimizer.hpp"
#include "support/outputs.hpp"
#include "support/plan_comparison.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/replay_report.hpp"
#include "support/what_if_flag.hpp"

namespace {

using namespace unity;

struct arguments {
  std::vector<std::filesystem::path> files{};
  std::string clocks = "aligned";
  std::string link{};
  std::string what_if{};
  std::string json{};
  std::string trace{};
  std::string report{};
  support::plan_flags plan{};
  support::optimizer_flags optimizer{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("FILE", a.files,
                 "traces of one job from PyTorch's profiler, `train`, dPRO or Chakra: .json files, compressed files or "
                 "archives")
      ->required();
  app.add_option("--clocks", a.clocks,
                 "aligned: correct the clocks of ranks by the messages between them; stated: trust them")
      ->check(CLI::IsMember({"aligned", "stated"}))
      ->capture_default_str();
  app.add_option(
      "--link", a.link,
      "bytes per second of a link (12.5GB) for the comparison with Daydream; default: the rate of the largest "
      "message");
  app.add_option(
      "--what-if", a.what_if,
      "one or several changes: bandwidth=2 and latency=0.5 (factors), device=1.5 (times as fast), workers=16, "
      "bucket=25MB, algorithm=ring, tree or halving_doubling, operator=NAME (takes no time)");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--trace", a.trace,
                 "file for a Perfetto trace with the recorded, the replayed, the simulated and the changed timeline");
  app.add_option("--report", a.report, "file for an HTML report with the same timelines");
  support::declare(app, a.plan);
  support::declare_optimizer(app, a.optimizer);
}

trace::clock_offsets offsets_of(const arguments& a, support::replayed_job& r) {
  const auto stated = trace::stated_offsets(r.job);
  auto offsets = a.clocks == "aligned" ? trace::align_clocks(r.job, r.transactions) : stated;
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    r.corrections.push_back(offsets[k] - stated[k]);
  }
  return offsets;
}

support::replayed_job replayed(const arguments& a) {
  const auto start = std::chrono::steady_clock::now();
  const auto changes = support::parse_what_if(a.what_if);
  const auto link =
      a.link.empty() ? 0.0 : static_cast<double>(support::parse_memory("--link", a.link).count());  // 0: not given
  support::replayed_job r;
  r.job = io::read_traces(a.files);
  r.transactions = trace::match_transactions(r.job);
  const trace::aligned_job aligned{r.job, r.transactions, offsets_of(a, r)};
  r.steps = trace::leave_one_out(aligned, link);
  r.average = trace::average_steps(aligned);
  r.replayed = trace::replay(r.average.graph, r.job.names);
  if (!a.plan.plan.empty()) {
    r.plan = support::compare_plan(a.plan, r.job);
  }
  if (!changes.empty()) {
    auto changed = r.average.graph;
    support::apply_what_if(changed, r.job.names, changes);
    auto times = trace::replay(changed, r.job.names);
    r.changed = support::changed_iteration{a.what_if, std::move(changed), std::move(times)};
  }
  if (a.optimizer.optimize) {
    r.optimized = support::optimize_job(a.optimizer, r.average.graph, r.job.names);
  }
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return r;
}

std::vector<io::shown_iteration> timelines(const support::replayed_job& r) {
  std::vector<io::shown_iteration> all{
      io::recorded_iteration(r.average.graph, fmt::format("step {}, recorded", r.average.step)),
      {"replayed", &r.average.graph, r.replayed.times}};
  if (r.plan) {
    all.push_back({"simulated", &r.plan->simulated.graph, r.plan->simulated.times});
  }
  if (r.changed) {
    all.push_back({fmt::format("if {}", r.changed->changes), &r.changed->graph, r.changed->replayed.times});
  }
  if (r.optimized) {
    all.push_back({"optimized", &r.optimized->graph, r.optimized->replayed.times});
  }
  return all;
}

// All texts come first.
void write(const arguments& a, const support::replayed_job& r) {
  std::vector<support::output> files;
  if (!a.json.empty()) {
    files.push_back({a.json, fmt::format("{}\n", support::to_json(r).dump(2, ' ', false,
                                                                          nlohmann::json::error_handler_t::replace))});
  }
  if (!a.trace.empty()) {
    files.push_back({a.trace, io::to_flow_trace(timelines(r), r.job.names)});
  }
  if (!a.report.empty()) {
    files.push_back({a.report, io::to_flow_html(timelines(r), r.job.names, "replay", support::to_text(r))});
  }
  if (!a.optimizer.buckets.empty()) {
    files.push_back({a.optimizer.buckets, support::ddp_buckets(*r.optimized).dump(2) + "\n"});
  }
  if (!a.optimizer.plan_out.empty()) {
    files.push_back({a.optimizer.plan_out, support::bucketed_plan(a.plan.plan, *r.optimized)});
  }
  support::write_all(files);
}

void run(const arguments& a) {
  support::check(a.plan);
  support::check_optimizer(a.optimizer, a.plan.plan);
  for (const auto& path : {a.json, a.trace, a.report, a.optimizer.buckets, a.optimizer.plan_out}) {
    support::expect_writable(path);
  }
  const auto r = replayed(a);
  write(a, r);
  fmt::print("{}", support::to_text(r));
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("replay", "Replays an iteration of a training job from its traces", argc, argv,
                                         declare, run);
}
