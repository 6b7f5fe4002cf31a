// Stages and recomputed modules of a chain: tok, blocks.0 (up, relu, down, add), blocks.1, head.
#include <unity/io/module_cuts.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/hardware/presets.hpp>
#include <unity/io/module_plan.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/builder.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "operators_of.hpp"

namespace tests_of_module_cuts {

namespace {

using namespace unity;
using io::test::operators_of;
using parallel::axis_kind;
using parallel::axis_use;
using parallel::tensor_placement;
using unity::test::training::operators;

// Operators: 0 tok, 1 to 4 blocks.0, 5 to 8 blocks.1, 9 head.
tensor::tensor_graph chain() {
  tensor::builder b{operators()};
  const auto linear = [&b](value_id x, const std::string& name, std::int64_t from, std::int64_t to) {
    const auto w = b.weight(name + ".weight.T", {from, to});
    return b.linear(x, w, b.weight(name + ".bias", {to}));
  };
  auto x = linear(b.input("x", {8, 4}), "tok", 4, 16);
  for (int i = 0; i < 2; ++i) {
    const auto block = fmt::format("blocks.{}", i);
    const auto up = b.relu(linear(x, block + ".up", 16, 32));
    x = b.add(x, linear(up, block + ".down", 32, 16));
  }
  return std::move(b).finish({linear(x, "head", 16, 8)});
}

// A plan with data parallelism within stages. firsts: the first operator of each stage after the first. Stage i runs on
// group i % groups of the machine's devices.
parallel::plan staged(const std::string& machine, std::size_t groups, const std::vector<std::size_t>& firsts,
                      std::int64_t microbatches) {
  parallel::plan p;
  p.graph = chain();
  p.machine = hardware::preset(machine);
  const auto each = p.machine.network.device_count() / groups;
  std::vector<hardware::device_id> first_group;
  for (std::size_t d = 0; d < each * groups; ++d) {
    p.pipeline.stages.push_back(static_cast<std::uint32_t>(d / each));
    if (d < each) {
      first_group.emplace_back(d);
    }
  }
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, first_group);
  std::size_t stage = 0;
  const auto all = operators_of(p.graph);
  for (std::size_t i = 0; i < all.size(); ++i) {
    stage += stage < firsts.size() && firsts[stage] == i ? 1 : 0;
    for (auto& d : p.configurations[all[i].index()].devices) {
      d = hardware::device_id{d.index() + stage % groups * each};
    }
  }
  p.pipeline.microbatches = microbatches;
  return p;
}

void recompute(parallel::plan& p, const std::vector<std::size_t>& which) {
  p.recomputed.resize(p.graph.node_count());
  for (const auto i : which) {
    p.recomputed[operators_of(p.graph)[i].index()] = true;
  }
}

io::module_plan modules_of(const parallel::plan& p) { return io::module_plan_of(operators(), p, {}); }

std::string complaint(const parallel::plan& p) {
  return unity::test::message_of([&] { static_cast<void>(modules_of(p)); });
}

}  // namespace

TEST_CASE("a cut before a module gives a stage boundary with one value and one gradient") {
  const auto m = modules_of(staged("p100:1x2", 2, {5}, 4));
  CHECK(m.mesh.sizes == hardware::mesh_sizes{1});
  CHECK(m.devices == std::vector<std::string>{"n0/gpu0", "n0/gpu1"});
  CHECK(m.microbatches == 4);
  CHECK(m.pipeline.groups == 2);
  REQUIRE(m.pipeline.boundaries.size() == 1);
  const auto& cut = m.pipeline.boundaries[0];
  CHECK(cut.module == "blocks.1.up");
  CHECK_FALSE(cut.is_after);
  CHECK(cut.values.size() == 1);
  CHECK(cut.gradients == 1);
  CHECK(m.forward == io::collective_counts{});
  CHECK(m.backward == io::collective_counts{});
}

TEST_CASE("a stage that ends with a module also sends its operand if a later stage reads it") {
  const auto m = modules_of(staged("p100:1x2", 2, {2}, 2));
  CHECK(m.pipeline.boundaries[0].module == "blocks.0.up");
  CHECK(m.pipeline.boundaries[0].is_after);
  CHECK(m.pipeline.boundaries[0].values.size() == 2);
  CHECK(m.pipeline.boundaries[0].gradients == 2);
}

TEST_CASE("stages with data parallelism share one mesh and reduce gradients once per iteration") {
  const auto m = modules_of(staged("p100:1x4", 2, {5}, 4));
  CHECK(m.mesh.sizes == hardware::mesh_sizes{2});
  CHECK(m.devices.size() == 4);
  CHECK(m.pipeline.boundaries[0].layout == tensor_placement{axis_use{axis_kind::split, 0}});
  CHECK(m.parameters.size() == 12);
  CHECK(m.backward == io::collective_counts{12, 0, 0, 0});
}

TEST_CASE("an interleaved schedule gives several stages per device group") {
  auto p = staged("p100:1x2", 2, {1, 5, 9}, 4);
  p.pipeline.schedule = parallel::pipeline_schedule::interleaved;
  p.pipeline.chunks = 2;
  const auto m = modules_of(p);
  CHECK(m.pipeline.groups == 2);
  REQUIRE(m.pipeline.boundaries.size() == 3);
  CHECK(m.pipeline.boundaries[1].module == "blocks.1.up");
  CHECK(m.pipeline.boundaries[2].module == "head");
}

TEST_CASE("pipeline plans that PyTorch's schedules cannot express are refused with the reason") {
  CHECK(complaint(staged("p100:1x2", 2, {4}, 2)).empty());  // the cut is after blocks.0.down
  auto p = staged("p100:1x2", 2, {5}, 1);
  CHECK(complaint(p) ==
        "plan.pipeline: 2 stages, 1 micro-batches; expected at least as many micro-batches as stages, as Schedule1F1B "
        "requires");
  p.pipeline.schedule = parallel::pipeline_schedule::gpipe;
  CHECK(complaint(p).empty());
  p.pipeline.schedule = parallel::pipeline_schedule::zero_bubble;
  CHECK(complaint(p).find("plan.pipeline: schedule zero_bubble; expected ") == 0);
  p = staged("p100:1x4", 2, {5}, 2);
  p.pipeline.stages = {0, 1, 1, 1};
  CHECK(complaint(p).find("plan.pipeline: 1 devices of stage 0, 3 of stage 1; expected equally many") == 0);
  p = staged("p100:1x4", 2, {5}, 2);
  p.synchronization.weights.resize(parallel::training_graph{operators(), p.graph}.weights().size());
  p.synchronization.weights[0].parts[0].kind = parallel::sync_kind::sharded;
  CHECK(complaint(p).find("synchronization of tok.weight: sharded, with micro-batches; expected all_reduce") == 0);
}

TEST_CASE("a value that skips a stage and a stage boundary outside of modules are refused") {
  CHECK(complaint(staged("p100:1x4", 4, {2, 3, 5}, 4)).find(" is on stage 2, and reads a value of stage 0;") !=
        std::string::npos);
  tensor::builder b{operators()};
  const auto w = b.weight("only.weight.T", {4, 4});
  auto p = staged("p100:1x2", 2, {5}, 2);
  p.graph = std::move(b).finish({b.relu(b.relu(b.matmul(b.input("x", {8, 4}), w)))});
  const std::vector<hardware::device_id> one{hardware::device_id{0U}};
  p.configurations = parallel::replicated_data_parallel(parallel::graph_dimensions{operators(), p.graph}, one);
  p.configurations[operators_of(p.graph)[2].index()].devices[0] = hardware::device_id{1U};
  CHECK(complaint(p).find("begins stage 1; expected stages that begin or end with a module") != std::string::npos);
}

TEST_CASE("operators recomputed up to the last one of a module make a recomputed module") {
  auto p = staged("p100:1x2", 1, {}, 1);
  recompute(p, {1, 2, 3, 5, 6, 7});
  const auto m = modules_of(p);
  CHECK(m.recomputed == std::vector<std::string>{"blocks.0", "blocks.1"});
  const auto plain = modules_of(staged("p100:1x2", 1, {}, 1));
  CHECK(m.forward == plain.forward);
  CHECK(m.backward == plain.backward);
  auto shorter = staged("p100:1x2", 1, {}, 1);  // the backward pass does not need the result of down
  recompute(shorter, {1, 2});
  CHECK(modules_of(shorter).recomputed == std::vector<std::string>{"blocks.0"});
}

TEST_CASE("recomputed operators that are not whole modules are refused with the reason") {
  const auto why = [](const std::vector<std::size_t>& which) {
    auto p = staged("p100:1x2", 1, {}, 1);
    recompute(p, which);
    return complaint(p);
  };
  for (const auto& which : std::vector<std::vector<std::size_t>>{{1}, {0}, {2, 3}, {0, 1, 2, 3}, {1, 2, 3, 4}}) {
    const auto text = why(which);
    CAPTURE(which.front(), which.size());
    CHECK(text.find("its result is computed again, as all are up to operator ") != std::string::npos);
    CHECK(text.find("expected the operators of one module with parameters, except for the last") != std::string::npos);
  }
}

TEST_CASE("a recomputed module repeats its collectives except those after the last kept value") {
  // Without is_by_columns: columns, then rows, so that an all-reduce follows down. With it: columns twice, so that down
  // gathers all of its input.
  const auto divided = [](bool is_again, bool is_by_columns) {
    auto p = staged("p100:1x2", 1, {}, 1);
    const parallel::graph_dimensions all{operators(), p.graph};
    const auto ops = operators_of(p.graph);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      auto& c = p.configurations[ops[i].index()];
      const bool is_last = i == 3 || i == 7;
      const bool is_hidden = i == 1 || i == 2 || i == 5 || i == 6 || (is_by_columns && is_last);
      const bool is_down = is_last && !is_by_columns;
      c = {};
      for (std::size_t d = 0; d < all[ops[i]].divisible.size(); ++d) {
        c.degrees.push_back(is_hidden && d + 1 == all[ops[i]].divisible.size() ? 2 : 1);
      }
      if (is_down) {
        c.reductions.push_back(2);
      } else if (!is_hidden) {
        c.copies = 2;
      }
      c.devices.push_back(hardware::device_id{0U});
      c.devices.push_back(hardware::device_id{1U});
    }
    if (is_again) {
      recompute(p, {1, 2, 3, 5, 6, 7});
    }
    return modules_of(p);
  };
  const auto rows = divided(false, false);
  CHECK(rows.forward.all_reduce == 2);
  CHECK(divided(true, false).forward == rows.forward);
  CHECK(divided(true, false).backward == rows.backward);
  auto columns = divided(false, true);
  CHECK(columns.forward.all_gather == 4);
  CHECK(divided(true, true).forward == columns.forward);
  columns.backward.all_gather += 2;  // before down, in each layer
  CHECK(divided(true, true).backward == columns.backward);
}

}  // namespace tests_of_module_cuts
