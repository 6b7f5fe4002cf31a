// Meshes of a machine with cached costs of their collectives and operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/machine/device_mesh.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mesh_costs.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/parallelism_kinds.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::systems {

// A mesh with its tables for one set of index uses, and a dynamic program for each objective that was asked for. Keeps
// solutions of parts that graphs share. Immovable, because the programs refer to it.
class mesh_room {
 public:
  mesh_room(const tensor::algebra& a, const machine::machine& m, const machine::route_table& routes,
            machine::device_mesh mesh, parallel::shard_clock& clock, parallel::index_uses uses, parallel::optimizer how,
            std::int64_t memory_limit = 0)
      : mesh_{std::move(mesh)}, uses_{uses}, costs_{m, routes, mesh_}, tables_{a,    mesh_, costs_,      clock,
                                                                               uses, how,   memory_limit} {}
  mesh_room(const mesh_room&) = delete;
  mesh_room& operator=(const mesh_room&) = delete;

  [[nodiscard]] const machine::device_mesh& mesh() const noexcept { return mesh_; }
  [[nodiscard]] parallel::index_uses uses() const noexcept { return uses_; }
  [[nodiscard]] parallel::mesh_tables& tables() noexcept { return tables_; }

  struct mapping_program {
    parallel::machine_mapping mapping;
    dynamic_program<parallel::machine_mapping> program{mapping};

    mapping_program(parallel::mesh_tables& tables, const parallel::mapping_objective& o, std::size_t width)
        : mapping{tables, o, width, effort_per_state * width} {}
  };
  // width: the number of states that are kept if a graph is not series-parallel.
  mapping_program& program(const parallel::mapping_objective& o, std::size_t width);

  // The cheapest mapping of the graph; an empty solution if the time ran out. Complexity: as dynamic_program::solve.
  [[nodiscard]] parallel::machine_mapping::solution solve(const parallel::operator_graph& g,
                                                          const parallel::mapping_objective& o);
  // Effects: from now on solve() enumerates mappings, until all are tried or the clock shows that many seconds.
  void enumerate_until(const stopwatch& clock, double seconds) {
    clock_ = &clock;
    seconds_ = seconds;
  }
  // Effects: from now on programs may run for that many seconds; enumerations have their own limit.
  void end_in(double seconds) {
    is_over_ = false;
    tables_.limit().end_in(clock_ == nullptr ? seconds : std::numeric_limits<double>::infinity());
  }
  // Whether a call of solve() ran out of time since end_in().
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  // Whether any call of solve() was cut short.
  [[nodiscard]] bool ended_early() const noexcept { return ended_early_; }
  static constexpr std::size_t core_width = 48;
  // Per unit of width: steps of a program over states that smaller parts may use to keep more states.
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
  machine::device_mesh mesh_;
  parallel::index_uses uses_;
  parallel::mesh_costs costs_;
  parallel::mesh_tables tables_;
  const stopwatch* clock_ = nullptr;  // null: use dynamic programs
  double seconds_ = 0;
  bool ended_early_ = false;
  bool is_over_ = false;
  std::map<std::pair<parallel::mapping_objective, std::size_t>, std::unique_ptr<mapping_program>> programs_{};
  std::map<std::pair<fingerprint, std::pair<std::uint32_t, std::size_t>>, parallel::configuration> configurations_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MESH_ROOM)

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/systems/unity/mapping_enumeration.hpp>
#include <unity/systems/unity/mesh_places.hpp>

namespace unity::systems {

UNITY_INLINE auto mesh_room::program(const parallel::mapping_objective& o, std::size_t width) -> mapping_program& {
  auto& p = programs_[{o, width}];
  if (p == nullptr) {
    p = std::make_unique<mapping_program>(tables_, o, width);
  }
  return *p;
}

UNITY_INLINE auto mesh_room::solve(const parallel::operator_graph& g, const parallel::mapping_objective& o)
    -> parallel::machine_mapping::solution {
  if (clock_ != nullptr) {
    mapping_enumeration all{tables_, o};
    auto best = all.solve(g, *clock_, seconds_);
    ended_early_ = ended_early_ || !all.is_complete();
    return best;
  }
  try {
    auto& p = program(o, core_width);
    p.mapping.set_graph(g);
    return p.mapping.solve(p.program);
  } catch (const time_over&) {
    is_over_ = ended_early_ = true;
    return {};
  }
}

UNITY_INLINE std::size_t mesh_room::goals() const {
  std::size_t sum = 0;
  for (const auto& [key, p] : programs_) {
    sum += p->program.goals();
  }
  return sum;
}

UNITY_INLINE parallel::strategy mesh_room::strategy_of(const parallel::operator_graph& g,
                                                       std::span<const std::uint32_t> options, std::size_t nodes) {
  parallel::strategy s(nodes);
  const auto places = mesh_places(tables_, g, options);
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    s[g.node(i).index()] = configuration_of(g, i, options[i], places[i]);
  }
  return s;
}

UNITY_INLINE const parallel::configuration& mesh_room::configuration_of(const parallel::operator_graph& g,
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
