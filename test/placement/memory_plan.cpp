// What replaying a plan counts, and which plans it refuses.

#include <unity/placement/memory_plan.hpp>

#include <catch2/catch.hpp>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

namespace tests_of_memory_plan {

using namespace unity;
using namespace unity::placement;
using Catch::Matchers::Contains;

namespace {

// x -> f -> y -> g -> z; h reads x, y and z and writes r, a result.
struct three_operators {
  memory_graph graph{};
  tensor_id x = graph.add_tensor("x", bytes{10});
  tensor_id y = graph.add_tensor("y", bytes{20});
  tensor_id z = graph.add_tensor("z", bytes{30});
  tensor_id r = graph.add_tensor("r", bytes{1}, true);
  operator_id f = graph.add_operator("f", {x}, {y});
  operator_id g = graph.add_operator("g", {y}, {z});
  operator_id h = graph.add_operator("h", {x, y, z}, {r});
};

}  // namespace

TEST_CASE("a plan that keeps all tensors loads inputs once and stores results") {
  const three_operators s;
  const auto t = replay(s.graph, {{s.f, {s.x, s.y}}, {s.g, {s.x, s.y, s.z}}, {s.h, {}}}, bytes{61});
  CHECK(t.loaded == bytes{10});
  CHECK(t.stored == bytes{1});
  CHECK(t.peak == bytes{61});
  CHECK(t.steps[0].held == bytes{30});
  CHECK(t.steps[0].loaded == std::vector{s.x});
  CHECK(t.steps[1].loaded.empty());
  CHECK(t.steps[2].stored == std::vector{s.r});
}

TEST_CASE("an evicted value is stored once and reloaded before each use and inputs are not stored") {
  const three_operators s;
  const auto t = replay(s.graph, {{s.f, {}}, {s.g, {}}, {s.h, {}}}, bytes{61});
  CHECK(t.loaded == bytes{10 + 20 + 10 + 20 + 30});
  CHECK(t.stored == bytes{20 + 30 + 1});
  CHECK(t.steps[0].stored == std::vector{s.y});
  CHECK(t.steps[1].loaded == std::vector{s.y});
  CHECK(t.steps[1].stored == std::vector{s.z});
  CHECK(t.steps[2].loaded == std::vector{s.x, s.y, s.z});
}

TEST_CASE("a result kept to the last step is stored at the end") {
  const three_operators s;
  const auto t = replay(s.graph, {{s.f, {s.y}}, {s.g, {s.y, s.z}}, {s.h, {s.x, s.r}}}, bytes{61});
  CHECK(t.loaded == bytes{20});
  CHECK(t.steps[2].stored == std::vector{s.r});
}

TEST_CASE("an invalid memory plan is refused with the failing step") {
  const three_operators s;
  const bytes capacity{61};
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {}}, {s.g, {}}, {s.h, {}}}, bytes{60}),
                    "memory plan, step 2 (h): 61 bytes on the device; expected 60 at most");
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {}}, {s.h, {}}, {s.g, {}}}, capacity),
                    "memory plan, step 1 (h): before operator 1 (g); expected operators in order");
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {}}, {s.f, {}}, {s.g, {}}}, capacity), Contains("step 1: operator 0"));
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {}}, {operator_id{}, {}}}, capacity), Contains("operator null"));
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {}}, {s.g, {}}}, capacity), Contains("2 steps"));
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {s.z}}, {s.g, {}}, {s.h, {}}}, capacity),
                    Contains("step 0 (f): keeps tensor 2"));
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {tensor_id{}}}, {s.g, {}}, {s.h, {}}}, capacity),
                    Contains("step 0 (f): keeps tensor null"));
  // A tensor that is kept without need takes memory, too.
  CHECK_THROWS_WITH(replay(s.graph, {{s.f, {s.x}}, {s.g, {}}, {s.h, {}}}, bytes{59}), Contains("step 1 (g): 60 bytes"));
}

}  // namespace tests_of_memory_plan
