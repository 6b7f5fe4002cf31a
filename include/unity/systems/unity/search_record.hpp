// What Unity's search reports besides its plan: what it simulated, and how long its steps took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>

namespace unity::systems {

// A simulated mapping.
struct simulated_mapping {
  std::size_t graph = 0;         // 0: the given one; others: results of substitutions for one objective
  hardware::device_mesh mesh{};  // of the first stage's devices
  std::uint32_t stages = 1;
  std::int64_t microbatches = 1;
  parallel::index_uses uses = 0;
  picoseconds predicted{};
  parallel::strategy_report report{};
  bool is_split = false;  // branches run on separate blocks of devices
  parallel::pipeline_schedule schedule = parallel::pipeline_schedule::one_forward_one_backward;
  std::uint32_t chunks = 1;
};

// The duration of one step of the search, in seconds.
struct search_phase {
  std::string_view name{};
  double seconds = 0;
};

// What the steps of a search have done so far.
struct search_record {
  std::vector<simulated_mapping> simulated{};
  picoseconds graphs_bound{};  // lower bound on all plans of all graphs considered
  std::size_t segments = 0;
  std::uint64_t expanded = 0;  // graphs whose substitutions were considered
  std::uint64_t proposals = 0;
  std::vector<search_phase> phases{};
};

}  // namespace unity::systems
