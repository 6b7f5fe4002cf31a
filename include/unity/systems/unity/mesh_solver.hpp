// Meshes of a machine with cached costs of their collectives and operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::systems {

// Positions of placed operators along mesh axes.

namespace detail {

// The axes on which an option places its operator.
[[nodiscard]] parallel::axis_set placed_axes(const parallel::mesh_option& o);

// By operator: the first operator of its group. A group consists of operators that are placed on the same axes and pass
// values to each other.
[[nodiscard]] std::vector<std::uint32_t> placed_groups(const parallel::operator_graph& g,
                                                       std::span<const parallel::axis_set> axes);

// One position for each combination of coordinates along the axes.
[[nodiscard]] std::vector<std::size_t> places_along(const hardware::device_mesh& mesh, parallel::axis_set axes);

}  // namespace detail

// By operator: a position in the mesh. An operator that is placed along some axes runs at the coordinates that its
// position has along these axes. Connected operators that are placed along the same axes form a group, which shares a
// position. The groups, longest first, each get the least loaded position; of equal ones, the first.
// Source: Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969.
[[nodiscard]] std::vector<std::size_t> mesh_places(parallel::mesh_tables& tables, const parallel::operator_graph& g,
                                                   std::span<const std::uint32_t> options);

// When an enumeration of mappings ends at the latest: when the clock shows that many seconds.
struct enumeration_end {
  const stopwatch* clock = nullptr;  // outlives the solver
  double seconds = 0;
};

// A mesh with its tables for one set of index uses, and a dynamic program for each objective that was asked for. Keeps
// solutions of parts that graphs share. Immovable, because the programs refer to it.
class mesh_solver {
 public:
  mesh_solver(const tensor::algebra& a, const hardware::machine& m, const hardware::route_table& routes,
              hardware::device_mesh mesh, parallel::shard_clock& clock, parallel::index_uses uses,
              parallel::optimizer updates, bytes memory_limit = {}, std::optional<enumeration_end> enumeration = {},
              parallel::known_group_costs* known = nullptr)
      : mesh_{std::move(mesh)},
        uses_{uses},
        costs_{m, routes, mesh_, 16, known},
        tables_{a, mesh_, costs_, clock, uses, updates, memory_limit},
        enumeration_{enumeration} {}
  mesh_solver(const mesh_solver&) = delete;
  mesh_solver& operator=(const mesh_solver&) = delete;

  [[nodiscard]] const hardware::device_mesh& mesh() const noexcept { return mesh_; }
  [[nodiscard]] parallel::index_uses uses() const noexcept { return uses_; }
  [[nodiscard]] parallel::mesh_tables& tables() noexcept { return tables_; }
  [[nodiscard]] parallel::dimension_cache& dimensions() noexcept { return tables_.clock().dimensions(); }

  struct mapping_program {
    parallel::machine_mapping mapping;
    dynamic_program<parallel::machine_mapping> program{mapping};

    mapping_program(parallel::mesh_tables& tables, const parallel::mapping_objective& o, std::size_t width)
        : mapping{tables, o, width, effort_per_state * width} {}
  };
  // width: the number of states that are kept if a graph is not series-parallel.
  mapping_program& program(const parallel::mapping_objective& o, std::size_t width);

  // The cheapest mapping of the graph; an empty solution if the time ran out. With an enumeration_end: the cheapest of
  // those that are enumerated until then. Complexity: as dynamic_program::solve.
  [[nodiscard]] parallel::machine_mapping::solution solve(const parallel::operator_graph& g,
                                                          const parallel::mapping_objective& o);
  // Effects: from now on programs may run for that many seconds; enumerations have their own limit.
  void end_in(double seconds) {
    is_over_ = false;
    tables_.limit().end_in(enumeration_ ? std::numeric_limits<double>::infinity() : seconds);
  }
  // Whether a call of solve() ran out of time since end_in().
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  // Whether any call of solve() was cut short.
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }
  static constexpr std::size_t core_width = 48;
  // Per unit of width: the core_effort of machine_mapping, which lets small parts that are not series-parallel keep
  // more states.
  static constexpr std::size_t effort_per_state = 1U << 15U;

  [[nodiscard]] std::size_t goals() const;

  // The strategy of a solution, for a graph with that many nodes.
  [[nodiscard]] parallel::strategy strategy_of(const parallel::operator_graph& g,
                                               std::span<const std::uint32_t> options, std::size_t nodes);
  // Made once for equal operators. at: the position along axes on which the operator is placed. Complexity: linear in
  // the devices.
  [[nodiscard]] const parallel::configuration& configuration_of(const parallel::operator_graph& g, std::uint32_t op,
                                                                std::uint32_t option, std::size_t at = 0);

 private:
  hardware::device_mesh mesh_;
  parallel::index_uses uses_;
  parallel::mesh_costs costs_;
  parallel::mesh_tables tables_;
  std::optional<enumeration_end> enumeration_;
  bool ended_early_ = false;
  bool is_over_ = false;
  std::map<std::pair<parallel::mapping_objective, std::size_t>, std::unique_ptr<mapping_program>> programs_{};
  std::map<std::pair<fingerprint, std::pair<std::uint32_t, std::size_t>>, parallel::configuration> configurations_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MESH_SOLVER)

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include <unity/core/error.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/mapping_enumeration.hpp>

namespace unity::systems::detail {

UNITY_INLINE parallel::axis_set placed_axes(const parallel::mesh_option& o) {
  parallel::axis_set set = 0;
  for (std::size_t a = 0; a < o.roles.size(); ++a) {
    if (o.roles[a].kind == parallel::axis_role::kinds::placed) {
      set |= parallel::axis_set{1} << a;
    }
  }
  return set;
}

UNITY_INLINE std::vector<std::uint32_t> placed_groups(const parallel::operator_graph& g,
                                                      std::span<const parallel::axis_set> axes) {
  std::vector<std::uint32_t> parent(g.size());
  std::iota(parent.begin(), parent.end(), 0U);
  const auto root = [&](std::uint32_t i) {
    while (parent[i] != i) {
      i = parent[i] = parent[parent[i]];
    }
    return i;
  };
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    for (const auto& s : g.sources(i)) {
      if (axes[i] != 0 && s.from != parallel::operand_source::none && axes[s.from] == axes[i]) {
        parent[std::max(root(i), root(s.from))] = std::min(root(i), root(s.from));
      }
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    parent[i] = root(i);
  }
  return parent;
}

UNITY_INLINE std::vector<std::size_t> places_along(const hardware::device_mesh& mesh, parallel::axis_set axes) {
  std::vector<std::size_t> places;
  for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
    bool is_first = true;
    for (std::size_t a = 0; a < mesh.axis_count(); ++a) {
      is_first = is_first && ((axes >> a & 1U) != 0 || mesh.coordinate(p, a) == 0);
    }
    if (is_first) {
      places.push_back(p);
    }
  }
  return places;
}

}  // namespace unity::systems::detail

namespace unity::systems {

UNITY_INLINE std::vector<std::size_t> mesh_places(parallel::mesh_tables& tables, const parallel::operator_graph& g,
                                                  std::span<const std::uint32_t> options) {
  std::vector<const parallel::mesh_option*> chosen;
  std::vector<parallel::axis_set> axes;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    chosen.push_back(&tables.of(g.placed(i)).options[options[i]]);
    axes.push_back(detail::placed_axes(*chosen[i]));
  }
  const auto group_of = detail::placed_groups(g, axes);
  std::map<parallel::axis_set, std::map<std::uint32_t, std::int64_t>> work;  // by set and group
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    if (axes[i] != 0) {
      work[axes[i]][group_of[i]] += chosen[i]->computing.count();
    }
  }
  std::vector<std::size_t> place_of(g.size(), 0);
  for (const auto& [set, groups] : work) {
    const auto places = detail::places_along(tables.mesh(), set);
    std::vector<std::pair<std::int64_t, std::uint32_t>> order;
    for (const auto& [group, takes] : groups) {
      order.emplace_back(-takes, group);
    }
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> busy(places.size(), 0);
    for (const auto& [takes, group] : order) {
      const auto least = static_cast<std::size_t>(std::min_element(busy.begin(), busy.end()) - busy.begin());
      busy[least] -= takes;
      place_of[group] = places[least];
    }
  }
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    place_of[i] = axes[i] == 0 ? 0 : place_of[group_of[i]];
  }
  return place_of;
}

UNITY_INLINE auto mesh_solver::program(const parallel::mapping_objective& o, std::size_t width) -> mapping_program& {
  auto& p = programs_[{o, width}];
  if (p == nullptr) {
    p = std::make_unique<mapping_program>(tables_, o, width);
  }
  return *p;
}

UNITY_INLINE auto mesh_solver::solve(const parallel::operator_graph& g, const parallel::mapping_objective& o)
    -> parallel::machine_mapping::solution {
  if (enumeration_) {
    mapping_enumeration all{tables_, o};
    auto best = all.solve(g, *enumeration_->clock, enumeration_->seconds);
    ended_early_ = ended_early_ || !all.is_complete();
    return best;
  }
  try {
    auto& p = program(o, core_width);
    p.mapping.set_graph(g);
    return p.mapping.solve(p.program);
  } catch (const out_of_time&) {
    is_over_ = ended_early_ = true;
    return {};
  }
}

UNITY_INLINE std::size_t mesh_solver::goals() const {
  std::size_t sum = 0;
  for (const auto& [key, p] : programs_) {
    sum += p->program.goals();
  }
  return sum;
}

UNITY_INLINE parallel::strategy mesh_solver::strategy_of(const parallel::operator_graph& g,
                                                         std::span<const std::uint32_t> options, std::size_t nodes) {
  parallel::strategy s(nodes);
  const auto places = mesh_places(tables_, g, options);
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    s[g.node(i).index()] = configuration_of(g, i, options[i], places[i]);
  }
  return s;
}

UNITY_INLINE const parallel::configuration& mesh_solver::configuration_of(const parallel::operator_graph& g,
                                                                          std::uint32_t op, std::uint32_t option,
                                                                          std::size_t at) {
  const auto& p = g.placed(op);
  auto& c = configurations_[{p.key, {option, at}}];
  if (c.devices.empty()) {
    const auto& roles = tables_.of(p).options[option].roles;
    c = parallel::configuration_on(*p.dimensions, mesh_, {roles.data(), roles.size()}, at);
  }
  return c;
}

}  // namespace unity::systems

#endif
