#include <unity/io/json.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/plan_json.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/simulate/full.hpp>

#include "../support/cases.hpp"
#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "plan_complaint.hpp"

namespace tests_of_plan_json {

using namespace unity;
using test::training::operators;

namespace {

const nlohmann::json removed(nlohmann::json::value_t::discarded);

std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  return test::complaint_of(
      io::to_plan_text(operators(), test::lenet_plan()), pointer, value,
      [](const std::string& text) { static_cast<void>(io::parse_plan(operators(), text, "p.json")); });
}
std::string plan_problem(std::string_view text) {
  return unity::test::message_of([&] { static_cast<void>(io::parse_plan(operators(), text, "p.json")); });
}

}  // namespace

TEST_CASE("plans of zoo models with random strategies survive a JSON round trip") {
  const auto* const model =
      GENERATE("zoo:lenet", "zoo:alexnet?batch=16", "zoo:rnnlm?seq=3", "zoo:nmt?seq=2", "zoo:dlrm", "zoo:candle_uno",
               "zoo:inception_v3", "zoo:bert?layers=1", "zoo:mlp?batch=32");
  const auto* const on = GENERATE("p100:1x4", "k80:4x4", "summit:2x6");
  const auto seed = GENERATE(1U, 2U);
  if (static unity::test::one_of_some is_tried; !is_tried()) {
    return;
  }
  CAPTURE(model, on, seed);
  const auto p = test::random_plan(model, on, seed);
  const auto text = io::to_plan_text(operators(), p);
  const auto again = io::parse_plan(operators(), text, "p.json");
  CHECK(again.graph == p.graph);
  CHECK(again.configurations == p.configurations);
  CHECK(again.machine == p.machine);
  CHECK(io::to_plan_text(operators(), again) == text);
}

TEST_CASE("a plan survives a round trip through a file with the same simulated times") {
  const auto p = test::random_plan("zoo:lenet", "p100:2x4", 7);
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "io_plan_json.json";
  io::write_plan(operators(), p, file);
  const auto again = io::read_plan(operators(), file);
  CHECK(again == p);
  CHECK(simulate::full_simulation{}.run(parallel::lower(operators(), again)) ==
        simulate::full_simulation{}.run(parallel::lower(operators(), p)));
}

TEST_CASE("pipeline and optimizer of a plan survive a JSON round trip or are refused if invalid") {
  auto p = test::lenet_plan();
  p.updates = parallel::optimizer::adam;
  p.pipeline = {4, std::vector<std::uint32_t>(p.machine.network.device_count())};
  const auto text = io::to_plan_text(operators(), p);
  CHECK_THAT(text, Catch::Contains("\"optimizer\": \"adam\"") && Catch::Contains("\"microbatches\":4"));
  const auto again = io::parse_plan(operators(), text, "p.json");
  CHECK(again == p);
  const auto times = [](const parallel::plan& x) {
    return simulate::full_simulation{}.run(parallel::lower(operators(), x));
  };
  CHECK(times(again) == times(p));
  auto plain = p;
  plain.pipeline = {};
  CHECK(times(p) > times(plain));

  const auto wrong = [&](const char* pointer, const nlohmann::json& value) {
    return test::complaint_of(text, pointer, value, [](const std::string& t) {
      static_cast<void>(io::parse_plan(operators(), t, "p.json"));
    });
  };
  CHECK(wrong("/optimizer", "lamb") == "p.json: plan.optimizer: is \"lamb\"; expected sgd, momentum or adam");
  CHECK_THAT(wrong("/pipeline/microbatches", 0),
             Catch::Contains("plan.pipeline") && Catch::Contains("0 micro-batches"));
  CHECK_THAT(wrong("/pipeline/stages/0", -1), Catch::Contains("plan.pipeline.stages[0]: is -1"));
  CHECK_THAT(wrong("/pipeline/stages", nlohmann::json::array()), Catch::Contains("no stages"));
  CHECK(wrong("/pipeline/schedule", "dualpipe") ==
        "p.json: plan.pipeline.schedule: is \"dualpipe\"; expected one_forward_one_backward, gpipe, interleaved or "
        "zero_bubble");
  CHECK_THAT(wrong("/pipeline/chunks", 0), Catch::Contains("plan.pipeline.chunks: is 0"));
  CHECK_THAT(wrong("/pipeline/schedule", "zero_bubble"), Catch::Contains("schedule zero_bubble of one stage"));
}

TEST_CASE("recomputed operators of a plan survive a JSON round trip or are refused if invalid") {
  auto p = test::lenet_plan();
  p.recomputed = parallel::full_recomputation(p.graph);
  REQUIRE(std::count(p.recomputed.begin(), p.recomputed.end(), true) > 1);
  const auto text = io::to_plan_text(operators(), p);
  CHECK(io::parse_plan(operators(), text, "p.json") == p);
  const auto wrong = [&](const char* pointer, const nlohmann::json& value) {
    return test::complaint_of(text, pointer, value, [](const std::string& t) {
      static_cast<void>(io::parse_plan(operators(), t, "p.json"));
    });
  };
  CHECK_THAT(wrong("/recomputed/0", 1000), Catch::Contains("plan.recomputed[0]: is 1000; expected numbers of the"));
  CHECK_THAT(wrong("/recomputed", nlohmann::json::array({p.graph.node_count() - 1})),
             Catch::Contains("an output of the graph, which is kept"));
  CHECK_THAT(wrong("/recomputed/0", -1), Catch::Contains("is -1"));
  CHECK_THAT(wrong("/recomputed", 3), Catch::Contains("plan.recomputed"));
  p.recomputed.pop_back();
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p), Catch::StartsWith("recomputation: of "));
}

TEST_CASE("offloaded results of a plan survive a JSON round trip or are refused if invalid") {
  auto p = test::lenet_plan();
  p.recomputed = parallel::recomputation_between_products(operators(), p.graph);
  p.offloaded = parallel::offloaded_results(operators(), p.graph, p.recomputed, true);
  REQUIRE(std::count(p.offloaded.begin(), p.offloaded.end(), true) > 1);
  const auto text = io::to_plan_text(operators(), p);
  CHECK(io::parse_plan(operators(), text, "p.json") == p);
  const auto wrong = [&](const char* pointer, const nlohmann::json& value) {
    return test::complaint_of(text, pointer, value, [](const std::string& t) {
      static_cast<void>(io::parse_plan(operators(), t, "p.json"));
    });
  };
  CHECK_THAT(wrong("/offloaded/0", 1000), Catch::Contains("plan.offloaded[0]: is 1000; expected numbers of the"));
  CHECK_THAT(wrong("/offloaded", nlohmann::json::array({p.graph.node_count() - 1})),
             Catch::Contains("an output of the graph, which stays"));
  CHECK_THAT(wrong("/recomputed", nlohmann::json::parse(text).at("offloaded")),
             Catch::Contains("plan.offloaded: offloading, node") && Catch::Contains("an operator that is recomputed"));
  p.offloaded.pop_back();
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p), Catch::StartsWith("offloading: of "));
}

TEST_CASE("an invalid plan is not written to JSON") {
  auto p = test::lenet_plan();
  p.configurations[3].degrees[0] = 3;
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p),
                    Catch::Contains("node 3 (conv2d)") && Catch::Contains("does not divide"));
  p = test::lenet_plan();
  p.machine.network = {};
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p), Catch::Contains("no topology"));
  p = test::lenet_plan();
  p.machine.devices[0].memory = bytes{};
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p),
                    Catch::StartsWith("machine p100:1x4: 0 bytes of memory of device"));
  p = test::lenet_plan();
  p.machine.devices.push_back(p.machine.devices[0]);
  CHECK_THROWS_WITH(io::to_plan_text(operators(), p), Catch::Contains("two kinds of device named"));
}

TEST_CASE("a document that is not a plan is refused with its path") {
  CHECK_THAT(plan_problem("{\"format\": "), Catch::Contains("p.json, byte") && Catch::Contains("is not JSON"));
  CHECK_THAT(plan_problem("[]"), Catch::Contains("p.json: plan: has no \"format\""));
  CHECK(complaint("/format", "unity graph") ==
        "p.json: plan: another format; expected \"format\": \"unity plan\", \"version\": 1");
  CHECK_THAT(complaint("/version", 2), Catch::Contains("another format"));
  for (const auto* member : {"/graph", "/machine", "/strategy"}) {
    CHECK_THAT(complaint(member, removed), Catch::Contains("p.json: plan: has no \"" + std::string{member + 1} + "\""));
  }
}

TEST_CASE("errors in the graph of a plan's JSON are reported with their path") {
  CHECK(complaint("/graph/nodes/3/op", "conv3d") ==
        "p.json: plan.graph.nodes[3].op: unknown operator \"conv3d\"; expected an operator of the tensor algebra");
  CHECK_THAT(complaint("/graph/nodes/3/operands/1", 2),
             Catch::Contains("p.json: plan.graph.nodes[3]: operands that conv2d does not take"));
  CHECK_THAT(complaint("/graph/nodes/3/operands/1", 99),
             Catch::Contains("plan.graph.nodes[3].operands[1]: value 99 is not defined before"));
  CHECK_THAT(complaint("/graph/nodes/0/results/0/dims/0", 9),
             Catch::Contains("plan.graph.nodes[0].results: results of other types"));
}

TEST_CASE("errors in the machine of a plan's JSON are reported with their path") {
  CHECK_THAT(
      complaint("/machine/topology/links/2/to", "nowhere"),
      Catch::Contains("p.json: plan.machine.topology.links[2].to: no device or switch has the name \"nowhere\""));
  CHECK_THAT(complaint("/machine/topology/links/0/bytes_per_second", 0),
             Catch::Contains("links[0].bytes_per_second: is 0"));
  CHECK_THAT(complaint("/machine/topology/links", nlohmann::json::array()),
             Catch::Contains("p.json: plan.machine.topology: no route"));
  CHECK(complaint("/machine/topology", removed) ==
        "p.json: plan.machine: no topology; expected devices and what connects them");
}

TEST_CASE("a strategy for another model or machine in a plan's JSON is refused") {
  CHECK(complaint("/graph", io::to_json(operators(), tensor::zoo::build(operators(), "zoo:mlp?batch=8")))
            .find("p.json: plan.strategy[") == 0);
  CHECK_THAT(complaint("/graph", io::to_json(operators(), tensor::zoo::build(operators(), "zoo:lenet?batch=16"))),
             Catch::Contains(
                 "plan.strategy[0].dimensions[0].size: is 8; expected 16 as in the model, for sample dimension 0"));
  CHECK_THAT(complaint("/machine", io::to_json(hardware::preset("p100:1x2"))),
             Catch::Contains("plan.strategy[0].dimensions: more parts than the machine's 2 devices"));
}

TEST_CASE("truncated plan JSON is an error") {
  const auto text = io::to_plan_text(operators(), test::lenet_plan());
  for (std::size_t length = 0; length + 2 < text.size(); length += 1 + length / 40) {
    CHECK_THAT(plan_problem(std::string_view{text}.substr(0, length)), Catch::Contains("is not JSON"));
  }
}

TEST_CASE("deeply nested plan JSON is refused") {
  const std::string deep(1'000'000, '[');
  CHECK_THAT(plan_problem(deep), Catch::Contains("is not JSON"));
  CHECK_THAT(plan_problem(deep + std::string(deep.size(), ']')), Catch::Contains("has no \"format\""));
}

// Changes or removes one random member of the document.
TEST_CASE("a plan with one random change is read or gives a one-line error") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  const auto flat = nlohmann::json::parse(io::to_plan_text(operators(), test::lenet_plan())).flatten();
  const nlohmann::json values[] = {-1,    0,         1,      3,       1'000'000'007, INT64_MAX, UINT64_MAX,
                                   1e300, "n0/gpu1", "relu", nullptr, true,          {1, 2},    {{"a", 1}}};
  std::size_t refused = 0;
  constexpr int changes = unity::test::all_or(400, 60);
  for (int i = 0; i < changes; ++i) {
    auto changed = flat;
    auto member = changed.begin();
    std::advance(member, static_cast<std::ptrdiff_t>(random.below(changed.size())));
    if (random.below(4) == 0) {
      changed.erase(member);
    } else {
      *member = values[random.below(std::size(values))];
    }
    std::string text;
    try {
      text = changed.unflatten().dump();
    } catch (const nlohmann::json::exception&) {
      continue;  // the result is not a valid document
    }
    const auto line = plan_problem(text);
    CHECK(line.find('\n') == std::string::npos);
    refused += line.empty() ? 0 : 1;
  }
  CHECK(refused > changes / 2);
}

}  // namespace tests_of_plan_json
