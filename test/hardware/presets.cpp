#include <unity/hardware/device_rates.hpp>
#include <unity/hardware/presets.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <fmt/core.h>

#include <unity/cost/roofline.hpp>
#include <unity/hardware/topology.hpp>

#include "../support/message_of.hpp"

namespace tests_of_presets {

namespace {

using namespace unity;
using namespace unity::hardware;
using hardware::device_id;
using hardware::route_cost;

device_id d(std::size_t i) { return device_id{i}; }

route_cost between(const char* preset, std::size_t from, std::size_t to) {
  const auto m = hardware::preset(preset);
  return hardware::route_table{m.network}.cost(m.network, d(from), d(to));
}
std::size_t links_between(const char* preset, std::size_t from, std::size_t to) {
  const auto m = hardware::preset(preset);
  return hardware::route_table{m.network}.between(m.network, d(from), d(to)).size();
}
std::string complaint(const char* text) {
  return unity::test::message_of([&] { static_cast<void>(hardware::preset(text)); });
}

TEST_CASE("a preset has the stated nodes and devices and routes between all devices") {
  const auto* text = GENERATE("1080ti:3x2", "p100:4x4", "k80:16x4", "summit:4x6", "dgx_a100:2x8", "dgx_a100_80:2x8",
                              "dgx_h100:2x8", "t4:8x8", "h200:1x1", "host:1x4", "p100:1x1", "k80:1x3", "summit:1x2",
                              "dgx_a100:1x1", "dgx_h100:2x1", "host:1x1");
  CAPTURE(text);
  const auto m = hardware::preset(text);
  const std::string size = std::string{text}.substr(std::string{text}.find(':') + 1);
  const auto nodes = std::stoul(size);
  const auto each = std::stoul(size.substr(size.find('x') + 1));
  CHECK(m.name == text);
  REQUIRE(m.network.device_count() == nodes * each);
  for (std::size_t i = 0; i < nodes * each; ++i) {
    CHECK(m.network[d(i)].node == i / each);
    CHECK(hardware::roofline_of(hardware::model_of(m, d(i))).has_value());
    CHECK(hardware::model_of(m, d(i)).memory.count() > 0);
  }
  const hardware::route_table routes{m.network, text};
  CHECK(routes == hardware::route_table{m.network});
}

TEST_CASE("preset p100 has NVLink within a node and 100 Gb/s between nodes") {
  CHECK(links_between("p100:4x4", 0, 3) == 1);
  CHECK(between("p100:4x4", 0, 3).bytes_per_second == 20'000'000'000);
  CHECK(between("p100:4x4", 0, 15).bytes_per_second == 12'500'000'000);
}

TEST_CASE("preset k80 has a switch per pair and half-duplex uplinks and 56 Gb/s between nodes") {
  CHECK(links_between("k80:2x4", 0, 1) == 2);
  CHECK(links_between("k80:2x4", 0, 2) == 4);
  CHECK(between("k80:2x4", 0, 1).latency < between("k80:2x4", 0, 2).latency);
  CHECK(between("k80:2x4", 0, 4).bytes_per_second == 7'000'000'000);
  const auto m = hardware::preset("k80:1x4");
  const hardware::route_table routes{m.network};
  const auto there = routes.between(m.network, d(0), d(2));
  const auto back = routes.between(m.network, d(3), d(1));
  CHECK(m.network.resource(there[1]) == m.network.resource(back[2]));  // half duplex: both directions share a resource
  CHECK(m.network.resource(there[0]) != m.network.resource(back[3]));
}

TEST_CASE("preset summit has three GPUs per socket with an X-Bus between and one adapter") {
  CHECK(links_between("summit:2x6", 0, 2) == 1);
  CHECK(between("summit:2x6", 0, 2).bytes_per_second == 50'000'000'000);
  CHECK(links_between("summit:2x6", 2, 3) == 3);
  CHECK(between("summit:2x6", 0, 11).bytes_per_second == 12'500'000'000);
}

TEST_CASE("dgx presets have a switch inside and a rail per GPU and a spine between rails") {
  CHECK(between("dgx_a100:2x8", 0, 7).bytes_per_second == 300'000'000'000);
  CHECK(links_between("dgx_a100:2x8", 3, 11) == 2);
  CHECK(links_between("dgx_a100:2x8", 3, 12) == 4);
  CHECK(between("dgx_h100:2x8", 3, 12).bytes_per_second == 50'000'000'000);
  CHECK(between("dgx_h100:2x8", 0, 7).bytes_per_second == 450'000'000'000);
}

TEST_CASE("presets 1080ti and t4 have PCIe to a processor and 100 Gb/s Ethernet between nodes") {
  CHECK(links_between("1080ti:2x2", 0, 1) == 2);
  CHECK(between("1080ti:2x2", 0, 1) == route_cost{picoseconds{800'000}, 15'754'000'000});
  CHECK(links_between("1080ti:2x2", 1, 2) == 4);
  CHECK(between("1080ti:2x2", 1, 2) == route_cost{picoseconds{2'800'000}, 12'500'000'000});
  CHECK(links_between("t4:2x8", 0, 3) == 2);
  CHECK(links_between("t4:2x8", 0, 4) == 3);  // on the other processor
  CHECK(between("t4:2x8", 0, 4) == route_cost{picoseconds{1'000'000}, 15'754'000'000});
  CHECK(between("t4:2x8", 0, 8) == route_cost{picoseconds{10'800'000}, 12'500'000'000});
  CHECK(links_between("t4:2x8", 4, 12) == 6);  // the adapter is on the first processor
  CHECK(between("t4:2x8", 4, 12) == route_cost{picoseconds{11'200'000}, 12'500'000'000});
}

TEST_CASE("find_model agrees with find_device for each known device") {
  for (const auto& g : known_devices) {
    CAPTURE(g.id);
    const auto known = hardware::find_device(g.id);
    REQUIRE(known);
    const auto d = hardware::find_model(g.id).value();
    CHECK(d.name == g.name);
    CHECK((d.units > 0 || g.id == "b200"));  // not published
    CHECK((d.kind == hardware::device_kind::gpu) == g.is_gpu);
    // At half the bits at least twice as fast, or no rate is given.
    const auto half = hardware::peak_flops_per_second(d, tensor::dtype::float16);
    CHECK((!half || *half >= 2 * known->flops_per_second));
    CHECK(d.bytes_per_second == known->bytes_per_second);
    CHECK(d.launch_seconds == known->launch_seconds);
    CHECK(hardware::peak_flops_per_second(d, tensor::dtype::float32) == known->flops_per_second);
  }
  CHECK(hardware::find_device("p100")->flops_per_second == 10.6e12);
  CHECK(hardware::find_model("v100")->caches ==
        std::vector<std::pair<std::string, bytes>>{{"L1", bytes{131072}}, {"L2", bytes{6291456}}});
  for (const auto* name : {"k80", "m60", "p4", "p100", "v100", "t4", "a10", "l4", "a100", "a100_80", "a100_pcie",
                           "a100_80_pcie", "h100", "h200", "b200", "host"}) {
    CHECK(hardware::find_model(name));
  }
  CHECK(hardware::peak_flops_per_second(hardware::find_model("a100").value(), tensor::dtype::bfloat16) == 312e12);
  CHECK_FALSE(hardware::peak_flops_per_second(hardware::find_model("k80").value(), tensor::dtype::float16));
  CHECK_FALSE(hardware::find_model("abacus"));
}

TEST_CASE("an unknown or malformed preset gives a one-line error") {
  CHECK(complaint("abacus:1x1") ==
        "machine 'abacus:1x1': no preset 'abacus'; expected 1080ti, "
        "p100, k80, summit, dgx_a100, dgx_a100_80, dgx_h100, t4, h200, host");
  for (const auto* text : {"p100", "p100:", "p100:4", "p100:4x", "p100:x4", "p100:0x4", "p100:4x0", "p100:4x4x4",
                           "p100:-1x4", "p100:4 x4"}) {
    CAPTURE(text);
    CHECK(complaint(text) ==
          "machine '" + std::string{text} + "': no number of nodes and devices; expected p100:NODESxDEVICES");
  }
  CHECK(complaint("p100:4x5") == "machine 'p100:4x5': 4 nodes of 5 devices; expected at most 4096 of 4");
  CHECK(complaint("host:2x1") == "machine 'host:2x1': 2 nodes of 1 devices; expected at most 1 of 1024");
  CHECK(complaint("") ==
        "machine '': no preset ''; expected 1080ti, "
        "p100, k80, summit, dgx_a100, dgx_a100_80, dgx_h100, t4, h200, host");
  CHECK_THAT(complaint("p\n100:1x1"), Catch::StartsWith("machine 'p 100:1x1': no preset 'p 100'; "));
  CHECK(hardware::preset("p100:4x4").name == "p100:4x4");
}

TEST_CASE("with_topology connects the ranks of a measured machine by a switch") {
  hardware::machine m;
  m.devices.push_back(hardware::find_model("t4").value());
  m.devices[0].host_bytes_per_second = 20e9;
  CHECK(hardware::with_topology(m, "m.json").network.device_count() == 1);
  m.links.push_back(
      {"local", 4, {{hardware::exchange::message, {{bytes{100}, 1, 1}, {hardware::cost_range::no_end, 2e-6, 1e-9}}}}});
  const auto four = hardware::with_topology(m, "m.json");
  REQUIRE(four.network.device_count() == 4);
  const hardware::route_table routes{four.network};
  CHECK(routes.cost(four.network, d(0), d(3)) == route_cost{picoseconds{2'000'000}, 1'000'000'000});
  m.links.back().costs[hardware::exchange::all_reduce] = {{hardware::cost_range::no_end, 5e-6, 2e-9}};
  const auto both_ways = hardware::with_topology(m, "m.json");  // 3/4 there and 3/4 back of the vector cross each cable
  CHECK(hardware::route_table{both_ways.network}.cost(both_ways.network, d(0), d(3)) ==
        route_cost{picoseconds{2'000'000}, 750'000'000});
  CHECK(four.devices[0].memory.count() == 4'000'000'000);
  CHECK(four.devices[0].bytes_per_second == 80e9);
  CHECK(four.devices[0].host_bytes_per_second == 5e9);
  CHECK(hardware::with_topology(four, "m.json") == four);
  CHECK_THROWS_WITH(hardware::with_topology({}, "m.json"), "m.json: no devices; expected one or more");
  m.links.back().ranks = 2'147'483'647;
  CHECK_THROWS_WITH(hardware::with_topology(m, "m.json"),
                    "m.json: 2147483647 ranks that share a device; expected 4096 at most");
  m.links.clear();
  m.devices.push_back(m.devices.front());
  CHECK_THROWS_WITH(hardware::with_topology(m, "m.json"),
                    "m.json: 2 devices and nothing between them; expected a topology, or measured messages");
  m.devices.assign(4097, m.devices.front());
  CHECK_THROWS_WITH(hardware::with_topology(m, "m.json"),
                    "m.json: 4097 devices without a topology; expected 4096 at most");
}

TEST_CASE("with_topology rejects a measured machine with values out of range") {
  hardware::machine m;
  m.devices.push_back(hardware::find_model("t4").value());
  const auto with_messages = [&](double alpha, double beta) {
    auto one = m;
    one.links.push_back({"local", 4, {{hardware::exchange::message, {{hardware::cost_range::no_end, alpha, beta}}}}});
    return unity::test::message_of([&] { static_cast<void>(hardware::with_topology(one, "m.json")); });
  };
  CHECK(with_messages(0.2, 1e-6).empty());
  CHECK_THAT(with_messages(0.21, 1e-6),
             Catch::StartsWith("m.json: a link's latency of 0.105") && Catch::EndsWith("; expected 0.1 s at most"));
  CHECK_THAT(with_messages(1e-6, 2e-6), Catch::StartsWith("m.json: a link of 500000.0") &&
                                            Catch::EndsWith(" bytes per second; expected 1e6 to 1e15"));
  m.devices[0].memory = bytes{3'999'999};
  CHECK(with_messages(1e-6, 1e-9) ==
        "m.json: 999999 bytes of memory of device '" + m.devices[0].name + "'; expected 1e6 or more");
  m.devices[0].memory = bytes{};
  CHECK_THAT(with_messages(1e-6, 1e-9), Catch::StartsWith("m.json: 0 bytes of memory of device"));
  m.devices[0] = hardware::find_model("t4").value();
  m.devices[0].collective_round_seconds = 1.5;
  CHECK(with_messages(1e-6, 1e-9) ==
        "m.json: a collective start or round of 1.5 s of device '" + m.devices[0].name + "'; expected 1 s at most");
  m.devices[0] = hardware::find_model("t4").value();
  m.devices[0].peaks[0].flops_per_second = 8.1;  // version 1 files state TFLOPS
  CHECK_THAT(with_messages(1e-6, 1e-9), Catch::StartsWith("m.json: a rate of 2.0"));
  m.devices[0] = hardware::find_model("t4").value();
  m.devices.push_back(m.devices[0]);
  CHECK(with_messages(1e-6, 1e-9) ==
        "m.json: two kinds of device named '" + m.devices[0].name + "'; expected names of their own");
}

}  // namespace

TEST_CASE("is_assumed holds for the host preset and not for p100") {
  CHECK(hardware::is_assumed(hardware::preset("host:1x2")));
  CHECK_FALSE(hardware::is_assumed(hardware::preset("p100:1x2")));
}

TEST_CASE("a machine prints as its name and the number and kind of its devices") {
  CHECK(fmt::format("{}", hardware::preset("p100:1x1")) == "p100:1x1 (1 device: NVIDIA Tesla P100 SXM2)");
  CHECK(fmt::format("{}", hardware::preset("p100:2x4")) == "p100:2x4 (8 devices: NVIDIA Tesla P100 SXM2)");
}

}  // namespace tests_of_presets
