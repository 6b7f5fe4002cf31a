// The adapters in both directions: Boost's lists as dataflow graphs, and Boost's algorithms on compact graphs.
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
#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/dominator_tree.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/floyd_warshall_shortest.hpp>
#include <boost/graph/incremental_components.hpp>
#include <boost/graph/isomorphism.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <boost/pending/disjoint_sets.hpp>
#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/boost_graph.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/topological_order.hpp>
#include <unity/graph/validate.hpp>

#include "random_graph.hpp"

namespace tests_of_boost_graph {

using namespace unity;

namespace {

// The smallest adjacency list that models dataflow_graph as it is, and lists that each lack one requirement.
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
static_assert(!dataflow_graph<list_of<boost::undirectedS, just_position>>);  // undirected
static_assert(!mutable_dataflow_graph<list_of<boost::bidirectionalS, just_position>>);

static_assert(mutable_dataflow_graph<boost_dataflow<list_of<boost::bidirectionalS, just_position>>>);
static_assert(mutable_dataflow_graph<boost_dataflow<list_of<boost::directedS, just_position>, int>>);

static_assert(operand_edge<just_position>);
static_assert(!result_edge<just_position>);
static_assert(result_edge<operand_place>);

BOOST_CONCEPT_ASSERT((boost::concepts::VertexListGraph<test::number_graph>));
BOOST_CONCEPT_ASSERT((boost::concepts::EdgeListGraph<test::number_graph>));
BOOST_CONCEPT_ASSERT((boost::concepts::IncidenceGraph<test::number_graph>));
BOOST_CONCEPT_ASSERT((boost::concepts::BidirectionalGraph<test::number_graph>));
BOOST_CONCEPT_ASSERT((boost::concepts::AdjacencyGraph<test::number_graph>));

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

using boost_edges = std::vector<compact_edge>;

void check_edges(const test::number_graph& g) {
  boost_edges expected;  // sorted by reader and position
  for (const auto n : node_ids(g)) {
    for (const value_id v : g.operands(n)) {
      expected.push_back({g.producer(v).index(), n.index(), static_cast<std::uint32_t>(expected.size())});
    }
  }
  const auto [all_begin, all_end] = edges(g);
  REQUIRE(boost_edges(all_begin, all_end) == expected);
  REQUIRE(num_edges(g) == expected.size());
  const users uses{g};
  boost_edges in;
  for (auto [v, end] = vertices(g); v != end; ++v) {
    boost_edges from_uses;
    for (const value_id r : g.results(node_id{*v})) {
      for (const use& u : uses[r]) {
        from_uses.push_back({*v, u.user.index(), g.first_edge_into(u.user) + u.position});
      }
    }
    const auto [out_begin, out_end] = out_edges(*v, g);
    const auto [in_begin, in_end] = in_edges(*v, g);
    const auto [next_begin, next_end] = adjacent_vertices(*v, g);
    REQUIRE(boost_edges(out_begin, out_end) == from_uses);
    REQUIRE(out_degree(*v, g) == from_uses.size());
    REQUIRE(in_degree(*v, g) == static_cast<std::size_t>(in_end - in_begin));
    REQUIRE(degree(*v, g) == in_degree(*v, g) + out_degree(*v, g));
    REQUIRE(std::equal(out_begin, out_end, next_begin, next_end,
                       [&](const auto& e, std::size_t to) { return target(e, g) == to; }));
    in.insert(in.end(), in_begin, in_end);
  }
  REQUIRE(in == expected);
}

template <class Values>
auto by_vertex(const test::number_graph& g, Values& values) {
  return boost::make_iterator_property_map(values.begin(), get(boost::vertex_index, g));
}
// Edge weights 1, 4, 2, 5, 3, 1, ... by edge number.
std::vector<int> some_weights(const test::number_graph& g) {
  std::vector<int> weights(num_edges(g));
  for (std::size_t e = 0; e < weights.size(); ++e) {
    weights[e] = static_cast<int>(1 + e * 3 % 5);
  }
  return weights;
}
constexpr int far = 1'000'000;

// Compares nine algorithms of Boost with plain loops over operands. Dominators and isomorphism have tests of their own.
void check_algorithms(const test::number_graph& g) {
  const std::size_t nodes = num_vertices(g);
  const auto paths = test::path_matrix(g);  // [n][m]: whether a path of at least one edge leads from n to m
  const auto weights = some_weights(g);
  const auto weight = boost::make_iterator_property_map(weights.begin(), get(boost::edge_index, g));

  std::vector<std::size_t> reversed;
  boost::topological_sort(g, std::back_inserter(reversed));  // 1
  std::vector<std::size_t> place(nodes);
  for (std::size_t i = 0; i < nodes; ++i) {
    place[reversed[i]] = nodes - i;
  }
  for (auto [e, end] = edges(g); e != end; ++e) {
    REQUIRE(place[source(*e, g)] < place[target(*e, g)]);
  }

  std::vector<std::size_t> component(nodes);
  REQUIRE(boost::strong_components(g, by_vertex(g, component)) == nodes);  // 2: no component has two vertices

  // Weakly connected components: labels spread along edges in both directions until none changes.
  std::vector<std::size_t> label(nodes);
  for (std::size_t n = 0; n < nodes; ++n) {
    label[n] = n;
  }
  for (bool changes = true; changes;) {
    changes = false;
    for (auto [e, end] = edges(g); e != end; ++e) {
      const auto least = std::min(label[source(*e, g)], label[target(*e, g)]);
      changes = changes || label[source(*e, g)] != least || label[target(*e, g)] != least;
      label[source(*e, g)] = label[target(*e, g)] = least;
    }
  }
  std::vector<std::size_t> rank(nodes);
  std::vector<std::size_t> parent(nodes);
  boost::disjoint_sets joined{by_vertex(g, rank), by_vertex(g, parent)};
  boost::initialize_incremental_components(g, joined);
  boost::incremental_components(g, joined);  // 3
  for (std::size_t n = 0; n < nodes; ++n) {
    for (std::size_t m = 0; m < nodes; ++m) {
      REQUIRE((joined.find_set(n) == joined.find_set(m)) == (label[n] == label[m]));
    }
  }

  std::vector<std::vector<int>> matrix(nodes, std::vector<int>(nodes));
  REQUIRE(boost::floyd_warshall_all_pairs_shortest_paths(  // 4
      g, matrix, boost::weight_map(weight).distance_inf(far)));
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<int> shortest(nodes, far);  // nodes are in topological order, so one sweep suffices
    shortest[n] = 0;
    std::uint32_t index = 0;
    for (std::size_t m = 0; m < nodes; ++m) {
      for (const value_id v : g.operands(node_id{m})) {
        const int before = shortest[g.producer(v).index()];
        shortest[m] = std::min(shortest[m], before == far ? far : before + weights[index]);
        ++index;
      }
    }
    std::vector<boost::default_color_type> colour(nodes);
    boost::breadth_first_search(g, n, boost::color_map(by_vertex(g, colour)));  // 5
    std::vector<boost::default_color_type> deep(nodes);
    boost::depth_first_visit(g, n, boost::default_dfs_visitor{}, by_vertex(g, deep));  // 6
    std::vector<int> dijkstra(nodes);
    boost::dijkstra_shortest_paths(  // 7
        g, n,
        boost::weight_map(weight).distance_map(by_vertex(g, dijkstra)).distance_inf(far));
    std::vector<int> bellman(nodes, far);
    bellman[n] = 0;
    REQUIRE(boost::bellman_ford_shortest_paths(  // 8
        g, static_cast<int>(nodes), boost::weight_map(weight).distance_map(by_vertex(g, bellman))));
    std::vector<int> dag(nodes);
    boost::dag_shortest_paths(  // 9
        g, n,
        boost::weight_map(weight).distance_map(by_vertex(g, dag)).distance_inf(far));
    for (std::size_t m = 0; m < nodes; ++m) {
      REQUIRE((colour[m] != boost::white_color) == (n == m || paths[n][m] != 0));
      REQUIRE((deep[m] != boost::white_color) == (n == m || paths[n][m] != 0));
      REQUIRE(dijkstra[m] == shortest[m]);
      REQUIRE((bellman[m] >= far ? far : bellman[m]) == shortest[m]);
      REQUIRE(dag[m] == shortest[m]);
      REQUIRE((matrix[n][m] >= far ? far : matrix[n][m]) == shortest[m]);
    }
  }
}

// Whether a permutation of the vertices maps the edges of one graph to those of the other; tries all permutations.
bool are_isomorphic(const test::number_graph& a, const test::number_graph& b) {
  const auto sorted_edges = [](const test::number_graph& g, const std::vector<std::size_t>& to) {
    std::vector<std::pair<std::size_t, std::size_t>> pairs;
    for (auto [e, end] = edges(g); e != end; ++e) {
      pairs.emplace_back(to[source(*e, g)], to[target(*e, g)]);
    }
    std::ranges::sort(pairs);
    return pairs;
  };
  std::vector<std::size_t> same(num_vertices(a));
  for (std::size_t n = 0; n < same.size(); ++n) {
    same[n] = n;
  }
  const auto wanted = sorted_edges(b, same);
  auto to = same;
  do {
    if (sorted_edges(a, to) == wanted) {
      return true;
    }
  } while (std::ranges::next_permutation(to).found);
  return false;
}

// Boost's dominators expect a root that reaches every vertex. A node dominates another if all paths go through it.
void check_dominators(const test::number_graph& g) {
  const std::size_t nodes = num_vertices(g);
  const auto none = boost::graph_traits<test::number_graph>::null_vertex();
  std::vector<std::size_t> above(nodes, none);
  boost::lengauer_tarjan_dominator_tree(g, 0, by_vertex(g, above));
  std::vector<std::vector<char>> dominates(nodes, std::vector<char>(nodes));
  for (std::size_t cut = 0; cut < nodes; ++cut) {
    std::vector<char> reached(nodes);
    reached[0] = cut != 0;
    for (std::size_t n = 1; n < nodes; ++n) {
      for (const value_id v : g.operands(node_id{n})) {
        reached[n] = reached[n] != 0 || (n != cut && reached[g.producer(v).index()] != 0);
      }
      dominates[cut][n] = n != cut && reached[n] == 0;
    }
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    for (std::size_t d = 0; d < nodes; ++d) {
      bool is_above = false;
      for (std::size_t up = above[n]; up != none; up = above[up]) {
        is_above = is_above || up == d;
      }
      REQUIRE((dominates[d][n] != 0) == is_above);
    }
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

TEST_CASE("a plain Boost adjacency list reads as the dataflow graph it was written from") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  auto shape = test::random_shape(rng, 20);
  shape.most_results = 1;
  const auto g = test::random_graph(rng, shape);
  const auto plain = test::as_plain_boost(g, rng);
  REQUIRE(same_dataflow(plain, g));
  for (const auto n : node_ids(g)) {
    REQUIRE(graph_traits<test::plain_boost_graph>::operation(plain, n).kind == g.operation(n));
  }
  // Through boost_dataflow: the same operands, and every value that nothing reads is an output.
  const boost_dataflow<test::plain_boost_graph, int> indexed{
      plain, [](const test::plain_vertex& v) { return std::array{v.type}; }};
  for (const auto n : node_ids(g)) {
    REQUIRE(std::ranges::equal(indexed.operands(n), g.operands(n)));
    REQUIRE(indexed.type(value_id{n.index()}) == g.type(value_id{n.index()}));
  }
}

TEST_CASE("a boost_dataflow round-trips a graph through its Boost list") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 100));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 20));
  const auto built = test::copy_as<test::boost_form>(g);
  REQUIRE(same_dataflow(built, g));
  REQUIRE(num_edges(built.list()) == g.edge_count());
  std::vector<std::vector<int>> types(g.node_count());
  for (const auto v : value_ids(g)) {
    types[g.producer(v).index()].push_back(g.type(v));
  }
  std::size_t next = 0;
  test::boost_form again{built.list(), [&](int) { return types[next++]; }};
  again.set_outputs(g.outputs());
  REQUIRE(same_dataflow(again, g));
}

TEST_CASE("a node of a boost_dataflow may read the operands of another one") {
  test::boost_form g;
  const auto a = g.add_node(1, {}, std::array{0, 1});
  const auto n = g.add_node(2, g.results(a), std::array{0});
  const std::vector<value_id> expected{g.operands(n).begin(), g.operands(n).end()};
  for (int i = 0; i < 20; ++i) {  // the arrays grow several times
    const auto again = g.add_node(2, g.operands(n), std::array{0});
    REQUIRE(std::vector<value_id>{g.operands(again).begin(), g.operands(again).end()} == expected);
  }
}

TEST_CASE("unread values of a Boost list without an output property are its outputs") {
  list_of<boost::bidirectionalS, just_position> g(3);
  add_edge(0, 1, just_position{0}, g);
  const auto outputs = graph_traits<decltype(g)>::outputs(g);
  CHECK(std::vector(outputs) == std::vector{value_id{1U}, value_id{2U}});
  CHECK(std::ranges::equal(boost_dataflow{g}.outputs(), outputs));
  CHECK(!find_defect(g).has_value());
}

TEST_CASE("each unread result is an output even if another result of its vertex is read") {
  // A ripple-carry adder of 6 bits: each full adder gives a sum, which nothing reads, and a carry, which the next
  // reads.
  test::boost_list adder(6);
  for (std::size_t bit = 1; bit < 6; ++bit) {
    add_edge(bit - 1, bit, operand_place{.position = 0, .result = 1}, adder);
  }
  const test::boost_form g{adder, [](int) { return std::array{0, 0}; }};
  CHECK(std::ranges::equal(g.outputs(), std::array{value_id{0U}, value_id{2U}, value_id{4U}, value_id{6U}, value_id{8U},
                                                   value_id{10U}, value_id{11U}}));
}

TEST_CASE("an invalid operand edge of a Boost graph is refused with its vertex and position") {
  // Vertex 2 reads vertex 0 at position 0, and vertex 1 at the position under test.
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

TEST_CASE("Boost edges of a compact graph match its uses from both ends") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  check_edges(test::random_graph(rng, test::random_shape(rng, 20)));
}

TEST_CASE("nine Boost algorithms give correct results on a compact graph") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  check_algorithms(test::random_graph(rng, test::random_shape(rng, 16)));
}

TEST_CASE("Boost's dominator tree is correct on a compact graph") {
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
}

TEST_CASE("Boost's isomorphism test is correct on compact graphs") {
  int alike = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    // Simple graphs: Boost's algorithm does not count parallel edges.
    const auto draw = [&rng] {
      test::number_graph g;
      for (std::size_t n = 0; n < 5; ++n) {
        std::vector<value_id> operands;
        for (std::size_t m = 0; m < n; ++m) {
          if (rng.below(10) < 3) {
            operands.emplace_back(m);
          }
        }
        g.add_node(0, operands, std::array{0});
      }
      return g;
    };
    const auto a = draw();
    const auto b = draw();
    const bool same = num_edges(a) == num_edges(b) && are_isomorphic(a, b);
    REQUIRE(boost::isomorphism(a, b) == same);
    alike += same ? 1 : 0;
  }
  CHECK(alike > 5);
}

}  // namespace tests_of_boost_graph
