// The library's own graph: flat arrays, dense ids, values with identities. With graph/boost_graph.hpp included, it is
// also a Boost graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>

namespace unity {

// A dataflow graph over operators `Op` and value types `Type`. Regular; acyclic by construction, because a
// node can only read values that exist; so ascending node ids are a topological order.
// Complexity: everything constant time but add_node (linear in its operands and results) and copies.
template <class Op, class Type>
class compact_graph {
 public:
  using operation_type = Op;
  using value_type = Type;

  // Appends a node that reads `operands` and defines one new value per element of `types`. The operands may be a
  // span of this graph.
  node_id add_node(Op op, std::span<const value_id> operands, std::span<const Type> types) {
    const node_id n{nodes_.size()};
    const auto first_operand = static_cast<std::uint32_t>(operands_.size());
    const small_vector<value_id, 8> read{operands};  // the span may be a part of operands_, which moves
    for (const auto v : read) {
      UNITY_EXPECTS(v.index() < types_.size(), "operands that are values of this graph");
      link_edge(n, v);
      operands_.push_back(v);
    }
    const auto first_result = static_cast<std::uint32_t>(types_.size());
    for (const auto& t : types) {
      results_.push_back(value_id{types_.size()});
      types_.push_back(t);
      producers_.push_back(n);
      last_edges_.push_back(no_edge);
    }
    nodes_.push_back({first_operand, static_cast<std::uint32_t>(operands_.size()), first_result,
                      static_cast<std::uint32_t>(types_.size())});
    operations_.push_back(std::move(op));
    return n;
  }

  void set_outputs(std::span<const value_id> values) { outputs_.assign(values.begin(), values.end()); }

  [[nodiscard]] std::size_t node_count() const noexcept { return nodes_.size(); }
  [[nodiscard]] std::size_t value_count() const noexcept { return types_.size(); }
  // The number of uses: one per operand of every node.
  [[nodiscard]] std::size_t edge_count() const noexcept { return operands_.size(); }

  [[nodiscard]] const Op& operation(node_id n) const { return operations_[checked(n)]; }
  [[nodiscard]] std::span<const value_id> operands(node_id n) const {
    const auto& r = nodes_[checked(n)];
    return {operands_.data() + r.first_operand, r.last_operand - r.first_operand};
  }
  [[nodiscard]] std::span<const value_id> results(node_id n) const {
    const auto& r = nodes_[checked(n)];
    return {results_.data() + r.first_result, r.last_result - r.first_result};
  }
  [[nodiscard]] const Type& type(value_id v) const { return types_[checked(v)]; }
  [[nodiscard]] node_id producer(value_id v) const { return producers_[checked(v)]; }
  [[nodiscard]] std::span<const value_id> outputs() const noexcept { return outputs_; }

  // Edges are numbered densely from 0: by reader, then by position. One is the use of a value as an operand.
  static constexpr std::uint32_t no_edge = std::numeric_limits<std::uint32_t>::max();
  [[nodiscard]] std::uint32_t first_edge_into(node_id n) const { return nodes_[checked(n)].first_operand; }
  [[nodiscard]] value_id edge_value(std::uint32_t e) const { return operands_[e]; }
  [[nodiscard]] node_id edge_reader(std::uint32_t e) const { return readers_[e]; }
  // The edges that carry one value, ascending; no_edge after the last.
  [[nodiscard]] std::uint32_t first_edge_of(value_id v) const {
    const auto last = last_edges_[checked(v)];
    return last == no_edge ? no_edge : next_edges_[last];
  }
  [[nodiscard]] std::uint32_t next_edge_of(std::uint32_t e) const {
    return e == last_edges_[operands_[e].index()] ? no_edge : next_edges_[e];
  }

  friend bool operator==(const compact_graph&, const compact_graph&) = default;

 private:
  struct extent {
    std::uint32_t first_operand;
    std::uint32_t last_operand;
    std::uint32_t first_result;
    std::uint32_t last_result;
    friend bool operator==(const extent&, const extent&) = default;
  };

  std::size_t checked(node_id n) const {
    UNITY_EXPECTS(n.index() < nodes_.size(), "a node of this graph");
    return n.index();
  }
  std::size_t checked(value_id v) const {
    UNITY_EXPECTS(v.index() < types_.size(), "a value of this graph");
    return v.index();
  }

  // A value's edges form a ring, whose last edge is stored: one word per value suffices to append in order.
  void link_edge(node_id reader, value_id v) {
    const auto e = static_cast<std::uint32_t>(readers_.size());
    auto& last = last_edges_[v.index()];
    next_edges_.push_back(last == no_edge ? e : std::exchange(next_edges_[last], e));
    last = e;
    readers_.push_back(reader);
  }

  std::vector<extent> nodes_;
  std::vector<Op> operations_;
  std::vector<value_id> operands_;
  std::vector<value_id> results_;
  std::vector<Type> types_;
  std::vector<node_id> producers_;
  std::vector<value_id> outputs_;
  std::vector<node_id> readers_;           // by edge
  std::vector<std::uint32_t> next_edges_;  // the next edge of the same value; for the last one, the first
  std::vector<std::uint32_t> last_edges_;  // by value
};

// Adds a node of `from` to `to`: the same operator and types, with mapped operands. Returns the new node.
// map: by value of `from`, the value of `to`; must contain the operands, receives the results.
// Complexity: linear in operands and results.
template <class Op, class Type>
node_id copy_node(const compact_graph<Op, Type>& from, node_id n, compact_graph<Op, Type>& to,
                  std::vector<value_id>& map) {
  std::vector<value_id> operands;
  for (const auto v : from.operands(n)) {
    UNITY_EXPECTS(map[v.index()].valid(), "a map that has the operands of the node");
    operands.push_back(map[v.index()]);
  }
  std::vector<Type> types;
  for (const auto v : from.results(n)) {
    types.push_back(from.type(v));
  }
  const auto own = to.add_node(from.operation(n), operands, types);
  const auto results = from.results(n);  // only now: `to` may be the same graph, whose arrays move
  for (std::size_t r = 0; r < results.size(); ++r) {
    map[results[r].index()] = to.results(own)[r];
  }
  return own;
}

}  // namespace unity
