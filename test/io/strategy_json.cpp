#include <unity/io/strategy_json.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include <unity/hardware/presets.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "plan_complaint.hpp"

namespace tests_of_strategy_json {

using namespace unity;
using test::training::operators;

namespace {

const nlohmann::json removed(nlohmann::json::value_t::discarded);

std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  const auto p = test::lenet_plan();
  return test::complaint_of(io::to_strategy_text(operators(), p, "zoo:lenet"), pointer, value,
                            [&](const std::string& text) {
                              static_cast<void>(io::parse_strategy(operators(), p.graph, p.machine, text, "s.json"));
                            });
}
std::string read_for(const parallel::plan& other) {
  return unity::test::message_of([&] {
    static_cast<void>(io::parse_strategy(operators(), other.graph, other.machine,
                                         io::to_strategy_text(operators(), test::lenet_plan(), "zoo:lenet"), "s.json"));
  });
}

}  // namespace

TEST_CASE("a strategy survives a round trip through a JSON file") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  for (const auto* model : {"zoo:lenet", "zoo:rnnlm?seq=2"}) {
    const auto p = test::random_plan(model, "k80:2x4", seed);
    const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "io_strategy_json.json";
    io::write_strategy(operators(), p, model, file);
    CHECK(io::read_strategy(operators(), p.graph, p.machine, file) == p.configurations);
  }
}

TEST_CASE("strategy JSON states the degree of each dimension and the device of each task") {
  const auto entry =
      nlohmann::json::parse(io::to_strategy_text(operators(), test::lenet_plan(), "zoo:lenet")).at("strategy").at(0);
  CHECK(entry.at("node") == 3);
  CHECK(entry.at("op") == "conv2d");
  CHECK(entry.at("dimensions").at(0) ==
        nlohmann::json{{"kind", "sample"}, {"dimension", 0}, {"size", 8}, {"degree", 2}});
  CHECK(entry.at("dimensions").at(1).at("kind") == "parameter");
  CHECK(entry.at("dimensions").at(2).at("kind") == "attribute");
  CHECK(entry.at("tasks").at(1) == nlohmann::json{{"part", {0, 1, 0, 0}}, {"device", "n0/gpu1"}});
  CHECK(entry.at("tasks").at(2) == nlohmann::json{{"part", {1, 0, 0, 0}}, {"device", "n0/gpu2"}});
}

TEST_CASE("strategy JSON may reorder tasks and operators and omit sizes and the fingerprint") {
  const auto p = test::lenet_plan();
  auto document = nlohmann::json::parse(io::to_strategy_text(operators(), p, "zoo:lenet"));
  auto& list = document["strategy"];
  std::reverse(list[0]["tasks"].begin(), list[0]["tasks"].end());
  list[0]["dimensions"][0].erase("size");
  std::reverse(list.begin(), list.end());
  document["model"].erase("fingerprint");
  document["comment"] = "by hand";
  CHECK(io::parse_strategy(operators(), p.graph, p.machine, document.dump(), "s.json") == p.configurations);
}

TEST_CASE("strategy JSON of another model or machine is refused") {
  auto p = test::lenet_plan();
  p.graph = tensor::zoo::build(operators(), "zoo:mlp");
  CHECK_THAT(read_for(p), Catch::StartsWith("s.json: strategy.model: another model, \"zoo:lenet\" (") &&
                              Catch::Contains("expected this one ("));
  p.graph = tensor::zoo::build(operators(), "zoo:lenet?batch=16");  // as many nodes
  CHECK_THAT(read_for(p), Catch::StartsWith("s.json: strategy.model: another model"));
  p = test::lenet_plan();
  p.machine = hardware::preset("p100:2x4");
  CHECK(read_for(p) ==
        "s.json: strategy.machine: another machine, \"p100:1x4\" with 4 devices; expected \"p100:2x4\" with 8");
  p.machine = hardware::preset("k80:1x4");
  CHECK_THAT(read_for(p), Catch::Contains("another machine") && Catch::Contains("expected \"k80:1x4\" with 4"));
  CHECK_THAT(complaint("/model/nodes", 3), Catch::Contains("another model"));
  CHECK_THAT(complaint("/format", "unity plan"), Catch::Contains("another format"));
}

TEST_CASE("strategy JSON must name each operator of the model exactly once") {
  CHECK_THAT(complaint("/strategy/0/node", 99),
             Catch::Contains("strategy.strategy[0].node: is 99, which the model does not have"));
  CHECK_THAT(complaint("/strategy/0/node", -1), Catch::Contains("is -1, which the model does not have"));
  CHECK_THAT(
      complaint("/strategy/0/op", "matmul"),
      Catch::Contains(
          "strategy[0].op: is \"matmul\", and node 3 (conv2d) of the model is another; expected a strategy for this"));
  CHECK_THAT(complaint("/strategy/0", {{"node", 0}, {"op", "input"}}),
             Catch::Contains("node 0 (input), which has no operands"));
  CHECK_THAT(complaint("/strategy/0", removed), Catch::Contains("strategy.strategy: nothing for node 3 (conv2d)"));
  const auto document = nlohmann::json::parse(io::to_strategy_text(operators(), test::lenet_plan(), ""));
  CHECK_THAT(complaint("/strategy/1", document.at("strategy").at(0)),
             Catch::Contains("strategy[1].node: node 3 (conv2d) for the second time; expected each operator once"));
}

TEST_CASE("strategy JSON with invalid degrees or dimensions is refused") {
  const std::string first = "s.json: strategy.strategy[0].dimensions";
  CHECK(complaint("/strategy/0/dimensions/0/degree", 3) ==
        first + "[0].degree: is 3; expected a divisor of the size 8 of sample dimension 0");
  CHECK_THAT(complaint("/strategy/0/dimensions/0/degree", 0), Catch::Contains("[0].degree: is 0"));
  CHECK(complaint("/strategy/0/dimensions/0/degree", 4) ==
        first + ": more parts than the machine's 4 devices; expected one per device at most");
  CHECK_THAT(complaint("/strategy/0/dimensions/1", removed),
             Catch::Contains(first + ": 3 of them; expected 4: sample dimension 0, parameter"));
  CHECK(complaint("/strategy/0/dimensions/0/kind", "parameter") ==
        first + "[0]: is parameter dimension 0; expected sample dimension 0");
  CHECK_THAT(complaint("/strategy/0/dimensions/0/kind", "time"),
             Catch::Contains("expected sample, attribute, parameter or reduction"));
  CHECK_THAT(complaint("/strategy/0/dimensions/0/dimension", 1),
             Catch::Contains("is sample dimension 1; expected sample dimension 0"));
}

TEST_CASE("strategy JSON must give each shard exactly one task on a known device") {
  const std::string tasks = "s.json: strategy.strategy[0].tasks";
  CHECK(complaint("/strategy/0/tasks/3/part", {0, 1, 0, 0}) ==
        tasks + "[3].part: part [0,1,0,0] is that of tasks[1] too; expected shards that do not overlap");
  CHECK(complaint("/strategy/0/tasks/1", removed) ==
        tasks + ": no task for part [0,1,0,0]; expected a shard for each of the 4 parts");
  CHECK(complaint("/strategy/0/tasks", nlohmann::json::array()) ==
        tasks + ": no task for part [0,0,0,0] and 3 more; expected a shard for each of the 4 parts");
  CHECK(complaint("/strategy/0/tasks/3/part/1", 2) ==
        tasks + "[3].part[1]: is 2; expected a part of parameter dimension 1, 0 to 1");
  CHECK_THAT(complaint("/strategy/0/tasks/3/part/1", removed),
             Catch::Contains("[3].part: 3 numbers; expected one for each of the 4"));
  CHECK(complaint("/strategy/0/tasks/2/device", "n1/gpu0") ==
        tasks + "[2].device: no device has the name \"n1/gpu0\"; expected one of the machine's 4, such as \"n0/gpu0\"");
  CHECK_THAT(complaint("/strategy/0/tasks/2/device", "a\nb"), Catch::Contains("\"a\\nb\""));
}

TEST_CASE("graph fingerprints differ between models and sizes but not between algebras") {
  const auto& a = operators();
  std::set<std::string> all;
  const char* const models[] = {"zoo:lenet",         "zoo:lenet?batch=8", "zoo:mlp",
                                "zoo:mlp?hidden=64", "zoo:rnnlm?seq=2",   "zoo:rnnlm?seq=3"};
  for (const auto* m : models) {
    all.insert(io::graph_fingerprint(a, tensor::zoo::build(a, m)));
  }
  CHECK(all.size() == std::size(models));
  const auto standard = tensor::standard_algebra();
  CHECK(io::graph_fingerprint(standard, tensor::zoo::build(standard, "zoo:lenet")) ==
        io::graph_fingerprint(a, tensor::zoo::build(a, "zoo:lenet")));
}

}  // namespace tests_of_strategy_json
