// The flags of `train`, and their checks.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <range/v3/algorithm/contains.hpp>
#include <range/v3/view/zip.hpp>

#include <unity/core/error.hpp>
#include <unity/io/dataset.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/update.hpp>

#include "backend_names.hpp"
#include "number_range.hpp"
#include "operation_times.hpp"
#include "recomputation_flag.hpp"
#include "synchronization_flag.hpp"

namespace support {

// The default of a flag is the value of the resumed run, or else the library's default.
struct training_flags {
  std::string plan{};
  std::string backend = "reference";
  std::string comm{};  // empty: nccl with cuda, else mpi under mpirun, else local
  int ranks = 0;
  std::uint64_t steps = 20;
  std::optional<std::string> loss{};
  std::optional<std::uint64_t> seed{};
  std::array<std::optional<double>, 5> rule{};  // in the order of rule_flags
  std::string data{};
  std::int64_t shift = 0;
  std::string checkpoint{};
  std::uint64_t every = 0;
  std::string resume{};
  bool check = false;
  std::string json{};
  std::string report{};
  std::string trace{};
  std::uint64_t traced = 1;  // steps
  std::string program{};
  bool delayed = false;
  std::string sync{};
  std::string fusion{};
  memory_flags memory{};
  std::string arena{};  // of each rank: a size
  timing_flags timing{};
};

struct rule_flag {
  unity::train::rule_setting setting{};
  const char* text = "";
  double least = 0;
  double most = 0;
};
inline constexpr double below_one = 1 - 0x1.0p-53;
inline constexpr std::array<rule_flag, 5> rule_flags{{
    {{"rate", &unity::train::update_rule::learning_rate}, "learning rate", 0, 1e308},
    {{"momentum", &unity::train::update_rule::momentum}, "for the optimizer momentum: its factor", 0, 1},
    {{"beta1", &unity::train::update_rule::beta1}, "for adam: decay rate of the mean of gradients", 0, below_one},
    {{"beta2", &unity::train::update_rule::beta2}, "for adam: decay rate of the mean of squares", 0, below_one},
    {{"epsilon", &unity::train::update_rule::epsilon}, "for adam: what is added to the root of that mean", 1e-300, 1},
}};

inline void declare(CLI::App& app, training_flags& a) {
  app.add_option("PLAN", a.plan, "a plan's .json file: graph, machine, strategy and optimizer")->required();
  const auto backends = rank_backends();
  std::vector<std::string> comms{"local"};
  std::string about_comms = "how ranks communicate: local (threads)";
#ifdef UNITY_HAS_MPI
  comms.emplace_back("mpi");
  about_comms += ", mpi (processes, started by mpirun)";
#endif
#if defined(UNITY_HAS_CUDA_DEVICE) && defined(UNITY_HAS_NCCL)
  comms.emplace_back("nccl");
  about_comms += ", nccl (either, with a GPU each, for the backend cuda)";
#endif
  a.backend = backends.front();
  app.add_option("--backend", a.backend, "backend that runs operators")->check(CLI::IsMember(backends));
  app.add_option("--comm", a.comm, about_comms)->check(CLI::IsMember(comms));
  app.add_option("--ranks", a.ranks, "number of ranks: as many as the plan has devices")->check(number_in(1, 4096));
  app.add_option("--steps", a.steps, "iterations, including those of the resumed run")
      ->check(number_in(1, 100'000'000));
  app.add_option("--loss", a.loss, "loss")->check(CLI::IsMember({"cross_entropy", "mean_square"}));
  for (auto&& [f, number] : ranges::views::zip(rule_flags, a.rule)) {
    app.add_option(fmt::format("--{}", f.setting.name), number, f.text)->check(number_in(f.least, f.most));
  }
  app.add_option("--seed", a.seed, "random seed of data and initial weights")->check(number_from(std::uint64_t{0}));
  auto* const data = app.add_option("--data", a.data, "data set (examples/data makes some); default: synthetic data");
  app.add_option("--shift", a.shift, "most pixels by which images are shifted")->check(number_in(0, 64))->needs(data);
  auto* const checkpoint =
      app.add_option("--checkpoint", a.checkpoint, "file for weights and optimizer state, written at the end");
  app.add_option("--every", a.every, "steps between further checkpoints")
      ->check(number_in(1, 100'000'000))
      ->needs(checkpoint);
  app.add_option("--resume", a.resume, "checkpoint to continue from, of any plan for this model");
  app.add_flag(
      "--delayed", a.delayed,
      "do not flush pipelines: a batch begins during the backward passes of the one before, and weights change one "
      "step later (PipeDream-2BW)");
  declare_sync(app, a.sync);
  app.add_option("--fusion", a.fusion, "fusion.json of `fuse`, which says what runs as one kernel");
  declare(app, a.memory);
  declare_offloading(app, a.memory);
  app.add_flag("--check", a.check,
               "also train the undivided graph, and fail if losses differ by more than 1e-4, relative, and no "
               "gradients are compressed");
  app.add_option("--json", a.json, "file for the result as JSON");
  app.add_option("--report", a.report, "file for an HTML report: losses, and what each rank did in the last step");
  auto* const program = app.add_option("--program", a.program, "file for the program of each rank, as text");
  app.add_option("--memory", a.arena,
                 "memory limit of each rank, without weights and optimizer state: 100MB, 2GiB; values that do not fit "
                 "are offloaded to the host")
      ->excludes(program);
  declare(app, a.timing);
  auto* const trace = app.add_option("--trace", a.trace,
                                     "file for a trace of what each rank did, for Perfetto, chrome://tracing and "
                                     "replay");
  app.add_option("--trace-steps", a.traced, "number of last steps in the trace")
      ->check(number_in(1, 10'000))
      ->needs(trace)
      ->capture_default_str();
}

// started: the number of ranks of mpirun; 0: not under mpirun.
// Throws: unity::error if the flags request another number of ranks.
inline void expect_ranks(const training_flags& a, int started) {
  if (a.comm == "nccl" && a.backend != "cuda") {
    throw unity::error{"--comm", fmt::format("nccl, with the backend {}", a.backend),
                       "--backend cuda, whose memory it reaches"};
  }
  if (a.backend == "cuda" && !a.comm.empty() && a.comm != "nccl") {
    throw unity::error{"--backend", fmt::format("cuda, with --comm {}", a.comm),
                       "--comm nccl, which reaches its memory"};
  }
  if (started == 0 && a.comm == "mpi") {
    throw unity::error{"--comm", "mpi, and no mpirun started this process",
                       "mpirun -n RANKS train .., or --comm local"};
  }
  if (started > 0 && a.comm == "local") {
    throw unity::error{"--comm", fmt::format("local, in one of {} processes that mpirun started", started),
                       "mpi, or no mpirun"};
  }
  if (started > 0 && a.ranks > 0 && a.ranks != started) {
    throw unity::error{"--ranks", fmt::format("{}", a.ranks), fmt::format("the {} of mpirun", started)};
  }
}

// Throws: unity::error if a flag has no effect on the optimizer.
inline unity::train::update_rule rule_for(const training_flags& a, const unity::train::update_rule& start) {
  auto rule = start;
  const auto known = unity::train::settings_of(rule.updates);
  for (const auto& [flag, number] : ranges::views::zip(rule_flags, a.rule)) {
    const auto& f = flag.setting;
    const bool is_known = ranges::contains(known, f.name, [](const auto& s) { return s.name; });
    if (number && !is_known) {
      const std::string optimizer{unity::parallel::optimizer_names[static_cast<std::size_t>(rule.updates)]};
      throw unity::error{fmt::format("--{}", f.name),
                         fmt::format("has no effect on the plan's optimizer, {}", optimizer), "a flag that has"};
    }
    rule.*f.number = number.value_or(rule.*f.number);
  }
  return rule;
}

// As a checkpoint says it.
inline std::string text_of(const unity::io::dataset* set, std::int64_t shift) {
  if (set == nullptr) {
    return "synthetic";
  }
  return fmt::format("{} {:016x}{}", unity::io::dataset_content_names[static_cast<std::size_t>(set->content())],
                     set->sum().low, shift > 0 ? fmt::format(", shift {}", shift) : "");
}

}  // namespace support
