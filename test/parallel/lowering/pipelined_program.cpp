// Pipelined iterations: order, times, memory, and the parts that do not repeat per micro-batch.

#include <unity/parallel/lowering/pipelined_program.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/strategies/strategy_report.hpp>
#include <unity/simulate/full.hpp>
#include <unity/simulate/timeline.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../../support/cases.hpp"
#include "../../support/message_of.hpp"
#include "../operators.hpp"
#include "../phase_clock.hpp"

namespace tests_of_pipelined_program {

using namespace unity;
using parallel::pipeline;
using parallel::pipeline_schedule;
using parallel::test::operators;
using parallel::test::pass_times;

namespace {

// Per virtual stage: the forward pass of one micro-batch, the backward pass, the weight gradient if it has a pass of
// its own, and the weight's update. Results are 10 bytes.
tasks::program chain(const pipeline& of, const pass_times& takes) {
  const auto stages = of.stage_count();
  const bool is_apart = of.schedule == pipeline_schedule::zero_bubble;
  const auto nodes = static_cast<std::uint32_t>(takes.size());
  tasks::program p;
  std::vector<tasks::fragment> fragments;
  for (std::uint32_t k = 0; k < stages; ++k) {
    p.add_resource({"stage", tasks::resource_kind::stream, k});
  }
  for (const auto kind : {tasks::owner_kind::node, tasks::owner_kind::weight}) {
    for (std::uint32_t k = 0; k < nodes; ++k) {
      p.add_fragment({kind, k, "node"});
    }
  }
  for (std::uint32_t k = 0; k < nodes; ++k) {
    const auto add = [&](tasks::fragment& f, std::size_t pass, tasks::task_kind kind) {
      return f.add({tasks::resource_id{k % stages}, picoseconds{takes[k][pass]}, {}, {}, kind, k % stages});
    };
    tasks::fragment f;
    add(f, 0, tasks::task_kind::forward);
    add(f, 1, tasks::task_kind::backward);
    f.dependencies.push_back({{{}, 0}, {{}, 1}, false});
    if (is_apart) {
      add(f, 2, tasks::task_kind::weight_gradient);
      f.dependencies.push_back({{{}, 1}, {{}, 2}, false});
    }
    if (k > 0) {
      f.dependencies.push_back({{tasks::fragment_id{k - 1}, 0}, {{}, 0}, false});
    }
    if (k + 1 < nodes) {
      f.dependencies.push_back({{tasks::fragment_id{k + 1}, 1}, {{}, 1}, false});
    }
    f.buffers.push_back({bytes{10}, k % stages, {{}, 0}, false});
    f.reads.push_back({{{}, 0}, {{}, is_apart ? 2U : 1U}});
    fragments.push_back(std::move(f));
  }
  for (std::uint32_t k = 0; k < nodes; ++k) {
    tasks::fragment f;
    f.add({tasks::resource_id{k % stages}, picoseconds{1000}, {}, {}, tasks::task_kind::update, k % stages});
    f.dependencies.push_back({{tasks::fragment_id{k}, is_apart ? 2U : 1U}, {{}, 0}, false});
    f.buffers.push_back({bytes{100}, k % stages, {}, true});
    fragments.push_back(std::move(f));
  }
  p.replace(tasks::replacements_of(fragments));
  p.commit();
  return p;
}
// By node of such a chain, its chunk.
std::vector<std::uint32_t> chunks_of_chain(const pipeline& p) {
  std::vector<std::uint32_t> chunks;
  for (std::uint32_t k = 0; k < p.stage_count() * p.chunks; ++k) {
    chunks.push_back(k / p.stage_count());
  }
  return chunks;
}

}  // namespace

TEST_CASE("a pipelined iteration takes the time of a reference scheduler of its phases", "[law]") {
  const auto cases = unity::test::cases(200);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    const auto of = parallel::test::pipeline_at_random(random);
    const auto takes = parallel::test::passes_at_random(random, of);
    CAPTURE(of.schedule, of.stage_count(), of.microbatches, of.chunks);
    const auto p = parallel::pipelined(chain(of, takes), of, chunks_of_chain(of));
    simulate::full_simulation simulation;
    const auto end = simulation.run(p).count();
    const auto expected = parallel::test::clock_phases(of, takes);
    // Includes updates, and a picosecond after each phase.
    REQUIRE(end >= expected.end);
    REQUIRE(end <= expected.end + of.chunks * 1000 + 1000);
    std::size_t updates = 0;
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      for (const auto& t : p[tasks::fragment_id{f}].tasks) {
        updates += t.kind == tasks::task_kind::update ? 1 : 0;
      }
    }
    REQUIRE(updates == takes.size());
  }
}

TEST_CASE("simulated peak memory of pipeline stages matches the formula of the schedule") {
  const auto stages = GENERATE(2U, 4U, 7U);
  const auto rounds = GENERATE(1, 2, 5);
  const auto schedule = GENERATE(pipeline_schedule::one_forward_one_backward, pipeline_schedule::gpipe,
                                 pipeline_schedule::interleaved, pipeline_schedule::zero_bubble);
  const std::uint32_t v = schedule == pipeline_schedule::interleaved ? 3 : 1;
  const std::int64_t m = rounds * static_cast<std::int64_t>(stages);
  CAPTURE(stages, m, schedule);
  const auto of = parallel::test::scheduled(schedule, stages, m, v);
  const auto p = parallel::pipelined(chain(of, parallel::test::equal_passes(of, 1'000'000, 1'200'000, 800'000)), of,
                                     chunks_of_chain(of));
  simulate::full_simulation simulation;
  simulation.run(p);
  const auto memory = simulate::memory_profiles(p, simulation.times());
  for (std::int64_t k = 0; k < stages; ++k) {
    const auto behind = stages - k - 1;
    const auto held = schedule == pipeline_schedule::gpipe         ? m
                      : schedule == pipeline_schedule::interleaved ? std::min(m * v, 2 * behind + (v - 1) * stages + 1)
                      : schedule == pipeline_schedule::zero_bubble ? std::int64_t{stages}
                                                                   : behind + 1;
    CHECK(memory[static_cast<std::size_t>(k)].peak.count() == 100 * v + 10 * held);
  }
}

TEST_CASE("pipelining repeats forward and backward passes but not weight updates") {
  const auto of = parallel::test::scheduled(pipeline_schedule::one_forward_one_backward, 3, 4);
  const auto one = chain(of, parallel::test::equal_passes(of, 5, 4, 3));
  CHECK(parallel::pipelined(one, {}).task_count() == one.task_count());
  const auto p = parallel::pipelined(one, of);
  // Two passes of four micro-batches, one task after each phase, and the update.
  CHECK(p.task_count() == 3 * (2 * 4 + 2 * 4 + 1));
}

TEST_CASE("invalid pipelines are rejected with the reason; micro-batches of a valid one overlap") {
  tensor::builder b{operators()};
  const auto h = b.matmul(b.input("x", {4, 8}), b.weight("w", {8, 8}));
  const auto g = std::move(b).finish({b.matmul(h, b.weight("v", {8, 8}))});
  const auto m = hardware::preset("p100:1x2");
  parallel::lowering low{operators(), g, m};
  parallel::strategy s(g.node_count());
  std::vector<std::size_t> products;
  for (const auto n : node_ids(g)) {
    if (!g.operands(n).empty()) {
      s[n.index()] = {{1, 1}, {hardware::device_id{products.size()}}};
      products.push_back(n.index());
    }
  }
  REQUIRE(products.size() == 2);
  const auto report = [&](const pipeline& p) { return parallel::report_on(low, g, m, s, p); };
  // Two micro-batches take less than twice as long as one, and communicate twice as much.
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
  const auto wrong = [&](pipeline_schedule schedule, std::int64_t microbatches, std::uint32_t chunks,
                         std::vector<std::uint32_t> stages = {0, 1}, bool is_delayed = false) {
    return unity::test::message_of(
        [&] { static_cast<void>(report({microbatches, std::move(stages), is_delayed, schedule, chunks})); });
  };
  CHECK(wrong(pipeline_schedule::gpipe, 2, 2) ==
        "pipeline: 2 chunks for schedule gpipe; expected 1, or schedule interleaved");
  CHECK(wrong(pipeline_schedule::interleaved, 2, 1) ==
        "pipeline: 1 chunks for schedule interleaved; expected 2 or more");
  CHECK(wrong(pipeline_schedule::interleaved, 3, 2) ==
        "pipeline: 3 micro-batches, interleaved on 2 stages; expected a multiple of the stages");
  CHECK(wrong(pipeline_schedule::interleaved, 2, 2) ==
        "pipeline: no operator of chunk 1 on stage 0; expected values that go through all 2 stages 2 times");
  CHECK(wrong(pipeline_schedule::zero_bubble, 2, 1, {0, 0}) ==
        "pipeline: schedule zero_bubble of one stage; expected 2 stages or more");
  CHECK(wrong(pipeline_schedule::gpipe, 2, 1, {0, 1}, true) ==
        "pipeline: schedule gpipe with delayed updates; expected one_forward_one_backward");
  s[products[0]] = {{2, 1}, {hardware::device_id{std::size_t{0}}, hardware::device_id{std::size_t{1}}}};
  CHECK_THROWS_WITH(report({2, {0, 1}}), Catch::Contains("tasks on devices of stages 0 and 1"));
}

TEST_CASE("micro-batches that would have more tasks than fit in memory are refused before they are made") {
  const pipeline all{std::int64_t{1} << 23, {0, 1}};
  CHECK(unity::test::message_of([&] {
          static_cast<void>(parallel::pipelined(chain(all, {{1, 1, 0}, {1, 1, 0}}), all));
        }) == "pipeline: 8388608 micro-batches of 4 tasks; expected 6291456 micro-batches at most");
  const auto g = tensor::zoo::build(operators(), "zoo:mlp?layers=2&hidden=4&batch=2");
  std::int64_t operations = 0;
  for (const auto n : node_ids(g)) {
    operations += g.operands(n).empty() ? 0 : 1;
  }
  const parallel::strategy s(g.node_count(), parallel::configuration{{1, 1}, {hardware::device_id{0U}}});
  const auto most = tasks::most_tasks / operations;
  parallel::check(g, s, {most, {0}}, 1);
  CHECK(unity::test::message_of([&] {
          parallel::check(g, s, {most + 1, {0}}, 1);
        }) == fmt::format("pipeline: {} micro-batches of {} operators; expected 1 to {}", most + 1, operations, most));
}

// A perceptron or transformer whose operators go through the stages once per chunk.
TEST_CASE("1F1B is slower than zero-bubble and holds less than GPipe and sends less than interleaved") {
  const std::string model =
      GENERATE("zoo:mlp?layers=16&hidden=64&batch=32", "zoo:gpt?layers=4&hidden=32&heads=2&seq=8&vocab=16&batch=32");
  const auto again = GENERATE(false, true);
  CAPTURE(model, again);
  const auto whole = tensor::zoo::build(operators(), model);
  parallel::plan p;
  p.graph = parallel::microbatch(operators(), whole, parallel::graph_dimensions{operators(), whole}, 8).value();
  p.machine = hardware::preset("p100:1x2");
  p.recomputed = again ? parallel::recomputation_but_every(p.graph, 3) : parallel::recomputation{};
  if (again) {  // includes operators on weights alone: the transposed table of the last product
    for (const auto n : node_ids(p.graph)) {
      const auto operands = p.graph.operands(n);
      p.recomputed[n.index()] = p.recomputed[n.index()] ||
                                (parallel::can_recompute(p.graph, n) && operands.size() == 1 &&
                                 p.graph.operands(p.graph.producer(operands[0])).empty());
    }
  }
  const parallel::graph_dimensions all{operators(), p.graph};
  const auto run = [&](pipeline_schedule schedule, std::uint32_t chunks) {
    p.configurations.clear();
    for (const auto n : node_ids(p.graph)) {
      const auto device = n.index() * 2 * chunks / p.graph.node_count() % 2;
      p.configurations.push_back(all[n].inputs.empty() ? parallel::configuration{}
                                                       : parallel::on_device(all[n], hardware::device_id{device}));
    }
    p.pipeline = parallel::test::scheduled(schedule, 2, 8, chunks);
    parallel::lowering low{operators(), p.graph, p.machine};
    return parallel::report_on(low, p.graph, p.machine, p.configurations, p.pipeline, {}, p.recomputed);
  };
  const auto turns = run(pipeline_schedule::one_forward_one_backward, 1);
  const auto apart = run(pipeline_schedule::zero_bubble, 1);
  const auto all_forward = run(pipeline_schedule::gpipe, 1);
  const auto chunks = run(pipeline_schedule::interleaved, 2);
  // Separate passes for weight gradients take the same total time, except for rounding to picoseconds.
  CHECK(static_cast<double>(apart.compute.count()) == Approx(static_cast<double>(turns.compute.count())).epsilon(1e-4));
  CHECK(apart.iteration < turns.iteration);
  CHECK(all_forward.memory_peak() > turns.memory_peak());
  CHECK(chunks.communicated > turns.communicated);
  // Received values are not recomputed, and with chunks more values are received.
  CHECK(static_cast<double>(chunks.compute.count()) ==
        Approx(static_cast<double>(turns.compute.count())).epsilon(again ? 0.05 : 1e-4));
}

}  // namespace tests_of_pipelined_program
