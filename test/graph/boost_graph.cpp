// The bridge: Boost's lists are dataflow graphs, and Boost's algorithms run on dataflow graphs.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/topological_sort.hpp>
#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/boost_graph.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/dominators.hpp>
#include <unity/graph/reachability.hpp>
#include <unity/graph/users.hpp>
#include <unity/graph/validate.hpp>

#include "random_graph.hpp"

namespace tests_of_boost_graph {

using namespace unity;

namespace {

// The smallest list that is a dataflow graph as it stands, and lists that miss by one piece.
struct just_position {
  unsigned char position;
};
struct no_position {
  int place;
};
struct position_in_words {
  std::string position;
};
template <class Direction, class Edge>
using list_of = boost::adjacency_list<boost::vecS, boost::vecS, Direction, char, Edge>;

static_assert(dataflow_graph<list_of<boost::bidirectionalS, just_position>>);
static_assert(!dataflow_graph<list_of<boost::bidirectionalS, no_position>>);
static_assert(!dataflow_graph<list_of<boost::bidirectionalS, position_in_words>>);
static_assert(!dataflow_graph<list_of<boost::directedS, just_position>>);    // no in-edges
static_assert(!dataflow_graph<list_of<boost::undirectedS, just_position>>);  // no direction
static_assert(!mutable_dataflow_graph<list_of<boost::bidirectionalS, just_position>>);

static_assert(mutable_dataflow_graph<boost_dataflow<list_of<boost::bidirectionalS, just_position>>>);
static_assert(mutable_dataflow_graph<boost_dataflow<list_of<boost::directedS, just_position>, int>>);

static_assert(operand_edge<just_position>);
static_assert(!result_edge<just_position>);
static_assert(result_edge<operand_place>);

template <class G>
struct is_boost_graph {
  using view = boost_view<G>;
  BOOST_CONCEPT_ASSERT((boost::concepts::VertexListGraph<view>));
  BOOST_CONCEPT_ASSERT((boost::concepts::EdgeListGraph<view>));
  BOOST_CONCEPT_ASSERT((boost::concepts::IncidenceGraph<view>));
  BOOST_CONCEPT_ASSERT((boost::concepts::BidirectionalGraph<view>));
  BOOST_CONCEPT_ASSERT((boost::concepts::AdjacencyGraph<view>));
};
template struct is_boost_graph<test::number_graph>;
template struct is_boost_graph<test::boost_form>;
template struct is_boost_graph<test::plain_boost_graph>;

template <class G>
bool same_dataflow(const G& a, const test::number_graph& b) {
  using traits = graph_traits<G>;
  bool same = traits::node_count(a) == b.node_count() && traits::value_count(a) == b.value_count() &&
              std::ranges::equal(traits::outputs(a), b.outputs());
  for (std::size_t n = 0; same && n < b.node_count(); ++n) {
    same = std::ranges::equal(traits::operands(a, node_id{n}), b.operands(node_id{n})) &&
           std::ranges::equal(traits::results(a, node_id{n}), b.results(node_id{n}));
  }
  for (std::size_t v = 0; same && v < b.value_count(); ++v) {
    same = traits::producer(a, value_id{v}) == b.producer(value_id{v}) &&
           traits::type(a, value_id{v}) == b.type(value_id{v});
  }
  return same;
}

// All edges, from the lists of their ends.
template <class View>
void check_edges(const View& view, const std::vector<typename View::edge_descriptor>& expected) {
  std::vector<typename View::edge_descriptor> out;
  std::vector<typename View::edge_descriptor> in;
  for (auto [v, end] = vertices(view); v != end; ++v) {
    const auto [out_begin, out_end] = out_edges(*v, view);
    const auto [in_begin, in_end] = in_edges(*v, view);
    const auto [next_begin, next_end] = adjacent_vertices(*v, view);
    REQUIRE(out_degree(*v, view) == static_cast<std::size_t>(out_end - out_begin));
    REQUIRE(in_degree(*v, view) == static_cast<std::size_t>(in_end - in_begin));
    REQUIRE(degree(*v, view) == in_degree(*v, view) + out_degree(*v, view));
    REQUIRE(std::equal(out_begin, out_end, next_begin, next_end,
                       [&](const auto& e, std::size_t to) { return target(e, view) == to; }));
    REQUIRE(std::all_of(out_begin, out_end, [&](const auto& e) { return source(e, view) == *v; }));
    REQUIRE(std::all_of(in_begin, in_end, [&](const auto& e) { return target(e, view) == *v; }));
    out.insert(out.end(), out_begin, out_end);
    in.insert(in.end(), in_begin, in_end);
  }
  REQUIRE(std::equal(out.begin(), out.end(), edges(view).first, edges(view).second));
  REQUIRE(num_edges(view) == expected.size());
  REQUIRE(out == expected);
  std::ranges::sort(in, {}, &View::edge_descriptor::index);
  REQUIRE(in == expected);
}

template <class G>
void check_view(const G& g) {
  const boost_view view{g};
  REQUIRE(num_vertices(view) == graph_traits<G>::node_count(g));
  std::vector<typename boost_view<G>::edge_descriptor> expected;
  const users uses{g};
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    for (const value_id v : graph_traits<G>::results(g, node_id{n})) {
      for (const use& u : uses[v]) {
        expected.push_back({n, u.user.index(), u.position, expected.size()});
      }
    }
    REQUIRE(&view.graph() == &g);
    REQUIRE(get(boost::vertex_index, view, n) == n);
  }
  check_edges(view, expected);
}

// Boost's own algorithms against this library's.
template <class G>
void check_algorithms(const G& g) {
  const boost_view view{g};
  const std::size_t nodes = num_vertices(view);
  std::vector<std::size_t> reversed;
  boost::topological_sort(view, std::back_inserter(reversed));
  std::vector<std::size_t> place(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    place[reversed[i]] = nodes - i;
  }
  for (auto [e, end] = edges(view); e != end; ++e) {
    REQUIRE(place[source(*e, view)] < place[target(*e, view)]);
  }
  const reachability reach{g};
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<boost::default_color_type> colour(nodes);
    boost::breadth_first_search(
        view, n, boost::color_map(boost::make_iterator_property_map(colour.begin(), get(boost::vertex_index, view))));
    for (std::size_t m = 0; m < nodes; ++m) {
      REQUIRE((colour[m] != boost::white_color) == (n == m || reach.depends(node_id{m}, node_id{n})));
    }
  }
}

// Boost's dominators expect a root that reaches every vertex.
template <class G>
void check_dominators(const G& g) {
  const boost_view view{g};
  const std::size_t nodes = num_vertices(view);
  std::vector<std::size_t> above(nodes, boost_view<G>::null_vertex());
  boost::lengauer_tarjan_dominator_tree(
      view, 0, boost::make_iterator_property_map(above.begin(), get(boost::vertex_index, view)));
  const auto tree = dominators(g, std::array{node_id{0U}});
  for (std::size_t n = 0; n < nodes; ++n) {
    const auto parent = tree.immediate(node_id{n});
    REQUIRE(above[n] == (parent.valid() ? parent.index() : view.null_vertex()));
  }
}

using plain_directed = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, int, test::plain_edge>;

std::string defect_of(const plain_directed& list) {
  try {
    const boost_dataflow<plain_directed> g{list};
    return "sound";
  } catch (const error& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a plain Boost graph reads as the graph that it was written from") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  auto shape = test::random_shape(rng, 20);
  shape.most_results = 1;
  const auto g = test::random_graph(rng, shape);
  const auto plain = test::as_plain_boost(g, rng);
  REQUIRE(same_dataflow(plain, g));
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    REQUIRE(graph_traits<test::plain_boost_graph>::operation(plain, node_id{n}).kind == g.operation(node_id{n}));
  }
  // Behind an index: same operands, and everything unread as outputs.
  const boost_dataflow<test::plain_boost_graph, int> indexed{
      plain, [](const test::plain_vertex& v) { return std::array{v.type}; }};
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    REQUIRE(std::ranges::equal(indexed.operands(node_id{n}), g.operands(node_id{n})));
    REQUIRE(indexed.type(value_id{n}) == g.type(value_id{n}));
  }
}

TEST_CASE("a graph built on a Boost list reads as it was built, and so does the list that it built") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  const auto built = test::copy_as<test::boost_form>(g);
  REQUIRE(same_dataflow(built, g));
  REQUIRE(num_edges(built.list()) == g.edge_count());
  std::vector<std::vector<int>> types(g.node_count());
  for (std::size_t v = 0; v < g.value_count(); ++v) {
    types[g.producer(value_id{v}).index()].push_back(g.type(value_id{v}));
  }
  std::size_t next = 0;
  test::boost_form again{built.list(), [&](int) { return types[next++]; }};
  again.set_outputs(g.outputs());
  REQUIRE(same_dataflow(again, g));
}

TEST_CASE("without a bundle for outputs, what nothing reads is the output") {
  list_of<boost::bidirectionalS, just_position> g(3);
  add_edge(0, 1, just_position{0}, g);
  const auto outputs = graph_traits<decltype(g)>::outputs(g);
  CHECK(std::vector(outputs) == std::vector{value_id{1U}, value_id{2U}});
  CHECK(std::ranges::equal(boost_dataflow{g}.outputs(), outputs));
  CHECK(!find_defect(g).has_value());
}

TEST_CASE("an edge that is no operand is refused where it is") {
  // Vertex 2 reads vertex 0, and vertex 1 as the operand in question.
  const auto fill = [](int position, plain_directed& list) {
    add_edge(0, 2, test::plain_edge{0}, list);
    add_edge(1, 2, test::plain_edge{position}, list);
  };
  plain_directed sound(3);
  fill(1, sound);
  CHECK(defect_of(sound) == "sound");
  plain_directed twice(3);
  fill(0, twice);
  CHECK(defect_of(twice) ==
        "boost graph: vertex 2, operand 0: two edges at this position; expected positions 0 .. in-degree - 1");
  plain_directed gap(3);
  fill(2, gap);
  CHECK(defect_of(gap) ==
        "boost graph: vertex 2, operand 2: a position past its in-edges; expected positions 0 .. in-degree - 1");
  test::boost_list results(2);
  add_edge(0, 1, operand_place{0, 1}, results);
  CHECK_THROWS_WITH(test::boost_form{results},
                    "boost graph: vertex 1, operand 0: result 1 of vertex 0; expected one of its 1 results");
}

TEST_CASE("a view has an edge for each use, found from both ends") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  test::in_every_form(g, rng, [](const auto& form) { check_view(form); });
}

TEST_CASE("Boost's algorithms agree with this library's on every form") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 16));
  test::in_every_form(g, rng, [](const auto& form) { check_algorithms(form); });
}

TEST_CASE("Boost finds the same dominators") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  test::number_graph g;
  g.add_node(0, {}, std::array{0});
  for (std::size_t n = 1; n < 25; ++n) {
    const std::array operands{value_id{rng.below(n)}, value_id{n - 1 - rng.below(std::min<std::size_t>(n, 4))}};
    g.add_node(0, std::span{operands}.first(1 + rng.below(2)), std::array{0});
  }
  check_dominators(g);
  check_dominators(test::copy_as<test::boost_form>(g));
  check_dominators(test::as_plain_boost(g, rng));
}

TEST_CASE("a view shows operators as vertex bundles") {
  test::number_graph g;
  g.add_node(42, {}, std::array{0});
  const boost_view view{g};
  CHECK(view[0] == 42);
}

}  // namespace tests_of_boost_graph
