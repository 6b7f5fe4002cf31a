// Iterations in micro-batches: order, times, memory, and what does not repeat.

#include <unity/parallel/lowering/pipelined_program.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/machine/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/program/program.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/memory.hpp>
#include <unity/tensor/builder.hpp>

#include "../operators.hpp"

namespace tests_of_pipelined_program {

using namespace unity;
using parallel::pipeline;
using parallel::test::operators;

namespace {

// A stage's forward pass of one micro-batch, its backward pass, and its weight's update. Results are 10 bytes.
program::program chain(std::uint32_t stages, picoseconds forward, picoseconds backward) {
  program::program p;
  std::vector<program::fragment> codes;
  for (std::uint32_t k = 0; k < stages; ++k) {
    p.add_resource({"stage", program::resource_kind::stream, k});
    p.add_fragment({program::owner_kind::node, k, "node"});
  }
  for (std::uint32_t k = 0; k < stages; ++k) {
    p.add_fragment({program::owner_kind::weight, k, "weight"});
  }
  for (std::uint32_t k = 0; k < stages; ++k) {
    program::fragment f;
    f.add({program::resource_id{k}, forward, {}, {}, program::task_kind::forward, k});
    f.add({program::resource_id{k}, backward, {}, {}, program::task_kind::backward, k});
    f.dependencies.push_back({{{}, 0}, {{}, 1}, false});
    if (k > 0) {
      f.dependencies.push_back({{program::fragment_id{k - 1}, 0}, {{}, 0}, false});
    }
    if (k + 1 < stages) {
      f.dependencies.push_back({{program::fragment_id{k + 1}, 1}, {{}, 1}, false});
    }
    f.buffers.push_back({bytes{10}, k, {{}, 0}, false});
    f.reads.push_back({{{}, 0}, {{}, 1}});
    codes.push_back(std::move(f));
  }
  for (std::uint32_t k = 0; k < stages; ++k) {
    program::fragment f;
    f.add({program::resource_id{k}, picoseconds{1000}, {}, {}, program::task_kind::update, k});
    f.dependencies.push_back({{program::fragment_id{k}, 1}, {{}, 0}, false});
    f.buffers.push_back({bytes{100}, k, {}, true});
    codes.push_back(std::move(f));
  }
  std::vector<program::replacement> all;
  for (std::size_t f = 0; f < codes.size(); ++f) {
    all.push_back({program::fragment_id{f}, &codes[f]});
  }
  p.replace(all);
  p.commit();
  return p;
}
pipeline stages_of(std::uint32_t stages, std::int64_t microbatches) {
  pipeline p{microbatches, {}};
  for (std::uint32_t k = 0; k < stages; ++k) {
    p.stages.push_back(k);
  }
  return p;
}

}  // namespace

TEST_CASE("stages that take equally long take as long as all micro-batches and the others' first") {
  const auto stages = GENERATE(1U, 2U, 4U, 7U);
  const auto microbatches = GENERATE(1, 2, 3, 8, 20);
  CAPTURE(stages, microbatches);
  const picoseconds forward{1'000'000};
  const picoseconds backward{2'000'000};
  const auto p = parallel::pipelined(chain(stages, forward, backward), stages_of(stages, microbatches));
  simulate::full_simulation simulation;
  const auto end = simulation.run(p).count();
  const auto rounds = microbatches + static_cast<std::int64_t>(stages) - 1;
  const auto least = rounds * (forward + backward).count() + 1000;
  CHECK(end >= least);
  CHECK(end <= least + 4 * (rounds + 1));  // a picosecond behind each phase
  // A stage keeps what it has not gone back over.
  const auto memory = simulate::memory_profiles(p, simulation.times());
  for (std::uint32_t k = 0; k < stages; ++k) {
    CHECK(memory[k].peak.count() == 100 + 10 * std::min<std::int64_t>(microbatches, stages - k));
  }
}

TEST_CASE("passes repeat, updates do not") {
  const auto one = chain(3, picoseconds{5}, picoseconds{7});
  CHECK(parallel::pipelined(one, {}).task_count() == one.task_count());
  const auto p = parallel::pipelined(one, stages_of(3, 4));
  // Two passes of four, a task behind each phase, and the update.
  CHECK(p.task_count() == 3 * (2 * 4 + 2 * 4 + 1));
}

TEST_CASE("a plan in stages is checked") {
  tensor::builder b{operators()};
  const auto h = b.matmul(b.input("x", {4, 8}), b.weight("w", {8, 8}));
  const auto g = std::move(b).finish({b.matmul(h, b.weight("v", {8, 8}))});
  const auto m = machine::preset("p100:1x2");
  parallel::lowering low{operators(), g, m};
  parallel::strategy s(g.node_count());
  std::vector<std::size_t> products;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      s[n.index()] = {{1, 1}, {machine::device_id{products.size()}}};
      products.push_back(n.index());
    }
  }
  REQUIRE(products.size() == 2);
  const auto report = [&](const pipeline& p) { return parallel::report_on(low, g, m, s, p); };
  // Two micro-batches take less than twice one, and move twice as much.
  const auto one = report({1, {0, 1}});
  const auto two = report({2, {0, 1}});
  CHECK(two.iteration > one.iteration);
  CHECK(two.iteration.count() < 2 * one.iteration.count());
  CHECK(two.communicated_elements == 2 * one.communicated_elements);
  CHECK(one.iteration.count() - parallel::report_on(low, g, m, s).iteration.count() <=
        4);  // picoseconds between phases
  CHECK_THROWS_WITH(report({0, {0, 1}}), Catch::Contains("0 micro-batches"));
  CHECK_THROWS_WITH(report({2, {}}), Catch::Contains("no stages"));
  CHECK_THROWS_WITH(report({2, {0}}), Catch::Contains("1 devices with a stage"));
  CHECK_THROWS_WITH(report({2, {1, 0}}), Catch::Contains("an operand of stage 1, behind its own, 0"));
  CHECK_THROWS_WITH(report({2, {0, 2}}), Catch::Contains("no device of stage 1"));
  s[products[0]] = {{2, 1}, {machine::device_id{std::size_t{0}}, machine::device_id{std::size_t{1}}}};
  CHECK_THROWS_WITH(report({2, {0, 1}}), Catch::Contains("tasks on devices of stages 0 and 1"));
}

}  // namespace tests_of_pipelined_program
