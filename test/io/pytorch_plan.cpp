// The output of export_plan for a small plan, compared with golden files.
#include <unity/io/framework_plan.hpp>

#include <fmt/core.h>
#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include <unity/core/file.hpp>
#include <unity/io/plan_json.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_pytorch_plan {

namespace {

using namespace unity;
using unity::test::training::operators;

const std::filesystem::path source{UNITY_TEST_SOURCE_DIR};

io::module_plan documented_plan() {
  const auto p = io::read_plan(operators(), source / "examples" / "plans" / "mlp_p100_2x4.json");
  return io::module_plan_of(operators(), p, {});
}

}  // namespace

TEST_CASE("the documented perceptron plan matches the golden PyTorch and JAX modules") {
  const auto p = documented_plan();
  CHECK(io::to_pytorch_text(p, "A plan.") == read_file(source / "test/io" / "mlp_p100_2x4_pytorch.py"));
  CHECK(io::to_jax_text(p, "A plan.") == read_file(source / "test/io" / "mlp_p100_2x4_jax.py"));
}

TEST_CASE("a PyTorch plan states its micro-batches and pipeline and recomputed modules") {
  auto p = documented_plan();
  p.microbatches = 4;
  p.recomputed = {"up"};
  const auto one_stage = io::to_pytorch_text(p, "A plan.");
  CHECK(one_stage.find("},\n    microbatches=4,\n    recomputed=[\n        \"up\",\n    ],\n)\n") != std::string::npos);
  CHECK(one_stage.find("    return unity_plan.apply(PLAN, module, device_type)") != std::string::npos);
  p.pipeline = {parallel::pipeline_schedule::gpipe, 2, {{"up", true, {}, 1, {parallel::axis_use{}}}}};
  const auto text = io::to_pytorch_text(p, "A plan.");
  CHECK(text.find("from unity_plan import Cut, Layout, Parameter, Pipeline\n") != std::string::npos);
  CHECK(text.find("    pipeline=Pipeline(\n        \"ScheduleGPipe\",\n        groups=2,\n        cuts=[\n"
                  "            Cut(after=\"up\", placements=[Replicate()], values=0, gradients=1),\n"
                  "        ],\n    ),\n") != std::string::npos);
  CHECK(text.find("    return unity_plan.pipeline(PLAN, module, example, loss, device_type)") != std::string::npos);
}

TEST_CASE("PyTorch export refuses divided convolutions") {
  auto p = documented_plan();
  p.parameters[0].is_of_convolution = true;  // and divided along the second axis of the mesh
  CHECK(unity::test::message_of([&] { static_cast<void>(io::to_pytorch_text(p, "")); }) ==
        fmt::format("parameter {}: divided channels of a convolution, which DTensor cannot compute; expected "
                    "convolutions divided by samples (`parallelize --dims data`)",
                    p.parameters[0].name));
  p.parameters[0].layout[1] = {};
  CHECK_FALSE(io::to_pytorch_text(p, "").empty());
}

TEST_CASE("JAX export refuses micro-batches and recomputation") {
  auto p = documented_plan();
  const auto complaint = [&] { return unity::test::message_of([&] { static_cast<void>(io::to_jax_text(p, "")); }); };
  p.microbatches = 2;
  CHECK(complaint() ==
        "plan.pipeline: 1 stages, 2 micro-batches; expected one of each: specs lay one program onto one mesh");
  p.microbatches = 1;
  p.recomputed = {"up"};
  CHECK(complaint().find("module up: its results are computed again in the backward pass; expected ") == 0);
}

TEST_CASE("names and titles are escaped in exported Python and unprintable names are refused") {
  auto p = documented_plan();
  p.modules[0].name = "a\"b\\c";
  const auto text = io::to_pytorch_text(p, "A \"\"\"plan\\");
  CHECK(text.find("\"a\\\"b\\\\c\": Layout(") != std::string::npos);
  CHECK(text.find("A ???plan?\n") != std::string::npos);
  p.modules[0].name = "a\nb";
  CHECK(unity::test::message_of([&] {
          static_cast<void>(io::to_pytorch_text(p, "A plan."));
        }).find("a name that is not printable ASCII; expected one that is") != std::string::npos);
}

TEST_CASE("JAX export refuses gradient buckets and sharded parameters") {
  auto p = documented_plan();
  const auto complaint = [&] { return unity::test::message_of([&] { static_cast<void>(io::to_jax_text(p, "")); }); };
  p.parameters[1].bucket = p.parameters[0].bucket;
  CHECK(complaint().find("synchronization of up.bias: in a bucket; expected all_reduce alone") == 0);
  p.parameters[0].is_sharded = true;
  CHECK(complaint().find("synchronization of up.weight: sharded; expected all_reduce alone") == 0);
}

}  // namespace tests_of_pytorch_plan
