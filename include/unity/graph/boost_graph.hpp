// The bridge to Boost.Graph, both ways: an adjacency_list as a dataflow graph, and any dataflow graph as input
// to Boost's algorithms. One file, since no other of this room may include Boost.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/property_map/property_map.hpp>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/users.hpp>

namespace unity {

// An edge bundle that says as which operand its target reads its source: e.position, an integer from 0.
template <class E>
concept operand_edge = requires(E& e) {
  { e.position } -> std::convertible_to<std::size_t>;
  requires std::integral<std::remove_cvref_t<decltype(e.position)>>;
};
// One that also says which result of the source is read: e.result, an integer from 0.
template <class E>
concept result_edge = operand_edge<E> && requires(E& e) {
  requires std::integral<std::remove_cvref_t<decltype(e.result)>>;
};

// A Boost graph whose edge bundle is one.
template <class List>
concept operand_list = operand_edge<typename boost::edge_bundle_type<List>::type>;

// An edge bundle for graphs made for this bridge.
struct operand_place {
  std::uint32_t position = 0;
  std::uint32_t result = 0;

  friend bool operator==(const operand_place&, const operand_place&) = default;
};

// What a value carries in a graph that says nothing about it.
struct untyped {
  friend bool operator==(untyped, untyped) = default;
};

namespace detail {

template <class List>
std::size_t operand_position(const List& list, typename boost::graph_traits<List>::edge_descriptor e) {
  return static_cast<std::size_t>(list[e].position);
}

}  // namespace detail

// A plain adjacency_list with in-edges is a dataflow graph as it stands. A vertex is a node with one result, the value
// of the same number; its bundle is the operator and, where it has a member `type`, carries the type. Outputs are the
// graph bundle's member `outputs` or, without it, the vertices that nothing reads.
// Expects: the positions on the edges into a vertex differ, and an edge list that keeps parallel edges.
// Complexity: operands O(d log d) for d operands, outputs without the bundle O(N). boost_dataflow is faster.
template <class OutEdges, class Vertex, operand_edge Edge, class Graph, class EdgeList>
struct graph_traits<
    boost::adjacency_list<OutEdges, boost::vecS, boost::bidirectionalS, Vertex, Edge, Graph, EdgeList>> {
  using list = boost::adjacency_list<OutEdges, boost::vecS, boost::bidirectionalS, Vertex, Edge, Graph, EdgeList>;
  static constexpr bool has_outputs = requires(const Graph& bundle) { bundle.outputs; };

  static std::size_t node_count(const list& g) { return num_vertices(g); }
  static std::size_t value_count(const list& g) { return num_vertices(g); }
  static const Vertex& operation(const list& g, node_id n) { return g[n.index()]; }

  static small_vector<value_id, 4> operands(const list& g, node_id n) {
    struct operand {
      std::size_t position;
      std::size_t source;
    };
    small_vector<operand, 4> found;
    for (auto [e, end] = in_edges(n.index(), g); e != end; ++e) {
      found.push_back({detail::operand_position(g, *e), source(*e, g)});
    }
    std::ranges::sort(found, {}, &operand::position);
    small_vector<value_id, 4> values;
    for (const auto& o : found) {
      values.push_back(value_id{o.source});
    }
    return values;
  }
  static std::ranges::single_view<value_id> results(const list&, node_id n) {
    return std::ranges::single_view{value_id{n.index()}};
  }
  static decltype(auto) type(const list& g, value_id v) {
    if constexpr (requires { g[v.index()].type; }) {
      return (g[v.index()].type);
    } else {
      return untyped{};
    }
  }
  static node_id producer(const list&, value_id v) { return node_id{v.index()}; }
  static decltype(auto) outputs(const list& g) {
    if constexpr (has_outputs) {
      return (g[boost::graph_bundle].outputs);
    } else {
      std::vector<value_id> unread;
      for (std::size_t v = 0; v < num_vertices(g); ++v) {
        if (out_degree(v, g) == 0) {
          unread.emplace_back(v);
        }
      }
      return unread;
    }
  }
};

// An adjacency_list and the index that makes every question about its dataflow constant time; vertices may
// have several results, and the list need not store in-edges. Models mutable_dataflow_graph.
// Copies and moves copy the list: Boost's cannot be moved.
// `List` is an adjacency_list over vecS whose edge bundle is an operand_edge (a result_edge where vertices have several
// results) and whose edge list keeps parallel edges.
template <operand_list List, class Type = untyped>
class boost_dataflow {
 public:
  using list_type = List;
  using operation_type = typename boost::vertex_bundle_type<List>::type;
  using value_type = Type;
  using edge_type = typename boost::edge_bundle_type<List>::type;

  boost_dataflow() = default;
  // Copies and indexes a list whose vertices have one result each, of type Type{}. Values are numbered by vertex, then
  // result. Outputs are the results of the vertices that nothing reads, until set_outputs.
  // Throws: unity::error if the positions at a vertex are not 0 .. in-degree - 1, or an edge names no result.
  // Complexity: O(N + E).
  explicit boost_dataflow(const List& list)
      : boost_dataflow{list, [](const operation_type&) { return std::vector<Type>(1); }} {}
  // As above, with types_of(bundle) as the types of a vertex's results, a range of Type.
  template <std::invocable<const operation_type&> TypesOf>
  boost_dataflow(const List& list, TypesOf types_of) {
    copy_list(list);
    for (std::size_t v = 0; v < node_count(); ++v) {
      add_results(node_id{v}, types_of(operation(node_id{v})));
    }
    index_operands();
    for (std::size_t v = 0; v < node_count(); ++v) {
      if (out_degree(v, list_) == 0) {
        std::ranges::copy(results(node_id{v}), std::back_inserter(outputs_));
      }
    }
  }

  node_id add_node(operation_type op, std::span<const value_id> operands, std::span<const Type> types);
  void set_outputs(std::span<const value_id> values) { outputs_.assign(values.begin(), values.end()); }

  [[nodiscard]] std::size_t node_count() const { return num_vertices(list_); }
  [[nodiscard]] std::size_t value_count() const noexcept { return types_.size(); }
  [[nodiscard]] const operation_type& operation(node_id n) const { return list_[n.index()]; }
  [[nodiscard]] std::span<const value_id> operands(node_id n) const { return slice(operands_, first_operand_, n); }
  [[nodiscard]] std::span<const value_id> results(node_id n) const { return slice(results_, first_result_, n); }
  [[nodiscard]] const Type& type(value_id v) const { return types_[checked(v)]; }
  [[nodiscard]] node_id producer(value_id v) const { return producers_[checked(v)]; }
  [[nodiscard]] std::span<const value_id> outputs() const noexcept { return outputs_; }

  // The graph as Boost sees it.
  [[nodiscard]] const List& list() const noexcept { return list_; }

 private:
  [[nodiscard]] std::span<const value_id> slice(const std::vector<value_id>& values,
                                                const std::vector<std::uint32_t>& first, node_id n) const {
    UNITY_EXPECTS(n.index() + std::size_t{1} < first.size(), "a node of this graph");
    return {values.data() + first[n.index()], first[n.index() + std::size_t{1}] - first[n.index()]};
  }
  [[nodiscard]] std::size_t checked(value_id v) const {
    UNITY_EXPECTS(v.index() < types_.size(), "a value of this graph");
    return v.index();
  }
  void copy_list(const List& list);
  template <std::ranges::input_range Types>
  void add_results(node_id n, const Types& types);
  void index_operands();

  List list_{};
  std::vector<std::uint32_t> first_operand_{0};
  std::vector<value_id> operands_{};
  std::vector<std::uint32_t> first_result_{0};
  std::vector<value_id> results_{};
  std::vector<Type> types_{};
  std::vector<node_id> producers_{};
  std::vector<value_id> outputs_{};
};

template <operand_list List, class Type>
template <std::ranges::input_range Types>
void boost_dataflow<List, Type>::add_results(node_id n, const Types& types) {
  for (const auto& t : types) {
    results_.emplace_back(types_.size());
    types_.push_back(t);
    producers_.push_back(n);
  }
  first_result_.push_back(static_cast<std::uint32_t>(results_.size()));
}

// Vertex by vertex and edge by edge: an optimizing g++ 12 warns of uninitialized iterators in the list's own copy.
template <operand_list List, class Type>
void boost_dataflow<List, Type>::copy_list(const List& list) {
  for (std::size_t v = 0; v < num_vertices(list); ++v) {
    add_vertex(list[v], list_);
  }
  for (auto [e, end] = edges(list); e != end; ++e) {
    add_edge(source(*e, list), target(*e, list), list[*e], list_);
  }
  if constexpr (!std::is_same_v<typename boost::graph_bundle_type<List>::type, boost::no_property>) {
    list_[boost::graph_bundle] = list[boost::graph_bundle];
  }
}

// Fills the operands of every vertex from the edges, which may come in any order.
template <operand_list List, class Type>
void boost_dataflow<List, Type>::index_operands() {
  const std::size_t nodes = num_vertices(list_);
  first_operand_.assign(nodes + 1, 0);
  for (auto [e, end] = edges(list_); e != end; ++e) {
    ++first_operand_[target(*e, list_) + 1];
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    first_operand_[n + 1] += first_operand_[n];
  }
  operands_.assign(first_operand_.back(), value_id{});
  for (auto [e, end] = edges(list_); e != end; ++e) {
    const std::size_t n = target(*e, list_);
    const auto position = detail::operand_position(list_, *e);
    const std::string where = "boost graph: vertex " + std::to_string(n) + ", operand " + std::to_string(position);
    if (position >= first_operand_[n + 1] - first_operand_[n]) {
      throw error{where, "a position past its in-edges", "positions 0 .. in-degree - 1"};
    }
    auto& operand = operands_[first_operand_[n] + position];
    if (operand.valid()) {
      throw error{where, "two edges at this position", "positions 0 .. in-degree - 1"};
    }
    std::size_t result = 0;
    if constexpr (result_edge<edge_type>) {
      result = static_cast<std::size_t>(list_[*e].result);
    }
    const node_id producer{source(*e, list_)};
    if (result >= results(producer).size()) {
      throw error{where, "result " + std::to_string(result) + " of vertex " + std::to_string(producer.index()),
                  "one of its " + std::to_string(results(producer).size()) + " results"};
    }
    operand = results(producer)[result];
  }
}

template <operand_list List, class Type>
node_id boost_dataflow<List, Type>::add_node(operation_type op, std::span<const value_id> operands,
                                             std::span<const Type> types) {
  const node_id n{add_vertex(std::move(op), list_)};
  std::size_t position = 0;
  for (const value_id v : operands) {
    const node_id p = producer(v);
    const std::size_t result = v.index() - results(p).front().index();
    edge_type place{};
    place.position = static_cast<decltype(place.position)>(position++);
    if constexpr (result_edge<edge_type>) {
      place.result = static_cast<decltype(place.result)>(result);
    } else {
      UNITY_EXPECTS(result == 0, "an edge bundle with a member `result`, or first results alone");
    }
    add_edge(p.index(), n.index(), place, list_);
    operands_.push_back(v);
  }
  first_operand_.push_back(static_cast<std::uint32_t>(operands_.size()));
  add_results(n, types);
  return n;
}

// A dataflow graph as Boost's algorithms see one: vertices are nodes, and each use is an edge from the producer.
// Models of Boost's concepts: VertexListGraph, EdgeListGraph, IncidenceGraph, BidirectionalGraph, AdjacencyGraph.
// Why a view: Boost asks for out-edges in constant time, and dataflow graphs store operands alone.
// Refers to the graph, which must outlive the view and stay as it is. Complexity: O(N + E) to make, then constant.
template <dataflow_graph G>
class boost_view {
 public:
  using vertex_descriptor = std::size_t;
  struct edge_descriptor {
    vertex_descriptor from = 0;
    vertex_descriptor to = 0;
    std::size_t position = 0;  // the operand of `to` that it is
    std::size_t index = 0;     // dense from 0

    friend auto operator<=>(const edge_descriptor&, const edge_descriptor&) = default;
    friend bool operator==(const edge_descriptor&, const edge_descriptor&) = default;
  };
  struct traversal_category : boost::bidirectional_graph_tag,
                              boost::adjacency_graph_tag,
                              boost::vertex_list_graph_tag,
                              boost::edge_list_graph_tag {};
  using directed_category = boost::bidirectional_tag;
  using edge_parallel_category = boost::allow_parallel_edge_tag;
  using vertex_iterator = boost::counting_iterator<vertex_descriptor>;
  using edge_iterator = const edge_descriptor*;
  using out_edge_iterator = const edge_descriptor*;
  using in_edge_iterator = const edge_descriptor*;
  using adjacency_iterator = const vertex_descriptor*;
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;

  static vertex_descriptor null_vertex() noexcept { return std::numeric_limits<vertex_descriptor>::max(); }

  explicit boost_view(const G& g);
  explicit boost_view(const G&&) = delete;

  [[nodiscard]] const G& graph() const noexcept { return *graph_; }
  // The bundle of a vertex is its operator.
  [[nodiscard]] decltype(auto) operator[](vertex_descriptor v) const {
    return graph_traits<G>::operation(*graph_, node_id{v});
  }

  friend std::pair<vertex_iterator, vertex_iterator> vertices(const boost_view& g) {
    return {vertex_iterator{0}, vertex_iterator{num_vertices(g)}};
  }
  friend vertices_size_type num_vertices(const boost_view& g) { return g.first_out_.size() - 1; }
  friend std::pair<edge_iterator, edge_iterator> edges(const boost_view& g) {
    return {g.out_.data(), g.out_.data() + g.out_.size()};
  }
  friend edges_size_type num_edges(const boost_view& g) { return g.out_.size(); }
  friend vertex_descriptor source(const edge_descriptor& e, const boost_view&) { return e.from; }
  friend vertex_descriptor target(const edge_descriptor& e, const boost_view&) { return e.to; }
  friend std::pair<out_edge_iterator, out_edge_iterator> out_edges(vertex_descriptor v, const boost_view& g) {
    return {g.out_.data() + g.first_out_[v], g.out_.data() + g.first_out_[v + 1]};
  }
  friend degree_size_type out_degree(vertex_descriptor v, const boost_view& g) {
    return g.first_out_[v + 1] - g.first_out_[v];
  }
  friend std::pair<in_edge_iterator, in_edge_iterator> in_edges(vertex_descriptor v, const boost_view& g) {
    return {g.in_.data() + g.first_in_[v], g.in_.data() + g.first_in_[v + 1]};
  }
  friend degree_size_type in_degree(vertex_descriptor v, const boost_view& g) {
    return g.first_in_[v + 1] - g.first_in_[v];
  }
  friend degree_size_type degree(vertex_descriptor v, const boost_view& g) {
    return in_degree(v, g) + out_degree(v, g);
  }
  friend std::pair<adjacency_iterator, adjacency_iterator> adjacent_vertices(vertex_descriptor v, const boost_view& g) {
    return {g.targets_.data() + g.first_out_[v], g.targets_.data() + g.first_out_[v + 1]};
  }
  friend boost::typed_identity_property_map<vertex_descriptor> get(boost::vertex_index_t, const boost_view&) {
    return {};
  }
  friend vertex_descriptor get(boost::vertex_index_t, const boost_view&, vertex_descriptor v) { return v; }

 private:
  const G* graph_;
  std::vector<std::size_t> first_out_;
  std::vector<std::size_t> first_in_{0};
  std::vector<edge_descriptor> out_;  // by source; their place is their index
  std::vector<edge_descriptor> in_;   // by target and position
  std::vector<vertex_descriptor> targets_;
};

template <dataflow_graph G>
boost_view<G>::boost_view(const G& g) : graph_{&g}, first_out_{0} {
  const users uses{g};
  const std::size_t nodes = graph_traits<G>::node_count(g);
  for (std::size_t n = 0; n < nodes; ++n) {
    for (const value_id v : graph_traits<G>::results(g, node_id{n})) {
      for (const use& u : uses[v]) {
        out_.push_back({n, u.user.index(), u.position, out_.size()});
        targets_.push_back(u.user.index());
      }
    }
    first_out_.push_back(out_.size());
    auto&& operands = graph_traits<G>::operands(g, node_id{n});
    first_in_.push_back(first_in_.back() + static_cast<std::size_t>(std::ranges::distance(operands)));
  }
  in_.resize(out_.size());
  for (const auto& e : out_) {
    in_[first_in_[e.to] + e.position] = e;
  }
}

}  // namespace unity

template <unity::dataflow_graph G>
struct boost::property_map<unity::boost_view<G>, boost::vertex_index_t> {
  using type = boost::typed_identity_property_map<std::size_t>;
  using const_type = type;
};

template <>
struct std::hash<unity::untyped> {
  std::size_t operator()(unity::untyped) const noexcept { return 0; }
};
