// The time of collectives in closed form: per phase, the busiest link and the slowest route.
// Source: Hockney, The communication challenge for MPP, Parallel Computing 20(3), 1994; Thakur et al., IJHPCA 19(1),
// 2005.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/collective.hpp>
#include <unity/machine/collective_flows.hpp>
#include <unity/machine/routes.hpp>
#include <unity/machine/topology.hpp>

namespace unity::machine {

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

// Among several algorithms, the ring first: the first one within a sixteenth of the fastest. A ring of k devices is k
// flows, a tree k log k: smaller savings are within the error of the model, and not worth simulating.
// line(way): its collective_line. Precondition: at least one. Complexity: linear in the algorithms.
template <class Ways, class LineOf>
[[nodiscard]] const auto& chosen_way(const Ways& ways, bytes size, const LineOf& line) {
  auto least = line(ways.front())(size);
  for (const auto& w : ways) {
    least = std::min(least, line(w)(size));
  }
  const auto most = least.count() + least.count() / 16;
  return *std::find_if(ways.begin(), ways.end(), [&](const auto& w) { return line(w)(size).count() <= most; });
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

// The algorithm with the least collective_time, and that time; the first in case of ties. Ignores c.how.
[[nodiscard]] std::pair<collective_algorithm, picoseconds> fastest_algorithm(const topology& t,
                                                                             const route_table& routes, collective c,
                                                                             const collective_start& start = {});

}  // namespace unity::machine

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_MACHINE_COLLECTIVE_COST)

namespace unity::machine::detail {

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

}  // namespace unity::machine::detail

namespace unity::machine {

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
    c.how = static_cast<collective_algorithm>(a);
    if (a > 0 && !applies(t, c)) {
      continue;
    }
    if (const auto time = collective_time(t, routes, c, start); a == 0 || time < best.second) {
      best = {c.how, time};
    }
  }
  return best;
}

}  // namespace unity::machine

#endif
