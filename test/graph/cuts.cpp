// Cuts agree with their definitions, tried one by one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/cuts.hpp>
#include <unity/graph/digraph.hpp>
#include <unity/graph/topological_order.hpp>

#include "random_graph.hpp"

namespace tests_of_cuts {

using namespace unity;

namespace {

// All paths from a source to a sink, written out.
void collect_paths(const digraph& g, const std::vector<node_id>& sinks, std::vector<node_id>& path,
                   std::vector<std::vector<node_id>>& paths) {
  if (std::ranges::count(sinks, path.back()) > 0) {
    paths.push_back(path);
  }
  for (const node_id s : g.successors(path.back())) {
    path.push_back(s);
    collect_paths(g, sinks, path, paths);
    path.pop_back();
  }
}

std::vector<node_id> cuts_by_search(const digraph& g, const terminals& ends) {
  std::vector<std::vector<node_id>> paths;
  for (const node_id source : ends.sources) {
    std::vector<node_id> path{source};
    collect_paths(g, ends.sinks, path, paths);
  }
  std::vector<node_id> cuts;
  if (!paths.empty()) {
    for (const node_id n : paths.front()) {
      if (std::ranges::all_of(paths, [n](const auto& path) { return std::ranges::count(path, n) > 0; })) {
        cuts.push_back(n);
      }
    }
  }
  return cuts;
}

template <class G>
std::vector<value_id> crossing_by_search(const G& g, const node_set& set) {
  using traits = graph_traits<G>;
  std::vector<value_id> crossing;
  for (std::size_t v = 0; v < traits::value_count(g); ++v) {
    bool crosses = false;
    for (std::size_t n = 0; n < traits::node_count(g); ++n) {
      for (const value_id o : traits::operands(g, node_id{n})) {
        crosses = crosses || (o == value_id{v} && !set.contains(node_id{n}) && set.contains(traits::producer(g, o)));
      }
    }
    if (crosses) {
      crossing.emplace_back(v);
    }
  }
  return crossing;
}

std::int64_t weight_of(value_id v) { return (v.index() * 7 + 3) % 10; }

std::int64_t total_weight(const std::vector<value_id>& values) {
  std::int64_t total = 0;
  for (const value_id v : values) {
    total += weight_of(v);
  }
  return total;
}

template <class G>
void check_prefix_weights(const G& g) {
  const auto order = *topological_order(g);
  const auto weights = cut_weights(g, order, weight_of);
  node_set before{order.size()};
  REQUIRE(weights.size() == order.size() + 1);
  for (std::size_t i = 0; i <= order.size(); ++i) {
    REQUIRE(is_prefix(g, before));
    const auto crossing = crossing_by_search(g, before);
    REQUIRE(cut_values(g, before) == crossing);
    REQUIRE(weights[i] == total_weight(crossing));
    if (i < order.size()) {
      before.insert(order[i]);
    }
  }
}

node_set random_nodes(random_engine& rng, std::size_t nodes, std::size_t count) {
  node_set set{nodes};
  for (; nodes > 0 && count > 0; --count) {
    set.insert(node_id{rng.below(nodes)});
  }
  return set;
}

// Every set of nodes that is a prefix, holds `before` and misses `after`; the lightest, then the smallest.
template <class G>
std::optional<value_cut> cut_by_search(const G& g, const node_set& before, const node_set& after) {
  const std::size_t nodes = graph_traits<G>::node_count(g);
  std::optional<value_cut> best;
  for (std::uint32_t bits = 0; bits < (1U << nodes); ++bits) {
    node_set set{nodes};
    bool fits = true;
    for (std::size_t n = 0; n < nodes; ++n) {
      const bool inside = ((bits >> n) & 1U) != 0;
      fits = fits && (inside ? !after.contains(node_id{n}) : !before.contains(node_id{n}));
      if (inside) {
        set.insert(node_id{n});
      }
    }
    if (fits && is_prefix(g, set)) {
      const auto values = crossing_by_search(g, set);
      const auto weight = total_weight(values);
      if (!best || weight < best->weight || (weight == best->weight && set.size() < best->before.size())) {
        best = value_cut{set, values, weight};
      }
    }
  }
  return best;
}

}  // namespace

TEST_CASE("a sequence cut is a node that every path passes") {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 12));
    test::in_every_form(g, rng, [&](const auto& form) {
      const auto ends = find_terminals(form);
      REQUIRE(sequence_cuts(form) == cuts_by_search(digraph{form}, ends));
      if (!ends.sources.empty()) {
        const terminals some{{ends.sources.front()}, ends.sinks};
        const auto cuts = sequence_cuts(form, some);
        REQUIRE(cuts == cuts_by_search(digraph{form}, some));
        found += cuts.size() > 2 ? 1 : 0;
      }
    });
  }
  REQUIRE(found > 20);
}

TEST_CASE("the values that a prefix hands on are those that are read beyond it") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 60));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, test::random_shape(rng, 14));
  test::in_every_form(g, rng, [](const auto& form) { check_prefix_weights(form); });
}

TEST_CASE("a set that misses what one of its nodes reads is no prefix") {
  random_engine rng{1};
  const auto g = test::random_graph(rng, {.nodes = 12, .window = 2});
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    const std::vector alone{node_id{n}};
    REQUIRE(is_prefix(g, node_set{g.node_count(), alone}) == g.operands(node_id{n}).empty());
  }
}

TEST_CASE("the minimum cut is the lightest of all prefixes that hold one set and miss another") {
  int impossible = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 8));
    test::in_every_form(g, rng, [&](const auto& form) {
      const std::size_t nodes = g.node_count();
      const auto before = random_nodes(rng, nodes, rng.below(3));
      const auto after = random_nodes(rng, nodes, rng.below(3));
      const auto cut = minimum_cut(form, before, after, weight_of);
      REQUIRE(cut == cut_by_search(form, before, after));
      impossible += cut ? 0 : 1;
    });
  }
  REQUIRE(impossible > 20);
}

TEST_CASE("the minimum cut after a node has all that depends on the node beyond it") {
  const std::uint64_t seed = GENERATE(range<std::uint64_t>(0, 30));
  CAPTURE(seed);
  random_engine rng{seed};
  const auto g = test::random_graph(rng, {.nodes = 9, .window = 3});
  const reachability reach{g};
  for (std::size_t n = 0; n < g.node_count(); ++n) {
    const std::vector alone{node_id{n}};
    const node_set after{reach.descendants(node_id{n})};
    REQUIRE(minimum_cut_after(g, reach, node_id{n}, weight_of) ==
            *cut_by_search(g, node_set{g.node_count(), alone}, after));
  }
}

}  // namespace tests_of_cuts
