#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/search/backtracking.hpp>
#include <unity/search/rewrite_space.hpp>

#include "../support/circuits.hpp"
#include "../support/matrices.hpp"
#include "../support/space_laws.hpp"

namespace tests_of_duplicates {

using namespace unity;
using namespace unity::test;

namespace {

using circuit_space = rewrite_space<circuits, gate_count>;

cost_value least(const circuit& g, std::string_view rules = "") {
  circuit_space space{circuits{}, gate_count{}, compile_rules(circuits{}, parse_rules(rules)), g};
  const auto truth = test::meaning(space.graph(space.initial()));
  const auto r = backtracking(space);
  CHECK(structural_fault(space, r.best) == "");
  CHECK(test::meaning(space.graph(r.best)) == truth);
  return r.cost;
}

}  // namespace

TEST_CASE("common subexpressions are merged together with their equal readers") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto g =
      b.build({b.negation(b.conjunction(x, y)), b.negation(b.conjunction(y, x)), b.negation(b.conjunction(x, y))});
  CHECK(least(g) == 6);
}

TEST_CASE("merging duplicate nodes redirects the readers of each result") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto one = b.half_adder(x, y);
  const auto two = b.half_adder(y, x);
  CHECK(least(b.build({one[0], two[1], b.conjunction(one[1], two[0])})) == 14);
}

TEST_CASE("a node that reads one value twice is not its own duplicate") {
  circuit_builder b;
  const auto x = b.input('a');
  circuit_space space{circuits{}, gate_count{}, {}, b.build({b.conjunction(x, x)})};
  CHECK(space.moves(space.initial()).empty());
}

TEST_CASE("nodes with different operand order or attributes are not duplicates") {
  matrix_builder b;
  const auto x = b.input('a', 2, 2);
  const auto y = b.input('b', 2, 2);
  const auto g = b.build({b.matmul(x, y), b.matmul(y, x), b.scale(2, x), b.scale(3, x)});
  rewrite_space<matrices, matrix_cost> space{matrices{}, matrix_cost{}, {}, g};
  CHECK(space.moves(space.initial()).empty());
}

TEST_CASE("a duplicate created by a rewrite is merged") {
  circuit_builder b;
  const auto x = b.input('a');
  const auto y = b.input('b');
  const auto nn = b.negation(b.negation(y));
  CHECK(least(b.build({b.conjunction(x, y), b.conjunction(x, nn)}), "rule r not(not(?x)) => ?x") == 4);
}

TEST_CASE("merging until no move is left leaves no duplicate nodes", "[law]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    random_engine random{seed};
    circuit_space space{circuits{}, gate_count{}, {}, random_circuit(random, 2, 25)};
    circuit_space::scratch_type from;
    circuit_space::scratch_type to;
    auto s = space.initial();
    const auto truth = test::meaning(space.graph(s));
    while (!space.moves(s).empty()) {
      const auto m = space.moves(s)[random.below(space.moves(s).size())];
      space.prepare(s, from);
      const auto c = space.price(s, m, from);
      REQUIRE(c);
      auto next = space.apply(s, m, from, to);
      REQUIRE(structural_fault(space, next) == "");
      REQUIRE(space.cost(next) == c->cost);
      REQUIRE(c->cost <= space.cost(s));
      s = std::move(next);
    }
    REQUIRE(test::meaning(space.graph(s)) == truth);
    std::set<std::pair<operator_id, std::vector<value_id>>> met;
    for (const auto n : s.nodes) {
      const auto operands = space.store().operands(n);
      REQUIRE(met.emplace(space.store().op(n), std::vector(operands.begin(), operands.end())).second);
    }
  }
}

}  // namespace tests_of_duplicates
