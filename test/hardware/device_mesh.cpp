// Device meshes: devices as arrays.

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/hardware/topology.hpp>

namespace tests_of_device_mesh {

using namespace unity;
using hardware::device_id;

namespace {

std::string spell(const hardware::device_mesh& m) {
  std::string text;
  for (const auto s : m.sizes) {
    text += (text.empty() ? "" : "x") + std::to_string(s);
  }
  return text;
}
std::string spell(const std::vector<hardware::device_mesh>& all) {
  std::string text;
  for (const auto& m : all) {
    text += (text.empty() ? "" : " ") + spell(m);
  }
  return text;
}

}  // namespace

TEST_CASE("meshes_of factors the nodes and then the devices of a node") {
  CHECK(spell(hardware::meshes_of(hardware::preset("summit:4x6").network, 3)) == "4x6 2x2x6 4x2x3 4x3x2");
  CHECK(spell(hardware::meshes_of(hardware::preset("p100:1x4").network, 2)) == "4 2x2");
  CHECK(spell(hardware::meshes_of(hardware::preset("host:1x1").network, 3)) == "1");
  CHECK(spell(hardware::meshes_of(hardware::preset("summit:4x6").network, 1)) == "24");
}

TEST_CASE("device meshes hold each device once and in the order of nodes") {
  const auto t = hardware::preset("dgx_a100:4x8").network;
  for (const auto& m : hardware::meshes_of(t, 4)) {
    CAPTURE(spell(m));
    CHECK_NOTHROW(hardware::check(t, m));
    REQUIRE(m.devices.size() == 32);
    for (std::size_t place = 0; place < m.devices.size(); ++place) {
      std::size_t number = 0;
      for (std::size_t a = 0; a < m.axis_count(); ++a) {
        number += m.coordinate(place, a) * m.stride(a);
      }
      CHECK(number == place);
      CHECK(t[m.devices[place]].node == place / 8);
    }
  }
}

TEST_CASE("device meshes of unequal nodes have axes over all devices") {
  std::vector<hardware::placed_device> devices{{"a", 0, 7}, {"b", 0, 3}, {"c", 0, 3},
                                               {"d", 0, 7}, {"e", 0, 3}, {"f", 0, 3}};
  std::vector<hardware::cable> cables;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    cables.push_back({hardware::vertex_id{i}, hardware::vertex_id{devices.size()}, 1'000'000, picoseconds{0},
                      hardware::duplex::full});
  }
  const hardware::topology t{devices, {"switch"}, cables};
  const auto meshes = hardware::meshes_of(t, 2);
  CHECK(spell(meshes) == "6 2x3 3x2");
  CHECK(meshes.front().devices == std::vector{device_id{std::size_t{0}}, device_id{std::size_t{3}},
                                              device_id{std::size_t{1}}, device_id{std::size_t{2}},
                                              device_id{std::size_t{4}}, device_id{std::size_t{5}}});
}

TEST_CASE("a registered mesh with wrong or repeated devices or axes is rejected") {
  const auto t = hardware::preset("p100:1x4").network;
  const auto id = [](std::size_t i) { return device_id{i}; };
  const auto message_of = [&](const hardware::device_mesh& m) {
    try {
      hardware::check(t, m);
    } catch (const error& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  CHECK(message_of({"pairs", {2, 2}, {id(0), id(2), id(1), id(3)}}).empty());
  CHECK(message_of({"pairs", {2, 2}, {id(0), id(2), id(1)}}).find("device mesh pairs: 3 devices") == 0);
  CHECK(message_of({"pairs", {2, 2}, {id(0), id(2), id(1), id(2)}}).find("device 2") != std::string::npos);
  CHECK(message_of({"pairs", {2, 2}, {id(0), id(2), id(1), id(9)}}).find("device 9") != std::string::npos);
  constexpr auto large = std::int64_t{1} << 32;
  CHECK(message_of({"pairs", {large, large}, {}}).find("device mesh pairs: 0 devices") == 0);
  CHECK(message_of({"pairs", {large, large, 2, 2}, {id(0), id(1), id(2), id(3)}}).find("4 devices") !=
        std::string::npos);
  CHECK(message_of({"pairs", {4, 1}, {id(0), id(2), id(1), id(3)}}).find("an axis of size 1") != std::string::npos);
}

TEST_CASE("parts_of a machine have powers of two or a whole node or one device per row") {
  const auto sizes = [](const char* name) {
    std::string text;
    const auto t = hardware::preset(name).network;
    const auto per_node = t.device_count() / (std::size_t{t.devices().back().node} + 1);
    for (const auto& part : hardware::parts_of(t)) {
      text += std::to_string(part.size()) + "x" + std::to_string(part[0].size()) + " ";
      for (std::size_t node = 0; node < part.size(); ++node) {  // the first devices of the first nodes
        CHECK(part[node].size() == part[0].size());
        for (std::size_t i = 0; i < part[node].size(); ++i) {
          CHECK(part[node][i] == device_id{node * per_node + i});
        }
      }
    }
    return text;
  };
  CHECK(sizes("summit:2x6") == "2x4 1x6 1x4 1x1 ");
  CHECK(sizes("summit:3x6") == "3x4 2x6 2x4 1x6 1x4 1x1 ");
  CHECK(sizes("p100:1x4") == "1x1 ");
  CHECK(sizes("host:1x1").empty());
}

TEST_CASE("parts_of unequal nodes take as many devices of each as the smallest has") {
  const hardware::topology t{{{"a", 0, 5}, {"b", 0, 5}, {"c", 0, 5}, {"d", 0, 2}, {"e", 0, 2}}, {}, {}};
  const auto id = [](std::size_t i) { return device_id{i}; };
  using rows = std::vector<std::vector<device_id>>;
  CHECK(hardware::devices_by_node(t) == rows{{id(0), id(1), id(2)}, {id(3), id(4)}});
  CHECK(hardware::parts_of(t) == std::vector<rows>{rows{{id(0), id(1)}, {id(3), id(4)}}, rows{{id(0), id(1)}},
                                                   rows{{id(0)}}});
}

}  // namespace tests_of_device_mesh
