// Keeps the nodes of a state in topological order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_effect.hpp>

namespace unity {

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
