#include <unity/io/plan_json.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "plan_complaint.hpp"

namespace tests_of_plan_notes {

using namespace unity;
using test::training::operators;

namespace {

// Notes for test::lenet_plan, whose machine has four devices.
io::plan_notes some_notes() {
  io::plan_notes n;
  n.substitutions = {{"merge_matmuls", 24}, {"fuse_relu", 1}};
  n.parallel_substitutions = {{"matmul_over_k", {{"k", 2}}, false, true, 7},
                              {"combine_past_combine", {{"d", 1}, {"e", 0}, {"j", 2}, {"k", 3}}, true, true, {}},
                              {"lstm_cell over i", {{"k", 2}}, false, false, 3}};
  n.predicted = io::noted_prediction{0.0125, {bytes{1}, bytes{2}, bytes{3}, bytes{1'000'000'000'000}}};
  n.mesh = hardware::meshes_of(test::lenet_plan().machine.network, 2).back();
  return n;
}
std::string noted_text() { return io::to_plan_text(operators(), test::lenet_plan(), some_notes()); }
std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  return test::complaint_of(noted_text(), pointer, value,
                            [](const std::string& text) { static_cast<void>(io::parse_plan_notes(text, "p.json")); });
}

}  // namespace

TEST_CASE("plan notes survive a round trip and leave the plan unchanged") {
  REQUIRE(test::lenet_plan().machine.network.device_count() == 4);
  CHECK(io::parse_plan_notes(noted_text(), "p.json") == some_notes());
  CHECK(io::parse_plan(operators(), noted_text(), "p.json") == test::lenet_plan());
}

TEST_CASE("a plan without notes is read with empty notes") {
  const auto text = io::to_plan_text(operators(), test::lenet_plan());
  CHECK(io::parse_plan_notes(text, "p.json") == io::plan_notes{});
  CHECK(text.find("predicted") == std::string::npos);
}

TEST_CASE("deeply nested lists in plan notes are refused with their path") {
  auto text = noted_text();
  const std::string prediction = "0.0125";
  REQUIRE(text.find(prediction) != std::string::npos);
  text.replace(text.find(prediction), prediction.size(), std::string(300'000, '[') + std::string(300'000, ']'));
  CHECK_THAT(test::message_of([&] { static_cast<void>(io::parse_plan_notes(text, "p.json")); }),
             Catch::Contains("predicted.iteration_s: is array; expected a number"));
}

TEST_CASE("invalid plan notes are refused with their path") {
  CHECK_THAT(complaint("/predicted/memory_bytes", nlohmann::json::array({1, 2})),
             Catch::Contains("predicted.memory_bytes: 2 numbers"));
  CHECK_THAT(complaint("/predicted/iteration_s", -1), Catch::Contains("predicted.iteration_s: is -1"));
  CHECK_THAT(complaint("/predicted/iteration_s", "soon"),
             Catch::Contains("predicted.iteration_s: is string; expected a number"));
  CHECK_THAT(complaint("/mesh/devices/0", "n9/gpu9"),
             Catch::Contains("mesh.devices[0]: no device has the name \"n9/gpu9\""));
  CHECK_THAT(complaint("/mesh/sizes/0", 3),
             Catch::Contains("plan.mesh") && Catch::Contains("one for each of its places"));
  CHECK_THAT(complaint("/substitutions/0/rule", 7), Catch::Contains("substitutions[0].rule"));
  CHECK_THAT(complaint("/parallel_substitutions/1/reversed", 7),
             Catch::Contains("parallel_substitutions[1].reversed: is number"));
  CHECK_THAT(complaint("/parallel_substitutions/0/values", 7),
             Catch::Contains("parallel_substitutions[0].values: is number"));
  CHECK_THAT(complaint("/parallel_substitutions/0/values/k", "two"),
             Catch::Contains("parallel_substitutions[0].values.k: is string"));
  CHECK_THAT(complaint("/parallel_substitutions/2/node", 1.5), Catch::Contains("parallel_substitutions[2].node"));
}

}  // namespace tests_of_plan_notes
