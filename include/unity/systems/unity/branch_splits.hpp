// Runs branches of a graph in parallel on blocks of a mesh's devices (parallel splits).
// Over 500 lines because tracing a division of a join back mirrors how it was priced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/machine_mapping.hpp>
#include <unity/parallel/mesh/mapping_core.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/search/dynamic_programming.hpp>
#include <unity/systems/unity/branch_divisions.hpp>
#include <unity/systems/unity/mesh_solver.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::systems {

// Finds mappings whose branches may run in parallel on nested blocks of devices. Within a node, blocks have any size;
// beyond, they consist of whole nodes. Blocks with the same links between their devices share tables and solutions,
// which are kept while graphs change. Not thread-safe.
class split_mappings {
 public:
  // most_axes: the limit for meshes of blocks.
  split_mappings(const tensor::algebra& a, const hardware::machine& m, const hardware::route_table& routes,
                 parallel::shard_clock& clock, parallel::index_uses uses, parallel::optimizer updates,
                 std::size_t most_axes, bytes memory_limit = {});
  ~split_mappings();
  split_mappings(const split_mappings&) = delete;
  split_mappings& operator=(const split_mappings&) = delete;

  using solution = parallel::machine_mapping::solution;

  // The cheapest mapping of the graph onto the solver's mesh and blocks of it; at most as expensive as the solver's
  // own. Once is_past_deadline() is true, no further splits are considered. Empty if that many seconds are over before
  // the end.
  // Complexity: as the solver's, for each kind of block; as branch_divisions; and for some divisions of each join,
  // options of v times states of u and of the ends of branches.
  [[nodiscard]] solution solve(mesh_solver& solver, const parallel::operator_graph& g,
                               const parallel::mapping_objective& o, std::function<bool()> is_past_deadline = {},
                               double seconds = std::numeric_limits<double>::infinity());
  // Whether any operator runs on a block.
  [[nodiscard]] static bool has_blocks(const solution& s);
  [[nodiscard]] parallel::strategy strategy_of(mesh_solver& solver, const parallel::operator_graph& g,
                                               const solution& s, std::size_t nodes);
  // The memory and the time of gradient reductions, each a maximum over the devices.
  [[nodiscard]] std::pair<bytes, picoseconds> memory_and_synchronizing(mesh_solver& solver,
                                                                       const parallel::operator_graph& g,
                                                                       const solution& s);

 private:
  class join_splits;
  struct program;

  // A mesh that is shared by all blocks with the same links.
  struct numbered_solver {
    std::uint32_t number = 0;
    mesh_solver* solver = nullptr;
  };
  [[nodiscard]] const std::vector<numbered_solver>& solvers_of(std::span<const hardware::device_id> devices);
  [[nodiscard]] program& program_of(mesh_solver& solver, const parallel::mapping_objective& o);
  // Effects: gives that limit to the tables of the solver and of all blocks.
  void set_limit(mesh_solver& solver, const time_limit& limit);
  [[nodiscard]] solution solved(mesh_solver& solver, const parallel::operator_graph& g,
                                const parallel::mapping_objective& o);
  // Equal for lists of devices with equal links between corresponding devices.
  [[nodiscard]] fingerprint shape_of(std::span<const hardware::device_id> devices) const;
  // The mesh of an operator's block, with that block's devices.
  [[nodiscard]] hardware::device_mesh mesh_of(mesh_solver& solver, parallel::mesh_block b) const;
  [[nodiscard]] mesh_solver& solver_of(mesh_solver& solver, parallel::mesh_block b) const {
    return b.mesh == parallel::mesh_block::all_devices ? solver : *all_[b.mesh];
  }

  const tensor::algebra& algebra_;
  const hardware::machine& machine_;
  const hardware::route_table& routes_;
  parallel::shard_clock& clock_;
  parallel::index_uses uses_;
  parallel::optimizer optimizer_;
  std::size_t most_axes_;
  bytes memory_limit_;
  std::vector<std::unique_ptr<mesh_solver>> all_{};
  std::map<fingerprint, std::vector<numbered_solver>> by_shape_{};
  std::map<std::vector<hardware::device_id>, const std::vector<numbered_solver>*> by_devices_{};
  std::map<std::pair<const mesh_solver*, parallel::mapping_objective>, std::unique_ptr<program>> programs_;
  const parallel::operator_graph* graph_ = nullptr;
  std::uint64_t graphs_ = 0;  // solved so far; tells a program whether its graph is the current one
  std::function<bool()> is_past_deadline_{};
  time_limit limit_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_BRANCH_SPLITS)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::systems {

// The splits of joins on one mesh, for one objective.
class split_mappings::join_splits : public parallel::parallel_splits {
 public:
  join_splits(split_mappings& all, mesh_solver& solver, const parallel::mapping_objective& o)
      : all_{all}, solver_{solver}, objective_{o} {}

  void forget() {
    joins_.clear();
    through_.clear();
    leaving_.clear();
  }
  void lower(const parallel::mapping_goal& join, std::uint32_t state, std::span<std::int64_t> costs) override;
  bool trace(const parallel::mapping_goal& join, std::uint32_t state, std::uint32_t option, std::int64_t cost,
             std::vector<std::uint32_t>& options, std::vector<parallel::mesh_block>& blocks) override;

 private:
  using goal = parallel::mapping_goal;
  using cost_list = std::vector<std::int64_t>;
  // Only this many divisions of a join are priced with all layouts.
  static constexpr std::size_t most_divisions = 12;

  struct branch {
    goal part{};  // in the program
    std::uint32_t last = goal::none;
    // results of u that the branch reads; whether a cotangent comes back
    std::vector<std::pair<std::uint32_t, bool>> read{};
  };
  struct join_parts {
    std::vector<branch> branches{};
    bool has_wire = false;
    std::vector<std::pair<std::int64_t, branch_division>> divisions{};
  };

  [[nodiscard]] const join_parts& parts(const goal& join);
  [[nodiscard]] bool find_branches(const goal& join, join_parts& p) const;
  // A lower bound on the cost of a branch on the range, including the transfer of its results to v but not of u's
  // results to the range.
  [[nodiscard]] std::int64_t least(const goal& join, const branch& b, device_range on);
  [[nodiscard]] bool can_cut(device_range on, std::uint32_t cut) const;
  [[nodiscard]] std::span<const hardware::device_id> devices(device_range on) const {
    return std::span{solver_.mesh().devices}.subspan(on.first, on.count);
  }

  [[nodiscard]] cost_list priced(const goal& join, const join_parts& p, const branch_division& d, std::uint32_t state);
  // Adds the cost of operands of v that come directly from u.
  void add_wires(const goal& join, std::uint32_t state, cost_list& costs);
  // By option of v: the cost of a branch on a block, including transfers of u's results to it and of its results to v.
  [[nodiscard]] const cost_list& through(const goal& join, const branch& b, device_range on, std::uint32_t state);
  [[nodiscard]] cost_list through(const goal& join, const branch& b, device_range on, const numbered_solver& in,
                                  std::uint32_t state);
  // By state of the branch's last operator: the cost from a state of u on all devices.
  [[nodiscard]] cost_list ends(const goal& join, const branch& b, device_range on, const numbered_solver& in,
                               std::uint32_t state);
  // By state of u on a block: the cost of transfers from a state of u on all devices.
  [[nodiscard]] cost_list entering(const goal& join, const branch& b, device_range on, const numbered_solver& in,
                                   std::uint32_t state);
  // By state of the last operator and option of v: the cost of transfers to v.
  [[nodiscard]] const std::vector<cost_list>& leaving(const goal& join, const branch& b, device_range on,
                                                      const numbered_solver& in);
  // Costs of transfers between layouts on all devices and layouts on a block, computed on demand.
  struct handovers {
    hardware::device_mesh block{};
    const parallel::layout_space* whole = nullptr;  // layouts on all devices
    const parallel::layout_space* part = nullptr;   // on the block
    std::vector<std::int64_t> costs{};              // by layout on all devices, then on the block; -1: unknown
  };
  [[nodiscard]] handovers& handovers_of(const tensor::tensor_type& t, device_range on, const numbered_solver& in,
                                        bool is_entering);
  [[nodiscard]] std::int64_t hand(handovers& known, const tensor::tensor_type& t, std::uint32_t here,
                                  std::uint32_t there, bool is_entering);
  void trace_branch(const goal& join, const branch& b, device_range on, std::uint32_t state, std::uint32_t option,
                    std::vector<std::uint32_t>& options, std::vector<parallel::mesh_block>& blocks);

  [[nodiscard]] const parallel::operator_graph& graph() const { return *all_.graph_; }
  [[nodiscard]] const parallel::operator_table& table(mesh_solver& solver, std::uint32_t op) const {
    return solver.tables().of(graph().placed(op));
  }

  split_mappings& all_;
  mesh_solver& solver_;
  parallel::mapping_objective objective_;
  parallel::layout_distances distances_{};
  std::map<goal, join_parts> joins_{};
  using branch_on = std::tuple<goal, device_range, std::uint32_t>;
  std::map<branch_on, cost_list> through_{};               // by branch, block and state of u
  std::map<branch_on, std::vector<cost_list>> leaving_{};  // by branch, block and solver
  std::map<std::pair<std::vector<std::int64_t>, std::tuple<device_range, std::uint32_t, bool>>, handovers> hands_{};
};

struct split_mappings::program {
  parallel::machine_mapping mapping;
  dynamic_program<parallel::machine_mapping> goals{mapping};
  join_splits splits;
  std::uint64_t graph = 0;

  program(split_mappings& all, mesh_solver& solver, const parallel::mapping_objective& o)
      : mapping{solver.tables(), o, mesh_solver::core_width, mesh_solver::effort_per_state * mesh_solver::core_width},
        splits{all, solver, o} {
    mapping.set_splits(splits);
  }
};

UNITY_INLINE void split_mappings::join_splits::lower(const goal& join, std::uint32_t state,
                                                     std::span<std::int64_t> costs) {
  const auto& p = parts(join);
  const auto dearest = *std::max_element(costs.begin(), costs.end());
  for (const auto& [least, division] : p.divisions) {
    if (least >= dearest) {
      break;
    }
    const auto other = priced(join, p, division, state);
    for (std::size_t o = 0; o < costs.size(); ++o) {
      costs[o] = std::min(costs[o], other[o]);
    }
  }
}

UNITY_INLINE bool split_mappings::join_splits::trace(const goal& join, std::uint32_t state, std::uint32_t option,
                                                     std::int64_t cost, std::vector<std::uint32_t>& options,
                                                     std::vector<parallel::mesh_block>& blocks) {
  const auto& p = parts(join);
  for (const auto& [least, division] : p.divisions) {
    if (least > cost || priced(join, p, division, state)[option] != cost) {
      continue;
    }
    for (const auto& part : division) {
      for (const auto b : part.branches) {
        trace_branch(join, p.branches[b], part.block, state, option, options, blocks);
      }
    }
    return true;
  }
  return false;
}

UNITY_INLINE auto split_mappings::join_splits::parts(const goal& join) -> const join_parts& {
  const auto known = joins_.find(join);
  if (known != joins_.end()) {
    return known->second;
  }
  join_parts p;
  const bool is_past_deadline = all_.is_past_deadline_ && all_.is_past_deadline_();
  const auto count = static_cast<std::uint32_t>(solver_.mesh().devices.size());
  if (!is_past_deadline && count > 1 && find_branches(join, p)) {
    p.divisions = branch_divisions(
        p.branches.size(), {0, count}, [this](device_range on, std::uint32_t cut) { return can_cut(on, cut); },
        [&](std::size_t b, device_range on) { return least(join, p.branches[b], on); });
    p.divisions.resize(std::min(p.divisions.size(), most_divisions));
  }
  return joins_[join] = std::move(p);
}

UNITY_INLINE bool split_mappings::join_splits::find_branches(const goal& join, join_parts& p) const {
  const parallel::mapping_goals goals{graph()};
  if (goals.is_core(join.part)) {
    return false;
  }
  for (const auto& b : goals.branches(join.part, join.u)) {
    if (b.is_wire) {
      p.has_wire = true;
      continue;
    }
    if (b.is_open) {
      return false;
    }
    auto& one = p.branches.emplace_back();
    one.part = {goal::kinds::branch, b.part, join.u, goal::none};
    one.last = b.last;
    std::map<std::uint32_t, bool> read;
    for (const auto op : goals.operators(one.part)) {
      const auto sources = graph().sources(op);
      for (std::size_t x = 0; x < sources.size(); ++x) {
        if (join.u != goal::none && sources[x].from == join.u) {
          auto& wanted = read[sources[x].result];
          wanted = wanted || graph().placed(op).wanted[x];
        }
      }
    }
    one.read.assign(read.begin(), read.end());
  }
  return p.branches.size() > 1;
}

UNITY_INLINE std::int64_t split_mappings::join_splits::least(const goal& join, const branch& b, device_range on) {
  auto cheapest = parallel::unreachable;
  const bool is_whole = on.count == solver_.mesh().devices.size();
  for (const auto& in : is_whole ? std::vector{numbered_solver{0, &solver_}} : all_.solvers_of(devices(on))) {
    auto& p = all_.program_of(*in.solver, objective_);
    if (!p.mapping.is_possible()) {
      continue;
    }
    const auto& all = p.goals.solve(b.part);
    for (std::size_t t = 0; t < all.columns; ++t) {
      std::int64_t out = 0;
      if (!is_whole) {
        const auto& by_option = leaving(join, b, on, in)[t];
        out = *std::min_element(by_option.begin(), by_option.end());
      }
      for (auto at = t; out < parallel::unreachable && at < all.costs.size(); at += all.columns) {
        cheapest = std::min(cheapest, all.costs[at] + out);
      }
    }
  }
  return cheapest;
}

// Within a node, any cut; across nodes, only between nodes; with many devices, only at quarters.
UNITY_INLINE bool split_mappings::join_splits::can_cut(device_range on, std::uint32_t cut) const {
  constexpr std::uint32_t many = 64;
  const auto& d = solver_.mesh().devices;
  const auto node = [&](std::uint32_t place) { return all_.machine_.network[d[place]].node; };
  if (on.count > many && (cut - on.first) * 4 % on.count != 0) {
    return false;
  }
  return node(on.first) == node(on.first + on.count - 1) || node(cut - 1) != node(cut);
}

UNITY_INLINE auto split_mappings::join_splits::priced(const goal& join, const join_parts& p, const branch_division& d,
                                                      std::uint32_t state) -> cost_list {
  cost_list all(table(solver_, join.v).options.size(), 0);
  for (const auto& part : d) {
    cost_list here(all.size(), 0);
    for (const auto b : part.branches) {
      const auto& one = through(join, p.branches[b], part.block, state);
      for (std::size_t o = 0; o < here.size(); ++o) {
        here[o] = std::min(parallel::unreachable, here[o] + one[o]);
      }
    }
    for (std::size_t o = 0; o < all.size(); ++o) {
      all[o] = std::max(all[o], here[o]);
    }
  }
  if (p.has_wire) {
    add_wires(join, state, all);
  }
  return all;
}

UNITY_INLINE void split_mappings::join_splits::add_wires(const goal& join, std::uint32_t state, cost_list& costs) {
  const auto& t = table(solver_, join.v);
  const auto sources = graph().sources(join.v);
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from != join.u) {
      continue;
    }
    const auto from = distances_.from(*t.operands[x], table(solver_, join.u).states[state][sources[x].result]);
    for (std::size_t o = 0; o < costs.size(); ++o) {
      costs[o] = std::min(parallel::unreachable, costs[o] + from[t.numbered[o].operands[x]]);
    }
  }
}

UNITY_INLINE auto split_mappings::join_splits::through(const goal& join, const branch& b, device_range on,
                                                       std::uint32_t state) -> const cost_list& {
  auto& known = through_[{b.part, on, state}];
  if (known.empty()) {
    all_.limit_.check();
    cost_list least(table(solver_, join.v).options.size(), parallel::unreachable);
    for (const auto& in : all_.solvers_of(devices(on))) {
      const auto one = through(join, b, on, in, state);
      for (std::size_t o = 0; o < least.size(); ++o) {
        least[o] = std::min(least[o], one[o]);
      }
    }
    known = std::move(least);
  }
  return known;
}

UNITY_INLINE auto split_mappings::join_splits::through(const goal& join, const branch& b, device_range on,
                                                       const numbered_solver& in, std::uint32_t state) -> cost_list {
  const auto from = ends(join, b, on, in, state);
  const auto& out = leaving(join, b, on, in);
  cost_list costs(table(solver_, join.v).options.size(), parallel::unreachable);
  for (std::size_t t = 0; t < from.size(); ++t) {
    for (std::size_t o = 0; from[t] < parallel::unreachable && o < costs.size(); ++o) {
      costs[o] = std::min(costs[o], from[t] + out[t][o]);
    }
  }
  return costs;
}

UNITY_INLINE auto split_mappings::join_splits::ends(const goal& join, const branch& b, device_range on,
                                                    const numbered_solver& in, std::uint32_t state) -> cost_list {
  auto& p = all_.program_of(*in.solver, objective_);
  if (!p.mapping.is_possible()) {
    return {};
  }
  const auto before = entering(join, b, on, in, state);
  const auto& all = p.goals.solve(b.part);
  cost_list costs(all.columns, parallel::unreachable);
  for (std::size_t s = 0; s < before.size(); ++s) {
    for (std::size_t t = 0; before[s] < parallel::unreachable && t < costs.size(); ++t) {
      costs[t] = std::min(costs[t], before[s] + all(s, t));
    }
  }
  return costs;
}

UNITY_INLINE auto split_mappings::join_splits::entering(const goal& join, const branch& b, device_range on,
                                                        const numbered_solver& in, std::uint32_t state) -> cost_list {
  if (join.u == goal::none) {
    return {0};
  }
  const auto& states = table(*in.solver, join.u).states;
  cost_list costs(states.size(), 0);
  for (const auto& [result, is_wanted] : b.read) {
    const auto& type = graph().placed(join.u).dimensions->outputs[result];
    const auto& space = solver_.tables().space(type, is_wanted);
    const auto reached = distances_.from(space, table(solver_, join.u).states[state][result]);
    auto& known = handovers_of(type, on, in, true);
    for (std::size_t s = 0; s < states.size(); ++s) {
      auto least = parallel::unreachable;
      for (std::uint32_t l = 0; l < space.size(); ++l) {
        if (reached[l] < least) {
          const auto takes = hand(known, type, l, states[s][result], true);
          least = std::min(least, reached[l] + (is_wanted ? 2 : 1) * takes);
        }
      }
      costs[s] = std::min(parallel::unreachable, costs[s] + least);
    }
  }
  return costs;
}

UNITY_INLINE auto split_mappings::join_splits::leaving(const goal& join, const branch& b, device_range on,
                                                       const numbered_solver& in) -> const std::vector<cost_list>& {
  auto& known = leaving_[{b.part, on, in.number}];
  if (!known.empty()) {
    return known;
  }
  all_.limit_.check();
  const auto& v = table(solver_, join.v);
  const auto& states = table(*in.solver, b.last).states;
  known.assign(states.size(), cost_list(v.options.size(), 0));
  const auto sources = graph().sources(join.v);
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from != b.last) {
      continue;
    }
    const auto& type = graph().placed(join.v).dimensions->inputs[x];
    const bool is_wanted = graph().placed(join.v).wanted[x];
    const auto& space = in.solver->tables().space(type, is_wanted);
    auto& hands = handovers_of(type, on, in, false);
    for (std::size_t t = 0; t < states.size(); ++t) {
      const auto reached = distances_.from(space, states[t][sources[x].result]);
      cost_list to(v.operands[x]->size(), parallel::unreachable);
      for (std::uint32_t l = 0; l < space.size(); ++l) {
        for (std::uint32_t k = 0; reached[l] < parallel::unreachable && k < to.size(); ++k) {
          to[k] = std::min(to[k], reached[l] + (is_wanted ? 2 : 1) * hand(hands, type, k, l, false));
        }
      }
      for (std::size_t o = 0; o < v.options.size(); ++o) {
        known[t][o] = std::min(parallel::unreachable, known[t][o] + to[v.numbered[o].operands[x]]);
      }
    }
  }
  return known;
}

UNITY_INLINE auto split_mappings::join_splits::handovers_of(const tensor::tensor_type& t, device_range on,
                                                            const numbered_solver& in, bool is_entering) -> handovers& {
  std::vector<std::int64_t> key(t.dims.begin(), t.dims.end());
  key.push_back(static_cast<std::int64_t>(tensor::size_of(t.element)));
  auto& known = hands_[{std::move(key), {on, in.number, is_entering}}];
  if (known.costs.empty()) {
    known.block = all_.mesh_of(solver_, {in.number, on.first});
    known.whole = &solver_.tables().space(t, false);
    known.part = &in.solver->tables().space(t, false);
    known.costs.assign(known.whole->size() * known.part->size(), -1);
  }
  return known;
}

UNITY_INLINE std::int64_t split_mappings::join_splits::hand(handovers& known, const tensor::tensor_type& t,
                                                            std::uint32_t here, std::uint32_t there, bool is_entering) {
  const auto& part = *known.part;
  auto& takes = known.costs[here * part.size() + there];
  if (takes < 0) {
    const auto& m = solver_.mesh();
    const auto whole = (*known.whole)[here];
    if (!parallel::is_everywhere(m, whole) || !parallel::is_everywhere(known.block, part[there])) {
      takes = parallel::unreachable / 2;
    } else if (is_entering) {
      takes = parallel::handover(all_.machine_, all_.routes_, t, m, whole, known.block, part[there]).count();
    } else {
      takes = parallel::handover(all_.machine_, all_.routes_, t, known.block, part[there], m, whole).count();
    }
  }
  return takes;
}

UNITY_INLINE void split_mappings::join_splits::trace_branch(const goal& join, const branch& b, device_range on,
                                                            std::uint32_t state, std::uint32_t option,
                                                            std::vector<std::uint32_t>& options,
                                                            std::vector<parallel::mesh_block>& blocks) {
  const auto wanted = through(join, b, on, state)[option];
  for (const auto& in : all_.solvers_of(devices(on))) {
    if (through(join, b, on, in, state)[option] != wanted) {
      continue;
    }
    const auto from = ends(join, b, on, in, state);
    std::uint32_t last = 0;
    while (from[last] >= parallel::unreachable || from[last] + leaving(join, b, on, in)[last][option] != wanted) {
      ++last;
      UNITY_EXPECTS(last < from.size(), "a cost that was found before");
    }
    const auto before = entering(join, b, on, in, state);
    auto& p = all_.program_of(*in.solver, objective_);
    const auto& all = p.goals.solve(b.part);
    std::uint32_t first = 0;
    while (before[first] >= parallel::unreachable || before[first] + all(first, last) != from[last]) {
      ++first;
      UNITY_EXPECTS(first < before.size(), "a cost that was found before");
    }
    std::vector<parallel::mesh_block> inner(graph().size());
    p.mapping.trace(p.goals, b.part, first, last, options, inner);
    for (const auto op : parallel::mapping_goals{graph()}.operators(b.part)) {
      blocks[op] = inner[op].mesh == parallel::mesh_block::all_devices
                       ? parallel::mesh_block{in.number, on.first}
                       : parallel::mesh_block{inner[op].mesh, on.first + inner[op].first};
    }
    return;
  }
  UNITY_EXPECTS(false, "a mesh with a cost that was found before");
}

UNITY_INLINE split_mappings::split_mappings(const tensor::algebra& a, const hardware::machine& m,
                                            const hardware::route_table& routes, parallel::shard_clock& clock,
                                            parallel::index_uses uses, parallel::optimizer updates,
                                            std::size_t most_axes, bytes memory_limit)
    : algebra_{a},
      machine_{m},
      routes_{routes},
      clock_{clock},
      uses_{uses},
      optimizer_{updates},
      most_axes_{most_axes},
      memory_limit_{memory_limit} {}

UNITY_INLINE split_mappings::~split_mappings() = default;

UNITY_INLINE auto split_mappings::solve(mesh_solver& solver, const parallel::operator_graph& g,
                                        const parallel::mapping_objective& o, std::function<bool()> is_past_deadline,
                                        double seconds) -> solution {
  is_past_deadline_ = std::move(is_past_deadline);
  time_limit limit;
  limit.end_in(seconds);
  set_limit(solver, limit);
  solution s;
  try {
    s = solved(solver, g, o);
  } catch (const out_of_time&) {
    s = {};
  }
  set_limit(solver, {});
  return s;
}

UNITY_INLINE void split_mappings::set_limit(mesh_solver& solver, const time_limit& limit) {
  limit_ = limit;
  solver.tables().limit() = limit;
  for (const auto& block : all_) {
    block->tables().limit() = limit;
  }
}

UNITY_INLINE auto split_mappings::solved(mesh_solver& solver, const parallel::operator_graph& g,
                                         const parallel::mapping_objective& o) -> solution {
  graph_ = &g;
  ++graphs_;
  auto& p = program_of(solver, o);
  auto s = p.mapping.solve(p.goals);
  for (auto i = static_cast<std::uint32_t>(s.blocks.size()); i-- > 0;) {
    if (!g.is_attached(i) && s.blocks[i].mesh != parallel::mesh_block::all_devices) {
      program_of(solver_of(solver, s.blocks[i]), o).mapping.trace_attached(i, s.options);
    }
    for (const auto& source : g.sources(i)) {
      if (source.from != parallel::operand_source::none && g.is_attached(source.from)) {
        s.blocks[source.from] = s.blocks[i];
      }
    }
  }
  return s;
}

UNITY_INLINE bool split_mappings::has_blocks(const solution& s) {
  return std::any_of(s.blocks.begin(), s.blocks.end(),
                     [](parallel::mesh_block b) { return b.mesh != parallel::mesh_block::all_devices; });
}

UNITY_INLINE parallel::strategy split_mappings::strategy_of(mesh_solver& solver, const parallel::operator_graph& g,
                                                            const solution& s, std::size_t nodes) {
  parallel::strategy all(nodes);
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    const auto& roles = solver_of(solver, s.blocks[i]).tables().of(g.placed(i)).options[s.options[i]].roles;
    all[g.node(i).index()] =
        parallel::configuration_on(*g.placed(i).dimensions, mesh_of(solver, s.blocks[i]), {roles.data(), roles.size()});
  }
  return all;
}

UNITY_INLINE std::pair<bytes, picoseconds> split_mappings::memory_and_synchronizing(mesh_solver& solver,
                                                                                    const parallel::operator_graph& g,
                                                                                    const solution& s) {
  std::vector<bytes> memory(solver.mesh().devices.size());
  std::vector<picoseconds> synchronizing(memory.size());
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    auto& in = solver_of(solver, s.blocks[i]);
    const auto& o = in.tables().of(g.placed(i)).options[s.options[i]];
    for (std::size_t p = 0; p < in.mesh().devices.size(); ++p) {
      memory[s.blocks[i].first + p] += o.weights + o.activations;
      synchronizing[s.blocks[i].first + p] += o.synchronizing;
    }
  }
  return {*std::max_element(memory.begin(), memory.end()),
          *std::max_element(synchronizing.begin(), synchronizing.end())};
}

UNITY_INLINE auto split_mappings::solvers_of(std::span<const hardware::device_id> devices)
    -> const std::vector<numbered_solver>& {
  auto& known = by_devices_[{devices.begin(), devices.end()}];
  if (known != nullptr) {
    return *known;
  }
  const auto [at, is_new] = by_shape_.try_emplace(shape_of(devices));
  known = &at->second;
  if (is_new) {
    std::vector<std::vector<hardware::device_id>> rows;
    for (const auto d : devices) {
      const bool is_next = rows.empty() || machine_.network[rows.back().back()].node != machine_.network[d].node;
      if (is_next) {
        rows.emplace_back();
      }
      rows.back().push_back(d);
    }
    for (const auto& mesh : hardware::meshes_of(rows, most_axes_)) {
      at->second.push_back({static_cast<std::uint32_t>(all_.size()), nullptr});
      all_.push_back(
          std::make_unique<mesh_solver>(algebra_, machine_, routes_, mesh, clock_, uses_, optimizer_, memory_limit_));
      all_.back()->tables().limit() = limit_;
      at->second.back().solver = all_.back().get();
    }
  }
  return *known;
}

UNITY_INLINE auto split_mappings::program_of(mesh_solver& solver, const parallel::mapping_objective& o) -> program& {
  auto& p = programs_[{&solver, o}];
  if (p == nullptr) {
    p = std::make_unique<program>(*this, solver, o);
  }
  if (p->graph != graphs_) {
    p->graph = graphs_;
    p->mapping.set_graph(*graph_);
    p->splits.forget();
  }
  return *p;
}

UNITY_INLINE fingerprint split_mappings::shape_of(std::span<const hardware::device_id> devices) const {
  const auto& t = machine_.network;
  hasher h{devices.size()};
  std::map<std::size_t, std::uint64_t> numbers;  // numbers of link resources, in order of first use
  std::map<std::uint32_t, std::uint64_t> nodes;
  for (const auto from : devices) {
    h.add(t[from].model).add(nodes.try_emplace(t[from].node, nodes.size()).first->second);
    h.add(static_cast<std::uint64_t>(hardware::start_of(machine_, from).start.count()));
    for (const auto to : devices) {
      for (const auto l : from == to ? hardware::route{} : routes_.between(t, from, to)) {
        h.add(numbers.try_emplace(t.resource(l).index(), numbers.size()).first->second);
        h.add(static_cast<std::uint64_t>(t.bytes_per_second(l)));
        h.add(static_cast<std::uint64_t>(t.latency(l).count()));
      }
      h.add(0);
    }
  }
  return h.result();
}

UNITY_INLINE hardware::device_mesh split_mappings::mesh_of(mesh_solver& solver, parallel::mesh_block b) const {
  if (b.mesh == parallel::mesh_block::all_devices) {
    return solver.mesh();
  }
  auto mesh = all_[b.mesh]->mesh();
  for (std::size_t p = 0; p < mesh.devices.size(); ++p) {
    mesh.devices[p] = solver.mesh().devices[b.first + p];
  }
  return mesh;
}

}  // namespace unity::systems

#endif
