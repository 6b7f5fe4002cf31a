// `replay --optimize`: optimizes a job by dPRO's optimizer, and reports the result.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/systems/dpro.hpp>
#include <unity/systems/dpro/fitting.hpp>
#include <unity/trace/events.hpp>
#include <unity/trace/flow_graph.hpp>
#include <unity/trace/replay.hpp>

namespace support {

struct optimizer_flags {
  bool optimize = false;
  std::string budget = "10s";
  std::string passes{};
  std::string memory{};
  std::string start{};
  std::string search = "dpro";
  std::string buckets{};
  std::string plan_out{};
};

void declare_optimizer(CLI::App& app, optimizer_flags& f);

// Throws: unity::error if a flag has an invalid value, or flags exclude each other.
// plan: the file that the job ran, or "".
void check_optimizer(const optimizer_flags& f, const std::string& plan);

// Tensors that are synchronized as one.
struct found_bucket {
  std::vector<std::size_t> tensors{};  // in the order in which they become ready, from 0
  std::vector<std::string> names{};
  unity::bytes size{};
  std::uint32_t parts = 1;
};

struct optimized_job {
  unity::systems::fitted_job fitted{};
  unity::systems::dpro_result found{};
  unity::picoseconds iteration{};     // that of the job, as much faster as what was found is
  std::vector<std::string> passes{};  // allowed
  std::vector<std::pair<std::string, unity::picoseconds>> alone{};  // of an iteration by one technique alone
  std::vector<found_bucket> buckets{};
  std::vector<std::vector<std::string>> fused{};  // operators that run as one, of the first rank
  unity::bytes limit{};                           // of memory; 0: none
  unity::bytes peak{};                            // with what was found; 0: not known
  unity::trace::flow_graph graph{};
  unity::trace::replayed_iteration replayed{};
  double seconds = 0;
};

// Throws: unity::error if the traces have nothing to optimize.
[[nodiscard]] optimized_job optimize_job(const optimizer_flags& f, const unity::trace::flow_graph& job,
                                         const unity::trace::name_table& names);

[[nodiscard]] std::string to_text(const optimized_job& o);
[[nodiscard]] nlohmann::json to_json(const optimized_job& o);

// The buckets, for DistributedDataParallel: positions of gradients in the order in which the backward pass computes
// them, and bytes. Throws: unity::error if the traces do not contain the sizes of gradients.
[[nodiscard]] nlohmann::json ddp_buckets(const optimized_job& o);

// The plan in the file, which was traced, with the buckets and parts that were found.
// Throws: unity::error if a tensor is not one of the plan's weights.
[[nodiscard]] std::string bucketed_plan(const std::string& file, const optimized_job& o);

}  // namespace support
