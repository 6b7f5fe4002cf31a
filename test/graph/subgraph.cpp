// A region is the nodes asked for, behind stand-ins for what they read from outside.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/node_set.hpp>
#include <unity/graph/reachability.hpp>
#include <unity/graph/subgraph.hpp>

#include "random_graph.hpp"

namespace tests_of_subgraph {

using namespace unity;

namespace {

int stand_in_for(value_id v) { return 1000 + static_cast<int>(v.index()); }

// Of each value of the region, the outer value.
template <class G>
std::vector<value_id> outer_values(const G& g, const region<int, int>& cut) {
  std::vector<value_id> outer(cut.graph.value_count());
  for (std::size_t k = 0; k < cut.nodes.size(); ++k) {
    const auto results = cut.graph.results(node_id{k});
    std::size_t i = 0;
    if (k < cut.inputs.size()) {
      REQUIRE(results.size() == 1);
      outer[results[0].index()] = cut.inputs[k];
    } else {
      for (const value_id v : graph_traits<G>::results(g, cut.nodes[k])) {
        outer[results[i++].index()] = v;
      }
      REQUIRE(i == results.size());
    }
  }
  return outer;
}

template <class G>
void check_inputs(const G& g, const node_set& set, const region<int, int>& cut) {
  std::set<value_id> expected;
  for (const node_id n : set.to_vector()) {
    for (const value_id v : graph_traits<G>::operands(g, n)) {
      if (!set.contains(graph_traits<G>::producer(g, v))) {
        expected.insert(v);
      }
    }
  }
  REQUIRE(cut.inputs.size() == expected.size());
  REQUIRE(std::set<value_id>(cut.inputs.begin(), cut.inputs.end()) == expected);
  for (std::size_t i = 0; i < cut.inputs.size(); ++i) {
    REQUIRE(!cut.nodes[i].valid());
    REQUIRE(cut.graph.operation(node_id{i}) == stand_in_for(cut.inputs[i]));
    REQUIRE(cut.graph.operands(node_id{i}).empty());
  }
}

template <class G>
void check_outputs(const G& g, const node_set& set, const region<int, int>& cut) {
  std::set<value_id> expected;
  const auto add = [&](value_id v) {
    if (set.contains(graph_traits<G>::producer(g, v))) {
      expected.insert(v);
    }
  };
  for (std::size_t n = 0; n < graph_traits<G>::node_count(g); ++n) {
    if (!set.contains(node_id{n})) {
      std::ranges::for_each(graph_traits<G>::operands(g, node_id{n}), add);
    }
  }
  std::ranges::for_each(graph_traits<G>::outputs(g), add);
  REQUIRE(cut.outputs == std::vector<value_id>(expected.begin(), expected.end()));
}

template <class G>
void check_region(const G& g, const node_set& set) {
  using traits = graph_traits<G>;
  const auto cut = extract_region(g, set, stand_in_for);
  REQUIRE(cut.graph.node_count() == cut.inputs.size() + set.size());
  REQUIRE(cut.nodes.size() == cut.graph.node_count());
  check_inputs(g, set, cut);
  check_outputs(g, set, cut);
  const auto outer = outer_values(g, cut);
  const auto outer_of = [&](value_id v) { return outer[v.index()]; };
  node_set copied{traits::node_count(g)};
  for (std::size_t k = cut.inputs.size(); k < cut.nodes.size(); ++k) {
    const node_id n = cut.nodes[k];
    copied.insert(n);
    REQUIRE(cut.graph.operation(node_id{k}) == traits::operation(g, n));
    REQUIRE(std::ranges::equal(cut.graph.operands(node_id{k}), traits::operands(g, n), {}, outer_of));
  }
  REQUIRE(copied == set);
  REQUIRE(std::ranges::equal(cut.graph.outputs(), cut.outputs, {}, outer_of));
  for (std::size_t v = 0; v < outer.size(); ++v) {
    REQUIRE(cut.graph.type(value_id{v}) == traits::type(g, outer[v]));
  }
}

bool convex_by_search(const std::vector<std::vector<char>>& path, const node_set& set) {
  for (const node_id a : set.to_vector()) {
    for (const node_id b : set.to_vector()) {
      for (std::size_t n = 0; n < path.size(); ++n) {
        if (!set.contains(node_id{n}) && path[a.index()][n] != 0 && path[n][b.index()] != 0) {
          return false;
        }
      }
    }
  }
  return true;
}

node_set random_set(random_engine& rng, std::size_t nodes) {
  node_set set{nodes};
  const auto share = 1 + rng.below(4);
  for (std::size_t n = 0; n < nodes; ++n) {
    if (rng.below(share) == 0) {
      set.insert(node_id{n});
    }
  }
  return set;
}

}  // namespace

TEST_CASE("a region has the nodes of the set and stands in for the rest") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 200));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 16));
  const auto set = random_set(rng, g.node_count());
  check_region(g, set);
  check_region(test::copy_as<test::boost_form>(g), set);
  check_region(test::relabelled(g, rng), set);
}

TEST_CASE("a set is convex if and only if no path leaves it and comes back") {
  int convex = 0;
  int not_convex = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 10));
    test::in_every_form(g, rng, [&](const auto& form) {
      const auto set = random_set(rng, g.node_count());
      const bool expected = convex_by_search(test::path_matrix(form), set);
      REQUIRE(is_convex(form, reachability{form}, set) == expected);
      (expected ? convex : not_convex)++;
    });
  }
  CHECK(convex > 100);
  CHECK(not_convex > 100);
}

TEST_CASE("the whole graph as a region is the graph") {
  random_engine rng{9};
  const auto g = test::random_graph(rng, {.nodes = 12});
  node_set all{g.node_count()};
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    all.insert(node_id{n});
  }
  const auto cut = extract_region(g, all, stand_in_for);
  CHECK(cut.inputs.empty());
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    REQUIRE(std::ranges::equal(cut.graph.operands(node_id{n}), g.operands(node_id{n})));
  }
}

}  // namespace tests_of_subgraph
