// The run that the flags of `train` describe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/fusion/fusion_plan.hpp>
#include <unity/fusion/rank_kernels.hpp>
#include <unity/io/dataset.hpp>
#include <unity/io/fusion_json.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/sealed_file.hpp>
#include <unity/io/weights_file.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/loss.hpp>
#include <unity/train/batches.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/trainer.hpp>
#include <unity/train/training_plan.hpp>

#include "outputs.hpp"
#include "quantity.hpp"
#include "recomputation_flag.hpp"
#include "training_flags.hpp"

namespace support {

// The same on all ranks.
struct training_job {
  unity::parallel::plan given{};
  unity::parallel::plan trained{};  // with a loss
  unity::train::run_settings run{};
  std::optional<unity::fusion::fusion_plan> kernels{};
  std::optional<unity::io::dataset> set{};
  std::optional<unity::io::weights_reader> before{};  // what is resumed
  std::uint64_t first = 0;                            // step
};

// The function that makes a rank run the job's kernels; empty if it has none. The job must outlive it.
inline unity::train::program_change kernels_of(const unity::tensor::algebra& operators, const training_job& j) {
  if (!j.kernels) {
    return {};
  }
  return [&](const unity::parallel::rank_program& p) {
    return unity::fusion::with_kernels(
        operators, j.kernels->is_spelled_out ? unity::parallel::spelled_out(operators, p) : p, *j.kernels);
  };
}

// For a plan with a loss for the job's model. The job must outlive it.
inline unity::train::batches data_for(const unity::tensor::algebra& operators, const training_job& j,
                                      const unity::parallel::plan& p, std::int64_t shift) {
  return j.set ? unity::train::batches{operators, p.graph, j.run.seed, *j.set, shift}
               : unity::train::batches{operators, p.graph, j.run.seed};
}

// Throws: unity::error if the checkpoint is of another run, or has all steps already.
inline void resume(const training_flags& a, training_job& j) {
  const auto& header = j.before->header();
  unity::train::expect_same(unity::train::settings_in(header, a.resume), j.run, a.resume);
  j.first = static_cast<std::uint64_t>(header.step);
  if (j.first >= a.steps) {
    throw unity::error{a.resume, fmt::format("has {} steps", header.step),
                       fmt::format("less than --steps {}, which counts them", a.steps)};
  }
}

// Throws: unity::error if flags, files and plan do not fit each other.
inline training_job job_of(const training_flags& a, const unity::tensor::algebra& operators) {
  training_job j;
  if (!a.arena.empty()) {
    static_cast<void>(parse_memory("--memory", a.arena));
  }
  j.given = unity::io::read_plan(operators, a.plan);
  expect_one_kind(a.timing, j.given.machine);
  j.given.pipeline.is_delayed = j.given.pipeline.is_delayed || a.delayed;
  if (!a.fusion.empty()) {
    j.kernels = unity::io::read_fusion(a.fusion);
  }
  apply(a.memory, operators, j.given);
  apply_sync(a.sync, operators, j.given);
  if (!j.given.offloaded.empty()) {
    unity::parallel::expect_host_rates(j.given.machine);
    if (!a.arena.empty()) {
      throw unity::error{"--memory", "a plan that says what waits on the host", "a plan that offloads nothing"};
    }
  }
  if (!a.resume.empty()) {
    j.before.emplace(a.resume);
    j.run = unity::train::settings_in(j.before->header(), a.resume);
  }
  if (!a.data.empty()) {
    j.set.emplace(a.data);
  }
  j.run.loss = a.loss.value_or(j.before ? j.run.loss : "cross_entropy");
  const auto loss = unity::tensor::find_loss(j.run.loss);
  if (!loss) {
    throw unity::error{a.resume, fmt::format("loss \"{}\"", j.run.loss), "cross_entropy or mean_square"};
  }
  j.trained = unity::train::with_loss(operators, j.given, *loss);
  j.run.model = unity::train::model_fingerprint(operators, j.trained.graph, j.trained.pipeline.microbatches);
  j.run.batch = unity::train::samples_of(operators, j.trained.graph) * j.trained.pipeline.microbatches;
  j.run.rule.updates = j.trained.updates;
  j.run.rule = rule_for(a, j.run.rule);
  j.run.seed = a.seed.value_or(j.before ? j.run.seed : 1);
  j.run.data = text_of(j.set ? &*j.set : nullptr, a.shift);
  if (j.before) {
    resume(a, j);
  }
  static_cast<void>(data_for(operators, j, j.trained, a.shift));  // does the set fit?
  return j;
}

// Throws: unity::error if a result could not be written at the end.
inline void expect_writable(const training_flags& a) {
  if (!a.checkpoint.empty()) {
    const unity::io::replaced_file probe{a.checkpoint};
  }
  for (const auto& path : {a.json, a.report, a.trace, a.program}) {
    expect_writable(path);
  }
}

}  // namespace support
