#include <unity/hardware/presets.hpp>
#include <unity/io/resource_spec.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/hardware/topology.hpp>

#include "../support/message_of.hpp"

namespace tests_of_resource_spec {

namespace {

using namespace unity;
using hardware::device_id;

const std::string three_nodes =
    "# a comment\n"
    "nodes:\n"
    "  - address: 10.0.0.1\n"
    "    gpus: [0, 1]\n"
    "    chief: true\n"
    "    network_bandwidth: 25\n"
    "  - address: 10.0.0.2\n"
    "    gpus: [3]\n"
    "    ssh_config: conf\n"
    "    network_bandwidth: 100\n"
    "  - address: 10.0.0.3\n"
    "    cpus: [0]\n"
    "    ssh_config: conf\n"
    "ssh:\n"
    "  conf:\n"
    "    username: root\n";

device_id d(std::size_t i) { return device_id{i}; }
std::string complaint(const std::string& text, const char* gpu = "t4") {
  return unity::test::message_of([&] { static_cast<void>(io::parse_resource_spec(text, "r.yml", gpu)); });
}

TEST_CASE("GPU kinds are assigned to the nodes of a resource specification") {
  const auto m = io::parse_resource_spec(three_nodes, "r.yml", "m60+t4+v100");
  CHECK(hardware::model_of(m, d(0)) == hardware::find_model("m60"));
  CHECK(hardware::model_of(m, d(1)) == hardware::find_model("m60"));
  CHECK(hardware::model_of(m, d(2)) == hardware::find_model("t4"));
  CHECK(hardware::model_of(m, d(3)).kind == hardware::device_kind::cpu);
  CHECK(m.devices.size() == 3);
  const auto whole = io::parse_resources(three_nodes, "r.yml", "t4+m60+t4").machine;
  CHECK(hardware::model_of(whole, d(0)) == hardware::find_model("t4"));
  CHECK(hardware::model_of(whole, d(3)) == hardware::find_model("m60"));
  CHECK(complaint(three_nodes, "m60+t4") == "r.yml: 2 kinds of GPUs; expected one, or one for each of 3 nodes");
  CHECK(complaint(three_nodes, "m60+t4+").starts_with("r.yml: no GPU ''"));
}

TEST_CASE("nodes and their devices and bandwidths in a resource specification are read") {
  const auto m = io::parse_resource_spec(three_nodes, "r.yml", "a100");
  REQUIRE(m.network.device_count() == 4);
  CHECK(m.network[d(0)].name == "10.0.0.1:GPU:0");
  CHECK(m.network[d(2)].name == "10.0.0.2:GPU:3");
  CHECK(m.network[d(3)].name == "10.0.0.3:CPU:0");
  CHECK(m.network[d(2)].node == 1);
  CHECK(hardware::model_of(m, d(2)) == hardware::find_model("a100"));
  CHECK(hardware::model_of(m, d(3)).kind == hardware::device_kind::cpu);
  const hardware::route_table routes{m.network};
  CHECK(routes.cost(m.network, d(0), d(1)).bytes_per_second == 15'754'000'000);
  CHECK(routes.cost(m.network, d(0), d(2)).bytes_per_second == 3'125'000'000);
  CHECK(routes.cost(m.network, d(2), d(3)).bytes_per_second == 125'000'000);  // 1 Gb/s, where nothing is said
}

TEST_CASE("parse_resources lists replicas and servers with chief and ssh settings") {
  const auto all = io::parse_resources(three_nodes, "r.yml", "a100");
  const auto names = [&](const std::vector<device_id>& devices) {
    std::vector<std::string> texts;
    for (const auto x : devices) {
      texts.push_back(all.machine.network[x].name);
    }
    return texts;
  };
  CHECK(names(all.replicas) ==
        std::vector<std::string>{"10.0.0.1:GPU:0", "10.0.0.1:GPU:1", "10.0.0.2:GPU:3", "10.0.0.3:CPU:0"});
  CHECK(names(all.servers) == std::vector<std::string>{"10.0.0.1:CPU:0", "10.0.0.2:CPU:0", "10.0.0.3:CPU:0"});
  CHECK(all.chief == "10.0.0.1");
  CHECK(all.ssh_configs == std::vector<std::string>{"", "conf", "conf"});
  CHECK(all.ssh == "conf:\n  username: root");
  CHECK(hardware::model_of(all.machine, all.servers.front()).kind == hardware::device_kind::cpu);
  const auto one = io::parse_resources("nodes:\n  - address: localhost\n    gpus: [0]\n    cpus: [2, 5]\n", "r.yml");
  CHECK(one.chief == "localhost");
  CHECK(one.servers.size() == 2);
  CHECK(one.replicas.size() == 1);
  const auto whole = [](const std::string& text) {
    return unity::test::message_of([&] { static_cast<void>(io::parse_resources(text, "r.yml")); });
  };
  CHECK(whole("nodes:\n  - address: a\n  - address: b\n") ==
        "r.yml, line 2: resources.nodes: none is the chief; expected one with `chief: true`");
  CHECK(whole("nodes:\n  - address: a\n    chief: true\n  - address: b\n    chief: true\n") ==
        "r.yml, line 2: resources.nodes: a second chief, b; expected one");
}

TEST_CASE("a resource specification is read from a file; a node without devices gets one CPU") {
  const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "resource_spec.yml";
  atomic_write(file, "nodes:\n  - address: localhost\n");
  const auto m = io::read_resource_spec(file);
  REQUIRE(m.network.device_count() == 1);
  CHECK(m.network[d(0)].name == "localhost:CPU:0");
  CHECK(m.name == file.string());
}

TEST_CASE("resource specification errors name the file and the line and what was expected") {
  CHECK_THAT(complaint("nodes: ["), Catch::StartsWith("r.yml, line 1: is not YAML: ") && !Catch::Contains("\n"));
  CHECK(complaint("ssh: {}") == "r.yml, line 1: resources: has no 'nodes'; expected one");
  CHECK(complaint("[]") == "r.yml, line 1: resources: is not a mapping; expected keys and values");
  CHECK(complaint("nodes: 7") == "r.yml, line 1: resources.nodes: is not a list; expected a list");
  CHECK(complaint("nodes: []") == "r.yml, line 1: resources.nodes: is empty; expected a node");
  CHECK(complaint("nodes:\n  - gpus: [0]") == "r.yml, line 2: resources.nodes[0]: has no 'address'; expected one");
  CHECK(complaint("nodes:\n  - address: a\n    gpus: [0, x]") ==
        "r.yml, line 3: resources.nodes[0].gpus[1]: is 'x'; expected a number");
  CHECK(complaint("nodes:\n  - address: a\n    gpus: [0, 0]") ==
        "r.yml, line 3: resources.nodes[0].gpus[1]: is 0; expected numbers of at least 0, each once");
  CHECK(complaint("nodes:\n  - address: a\n    gpus: [0]\n    gpus: [1]") ==
        "r.yml, line 2: resources.nodes[0]: has 'gpus' 2 times; expected one");
  CHECK(complaint("nodes:\n  - address: a\n    gpus: 4") ==
        "r.yml, line 3: resources.nodes[0].gpus: is not a list; expected a list");
  CHECK(complaint("nodes:\n  - address: [a]") ==
        "r.yml, line 2: resources.nodes[0].address: is not a scalar; expected an address");
  CHECK(
      complaint("nodes:\n  - address: a\n    network_bandwidth: 0") ==
      "r.yml, line 3: resources.nodes[0].network_bandwidth: is '0'; expected gigabits per second above 0, 1e6 at most");
  CHECK_THAT(complaint("nodes:\n  - address: a\n    network_bandwidth: 12500000000"), Catch::Contains("1e6 at most"));
  CHECK_THAT(complaint("nodes:\n  - address: a\n    network_bandwidth: .nan"), Catch::Contains("1e6 at most"));
  CHECK(complaint("nodes:\n  - address: a\n    network_bandwidth: fast") ==
        "r.yml, line 3: resources.nodes[0].network_bandwidth: is 'fast'; expected a number of gigabits per second");
  CHECK_THAT(complaint("nodes:\n  - address: a\n  - address: a"),
             Catch::StartsWith("r.yml, line 3: resources.nodes[1]: the address a a second time"));
  CHECK(complaint(three_nodes, "abacus") == "r.yml: no GPU 'abacus'; expected " + hardware::gpu_names());
  CHECK_THAT(complaint(""), Catch::Contains("is not a mapping"));
  const std::vector<std::pair<std::string, std::string>> no_addresses{
      {"\"a\\nb\"", "a b"}, {"\"\"", ""}, {"\"a b\"", "a b"}, {"\xc3\xa9", "\xc3\xa9"}};
  for (const auto& [address, shown] : no_addresses) {
    CHECK(complaint("nodes:\n  - address: " + address) == "r.yml, line 2: resources.nodes[0].address: is '" + shown +
                                                              "'; expected an address of visible ASCII characters");
  }
  CHECK_THAT(complaint("\"\\\n\t"), Catch::StartsWith("r.yml, line ") && !Catch::Contains("\n"));
  CHECK_THAT(complaint("nodes:\n  - address: a\n    gpus: [\"x\\ny\"]"),
             Catch::Contains("is 'x y'") && !Catch::Contains("\n"));
}

}  // namespace

}  // namespace tests_of_resource_spec
