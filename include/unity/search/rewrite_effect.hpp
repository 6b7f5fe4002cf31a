// What applying a match does in one state: nodes that die, nodes that come, and whether it applies at all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

// Traces a match through a prepared view. One object per thread; reusable.
// A node lives while an output depends on it: a match kills the definitions it replaces and whatever only they
// needed, and adds of its target what does not live yet. So what is shared, inside or outside, is kept.
class rewrite_effect {
 public:
  // Whether the match applies: it closes no cycle, and takes no result away that somebody uses.
  // Complexity: linear in the nodes that die or come and their operands; in the state once, the first time that
  // a match which could close a cycle is traced.
  template <class Store>
  [[nodiscard]] bool trace(const Store& store, const match_store<Store>& matches, match_id m, state_view& view) {
    const auto& r = matches.record(m);
    begin(store.value_count(), store.node_count());
    for (std::size_t i = 0; i < r.defining; ++i) {
      add(store, view, matches, r, matches.defining(r, i));
    }
    for (std::size_t i = 0; i < r.aliases; ++i) {
      hold(store, view, matches, r, matches.alias(r, i).second);
    }
    for (std::size_t i = 0; i < r.replaced; ++i) {
      if (!is_alias(matches, r, matches.replaced(r, i))) {
        kill(store, view, view.definition(matches.replaced(r, i)));
      }
    }
    redirect_aliases(store, view, matches, r);
    return definitions_free(store, view, matches, r) && acyclic(store, view, matches, r);
  }

  [[nodiscard]] std::span<const node_id> killed() const noexcept { return killed_; }
  // Operands before users.
  [[nodiscard]] std::span<const node_id> added() const noexcept { return added_; }
  // Live values that the added nodes and aliases read.
  [[nodiscard]] std::span<const value_id> leaves() const noexcept { return leaves_; }
  // Live nodes that read an alias; each is to be replaced by the same operator on redirected(operand).
  [[nodiscard]] std::span<const node_id> redirected_nodes() const noexcept { return redirected_; }
  [[nodiscard]] value_id redirected(value_id v) const {
    for (const auto& [from, to] : aliases_) {
      if (from == v) {
        return to;
      }
    }
    return v;
  }
  [[nodiscard]] bool is_killed(node_id n) const { return nodes_[n.index()] == stamp_; }

 private:
  struct change {
    std::uint32_t stamp = 0;
    std::int32_t uses = 0;
  };

  void begin(std::size_t values, std::size_t nodes) {
    if (values_.size() < values) {
      values_.resize(values + values / 2);
    }
    if (nodes_.size() < nodes) {
      nodes_.resize(nodes + nodes / 2);
    }
    ++stamp_;
    killed_.clear();
    added_.clear();
    redirected_.clear();
    aliases_.clear();
    leaves_.clear();
    foreign_ = false;
  }

  std::int32_t& delta(value_id v) {
    auto& c = values_[v.index()];
    if (c.stamp != stamp_) {
      c = {stamp_, 0};
    }
    return c.uses;
  }
  [[nodiscard]] std::int32_t uses(const state_view& view, value_id v) const {
    const auto& c = values_[v.index()];
    return static_cast<std::int32_t>(view.use_count(v)) + (c.stamp == stamp_ ? c.uses : 0);
  }

  // Adds a node of the target, and below it what does not live.
  template <class Store>
  void add(const Store& store, const state_view& view, const match_store<Store>& matches, const match_record& r, node_id n) {
    for (const auto v : store.operands(n)) {
      ++delta(v);
      if (view.definition(v).valid()) {
        note_leaf(matches, r, v);
      } else if (const auto maker = store.canonical(v); maker.valid() && !is_added(maker)) {
        add(store, view, matches, r, maker);
      }
    }
    added_.push_back(n);
  }
  [[nodiscard]] bool is_added(node_id n) const { return std::find(added_.begin(), added_.end(), n) != added_.end(); }
  // Keeps an alias' target alive until it is known how many uses it takes over.
  template <class Store>
  void hold(const Store& store, const state_view& view, const match_store<Store>& matches, const match_record& r, value_id v) {
    ++delta(v);
    if (view.definition(v).valid()) {
      note_leaf(matches, r, v);
    } else if (const auto maker = store.canonical(v); maker.valid() && !is_added(maker)) {
      add(store, view, matches, r, maker);
    }
  }
  void note_leaf(const auto& matches, const match_record& r, value_id v) {
    bool is_bound = false;
    for (std::size_t i = 0; i < r.bound && !is_bound; ++i) {
      is_bound = matches.bound(r, i) == v;
    }
    foreign_ = foreign_ || !is_bound;
    leaves_.push_back(v);
  }

  template <class Store>
  void kill(const Store& store, const state_view& view, node_id n) {
    if (nodes_[n.index()] == stamp_) {
      return;
    }
    nodes_[n.index()] = stamp_;
    killed_.push_back(n);
    for (auto next = killed_.size() - 1; next < killed_.size(); ++next) {
      const auto dying = killed_[next];
      for (const auto v : store.operands(dying)) {
        --delta(v);
        kill_if_unused(store, view, view.definition(v));
      }
    }
  }
  template <class Store>
  void kill_if_unused(const Store& store, const state_view& view, node_id n) {
    if (!n.valid() || nodes_[n.index()] == stamp_) {
      return;
    }
    const auto results = store.results(n);
    if (std::all_of(results.begin(), results.end(), [&](value_id v) { return uses(view, v) == 0; })) {
      nodes_[n.index()] = stamp_;
      killed_.push_back(n);
    }
  }

  [[nodiscard]] static bool is_alias(const auto& matches, const match_record& r, value_id v) {
    for (std::size_t i = 0; i < r.aliases; ++i) {
      if (matches.alias(r, i).first == v) {
        return true;
      }
    }
    return false;
  }

  // Hands the remaining uses of each aliased value to its target; what is then unused dies.
  template <class Store>
  void redirect_aliases(const Store& store, const state_view& view, const match_store<Store>& matches, const match_record& r) {
    for (std::size_t i = 0; i < r.aliases; ++i) {
      const auto [from, to] = matches.alias(r, i);
      aliases_.emplace_back(from, to);
      for (const auto& u : view.users(from)) {
        if (nodes_[u.node.index()] != stamp_ && std::find(redirected_.begin(), redirected_.end(), u.node) == redirected_.end()) {
          redirected_.push_back(u.node);
        }
      }
      const auto remaining = uses(view, from);
      delta(from) -= remaining;
      delta(to) += remaining;
    }
    for (const auto& [from, to] : aliases_) {
      drop_if_unused(store, view, from);
    }
    for (const auto& [from, to] : aliases_) {
      --delta(to);
      drop_if_unused(store, view, to);
    }
  }
  template <class Store>
  void drop_if_unused(const Store& store, const state_view& view, value_id v) {
    const auto n = view.definition(v);
    if (!n.valid() || nodes_[n.index()] == stamp_) {
      return;
    }
    const auto results = store.results(n);
    if (std::all_of(results.begin(), results.end(), [&](value_id w) { return uses(view, w) == 0; })) {
      kill(store, view, n);
    }
  }

  // A killed definition must not leave a result without one while somebody reads it.
  template <class Store>
  [[nodiscard]] bool definitions_free(const Store& store, const state_view& view, const match_store<Store>& matches,
                                      const match_record& r) const {
    for (std::size_t i = 0; i < r.replaced; ++i) {
      const auto n = view.definition(matches.replaced(r, i));
      if (nodes_[n.index()] != stamp_) {
        continue;
      }
      for (const auto v : store.results(n)) {
        if (uses(view, v) != 0 && !is_replaced(matches, r, v)) {
          return false;
        }
      }
    }
    return true;
  }
  [[nodiscard]] static bool is_replaced(const auto& matches, const match_record& r, value_id v) {
    for (std::size_t i = 0; i < r.replaced; ++i) {
      if (matches.replaced(r, i) == v) {
        return true;
      }
    }
    return false;
  }

  // No leaf of the target may depend on what the match replaces. Exact where one node is replaced or the
  // target is connected; elsewhere it may refuse an acyclic result. Source: papers/001, figure 2.6.
  template <class Store>
  [[nodiscard]] bool acyclic(const Store& store, state_view& view, const match_store<Store>& matches, const match_record& r) const {
    if (r.keeps_order || !(r.several || foreign_)) {
      return true;
    }
    return std::none_of(leaves_.begin(), leaves_.end(), [&](value_id leaf) {
      if (is_replaced(matches, r, leaf)) {
        return false;
      }
      for (std::size_t i = 0; i < r.replaced; ++i) {
        if (view.depends(store, view.definition(leaf), view.definition(matches.replaced(r, i)))) {
          return true;
        }
      }
      return false;
    });
  }

  std::uint32_t stamp_ = 0;
  std::vector<change> values_;
  std::vector<std::uint32_t> nodes_;
  std::vector<node_id> killed_;
  std::vector<node_id> added_;
  std::vector<node_id> redirected_;
  std::vector<std::pair<value_id, value_id>> aliases_;
  std::vector<value_id> leaves_;
  bool foreign_ = false;
};

}  // namespace unity
