// Interned matches and their effects: each (rule, bindings) is instantiated and checked once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/index_table.hpp>
#include <unity/rewrite/instantiate.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/rule_index.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

using match_id = id<struct match_tag>;

// Whether new nodes can close a cycle while none of their results lives yet. They cannot if results of a single node
// are replaced, or if they read only what the old nodes read.
enum class cycle_risk : std::uint8_t { none, possible };

// The effect of a match on any state that contains its nodes. It does not include conditions that depend on the state:
// uses from outside, cycles, and which parts of it are live already (see rewrite_effect).
struct match_record {
  std::uint32_t rule = 0;
  std::uint32_t first = 0;  // in the pool: nodes, bound values, replaced values, defining nodes, (alias, target) pairs
  std::uint16_t nodes = 0;
  std::uint16_t bound = 0;
  std::uint16_t replaced = 0;
  std::uint16_t defining = 0;
  std::uint16_t aliases = 0;
  cycle_risk cycles = cycle_risk::none;
};

template <class Store>
class match_store {
 public:
  // The match of `b` with the `choice`-th combination of variants inside the target. Nothing if there is no such
  // combination, the conditions of the rule fail, the target cannot be built, its outputs have other types, or it
  // changes nothing.
  std::optional<match_id> intern(Store& store, const rule_index& rules, const bindings& b, std::size_t choice = 0) {
    flatten(b, choice);
    const auto hash = key_hash();
    const auto known = key_table_.find(hash, [&](auto i) { return same_key(keys_[i]); });
    if (known != index_table::none) {
      return keys_[known].match.valid() ? std::optional{keys_[known].match} : std::nullopt;
    }
    key k{static_cast<std::uint32_t>(key_pool_.size()), static_cast<std::uint32_t>(flat_.size()), {}};
    key_pool_.insert(key_pool_.end(), flat_.begin(), flat_.end());
    const auto made = instantiate(store, rules.rule(b.rule), b, choice);
    k.match = made.value_or(match_id{});
    keys_.push_back(k);
    key_table_.insert(hash, static_cast<std::uint32_t>(keys_.size() - 1));
    return made;
  }

  // Adds a move without a rule: `defining` nodes define the `replaced` values anew, in states where `nodes` are live.
  match_id add(std::uint32_t rule, std::span<const node_id> nodes, std::span<const value_id> bound,
               std::span<const value_id> replaced, std::span<const node_id> defining,
               std::span<const std::pair<value_id, value_id>> aliases, cycle_risk cycles) {
    const auto hash = effect_hash(nodes, defining, aliases);
    const auto known =
        effect_table_.find(hash, [&](auto i) { return same_effect(match_id{i}, nodes, defining, aliases); });
    if (known != index_table::none) {
      return match_id{known};
    }
    match_record r{rule,
                   static_cast<std::uint32_t>(pool_.size()),
                   static_cast<std::uint16_t>(nodes.size()),
                   static_cast<std::uint16_t>(bound.size()),
                   static_cast<std::uint16_t>(replaced.size()),
                   static_cast<std::uint16_t>(defining.size()),
                   static_cast<std::uint16_t>(aliases.size()),
                   cycles};
    const auto put = [&](const auto& ids) {
      for (const auto i : ids) {
        pool_.push_back(i.index());
      }
    };
    put(nodes);
    put(bound);
    put(replaced);
    put(defining);
    for (const auto& [from, to] : aliases) {
      pool_.push_back(from.index());
      pool_.push_back(to.index());
    }
    records_.push_back(r);
    effect_table_.insert(hash, static_cast<std::uint32_t>(records_.size() - 1));
    return match_id{records_.size() - 1};
  }

  [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }
  [[nodiscard]] const match_record& record(match_id m) const { return records_[m.index()]; }
  [[nodiscard]] node_id node(const match_record& r, std::size_t i) const { return node_id{pool_[r.first + i]}; }
  [[nodiscard]] value_id bound(const match_record& r, std::size_t i) const {
    return value_id{pool_[r.first + r.nodes + i]};
  }
  [[nodiscard]] value_id replaced(const match_record& r, std::size_t i) const {
    return value_id{pool_[r.first + r.nodes + r.bound + i]};
  }
  [[nodiscard]] node_id defining(const match_record& r, std::size_t i) const {
    return node_id{pool_[r.first + r.nodes + r.bound + r.replaced + i]};
  }
  [[nodiscard]] std::pair<value_id, value_id> alias(const match_record& r, std::size_t i) const {
    const auto at = r.first + r.nodes + r.bound + r.replaced + r.defining + 2 * i;
    return {value_id{pool_[at]}, value_id{pool_[at + 1]}};
  }

  [[nodiscard]] std::size_t memory() const noexcept {
    return pool_.capacity() * 4 + key_pool_.capacity() * 4 + records_.capacity() * sizeof(match_record) +
           keys_.capacity() * sizeof(key) + key_table_.memory() + effect_table_.memory();
  }

 private:
  struct key {
    std::uint32_t first;
    std::uint32_t length;
    match_id match;
  };

  void flatten(const bindings& b, std::size_t choice) {
    const auto copies = b.stride == 1 ? 1 : b.repetitions;
    flat_.assign({b.rule, static_cast<std::uint32_t>(choice), static_cast<std::uint32_t>(b.repetitions)});
    for (std::size_t s = 0; s < b.nodes.size(); s += b.stride) {
      for (std::size_t i = 0; i < copies; ++i) {
        flat_.push_back(b.nodes[s + i].index());
      }
    }
    for (std::size_t s = 0; s < b.values.size(); s += b.stride) {
      for (std::size_t i = 0; i < copies; ++i) {
        flat_.push_back(b.values[s + i].index());
      }
    }
    for (const auto a : b.attributes) {
      flat_.push_back(a.index());
    }
  }
  [[nodiscard]] std::uint64_t key_hash() const {
    std::uint64_t h = flat_.size();
    for (const auto w : flat_) {
      h = hash_combine(h, w);
    }
    return h;
  }
  [[nodiscard]] bool same_key(const key& k) const {
    return k.length == flat_.size() && std::equal(flat_.begin(), flat_.end(), key_pool_.begin() + k.first);
  }

  template <class Nodes, class Aliases>
  [[nodiscard]] static std::uint64_t effect_hash(const Nodes& nodes, const Nodes& defining, const Aliases& aliases) {
    std::uint64_t h = nodes.size();
    for (const auto n : nodes) {
      h = hash_combine(h, n.index());
    }
    for (const auto n : defining) {
      h = hash_combine(h, n.index());
    }
    for (const auto& [from, to] : aliases) {
      h = hash_combine(hash_combine(h, from.index()), to.index());
    }
    return h;
  }
  template <class Nodes, class Aliases>
  [[nodiscard]] bool same_effect(match_id m, const Nodes& nodes, const Nodes& made, const Aliases& aliases) const {
    const auto& r = record(m);
    if (r.nodes != nodes.size() || r.defining != made.size() || r.aliases != aliases.size()) {
      return false;
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (node(r, i) != nodes[i]) {
        return false;
      }
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (defining(r, i) != made[i]) {
        return false;
      }
    }
    for (std::size_t i = 0; i < aliases.size(); ++i) {
      if (alias(r, i) != aliases[i]) {
        return false;
      }
    }
    return true;
  }

  std::optional<match_id> instantiate(Store& store, const prepared_rule& rule, const bindings& b, std::size_t choice) {
    detail::target_builder<Store> builder{store, rule, b, choice};
    if (!builder.build()) {
      return std::nullopt;
    }
    return add(b.rule, builder.matched(), builder.bound(), builder.replaced(), builder.defining(), builder.aliases(),
               builder.several() ? cycle_risk::possible : cycle_risk::none);
  }

  std::vector<match_record> records_;
  std::vector<std::uint32_t> pool_;
  std::vector<key> keys_;
  std::vector<std::uint32_t> key_pool_;
  index_table key_table_;
  index_table effect_table_;
  std::vector<std::uint32_t> flat_;
};

// Moves that merge two nodes that compute the same: common subexpressions.

// Reports, for every live node that applies n's operator to n's operands, the move that redirects the readers of the
// younger node's results to the older one's: sink(match). The moves carry `rule` as their rule.
// Complexity: linear in the readers of the operand of n with the fewest readers, at most state_view::most_neighbours.
template <class Store, class Sink>
void find_duplicates(const Store& store, match_store<Store>& matches, state_view& view, std::uint32_t rule, node_id n,
                     Sink&& sink) {
  if (!store.op(n).valid() || store.operands(n).empty()) {
    return;
  }
  const auto operands = store.operands(n);
  const auto v = *std::min_element(operands.begin(), operands.end(),
                                   [&](value_id a, value_id b) { return view.use_count(a) < view.use_count(b); });
  const auto merge_with = [&](const value_use& u) {
    const bool same =
        u.node != n && store.op(u.node) == store.op(n) && std::ranges::equal(store.operands(u.node), store.operands(n));
    if (!same) {
      return;
    }
    const std::vector<node_id> nodes{std::min(n, u.node), std::max(n, u.node)};
    const auto kept = store.results(nodes[0]);
    const auto dropped = store.results(nodes[1]);
    std::vector<std::pair<value_id, value_id>> aliases;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      aliases.emplace_back(dropped[i], kept[i]);
    }
    std::vector<value_id> bound(store.operands(n).begin(), store.operands(n).end());
    bound.insert(bound.end(), kept.begin(), kept.end());
    const std::vector<value_id> replaced(dropped.begin(), dropped.end());
    sink(matches.add(rule, nodes, bound, replaced, std::span<const node_id>{}, aliases, cycle_risk::none));
  };
  if (view.use_count(v) > state_view::most_neighbours) {
    std::ranges::for_each(view.users_near(v, n, state_view::few_neighbours), merge_with);
  } else {
    std::ranges::for_each(view.users(v), merge_with);
  }
}

// Moves that replace an operator by one of its variants.
// Source: Jia's dissertation (TASO, 2020), section 2.7 and figure 2.5.

namespace detail {

// The operators that read v, each once; nothing if v is an output of the graph, whose type must not change.
template <class Store>
std::optional<std::vector<node_id>> operators_reading(const Store& store, const state_view& view, value_id v) {
  std::vector<node_id> readers;
  for (const auto& u : view.users(v)) {
    if (!store.op(u.node).valid()) {
      return std::nullopt;
    }
    if (std::find(readers.begin(), readers.end(), u.node) == readers.end()) {
      readers.push_back(u.node);
    }
  }
  std::sort(readers.begin(), readers.end());
  return readers;
}

// The node that computes the same results as `reader`, but reads `to` instead of `from`; nothing if a type changes.
template <class Store>
std::optional<node_id> read_instead(Store& store, node_id reader, value_id from, value_id to) {
  std::vector<value_id> operands(store.operands(reader).begin(), store.operands(reader).end());
  std::replace(operands.begin(), operands.end(), from, to);
  const std::vector<value_id> results(store.results(reader).begin(), store.results(reader).end());
  const auto types = store.infer(store.op(reader), operands);
  const bool same = types && std::equal(results.begin(), results.end(), types->begin(), types->end(),
                                        [&](value_id v, const auto& t) { return store.type(v) == t; });
  return same ? std::optional{store.define(store.op(reader), operands, results)} : std::nullopt;
}

// The move that passes the result of `made` to all readers of n's result.
template <class Store>
std::optional<match_id> redirect_readers(Store& store, match_store<Store>& matches, std::uint32_t rule, node_id n,
                                         node_id made, std::span<const node_id> readers) {
  std::vector<node_id> nodes{n};
  std::vector<value_id> replaced;
  std::vector<node_id> defining;
  for (const auto reader : readers) {
    const auto again = read_instead(store, reader, store.results(n)[0], store.results(made)[0]);
    if (!again) {
      return std::nullopt;
    }
    nodes.push_back(reader);
    replaced.insert(replaced.end(), store.results(reader).begin(), store.results(reader).end());
    defining.push_back(*again);
  }
  const std::vector<value_id> bound(store.operands(n).begin(), store.operands(n).end());
  const std::span<const std::pair<value_id, value_id>> no_aliases;
  return matches.add(rule, nodes, bound, replaced, defining, no_aliases, cycle_risk::none);
}

}  // namespace detail

// Reports, for every variant of the operator of live node n, the move that computes n's result with it and passes it to
// all readers: sink(match). None for nodes with several results, for outputs of the graph, and if the type of a
// reader's results would change. The moves carry `rule` as their rule.
template <class Store, class Sink>
void find_variants(Store& store, match_store<Store>& matches, const state_view& view, std::uint32_t rule, node_id n,
                   Sink&& sink) {
  if (!store.op(n).valid() || store.results(n).size() != 1 || store.operands(n).empty()) {
    return;
  }
  const auto readers = detail::operators_reading(store, view, store.results(n)[0]);
  if (!readers || readers->empty()) {
    return;
  }
  const std::vector<value_id> operands(store.operands(n).begin(), store.operands(n).end());
  for (const auto& variant : store.algebra().variants(store.operation(store.op(n)), store.types(operands))) {
    const auto made = store.cons(store.intern(variant), operands);
    if (made && store.results(*made)[0] != store.results(n)[0]) {
      if (const auto m = detail::redirect_readers(store, matches, rule, n, *made, *readers)) {
        sink(*m);
      }
    }
  }
}

}  // namespace unity
