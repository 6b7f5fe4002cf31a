// Chooses the algorithm of a machine's collectives by size, from closed-form costs.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/collective_cost.hpp>
#include <unity/machine/collective_flows.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/routes.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

// From the device's model.
[[nodiscard]] collective_start start_of(const machine& m, device_id d);

// An applicable algorithm and its cost.
struct collective_way {
  collective_algorithm how = collective_algorithm::ring;
  collective_line line{};
  collective_flows flows{};
};

// The algorithms for one kind of collective among the same devices, the ring first. Regular.
struct collective_ways {
  collective_start start{};
  std::vector<collective_way> ways{};

  // The algorithm to use for the size (chosen_way). Complexity: linear in the algorithms.
  [[nodiscard]] const collective_way& at(bytes size) const;
};

// An algorithm for several groups of devices that run the same collective simultaneously: the flows of each group, and
// the time of all.
struct common_way {
  collective_algorithm how = collective_algorithm::ring;
  collective_line line{};
  std::vector<collective_flows> flows{};
};

// The algorithms that apply to all groups, the ring first. If an algorithm has no higher bandwidth than another one
// with fewer flows, it is pipelined over the flows of that one, with its own number of rounds: chunks follow each
// other, so links are equally busy. So a tree of k devices is k flows instead of k log k, and is chosen only for its
// few rounds.
// Sources: Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel
// Computing 35(12), 2009; NCCL's trees since version 2.4 work like this.
// Complexity: as line_of, for each algorithm. Precondition: groups of several devices.
[[nodiscard]] std::vector<common_way> common_ways(const machine& m, const route_table& routes, exchange kind,
                                                  std::span<const std::vector<device_id>> groups);

// The same for one group.
[[nodiscard]] collective_ways ways_of(const machine& m, const route_table& routes, exchange kind,
                                      std::span<const device_id> devices);

// Caches ways_of by kind and devices, for one machine.
class known_collectives {
 public:
  // Valid as long as this object. Complexity: logarithmic in the groups once known.
  [[nodiscard]] const collective_ways& of(const machine& m, const route_table& routes, exchange kind,
                                          std::span<const device_id> devices);

 private:
  std::map<std::pair<exchange, std::vector<device_id>>, collective_ways> known_{};
};

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_CHOICE)

#include <algorithm>

namespace unity::machine::detail {

// The flows of the first group; all groups are equal in this.
[[nodiscard]] inline std::size_t flow_count(const common_way& w) {
  std::size_t count = 0;
  for (const auto& p : w.flows.front().phases) {
    count += p.flows.size();
  }
  return count;
}

// The one with the fewest flows among those with at most `per_byte`; the first in case of ties. Precondition: there is
// one.
[[nodiscard]] inline const common_way& fewest_flows(std::span<const common_way> all, double per_byte) {
  const common_way* best = nullptr;
  for (const auto& w : all) {
    if (w.line.per_byte <= per_byte && (best == nullptr || flow_count(w) < flow_count(*best))) {
      best = &w;
    }
  }
  return *best;
}

// The flows with the rounds of another algorithm, distributed among phases in proportion to their own rounds, at least
// one each.
[[nodiscard]] inline collective_flows in_rounds_of(collective_flows flows, const collective_flows& other) {
  std::uint64_t own = 0;
  std::uint64_t wanted = 0;
  for (const auto& p : flows.phases) {
    own += p.rounds;
  }
  for (const auto& p : other.phases) {
    wanted += p.rounds;
  }
  for (auto& p : flows.phases) {
    p.rounds = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (p.rounds * wanted + own / 2) / own));
  }
  return flows;
}

}  // namespace unity::machine::detail

namespace unity::machine {

UNITY_INLINE collective_start start_of(const machine& m, device_id d) {
  const auto& model = model_of(m, d);
  return {from_seconds(model.collective_start_seconds), from_seconds(model.collective_round_seconds)};
}

UNITY_INLINE const collective_way& collective_ways::at(bytes size) const {
  return chosen_way(ways, size, [](const collective_way& w) { return w.line; });
}

UNITY_INLINE std::vector<common_way> common_ways(const machine& m, const route_table& routes, exchange kind,
                                                 std::span<const std::vector<device_id>> groups) {
  const auto& t = m.network;
  const auto start = start_of(m, groups.front().front());
  std::vector<common_way> all;
  for (std::size_t a = 0; a < collective_algorithm_names.size(); ++a) {
    const auto how = static_cast<collective_algorithm>(a);
    if (!std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return applies(t, {kind, how, g}); })) {
      continue;
    }
    auto& way = all.emplace_back();
    way.how = how;
    for (const auto& g : groups) {
      way.flows.push_back(flows_of(t, {kind, how, g}));
    }
    way.line = line_of(t, routes, way.flows, start);
  }
  auto pipelined = all;
  for (auto& way : pipelined) {
    const auto& base = detail::fewest_flows(all, way.line.per_byte * 17 / 16);
    if (base.how == way.how) {
      continue;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      way.flows[g] = detail::in_rounds_of(base.flows[g], way.flows[g]);
    }
    way.line = line_of(t, routes, way.flows, start);
  }
  return pipelined;
}

UNITY_INLINE collective_ways ways_of(const machine& m, const route_table& routes, exchange kind,
                                     std::span<const device_id> devices) {
  const std::vector<device_id> group(devices.begin(), devices.end());
  collective_ways all{start_of(m, group.front()), {}};
  for (auto& way : common_ways(m, routes, kind, {&group, 1})) {
    all.ways.push_back({way.how, way.line, std::move(way.flows.front())});
  }
  return all;
}

UNITY_INLINE const collective_ways& known_collectives::of(const machine& m, const route_table& routes, exchange kind,
                                                          std::span<const device_id> devices) {
  auto& ways = known_[{kind, std::vector<device_id>(devices.begin(), devices.end())}];
  if (ways.ways.empty()) {
    ways = ways_of(m, routes, kind, devices);
  }
  return ways;
}

}  // namespace unity::machine

#endif
