// The effect of applying a match in a state: nodes removed, nodes added, and whether the match applies at all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/state_view.hpp>

namespace unity {

// Traces a match through a prepared view. One object per thread; reusable. A node lives while an output depends on it:
// a match kills the definitions that it replaces and whatever only they needed, and adds the nodes of its target that
// do not live yet. So shared nodes, inside or outside of the match, are kept.
class rewrite_effect {
 public:
  // Whether the match applies: it closes no cycle, defines no value twice, and removes no result that is still used.
  // Complexity: linear in the removed and added nodes and their operands; once per state also linear in the state, for
  // the first match that could close a cycle.
  template <class Store>
  [[nodiscard]] bool trace(const Store& store, const match_store<Store>& matches, match_id m, state_view& view) {
    const auto& r = matches.record(m);
    begin(store.value_count(), store.node_count());
    for (std::size_t i = 0; i < r.defining; ++i) {
      if (!is_added(matches.defining(r, i))) {
        add(store, view, matches, r, matches.defining(r, i));
      }
    }
    for (std::size_t i = 0; i < r.aliases; ++i) {
      // A use that keeps the target of the alias alive until the number of uses that it takes over is known.
      read(store, view, matches, r, matches.alias(r, i).second);
    }
    for (std::size_t i = 0; i < r.replaced; ++i) {
      if (!is_alias(matches, r, matches.replaced(r, i))) {
        kill(store, view, view.definition(matches.replaced(r, i)));
      }
    }
    redirect_aliases(store, view, matches, r);
    if (may_be_unused(store, view, matches, r)) {
      while (drop_unused_additions(store, view)) {
      }
    }
    return !refused_ && defined_once(store, view) && definitions_free(store, view, matches, r) &&
           acyclic(store, view, matches, r);
  }

  [[nodiscard]] std::span<const node_id> killed() const noexcept { return killed_; }
  // Operands before users.
  [[nodiscard]] std::span<const node_id> added() const noexcept { return added_; }
  // Live values that the added nodes and aliases read.
  [[nodiscard]] std::span<const value_id> leaves() const noexcept { return leaves_; }
  // Live nodes that read an alias; each is replaced by the same operator on redirected(operand).
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
    std::uint32_t defined = 0;  // stamp of the last trace that adds a definition
  };

  void begin(std::size_t values, std::size_t nodes) {
    if (values_.size() < values) {
      values_.resize(values + values / 2);
    }
    if (nodes_.size() < nodes) {
      nodes_.resize(nodes + nodes / 2);
    }
    if (++stamp_ == 0) {  // after a wrap-around, old stamps would look new
      values_.assign(values_.size(), change{});
      nodes_.assign(nodes_.size(), 0);
      stamp_ = 1;
    }
    killed_.clear();
    added_.clear();
    redirected_.clear();
    aliases_.clear();
    leaves_.clear();
    adding_.clear();
    foreign_ = false;
    refused_ = false;
  }

  std::int32_t& delta(value_id v) {
    auto& c = values_[v.index()];
    if (c.stamp != stamp_) {
      c.stamp = stamp_;
      c.uses = 0;
    }
    return c.uses;
  }
  [[nodiscard]] std::int32_t uses(const state_view& view, value_id v) const {
    const auto& c = values_[v.index()];
    return static_cast<std::int32_t>(view.use_count(v)) + (c.stamp == stamp_ ? c.uses : 0);
  }

  // Adds a node of the target, and the nodes below it that do not live.
  template <class Store>
  void add(const Store& store, const state_view& view, const match_store<Store>& matches, const match_record& r,
           node_id n) {
    adding_.push_back(n);
    for (const auto v : store.operands(n)) {
      read(store, view, matches, r, v);
    }
    adding_.pop_back();
    added_.push_back(n);
  }
  // Counts a use of v by the target, and adds the definition that v then has.
  template <class Store>
  void read(const Store& store, const state_view& view, const match_store<Store>& matches, const match_record& r,
            value_id v) {
    ++delta(v);
    const bool replaced = is_replaced(matches, r, v);
    if (!replaced && view.definition(v).valid()) {
      note_leaf(matches, r, v);
      return;
    }
    const auto maker = new_definition(store, matches, r, v);
    if (!maker.valid() || std::find(adding_.begin(), adding_.end(), maker) != adding_.end()) {
      refused_ = true;  // the target reads an alias, or itself
    } else if (!is_added(maker)) {
      add(store, view, matches, r, maker);
    }
  }
  // The node of the target that defines v, otherwise the node for which v was created.
  template <class Store>
  [[nodiscard]] static node_id new_definition(const Store& store, const match_store<Store>& matches,
                                              const match_record& r, value_id v) {
    for (std::size_t i = 0; i < r.defining; ++i) {
      const auto results = store.results(matches.defining(r, i));
      if (std::find(results.begin(), results.end(), v) != results.end()) {
        return matches.defining(r, i);
      }
    }
    return is_replaced(matches, r, v) ? node_id{} : store.canonical(v);
  }
  [[nodiscard]] bool is_added(node_id n) const { return std::find(added_.begin(), added_.end(), n) != added_.end(); }
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
        const auto read_now = redirected(v);
        --delta(read_now);
        kill_if_unused(store, view, view.definition(read_now));
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

  // Moves the remaining uses of each aliased value to its target, and kills what is then unused.
  template <class Store>
  void redirect_aliases(const Store& store, const state_view& view, const match_store<Store>& matches,
                        const match_record& r) {
    for (std::size_t i = 0; i < r.aliases; ++i) {
      const auto [from, to] = matches.alias(r, i);
      aliases_.emplace_back(from, to);
      for (const auto& u : view.users(from)) {
        if (nodes_[u.node.index()] != stamp_ &&
            std::find(redirected_.begin(), redirected_.end(), u.node) == redirected_.end()) {
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

  // A single root with a single result is always read, like everything that lives.
  template <class Store>
  [[nodiscard]] static bool may_be_unused(const Store& store, const state_view& view, const match_store<Store>& matches,
                                          const match_record& r) {
    return r.replaced != 1 || store.results(view.definition(matches.replaced(r, 0))).size() != 1;
  }
  // Removes added nodes without readers: their results were only read by killed nodes. Returns whether there were any.
  template <class Store>
  bool drop_unused_additions(const Store& store, const state_view& view) {
    const auto before = added_.size();
    for (auto i = before; i-- > 0;) {
      const auto n = added_[i];
      const auto results = store.results(n);
      if (std::all_of(results.begin(), results.end(), [&](value_id v) { return uses(view, v) == 0; })) {
        added_.erase(added_.begin() + static_cast<std::ptrdiff_t>(i));
        for (const auto v : store.operands(n)) {
          --delta(v);
          drop_if_unused(store, view, v);
        }
      }
    }
    return added_.size() != before;
  }

  // Another result of an added node with several results may live already.
  template <class Store>
  [[nodiscard]] bool defined_once(const Store& store, const state_view& view) {
    if (std::all_of(added_.begin(), added_.end(), [&](node_id n) { return store.results(n).size() == 1; })) {
      return true;  // each was added because its result needs a definition
    }
    for (const auto n : added_) {
      for (const auto v : store.results(n)) {
        const auto old = view.definition(v);
        if ((old.valid() && nodes_[old.index()] != stamp_) || values_[v.index()].defined == stamp_) {
          return false;
        }
        values_[v.index()].defined = stamp_;
      }
    }
    return true;
  }

  // A killed definition must not leave one of its results undefined but used.
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

  // No leaf of the target may depend on what the match replaces; self-reads of the target were excluded when it was
  // added. Exact if a single node is replaced or the target is connected; otherwise it may refuse an acyclic result. A
  // value that the match did not bind may have any definition by now, even if the new nodes read what the old ones did.
  // Source: Jia's dissertation (2020), figure 2.6.
  template <class Store>
  [[nodiscard]] bool acyclic(const Store& store, state_view& view, const match_store<Store>& matches,
                             const match_record& r) const {
    if (!foreign_ && r.cycles == cycle_risk::none) {
      return true;
    }
    return std::none_of(leaves_.begin(), leaves_.end(), [&](value_id leaf) {
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
  std::vector<node_id> adding_;  // nodes whose operands are being added
  bool foreign_ = false;
  bool refused_ = false;
};

// Keeps the nodes of a state in topological order.

struct insertion {
  std::size_t place = 0;  // position in the old state before which all added nodes go
  bool in_order = true;   // otherwise there is no such place, and the new list must be sorted
};

// Where the added nodes of `e` can be inserted together: after all that they read, before all that read them.
// Complexity: linear in their operands and users.
template <class Store>
[[nodiscard]] insertion place_of_added(const Store& store, const state_view& view, const rewrite_effect& e) {
  std::size_t earliest = 0;
  for (const auto v : e.leaves()) {
    if (const auto d = view.definition(v); !e.is_killed(d)) {
      earliest = std::max<std::size_t>(earliest, view.position(d) + 1);
    }
  }
  std::size_t latest = view.nodes().size() - 1;
  for (const auto n : e.added()) {
    for (const auto v : store.results(n)) {
      for (const auto& u : view.users(v)) {
        latest = e.is_killed(u.node) ? latest : std::min<std::size_t>(latest, view.position(u.node));
      }
    }
  }
  for (const auto n : e.redirected_nodes()) {
    latest = e.is_killed(n) ? latest : std::min<std::size_t>(latest, view.position(n));
  }
  return {latest, earliest <= latest};
}

// Sorts topologically by Kahn's algorithm, first come first served. operands_of(node): what it reads.
// Complexity: linear in nodes and operands.
template <class Store, class Operands>
void sort_nodes(const Store& store, std::vector<node_id>& nodes, const Operands& operands_of) {
  std::vector<std::uint32_t> maker(store.value_count());
  std::vector<std::vector<std::uint32_t>> users(nodes.size());
  std::vector<std::size_t> waits(nodes.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    for (const auto v : store.results(nodes[i])) {
      maker[v.index()] = i;
    }
  }
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const auto& operands = operands_of(nodes[i]);
    waits[i] = operands.size();
    for (const auto v : operands) {
      users[maker[v.index()]].push_back(i);
    }
    if (waits[i] == 0) {
      order.push_back(i);
    }
  }
  for (std::size_t done = 0; done < order.size(); ++done) {
    for (const auto u : users[order[done]]) {
      if (--waits[u] == 0) {
        order.push_back(u);
      }
    }
  }
  UNITY_EXPECTS(order.size() == nodes.size(), "an acyclic set of nodes");
  std::vector<node_id> sorted;
  sorted.reserve(nodes.size());
  for (const auto i : order) {
    sorted.push_back(nodes[i]);
  }
  nodes = std::move(sorted);
}

}  // namespace unity
