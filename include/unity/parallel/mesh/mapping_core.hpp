// Chooses options for a part of an operator graph that is not series-parallel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/parallel/mesh/mesh_layout.hpp>
#include <unity/parallel/mesh/mesh_tables.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>

namespace unity::parallel {

// Costs by state of the operator before (row) and of the last one (column).
struct cost_table {
  std::size_t columns = 0;
  std::vector<std::int64_t> costs{};

  [[nodiscard]] std::int64_t operator()(std::size_t row, std::size_t column) const {
    return costs[row * columns + column];
  }
};

// The costs from a layout of a space to all others, each computed once. Spaces are told apart by their addresses: they
// must stay where they are. Not for several threads at once.
class layout_distances {
 public:
  // By the number of the target layout. Valid as long as this.
  std::span<const std::int64_t> from(const layout_space& space, std::uint32_t layout);

 private:
  std::unordered_map<const layout_space*, std::vector<std::vector<std::int64_t>>> known_{};
};

namespace detail {

// A dynamic program with bounded width over the states of live operators: those that a later operator reads. Operators
// are in the order of their numbers. Per state of u, the `width` cheapest combinations of states are kept.
// Complexity: operators * width * options, for each state of u.
class mapping_core {
 public:
  // only: solves for one state of u. inside: ascending; its last is v, unless v is none. Operators read others of
  // `inside`, u, or attached operators, whose costs are in the prices.
  // Throws: out_of_time.
  mapping_core(const operator_graph& g, const std::vector<const operator_table*>& tables, layout_distances& distances,
               const std::vector<std::vector<std::int64_t>>& prices, std::vector<std::uint32_t> inside, std::uint32_t u,
               std::uint32_t v, std::size_t width, const time_limit& limit, std::uint32_t only = operand_source::none);

  [[nodiscard]] bool is_bounded() const noexcept { return is_bounded_; }
  [[nodiscard]] cost_table costs() const;
  void trace(std::uint32_t row, std::uint32_t column, std::vector<std::uint32_t>& options) const;

 private:
  using state_list = small_vector<std::uint32_t, 8>;
  // The choice for the last operator so far. before: index of the choice before it, in the previous level. states: of
  // live operators, ascending.
  struct choice {
    std::int64_t cost = 0;
    std::uint32_t before = 0;
    std::uint32_t option = 0;
    state_list states{};
  };
  struct best_option {
    std::int64_t cost = unreachable;
    std::uint32_t before = 0;
    std::uint32_t option = 0;
  };
  // Groups combinations with the same states of the operators that stay live: per group these states, and the best
  // option per state of the new operator.
  struct group_list {
    std::vector<state_list> states{};
    std::vector<best_option> best{};  // groups one after another
    std::size_t width = 0;            // number of states of the new operator

    void clear(std::size_t new_states);
    void add(const state_list& s) {
      states.push_back(s);
      best.resize(best.size() + width);
    }
    [[nodiscard]] std::span<best_option> of(std::size_t g) { return {best.data() + g * width, width}; }
  };

  [[nodiscard]] std::size_t column_of(const choice& e) const {
    return v_ == operand_source::none ? 0 : tables_[v_]->numbered[e.option].state;
  }
  // Finds which operators are still read after each position.
  void find_lives();
  [[nodiscard]] std::size_t place(std::uint32_t op) const {
    const auto at = std::lower_bound(inside_.begin(), inside_.end(), op);
    return at != inside_.end() && *at == op ? static_cast<std::size_t>(at - inside_.begin()) : inside_.size();
  }

  // Level i has the choices after i operators; levels 0 to the number of operators.
  [[nodiscard]] std::vector<std::vector<choice>> run(std::uint32_t row);
  [[nodiscard]] std::vector<choice> after(const std::vector<choice>& now, std::size_t i, std::uint32_t row);
  // The costs of each operand that another operator makes, by the layout in which it is read.
  void find_rows(const choice& c, std::size_t i, std::uint32_t row, const std::vector<std::size_t>& live);
  // A candidate to keep: a state of the new operator in a group.
  struct ending {
    std::int64_t cost = 0;
    std::uint32_t group = 0;
    std::uint32_t state = 0;

    friend auto operator<=>(const ending&, const ending&) = default;
  };
  // is_live: the new operator is live. is_v: its states are kept apart, although nothing here reads it.
  [[nodiscard]] std::vector<choice> cheapest(bool is_live, bool is_v);

  const operator_graph& graph_;
  const std::vector<const operator_table*>& tables_;
  layout_distances& distances_;
  const std::vector<std::vector<std::int64_t>>& prices_;  // per operator and option
  std::vector<std::uint32_t> inside_;
  std::uint32_t u_;
  std::uint32_t v_;
  std::size_t width_;
  const time_limit& limit_;
  std::vector<std::vector<std::size_t>> live_{};          // positions in inside_, after each operator
  std::vector<std::vector<std::vector<choice>>> ends_{};  // per state of u: levels
  std::vector<std::pair<std::size_t, std::span<const std::int64_t>>> rows_{};
  group_list groups_{};
  std::vector<ending> endings_{};
  bool is_bounded_ = false;
};

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_MESH_MAPPING_CORE)

#include <map>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity::parallel {

UNITY_INLINE std::span<const std::int64_t> layout_distances::from(const layout_space& space, std::uint32_t layout) {
  auto& rows = known_[&space];
  rows.resize(space.size());
  auto& row = rows[layout];
  if (row.empty()) {
    row.assign(space.size(), unreachable);
    row[layout] = 0;
    relax(space, row);
  }
  return row;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE mapping_core::mapping_core(const operator_graph& g, const std::vector<const operator_table*>& tables,
                                        layout_distances& distances,
                                        const std::vector<std::vector<std::int64_t>>& prices,
                                        std::vector<std::uint32_t> inside, std::uint32_t u, std::uint32_t v,
                                        std::size_t width, const time_limit& limit, std::uint32_t only)
    : graph_{g},
      tables_{tables},
      distances_{distances},
      prices_{prices},
      inside_{std::move(inside)},
      u_{u},
      v_{v},
      width_{width},
      limit_{limit} {
  find_lives();
  const auto rows = u == operand_source::none ? 1 : tables[u]->states.size();
  ends_.resize(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (only == operand_source::none || r == only) {
      ends_[r] = run(r);
    }
  }
}

UNITY_INLINE cost_table mapping_core::costs() const {
  cost_table t;
  t.columns = v_ == operand_source::none ? 1 : tables_[v_]->states.size();
  t.costs.assign(ends_.size() * t.columns, unreachable);
  for (std::size_t r = 0; r < ends_.size(); ++r) {
    for (const auto& e : ends_[r].back()) {
      auto& c = t.costs[r * t.columns + column_of(e)];
      c = std::min(c, e.cost);
    }
  }
  return t;
}

UNITY_INLINE void mapping_core::trace(std::uint32_t row, std::uint32_t column,
                                      std::vector<std::uint32_t>& options) const {
  const auto& levels = ends_[row];
  const choice* best = nullptr;
  for (const auto& e : levels.back()) {
    if (column_of(e) == column && (best == nullptr || e.cost < best->cost)) {
      best = &e;
    }
  }
  UNITY_EXPECTS(best != nullptr, "a column that was reached");
  for (auto i = inside_.size(); i-- > 0;) {
    options[inside_[i]] = best->option;
    best = &levels[i][best->before];
  }
}

UNITY_INLINE void mapping_core::group_list::clear(std::size_t new_states) {
  states.clear();
  best.clear();
  width = new_states;
}

UNITY_INLINE void mapping_core::find_lives() {
  std::vector<std::size_t> last(inside_.size(), 0);
  for (std::size_t i = 0; i < inside_.size(); ++i) {
    last[i] = i;
    for (const auto& s : graph_.sources(inside_[i])) {
      if (const auto p = place(s.from); p < i) {
        last[p] = i;
      }
    }
  }
  live_.resize(inside_.size());
  for (std::size_t i = 0; i < inside_.size(); ++i) {
    for (const auto p : i == 0 ? std::vector<std::size_t>{} : live_[i - 1]) {
      if (last[p] > i) {
        live_[i].push_back(p);
      }
    }
    if (last[i] > i) {
      live_[i].push_back(i);
    }
  }
}

UNITY_INLINE auto mapping_core::run(std::uint32_t row) -> std::vector<std::vector<choice>> {
  std::vector<std::vector<choice>> levels(1);
  levels[0].emplace_back();
  for (std::size_t i = 0; i < inside_.size(); ++i) {
    limit_.check();
    levels.push_back(after(levels.back(), i, row));
  }
  return levels;
}

UNITY_INLINE auto mapping_core::after(const std::vector<choice>& now, std::size_t i, std::uint32_t row)
    -> std::vector<choice> {
  const auto& t = *tables_[inside_[i]];
  static const std::vector<std::size_t> nothing;
  const auto& live = i == 0 ? nothing : live_[i - 1];
  std::map<state_list, std::size_t> number;
  groups_.clear(t.states.size());
  state_list states;
  for (std::uint32_t c = 0; c < now.size(); ++c) {
    find_rows(now[c], i, row, live);
    states.clear();
    for (std::size_t k = 0; k < live.size(); ++k) {
      if (std::binary_search(live_[i].begin(), live_[i].end(), live[k])) {
        states.push_back(now[c].states[k]);
      }
    }
    const auto [at, is_new] = number.try_emplace(states, groups_.states.size());
    if (is_new) {
      groups_.add(states);
    }
    const auto best = groups_.of(at->second);
    for (std::uint32_t o = 0; o < t.options.size(); ++o) {
      auto cost = now[c].cost + prices_[inside_[i]][o];
      for (const auto& [operand, distances] : rows_) {
        cost = std::min(unreachable, cost + distances[t.numbered[o].operands[operand]]);
      }
      auto& b = best[t.numbered[o].state];
      if (cost < b.cost) {
        b = {cost, c, o};
      }
    }
  }
  const bool is_v = i + 1 == inside_.size() && v_ != operand_source::none;
  return cheapest(std::binary_search(live_[i].begin(), live_[i].end(), i), is_v);
}

UNITY_INLINE void mapping_core::find_rows(const choice& c, std::size_t i, std::uint32_t row,
                                          const std::vector<std::size_t>& live) {
  const auto& t = *tables_[inside_[i]];
  const auto sources = graph_.sources(inside_[i]);
  rows_.clear();
  for (std::size_t x = 0; x < sources.size(); ++x) {
    if (sources[x].from == operand_source::none || graph_.is_attached(sources[x].from)) {
      continue;
    }
    auto state = row;
    if (sources[x].from != u_) {
      const auto at = std::lower_bound(live.begin(), live.end(), place(sources[x].from));
      state = c.states[static_cast<std::size_t>(at - live.begin())];
    }
    rows_.emplace_back(x, distances_.from(*t.operands[x], tables_[sources[x].from]->states[state][sources[x].result]));
  }
}

UNITY_INLINE auto mapping_core::cheapest(bool is_live, bool is_v) -> std::vector<choice> {
  endings_.clear();
  for (std::uint32_t g = 0; g < groups_.states.size(); ++g) {
    const auto best = groups_.of(g);
    const auto first = endings_.size();
    for (std::uint32_t s = 0; s < best.size(); ++s) {
      if (best[s].cost < unreachable) {
        endings_.push_back({best[s].cost, g, s});
      }
    }
    if (!is_live && !is_v && first < endings_.size()) {
      endings_[first] = *std::min_element(endings_.begin() + static_cast<std::ptrdiff_t>(first), endings_.end());
      endings_.resize(first + 1);
    }
  }
  if (endings_.size() > width_) {
    is_bounded_ = true;
    std::nth_element(endings_.begin(), endings_.begin() + static_cast<std::ptrdiff_t>(width_), endings_.end());
    endings_.resize(width_);
  }
  std::sort(endings_.begin(), endings_.end());
  std::vector<choice> all;
  all.reserve(endings_.size());
  for (const auto& e : endings_) {
    const auto& b = groups_.of(e.group)[e.state];
    all.push_back({b.cost, b.before, b.option, groups_.states[e.group]});
    if (is_live) {
      all.back().states.push_back(e.state);
    }
  }
  return all;
}

}  // namespace unity::parallel::detail

#endif
