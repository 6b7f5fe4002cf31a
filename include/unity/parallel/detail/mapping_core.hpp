// Options of the operators of a part of a graph that is not series-parallel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/parallel/mesh_layout.hpp>
#include <unity/parallel/mesh_tables.hpp>
#include <unity/parallel/operator_graph.hpp>

namespace unity::parallel {

// By state of the operator before, and of the last one.
struct cost_table {
  std::size_t columns = 0;
  std::vector<std::int64_t> costs{};

  [[nodiscard]] std::int64_t operator()(std::size_t row, std::size_t column) const { return costs[row * columns + column]; }
};

namespace detail {

// From a layout to all others, each found once.
class layout_distances {
 public:
  std::int64_t operator()(const layout_space& space, std::uint32_t from, std::uint32_t to) {
    auto& rows = known_[&space];
    rows.resize(space.size());
    auto& row = rows[from];
    if (row.empty()) {
      row.assign(space.size(), unreachable);
      row[from] = 0;
      relax(space, row);
    }
    return row[to];
  }

 private:
  std::unordered_map<const layout_space*, std::vector<std::vector<std::int64_t>>> known_{};
};

// A program over the states of live operators: those that an operator to come reads. Operators come in the order of their
// numbers; of the combinations of states, the `width` cheapest go on, per state of u.
// Complexity: operators * width * options, for each state of u.
class mapping_core {
 public:
  // inside: ascending; its last is v, unless v is none. Operators read others of `inside`, or u.
  mapping_core(const operator_graph& g, const std::vector<const operator_table*>& tables, layout_distances& distances,
               const mapping_objective& objective, std::vector<std::uint32_t> inside, std::uint32_t u, std::uint32_t v, std::size_t width)
      : graph_{g}, tables_{tables}, distances_{distances}, objective_{objective}, inside_{std::move(inside)}, u_{u}, v_{v}, width_{width} {
    find_lives();
    const auto rows = u == operand_source::none ? 1 : tables[u]->states.size();
    for (std::uint32_t r = 0; r < rows; ++r) {
      ends_.push_back(run(r));
    }
  }

  [[nodiscard]] bool is_bounded() const noexcept { return is_bounded_; }
  [[nodiscard]] cost_table costs() const {
    cost_table t;
    t.columns = v_ == operand_source::none ? 1 : tables_[v_]->states.size();
    t.costs.assign(ends_.size() * t.columns, unreachable);
    for (std::size_t r = 0; r < ends_.size(); ++r) {
      for (const auto& e : ends_[r]) {
        auto& c = t.costs[r * t.columns + column_of(e)];
        c = std::min(c, e.cost);
      }
    }
    return t;
  }
  void trace(std::uint32_t row, std::uint32_t column, std::vector<std::uint32_t>& options) const {
    const partial_choice* best = nullptr;
    for (const auto& e : ends_[row]) {
      if (column_of(e) == column && (best == nullptr || e.cost < best->cost)) {
        best = &e;
      }
    }
    UNITY_EXPECTS(best != nullptr, "a column that was reached");
    for (std::size_t i = 0; i < inside_.size(); ++i) {
      options[inside_[i]] = best->options[i];
    }
  }

 private:
  // Options of the operators so far.
  struct partial_choice {
    std::int64_t cost = 0;
    std::vector<std::uint32_t> options{};
  };

  [[nodiscard]] std::size_t column_of(const partial_choice& e) const {
    return v_ == operand_source::none ? 0 : tables_[v_]->numbered[e.options.back()].state;
  }
  // Which operators are read after each place.
  void find_lives() {
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
      for (std::size_t p = 0; p <= i; ++p) {
        if (last[p] > i || (p == i && i + 1 == inside_.size())) {
          live_[i].push_back(p);
        }
      }
    }
  }
  [[nodiscard]] std::size_t place(std::uint32_t op) const {
    const auto at = std::lower_bound(inside_.begin(), inside_.end(), op);
    return at != inside_.end() && *at == op ? static_cast<std::size_t>(at - inside_.begin()) : inside_.size();
  }
  [[nodiscard]] std::int64_t added(const partial_choice& c, std::size_t i, std::size_t option, std::uint32_t row) const {
    const auto& t = *tables_[inside_[i]];
    const auto sources = graph_.sources(inside_[i]);
    auto sum = price_of(t.options[option], objective_);
    for (std::size_t x = 0; x < sources.size() && sum < unreachable; ++x) {
      if (sources[x].from == operand_source::none) {
        continue;
      }
      const auto& from = *tables_[sources[x].from];
      const auto state = sources[x].from == u_ ? row : from.numbered[c.options[place(sources[x].from)]].state;
      sum += distances_(*t.operands[x], from.states[state][sources[x].result], t.numbered[option].operands[x]);
    }
    return sum;
  }
  [[nodiscard]] std::vector<partial_choice> run(std::uint32_t row) {
    std::vector<partial_choice> now(1);
    for (std::size_t i = 0; i < inside_.size(); ++i) {
      std::map<std::vector<std::uint32_t>, std::pair<std::int64_t, std::pair<std::size_t, std::uint32_t>>> best;  // by live states
      std::vector<std::uint32_t> states;
      for (std::size_t c = 0; c < now.size(); ++c) {
        states.clear();
        for (const auto p : live_[i]) {
          states.push_back(p == i ? 0 : tables_[inside_[p]]->numbered[now[c].options[p]].state);
        }
        const bool stays = !live_[i].empty() && live_[i].back() == i;
        for (std::uint32_t o = 0; o < tables_[inside_[i]]->options.size(); ++o) {
          const auto cost = now[c].cost + added(now[c], i, o, row);
          if (stays) {
            states.back() = tables_[inside_[i]]->numbered[o].state;
          }
          const auto [at, is_new] = best.try_emplace(states, std::pair{cost, std::pair{c, o}});
          if (!is_new && cost < at->second.first) {
            at->second = {cost, {c, o}};
          }
        }
      }
      now = next(now, best);
    }
    return now;
  }
  template <class Best>
  [[nodiscard]] std::vector<partial_choice> next(const std::vector<partial_choice>& now, const Best& best) {
    std::vector<std::pair<std::int64_t, std::pair<std::size_t, std::uint32_t>>> all;
    for (const auto& [states, choice] : best) {
      if (choice.first < unreachable) {
        all.push_back(choice);
      }
    }
    if (all.size() > width_) {
      is_bounded_ = true;
      std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(width_), all.end());
      all.resize(width_);
    }
    std::sort(all.begin(), all.end());
    std::vector<partial_choice> chosen;
    for (const auto& [cost, from] : all) {
      auto options = now[from.first].options;
      options.push_back(from.second);
      chosen.push_back({cost, std::move(options)});
    }
    return chosen;
  }

  const operator_graph& graph_;
  const std::vector<const operator_table*>& tables_;
  layout_distances& distances_;
  const mapping_objective& objective_;
  std::vector<std::uint32_t> inside_;
  std::uint32_t u_;
  std::uint32_t v_;
  std::size_t width_;
  std::vector<std::vector<std::size_t>> live_{};  // places in inside_, after each
  std::vector<std::vector<partial_choice>> ends_{};
  bool is_bounded_ = false;
};

}  // namespace detail

}  // namespace unity::parallel
