// Routes for sums of terms: where they end, and where they are sent from there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/replicas.hpp>

namespace unity::parallel {

// One block of a value, as a sum of terms.
struct summed_value {
  std::vector<std::uint32_t> producers{};  // tasks, one per term, with their devices
  std::vector<machine::device_id> from{};
  std::vector<std::uint32_t> consumers{};  // tasks that need some of the sum, with their devices
  std::vector<machine::device_id> to{};
  replicas needed{};  // the readers are the consumers
};

// Elements sent from where their sum ends to a device that needs them.
struct sum_route {
  std::int64_t elements = 0;
  std::vector<std::uint32_t> consumers{};  // consumers of some of them, ascending

  friend bool operator==(const sum_route&, const sum_route&) = default;
};

// - Elements needed by exactly the devices with terms: an all-reduce.
// - Other elements: a reduce-scatter sums them along the ring of the devices with terms. Each ends on a device that
//   needs it, in equal shares if there are several, or in equal shares on all if there is none. From there it is sent
//   to the other devices that need it.
struct sum_routes {
  std::vector<machine::device_id> holders{};  // devices with terms, ascending
  std::vector<machine::device_id> ring{};     // the same devices, in ring order
  std::int64_t reduced = 0;                   // elements of the all-reduce, and their consumers by device
  std::map<machine::device_id, std::vector<std::uint32_t>> reduced_for{};
  // For all other elements, by position in the ring: elements sent to the next device, and elements whose sums end
  // there.
  std::vector<std::int64_t> sent{};
  std::vector<std::int64_t> held{};
  // From a position in the ring to a device, possibly itself.
  std::map<std::pair<std::size_t, machine::device_id>, sum_route> routes{};
};

namespace detail {

// Tasks on a device that need elements of the group, ascending.
[[nodiscard]] std::vector<std::uint32_t> consumers_on(const summed_value& s, const replica_group& g,
                                                      machine::device_id d);

void scatter(const summed_value& s, const replica_group& g, sum_routes& all);

}  // namespace detail

// Complexity: consumers, times groups of devices, times devices.
[[nodiscard]] inline sum_routes routes_of(const machine::topology& t, const summed_value& s) {
  sum_routes all;
  all.holders = s.from;
  std::sort(all.holders.begin(), all.holders.end());
  all.holders.erase(std::unique(all.holders.begin(), all.holders.end()), all.holders.end());
  all.ring = machine::ring_order(t, all.holders);
  all.sent.assign(all.ring.size(), 0);
  all.held.assign(all.ring.size(), 0);
  for (const auto& g : s.needed.groups) {
    if (g.devices == all.holders && all.holders.size() > 1) {  // at most one: groups have different devices
      all.reduced = g.elements;
      for (const auto d : g.devices) {
        all.reduced_for.emplace(d, detail::consumers_on(s, g, d));
      }
    } else {
      detail::scatter(s, g, all);
    }
  }
  for (auto& [ends, way] : all.routes) {
    std::sort(way.consumers.begin(), way.consumers.end());
    way.consumers.erase(std::unique(way.consumers.begin(), way.consumers.end()), way.consumers.end());
  }
  return all;
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_SUM_ROUTES)

#include <numeric>

namespace unity::parallel::detail {

UNITY_INLINE std::vector<std::uint32_t> consumers_on(const summed_value& s, const replica_group& g,
                                                     machine::device_id d) {
  std::vector<std::uint32_t> all;
  for (std::size_t i = 0; i < s.consumers.size(); ++i) {
    if (s.to[i] == d && std::binary_search(g.boxes.begin(), g.boxes.end(), s.needed.box_of[i])) {
      all.push_back(s.consumers[i]);
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

UNITY_INLINE void scatter(const summed_value& s, const replica_group& g, sum_routes& all) {
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < all.ring.size(); ++i) {
    if (std::binary_search(g.devices.begin(), g.devices.end(), all.ring[i])) {
      owners.push_back(i);
    }
  }
  if (owners.empty()) {
    owners.resize(all.ring.size());
    std::iota(owners.begin(), owners.end(), std::size_t{0});
  }
  const auto count = static_cast<std::int64_t>(owners.size());
  for (std::int64_t k = 0; k < count; ++k) {
    const auto owner = owners[static_cast<std::size_t>(k)];
    const auto elements = g.elements * (k + 1) / count - g.elements * k / count;
    if (elements == 0) {
      continue;
    }
    all.held[owner] += elements;
    for (std::size_t i = 0; i < all.ring.size(); ++i) {
      all.sent[i] += i == owner ? 0 : elements;
    }
    for (const auto d : g.devices) {
      const auto consumers = consumers_on(s, g, d);
      auto& way = all.routes[{owner, d}];
      way.elements += elements;
      way.consumers.insert(way.consumers.end(), consumers.begin(), consumers.end());
    }
  }
}

}  // namespace unity::parallel::detail

#endif
