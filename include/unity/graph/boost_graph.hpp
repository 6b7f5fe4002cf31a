// The bridge to Boost.Graph in both directions: an adjacency_list as a dataflow graph, and a compact_graph as input to
// Boost's algorithms. One file, because no other header of this room may include Boost. Over 500 lines because both
// directions are here.
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

#include <boost/graph/adjacency_iterator.hpp>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/graph_traits.hpp>
#include <boost/graph/properties.hpp>
#include <boost/iterator/counting_iterator.hpp>
#include <boost/iterator/iterator_facade.hpp>
#include <boost/property_map/property_map.hpp>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>

namespace unity {

// An edge bundle with the operand position at which the edge's target reads its source: e.position, an integer from 0.
template <class E>
concept operand_edge = requires(E& e) {
  { e.position } -> std::convertible_to<std::size_t>;
  requires std::integral<std::remove_cvref_t<decltype(e.position)>>;
};
// An operand_edge that also has the index of the source's result: e.result, an integer from 0.
template <class E>
concept result_edge = operand_edge<E> && requires(E& e) {
  requires std::integral<std::remove_cvref_t<decltype(e.result)>>;
};

// A Boost graph whose edge bundle is an operand_edge.
template <class List>
concept operand_list = operand_edge<typename boost::edge_bundle_type<List>::type>;

// An edge bundle for graphs made for this bridge.
struct operand_place {
  std::uint32_t position = 0;
  std::uint32_t result = 0;

  friend bool operator==(const operand_place&, const operand_place&) = default;
};

// The type of values in a graph without value types.
struct untyped {
  friend bool operator==(untyped, untyped) = default;
};

namespace detail {

template <class List>
std::size_t operand_position(const List& list, typename boost::graph_traits<List>::edge_descriptor e) {
  return static_cast<std::size_t>(list[e].position);
}

}  // namespace detail

// A plain adjacency_list with in-edges is a dataflow graph as it is. A vertex is a node with one result, the value of
// the same number; its bundle is the operator and, if it has a member `type`, holds the type. Outputs are the graph
// bundle's member `outputs` or, without it, the vertices that nothing reads.
// Expects: distinct positions on the edges into a vertex, and an edge list that keeps parallel edges.
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

// An adjacency_list with an index that answers every query about its dataflow in constant time; vertices may have
// several results, and the list need not store in-edges. Models mutable_dataflow_graph.
// Copies and moves copy the list: Boost's cannot be moved.
// `List` is an adjacency_list over vecS whose edge bundle is an operand_edge (a result_edge if vertices have several
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
  // result. Until set_outputs, outputs are the values that nothing reads.
  // Throws: unity::error if the positions at a vertex are not 0 .. in-degree - 1, or an edge refers to a result that
  // does not exist.
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
    std::vector<char> is_read(value_count(), 0);
    for (const value_id v : operands_) {
      is_read[v.index()] = 1;
    }
    for (std::size_t v = 0; v < value_count(); ++v) {
      if (is_read[v] == 0) {
        outputs_.emplace_back(v);
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
    const auto where = [&] { return fmt::format("boost graph: vertex {}, operand {}", n, position); };
    if (position >= first_operand_[n + 1] - first_operand_[n]) {
      throw error{where(), "a position past its in-edges", "positions 0 .. in-degree - 1"};
    }
    auto& operand = operands_[first_operand_[n] + position];
    if (operand.valid()) {
      throw error{where(), "two edges at this position", "positions 0 .. in-degree - 1"};
    }
    std::size_t result = 0;
    if constexpr (result_edge<edge_type>) {
      result = static_cast<std::size_t>(list_[*e].result);
    }
    const node_id producer{source(*e, list_)};
    if (result >= results(producer).size()) {
      throw error{where(), fmt::format("result {} of vertex {}", result, producer.index()),
                  fmt::format("one of its {} results", results(producer).size())};
    }
    operand = results(producer)[result];
  }
}

template <operand_list List, class Type>
node_id boost_dataflow<List, Type>::add_node(operation_type op, std::span<const value_id> operands,
                                             std::span<const Type> types) {
  const node_id n{add_vertex(std::move(op), list_)};
  std::size_t position = 0;
  const small_vector<value_id, 8> read{operands};  // the span may be a part of operands_, which moves
  for (const value_id v : read) {
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

// A compact_graph is also a Boost graph: vertices are nodes by number, and each use is an edge from the producer.
// Models VertexListGraph, EdgeListGraph, IncidenceGraph, BidirectionalGraph and AdjacencyGraph; vertices and edges have
// dense indices (boost::vertex_index, boost::edge_index), so make_iterator_property_map of a vector gives them weights,
// colours or distances. Any other dataflow graph must be copied to one. Complexity: constant, except out_degree, which
// is linear in its result and in the results of the vertex.
struct compact_edge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::uint32_t index = 0;

  friend auto operator<=>(const compact_edge&, const compact_edge&) = default;
  friend bool operator==(const compact_edge&, const compact_edge&) = default;
};

namespace detail {

// The edges of a graph by number: all of them, or those into one node.
template <class Op, class Type>
class compact_edge_iterator
    : public boost::iterator_facade<compact_edge_iterator<Op, Type>, compact_edge, boost::random_access_traversal_tag,
                                    compact_edge, std::ptrdiff_t> {
 public:
  compact_edge_iterator() = default;
  compact_edge_iterator(const compact_graph<Op, Type>& g, std::size_t index)
      : graph_{&g}, index_{static_cast<std::uint32_t>(index)} {}

 private:
  friend class boost::iterator_core_access;
  compact_edge dereference() const {
    return {graph_->producer(graph_->edge_value(index_)).index(), graph_->edge_reader(index_).index(), index_};
  }
  bool equal(const compact_edge_iterator& other) const { return index_ == other.index_; }
  void increment() { ++index_; }
  void decrement() { --index_; }
  void advance(std::ptrdiff_t by) { index_ = static_cast<std::uint32_t>(index_ + by); }
  std::ptrdiff_t distance_to(const compact_edge_iterator& other) const {
    return static_cast<std::ptrdiff_t>(other.index_) - static_cast<std::ptrdiff_t>(index_);
  }

  const compact_graph<Op, Type>* graph_ = nullptr;
  std::uint32_t index_ = 0;
};

// The edges out of one node: those of its first result, then of its second, and so on.
template <class Op, class Type>
class compact_out_iterator
    : public boost::iterator_facade<compact_out_iterator<Op, Type>, compact_edge, boost::forward_traversal_tag,
                                    compact_edge, std::ptrdiff_t> {
  using graph = compact_graph<Op, Type>;

 public:
  compact_out_iterator() = default;
  compact_out_iterator(const graph& g, std::span<const value_id> results) : graph_{&g}, results_{results} { settle(); }

 private:
  friend class boost::iterator_core_access;
  compact_edge dereference() const {
    return {graph_->producer(results_.front()).index(), graph_->edge_reader(index_).index(), index_};
  }
  bool equal(const compact_out_iterator& other) const { return index_ == other.index_; }
  void increment() {
    index_ = graph_->next_edge_of(index_);
    if (index_ == graph::no_edge) {
      results_ = results_.subspan(1);
      settle();
    }
  }
  void settle() {
    while (!results_.empty() && (index_ = graph_->first_edge_of(results_.front())) == graph::no_edge) {
      results_ = results_.subspan(1);
    }
  }

  const graph* graph_ = nullptr;
  std::span<const value_id> results_{};
  std::uint32_t index_ = graph::no_edge;
};

struct compact_traversal : boost::bidirectional_graph_tag,
                           boost::adjacency_graph_tag,
                           boost::vertex_list_graph_tag,
                           boost::edge_list_graph_tag {};

}  // namespace detail

// boost::edge_index of a compact_graph.
struct compact_edge_index {
  using key_type = compact_edge;
  using value_type = std::size_t;
  using reference = std::size_t;
  using category = boost::readable_property_map_tag;

  friend std::size_t get(compact_edge_index, const compact_edge& e) { return e.index; }
};

template <class Op, class Type>
std::size_t num_vertices(const compact_graph<Op, Type>& g) {
  return g.node_count();
}
template <class Op, class Type>
std::size_t num_edges(const compact_graph<Op, Type>& g) {
  return g.edge_count();
}
template <class Op, class Type>
auto vertices(const compact_graph<Op, Type>& g) {
  return std::pair{boost::counting_iterator<std::size_t>{0}, boost::counting_iterator<std::size_t>{g.node_count()}};
}
template <class Op, class Type>
auto edges(const compact_graph<Op, Type>& g) {
  using iterator = detail::compact_edge_iterator<Op, Type>;
  return std::pair{iterator{g, 0}, iterator{g, g.edge_count()}};
}
template <class Op, class Type>
std::size_t source(const compact_edge& e, const compact_graph<Op, Type>&) {
  return e.from;
}
template <class Op, class Type>
std::size_t target(const compact_edge& e, const compact_graph<Op, Type>&) {
  return e.to;
}
template <class Op, class Type>
auto in_edges(std::size_t v, const compact_graph<Op, Type>& g) {
  using iterator = detail::compact_edge_iterator<Op, Type>;
  const std::size_t first = g.first_edge_into(node_id{v});
  return std::pair{iterator{g, first}, iterator{g, first + g.operands(node_id{v}).size()}};
}
template <class Op, class Type>
auto out_edges(std::size_t v, const compact_graph<Op, Type>& g) {
  using iterator = detail::compact_out_iterator<Op, Type>;
  return std::pair{iterator{g, g.results(node_id{v})}, iterator{}};
}
template <class Op, class Type>
auto adjacent_vertices(std::size_t v, const compact_graph<Op, Type>& g) {
  using iterator = typename boost::graph_traits<compact_graph<Op, Type>>::adjacency_iterator;
  const auto [first, last] = out_edges(v, g);
  return std::pair{iterator{first, &g}, iterator{last, &g}};
}
template <class Op, class Type>
std::size_t in_degree(std::size_t v, const compact_graph<Op, Type>& g) {
  return g.operands(node_id{v}).size();
}
template <class Op, class Type>
std::size_t out_degree(std::size_t v, const compact_graph<Op, Type>& g) {
  const auto [first, last] = out_edges(v, g);
  return static_cast<std::size_t>(std::distance(first, last));
}
template <class Op, class Type>
std::size_t degree(std::size_t v, const compact_graph<Op, Type>& g) {
  return in_degree(v, g) + out_degree(v, g);
}
template <class Op, class Type>
boost::typed_identity_property_map<std::size_t> get(boost::vertex_index_t, const compact_graph<Op, Type>&) {
  return {};
}
template <class Op, class Type>
std::size_t get(boost::vertex_index_t, const compact_graph<Op, Type>&, std::size_t v) {
  return v;
}
template <class Op, class Type>
compact_edge_index get(boost::edge_index_t, const compact_graph<Op, Type>&) {
  return {};
}
template <class Op, class Type>
std::size_t get(boost::edge_index_t, const compact_graph<Op, Type>&, const compact_edge& e) {
  return e.index;
}

}  // namespace unity

namespace boost {

template <class Op, class Type>
struct graph_traits<unity::compact_graph<Op, Type>> {
  using vertex_descriptor = std::size_t;
  using edge_descriptor = unity::compact_edge;
  using directed_category = bidirectional_tag;
  using edge_parallel_category = allow_parallel_edge_tag;
  using traversal_category = unity::detail::compact_traversal;
  using vertex_iterator = counting_iterator<std::size_t>;
  using edge_iterator = unity::detail::compact_edge_iterator<Op, Type>;
  using in_edge_iterator = edge_iterator;
  using out_edge_iterator = unity::detail::compact_out_iterator<Op, Type>;
  using adjacency_iterator = typename adjacency_iterator_generator<unity::compact_graph<Op, Type>, std::size_t,
                                                                   out_edge_iterator>::type;
  using vertices_size_type = std::size_t;
  using edges_size_type = std::size_t;
  using degree_size_type = std::size_t;

  static vertex_descriptor null_vertex() noexcept { return std::numeric_limits<std::size_t>::max(); }
};

// Some algorithms deduce a const graph.
template <class Op, class Type>
struct graph_traits<const unity::compact_graph<Op, Type>> : graph_traits<unity::compact_graph<Op, Type>> {};

template <class Op, class Type>
struct property_map<unity::compact_graph<Op, Type>, vertex_index_t> {
  using type = typed_identity_property_map<std::size_t>;
  using const_type = type;
};
template <class Op, class Type>
struct property_map<unity::compact_graph<Op, Type>, edge_index_t> {
  using type = unity::compact_edge_index;
  using const_type = type;
};

}  // namespace boost

template <>
struct std::hash<unity::untyped> {
  std::size_t operator()(unity::untyped) const noexcept { return 0; }
};
