// Finds the best options of all operators of a graph on one mesh, by dynamic programming over its series and parallel
// parts.
// Over 500 lines because tracing a solution back mirrors, step by step, how its costs were added up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/graph/series_parallel_tree.hpp>
#include <unity/parallel/mesh/mapping_core.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::parallel {

// The devices of an operator that does not run on all devices of a mapping's mesh: consecutive ones in the mesh's list
// of devices. The parallel_splits define the meshes.
struct mesh_block {
  static constexpr std::uint32_t all_devices = 0xffffffffU;

  std::uint32_t mesh = all_devices;
  std::uint32_t first = 0;  // position of its first device

  friend bool operator==(const mesh_block&, const mesh_block&) = default;
};

// An alternative to running branches one after another on all devices: side by side, on separate blocks of devices.
// Source: Unger et al., Unity (OSDI 2022), section 5.2: parallel graph splits.
class parallel_splits {
 public:
  parallel_splits() = default;
  parallel_splits(const parallel_splits&) = delete;
  parallel_splits& operator=(const parallel_splits&) = delete;
  virtual ~parallel_splits() = default;

  // join: has an operator v. costs: per option of v, the cost of all branches after that state of u, without v's own
  // cost.
  // Effects: lowers costs for which some split is cheaper.
  virtual void lower(const mapping_goal& join, std::uint32_t state, std::span<std::int64_t> costs) = 0;
  // Effects: writes the options and blocks of the operators of all branches if a split before an option of v has
  // exactly that cost; returns whether one has.
  virtual bool trace(const mapping_goal& join, std::uint32_t state, std::uint32_t option, std::int64_t cost,
                     std::vector<std::uint32_t>& options, std::vector<mesh_block>& blocks) = 0;
};

// Models decomposition. The value of a goal is its cost, by state of the operator before it and of its last one.
// Parallel parts run one after another on all devices, or as parallel splits permit. Parts that are not series-parallel
// are solved by a dynamic program over the live values (mesh/mapping_core.hpp).
// Holds references to the tables and the graph.
// Source: Unger et al., Unity (OSDI 2022), section 5.2; options of operators are chosen here as well, so that one
// solution covers all ways to divide the operators of a graph.
class machine_mapping {
 public:
  using goal_type = mapping_goal;
  using value_type = cost_table;

  // In a part that is not series-parallel the core_width cheapest states are kept, or as many more as core_effort steps
  // permit, so that small parts are solved exactly.
  machine_mapping(mesh_tables& tables, mapping_objective objective, std::size_t core_width = 48,
                  std::size_t core_effort = 0)
      : tables_{&tables}, objective_{objective}, core_width_{core_width}, core_effort_{core_effort} {}

  // Effects: branches may run side by side. To be called before anything is solved; the splits must outlive this.
  void set_splits(parallel_splits& s) { splits_ = &s; }
  // Effects: goals are those of this graph from now on; the graph must outlive them.
  // Throws: out_of_time.
  void set_graph(const operator_graph& g);
  // False if some operator has no option on this mesh, so that the graph cannot be mapped.
  [[nodiscard]] bool is_possible() const {
    return std::all_of(table_of_.begin(), table_of_.end(), [](const auto* t) { return !t->options.empty(); });
  }
  [[nodiscard]] goal_type root() const { return goals_->root(); }
  // Whether a core was solved with fewer states than exist.
  [[nodiscard]] bool is_bounded() const noexcept { return is_bounded_; }

  [[nodiscard]] fingerprint fingerprint_of(const goal_type& g) const { return goals_->fingerprint_of(g); }
  [[nodiscard]] std::vector<goal_type> subgoals(const goal_type& g) const { return goals_->subgoals(g); }
  // Throws: out_of_time.
  [[nodiscard]] cost_table combine(const goal_type& g, std::span<const cost_table* const> values) {
    tables_->limit().check();
    return g.kind == goal_type::kinds::join ? join_costs(g, values) : costs_along(goals_->steps(g), values);
  }

  // The cost of the cheapest choice of options, and the chosen options.
  struct solution {
    std::int64_t cost = unreachable;
    std::vector<std::uint32_t> options{};  // per operator, in the tables of its block
    std::vector<mesh_block> blocks{};      // per operator
  };
  template <class Program>
  [[nodiscard]] solution solve(Program& program) {
    solution s;
    if (graph_->size() == 0) {
      s.cost = 0;
      return s;
    }
    if (!is_possible()) {
      return s;
    }
    const auto& all = program.solve(root());
    const auto best = std::min_element(all.costs.begin(), all.costs.end());
    s.cost = *best;
    if (s.cost < unreachable) {
      s.options.assign(graph_->size(), 0);
      s.blocks.assign(graph_->size(), {});
      trace(program, root(), 0, static_cast<std::uint32_t>(best - all.costs.begin()), s.options, s.blocks);
      for (std::uint32_t i = 0; i < graph_->size(); ++i) {
        if (!graph_->is_attached(i) && s.blocks[i] == mesh_block{}) {
          trace_attached(i, s.options);
        }
      }
    }
    return s;
  }
  // Effects: writes options and blocks of the operators of a whole graph or branch, without attached operators, along a
  // cheapest path from a state of the operator before it to a state of its last operator.
  template <class Program>
  void trace(Program& program, const goal_type& g, std::uint32_t from, std::uint32_t to,
             std::vector<std::uint32_t>& options, std::vector<mesh_block>& blocks) {
    blocks_.assign(graph_->size(), {});
    trace_branch(program, g, from, to, options);
    for (const auto i : goals_->operators(g)) {
      blocks[i] = blocks_[i];
    }
  }
  // Effects: writes the options of the operators attached to an operator, for its option.
  void trace_attached(std::uint32_t v, std::vector<std::uint32_t>& options);
  // The cost of the cheapest choice; unreachable if there is none.
  template <class Program>
  [[nodiscard]] std::int64_t least(Program& program) {
    if (graph_->size() == 0 || !is_possible()) {
      return graph_->size() == 0 ? 0 : unreachable;
    }
    const auto& all = program.solve(root());
    return *std::min_element(all.costs.begin(), all.costs.end());
  }
  // The costs of consecutive steps of the graph's spine, by state of the operator before them and of their last one.
  // Complexity: as a branch of those steps.
  template <class Program>
  [[nodiscard]] cost_table along(Program& program, std::span<const spine_step> steps) {
    std::vector<const cost_table*> joins;
    for (const auto& s : steps) {
      if (s.is_join) {
        joins.push_back(&program.solve({goal_type::kinds::join, s.part, s.before, s.last}));
      }
    }
    return costs_along(steps, joins);
  }
  [[nodiscard]] const mesh_option& option(std::uint32_t op, std::uint32_t number) const {
    return table_of_[op]->options[number];
  }

 private:
  using part_index = series_parallel_tree::part_index;
  using step = spine_step;

  [[nodiscard]] std::size_t states_of(std::uint32_t op) const {
    return op == goal_type::none ? 1 : table_of_[op]->states.size();
  }
  // The cost of an operator with an option, including attached operators.
  [[nodiscard]] std::int64_t own(std::uint32_t v, std::size_t option) const { return prices_[v][option]; }
  // Per option of an operator: its cost, including attached operators.
  [[nodiscard]] std::vector<std::int64_t> prices_of(std::uint32_t v);
  [[nodiscard]] std::vector<std::int64_t> attached_costs(std::uint32_t op) const;

  // costs: by state of op, whose results operator v reads. Adds to `sum`, per option of v, the least cost of the
  // operands that come from op, with op's own costs counted once.
  void add_from(std::uint32_t op, std::span<const std::int64_t> costs, std::uint32_t v, std::vector<std::int64_t>& sum);
  [[nodiscard]] std::int64_t distance(const layout_space& space, std::uint32_t from, std::uint32_t to) {
    return distances_.from(space, from)[to];
  }

  // The costs by state of v, from costs per option without v's own.
  void by_state(std::uint32_t v, std::span<const std::int64_t> sum, std::span<std::int64_t> states) const;

  // One row of a step: maps costs by state of u before it to costs by state of v after it.
  [[nodiscard]] std::vector<std::int64_t> after_operator(const step& s, std::span<const std::int64_t> before);
  [[nodiscard]] static std::vector<std::int64_t> after_join(const cost_table& join,
                                                            std::span<const std::int64_t> before);

  [[nodiscard]] cost_table costs_along(std::span<const step> steps, std::span<const cost_table* const> joins);

  // The costs per option of v after parallel parts that start in one state of u; if v is none, their total cost.
  using option_costs = std::vector<std::int64_t>;

  // Adds these costs to `sum`. next: index of the value of the part's first goal; afterwards that of the first goal
  // behind the part.
  void add_part(part_index part, std::uint32_t u, std::uint32_t row, std::uint32_t v,
                std::span<const cost_table* const> values, std::size_t& next, option_costs& sum);
  // costs: by state of the branch's last operator.
  void add_behind(const mapping_branch& b, std::span<const std::int64_t> costs, std::uint32_t v,
                  std::span<const cost_table* const> values, std::size_t& next, option_costs& sum);
  // The costs behind an open branch, by state of its last operator: the same for every state of u.
  const std::vector<option_costs>& behind(const mapping_branch& b, std::uint32_t v,
                                          std::span<const cost_table* const> values, std::size_t& next,
                                          std::size_t options);
  [[nodiscard]] option_costs joined(const goal_type& g, std::span<const cost_table* const> values, std::uint32_t row);
  [[nodiscard]] cost_table join_costs(const goal_type& g, std::span<const cost_table* const> values);
  // only: for one state of u.
  [[nodiscard]] detail::mapping_core core(const goal_type& g, std::uint32_t only = goal_type::none);

  // Effects: writes the options of the branch's operators along a cheapest path from a state of u to a state of its
  // last operator.
  template <class Program>
  void trace_branch(Program& program, const goal_type& g, std::uint32_t from, std::uint32_t to,
                    std::vector<std::uint32_t>& options) {
    const auto steps = goals_->steps(g);
    std::vector<std::vector<std::int64_t>> costs;
    costs.emplace_back(states_of(g.u), unreachable)[from] = 0;
    std::vector<const cost_table*> joins(steps.size(), nullptr);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const auto& s = steps[i];
      if (s.is_join) {
        joins[i] = &program.solve({goal_type::kinds::join, s.part, s.before, s.last});
      }
      costs.push_back(s.is_join ? after_join(*joins[i], costs.back()) : after_operator(s, costs.back()));
    }
    for (auto i = steps.size(); i-- > 0;) {
      const auto& s = steps[i];
      const auto wanted = costs[i + 1][to];
      if (s.is_join) {
        std::uint32_t row = 0;
        while (costs[i][row] >= unreachable || costs[i][row] + (*joins[i])(row, to) != wanted) {
          ++row;
          UNITY_EXPECTS(row < costs[i].size(), "a cost that was found before");
        }
        trace_once(program, {goal_type::kinds::join, s.part, s.before, s.last}, row, to, options);
        to = row;
      } else {
        to = trace_operator(s, costs[i], to, wanted, options);
      }
    }
  }
  // Returns the state of u before v.
  [[nodiscard]] std::uint32_t trace_operator(const step& s, std::span<const std::int64_t> before, std::uint32_t state,
                                             std::int64_t wanted, std::vector<std::uint32_t>& options);
  [[nodiscard]] std::uint32_t option_with(std::uint32_t v, std::span<const std::int64_t> sum, std::uint32_t state,
                                          std::int64_t wanted) const;
  // The state of op from which option o of v has exactly that cost.
  [[nodiscard]] std::uint32_t state_before(std::uint32_t op, std::span<const std::int64_t> costs, std::uint32_t v,
                                           std::uint32_t o, std::int64_t wanted);
  // Equal goals are traced once, because layers repeat.
  template <class Program>
  void trace_once(Program& program, const goal_type& g, std::uint32_t from, std::uint32_t to,
                  std::vector<std::uint32_t>& options) {
    const auto inside = goals_->operators(g);
    auto& known = traced_[{goals_->fingerprint_of(g), {from, to}}];
    if (known.empty()) {
      trace_join(program, g, from, to, options);
      for (const auto op : inside) {
        known.emplace_back(options[op], blocks_[op]);
      }
    }
    for (std::size_t i = 0; i < inside.size(); ++i) {
      std::tie(options[inside[i]], blocks_[inside[i]]) = known[i];
    }
  }
  template <class Program>
  void trace_join(Program& program, const goal_type& g, std::uint32_t from, std::uint32_t to,
                  std::vector<std::uint32_t>& options) {
    if (goals_->is_core(g.part)) {
      core(g, from).trace(from, to, options);
      return;
    }
    std::vector<const cost_table*> values;
    for (const auto& b : goals_->subgoals(g)) {
      values.push_back(&program.solve(b));
    }
    std::uint32_t o = 0;
    if (g.v != goal_type::none) {
      const auto& all = program.solve(g);
      behind_.clear();
      const auto costs = joined(g, values, from);
      o = option_with(g.v, costs, to, all(from, to));
      options[g.v] = o;
      if (splits_ != nullptr && splits_->trace(g, from, o, costs[o], options, blocks_)) {
        return;
      }
    }
    std::size_t next = 0;
    trace_part(program, g.part, g.u, from, g.v, o, values, next, options);
  }
  // Along a cheapest path to option o of v.
  template <class Program>
  void trace_part(Program& program, part_index part, std::uint32_t u, std::uint32_t from, std::uint32_t v,
                  std::uint32_t o, std::span<const cost_table* const> values, std::size_t& next,
                  std::vector<std::uint32_t>& options) {
    const auto width = v == goal_type::none ? std::size_t{1} : table_of_[v]->options.size();
    for (const auto& b : goals_->branches(part, u)) {
      if (b.is_wire) {
        continue;
      }
      const auto& t = *values[next++];
      const std::vector<std::int64_t> costs(t.costs.begin() + static_cast<std::ptrdiff_t>(from * t.columns),
                                            t.costs.begin() + static_cast<std::ptrdiff_t>((from + 1) * t.columns));
      const auto first = next;
      const auto end = end_of(b, costs, v, o, values, next, width);
      trace_branch(program, {goal_type::kinds::branch, b.part, u, goal_type::none}, from, end, options);
      if (b.is_open) {
        next = first;
        trace_part(program, b.behind, b.last, end, v, o, values, next, options);
      }
    }
  }
  // The state in which a branch ends on a cheapest path to option o of v.
  [[nodiscard]] std::uint32_t end_of(const mapping_branch& b, std::span<const std::int64_t> costs, std::uint32_t v,
                                     std::uint32_t o, std::span<const cost_table* const> values, std::size_t& next,
                                     std::size_t width);

  // The costs behind an open branch, and the number of goals behind it.
  struct open_costs {
    std::vector<option_costs> costs{};
    std::size_t goals = 0;
  };

  mesh_tables* tables_;
  mapping_objective objective_;
  std::size_t core_width_;
  std::size_t core_effort_;
  const operator_graph* graph_ = nullptr;
  std::vector<const operator_table*> table_of_{};    // per operator
  std::vector<std::vector<std::int64_t>> prices_{};  // per operator and option
  layout_distances distances_{};
  std::vector<std::int64_t> layouts_{};
  bool is_bounded_ = false;
  parallel_splits* splits_ = nullptr;
  std::vector<mesh_block> blocks_{};  // per operator, of the current trace
  std::map<std::pair<fingerprint, std::pair<std::uint32_t, std::uint32_t>>,
           std::vector<std::pair<std::uint32_t, mesh_block>>>
      traced_{};                                  // by goal and states
  mutable std::optional<mapping_goals> goals_{};  // caches fingerprints
  std::map<part_index, open_costs> behind_{};     // of the current join
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MACHINE_MAPPING)

#include <unity/search/dynamic_programming.hpp>

namespace unity::parallel {

UNITY_INLINE void machine_mapping::set_graph(const operator_graph& g) {
  graph_ = &g;
  goals_.emplace(g);
  table_of_.clear();
  prices_.clear();
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    table_of_.push_back(&tables_->of(g.placed(i)));
    prices_.push_back(prices_of(i));
  }
}

UNITY_INLINE std::vector<std::int64_t> machine_mapping::prices_of(std::uint32_t v) {
  const auto& t = *table_of_[v];
  std::vector<std::int64_t> prices;
  for (const auto& o : t.options) {
    prices.push_back(price_of(o, objective_));
  }
  const auto sources = graph_->sources(v);
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from != goal_type::none && graph_->is_attached(sources[x].from)) {
      add_from(sources[x].from, attached_costs(sources[x].from), v, prices);
    }
  }
  return prices;
}

UNITY_INLINE std::vector<std::int64_t> machine_mapping::attached_costs(std::uint32_t op) const {
  const std::vector<std::int64_t> nothing(table_of_[op]->options.size(), 0);
  std::vector<std::int64_t> costs(states_of(op));
  by_state(op, nothing, costs);
  return costs;
}

UNITY_INLINE void machine_mapping::trace_attached(std::uint32_t v, std::vector<std::uint32_t>& options) {
  for (const auto& s : graph_->sources(v)) {
    if (s.from == goal_type::none || !graph_->is_attached(s.from)) {
      continue;
    }
    const auto costs = attached_costs(s.from);
    std::vector<std::int64_t> part(table_of_[v]->options.size(), 0);
    add_from(s.from, costs, v, part);
    const auto state = state_before(s.from, costs, v, options[v], part[options[v]]);
    const std::vector<std::int64_t> nothing(table_of_[s.from]->options.size(), 0);
    options[s.from] = option_with(s.from, nothing, state, costs[state]);
    trace_attached(s.from, options);
  }
}

UNITY_INLINE void machine_mapping::add_from(std::uint32_t op, std::span<const std::int64_t> costs, std::uint32_t v,
                                            std::vector<std::int64_t>& sum) {
  const auto& t = *table_of_[v];
  const auto sources = graph_->sources(v);
  std::vector<std::size_t> operands;
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from == op) {
      operands.push_back(x);
    }
  }
  if (operands.size() == 1) {
    const auto x = operands[0];
    layouts_.assign(t.operands[x]->size(), unreachable);
    const auto& states = table_of_[op]->states;
    for (std::size_t s = 0; s < states.size(); ++s) {
      auto& c = layouts_[states[s][sources[x].result]];
      c = std::min(c, costs[s]);
    }
    relax(*t.operands[x], layouts_);
    for (std::size_t o = 0; o < sum.size(); ++o) {
      sum[o] = std::min(unreachable, sum[o] + layouts_[t.numbered[o].operands[x]]);
    }
    return;
  }
  std::vector<std::int64_t> least(sum.size(), operands.empty() ? 0 : unreachable);
  for (std::size_t s = 0; s < costs.size() && !operands.empty(); ++s) {
    if (costs[s] >= unreachable) {
      continue;
    }
    for (std::size_t o = 0; o < sum.size(); ++o) {
      auto c = costs[s];
      for (const auto x : operands) {
        c = std::min(unreachable, c + distance(*t.operands[x], table_of_[op]->states[s][sources[x].result],
                                               t.numbered[o].operands[x]));
      }
      least[o] = std::min(least[o], c);
    }
  }
  for (std::size_t o = 0; o < sum.size(); ++o) {
    sum[o] = std::min(unreachable, sum[o] + least[o]);
  }
}

UNITY_INLINE void machine_mapping::by_state(std::uint32_t v, std::span<const std::int64_t> sum,
                                            std::span<std::int64_t> states) const {
  std::fill(states.begin(), states.end(), unreachable);
  const auto& t = *table_of_[v];
  for (std::size_t o = 0; o < sum.size(); ++o) {
    auto& c = states[t.numbered[o].state];
    c = std::min(c, std::min(unreachable, sum[o] + own(v, o)));
  }
}

UNITY_INLINE std::vector<std::int64_t> machine_mapping::after_operator(const step& s,
                                                                       std::span<const std::int64_t> before) {
  std::vector<std::int64_t> sum(table_of_[s.last]->options.size(), s.before == goal_type::none ? before[0] : 0);
  if (s.before != goal_type::none) {
    add_from(s.before, before, s.last, sum);
  }
  std::vector<std::int64_t> after(states_of(s.last));
  by_state(s.last, sum, after);
  return after;
}

UNITY_INLINE std::vector<std::int64_t> machine_mapping::after_join(const cost_table& join,
                                                                   std::span<const std::int64_t> before) {
  std::vector<std::int64_t> after(join.columns, unreachable);
  for (std::size_t r = 0; r < before.size(); ++r) {
    for (std::size_t c = 0; before[r] < unreachable && c < join.columns; ++c) {
      after[c] = std::min(after[c], before[r] + join(r, c));
    }
  }
  return after;
}

UNITY_INLINE cost_table machine_mapping::costs_along(std::span<const step> steps,
                                                     std::span<const cost_table* const> joins) {
  const auto rows = states_of(steps.front().before);
  cost_table all;
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<std::int64_t> costs(rows, unreachable);
    costs[r] = 0;
    std::size_t join = 0;
    for (const auto& s : steps) {
      tables_->limit().check();
      costs = s.is_join ? after_join(*joins[join++], costs) : after_operator(s, costs);
    }
    all.columns = costs.size();
    all.costs.insert(all.costs.end(), costs.begin(), costs.end());
  }
  return all;
}

UNITY_INLINE void machine_mapping::add_part(part_index part, std::uint32_t u, std::uint32_t row, std::uint32_t v,
                                            std::span<const cost_table* const> values, std::size_t& next,
                                            option_costs& sum) {
  for (const auto& b : goals_->branches(part, u)) {
    std::vector<std::int64_t> costs(b.is_wire ? states_of(u) : 0, unreachable);
    if (b.is_wire) {
      costs[row] = 0;
    } else {
      const auto& t = *values[next++];
      costs.assign(t.costs.begin() + static_cast<std::ptrdiff_t>(row * t.columns),
                   t.costs.begin() + static_cast<std::ptrdiff_t>((row + 1) * t.columns));
    }
    if (b.is_open) {
      add_behind(b, costs, v, values, next, sum);
    } else if (v != goal_type::none) {
      add_from(b.last, costs, v, sum);
    } else {
      sum[0] = std::min(unreachable, sum[0] + *std::min_element(costs.begin(), costs.end()));
    }
  }
}

UNITY_INLINE void machine_mapping::add_behind(const mapping_branch& b, std::span<const std::int64_t> costs,
                                              std::uint32_t v, std::span<const cost_table* const> values,
                                              std::size_t& next, option_costs& sum) {
  const auto& all = behind(b, v, values, next, sum.size());
  for (std::size_t o = 0; o < sum.size(); ++o) {
    auto least = unreachable;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      least = std::min(least, costs[s] + all[s][o]);
    }
    sum[o] = std::min(unreachable, sum[o] + least);
  }
}

UNITY_INLINE auto machine_mapping::behind(const mapping_branch& b, std::uint32_t v,
                                          std::span<const cost_table* const> values, std::size_t& next,
                                          std::size_t options) -> const std::vector<option_costs>& {
  auto& known = behind_[b.behind];
  const auto first = next;
  for (std::uint32_t s = 0; known.costs.size() < states_of(b.last); ++s) {
    next = first;
    option_costs one(options, 0);
    add_part(b.behind, b.last, s, v, values, next, one);
    known.costs.push_back(std::move(one));
    known.goals = next - first;
  }
  next = first + known.goals;
  return known.costs;
}

UNITY_INLINE auto machine_mapping::joined(const goal_type& g, std::span<const cost_table* const> values,
                                          std::uint32_t row) -> option_costs {
  option_costs sum(g.v == goal_type::none ? 1 : table_of_[g.v]->options.size(), 0);
  std::size_t next = 0;
  add_part(g.part, g.u, row, g.v, values, next, sum);
  if (splits_ != nullptr && g.v != goal_type::none) {
    splits_->lower(g, row, sum);
  }
  return sum;
}

UNITY_INLINE cost_table machine_mapping::join_costs(const goal_type& g, std::span<const cost_table* const> values) {
  if (goals_->is_core(g.part)) {
    return core(g).costs();
  }
  behind_.clear();
  cost_table all;
  for (std::uint32_t r = 0; r < states_of(g.u); ++r) {
    auto costs = joined(g, values, r);
    if (g.v != goal_type::none) {
      std::vector<std::int64_t> states(states_of(g.v));
      by_state(g.v, costs, states);
      costs.swap(states);
    }
    all.columns = costs.size();
    all.costs.insert(all.costs.end(), costs.begin(), costs.end());
  }
  return all;
}

UNITY_INLINE detail::mapping_core machine_mapping::core(const goal_type& g, std::uint32_t only) {
  auto inside = operators_in(graph_->tree(), g.part);
  if (g.v != goal_type::none) {
    inside.push_back(g.v);
  }
  auto steps = states_of(g.u);  // per state that is kept
  for (const auto op : inside) {
    steps += states_of(g.u) * table_of_[op]->options.size();
  }
  const auto width = std::max(core_width_, core_effort_ / steps);
  detail::mapping_core c{*graph_, table_of_, distances_, prices_,          std::move(inside),
                         g.u,     g.v,       width,      tables_->limit(), only};
  is_bounded_ = is_bounded_ || c.is_bounded();
  return c;
}

UNITY_INLINE std::uint32_t machine_mapping::trace_operator(const step& s, std::span<const std::int64_t> before,
                                                           std::uint32_t state, std::int64_t wanted,
                                                           std::vector<std::uint32_t>& options) {
  const auto& t = *table_of_[s.last];
  std::vector<std::int64_t> sum(t.options.size(), s.before == goal_type::none ? before[0] : 0);
  if (s.before != goal_type::none) {
    add_from(s.before, before, s.last, sum);
  }
  const auto o = option_with(s.last, sum, state, wanted);
  options[s.last] = o;
  return s.before == goal_type::none ? 0 : state_before(s.before, before, s.last, o, sum[o]);
}

UNITY_INLINE std::uint32_t machine_mapping::option_with(std::uint32_t v, std::span<const std::int64_t> sum,
                                                        std::uint32_t state, std::int64_t wanted) const {
  const auto& t = *table_of_[v];
  for (std::uint32_t o = 0; o < sum.size(); ++o) {
    if (t.numbered[o].state == state && sum[o] + own(v, o) == wanted) {
      return o;
    }
  }
  UNITY_EXPECTS(false, "an option with a cost that was found before");
  return 0;
}

UNITY_INLINE std::uint32_t machine_mapping::state_before(std::uint32_t op, std::span<const std::int64_t> costs,
                                                         std::uint32_t v, std::uint32_t o, std::int64_t wanted) {
  const auto sources = graph_->sources(v);
  for (std::uint32_t s = 0; s < costs.size(); ++s) {
    auto c = costs[s];
    for (std::size_t x = 0; x < sources.size() && c < unreachable; ++x) {
      if (sources[x].from == op) {
        c += distance(*table_of_[v]->operands[x], table_of_[op]->states[s][sources[x].result],
                      table_of_[v]->numbered[o].operands[x]);
      }
    }
    if (c == wanted) {
      return s;
    }
  }
  UNITY_EXPECTS(false, "a state with a cost that was found before");
  return 0;
}

UNITY_INLINE std::uint32_t machine_mapping::end_of(const mapping_branch& b, std::span<const std::int64_t> costs,
                                                   std::uint32_t v, std::uint32_t o,
                                                   std::span<const cost_table* const> values, std::size_t& next,
                                                   std::size_t width) {
  if (!b.is_open && v != goal_type::none) {
    option_costs part(width, 0);
    add_from(b.last, costs, v, part);
    return state_before(b.last, costs, v, o, part[o]);
  }
  std::vector<std::int64_t> all(costs.begin(), costs.end());
  if (b.is_open) {
    behind_.clear();
    const auto& rest = behind(b, v, values, next, width);
    for (std::size_t s = 0; s < all.size(); ++s) {
      all[s] = std::min(unreachable, all[s] + rest[s][v == goal_type::none ? 0 : o]);
    }
  }
  return static_cast<std::uint32_t>(std::min_element(all.begin(), all.end()) - all.begin());
}

}  // namespace unity::parallel

#endif
