// The topologies of machine JSON.
#include <unity/hardware/presets.hpp>
#include <unity/io/machine_json.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <unity/core/random.hpp>

#include "machine_complaint.hpp"

namespace tests_of_machine_topology {

namespace {

using namespace unity;
using hardware::duplex;
using hardware::vertex_id;

const nlohmann::json removed(nlohmann::json::value_t::discarded);

// Two kinds of device on two nodes, and one cable of each kind.
hardware::machine example() {
  hardware::machine m;
  m.name = "mixed";
  m.devices = {hardware::find_model("t4").value(), hardware::find_model("a100").value()};
  const auto v = [](std::size_t i) { return vertex_id{i}; };
  m.network = {{{"n0/gpu0", 0, 0}, {"n0/gpu1", 0, 0}, {"n1/gpu0", 1, 1}},
               {"n0/pcie", "ethernet"},
               {{v(0), v(3), 15'754'000'000, picoseconds{400'001}, duplex::full},
                {v(3), v(1), 15'754'000'001, picoseconds{400'000}, duplex::half},
                {v(3), v(4), 12'500'000'000, picoseconds{5'000'000}, duplex::full},
                {v(2), v(4), 3'125'000'000, picoseconds{0}, duplex::full},
                {v(0), v(1), 20'000'000'000, picoseconds{1}, duplex::simplex}}};
  return m;
}
std::string complaint(const std::string& pointer, const nlohmann::json& value) {
  return test::machine_complaint(example(), pointer, value);
}

TEST_CASE("topologies of machines survive a JSON round trip") {
  CHECK(io::parse_machine(io::to_json(example()).dump(), "m.json") == example());
  for (const auto* text : {"p100:4x4", "k80:16x4", "summit:2x6", "dgx_h100:2x8", "host:1x4"}) {
    CAPTURE(text);
    const auto m = hardware::preset(text);
    const auto file = std::filesystem::path{UNITY_TEST_SCRATCH_DIR} / "machine_topology.json";
    io::write_machine(m, file);
    CHECK(io::read_machine(file) == m);
  }
}

TEST_CASE("topology JSON lists reducing switches and refuses devices and unknown names there") {
  const auto m = hardware::preset("dgx_h100:2x4");
  auto document = io::to_json(m);
  CHECK(document["topology"]["reducing"].size() == 2);
  document["topology"]["reducing"] = {"n0/nvswitch"};
  const auto read = io::parse_machine(document.dump(), "m.json");
  std::size_t reducing = 0;
  for (std::size_t v = 0; v < read.network.vertex_count(); ++v) {
    reducing += read.network.reduces(hardware::vertex_id{v}) ? 1 : 0;
  }
  CHECK(reducing == 1);
  document["topology"]["reducing"] = {"n0/gpu1"};
  CHECK(unity::test::message_of([&] { static_cast<void>(io::parse_machine(document.dump(), "m.json")); }) ==
        "m.json: machine.topology.reducing[0]: \"n0/gpu1\" is a device; expected a switch");
  document["topology"]["reducing"] = {"n7/nvswitch"};
  CHECK_THAT(unity::test::message_of([&] { static_cast<void>(io::parse_machine(document.dump(), "m.json")); }),
             Catch::Contains("topology.reducing[0]: no device or switch has the name \"n7/nvswitch\""));
}

TEST_CASE("random latencies and bandwidths survive a topology's JSON round trip exactly") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 100; ++i) {
    auto m = example();
    auto cables = std::vector(m.network.cables().begin(), m.network.cables().end());
    cables[0].latency = picoseconds{random.between(0, 100'000'000'000)};
    cables[0].bytes_per_second = random.between(1'000'000, 1'000'000'000'000'000);
    m.network = {{m.network.devices().begin(), m.network.devices().end()},
                 {m.network.switches().begin(), m.network.switches().end()},
                 cables};
    REQUIRE(io::parse_machine(io::to_json(m).dump(), "m.json") == m);
  }
}

TEST_CASE("machine JSON of version 1 is read without a topology and with any positive rates") {
  auto document = io::to_json(example());
  document["version"] = 1;
  document["topology"] = "of no interest";
  document["devices"][0]["bytes_per_second"] = 1;
  const auto m = io::parse_machine(document.dump(), "m.json");
  CHECK(m.network.empty());
  CHECK(m.devices[0].bytes_per_second == 1);
  CHECK(m.devices[1] == example().devices[1]);
}

TEST_CASE("unknown and repeated names in a topology are reported with their path") {
  CHECK(complaint("/topology/links/2/to", "ethernot") ==
        "m.json: machine.topology.links[2].to: no device or switch has the name \"ethernot\"; expected a name out of "
        "topology");
  CHECK(complaint("/topology/devices/2/model", "abacus") ==
        "m.json: machine.topology.devices[2].model: no kind of device has the name \"abacus\"; expected a name out of "
        "machine.devices");
  CHECK(complaint("/topology/devices/1/name", "n0/gpu0") ==
        "m.json: machine.topology.devices[1].name: is \"n0/gpu0\" as before; expected a name of its own");
  CHECK_THAT(complaint("/topology/switches/1", "n0/gpu0"), Catch::Contains("switches[1]: is \"n0/gpu0\" as before"));
  CHECK_THAT(complaint("/devices/1/name", "NVIDIA T4"), Catch::Contains("two kinds of device named \"NVIDIA T4\""));
  CHECK_THAT(complaint("/topology/links/0/from", "n0/pcie"),
             Catch::Contains("links[0] (n0/pcie - n0/pcie): both ends are the same"));
}

TEST_CASE("unreachable devices in a topology are reported") {
  CHECK(complaint("/topology/links/3/to", "n0/gpu0") ==
        "m.json: machine.topology: no route from n1/gpu0 to n0/gpu1; expected links or switches between them; devices "
        "do not forward");
  CHECK_THAT(complaint("/topology/links/3/duplex", "simplex"), Catch::Contains("no route from n0/gpu0 to n1/gpu0"));
}

TEST_CASE("zero bandwidths and implausible units in machine JSON are reported") {
  CHECK(complaint("/topology/links/0/bytes_per_second", 0) ==
        "m.json: machine.topology.links[0].bytes_per_second: is 0; expected a number above 0");
  CHECK(complaint("/topology/links/0/bytes_per_second", 100) ==
        "m.json: machine.topology.links[0].bytes_per_second: is 100; expected bytes per second, 1000000.0 or more");
  CHECK(complaint("/topology/links/0/bytes_per_second", "100 Gb/s") ==
        "m.json: machine.topology.links[0].bytes_per_second: is string; expected a number");
  CHECK_THAT(complaint("/topology/links/0/bytes_per_second", 1e16),
             Catch::Contains("expected bytes per second, 1e15 at most"));
  CHECK(complaint("/topology/links/0/latency_s", 0.4) ==
        "m.json: machine.topology.links[0].latency_s: is 0.4; expected seconds, 0.1 at most");
  CHECK(complaint("/devices/1/bytes_per_second", 1555) ==
        "m.json: machine.devices[1].bytes_per_second: is 1555; expected bytes per second, 100000.0 or more");
  CHECK(
      complaint("/devices/0/peaks/0/flops_per_second", 8.1) ==
      "m.json: machine.devices[0].peaks[0].flops_per_second: is 8.1; expected operations per second, 100000.0 or more");
  CHECK_THAT(complaint("/devices/1/memory_bytes", 40),
             Catch::Contains("devices[1].memory_bytes: is 40; expected bytes, 1000000 or more"));
}

TEST_CASE("missing members of a topology are reported by name") {
  const std::vector<std::string> members{
      "/topology/devices",           "/topology/switches",        "/topology/links",
      "/topology/devices/0/name",    "/topology/devices/0/model", "/topology/devices/0/node",
      "/topology/links/0/from",      "/topology/links/0/to",      "/topology/links/0/bytes_per_second",
      "/topology/links/0/latency_s", "/topology/links/0/duplex"};
  for (const auto& member : members) {
    const auto name = nlohmann::json::json_pointer{member}.back();
    CHECK_THAT(complaint(member, removed), Catch::Contains("has no \"" + name + "\""));
  }
  CHECK(complaint("/topology/devices", nlohmann::json::array()) ==
        "m.json: machine.topology.devices: is empty; expected a device");
  CHECK_THAT(complaint("/topology/links/0/duplex", "both"),
             Catch::Contains("is \"both\"; expected full, half or simplex"));
  CHECK_THAT(complaint("/topology/devices/0/node", -1), Catch::Contains("node: is -1; expected a number from 0"));
}

}  // namespace

}  // namespace tests_of_machine_topology
