// Options of Unity's search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/search/search_space.hpp>
#include <unity/systems/unity/joint_search.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A plan of another search. Its graph is equivalent to the given one.
struct known_plan {
  tensor::tensor_graph graph{};
  parallel::strategy strategy{};
  parallel::strategy_report report{};
};

// limits.expansions counts simulated proposals of the polish. Time limits are checked between steps. limits.memory and
// `excluded_seconds` are not for this search.
struct unity_options : search_options {
  std::uint64_t seed = 0;
  parallel::index_uses uses = parallel::all_index_uses;
  std::size_t mesh_axes = 3;
  std::vector<hardware::device_mesh> meshes{};  // additional meshes to those of the machine
  std::size_t stages = 64;                      // maximum of pipelines
  std::size_t candidates = 12;  // mappings to simulate per graph (4 times as many in small programs), and pipelines
  std::uint64_t program_tasks = 2'000'000;  // for larger programs, only one device of each stage, or kind, is simulated
  // The most proposals of the polish: 8 times as many if it moves parts, and 128 times for tiny graphs, whose operators
  // times devices are at most 64.
  std::uint64_t proposals = 300;
  // The polish of a plan ends once both of these have passed without improvement: this many proposals (16 times as many
  // for tiny graphs), plus 2% of them for each node,
  std::uint64_t idle = 2000;
  double patience = 0;  // and this share of the time limit
  // Plans of other searches, requested after this search's own steps. Their graphs must be equivalent to the given one.
  // If all index uses are allowed, a better plan is adopted, and the polish starts from them, too; time limits include
  // them.
  std::function<std::vector<known_plan>()> known{};
  double known_share = 0;  // share of the time limit for `known`
  parallel::optimizer optimizer = parallel::optimizer::sgd;
  // Also searches plans that trade time for memory (memory_search.hpp). The steps before then leave 40% of their time
  // for it. false: does so only if no plan fits in memory, or if a faster plan than the best does not fit.
  bool frontier = false;
  joint_options joint{};
};

}  // namespace unity::systems
