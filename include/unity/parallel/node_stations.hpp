// Devices at which a node aggregates what it exchanges with a parameter server.
#pragma once

#include <span>
#include <vector>

#include <unity/hardware/topology.hpp>

namespace unity::parallel {

// Per device, the device that communicates with the server on its behalf: the server itself for devices of the server's
// node, otherwise the first device of the node. Complexity: devices, times the logarithm of nodes.
// Source: Zhang et al., AutoDist, section 2.2 (transfer destination); Li et al., Scaling distributed machine learning
// with the parameter server, OSDI 2014.
[[nodiscard]] std::vector<hardware::device_id> stations_of(std::span<const hardware::device_id> devices,
                                                           hardware::device_id server, const hardware::topology& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_NODE_STATIONS)

#include <cstdint>
#include <map>

#include <unity/core/config.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<hardware::device_id> stations_of(std::span<const hardware::device_id> devices,
                                                          hardware::device_id server, const hardware::topology& t) {
  std::map<std::uint32_t, hardware::device_id> of_node{{t[server].node, server}};
  std::vector<hardware::device_id> all;
  all.reserve(devices.size());
  for (const auto d : devices) {
    all.push_back(of_node.try_emplace(t[d].node, d).first->second);
  }
  return all;
}

}  // namespace unity::parallel

#endif
