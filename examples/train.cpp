// Trains a plan on ranks: threads of this process, or processes under mpirun.
//
// run: {source}/examples/plans/lenet_p100.json --ranks 4 --steps 2 --check --json {out}/result.json --trace {out}/trace.json

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/local_communicator.hpp>
#include <unity/backend/reference.hpp>
#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/lowering.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/breakdown.hpp>
#include <unity/train/gather_timelines.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_trace.hpp>
#include <unity/train/trainer.hpp>
#ifdef UNITY_HAS_ONEDNN
#include <unity/backend/cpu.hpp>  // if found
#endif
#ifdef UNITY_HAS_MPI
#include <unity/backend/mpi_communicator.hpp>  // if found
#endif

#include "support/program.hpp"

namespace {

using namespace unity;

struct arguments {
  std::string plan{};
  std::string backend = "reference";
  int ranks = 0;
  std::uint64_t steps = 20;
  std::string loss = "cross_entropy";
  train::update_rule rule{};
  std::uint64_t seed = 1;
  bool check = false;
  std::string json{};
  std::string trace{};
};

void declare(CLI::App& app, arguments& a) {
  app.add_option("PLAN", a.plan, "a plan's .json file: graph, machine, strategy and optimizer")->required();
#ifdef UNITY_HAS_ONEDNN
  a.backend = "cpu";
  app.add_option("--backend", a.backend, "what operators run on: cpu or reference")->check(CLI::IsMember({"cpu", "reference"}));
#else
  app.add_option("--backend", a.backend, "what operators run on: reference")->check(CLI::IsMember({"reference"}));
#endif
  app.add_option("--ranks", a.ranks, "threads, as many as the plan has devices; under mpirun: its ranks")->check(CLI::Range(0, 4096));
  app.add_option("--steps", a.steps, "iterations")->check(CLI::Range(1, 100'000'000));
  app.add_option("--loss", a.loss, "cross_entropy or mean_square")->check(CLI::IsMember({"cross_entropy", "mean_square"}));
  app.add_option("--rate", a.rule.learning_rate, "learning rate")->check(CLI::Range(0.0, 1e6));
  app.add_option("--momentum", a.rule.momentum, "of the optimizer momentum")->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", a.seed, "of data and first weights");
  app.add_flag("--check", a.check, "trains the undivided graph, too, and compares losses");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--trace", a.trace, "file for what each rank did and when; Perfetto and chrome://tracing show it");
}

// One iteration of a plan, simulated.
double simulated_seconds(const tensor::algebra& a, const parallel::plan& p) {
  simulate::full_simulation s;
  const auto program = parallel::lower(a, p);
  s.run(program);
  std::int64_t end = 0;
  for (const auto& t : s.times()) {
    end = std::max(end, t.end);
  }
  return to_seconds(picoseconds{end});
}

// Every operator whole, on one device.
parallel::plan undivided(const tensor::algebra& a, const parallel::plan& p) {
  auto one = p;
  one.machine = machine::preset("p100:1x1");
  const parallel::graph_dimensions all{a, p.graph};
  for (std::size_t n = 0; n < one.configurations.size(); ++n) {
    const auto& o = all[node_id{n}];
    one.configurations[n] = o.inputs.empty() ? parallel::configuration{}
                                             : parallel::configuration{parallel::degree_list(o.divisible.size(), 1), {machine::device_id{std::size_t{0}}}, {}, {}, 1};
  }
  one.pipeline.stages.clear();
  return one;
}

struct outcome {
  std::vector<double> losses{};
  double seconds = 0;  // of an iteration, the median of those after the first
  train::merged_timeline timeline{};
};

// f(backend) with the one of that name; each rank has its own.
template <class F>
auto with_backend(const arguments& a, const tensor::algebra& operators, int ranks, const F& f) {
#ifdef UNITY_HAS_ONEDNN
  if (a.backend == "cpu") {
    backend::cpu_options o;
    o.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(ranks, 1));
    backend::cpu_backend b{operators, o};
    return f(b);
  }
#endif
  static_cast<void>(ranks);
  backend::reference_backend b{operators};
  return f(b);
}

// What one rank does. Throws: unity::error where a loss is no number.
template <class Communicator>
outcome trained(const arguments& a, const tensor::algebra& operators, const parallel::plan& p, Communicator& world) {
  return with_backend(a, operators, world.size(), [&](auto& b) {
    using clock = train::timeline::clock;
    train::trainer rank{b, operators, p, world, a.rule, a.seed};
    train::timeline record{2 * rank.executor().program().steps.size() + 1};
    outcome r;
    std::vector<double> seconds;
    for (std::uint64_t s = 0; s < a.steps; ++s) {
      record.restart();
      const auto start = clock::now();
      r.losses.push_back(rank.step(s, &record));
      seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
      if (!std::isfinite(r.losses.back())) {
        throw error{"step " + std::to_string(s), "a loss of " + std::to_string(r.losses.back()), "a number; is --rate too large?"};
      }
    }
    if (seconds.size() > 1) {
      seconds.erase(seconds.begin());
    }
    std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
    r.seconds = seconds[seconds.size() / 2];
    std::vector<std::string> labels;
    for (std::size_t n = 0; n < p.graph.node_count(); ++n) {
      labels.push_back(operators.signature(p.graph.operation(node_id{n}).kind).name + " " + std::to_string(n));
    }
    r.timeline = train::gather_timelines(world, record, std::move(labels));
    return r;
  });
}

nlohmann::json shares_json(const train::time_shares& s) {
  return {{"compute_s", to_seconds(s.compute)}, {"communication_s", to_seconds(s.communication)}, {"waiting_s", to_seconds(s.waiting)}, {"other_s", to_seconds(s.other)}};
}

void report(const arguments& a, const tensor::algebra& operators, const parallel::plan& p, int ranks, const char* comm, const outcome& r) {
  std::optional<double> error_of_losses;
  if (a.check) {
    const auto one = undivided(operators, p);
    backend::run_local(1, [&](backend::local_communicator& world) {
      const auto alone = trained(a, operators, one, world);
      error_of_losses = 0;
      for (std::size_t s = 0; s < alone.losses.size(); ++s) {
        error_of_losses = std::max(*error_of_losses, std::abs(r.losses[s] - alone.losses[s]) / std::max(std::abs(alone.losses[s]), 1e-30));
      }
    });
  }
  const auto simulated = simulated_seconds(operators, p);
  const auto [from, until] = r.timeline.extent();
  const auto shares = train::break_down(r.timeline, from, until);
  for (std::size_t s = 0; s < r.losses.size(); ++s) {
    if (s == 0 || s + 1 == r.losses.size()) {
      std::printf("step %zu: loss %.9g\n", s, r.losses[s]);
    }
  }
  std::printf("iteration: %.3f ms measured, %.3f ms simulated on %s\n", r.seconds * 1e3, simulated * 1e3, p.machine.name.c_str());
  const auto& critical = shares.ranks[shares.critical];
  std::printf("rank %zu, the busiest: %.3f ms computing, %.3f ms communicating, %.3f ms waiting, %.3f ms else\n", shares.critical, to_seconds(critical.compute) * 1e3,
              to_seconds(critical.communication) * 1e3, to_seconds(critical.waiting) * 1e3, to_seconds(critical.other) * 1e3);
  if (error_of_losses) {
    std::printf("checked: losses differ from those of the undivided graph by %.3g at most, relative\n", *error_of_losses);
  }
  if (!a.trace.empty()) {
    train::write_chrome_trace(r.timeline, a.trace);
  }
  if (!a.json.empty()) {
    nlohmann::json j{{"ranks", ranks},
                     {"backend", a.backend},
                     {"comm", comm},
                     {"steps", a.steps},
                     {"loss", r.losses},
                     {"max_rel_error_vs_single", error_of_losses ? nlohmann::json(*error_of_losses) : nlohmann::json(nullptr)},
                     {"measured_iteration_s", r.seconds},
                     {"simulated_iteration_s", simulated},
                     {"breakdown", nlohmann::json::array()}};
    for (const auto& s : shares.ranks) {
      j["breakdown"].push_back(shares_json(s));
    }
    atomic_write(a.json, j.dump(2) + "\n");
  }
}

parallel::plan plan_of(const arguments& a, const tensor::algebra& operators) {
  return train::with_loss(operators, io::read_plan(operators, a.plan), *tensor::find_loss(a.loss));
}

int run(arguments a) {
  const auto operators = tensor::training_algebra();
#ifdef UNITY_HAS_MPI
  if (backend::started_as_rank()) {
    backend::mpi_options options;
    return backend::run_mpi(
        [&](backend::mpi_communicator& world) {
          const auto p = plan_of(a, operators);
          a.rule.how = p.updates;
          const auto r = trained(a, operators, p, world);
          if (world.rank() == 0) {
            report(a, operators, p, world.size(), "mpi", r);
          }
        },
        options);
  }
#endif
  const auto p = plan_of(a, operators);
  a.rule.how = p.updates;
  const auto devices = static_cast<int>(p.machine.network.device_count());
  const auto ranks = a.ranks == 0 ? devices : a.ranks;
  if (ranks != devices) {
    throw error{a.plan, "a plan for " + std::to_string(devices) + " devices", "one for as many as --ranks " + std::to_string(ranks)};
  }
  outcome first;
  backend::run_local(ranks, [&](backend::local_communicator& world) {
    auto r = trained(a, operators, p, world);
    if (world.rank() == 0) {
      first = std::move(r);
    }
  });
  report(a, operators, p, ranks, "local", first);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<arguments>("train", "Trains a plan on ranks, and compares it with one device and with the simulator", argc, argv, declare, run);
}
