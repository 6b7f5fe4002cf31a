// A decomposition represents exactly the paths of the graph, finds all nesting there is, and leaves irreducible cores.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/series_parallel.hpp>

#include "random_graph.hpp"

namespace tests_of_series_parallel {

using namespace unity;

namespace {

using edge_set = std::set<std::pair<std::size_t, std::size_t>>;

// Nodes on paths between the terminals, and the edges among them, with the start as node N and the finish as N + 1.
struct paths_graph {
  std::set<std::size_t> nodes;
  edge_set edges;
};

paths_graph paths_between(const digraph& g, const terminals& ends) {
  const std::size_t nodes = g.node_count();
  std::vector<char> after(nodes, 0);
  std::vector<char> before(nodes, 0);
  const std::function<void(node_id)> mark_after = [&](node_id n) {
    after[n.index()] = 1;
    std::ranges::for_each(g.successors(n), mark_after);
  };
  const std::function<void(node_id)> mark_before = [&](node_id n) {
    before[n.index()] = 1;
    std::ranges::for_each(g.predecessors(n), mark_before);
  };
  std::ranges::for_each(ends.sources, mark_after);
  std::ranges::for_each(ends.sinks, mark_before);
  paths_graph found;
  for (std::size_t n = 0; n < nodes; ++n) {
    if (after[n] != 0 && before[n] != 0) {
      found.nodes.insert(n);
    }
  }
  for (const std::size_t n : found.nodes) {
    for (const node_id s : g.successors(node_id{n})) {
      if (found.nodes.contains(s.index())) {
        found.edges.emplace(n, s.index());
      }
    }
    if (std::ranges::count(ends.sources, node_id{n}) > 0) {
      found.edges.emplace(nodes, n);
    }
    if (std::ranges::count(ends.sinks, node_id{n}) > 0) {
      found.edges.emplace(n, nodes + 1);
    }
  }
  return found;
}

// Rebuilds a graph from a tree: points that are connected by nodes and by wires.
class redrawing {
 public:
  redrawing(const series_parallel_tree& tree, std::size_t nodes) : tree_{tree}, nodes_{nodes} {
    const std::size_t start = new_place();
    const std::size_t finish = new_place();
    entry_[nodes + 1] = finish;
    exit_[nodes] = start;
    draw(tree.root(), start, finish);
  }

  // The nodes drawn, and the pairs of nodes that are connected by wires alone.
  [[nodiscard]] paths_graph result() const {
    paths_graph found;
    for (const auto& [node, place] : entry_) {
      if (node < nodes_) {
        found.nodes.insert(node);
      }
    }
    for (const auto& [node, place] : exit_) {
      follow(node, place, found.edges);
    }
    if (found.nodes.empty()) {
      found.edges.clear();
    }
    return found;
  }
  [[nodiscard]] std::size_t nodes_drawn() const { return drawn_; }

 private:
  std::size_t new_place() {
    wires_.emplace_back();
    return wires_.size() - 1;
  }
  void draw(series_parallel_tree::part_index i, std::size_t from, std::size_t to) {
    const auto& part = tree_[i];
    const auto children = tree_.children(i);
    if (part.kind == part_kind::wire) {
      wires_[from].push_back(to);
    } else if (part.kind == part_kind::node) {
      ++drawn_;
      const std::size_t in = new_place();
      const std::size_t out = new_place();
      entry_[part.node.index()] = in;
      exit_[part.node.index()] = out;
      wires_[from].push_back(in);
      wires_[out].push_back(to);
    } else if (part.kind == part_kind::series) {
      for (std::size_t c = 0; c < children.size(); ++c) {
        const std::size_t next = c + 1 == children.size() ? to : new_place();
        draw(children[c], from, next);
        from = next;
      }
    } else if (part.kind == part_kind::parallel) {
      std::ranges::for_each(children, [&](auto child) { draw(child, from, to); });
    } else {
      draw_core(children, from, to);
    }
  }
  // The start of a core is its point without in-edges, the finish its point without out-edges.
  void draw_core(std::span<const series_parallel_tree::part_index> children, std::size_t from, std::size_t to) {
    std::set<path_point> begins;
    std::set<path_point> ends;
    for (const auto c : children) {
      begins.insert(tree_[c].from);
      ends.insert(tree_[c].to);
    }
    std::map<path_point, std::size_t> place;
    for (const auto p : begins) {
      place[p] = ends.contains(p) ? new_place() : from;
    }
    for (const auto p : ends) {
      if (!begins.contains(p)) {
        place[p] = to;
      }
    }
    std::ranges::for_each(children, [&](auto c) { draw(c, place.at(tree_[c].from), place.at(tree_[c].to)); });
  }
  void follow(std::size_t node, std::size_t place, edge_set& edges) const {
    for (const auto& [other, entry] : entry_) {
      if (entry == place) {
        edges.emplace(node, other);
        return;
      }
    }
    for (const std::size_t next : wires_[place]) {
      follow(node, next, edges);
    }
  }

  const series_parallel_tree& tree_;
  std::size_t nodes_;
  std::size_t drawn_ = 0;
  std::vector<std::vector<std::size_t>> wires_;
  std::map<std::size_t, std::size_t> entry_;
  std::map<std::size_t, std::size_t> exit_;
};

// Decides by series and parallel reductions whether the graph is series-parallel; searches all points for each
// reduction.
bool series_parallel_by_search(const paths_graph& g, std::size_t nodes) {
  edge_set edges;
  for (const auto& [from, to] : g.edges) {
    edges.emplace(2 * from + 1, 2 * to);
  }
  for (const std::size_t n : g.nodes) {
    edges.emplace(2 * n, 2 * n + 1);
  }
  for (bool reduced = true; reduced;) {
    reduced = false;
    for (std::size_t p = 0; p < 2 * nodes; ++p) {
      const auto is_in = [p](const auto& e) { return e.second == p; };
      const auto is_out = [p](const auto& e) { return e.first == p; };
      if (std::ranges::count_if(edges, is_in) == 1 && std::ranges::count_if(edges, is_out) == 1) {
        const auto in = *std::ranges::find_if(edges, is_in);
        const auto out = *std::ranges::find_if(edges, is_out);
        edges.erase(in);
        edges.erase(out);
        edges.emplace(in.first, out.second);
        reduced = true;
      }
    }
  }
  return edges.size() <= 1;
}

// Whether the links connect all points except a and b.
bool connected_without(const std::set<path_point>& points, const std::vector<std::pair<path_point, path_point>>& links,
                       path_point a, path_point b) {
  std::vector<path_point> pending;
  for (const auto p : points) {
    if (p != a && p != b) {
      pending.push_back(p);
      break;
    }
  }
  std::set<path_point> met(pending.begin(), pending.end());
  while (!pending.empty()) {
    const auto p = pending.back();
    pending.pop_back();
    for (const auto& [x, y] : links) {
      const auto q = x == p ? y : x;
      if ((x == p || y == p) && q != a && q != b && met.insert(q).second) {
        pending.push_back(q);
      }
    }
  }
  return met.size() + (points.contains(a) ? 1 : 0) + (points.contains(b) && a != b ? 1 : 0) == points.size();
}

// A core is irreducible: with a link from its start to its finish added, removing any two points leaves it connected.
void check_core(const series_parallel_tree& tree, series_parallel_tree::part_index core) {
  std::set<path_point> points;
  std::set<path_point> begins;
  std::set<path_point> ends;
  std::vector<std::pair<path_point, path_point>> links;
  for (const auto c : tree.children(core)) {
    links.emplace_back(tree[c].from, tree[c].to);
    points.insert({tree[c].from, tree[c].to});
    begins.insert(tree[c].from);
    ends.insert(tree[c].to);
  }
  REQUIRE(std::set(links.begin(), links.end()).size() == links.size());
  std::vector<path_point> first;
  std::vector<path_point> last;
  std::ranges::set_difference(begins, ends, std::back_inserter(first));
  std::ranges::set_difference(ends, begins, std::back_inserter(last));
  REQUIRE(first.size() == 1);
  REQUIRE(last.size() == 1);
  REQUIRE(points.size() >= 4);
  links.emplace_back(first.front(), last.front());
  for (const auto a : points) {
    for (const auto b : points) {
      REQUIRE(connected_without(points, links, a, b));
    }
  }
}

void check_normal_form(const series_parallel_tree& tree) {
  for (series_parallel_tree::part_index i = 0; i < tree.size(); ++i) {
    const auto children = tree.children(i);
    const auto kind = tree[i].kind;
    REQUIRE((kind == part_kind::node) == tree[i].node.valid());
    REQUIRE(children.size() >= (kind == part_kind::wire || kind == part_kind::node ? 0U : 2U));
    for (const auto c : children) {
      REQUIRE(c < i);
      REQUIRE((tree[c].kind != kind || kind == part_kind::core));
      REQUIRE((tree[c].kind != part_kind::wire || kind != part_kind::series));
      REQUIRE((tree[c].kind != part_kind::wire || kind != part_kind::parallel || c == children.back()));
    }
  }
}

template <class G>
void check_decomposition(const G& g, const terminals& ends) {
  const auto tree = decompose_series_parallel(g, ends);
  const std::size_t nodes = graph_traits<G>::node_count(g);
  const auto expected = paths_between(digraph{g}, ends);
  const redrawing drawn{tree, nodes};
  REQUIRE(drawn.nodes_drawn() == expected.nodes.size());
  REQUIRE(drawn.result().nodes == expected.nodes);
  REQUIRE(drawn.result().edges == expected.edges);
  REQUIRE(tree.is_series_parallel() == series_parallel_by_search(expected, nodes));
  REQUIRE(tree.is_series_parallel() == tree.cores().empty());
  check_normal_form(tree);
  for (const auto core : tree.cores()) {
    check_core(tree, core);
  }
}

// Kinds and numbers of children of all parts, sorted: the same for isomorphic trees.
std::vector<std::size_t> profile(const series_parallel_tree& tree) {
  std::vector<std::size_t> shape;
  for (series_parallel_tree::part_index i = 0; i < tree.size(); ++i) {
    shape.push_back(static_cast<std::size_t>(tree[i].kind) * 1000 + tree.children(i).size());
  }
  std::ranges::sort(shape);
  return shape;
}

value_id add(test::number_graph& g, std::vector<value_id> operands) {
  return g.results(g.add_node(0, operands, std::vector{0})).front();
}

// Random nested structures that start at a value. Each function returns the last value that it adds.
struct nesting {
  test::number_graph& graph;
  random_engine& rng;
  std::size_t kinds;        // 2: chains and branches, 3: bridges too
  std::size_t bridges = 0;  // added so far

  value_id nest(value_id v, int depth) {
    if (depth == 0) {
      return add(graph, {v});
    }
    const auto kind = rng.below(kinds);
    return kind == 0 ? nest(nest(v, depth - 1), depth - 1) : kind == 1 ? branches(v, depth) : bridge(v, depth);
  }
  value_id branches(value_id v, int depth) {
    std::vector<value_id> ends;
    for (std::size_t i = 1 + rng.below(3); i > 0; --i) {
      ends.push_back(nest(v, depth - 1));
    }
    if (rng.below(2) == 0) {
      ends.push_back(v);
    }
    return add(graph, ends);
  }
  // Two branches and an edge from one to the other, which is not series-parallel.
  value_id bridge(value_id v, int depth) {
    ++bridges;
    const auto a = nest(v, depth - 1);
    const auto b = add(graph, {nest(v, depth - 1), a});
    return add(graph, {nest(a, depth - 1), nest(b, depth - 1)});
  }
};

}  // namespace

TEST_CASE("a series-parallel tree reproduces its graph and has irreducible cores") {
  int with_cores = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 5 + seed % 30));
    test::in_every_form(g, rng, [](const auto& form) { check_decomposition(form, find_terminals(form)); });
    if (g.node_count() > 0) {
      const terminals some{{node_id{rng.below(g.node_count())}}, find_terminals(g).sinks};
      check_decomposition(g, some);
    }
    const auto tree = decompose_series_parallel(g);
    REQUIRE(profile(tree) == profile(decompose_series_parallel(test::relabelled(g, rng))));
    with_cores += tree.cores().empty() ? 0 : 1;
  }
  CHECK(with_cores > 100);
}

TEST_CASE("nested chains and branches are series-parallel") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  test::number_graph g;
  nesting random{g, rng, 2};
  const std::vector outputs{random.nest(add(g, {}), 1 + static_cast<int>(seed % 5))};
  g.set_outputs(outputs);
  CHECK(is_series_parallel(g));
  if (g.node_count() < 200) {
    check_decomposition(g, find_terminals(g));
  }
}

TEST_CASE("each bridge in a nested graph becomes one core of the decomposition") {
  std::size_t bridges = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    test::number_graph g;
    nesting random{g, rng, 3};
    const std::vector outputs{random.nest(add(g, {}), 1 + static_cast<int>(seed % 4))};
    g.set_outputs(outputs);
    REQUIRE(decompose_series_parallel(g).cores().size() == random.bridges);
    REQUIRE(decompose_series_parallel(test::relabelled(g, rng)).cores().size() == random.bridges);
    if (g.node_count() < 150) {
      check_decomposition(g, find_terminals(g));
    }
    bridges += random.bridges;
  }
  REQUIRE(bridges > 200);
}

TEST_CASE("two branches and a skip edge decompose into a series around one parallel part") {
  test::number_graph g;
  const auto x = add(g, {});
  const auto y = add(g, {add(g, {x}), add(g, {x}), x});
  g.set_outputs(std::array{y});
  const auto tree = decompose_series_parallel(g);
  REQUIRE(tree[tree.root()].kind == part_kind::series);
  const auto children = tree.children(tree.root());
  REQUIRE(children.size() == 3);
  CHECK(tree[children[0]].node == node_id{0U});
  CHECK(tree[children[2]].node == node_id{3U});
  REQUIRE(tree[children[1]].kind == part_kind::parallel);
  const auto branches = tree.children(children[1]);
  REQUIRE(branches.size() == 3);
  CHECK(tree[branches[0]].node == node_id{1U});
  CHECK(tree[branches[1]].node == node_id{2U});
  CHECK(tree[branches[2]].kind == part_kind::wire);
}

TEST_CASE("a bridge between two branches decomposes into a core of five parts") {
  test::number_graph g;
  const auto x = add(g, {});
  const auto a = add(g, {x});
  const auto b = add(g, {x, a});
  g.set_outputs(std::array{add(g, {a, b})});
  const auto tree = decompose_series_parallel(g);
  REQUIRE(tree[tree.root()].kind == part_kind::series);
  const auto children = tree.children(tree.root());
  REQUIRE(children.size() == 3);
  REQUIRE(tree.cores() == std::vector{children[1]});
  // The links of the core: node a, wires from x to b, from a to b and from a to the last node, and node b.
  std::multiset<std::pair<path_point, path_point>> ways;
  for (const auto c : tree.children(children[1])) {
    ways.emplace(tree[c].from, tree[c].to);
  }
  CHECK(ways == std::multiset<std::pair<path_point, path_point>>{{1, 3}, {1, 4}, {3, 4}, {3, 6}, {4, 6}});
}

TEST_CASE("an empty graph decomposes into one wire") {
  const auto tree = decompose_series_parallel(test::number_graph{});
  REQUIRE(tree.size() == 1);
  CHECK(tree[tree.root()].kind == part_kind::wire);
  CHECK(tree.is_series_parallel());
}

TEST_CASE("deep graphs with tens of thousands of nodes are recognized as series-parallel") {
  test::number_graph g;
  auto x = add(g, {});
  for (int i = 0; i < 30000; ++i) {
    x = add(g, {x, add(g, {x})});
  }
  g.set_outputs(std::array{x});
  CHECK(is_series_parallel(g));
  test::number_graph nested;
  std::vector<value_id> open{add(nested, {})};
  for (int i = 0; i < 20000; ++i) {
    open.push_back(add(nested, {open.back()}));
  }
  auto y = open.back();
  for (; !open.empty(); open.pop_back()) {
    y = add(nested, {y, open.back()});
  }
  nested.set_outputs(std::array{y});
  CHECK(is_series_parallel(nested));
}

TEST_CASE("one bridge in a long chain of branches makes one core and the graph not series-parallel") {
  for (const bool bridged : {false, true}) {
    CAPTURE(bridged);
    test::number_graph g;
    auto x = add(g, {});
    for (int i = 0; i < 3000; ++i) {
      const auto a = add(g, {x});
      const auto b = bridged && i == 1500 ? add(g, {x, a}) : add(g, {x});
      x = add(g, {a, b});
    }
    g.set_outputs(std::array{x});
    CHECK(is_series_parallel(g) == !bridged);
    CHECK(decompose_series_parallel(g).cores().size() == (bridged ? 1U : 0U));
  }
}

}  // namespace tests_of_series_parallel
