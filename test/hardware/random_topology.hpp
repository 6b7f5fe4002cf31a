// Random topologies in which every device reaches every other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::test {

// A tree of switches with devices as leaves, plus as many extra cables, of few kinds so that routes tie.
inline hardware::topology random_topology(random_engine& random, std::size_t devices, std::size_t switches) {
  using hardware::vertex_id;
  std::vector<hardware::placed_device> placed;
  std::vector<std::string> names;
  std::vector<hardware::cable> cables;
  const auto join = [&](std::size_t a, std::size_t b, hardware::duplex mode) {
    cables.push_back({vertex_id{a}, vertex_id{b}, 1'000'000'000 * random.between(1, 3),
                      picoseconds{random.between(0, 1'000'000)}, mode});
  };
  for (std::size_t d = 0; d < devices; ++d) {
    placed.push_back({"d" + std::to_string(d), 0, static_cast<std::uint32_t>(random.below(3))});
  }
  const auto two_way = [&] { return static_cast<hardware::duplex>(random.below(2)); };
  for (std::size_t s = 0; s < switches; ++s) {
    names.push_back("s" + std::to_string(s));
    if (s > 0) {
      join(devices + s, devices + random.below(s), two_way());
    }
  }
  for (std::size_t d = 0; d < devices; ++d) {
    join(d, devices + random.below(switches), two_way());
  }
  for (std::size_t i = 0; i < devices + switches; ++i) {
    const auto a = random.below(devices + switches);
    if (const auto b = random.below(devices + switches); a != b) {
      join(a, b, static_cast<hardware::duplex>(random.below(3)));
    }
  }
  return {std::move(placed), std::move(names), std::move(cables)};
}

}  // namespace unity::test
