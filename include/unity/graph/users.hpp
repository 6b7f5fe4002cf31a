// The users of each value: the reverse of operands, for a whole graph at once.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>

namespace unity {

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

}  // namespace unity
