// The effect of one rewrite on one state: cases that once went wrong, or are easy to get wrong.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/circuits.hpp"
#include "../support/matrices.hpp"
#include "../support/space_laws.hpp"

namespace tests_of_rewrite_effect {

using namespace unity;
using namespace unity::test;

namespace {

template <class Algebra, class Model>
struct fixture {
  using space_type = rewrite_space<Algebra, Model>;
  space_type space;
  typename space_type::state_type state;
  typename space_type::scratch_type from{};
  typename space_type::scratch_type to{};

  template <class Graph>
  fixture(std::string_view rules, const Graph& g)
      : space{Algebra{}, Model{}, compile_rules(Algebra{}, parse_rules(rules)), g}, state{space.initial()} {}

  std::vector<match_id> moves(std::string_view rule) {
    std::vector<match_id> named;
    std::copy_if(space.moves(state).begin(), space.moves(state).end(), std::back_inserter(named),
                 [&](match_id m) { return space.rule_of(m).name == rule; });
    return named;
  }
  // The moves of the rule that apply.
  std::vector<match_id> valid(std::string_view rule) {
    auto all = moves(rule);
    space.prepare(state, from);
    std::erase_if(all, [&](match_id m) { return !space.price(state, m, from); });
    return all;
  }
  void apply(match_id m) {
    const auto truth = meaning(space.graph(state));
    auto next = space.apply(state, m, from, to);
    REQUIRE(structural_fault(space, next) == "");
    REQUIRE(space.cost(next) == recomputed(space, next).cost);
    REQUIRE(meaning(space.graph(next)) == truth);
    state = std::move(next);
  }
  void apply(std::string_view rule) {
    CAPTURE(rule);
    const auto all = valid(rule);
    REQUIRE(all.size() == 1);
    apply(all[0]);
  }
  // The number of operators of this kind in the state.
  std::size_t count(std::string_view kind) const {
    const auto& store = space.store();
    return static_cast<std::size_t>(std::count_if(state.nodes.begin(), state.nodes.end(), [&](node_id n) {
      return store.op(n).valid() && store.algebra().signature(store.kind(n)).name == kind;
    }));
  }
};
using circuit_fixture = fixture<circuits, gate_count>;
using matrix_fixture = fixture<matrices, matrix_cost>;

}  // namespace

TEST_CASE("a merge that would close a cycle does not apply") {
  // Jia's dissertation, figure 2.6: A x B and A x relu(A x B) cannot become one product.
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto first = b.matmul(x, b.input('b', 2, 2));
  const auto second = b.matmul(x, b.power(0, first));
  const auto third = b.matmul(x, b.input('c', 2, 2));
  matrix_fixture f{
      "rule pair (matmul(?x, ?y), matmul(?x, ?z)) => split{axis=1, sizes=[size(?y, 1), size(?z, 1)]}(matmul(?x, "
      "concat{axis=1}(?y, ?z)))",
      b.build({second, third})};
  CHECK(f.moves("pair").size() == 3);
  const auto valid = f.valid("pair");
  REQUIRE(valid.size() == 2);
  f.apply(valid[0]);
  CHECK(f.count("matmul") == 2);
  CHECK(f.valid("pair").empty());  // of the two products left, one depends on the other
}

TEST_CASE("a merging rule does not match siblings that depend on each other") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto first = b.matmul(x, b.input('b', 2, 2));
  matrix_fixture f{
      "rule merge matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))",
      b.build({b.matmul(x, b.power(0, first))})};
  CHECK(f.moves("merge").empty());
}

TEST_CASE("a rewrite whose target contains its source does not apply") {
  circuit_builder b;
  const auto n = b.negation(b.input('a'));
  circuit_fixture f{"rule thrice not(?x) => not(not(not(?x)))\n"
                    "rule twice and(?x, ?y) => and(and(?x, ?y), and(?x, ?y))",
                    b.build({b.conjunction(n, b.input('b'))})};
  CHECK(f.valid("thrice").empty());
  CHECK(f.valid("twice").empty());
}

TEST_CASE("a rewrite of two roots applies only if its new roots form no cycle") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  circuit_fixture cyclic{
      "rule r (and(?x, ?y), or(?x, ?y)) => (and(or(?x, ?y), and(?x, ?y)), or(or(?x, ?y), and(?x, ?y)))",
      b.build({b.conjunction(x, y), b.disjunction(x, y)})};
  CHECK(cyclic.valid("r").empty());
  circuit_builder c;
  const auto z = c.input('a');
  const auto w = c.input('b');
  circuit_fixture one_way{
      "rule r (and(?x, ?y), or(?x, ?y)) => (and(?x, and(?x, ?y)), or(?x, and(?x, and(?y, or(?x, ?y)))))",
      c.build({c.conjunction(z, w), c.disjunction(z, w)})};
  CHECK(one_way.valid("r").empty());  // and(x, y) would be its own operand
  circuit_builder d;
  const auto u = d.input('a');
  const auto v = d.input('b');
  circuit_fixture fine{
      "rule r (and(?x, ?y), or(?x, ?y)) => (not(not(and(?x, not(not(?y))))), or(?x, or(?y, and(?x, ?y))))",
      d.build({d.conjunction(u, v), d.disjunction(u, v)})};
  REQUIRE_FALSE(fine.valid("r").empty());
  fine.apply(fine.valid("r")[0]);
  CHECK(fine.count("and") == 1);  // the new or reads the new definition of the conjunction
}

TEST_CASE("a new root that only the other replaced root read is dropped") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto n = b.negation(x);
  circuit_fixture f{"rule r (not(?x), or(not(?x), ?y)) => (xor(?x, one()), not(and(?x, not(?y))))",
                    b.build({b.disjunction(n, y)})};
  f.apply("r");
  CHECK(f.count("xor") == 0);
  CHECK(f.count("one") == 0);
}

TEST_CASE("an aliasing rewrite removes nodes that have no readers left") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto one = b.conjunction(x, x);
  // The second root, the only reader of the first, is replaced by y, so that x is needed no more.
  circuit_fixture f{"rule r (and(?x, ?x), or(?y, xor(and(?x, ?x), ?x))) => (?x, ?y)",
                    b.build({b.disjunction(y, b.difference(one, x))})};
  f.apply("r");
  CHECK(f.count("input") == 1);
  CHECK(f.space.cost(f.state) == 0);
}

TEST_CASE("an alias replaces a value in each reader and output") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto nn = b.negation(b.negation(x));
  circuit_fixture f{"rule double_negation not(not(?x)) => ?x",
                    b.build({nn, b.conjunction(nn, nn), b.disjunction(b.input('b'), nn), nn})};
  f.apply("double_negation");
  CHECK(f.count("not") == 0);
  CHECK(f.space.cost(f.state) == 8);
}

TEST_CASE("a rewrite shares existing nodes and keeps nodes with other readers") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto either = b.disjunction(x, y);
  const auto nx = b.negation(x);
  circuit_fixture f{"rule de_morgan and(not(?x), not(?y)) => not(or(?x, ?y))",
                    b.build({b.conjunction(nx, b.negation(y)), either, nx})};
  f.apply("de_morgan");
  CHECK(f.count("or") == 1);
  CHECK(f.count("and") == 0);
  CHECK(f.count("not") == 2);  // not(x), which is an output, and the negation of the disjunction
}

TEST_CASE("a rewrite that drops a result with readers does not apply") {
  circuit_builder b;
  const auto [sum, carry] = b.half_adder(b.input('a'), b.input('b'));
  const std::string_view rules =
      "rule only_sum half_adder(?x, ?y).0 => xor(?x, ?y)\n"
      "rule only_carry half_adder(?x, ?y).1 => and(?x, ?y)";
  circuit_fixture both{rules, b.build({sum, carry})};
  CHECK(both.valid("only_sum").empty());
  CHECK(both.valid("only_carry").empty());
  circuit_fixture one{rules, b.build({carry})};
  CHECK(one.valid("only_sum").empty());
  one.apply("only_carry");
  CHECK(one.count("half_adder") == 0);
}

TEST_CASE("a rewrite that would define a value twice does not apply") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto [sum, carry] = b.half_adder(x, y);
  // The half adder is replaced by separate definitions of its results, and the sum is removed. Then a target needs the
  // sum again, which exists only together with a carry.
  circuit_fixture f{"rule apart half_adder(?x, ?y) => (xor(?x, ?y), and(?x, ?y))\n"
                    "rule again or(?x, ?y) => or(half_adder(?x, ?y).0, half_adder(?x, ?y).1)\n"
                    "rule either or(xor(?x, ?y), and(?x, ?y)) => or(?x, ?y)",
                    b.build({b.disjunction(sum, carry), carry})};
  f.apply("apart");
  f.apply("either");
  CHECK(f.count("xor") == 0);
  CHECK(f.count("and") == 1);
  CHECK(f.moves("again").size() == 1);
  CHECK(f.valid("again").empty());
}

TEST_CASE("two replaced roots that become equal share one definition") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto z = b.input('c');
  circuit_fixture f{
      "rule r (and(?x, and(?y, ?z)), and(and(?x, ?y), ?z)) => (and(and(?x, ?y), ?z), and(and(?x, ?y), ?z))",
      b.build({b.conjunction(x, b.conjunction(y, z)), b.negation(b.conjunction(b.conjunction(x, y), z))})};
  REQUIRE_FALSE(f.valid("r").empty());
  f.apply(f.valid("r")[0]);
  CHECK(f.count("and") == 2);
}

TEST_CASE("a match of unrelated roots is found after a rewrite removes their dependence") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto n = b.negation(x);
  // not(not(a) & 0 | b) depends on not(a) until and_zero replaces the conjunction.
  const auto m = b.negation(b.disjunction(b.conjunction(n, b.zero()), y));
  circuit_fixture f{"rule pair (not(?x), not(?y)) => (xor(?x, one()), xor(?y, one()))\n"
                    "rule and_zero and(?x, zero()) => zero()",
                    b.build({n, m})};
  CHECK(f.valid("pair").empty());
  f.apply("and_zero");
  f.apply("pair");
  CHECK(f.count("xor") == 2);
}

TEST_CASE("seven sibling products merge into one and separate again at the same cost") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  std::vector<value_id> products;
  for (char name = 'b'; name < 'i'; ++name) {
    products.push_back(b.matmul(x, b.input(name, 2, 1 + name % 3)));
  }
  matrix_fixture f{
      "rule merge matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))\n"
      "rule part split{axis=1, sizes=?s}(matmul(?x, ?w)) => matmul(?x, split{axis=1, sizes=?s}(?w).*)...\n"
      "rule split_concat split{axis=?a, sizes=?s}(concat{axis=?a}(??x...)) => ??x... if ?s == [size(??x, ?a)...]",
      b.build(products)};
  const auto before = f.space.cost(f.state);
  f.apply("merge");
  CHECK(f.count("matmul") == 1);
  CHECK(f.space.cost(f.state) < before);
  f.apply("part");
  CHECK(f.count("matmul") == 7);
  f.apply("split_concat");
  CHECK(f.count("concat") == 0);
  CHECK(f.space.cost(f.state) == before);
}

TEST_CASE("a set of siblings that lost a member is matched again without it") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto products = std::vector{b.matmul(x, y), b.matmul(x, b.input('c', 2, 2)), b.matmul(x, b.input('d', 2, 2))};
  const auto sum = b.scale(2, products[0]);
  matrix_fixture f{
      "rule merge matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, concat{axis=1}(??w...)))\n"
      "rule inner scale{by=2}(matmul(?x, ?y)) => matmul(scale{by=2}(?x), ?y)",
      b.build({sum, products[1], products[2]})};
  f.apply("inner");
  REQUIRE(f.valid("merge").size() == 1);
  f.apply("merge");
  CHECK(f.count("matmul") == 2);
}

}  // namespace tests_of_rewrite_effect
