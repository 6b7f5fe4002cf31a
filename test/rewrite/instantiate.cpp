// From bindings to the effect of a match: conditions, attribute expressions, targets.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/match_store.hpp>
#include <unity/rewrite/matcher.hpp>
#include <unity/rewrite/node_store.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_graph.hpp>

#include "../support/matrices.hpp"

namespace tests_of_instantiate {

using namespace unity;
using namespace unity::test;

namespace {

// All matches of some rules in a graph.
struct fixture {
  using store_type = node_store<matrices>;
  store_type store{matrices{}};
  rule_set rules;
  rule_index index;
  match_store<store_type> matches;
  std::vector<node_id> nodes;
  std::vector<match_id> found;

  fixture(std::string_view text, const matrix_graph& g)
      : rules{compile_rules(matrices{}, parse_rules(text))}, index{rules, store}, nodes{intern_graph(store, g)} {
    search();
  }
  void search() {
    found.clear();
    state_view view;
    view.load(store, nodes);
    matcher<store_type> find;
    std::set<match_id> all;
    for (const auto n : nodes) {
      find.match(store, index, view, n, [&](const bindings& b) {
        if (const auto m = matches.intern(store, index, b)) {
          all.insert(*m);
        }
      });
    }
    found.assign(all.begin(), all.end());
  }
  const matrix_op& made(match_id m, std::size_t i = 0) const {
    return store.operation(store.op(matches.defining(matches.record(m), i)));
  }
};

}  // namespace

TEST_CASE("target attributes are computed from bindings of the source") {
  matrix_builder b;
  const auto x = b.input('a', 2, 3);
  const auto g = b.build({b.scale(3, b.scale(5, x))});
  fixture f{"rule r scale{by=?j}(scale{by=?k}(?x)) => scale{by=?j * ?k + size(?x, 1)}(?x)", g};
  REQUIRE(f.found.size() == 1);
  CHECK(f.made(f.found[0]).attributes.at(0) == attribute{18});
}

TEST_CASE("a rule does not match if a condition is false or has no value") {
  matrix_builder b;
  const auto g = b.build({b.scale(3, b.input('a', 2, 2))});
  const auto applies = [&](const std::string& condition) {
    return fixture{"rule r scale{by=?k}(?x) => transpose(?x) if " + condition, g}.found.size();
  };
  CHECK(applies("?k == 3") == 1);
  CHECK(applies("?k == 3, rows(?x) == 2") == 1);
  CHECK(applies("?k == 3, rows(?x) == 3") == 0);
  CHECK(applies("?k / 0 == 0") == 0);
  CHECK(applies("size(?x, 7) == 2") == 0);
  CHECK(applies("!(?k != 3)") == 1);
}

TEST_CASE("a source attribute can be an expression over bound variables") {
  matrix_builder b;
  const auto x = b.input('a', 2, 3);
  const auto g = b.build({b.scale(3, x), b.scale(2, x)});
  fixture f{"rule r scale{by=size(?x, 1)}(?x) => scale{by=7}(?x)", g};
  REQUIRE(f.found.size() == 1);
  CHECK(f.store.operation(f.store.op(f.matches.node(f.matches.record(f.found[0]), 0))).attributes.at(0) ==
        attribute{3});
}

TEST_CASE("a rewrite that changes nothing or changes a type is not a match") {
  matrix_builder b;
  const auto g = b.build({b.scale(3, b.input('a', 2, 3))});
  CHECK(fixture("rule same scale{by=?k}(?x) => scale{by=?k}(?x)", g).found.empty());
  CHECK(fixture("rule turned scale{by=?k}(?x) => transpose(?x)", g).found.empty());
  CHECK(fixture("rule alias scale{by=?k}(?x) => ?x", g).found.size() == 1);
  CHECK(fixture("rule unfit scale{by=?k}(?x) => matmul(?x, ?x)", g).found.empty());
  CHECK(fixture("rule bad scale{by=?k}(?x) => split{axis=2, sizes=[1]}(?x).0", g).found.empty());
}

TEST_CASE("repeated targets can measure shared and per-repetition values") {
  matrix_builder b;
  const auto x = b.input('a', 5, 2);
  const auto y = b.input('b', 2, 2);
  const auto g = b.build(b.split(0, {2, 3}, b.matmul(x, y)));
  fixture f{"rule r split{sizes=?s}(matmul(?x, ?y)) => scale{by=size(?x, 0)}(split{sizes=?s}(matmul(?x, ?y)).*)...", g};
  REQUIRE(f.found.size() == 1);
  CHECK(f.made(f.found[0], 0).attributes.at(0) == attribute{5});
  CHECK(f.made(f.found[0], 1).attributes.at(0) == attribute{5});

  matrix_builder c;
  const auto z = c.input('a', 2, 2);
  const auto h = c.build({c.matmul(z, c.input('b', 2, 3)), c.matmul(z, c.input('c', 2, 4))});
  fixture e{"rule r matmul(?x, ??w)... => scale{by=size(??w, 1) * size(?x, 0)}(matmul(?x, ??w))...", h};
  REQUIRE(e.found.size() == 1);
  CHECK(e.made(e.found[0], 0).attributes.at(0) == attribute{6});
  CHECK(e.made(e.found[0], 1).attributes.at(0) == attribute{8});
}

TEST_CASE("a condition on an indexed variable must hold in each repetition") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto g = b.build({b.matmul(x, b.input('b', 2, 3)), b.matmul(x, b.input('c', 2, 4))});
  const auto applies = [&](const std::string& condition) {
    return fixture{
        "rule r matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...))) if " +
            condition,
        g}
        .found.size();
  };
  CHECK(applies("size(??w, 1) >= 3") == 1);
  CHECK(applies("size(??w, 1) == 3") == 0);
  CHECK(applies("size(??w, 1) == 4") == 0);
  CHECK(applies("[size(??w, 1)...] == [3, 4] || [size(??w, 1)...] == [4, 3]") == 1);
  CHECK(applies("sum([size(??w, 1)...]) == 7") == 1);
}

TEST_CASE("two roots bound to one value are no match") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto g = b.build({b.matmul(x, x)});
  fixture f{"rule r (matmul(?x, ?y), matmul(?z, ?x)) => (matmul(?x, scale{by=1}(?y)), scale{by=1}(matmul(?z, ?x)))", g};
  CHECK(f.found.empty());
}

TEST_CASE("a repeated search interns no new matches or nodes") {
  random_engine random{7};
  const auto g = random_matrix_graph(random, 4, 25);
  fixture f{matrix_rules, g};
  const auto found = f.found;
  const auto nodes = f.store.node_count();
  const auto values = f.store.value_count();
  const auto size = f.matches.size();
  REQUIRE(size > 5);
  f.search();
  CHECK(f.found == found);
  CHECK(f.store.node_count() == nodes);
  CHECK(f.store.value_count() == values);
  CHECK(f.matches.size() == size);
  CHECK(f.matches.memory() > 0);
}

TEST_CASE("a match records what it reads and replaces and defines") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto z = b.input('c', 2, 2);
  const auto g = b.build({b.matmul(x, b.matmul(y, z))});
  fixture f{"rule r matmul(?x, matmul(?y, ?z)) => matmul(matmul(?x, ?y), ?z)", g};
  REQUIRE(f.found.size() == 1);
  const auto& r = f.matches.record(f.found[0]);
  CHECK(r.nodes == 2);
  CHECK(r.bound == 5);
  CHECK(r.replaced == 1);
  CHECK(r.defining == 1);
  CHECK(r.aliases == 0);
  CHECK(r.cycles == cycle_risk::none);
  const auto made = f.matches.defining(r, 0);
  CHECK(f.store.results(made)[0] == f.matches.replaced(r, 0));
  CHECK(f.store.operation(f.store.op(made)).kind == matrix_op::form::matmul);
}

}  // namespace tests_of_instantiate
