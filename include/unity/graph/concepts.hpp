// The interface that the library requires of a dataflow graph.
//
// A graph is a set of nodes, each an operator applied to values and producing values. An edge is a use of a value by a
// node. The library accesses a graph only through unity::graph_traits<G>, whose primary template forwards to members;
// specialize it for a graph type you do not own (graph/boost_graph.hpp does so).
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>

namespace unity {

// Valid expressions on a graph of your own, forwarded one to one:
//   g.node_count()   g.value_count()   ids are dense: 0 .. count-1
//   g.operation(n)   the operator at node n
//   g.operands(n)    the values it reads, in order         g.results(n)   the values it defines, in order
//   g.type(v)        what value v carries                   g.producer(v)  the node that defines v
//   g.outputs()      the values that the graph is computed for, in order
// Each forwarder asks for its member, so that a missing one makes a concept false instead of ill-formed.
template <class G>
struct graph_traits {
  static std::size_t node_count(const G& g)
    requires requires { { g.node_count() } -> std::convertible_to<std::size_t>; }
  {
    return g.node_count();
  }
  static std::size_t value_count(const G& g)
    requires requires { { g.value_count() } -> std::convertible_to<std::size_t>; }
  {
    return g.value_count();
  }
  static decltype(auto) operation(const G& g, node_id n)
    requires requires { g.operation(n); }
  {
    return g.operation(n);
  }
  static decltype(auto) operands(const G& g, node_id n)
    requires requires { g.operands(n); }
  {
    return g.operands(n);
  }
  static decltype(auto) results(const G& g, node_id n)
    requires requires { g.results(n); }
  {
    return g.results(n);
  }
  static decltype(auto) type(const G& g, value_id v)
    requires requires { g.type(v); }
  {
    return g.type(v);
  }
  static node_id producer(const G& g, value_id v)
    requires requires { { g.producer(v) } -> std::same_as<node_id>; }
  {
    return g.producer(v);
  }
  static decltype(auto) outputs(const G& g)
    requires requires { g.outputs(); }
  {
    return g.outputs();
  }
};

namespace detail {
template <class Id>
inline constexpr auto to_id = [](std::size_t index) { return Id{index}; };
}  // namespace detail

// All nodes of a graph, or all its values, as a range of ids in order. It holds their number, not the graph: nodes that
// are added during iteration are not included.
template <class G>
requires requires(const G& g) { graph_traits<G>::node_count(g); }
[[nodiscard]] auto node_ids(const G& g) {
  return std::views::iota(std::size_t{0}, static_cast<std::size_t>(graph_traits<G>::node_count(g))) |
         std::views::transform(detail::to_id<node_id>);
}
template <class G>
requires requires(const G& g) { graph_traits<G>::value_count(g); }
[[nodiscard]] auto value_ids(const G& g) {
  return std::views::iota(std::size_t{0}, static_cast<std::size_t>(graph_traits<G>::value_count(g))) |
         std::views::transform(detail::to_id<value_id>);
}

template <class R>
concept value_range = std::ranges::forward_range<R> && std::same_as<std::ranges::range_value_t<R>, value_id>;

// The parts of the concept, each named, so that a compiler's error says which one is missing.
template <class G>
concept has_counts = requires(const G& g) {
  { graph_traits<G>::node_count(g) } -> std::convertible_to<std::size_t>;
  { graph_traits<G>::value_count(g) } -> std::convertible_to<std::size_t>;
};
template <class G>
concept has_operations = requires(const G& g, node_id n) { graph_traits<G>::operation(g, n); };
template <class G>
concept has_operands = requires(const G& g, node_id n) {
  { graph_traits<G>::operands(g, n) } -> value_range;
};
template <class G>
concept has_results = requires(const G& g, node_id n, value_id v) {
  { graph_traits<G>::results(g, n) } -> value_range;
  { graph_traits<G>::producer(g, v) } -> std::same_as<node_id>;
};
template <class G>
concept has_types = requires(const G& g, value_id v) { graph_traits<G>::type(g, v); };
template <class G>
concept has_outputs = requires(const G& g) {
  { graph_traits<G>::outputs(g) } -> value_range;
};

// A readable dataflow graph.
// Laws: producer(v) is the node whose results() contain v, once; every operand is some node's result.
// Complexity: every expression is constant time, ranges are iterated in linear time.
// Models: compact_graph; boost::adjacency_list through graph/boost_graph.hpp.
// Non-models: a list of edges (no operand order); a graph whose edges connect nodes rather than values (an edge from a
// node with two results does not say which one it carries).
template <class G>
concept dataflow_graph =
    has_counts<G> && has_operations<G> && has_operands<G> && has_results<G> && has_types<G> && has_outputs<G>;

template <dataflow_graph G>
using operation_t = std::remove_cvref_t<decltype(graph_traits<G>::operation(std::declval<const G&>(), node_id{}))>;
template <dataflow_graph G>
using type_t = std::remove_cvref_t<decltype(graph_traits<G>::type(std::declval<const G&>(), value_id{}))>;

// A graph that can be built: g.add_node(operation, operands, types of its results) and g.set_outputs(values).
template <class G>
concept mutable_dataflow_graph =
    dataflow_graph<G> && requires(G& g, operation_t<G> op, std::span<const value_id> values,
                                  std::span<const type_t<G>> types) {
      { g.add_node(op, values, types) } -> std::same_as<node_id>;
      g.set_outputs(values);
    };

// In the order of the outputs; an output that is listed twice counts twice. Complexity: linear in their number.
template <dataflow_graph G>
[[nodiscard]] std::vector<type_t<G>> output_types(const G& g) {
  std::vector<type_t<G>> all;
  for (const value_id v : graph_traits<G>::outputs(g)) {
    all.push_back(graph_traits<G>::type(g, v));
  }
  return all;
}

}  // namespace unity
