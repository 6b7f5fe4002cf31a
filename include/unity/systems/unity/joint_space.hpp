// Graphs as a search space in which a graph costs what its best mapping takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include <unity/core/hash.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/search/rewrite_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// Moves are those of rewrite_space; the price of a graph comes from `mapped`, once per graph. Models search_space,
// canonical_space and commuting_space, for one thread: pricing keeps what it finds.
// Source: Unger et al., Unity (OSDI 2022), section 5.1. Graphs stand for all parallel computation graphs that divide them
// (parallel/machine_mapping.hpp): substitutions that divide operators are not moves here, they are chosen when a graph is
// priced.
class joint_space {
 public:
  using inner_space = rewrite_space<tensor::algebra, tensor::flop_cost>;
  using move_type = inner_space::move_type;
  using scratch_type = inner_space::scratch_type;
  using graph_price = std::function<cost_value(const tensor::tensor_graph&)>;

  struct state_type {
    inner_space::state_type at{};
    cost_value cost = 0;
  };

  joint_space(const tensor::algebra& a, const rule_set& rules, const tensor::tensor_graph& g, graph_price mapped)
      : mapped_{std::move(mapped)}, inner_{a, tensor::flop_cost{a, tensor::mode::training}, rules, g} {}

  [[nodiscard]] state_type initial() {
    auto s = inner_.initial();
    const auto cost = price_of(s);
    return {std::move(s), cost};
  }
  [[nodiscard]] static cost_value cost(const state_type& s) noexcept { return s.cost; }
  [[nodiscard]] fingerprint fingerprint_of(const state_type& s) const { return inner_.fingerprint_of(s.at); }
  [[nodiscard]] std::span<const move_type> moves(const state_type& s) const { return inner_.moves(s.at); }
  void prepare(const state_type& s, scratch_type& scratch) const { inner_.prepare(s.at, scratch); }
  // Complexity: that of the graph's price where it was not met before.
  [[nodiscard]] std::optional<candidate> price(const state_type& s, move_type m, scratch_type& scratch) const {
    auto c = inner_.price(s.at, m, scratch);
    if (!c) {
      return std::nullopt;
    }
    const auto [known, is_new] = prices_.try_emplace(c->fingerprint, 0);
    if (is_new) {
      known->second = mapped_(inner_.graph(inner_.apply(s.at, m, scratch, child_)));
      inner_.prepare(s.at, scratch);
    }
    c->cost = known->second;
    return c;
  }
  [[nodiscard]] state_type apply(const state_type& s, move_type m, scratch_type& from, scratch_type& to) {
    auto child = inner_.apply(s.at, m, from, to);
    const auto cost = price_of(child);
    return {std::move(child), cost};
  }
  [[nodiscard]] fingerprint canonical_fingerprint(const state_type& s, scratch_type& scratch) const {
    return inner_.canonical_fingerprint(s.at, scratch);
  }
  [[nodiscard]] bool independent(move_type a, move_type b) const { return inner_.independent(a, b); }

  [[nodiscard]] tensor::tensor_graph graph(const state_type& s) const { return inner_.graph(s.at); }
  [[nodiscard]] const substitution& rule_of(move_type m) const { return inner_.rule_of(m); }

 private:
  struct hash {
    std::size_t operator()(const fingerprint& f) const noexcept { return f.low; }
  };

  [[nodiscard]] cost_value price_of(const inner_space::state_type& s) const {
    const auto [known, is_new] = prices_.try_emplace(inner_.fingerprint_of(s), 0);
    if (is_new) {
      known->second = mapped_(inner_.graph(s));
    }
    return known->second;
  }

  graph_price mapped_;
  mutable inner_space inner_;  // pricing a move makes its graph
  mutable std::unordered_map<fingerprint, cost_value, hash> prices_{};
  mutable scratch_type child_{};
};

}  // namespace unity::systems
