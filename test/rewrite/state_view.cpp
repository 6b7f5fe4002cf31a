#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/state_view.hpp>
#include <unity/search/rewrite_graph.hpp>

#include "../support/child.hpp"
#include "../support/circuits.hpp"

namespace tests_of_state_view {

using namespace unity;
using namespace unity::test;

TEST_CASE("state_view::users_near returns the uses of a value in blocks") {
  circuit_builder b;
  const auto x = b.input('a');
  std::vector<value_id> outputs;
  for (int i = 0; i < 100; ++i) {
    outputs.push_back(b.conjunction(x, b.negation(i == 0 ? x : outputs.back())));
  }
  node_store<circuits> store{circuits{}};
  const auto nodes = intern_graph(store, b.build(outputs));
  state_view view;
  view.load(store, nodes);
  const auto v = store.results(nodes[0])[0];
  std::vector<value_use> all(view.users(v).begin(), view.users(v).end());
  std::reverse(all.begin(), all.end());
  REQUIRE(all.size() == 101);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto block = view.users_near(v, all[i].node, 8);
    REQUIRE(block.size() == (i < 96 ? 8 : 5));
    CHECK(block[i % 8].node == all[i].node);
    CHECK(block.front().node == all[i / 8 * 8].node);
  }
}

TEST_CASE("state_view::depends is conservative in a large state") {
  // Two separate chains with more than `most_rows` nodes in all, so dependences are not tabulated.
  circuit_builder b;
  auto left = b.input('a');
  auto right = b.input('b');
  for (int i = 0; i < 9000; ++i) {
    left = b.negation(left);
    right = b.negation(right);
  }
  node_store<circuits> store{circuits{}};
  const auto nodes = intern_graph(store, b.build({left, right}));
  state_view view;
  view.load(store, nodes);
  const auto maker = [&](value_id v) { return view.definition(v); };
  const auto below = [&](node_id n) { return maker(store.operands(n)[0]); };
  const auto sink = nodes.back();
  const auto left_end = maker(store.operands(sink)[0]);
  const auto right_end = maker(store.operands(sink)[1]);
  auto near = left_end;
  for (int i = 0; i < 500; ++i) {
    near = below(near);
  }
  CHECK(view.depends(store, left_end, near));
  CHECK(!view.depends(store, right_end, near));
  CHECK(!view.depends(store, near, right_end));
  auto far = near;
  for (int i = 0; i < 5000; ++i) {
    far = below(far);
  }
  CHECK(view.depends(store, left_end, far));
  CHECK(view.depends(store, right_end, far));  // too far to tell: yes is the safe answer
}

TEST_CASE("state_view agrees with a plain search on definitions and uses and dependences", "[law]") {
  state_view view;  // one view for all graphs: nothing of an earlier graph may remain
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    node_store<circuits> store{circuits{}};
    const auto nodes = intern_graph(store, random_circuit(random, 4, 1 + random.below(90)));
    view.load(store, nodes);
    REQUIRE(std::vector(view.nodes().begin(), view.nodes().end()) == nodes);
    std::vector<std::set<node_id>> below(store.node_count());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      REQUIRE(view.live(nodes[i]));
      REQUIRE(view.position(nodes[i]) == i);
      for (std::uint32_t k = 0; k < store.operands(nodes[i]).size(); ++k) {
        const auto v = store.operands(nodes[i])[k];
        const auto d = view.definition(v);
        const auto results = store.results(d);
        REQUIRE(std::find(results.begin(), results.end(), v) != results.end());
        std::size_t listed = 0;
        for (const auto& u : view.users(v)) {
          REQUIRE(store.operands(u.node)[u.operand] == v);
          listed += u.node == nodes[i] && u.operand == k ? 1 : 0;
        }
        REQUIRE(listed == 1);
        below[nodes[i].index()].insert(below[d.index()].begin(), below[d.index()].end());
      }
      below[nodes[i].index()].insert(nodes[i]);
    }
    std::size_t uses = 0;
    std::size_t operands = 0;
    for (const auto n : nodes) {
      operands += store.operands(n).size();
      for (const auto v : store.results(n)) {
        uses += view.use_count(v);
      }
      for (const auto m : nodes) {
        // The view may say that any node with operands depends on a source.
        const bool may = store.operands(m).empty() && !store.operands(n).empty();
        REQUIRE(view.depends(store, n, m) == (may || below[n.index()].contains(m)));
      }
    }
    REQUIRE(uses == operands);

    std::vector<node_id> among;
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(among), [&](node_id) { return random.below(3) != 0; });
    std::vector<std::pair<std::size_t, std::size_t>> apart;
    for (std::size_t i = 0; i < among.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!view.depends(store, among[i], among[j]) && !view.depends(store, among[j], among[i])) {
          apart.emplace_back(i, j);
        }
      }
    }
    std::vector<std::pair<std::size_t, std::size_t>> visited;
    view.visit_pairs_apart(store, among, [&](std::size_t i, std::size_t j) { visited.emplace_back(i, j); });
    REQUIRE(visited == apart);
  }
}

TEST_CASE("state_view::visit_pairs_apart visits only the near pairs of more than 256 nodes") {
  random_engine random{5};
  node_store<circuits> store{circuits{}};
  const auto nodes = intern_graph(store, random_circuit(random, 4, 400));
  state_view view;
  view.load(store, nodes);
  std::vector<node_id> among;  // the nodes with operands
  std::vector<std::set<node_id>> below(store.node_count());
  for (const auto n : nodes) {
    for (const auto v : store.operands(n)) {
      const auto d = view.definition(v);
      below[n.index()].insert(d);
      below[n.index()].insert(below[d.index()].begin(), below[d.index()].end());
    }
    if (!store.operands(n).empty() && n != nodes.back()) {
      among.push_back(n);
    }
  }
  REQUIRE(among.size() > 256);
  std::vector<std::pair<std::size_t, std::size_t>> apart;
  std::size_t dependent = 0;
  for (std::size_t i = 0; i < among.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (i - j < state_view::few_neighbours) {
        const bool depends = below[among[i].index()].contains(among[j]);
        dependent += depends ? 1 : 0;
        if (!depends) {
          apart.emplace_back(i, j);
        }
      }
    }
  }
  std::vector<std::pair<std::size_t, std::size_t>> visited;
  view.visit_pairs_apart(store, among, [&](std::size_t i, std::size_t j) { visited.emplace_back(i, j); });
  CHECK(visited == apart);
  CHECK(apart.size() > among.size());
  CHECK(dependent > 10);
}

TEST_CASE("state_view reports nodes outside the state and unknown ids as not live") {
  node_store<circuits> store{circuits{}};
  const auto zero = store.cons(store.intern(gate{gate::form::zero, {}}), {}).value();
  const auto n = store.cons(store.intern(gate{gate::form::negation, {}}), store.results(zero)).value();
  state_view view;
  view.load(store, std::vector{zero});
  CHECK(view.live(zero));
  CHECK_FALSE(view.live(n));
  CHECK_FALSE(view.definition(store.results(n)[0]).valid());
  CHECK(view.users(store.results(zero)[0]).empty());
  CHECK_FALSE(view.live(node_id{100000U}));
  CHECK_FALSE(view.definition(value_id{100000U}).valid());
  view.load(store, std::vector{zero, n});
  CHECK(view.live(n));
  CHECK(view.users(store.results(zero)[0]).size() == 1);
  view.load(store, {});
  CHECK_FALSE(view.live(zero));
  CHECK(view.use_count(store.results(zero)[0]) == 0);
}

TEST_CASE("loading a state with users before operands violates a precondition") {
  node_store<circuits> store{circuits{}};
  const auto zero = store.cons(store.intern(gate{gate::form::zero, {}}), {}).value();
  const auto n = store.cons(store.intern(gate{gate::form::negation, {}}), store.results(zero)).value();
  const auto result = in_child([&] {
    state_view view;
    view.load(store, std::vector{n, zero});
  });
  CHECK(result.aborted);
  CHECK_THAT(result.messages, Catch::Contains("operands that are results of earlier nodes"));
}

}  // namespace tests_of_state_view
