// AutoDist's strategies in the format of this library.
#include <unity/io/synchronization_json.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include <unity/core/random.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/systems/autodist/builders.hpp>
#include <unity/tensor/zoo.hpp>

#include "../parallel/replicated_plan.hpp"
#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_synchronization_json {

namespace {

using namespace unity;
using unity::test::training::operators;

parallel::plan plan_of(const std::string& model, const std::string& machine) {
  return parallel::test::replicated_plan(operators(), model, machine);
}

}  // namespace

TEST_CASE("invalid synchronization JSON is refused in one line") {
  auto p = plan_of("zoo:mlp?layers=2&hidden=12&batch=8", "p100:1x2");
  const auto problem = systems::sync_problem_of(operators(), p.graph, {hardware::device_id{1U}});
  p.synchronization = systems::partitioned_all_reduce(problem);
  const auto good = nlohmann::json::parse(io::to_synchronization_text(operators(), p));
  const auto complaint = [&](const auto& change) {
    auto all = good;
    change(all);
    const auto text = unity::test::message_of([&] {
      static_cast<void>(io::parse_synchronization(operators(), p.graph, p.machine.network, all.dump(), "s.json"));
    });
    CHECK(text.find('\n') == std::string::npos);
    CHECK((text.empty() || text.starts_with("s.json")));
    return text;
  };
  const auto of_weight = [&](const nlohmann::json& weight) {
    return complaint([&](auto& all) {
      const auto node = all["weights"][0]["node"];
      all["weights"][0] = weight;
      all["weights"][0]["node"] = node;
    });
  };
  REQUIRE(complaint([](auto&) {}).empty());
  CHECK_THAT(complaint([](auto& all) { all["version"] = 2; }), Catch::Contains("another format or version"));
  CHECK_THAT(complaint([](auto& all) { all.erase("weights"); }), Catch::Contains("weights"));
  CHECK_THAT(complaint([](auto& all) { all["replicas"][0] = "far"; }), Catch::Contains("a device of the machine"));
  CHECK_THAT(complaint([](auto& all) { all["replicas"] = nlohmann::json::array(); }), Catch::Contains("is empty"));
  CHECK_THAT(complaint([](auto& all) { all["weights"][0]["node"] = 999; }), Catch::Contains("the node of a weight"));
  CHECK_THAT(complaint([](auto& all) { all["weights"].push_back(all["weights"][0]); }), Catch::Contains("each once"));
  CHECK_THAT(complaint([](auto& all) { all["weights"][0]["axis"] = 7; }), Catch::Contains("parts along axis 7"));
  CHECK_THAT(complaint([](auto& all) { all["weights"][0]["parts"] = nlohmann::json::array(); }),
             Catch::Contains("0 parts"));
  CHECK_THAT(of_weight({{"how", "magic"}}), Catch::Contains("all_reduce, sharded, parameter_server or none"));
  CHECK_THAT(of_weight({{"how", "parameter_server"}, {"device", "far"}}), Catch::Contains("no device has the name"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"bucket", "none"}}), Catch::Contains("no bucket has the name"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"staleness", 2}}), Catch::Contains("staleness of all_reduce"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"staleness", -1}}), Catch::Contains("a number from 0"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"compressor", {{"kind", "zip"}}}}), Catch::Contains("power_sgd"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"compressor", {{"kind", "top_k"}}}}),
             Catch::Contains("an amount of 0"));
  CHECK_THAT(of_weight({{"how", "all_reduce"}, {"sparse", true}}), Catch::Contains("lookups alone"));
}

TEST_CASE("truncated or altered synchronization JSON is refused in one line or stays valid", "[law]") {
  auto p = plan_of("zoo:dlrm?form=ae&batch=8&hidden=8&vocab=40", "p100:1x2");
  const auto problem = systems::sync_problem_of(operators(), p.graph, {hardware::device_id{1U}});
  p.synchronization = systems::parallax(problem);
  const auto good = io::to_synchronization_text(operators(), p);
  random_engine random{4};
  std::size_t read = 0;
  for (int i = 0; i < 5000; ++i) {
    auto some = i % 5 == 0 ? good.substr(0, random.below(good.size())) : good;
    for (std::size_t k = 0; k < 1 + random.below(2) && !some.empty(); ++k) {
      some[random.below(some.size())] = static_cast<char>(random.below(256));
    }
    const auto text = unity::test::message_of([&] {
      const auto found = io::parse_synchronization(operators(), p.graph, p.machine.network, some, "s.json");
      parallel::check(operators(), p.graph, found.sync, 2);
    });
    CHECK(text.find('\n') == std::string::npos);
    CHECK((text.empty() || text.starts_with("s.json")));
    read += text.empty() ? 1 : 0;
  }
  CHECK(read > 50);  // white space, and names of buckets
}

}  // namespace tests_of_synchronization_json
