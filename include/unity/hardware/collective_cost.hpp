// The time of collectives in closed form, and the choice of their algorithms by size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/collective.hpp>
#include <unity/hardware/collective_flows.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>

namespace unity::hardware {

// The time of collectives in closed form: per phase, the busiest link and the slowest route.
// Source: Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994; Thakur et al., IJHPCA 19(1),
// 2005.

// The time before anything moves, and the overhead of each round in addition to its transfers.
struct collective_start {
  picoseconds start{};
  picoseconds round{};

  friend bool operator==(const collective_start&, const collective_start&) = default;
};

// The time of a collective as a linear function of its size.
struct collective_line {
  picoseconds fixed{};
  double per_byte = 0;  // picoseconds per byte

  // The part that depends on the size is limited to 10^18 ps.
  [[nodiscard]] picoseconds operator()(bytes size) const {
    return fixed + picoseconds{std::llround(std::min(per_byte * static_cast<double>(size.count()), 1e18))};
  }

  friend bool operator==(const collective_line&, const collective_line&) = default;
};

// The first of the algorithms, of which the ring is first, that takes at most a sixteenth longer than the fastest.
// Smaller savings are within the error of the model and not worth simulating a tree, which is k log k flows for k
// devices; a ring is k flows.
// line(way): its collective_line. Precondition: at least one. Complexity: linear in the algorithms.
template <class Ways, class LineOf>
[[nodiscard]] const auto& chosen_way(const Ways& ways, bytes size, const LineOf& line) {
  auto least = line(ways.front())(size);
  for (const auto& w : ways) {
    least = std::min(least, line(w)(size));
  }
  const auto is_near = [&](const auto& w) { return line(w)(size) - least <= least / 16; };
  return *std::find_if(ways.begin(), ways.end(), is_near);
}

// Calls f(link) for the links of a flow, in the order of travel. Precondition: a flow to or from a switch has a direct
// link.
template <class F>
void for_each_link(const topology& t, const route_table& routes, const collective_flow& flow, const F& f) {
  if (t.is_device(flow.from) && t.is_device(flow.to)) {
    for (const auto l : routes.between(t, device_id{flow.from.index()}, device_id{flow.to.index()})) {
      f(l);
    }
  } else {
    f(t.link_between(flow.from, flow.to).value());
  }
}

// The time of simultaneous collectives, which run phase by phase together. A phase takes the time of its busiest link
// for everything that crosses it, plus the latency of its slowest route once per round. Summing takes no time. For one
// collective it is, up to rounding, at least the longest chain of transfers of lower(t, c), and equal to it if all
// links and parts are equal. Complexity: linear in the flows and the links of their routes.
[[nodiscard]] collective_line line_of(const topology& t, const route_table& routes,
                                      std::span<const collective_flows> at_once, const collective_start& start = {});

// The time of one collective at its size.
[[nodiscard]] inline picoseconds collective_time(const topology& t, const route_table& routes, const collective& c,
                                                 const collective_start& start = {}) {
  const auto flows = flows_of(t, c);
  return flows.phases.empty() ? picoseconds{} : line_of(t, routes, {&flows, 1}, start)(c.size);
}

// The algorithm with the least collective_time, and that time; the first in case of ties. Ignores c.algorithm.
[[nodiscard]] std::pair<collective_algorithm, picoseconds> fastest_algorithm(const topology& t,
                                                                             const route_table& routes, collective c,
                                                                             const collective_start& start = {});

// The start times of the device's model.
[[nodiscard]] collective_start start_of(const machine& m, device_id d);

// An applicable algorithm and its cost.
struct collective_way {
  collective_algorithm algorithm = collective_algorithm::ring;
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
  collective_algorithm algorithm = collective_algorithm::ring;
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

// The algorithms that apply to one group, with their costs.
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

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_COLLECTIVE_COST)

namespace unity::hardware::detail {

// The load of each resource in a phase, in picoseconds per byte of size.
class link_loads {
 public:
  link_loads(const topology& t, const route_table& routes) : t_{t}, routes_{routes}, loads_(t.resource_count(), 0.0) {}

  void add(const collective_flow& flow, double share) {
    picoseconds latency{};
    for_each_link(t_, routes_, flow, [&](link_id l) {
      auto& load = loads_[t_.resource(l).index()];
      if (load == 0) {
        used_.push_back(t_.resource(l));
      }
      load += share * 1e12 / static_cast<double>(t_.bytes_per_second(l));
      busiest_ = std::max(busiest_, load);
      latency += t_.latency(l);
    });
    slowest_ = std::max(slowest_, latency);
  }
  [[nodiscard]] double busiest() const noexcept { return busiest_; }
  [[nodiscard]] picoseconds slowest() const noexcept { return slowest_; }
  void clear() {
    for (const auto r : used_) {
      loads_[r.index()] = 0;
    }
    used_.clear();
    busiest_ = 0;
    slowest_ = {};
  }

 private:
  const topology& t_;
  const route_table& routes_;
  std::vector<double> loads_;
  std::vector<resource_id> used_{};
  double busiest_ = 0;
  picoseconds slowest_{};
};

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE collective_line line_of(const topology& t, const route_table& routes,
                                     std::span<const collective_flows> at_once, const collective_start& start) {
  collective_line line{start.start, 0};
  std::size_t phases = 0;
  for (const auto& c : at_once) {
    phases = std::max(phases, c.phases.size());
  }
  detail::link_loads loads{t, routes};
  for (std::size_t p = 0; p < phases; ++p) {
    std::int64_t rounds = 0;
    for (const auto& c : at_once) {
      if (p < c.phases.size()) {
        rounds = std::max<std::int64_t>(rounds, c.phases[p].rounds);
        for (const auto& flow : c.phases[p].flows) {
          loads.add(flow, static_cast<double>(flow.parts) / static_cast<double>(c.of));
        }
      }
    }
    line.fixed += picoseconds{rounds * (loads.slowest() + start.round).count()};
    line.per_byte += loads.busiest();
    loads.clear();
  }
  return line;
}

UNITY_INLINE std::pair<collective_algorithm, picoseconds> fastest_algorithm(const topology& t,
                                                                            const route_table& routes, collective c,
                                                                            const collective_start& start) {
  std::pair<collective_algorithm, picoseconds> best{};
  for (std::size_t a = 0; a < collective_algorithm_names.size(); ++a) {
    c.algorithm = static_cast<collective_algorithm>(a);
    if (a > 0 && !applies(t, c)) {
      continue;
    }
    if (const auto time = collective_time(t, routes, c, start); a == 0 || time < best.second) {
      best = {c.algorithm, time};
    }
  }
  return best;
}

}  // namespace unity::hardware

namespace unity::hardware::detail {

// The flows of the first group; all groups are equal in this.
[[nodiscard]] inline std::size_t flow_count(const common_way& w) {
  std::size_t count = 0;
  for (const auto& p : w.flows.front().phases) {
    count += p.flows.size();
  }
  return count;
}

// The algorithm with the fewest flows among those that take at most `per_byte` picoseconds per byte; the first in case
// of ties. Precondition: there is one.
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

}  // namespace unity::hardware::detail

namespace unity::hardware {

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
    const auto algorithm = static_cast<collective_algorithm>(a);
    if (!std::all_of(groups.begin(), groups.end(), [&](const auto& g) { return applies(t, {kind, algorithm, g}); })) {
      continue;
    }
    auto& way = all.emplace_back();
    way.algorithm = algorithm;
    for (const auto& g : groups) {
      way.flows.push_back(flows_of(t, {kind, algorithm, g}));
    }
    way.line = line_of(t, routes, way.flows, start);
  }
  auto pipelined = all;
  for (auto& way : pipelined) {
    const auto& base = detail::fewest_flows(all, way.line.per_byte * 17 / 16);
    if (base.algorithm == way.algorithm) {
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
    all.ways.push_back({way.algorithm, way.line, std::move(way.flows.front())});
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

}  // namespace unity::hardware

#endif
