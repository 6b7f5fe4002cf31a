// `replay --plan`: what is simulated for the plan that a traced job ran, beside its replay.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include <unity/core/units.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/iteration_work.hpp>
#include <unity/trace/replay.hpp>

#include "operation_times.hpp"

namespace support {

struct plan_flags {
  std::string plan{};  // file; empty: not given
  timing_flags timing{};
};

void declare(CLI::App& app, plan_flags& f);

// Throws: unity::error if a flag has an invalid value, or is given without a plan.
void check(const plan_flags& f);

struct plan_comparison {
  std::string plan{};
  std::string machine{};
  unity::picoseconds iteration{};                        // simulated
  unity::trace::simulated_iteration simulated{};         // its tasks
  std::optional<unity::io::collective_counts> stated{};  // of the plan, if it is one of modules
  std::string unstated{};                                // otherwise the reason
  double stages = 1;
};

// Simulates the plan. Effects: interns names of its tasks.
// Throws: unity::error if the plan cannot be read, or the job has another number of ranks than the plan.
[[nodiscard]] plan_comparison compare_plan(const plan_flags& f, unity::trace::job_trace& job);

[[nodiscard]] std::string to_text(const plan_comparison& p, const unity::trace::flow_graph& job,
                                  const unity::trace::replayed_iteration& replayed);
[[nodiscard]] nlohmann::json to_json(const plan_comparison& p, const unity::trace::flow_graph& job,
                                     const unity::trace::replayed_iteration& replayed);

}  // namespace support
