// Programs of ranks: their text, their equality, when sent messages are waited for, and the order of stages.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_lowering.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/builder.hpp>
#include <unity/tensor/zoo.hpp>

#include "../operators.hpp"

namespace tests_of_rank_programs {

using namespace unity;
using namespace unity::parallel;
using parallel::test::operators;

namespace {

plan of(const std::string& model, const std::string& machine) {
  plan p;
  p.graph = tensor::zoo::build(operators(), model);
  p.machine = hardware::preset(machine);
  p.configurations = data_parallel(graph_dimensions{operators(), p.graph}, p.machine.network);
  return p;
}

// A chain with one stage per device.
plan in_stages(std::size_t stages, std::int64_t microbatches) {
  const auto whole = tensor::zoo::build(operators(), "zoo:mlp?layers=6&hidden=4&batch=8");
  plan p;
  p.graph = microbatch(operators(), whole, graph_dimensions{operators(), whole}, microbatches).value();
  p.machine = hardware::preset("p100:1x" + std::to_string(stages));
  p.pipeline.microbatches = microbatches;
  const graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    p.configurations.push_back(o.inputs.empty()
                                   ? configuration{}
                                   : on_device(o, hardware::device_id{n.index() * stages / p.graph.node_count()}));
  }
  for (std::size_t d = 0; d < stages; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d));
  }
  return p;
}

// The peak number of steps of a kind that have begun and not been waited for.
std::size_t most_under_way(const rank_program& p, step_kind kind) {
  std::size_t now = 0;
  std::size_t most = 0;
  for (const auto& s : p.steps) {
    now += s.kind == kind ? 1 : 0;
    now -= s.kind == step_kind::wait && p.steps[s.peer].kind == kind ? 1 : 0;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace

TEST_CASE("rank programs of a data-parallel matmul print as the expected text") {
  tensor::builder b{operators()};
  const auto x = b.input("x", {4, 3});
  const auto y = b.matmul(x, b.weight("w", {3, 2}));
  plan p;
  p.graph = std::move(b).finish({y});
  p.machine = hardware::preset("p100:1x2");
  p.configurations = data_parallel(graph_dimensions{operators(), p.graph}, p.machine.network);
  const std::string rank =
      "  weight 0: %0 float32[3,2] = w[0:3, 0:2], gradient %6\n"
      "  cotangent %3 float32[2,2] of output 0[B:E, 0:2]\n"
      "  0: %1 float32[2,3] = load x[B:E, 0:3]  # matmul 2, forward\n"
      "  1: %2 float32[2,2] = matmul(%1, %0)  # matmul 2, forward\n"
      "  2: %4 float32[3,2] = transpose(%1)  # matmul 2, backward\n"
      "  3: %5 float32[3,2] = matmul(%4, %3)  # matmul 2, backward\n"
      "  4: %6 float32[3,2] = sum of %5 over ranks 0, 1  # weight 1, backward\n"
      "  5: wait for step 4  # weight 1, backward\n"
      "  6: update weight 0  # weight 1, backward\n"
      "  output 0[B:E, 0:2] = %2\n";
  const auto with = [&](std::string text, const std::string& begin, const std::string& end) {
    for (std::size_t at = 0; (at = text.find("B:E", at)) != std::string::npos;) {
      text.replace(at, 3, begin + ":" + end);
    }
    return text;
  };
  CHECK(to_text(operators(), p.graph, programs_of_ranks(operators(), p)) ==
        "rank 0\n" + with(rank, "0", "2") + "rank 1\n" + with(rank, "2", "4"));
}

TEST_CASE("equal plans have equal rank programs; another strategy has another program and text") {
  const auto p = of("zoo:mlp?layers=2&hidden=8&batch=8", "p100:1x2");
  auto q = p;
  const auto programs = programs_of_ranks(operators(), p);
  CHECK(programs == programs_of_ranks(operators(), q));
  q.configurations = model_parallel(operators(), q.graph, graph_dimensions{operators(), q.graph}, q.machine.network);
  const auto others = programs_of_ranks(operators(), q);
  CHECK_FALSE(programs == others);
  CHECK(to_text(operators(), p.graph, programs) != to_text(operators(), q.graph, others));
}

TEST_CASE("gradient all-reduces of rank programs overlap with the backward pass") {
  const auto programs = programs_of_ranks(operators(), of("zoo:mlp?layers=4&hidden=8&batch=8", "p100:1x2"));
  for (const auto& r : programs.ranks) {
    std::size_t behind_first = 0;  // operators after the first reduction began
    bool has_begun = false;
    for (const auto& s : r.steps) {
      has_begun = has_begun || s.kind == step_kind::reduce;
      behind_first += has_begun && s.kind == step_kind::run ? 1 : 0;
    }
    CHECK(behind_first >= 6);  // operators of three more layers
    CHECK(most_under_way(r, step_kind::reduce) == r.weights.size());
  }
}

TEST_CASE("gradients of replicated operators are not all-reduced by ranks") {
  auto p = of("zoo:mlp?layers=2&hidden=8&batch=8", "p100:1x2");
  const graph_dimensions all{operators(), p.graph};
  for (const auto n : node_ids(p.graph)) {
    const auto& o = all[n];
    if (!o.inputs.empty()) {
      p.configurations[n.index()] = {degree_list(o.divisible.size(), 1),
                                     decltype(configuration::devices){hardware::device_id{0U}, hardware::device_id{1U}},
                                     {},
                                     {},
                                     2};
    }
  }
  for (const auto& r : programs_of_ranks(operators(), p).ranks) {
    CHECK(std::none_of(r.steps.begin(), r.steps.end(), [](const rank_step& s) { return s.kind == step_kind::reduce; }));
    CHECK(std::all_of(r.weights.begin(), r.weights.end(), [](const weight_part& w) { return w.gradient.valid(); }));
  }
}

TEST_CASE("the sends in flight of a stage do not grow with the number of micro-batches") {
  const auto few = programs_of_ranks(operators(), in_stages(3, 4));
  const auto many = programs_of_ranks(operators(), in_stages(3, 8));
  for (std::size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(most_under_way(many.ranks[r], step_kind::send) == most_under_way(few.ranks[r], step_kind::send));
    CHECK(most_under_way(many.ranks[r], step_kind::send) <= 2 * 3);
  }
}

TEST_CASE("micro-batches of ranks that would have more steps than fit in memory are refused after the first") {
  auto p = in_stages(2, 2);
  p.pipeline.microbatches = 1 << 20;
  CHECK_THROWS_WITH(programs_of_ranks(operators(), p), Catch::Contains("1048576 micro-batches of ") &&
                                                           Catch::Contains(" steps of ranks; expected ") &&
                                                           Catch::Contains(" micro-batches at most"));
}

TEST_CASE("with delayed updates a stage runs late backward passes of its last micro-batches") {
  auto p = in_stages(3, 4);
  p.pipeline.is_delayed = true;
  const auto programs = programs_of_ranks(operators(), p);
  for (std::uint32_t r = 0; r < 3; ++r) {
    std::vector<std::int64_t> late;  // micro-batches of delayed backward passes, in order
    for (const auto& s : programs.ranks[r].steps) {
      if (s.kind == step_kind::run && s.is_late) {
        CHECK(s.is_backward);
        if (late.empty() || late.back() != s.microbatch) {
          late.push_back(s.microbatch);
        }
      }
    }
    std::vector<std::int64_t> expected;
    for (std::int64_t m = 4 - (2 - r); m < 4; ++m) {
      expected.push_back(m);
    }
    CHECK(late == expected);
  }
  p.pipeline.microbatches = 2;
  CHECK_THROWS_WITH(programs_of_ranks(operators(), p),
                    "delayed updates: 2 micro-batches; expected as many as the 3 stages, or more");
}

TEST_CASE("batch statistics are all-reduced over ranks; data parallelism sends no messages") {
  const auto p = of("zoo:resnet50?batch=4&image=32&hidden=4&statistics=batch", "p100:1x2");
  const graph_dimensions all{operators(), p.graph};
  std::size_t sums = 0;
  for (const auto n : node_ids(p.graph)) {
    if (const auto r = all.sum_over_samples(n)) {
      CHECK(p.configurations[n.index()].reductions[*r] == 2);
      ++sums;
    }
  }
  CHECK(sums == 2 * 53);  // means and variances
  const auto programs = programs_of_ranks(operators(), p);
  for (const auto& r : programs.ranks) {
    const auto count = [&](step_kind kind, bool is_backward) {
      return std::count_if(r.steps.begin(), r.steps.end(),
                           [&](const rank_step& s) { return s.kind == kind && s.is_backward == is_backward; });
    };
    CHECK(count(step_kind::reduce, false) == 2 * 53);
    CHECK(count(step_kind::send, false) == 0);
    CHECK(count(step_kind::send, true) == 0);
  }
}

}  // namespace tests_of_rank_programs
