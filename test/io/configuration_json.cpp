#include <unity/io/configuration_json.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tensor/builder.hpp>

#include "../parallel/divided_at_random.hpp"
#include "../support/message_of.hpp"
#include "../support/operators.hpp"
#include "plan_complaint.hpp"

namespace tests_of_configuration_json {

using namespace unity;
using hardware::device_id;
using test::training::operators;

namespace {

const nlohmann::json removed(nlohmann::json::value_t::discarded);

// Node 3 is a product that is divided in two parts of its sum, with two copies; node 4 adds them up on all devices.
parallel::plan summed_plan() {
  tensor::builder b{operators()};
  const auto x = b.input("x", {8, 12});
  const auto h = b.linear(x, b.weight("w", {12, 6}), b.weight("bias", {6}));
  parallel::plan p{std::move(b).finish({b.relu(h)}), {}, hardware::preset("p100:2x4")};
  p.configurations.resize(p.graph.node_count());
  auto& product = p.configurations[3];
  product = {{1, 1}, {}, {2}, {}, 2};
  const parallel::graph_dimensions all{operators(), p.graph};
  product.partials = parallel::degree_list(all[node_id{3U}].groups.size(), 1);
  product.partials[0] = 2;
  for (std::size_t d = 0; d < 8; ++d) {
    product.devices.push_back(device_id{7 - d});
  }
  p.configurations[4] = {{2, 1}, {device_id{0U}, device_id{5U}}};
  return p;
}

parallel::plan read(const std::string& text) { return io::parse_plan(operators(), text, "p.json"); }
std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  return test::complaint_of(io::to_plan_text(operators(), summed_plan()), pointer, value,
                            [](const std::string& text) { static_cast<void>(read(text)); });
}

}  // namespace

TEST_CASE("terms/copies/reductions of configurations survive a JSON round trip") {
  const auto* const model =
      GENERATE("zoo:lenet?batch=12", "zoo:nmt?batch=12&hidden=24&vocab=36&seq=2", "zoo:mlp?batch=32");
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(model, seed);
  random_engine random{seed};
  auto p = test::random_plan(model, "p100:2x4", seed);
  const parallel::graph_dimensions all{operators(), p.graph};
  p.configurations = parallel::test::divided_at_random(p.graph, all, 8, random);
  const auto text = io::to_plan_text(operators(), p);
  const auto again = read(text);
  CHECK(again == p);
  CHECK(io::to_plan_text(operators(), again) == text);
  const auto document = nlohmann::json::parse(text);
  for (const auto& entry : document.at("strategy")) {
    const auto& c = p.configurations[entry.at("node").get<std::size_t>()];
    CHECK(entry.contains("reductions") == !c.reductions.empty());
    CHECK(entry.contains("terms") == !c.partials.empty());
    CHECK(entry.contains("copies") == (c.copies > 1));
  }
}

TEST_CASE("a plan with partial sums simulates to the same times after a JSON round trip") {
  const auto p = summed_plan();
  const auto again = read(io::to_plan_text(operators(), p));
  CHECK(again == p);
  CHECK(simulate::full_simulation{}.run(parallel::lower(operators(), again)) ==
        simulate::full_simulation{}.run(parallel::lower(operators(), p)));
}

TEST_CASE("invalid terms/copies/reductions in a plan's JSON are reported with their path") {
  CHECK(complaint("/strategy/0/reductions/0/degree", 9) ==
        "p.json: plan.strategy[0].reductions[0]: more parts than the machine's 8 devices; expected one per device at "
        "most");
  CHECK_THAT(complaint("/strategy/0/reductions/0/degree", 0),
             Catch::Contains("plan.strategy[0].reductions[0].degree: is 0"));
  CHECK_THAT(complaint("/strategy/0/reductions/0/index", "n"),
             Catch::Contains("reductions[0].index: is \"n\"; expected the sum over k"));
  CHECK_THAT(complaint("/strategy/0/terms/0/operands", {7}), Catch::Contains("terms[0].operands: are [7]"));
  CHECK_THAT(complaint("/strategy/0/terms/1", removed),
             Catch::Contains("terms: 1 of them; expected one for each of the operator's 2 linear groups"));
  CHECK_THAT(complaint("/strategy/0/copies", 0), Catch::Contains("plan.strategy[0].copies: is 0; expected 1 or more"));
  CHECK_THAT(complaint("/strategy/0/copies", 3), Catch::Contains("plan.strategy[0].copies: more parts"));
  CHECK_THAT(complaint("/strategy/0/copies", removed),
             Catch::Contains("is that of tasks[0] too; expected shards that do not overlap"));
  CHECK_THAT(complaint("/strategy/0/tasks/5/copy", 2), Catch::Contains("tasks[5].copy: is 2; expected a copy, 0 to 1"));
  CHECK_THAT(complaint("/strategy/0/tasks/5/term/0", 2),
             Catch::Contains("tasks[5].term[0]: is 2; expected a part of linear group 0, 0 to 1"));
  CHECK_THAT(complaint("/strategy/0/tasks/5/reduction/0", -1),
             Catch::Contains("expected a part of the sum over k, 0 to 1"));
  CHECK_THAT(complaint("/strategy/0/tasks/5", removed),
             Catch::Contains("no task for part [0,0] reduction [1] term [1,0] copy 0"));
  CHECK_THAT(complaint("/graph/outputs/0", 3),
             Catch::Contains("p.json: plan.strategy: node 3 has an output of the graph that consists of partial sums"));
}

TEST_CASE("huge or deeply nested operand lists of a term are refused with a short message") {
  const auto text = io::to_plan_text(operators(), summed_plan());
  const std::string operands = "\"operands\":[";
  auto at = text.find(operands, text.find("\"terms\""));
  REQUIRE(at != std::string::npos);
  at += operands.size();
  const auto message = [&](const std::string& more) {
    return test::message_of([&] { static_cast<void>(read(text.substr(0, at) + more + text.substr(at))); });
  };
  CHECK_THAT(message(std::string(300'000, '[') + std::string(300'000, ']') + ","),
             Catch::Contains("terms[0].operands[0]: is array; expected an integer"));
  std::string many;
  for (int i = 0; i < 100'000; ++i) {
    many += "7,";
  }
  CHECK_THAT(message(many), Catch::Contains("terms[0].operands: are [7,7,"));
  CHECK(message(many).size() < 300);
}

TEST_CASE("a plan with partial sums and one random change is read or refused in one line") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  const auto flat = nlohmann::json::parse(io::to_plan_text(operators(), summed_plan())).at("strategy").flatten();
  const nlohmann::json values[] = {-1, 0, 1, 3, INT64_MAX, UINT64_MAX, 1e300, "k", nullptr, {1, 2}, {{"a", 1}}};
  std::size_t refused = 0;
  for (int i = 0; i < 300; ++i) {
    auto member = flat.begin();
    std::advance(member, static_cast<std::ptrdiff_t>(random.below(flat.size())));
    const auto& value = random.below(4) == 0 ? removed : values[random.below(std::size(values))];
    const auto line = complaint("/strategy" + member.key(), value);
    CHECK(line.find("p.json") == (line.empty() ? std::string::npos : 0));
    refused += line.empty() ? 0U : 1U;
  }
  CHECK(refused > 150);
}

}  // namespace tests_of_configuration_json
