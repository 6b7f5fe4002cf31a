// Pareto fronts of time and memory, with and without pipelines of unequal stages.

#include <unity/systems/unity/memory_search.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/cases.hpp"
#include "../support/operators.hpp"
#include "pipeline_subject.hpp"

namespace tests_of_memory_search {

using namespace unity;
using systems::memory_plan;
using unity::test::is_unequal;
using unity::test::training::operators;

namespace {

// A chain of products with these numbers of columns.
tensor::tensor_graph chain(std::int64_t samples, const std::vector<std::int64_t>& widths) {
  tensor::builder b{operators()};
  auto x = b.input("x", {samples, widths[0]});
  for (std::size_t i = 1; i + 1 < widths.size(); ++i) {
    x = b.relu(b.matmul(x, b.weight("w" + std::to_string(i), {widths[i - 1], widths[i]})));
  }
  return std::move(b).finish({b.matmul(x, b.weight("last", {widths[widths.size() - 2], widths.back()}))});
}

struct subject : unity::test::pipeline_subject {
  using pipeline_subject::pipeline_subject;

  // All plans, without a time limit.
  [[nodiscard]] std::vector<memory_plan> plans(bool has_unequal) {
    std::vector<std::unique_ptr<systems::mesh_solver>> made;
    std::vector<std::pair<systems::mesh_solver*, int>> solvers;
    for (auto& mesh : unity::hardware::meshes_of(machine.network, 1)) {
      made.push_back(std::make_unique<systems::mesh_solver>(operators(), machine, routes, std::move(mesh), clock,
                                                            parallel::all_index_uses, parallel::optimizer::adam));
      solvers.emplace_back(made.back().get(), 16);
    }
    systems::memory_options o;
    o.mesh_axes = 1;
    o.has_unequal = has_unequal;
    o.optimizer = parallel::optimizer::adam;
    o.seconds = std::numeric_limits<double>::infinity();
    return systems::memory_plans(operators(), machine, routes, clock,
                                 parallel::analytic_durations(operators(), machine), graph, solvers, o);
  }
};

// The least time of plans within the memory.
std::int64_t least_time(const std::vector<memory_plan>& plans, std::int64_t memory) {
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& p : plans) {
    least = p.report.memory_peak().count() <= memory ? std::min(least, p.report.iteration.count()) : least;
  }
  return least;
}

}  // namespace

TEST_CASE("unequal stages add faster plans to the memory frontier of graphs with a heavy part") {
  struct heavy {
    const char* on;
    tensor::tensor_graph graph;
  };
  const auto x = GENERATE(values<heavy>({
      {"p100:1x3", chain(512, {256, 256, 1024, 1024, 256, 256})},           // time and memory peak in the middle
      {"p100:1x3", chain(64, {128, 128, 128, 128, 128, 128, 128, 16384})},  // memory at the end, as of a vocabulary
  }));
  CAPTURE(x.on, x.graph.node_count());
  subject s{x.graph, x.on};
  const auto without = systems::frontier_of(s.plans(false));
  const auto with = systems::frontier_of(s.plans(true));
  std::size_t gained = 0;
  for (const auto& p : with) {
    if (!is_unequal(p.pipeline)) {
      continue;
    }
    const auto memory = p.report.memory_peak().count();
    // Counts plans that are at least 5% faster at the same memory.
    gained += static_cast<double>(p.report.iteration.count()) < 0.95 * static_cast<double>(least_time(without, memory))
                  ? 1
                  : 0;
  }
  CHECK(gained > 0);
}

TEST_CASE("unequal stages do not worsen the memory frontier of random chains", "[law]") {
  for (std::uint64_t seed = 0; seed < unity::test::cases(6); ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    std::vector<std::int64_t> widths;
    for (auto layers = 3 + random.below(4); layers > 0; --layers) {
      widths.push_back(std::int64_t{64} << random.below(5));
    }
    const auto* const on = seed % 3 == 0 ? "p100:1x4" : "p100:1x3";
    subject s{chain(24, widths), on};
    const auto without = systems::frontier_of(s.plans(false));
    const auto with = systems::frontier_of(s.plans(true));
    REQUIRE_FALSE(without.empty());
    for (const auto& p : without) {
      CHECK(least_time(with, p.report.memory_peak().count()) <= p.report.iteration.count());
    }
  }
}

TEST_CASE("plans of unequal stages also trade time for memory") {
  subject s{chain(512, {256, 256, 1024, 1024, 256, 256}), "p100:1x3"};
  std::size_t unequal = 0;
  std::size_t recomputing = 0;
  std::size_t sharding = 0;
  std::size_t other_schedules = 0;
  for (const auto& p : s.plans(true)) {
    if (!is_unequal(p.pipeline)) {
      continue;
    }
    ++unequal;
    recomputing += p.recomputed.empty() ? 0 : 1;
    sharding += p.synchronization.is_trivial() ? 0 : 1;
    other_schedules += p.pipeline.schedule != parallel::pipeline_schedule::one_forward_one_backward ? 1 : 0;
  }
  CHECK(unequal > 0);
  CHECK(recomputing > 0);
  CHECK(sharding > 0);
  CHECK(other_schedules > 0);
}

}  // namespace tests_of_memory_search
