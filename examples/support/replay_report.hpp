// The results of `replay`, as text and as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include <unity/trace/events.hpp>
#include <unity/trace/global_graph.hpp>
#include <unity/trace/replay.hpp>
#include <unity/trace/transactions.hpp>

#include "job_optimizer.hpp"
#include "plan_comparison.hpp"

namespace support {

// The average iteration after a change.
struct changed_iteration {
  std::string changes{};
  unity::trace::flow_graph graph{};
  unity::trace::replayed_iteration replayed{};
};

struct replayed_job {
  unity::trace::job_trace job{};
  unity::trace::transactions transactions{};
  unity::trace::clock_offsets corrections{};  // by rank, added to its stated clock
  std::vector<unity::trace::step_accuracy> steps{};
  unity::trace::averaged_graph average{};
  unity::trace::replayed_iteration replayed{};
  std::optional<plan_comparison> plan{};
  std::optional<changed_iteration> changed{};
  std::optional<optimized_job> optimized{};
  double seconds = 0;  // from the first file to here
};

// Measured is the mean over the steps, replayed the iteration with the average durations.
struct mean_iteration {
  double measured = 0;  // seconds
  double replayed = 0;
};
[[nodiscard]] mean_iteration mean_of(const replayed_job& r);

[[nodiscard]] std::string to_text(const replayed_job& r);
[[nodiscard]] nlohmann::json to_json(const replayed_job& r);

}  // namespace support
