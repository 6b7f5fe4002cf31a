// A search space of graphs in which the cost of a graph is that of its best mapping.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/shared_memo.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/search/search_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Rules that pay off only if operators are divided.

// Replaces a product with concatenated columns by a sum of products, without the concatenation. One device gains
// nothing from that. But if the columns are divided, concatenating divided parts moves the operands, whereas the
// separate products read them in place. Not among tensor::standard_rules, which are for searches on one device.
// Source: Unger et al., Unity (OSDI 2022), figure 16b.
inline constexpr std::string_view joint_rules = R"rules(
rule matmul_of_concat_is_sum
  matmul(concat{axis=?a}(?x, ?y), ?w)
    => add(matmul(?x, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).0),
        matmul(?y, split{axis=rank(?w) - 2, sizes=[size(?x, -1), size(?y, -1)]}(?w).1))
  if ?a == rank(?x) - 1
  proved "congruence closure 1" by concat_of_split, matmul_of_concat
rule linear_of_concat_is_sum
  linear(concat{axis=?a}(?x, ?y), ?w, ?b)
    => add(linear(?x, split{axis=0, sizes=[size(?x, -1), size(?y, -1)]}(?w).0, ?b),
        matmul(?y, split{axis=0, sizes=[size(?x, -1), size(?y, -1)]}(?w).1))
  if ?a == rank(?x) - 1
  proved "congruence closure 1" by add_associates, concat_of_split, linear_bias, linear_is_matmul, matmul_of_concat,
    single_in_sum
)rules";

// Moves are those of rewrite_space; `mapped` prices each graph once. Models search_space, canonical_space,
// commuting_space and timed_space. Threads that price moves at the same time share the prices, and call `mapped` and
// `is_past_deadline` at the same time; a search with one thread calls them from that one. Past the deadline, moves to
// graphs with unknown prices are left out.
// Law: `mapped` has the same cost for graphs that differ in the order of nodes alone. Then results do not depend on the
// number of threads.
// Source: Unger et al., Unity (OSDI 2022), section 5.1. Each graph represents all parallel computation graphs that
// divide it (parallel/mesh/machine_mapping.hpp): substitutions that divide operators are not moves here, but are chosen
// when a graph is priced.
class joint_space {
 public:
  using inner_space = rewrite_space<tensor::algebra, tensor::flop_cost>;
  using move_type = inner_space::move_type;
  using scratch_type = inner_space::scratch_type;
  static constexpr std::size_t pricing_slice = 1;

  struct state_type {
    inner_space::state_type at{};
    cost_value cost = 0;
  };

  // is_past_deadline: once true, no further graphs are priced; may be empty.
  joint_space(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g,
              any_cost_model<tensor::tensor_graph> mapped, std::function<bool()> is_past_deadline = {})
      : mapped_{std::move(mapped)},
        is_past_deadline_{std::move(is_past_deadline)},
        inner_{a, tensor::flop_cost{a, tensor::mode::training}, rules, g} {}

  [[nodiscard]] state_type initial();
  [[nodiscard]] static cost_value cost(const state_type& s) noexcept { return s.cost; }
  [[nodiscard]] fingerprint fingerprint_of(const state_type& s) const { return inner_.fingerprint_of(s.at); }
  [[nodiscard]] std::span<const move_type> moves(const state_type& s) const { return inner_.moves(s.at); }
  void prepare(const state_type& s, scratch_type& scratch) const { inner_.prepare(s.at, scratch); }
  void end_at(std::chrono::steady_clock::time_point when) { end_ = when; }
  // Complexity: linear in the effect of the move if the price of the graph is known; else that of `mapped` for it.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const;
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to);
  [[nodiscard]] fingerprint canonical_fingerprint(const state_type& s, scratch_type& scratch) const {
    return inner_.canonical_fingerprint(s.at, scratch);
  }
  [[nodiscard]] bool independent(move_type a, move_type b) const { return inner_.independent(a, b); }

  // A graph with the moves that lead to it.
  struct neighbour {
    state_type state{};
    std::vector<move_type> moves{};
  };
  // The cheapest graph at most `steps` moves away from `s`, whatever intermediate graphs cost; nullopt if none costs
  // less than `limit`. Takes fewer steps if they would lead to more than `most` graphs in total. At the
  // deadline, returns the cheapest of the graphs that have been priced until then.
  // Complexity: linear in the graphs and their moves, plus the prices of graphs that may cost less.
  [[nodiscard]] std::optional<neighbour> cheapest_near(const state_type& s, std::size_t steps, std::size_t most,
                                                       cost_value limit);

  [[nodiscard]] tensor::tensor_graph graph(const state_type& s) const { return inner_.graph(s.at); }
  [[nodiscard]] const substitution& rule_of(move_type m) const { return inner_.rule_of(m); }

 private:
  [[nodiscard]] bool is_past_deadline() const {
    return (end_ != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= end_) ||
           (is_past_deadline_ && is_past_deadline_());
  }
  [[nodiscard]] cost_value price_of(const inner_space::state_type& s) const;
  // Keeps the price only if it is exact.
  [[nodiscard]] cost_value price_below(const inner_space::state_type& s, cost_value limit) const;

  // An intermediate graph, with its parent and the move that made it.
  struct passed_graph {
    inner_space::state_type at{};
    std::size_t from = 0;
    move_type by{};
  };
  // All graphs reachable from a state, which comes first; omits steps that would make more than `most` graphs or for
  // which there is no time.
  [[nodiscard]] std::vector<passed_graph> passed(const state_type& s, std::size_t steps, std::size_t most);

  any_cost_model<tensor::tensor_graph> mapped_;
  std::function<bool()> is_past_deadline_;
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
  inner_space inner_;
  mutable shared_memo<fingerprint, cost_value> prices_{};  // a cache
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_JOINT_SPACE)

#include <algorithm>
#include <set>

namespace unity::systems {

UNITY_INLINE auto joint_space::initial() -> state_type {
  auto s = inner_.initial();
  const auto cost = price_of(s);
  return {std::move(s), cost};
}

UNITY_INLINE std::optional<candidate> joint_space::price(const state_type& s, move_type m,
                                                         scratch_type& scratch) const {
  const auto c = inner_.price(s.at, m, scratch);
  if (!c) {
    return std::nullopt;
  }
  const auto cost = prices_.get(c->fingerprint, [&] {
    return is_past_deadline() ? std::nullopt : std::optional{mapped_.cost(inner_.graph_after(s.at, scratch))};
  });
  return cost ? std::optional{candidate{*cost, c->fingerprint}} : std::nullopt;
}

UNITY_INLINE auto joint_space::apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to)
    -> state_type {
  auto child = inner_.apply(s.at, m, from, to);
  const auto cost = price_of(child);
  return {std::move(child), cost};
}

UNITY_INLINE auto joint_space::cheapest_near(const state_type& s, std::size_t steps, std::size_t most, cost_value limit)
    -> std::optional<neighbour> {
  const auto all = passed(s, steps, most);
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size() && !is_past_deadline(); ++i) {
    if (const auto cost = price_below(all[i].at, limit); cost < limit) {
      limit = cost;
      best = i;
    }
  }
  if (best == 0) {
    return std::nullopt;
  }
  neighbour n{{all[best].at, limit}, {}};
  for (auto i = best; i != 0; i = all[i].from) {
    n.moves.push_back(all[i].by);
  }
  std::reverse(n.moves.begin(), n.moves.end());
  return n;
}

UNITY_INLINE cost_value joint_space::price_of(const inner_space::state_type& s) const {
  return *prices_.get(inner_.fingerprint_of(s), [&] { return std::optional{mapped_.cost(inner_.graph(s))}; });
}

UNITY_INLINE cost_value joint_space::price_below(const inner_space::state_type& s, cost_value limit) const {
  if (const auto known = prices_.find(inner_.fingerprint_of(s))) {
    return *known;
  }
  const auto cost = mapped_.cost_below(inner_.graph(s), limit);
  if (cost < limit) {
    prices_.insert(inner_.fingerprint_of(s), cost);
  }
  return cost;
}

UNITY_INLINE auto joint_space::passed(const state_type& s, std::size_t steps, std::size_t most)
    -> std::vector<passed_graph> {
  std::vector<passed_graph> all{{s.at, 0, {}}};
  std::set<fingerprint> named;  // cheaper to compute, so checked first
  std::set<fingerprint> met;
  scratch_type here;
  scratch_type there;
  met.insert(inner_.canonical_fingerprint(s.at, here));
  std::size_t first = 0;
  for (std::size_t step = 0; step < steps && first < all.size(); ++step) {
    const auto end = all.size();
    for (auto i = first; i < end; ++i) {
      const auto moves = inner_.moves(all[i].at);
      for (const auto m : std::vector<move_type>(moves.begin(), moves.end())) {
        inner_.prepare(all[i].at, here);
        const auto c = inner_.price(all[i].at, m, here);
        if (!c || !named.insert(c->fingerprint).second) {
          continue;
        }
        auto child = inner_.apply(all[i].at, m, here, there);
        if (!met.insert(inner_.canonical_fingerprint(child, there)).second) {
          continue;
        }
        if (all.size() > most || is_past_deadline()) {
          all.erase(all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
          return all;
        }
        all.push_back({std::move(child), i, m});
      }
    }
    first = end;
  }
  return all;
}

}  // namespace unity::systems

#endif
