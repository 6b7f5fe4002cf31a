// Trains a plan on ranks: threads of this process, or processes under mpirun.
//
// run: {source}/examples/plans/lenet_p100.json --ranks 4 --steps 2 --check --json {out}/result.json --trace {out}/trace.json --trace-steps 2

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/backend/local_communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/train/checkpoint.hpp>
#include <unity/train/evaluation.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/memory_moves.hpp>
#include <unity/train/timeline.hpp>
#include <unity/train/timeline_report.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/value_places.hpp>
#ifdef UNITY_HAS_MPI
#include <unity/backend/mpi_communicator.hpp>  // if found
#endif

#include "support/loss_check.hpp"
#include "support/program.hpp"
#include "support/quantity.hpp"
#include "support/rank_devices.hpp"
#include "support/training_flags.hpp"
#include "support/training_job.hpp"
#include "support/training_report.hpp"

namespace {

using namespace unity;

using job = support::training_job;
using outcome = support::training_outcome;
using support::training_flags;

// Every operator whole, on one device.
parallel::plan undivided(const tensor::algebra& a, const parallel::plan& p) {
  auto one = p;
  one.machine = hardware::preset("p100:1x1");
  const parallel::graph_dimensions all{a, p.graph};
  for (std::size_t n = 0; n < one.configurations.size(); ++n) {
    const auto& o = all[node_id{n}];
    one.configurations[n] =
        o.inputs.empty()
            ? parallel::configuration{}
            : parallel::configuration{
                  parallel::degree_list(o.divisible.size(), 1), {hardware::device_id{std::size_t{0}}}, {}, {}, 1};
  }
  one.pipeline.stages = {0};
  one.pipeline.schedule = parallel::pipeline_schedule::one_forward_one_backward;
  one.pipeline.chunks = 1;
  // Stale servers change what is computed; everything else does not.
  for (auto& w : one.synchronization.weights) {
    for (auto& part : w.parts) {
      part = part.staleness == 0 ? parallel::synchronizer{} : part;
      part.destination = part.staleness == 0 ? part.destination : hardware::device_id{std::size_t{0}};
    }
  }
  one.synchronization.buckets.clear();
  one.recomputed = {};
  one.offloaded = {};
  return one;
}

// Effects: trains up to the last step, from the resumed state, with checkpoints if it `writes` them; without, it stops
// at the same steps. Returns losses and seconds.
template <class Trainer, class Communicator>
outcome take_steps(const training_flags& a, const tensor::algebra& operators, const job& j, Trainer& rank,
                   Communicator& world, train::timeline& record, bool writes) {
  using clock = train::timeline::clock;
  if (j.before) {
    static_cast<void>(train::read_checkpoint(*j.before, a.resume, operators, rank, world, j.run));
  }
  outcome r;
  std::vector<double> seconds;
  auto origin = train::common_origin(world);
  for (auto s = j.first; s < a.steps; ++s) {
    origin = rank.is_stale() ? origin : train::common_origin(world);  // which has ranks wait for each other
    if (s + a.traced <= a.steps || s == j.first) {
      record.restart(origin);
    }
    const auto start = clock::now();
    r.losses.push_back(rank.step(s, &record));
    seconds.push_back(std::chrono::duration<double>(clock::now() - start).count());
    const auto done = s + 1;
    const bool is_due = !a.checkpoint.empty() && (done == a.steps || (a.every > 0 && done % a.every == 0));
    if (is_due && !writes) {
      rank.finish();
    } else if (is_due) {
      train::write_checkpoint(a.checkpoint, operators, rank, world, j.run, static_cast<std::int64_t>(done));
    }
  }
  rank.finish();
  r.losses = rank.losses(j.first, std::move(r.losses));
  if (seconds.size() > 1) {
    seconds.erase(seconds.begin());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  r.seconds = seconds[seconds.size() / 2];
  return r;
}

// Changes to a rank's program before it runs: kernels, and moves between device and host, which are then reported.
template <class Backend>
train::program_change change_for(const training_flags& a, const tensor::algebra& operators, const job& j, Backend& b,
                                 train::moved_bytes& predicted) {
  auto kernels = support::kernels_of(operators, j);
  if (a.arena.empty()) {
    return kernels;
  }
  const auto limit = support::parse_memory("--memory", a.arena);
  return [&, kernels, limit](const parallel::rank_program& p) {
    const auto program = kernels ? kernels(p) : p;
    auto moves = train::with_moves(operators, program, train::workspaces_of(b, operators, program), limit);
    predicted = moves.moved;
    return std::move(moves.program);
  };
}

// What one rank does.
template <class Communicator>
outcome trained(const training_flags& a, const tensor::algebra& operators, const job& j, Communicator& world) {
  return support::with_backend(a.backend, operators, world, [&](auto& b) {
    train::moved_bytes predicted;
    train::trainer rank{b,
                        operators,
                        j.trained,
                        world,
                        j.run.rule,
                        j.run.seed,
                        support::data_for(operators, j, j.trained, a.shift),
                        change_for(a, operators, j, b, predicted)};
    const auto traced = static_cast<std::size_t>(std::min(a.traced, a.steps - j.first));
    train::timeline record{traced * 2 * (rank.executor().program().steps.size() + 1)};
    auto r = take_steps(a, operators, j, rank, world, record, true);
    std::vector<std::string> labels;
    for (const auto n : node_ids(j.trained.graph)) {
      labels.push_back(fmt::format("{} {}", operators.signature(j.trained.graph.operation(n).kind).name, n.index()));
    }
    r.timeline = train::gather_timelines(world, record, std::move(labels), rank.executor().memory());
    if (!a.arena.empty()) {
      r.predicted.resize(static_cast<std::size_t>(world.size()));
      train::gather_bytes(world, std::as_bytes(std::span{&predicted, 1}),
                          std::as_writable_bytes(std::span{r.predicted}));
    }
    if (j.set) {
      train::evaluation test{b, operators, j.given, world, rank.executor(), j.trained.graph, rank.data()};
      r.test = test.run();
    }
    return r;
  });
}

// Likewise, under another plan for the same model, losses alone.
template <class Communicator>
std::vector<double> losses_of(const training_flags& a, const tensor::algebra& operators, const job& j,
                              const parallel::plan& p, Communicator& world) {
  return support::with_backend(a.backend, operators, world, [&](auto& b) {
    train::trainer rank{b, operators, p, world, j.run.rule, j.run.seed, support::data_for(operators, j, p, a.shift)};
    train::timeline record{0};
    return take_steps(a, operators, j, rank, world, record, false).losses;
  });
}

// The largest relative difference of losses from those of the undivided graph, from the same initial state.
double checked(const training_flags& a, const tensor::algebra& operators, const job& j, const outcome& r) {
  const auto one = undivided(operators, j.trained);
  double most = 0;
  backend::run_local(1, [&](backend::local_communicator& world) {
    const auto expected =
        support::with_communicator(a.backend, world, [&](auto& c) { return losses_of(a, operators, j, one, c); });
    for (const auto& [wanted, loss] : ranges::views::zip(expected, r.losses)) {
      most = std::max(most, std::abs(loss - wanted) / std::max(std::abs(wanted), 1e-30));
    }
  });
  return most;
}

// Relative tolerance, as ranks compute in another order.
constexpr double most_error_of_losses = 1e-4;

// Compressed gradients lose digits, which changes the trained weights.
bool is_compressed(const parallel::plan& p) {
  const auto& weights = p.synchronization.weights;
  return std::any_of(weights.begin(), weights.end(), [](const auto& w) {
    return std::any_of(w.parts.begin(), w.parts.end(),
                       [](const auto& part) { return part.compressor != parallel::compressor{}; });
  });
}

// After a run, on rank 0. Throws: unity::error if a file cannot be written, or, at the end, if losses differ from those
// of the undivided graph.
void report(const training_flags& a, const tensor::algebra& operators, const job& j, int ranks, const char* comm,
            const outcome& r) {
  const auto error = a.check ? std::optional{checked(a, operators, j, r)} : std::nullopt;
  support::report(a, operators, j, ranks, comm, r, error);
  if (!is_compressed(j.trained)) {
    support::expect_same_losses(error, most_error_of_losses, "the undivided graph");
  }
}

#ifdef UNITY_HAS_MPI
// All ranks train. Then MPI ends, so that no rank waits, and rank 0 checks and reports, however long that takes.
int run_as_rank(const training_flags& a, const tensor::algebra& operators) {
  int rank = 0;
  int ranks = 0;
  job j;
  outcome own;
  backend::mpi_options options;
  options.limit = support::patience;
  const int code = backend::run_mpi(
      [&](backend::mpi_communicator& world) {
        rank = world.rank();
        ranks = world.size();
        support::expect_ranks(a, ranks);
        j = support::job_of(a, operators);
        if (rank == 0) {
          support::expect_writable(a);
        }
        own = support::with_communicator(a.backend, world, [&](auto& c) { return trained(a, operators, j, c); });
      },
      options);
  if (code == 0 && rank == 0) {
    report(a, operators, j, ranks, a.backend == "cuda" ? "nccl" : "mpi", own);
  }
  return code;
}
#endif

int run(const training_flags& a) {
  const auto operators = tensor::training_algebra();
#ifdef UNITY_HAS_MPI
  if (backend::started_as_rank()) {
    return run_as_rank(a, operators);
  }
#endif
  support::expect_ranks(a, 0);
  const auto j = support::job_of(a, operators);
  const auto devices = static_cast<int>(j.given.machine.network.device_count());
  const auto ranks = a.ranks == 0 ? devices : a.ranks;
  if (ranks != devices) {
    throw error{a.plan, fmt::format("a plan for {} devices", devices),
                fmt::format("one for as many as --ranks {}", ranks)};
  }
  support::expect_writable(a);
  outcome first;
  backend::run_local(ranks,
                     [&](backend::local_communicator& world) {
                       auto r = support::with_communicator(a.backend, world,
                                                           [&](auto& c) { return trained(a, operators, j, c); });
                       if (world.rank() == 0) {
                         first = std::move(r);
                       }
                     },
                     {support::patience});
  report(a, operators, j, ranks, a.backend == "cuda" ? "nccl" : "local", first);
  return 0;
}

void declare(CLI::App& app, training_flags& a) { support::declare(app, a); }

}  // namespace

int main(int argc, char** argv) {
  return support::run_program<training_flags>(
      "train", "Trains a plan on ranks, and compares it with one device and with the simulator", argc, argv, declare,
      run);
}
