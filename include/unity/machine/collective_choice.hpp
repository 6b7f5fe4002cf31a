// Which algorithm a machine's collectives use: by the closed form, and by size.
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

// Of the device's model.
[[nodiscard]] collective_start start_of(const machine& m, device_id d);

// An algorithm that applies, and what it takes.
struct collective_way {
  collective_algorithm how = collective_algorithm::ring;
  collective_line line{};
  collective_flows flows{};
};

// Ways of one kind among the same devices, the ring first. Regular.
struct collective_ways {
  collective_start start{};
  std::vector<collective_way> ways{};

  // The one to go for the size (chosen_way). Complexity: linear in the ways.
  [[nodiscard]] const collective_way& at(bytes size) const;
};

// Complexity: as line_of, for each algorithm.
[[nodiscard]] collective_ways ways_of(const machine& m, const route_table& routes, exchange kind,
                                      std::span<const device_id> devices);

// The same, found once per kind and devices. Of one machine.
class known_collectives {
 public:
  // Valid as long as this. Complexity: logarithmic in the groups once known.
  [[nodiscard]] const collective_ways& of(const machine& m, const route_table& routes, exchange kind,
                                          std::span<const device_id> devices);

 private:
  std::map<std::pair<exchange, std::vector<device_id>>, collective_ways> known_{};
};

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_CHOICE)

namespace unity::machine {

UNITY_INLINE collective_start start_of(const machine& m, device_id d) {
  const auto& model = model_of(m, d);
  return {from_seconds(model.collective_start_seconds), from_seconds(model.collective_round_seconds)};
}

UNITY_INLINE const collective_way& collective_ways::at(bytes size) const {
  return chosen_way(ways, size, [](const collective_way& w) { return w.line; });
}

UNITY_INLINE collective_ways ways_of(const machine& m, const route_table& routes, exchange kind,
                                     std::span<const device_id> devices) {
  collective_ways all{start_of(m, devices.front()), {}};
  for (std::size_t a = 0; a < collective_algorithm_names.size(); ++a) {
    const collective c{kind, static_cast<collective_algorithm>(a), devices};
    if (applies(m.network, c)) {
      auto flows = flows_of(m.network, c);
      const auto line = line_of(m.network, routes, {&flows, 1}, all.start);
      all.ways.push_back({c.how, line, std::move(flows)});
    }
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
