// The users of each value, and an order in which every node follows those it reads from, or a cycle that proves there
// is none.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>

namespace unity {

// The users of each value: the reverse of operands, for a whole graph at once.

// One operand: `user` reads the value as its operand number `position`.
struct use {
  node_id user;
  std::uint32_t position = 0;

  friend auto operator<=>(const use&, const use&) noexcept = default;
  friend bool operator==(const use&, const use&) noexcept = default;  // nvcc does not derive it from <=>
};

// The uses of every value of a graph, ascending by (user, position), in two flat arrays. Being an output is not a use.
// Regular; a snapshot that does not follow later changes of the graph.
// Complexity: lookups constant; building O(values + uses).
class users {
 public:
  users() = default;
  template <dataflow_graph G>
  explicit users(const G& g) {
    assign(g);
  }

  // Effects: as users{g}, reusing the storage.
  template <dataflow_graph G>
  void assign(const G& g);

  [[nodiscard]] std::span<const use> operator[](value_id v) const {
    UNITY_EXPECTS(v.index() + std::size_t{1} < first_.size(), "a value of the graph");
    return {uses_.data() + first_[v.index()], first_[v.index() + 1] - first_[v.index()]};
  }
  [[nodiscard]] std::size_t value_count() const noexcept { return first_.empty() ? 0 : first_.size() - 1; }
  [[nodiscard]] std::size_t use_count() const noexcept { return uses_.size(); }

  friend bool operator==(const users&, const users&) = default;

 private:
  std::vector<std::uint32_t> first_;  // the uses of value v are at [first_[v], first_[v + 1])
  std::vector<use> uses_;
};

template <dataflow_graph G>
void users::assign(const G& g) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  const std::size_t values = graph_traits<G>::value_count(g);
  // counts are stored two positions later: filling the lists then moves each beginning into place
  first_.assign(values + 2, 0);
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      UNITY_EXPECTS(v.index() < values, "operands that are values of the graph");
      ++first_[v.index() + std::size_t{2}];
    }
  }
  std::uint32_t total = 0;
  for (auto& f : first_) {
    total += f;
    f = total;
  }
  uses_.resize(total);
  for (std::size_t n = 0; n < nodes; ++n) {
    std::uint32_t position = 0;
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      uses_[first_[v.index() + std::size_t{1}]++] = {node_id{n}, position++};
    }
  }
  first_.pop_back();
}

// Whether ascending node ids are a topological order, as they always are in a compact_graph. Complexity: O(E).
template <dataflow_graph G>
[[nodiscard]] bool ids_are_topological(const G& g) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      if (graph_traits<G>::producer(g, v).index() >= n) {
        return false;
      }
    }
  }
  return true;
}

namespace detail {

// The number of operands of each node: how many it still waits for.
template <dataflow_graph G>
std::vector<std::uint32_t> operand_counts(const G& g) {
  std::vector<std::uint32_t> counts(graph_traits<G>::node_count(g));
  for (std::size_t n = 0; n < counts.size(); ++n) {
    for ([[maybe_unused]] const value_id v : graph_traits<G>::operands(g, node_id{n})) {
      ++counts[n];
    }
  }
  return counts;
}

// Kahn's algorithm. Leaves in `waiting` a positive count for exactly the nodes on or after a cycle.
template <dataflow_graph G>
std::vector<node_id> sort_by_smallest_id(const G& g, std::vector<std::uint32_t>& waiting) {
  const users uses{g};
  std::priority_queue<node_id, std::vector<node_id>, std::greater<>> ready;
  for (std::size_t n = 0; n < waiting.size(); ++n) {
    if (waiting[n] == 0) {
      ready.push(node_id{n});
    }
  }
  std::vector<node_id> order;
  order.reserve(waiting.size());
  while (!ready.empty()) {
    const node_id n = ready.top();
    ready.pop();
    order.push_back(n);
    for (const value_id v : graph_traits<G>::results(g, n)) {
      for (const use& u : uses[v]) {
        if (--waiting[u.user.index()] == 0) {
          ready.push(u.user);
        }
      }
    }
  }
  return order;
}

}  // namespace detail

// Every node once, after all nodes whose results it reads; among several possible next nodes, the one with the smallest
// id. Nothing if the graph has a cycle. Expects operands that are values of the graph (see validate).
// Complexity: O(E) if ascending ids are such an order, otherwise O((N + E) log N).
template <dataflow_graph G>
[[nodiscard]] std::optional<std::vector<node_id>> topological_order(const G& g) {
  if (ids_are_topological(g)) {
    std::vector<node_id> order;
    order.reserve(graph_traits<G>::node_count(g));
    for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
      order.emplace_back(n);
    }
    return order;
  }
  auto waiting = detail::operand_counts(g);
  auto order = detail::sort_by_smallest_id(g, waiting);
  if (order.size() < waiting.size()) {
    return std::nullopt;
  }
  return order;
}

// A cycle as evidence: each node is read by the next, and the last by the first; the smallest id first. Empty if the
// graph has no cycle. Complexity: as topological_order.
template <dataflow_graph G>
[[nodiscard]] std::vector<node_id> find_cycle(const G& g) {
  if (ids_are_topological(g)) {
    return {};
  }
  auto waiting = detail::operand_counts(g);
  static_cast<void>(detail::sort_by_smallest_id(g, waiting));
  const auto stuck = std::ranges::find_if(waiting, [](std::uint32_t count) { return count > 0; });
  if (stuck == waiting.end()) {
    return {};
  }
  // A stuck node waits for a stuck node, so a walk upwards from one must reach a node twice.
  std::vector<std::uint32_t> seen_at(waiting.size(), 0);
  std::vector<node_id> walk;
  node_id n{static_cast<std::size_t>(stuck - waiting.begin())};
  while (seen_at[n.index()] == 0) {
    walk.push_back(n);
    seen_at[n.index()] = static_cast<std::uint32_t>(walk.size());
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      const node_id p = graph_traits<G>::producer(g, v);
      if (waiting[p.index()] > 0) {
        n = p;
        break;
      }
    }
  }
  walk.erase(walk.begin(), walk.begin() + (seen_at[n.index()] - 1));
  std::ranges::reverse(walk);
  std::ranges::rotate(walk, std::ranges::min_element(walk));
  return walk;
}

}  // namespace unity
