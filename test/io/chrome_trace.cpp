#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include <unity/io/chrome_trace.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace tests_of_chrome_trace {

using namespace unity;

TEST_CASE("a Chrome trace has threads for streams and links and events for tasks and memory") {
  tasks::program p;
  p.add_resource({"gpu \"0\"", tasks::resource_kind::stream, 0});
  p.add_resource({"link", tasks::resource_kind::link, 0});
  const auto f = p.add_fragment({tasks::owner_kind::node, 4, "matmul\n4"});
  tasks::fragment fragment;
  fragment.add({tasks::resource_id{0u}, picoseconds{1'234'567}, {}, {}, tasks::task_kind::backward, 3});
  const tasks::task_ref from{{}, 0};
  const tasks::hop one{tasks::resource_id{1u}, picoseconds{5}, picoseconds{2}};
  tasks::add_transfer(fragment, {&one, 1}, bytes{64}, 3, {&from, 1});
  fragment.buffers.push_back({bytes{1000}, 0, from, false});
  p.replace(f, fragment);
  p.commit();
  simulate::full_simulation s;
  s.run(p);
  const auto text = io::to_chrome_trace(p, s.times());
  CHECK(text.find("\"dur\":1.234567,") != std::string::npos);
  CHECK(text.find("\"ts\":1.234567,") != std::string::npos);
  CHECK(text.find("\"dur\":0.000005,") != std::string::npos);
  const auto trace = nlohmann::json::parse(text);
  std::map<std::string, std::vector<nlohmann::json>> by_phase;
  for (const auto& e : trace.at("traceEvents")) {
    by_phase[e.at("ph")].push_back(e);
  }
  REQUIRE(by_phase["M"].size() == 4);
  CHECK(by_phase["M"][2]["args"]["name"] == "gpu \"0\"");
  REQUIRE(by_phase["X"].size() == 2);
  CHECK(by_phase["X"][0]["name"] == "matmul\n4");
  CHECK(by_phase["X"][0]["pid"] == 0);
  CHECK(by_phase["X"][0]["tid"] == 0);
  CHECK(by_phase["X"][0]["args"]["kind"] == "backward");
  CHECK(by_phase["X"][0]["args"]["shard"] == 3);
  CHECK(by_phase["X"][1]["pid"] == 1);
  CHECK(by_phase["X"][1]["tid"] == 1);
  CHECK(by_phase["X"][1]["args"]["bytes"] == 64);
  REQUIRE(by_phase["C"].size() == 2);
  CHECK(by_phase["C"][0]["args"]["bytes"] == 1000);
  CHECK(by_phase["C"][1]["args"]["bytes"] == 0);
}

TEST_CASE("an empty program gives a valid Chrome trace") {
  const auto trace = nlohmann::json::parse(io::to_chrome_trace(tasks::program{}, {}));
  CHECK(trace.at("traceEvents").size() == 2);
}

}  // namespace tests_of_chrome_trace
