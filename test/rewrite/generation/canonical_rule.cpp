#include <unity/rewrite/generation/redundancy.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/parse.hpp>

#include "../../support/circuits.hpp"
#include "../../support/matrices.hpp"

namespace tests_of_canonical_rule {

using namespace unity;
using namespace unity::test;

namespace {

syntax::rule rule(std::string_view text) { return parse_rules("rule r " + std::string{text}).at(0); }
std::string canonical(std::string_view text) { return statement_text(canonical_rule(circuits{}, rule(text))); }

// Randomly swaps operands of commutative operators, outputs and sides, and renames variables.
syntax::rule shuffled(const syntax::rule& r, random_engine& random) {
  auto g = to_graph(circuits{}, r);
  for (auto* side : {&g.source, &g.target}) {
    for (auto& n : side->nodes) {
      if (n.operands.size() == 2 && random.below(2) == 0) {
        std::swap(n.operands[0], n.operands[1]);
      }
      for (auto& o : n.operands) {
        o.variable = o.is_node() ? "" : "other_" + o.variable;
      }
    }
    for (auto& root : side->roots) {
      root.variable = root.is_node() ? "" : "other_" + root.variable;
    }
  }
  if (g.source.roots.size() == g.target.roots.size() && random.below(2) == 0) {
    std::reverse(g.source.roots.begin(), g.source.roots.end());
    std::reverse(g.target.roots.begin(), g.target.roots.end());
  }
  if (g.rest.both_ways && random.below(2) == 0) {
    std::swap(g.source, g.target);
  }
  return to_rule(circuits{}, std::move(g));
}

}  // namespace

TEST_CASE("canonical rules rename variables by order of appearance") {
  CHECK(canonical("and(?second, not(?first)) => or(?first, ?second)") == canonical("and(?b, not(?a)) => or(?a, ?b)"));
  CHECK(canonical("not(not(?q)) => ?q") == statement_text(rule("not(not(?x)) => ?x")));
}

TEST_CASE("canonical rules have parts in place of their names") {
  const auto named = canonical("and(?y@not(?x), or(?x, ?z)) => and(?y, or(?z, ?x))");
  CHECK(named == canonical("and(not(?x), or(?x, ?z)) => and(not(?x), or(?z, ?x))"));
  CHECK(named != canonical("and(not(?x), ?y@or(?x, ?z)) => and(?y, or(?z, ?x))"));
}

TEST_CASE("equivalent spellings of a rule have one canonical text", "[law]") {
  const auto seed = GENERATE(1U, 2U, 3U);
  CAPTURE(seed);
  random_engine random{seed};
  for (const auto& r : parse_rules(circuit_rules)) {
    INFO(to_text(r));
    const auto expected = statement_text(canonical_rule(circuits{}, r));
    for (int i = 0; i < 8; ++i) {
      CHECK(statement_text(canonical_rule(circuits{}, shuffled(r, random))) == expected);
    }
    CHECK(statement_text(canonical_rule(circuits{}, canonical_rule(circuits{}, r))) == expected);
  }
}

TEST_CASE("a canonical equality puts its larger side first and a one-way rule keeps its direction") {
  CHECK(canonical("?x == not(not(?x))") == canonical("not(not(?x)) == ?x"));
  CHECK(canonical("not(?x) == not(not(not(?x)))").starts_with("rule \n  not(not(not(?x))) =="));
  CHECK(canonical("and(?x, ?x) => ?x") != canonical("?x => and(?x, ?x)"));
}

TEST_CASE("different rules have different canonical texts") {
  CHECK(canonical("and(?x, ?y) => or(?x, ?y)") != canonical("and(?x, ?y) => xor(?x, ?y)"));
  CHECK(canonical("and(?x, ?x) => ?x") != canonical("and(?x, ?y) => ?x"));
  CHECK(canonical("and(?x, not(?y)) => ?x") != canonical("and(?x, not(?y)) => ?y"));
}

TEST_CASE("an operator as a side of a canonical rule equals the list of its results") {
  const auto texts = {canonical("half_adder(?x, ?y) == (xor(?x, ?y), and(?x, ?y))"),
                      canonical("(half_adder(?x, ?y).0, half_adder(?x, ?y).1) == (xor(?x, ?y), and(?y, ?x))"),
                      canonical("(half_adder(?x, ?y).1, half_adder(?x, ?y).0) == (and(?x, ?y), xor(?x, ?y))")};
  for (const auto& t : texts) {
    CHECK(t == *texts.begin());
  }
}

TEST_CASE("equivalent lists of conditions have one canonical text") {
  const auto text = [](std::string_view conditions) {
    return statement_text(
        canonical_rule(matrices{}, rule("transpose(transpose(?x)) => ?x if " + std::string{conditions})));
  };
  CHECK(text("rows(?x) == 3, columns(?x) == rows(?x)") ==
        text("rows(?x) == columns(?x), 3 == rows(?x), rows(?x) == 3"));
}

}  // namespace tests_of_canonical_rule
