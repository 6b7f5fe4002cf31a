// Applying an edit does what the edit says, and tells where everything went.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/id.hpp>
#include <unity/core/random.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/graph/edit.hpp>
#include <unity/graph/validate.hpp>

#include "random_edit.hpp"
#include "random_graph.hpp"

namespace tests_of_edit {

using namespace unity;

namespace {

value_id read_for(const test::number_edit& e, value_id v) {
  const auto r = std::ranges::find(e.redirected, v, &redirection::from);
  return r == e.redirected.end() ? v : r->to;
}

bool is_removed(const test::number_edit& e, node_id n) { return std::ranges::count(e.removed, n) > 0; }

// The edited graph with its nodes where they were, the removed ones unconnected: sound but for cycles.
template <class G>
test::loose_graph written_out(const G& g, const test::number_edit& e) {
  using traits = graph_traits<G>;
  test::loose_graph r;
  for (std::size_t n = 0; n < traits::node_count(g); ++n) {
    r.nodes.emplace_back();
    for (const value_id v : traits::results(g, node_id{n})) {
      r.nodes.back().results.push_back(v);
    }
    for (const value_id v : traits::operands(g, node_id{n})) {
      if (!is_removed(e, node_id{n})) {
        r.nodes.back().operands.push_back(read_for(e, v));
      }
    }
  }
  for (std::size_t v = 0; v < traits::value_count(g); ++v) {
    r.producers.push_back(traits::producer(g, value_id{v}));
  }
  for (const auto& added : e.added) {
    r.nodes.push_back({added.operation, added.operands, {}});
    for (std::size_t i = 0; i < added.types.size(); ++i) {
      r.nodes.back().results.emplace_back(r.producers.size());
      r.producers.emplace_back(r.nodes.size() - 1);
    }
  }
  r.types.resize(r.producers.size());
  return r;
}

// Whether node `now` reads and defines what `expected` lists, in names that `values` translates.
void check_node(const edited<int, int>& after, node_id now, const test::loose_graph::node& expected) {
  std::vector<value_id> operands;
  for (const value_id v : expected.operands) {
    operands.push_back(after.values[v.index()]);
  }
  std::vector<value_id> results;
  for (const value_id v : expected.results) {
    results.push_back(after.values[v.index()]);
  }
  REQUIRE(std::ranges::equal(after.graph.operands(now), operands));
  REQUIRE(std::ranges::equal(after.graph.results(now), results));
}

template <class G>
void check_kept(const G& g, const test::number_edit& e, const edited<int, int>& after,
                const test::loose_graph& expected) {
  using traits = graph_traits<G>;
  std::vector<node_id> changed;
  for (std::size_t n = 0; n < traits::node_count(g); ++n) {
    const node_id now = after.nodes[n];
    REQUIRE(now.valid() != is_removed(e, node_id{n}));
    if (!now.valid()) {
      continue;
    }
    check_node(after, now, expected.nodes[n]);
    bool reads_other = false;
    for (const value_id v : traits::operands(g, node_id{n})) {
      reads_other = reads_other || read_for(e, v) != v;
    }
    for (const value_id v : traits::results(g, node_id{n})) {
      REQUIRE(after.graph.type(after.values[v.index()]) == traits::type(g, v));
    }
    if (reads_other) {
      changed.push_back(now);
    }
  }
  std::ranges::sort(changed);
  REQUIRE(after.changed == changed);
}

template <class G>
void check_edit(const G& g, const test::number_edit& e) {
  using traits = graph_traits<G>;
  const auto expected = written_out(g, e);
  const auto after = apply_edit(g, e);
  REQUIRE(after.has_value() == find_cycle(expected).empty());
  if (!after) {
    return;
  }
  REQUIRE(after->graph.node_count() == traits::node_count(g) - e.removed.size() + e.added.size());
  REQUIRE(!find_defect(after->graph).has_value());
  check_kept(g, e, *after, expected);
  for (std::size_t i = 0; i < e.added.size(); ++i) {
    REQUIRE(after->graph.operation(after->added[i]) == e.added[i].operation);
    check_node(*after, after->added[i], expected.nodes[traits::node_count(g) + i]);
  }
  std::vector<value_id> outputs;
  for (const value_id v : traits::outputs(g)) {
    outputs.push_back(after->values[read_for(e, v).index()]);
  }
  REQUIRE(std::ranges::equal(after->graph.outputs(), outputs));
}

}  // namespace

TEST_CASE("an edited graph has the kept and the added nodes, reading what the edit says, unless that is a cycle") {
  int applied = 0;
  int cyclic = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    random_engine rng{seed};
    const auto g = test::random_graph(rng, test::random_shape(rng, 14));
    const auto e = test::random_edit(g, rng);
    check_edit(g, e);
    check_edit(test::copy_as<test::boost_form>(g), e);
    const auto loose = test::relabelled(g, rng);
    check_edit(loose, test::random_edit(loose, rng));
    (apply_edit(g, e) ? applied : cyclic)++;
  }
  CHECK(applied > 150);
  CHECK(cyclic > 50);
}

TEST_CASE("an edit that says nothing changes nothing") {
  random_engine rng{4};
  const auto g = test::random_graph(rng, {.nodes = 20});
  const auto after = apply_edit(g, test::number_edit{});
  REQUIRE(after.has_value());
  CHECK(after->graph == g);
  CHECK(after->changed.empty());
}

TEST_CASE("a node can be fused with the one it reads from, and readers follow") {
  test::number_graph g;  // x, f(x), g(f(x)), h(g(f(x)))
  g.add_node(0, {}, std::array{1});
  for (std::uint32_t n = 1; n < 4; ++n) {
    g.add_node(static_cast<int>(n), std::array{value_id{n - 1}}, std::array{1});
  }
  g.set_outputs(std::array{value_id{3U}});
  const test::number_edit fuse{.removed = {node_id{1U}, node_id{2U}},
                               .added = {{12, {value_id{0U}}, {1}}},
                               .redirected = {{value_id{2U}, value_id{4U}}}};
  const auto after = apply_edit(g, fuse);
  REQUIRE(after.has_value());
  test::number_graph expected;
  expected.add_node(0, {}, std::array{1});
  expected.add_node(12, std::array{value_id{0U}}, std::array{1});
  expected.add_node(3, std::array{value_id{1U}}, std::array{1});
  expected.set_outputs(std::array{value_id{2U}});
  CHECK(after->graph == expected);
  CHECK(after->nodes == std::vector{node_id{0U}, node_id{}, node_id{}, node_id{2U}});
  CHECK(after->values == std::vector{value_id{0U}, value_id{}, value_id{}, value_id{2U}, value_id{1U}});
  CHECK(after->changed == std::vector{node_id{2U}});
}

}  // namespace tests_of_edit
