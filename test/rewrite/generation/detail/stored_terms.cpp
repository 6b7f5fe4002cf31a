#include <unity/rewrite/generation/detail/enumeration_checkpoint.hpp>

#include <cstddef>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/enumerate.hpp>

#include "../../../support/polynomial_terms.hpp"

namespace tests_of_stored_terms {

using namespace unity;
using unity::test::polynomial_terms;

TEST_CASE("stored_term_check accepts stored terms and rules and refuses altered terms") {
  polynomial_terms language;
  enumeration<polynomial_terms> e{language, {.most_operators = 3, .variables = 3}};
  e.run();
  const auto& store = e.store();
  stored_term_check check{language, store, 3};
  REQUIRE(store.size() > 10);
  for (orbit_id id = 1; id < store.size(); ++id) {
    const auto& o = store[id];
    CAPTURE(id);
    CHECK(check.is_term(o.term, o.facts));
    CHECK(check.are_renamings(store.automorphisms(o), o.facts));
    auto facts = o.facts;
    ++facts.repeats;
    CHECK_FALSE(check.is_term(o.term, facts));
    auto t = o.term;
    t.op = 3;
    CHECK_FALSE(check.is_term(t));
    t = o.term;
    ++t.arity;
    CHECK_FALSE(check.is_term(t));
    if (o.term.arity == 2) {
      t = o.term;
      t.operands[1].orbit = static_cast<orbit_id>(store.size());
      CHECK_FALSE(check.is_term(t));
      t = o.term;
      t.operands[1].map.set(store[t.operands[1].orbit].facts.variables, 1);  // of no variable
      CHECK_FALSE(check.is_term(t));
    }
  }
  REQUIRE_FALSE(e.rules().empty());
  for (const auto& r : e.rules()) {
    CHECK(check.is_term(r.left, r.facts));
    CHECK(check.is_over(r.right, r.facts));
  }
}

TEST_CASE("stored_term_check requires variables numbered by first occurrence") {
  polynomial_terms language;
  enumeration<polynomial_terms> e{language, {.most_operators = 1, .variables = 3}};
  stored_term_check check{language, e.store(), 3};
  const auto sum_of = [](std::size_t left, std::size_t right) {
    stored_term t{1, 2, {}};
    t.operands[0].map.set(0, left);
    t.operands[1].map.set(0, right);
    return t;
  };
  CHECK(check.is_term(sum_of(0, 0)));
  CHECK(check.is_term(sum_of(0, 1)));
  CHECK_FALSE(check.is_term(sum_of(0, 2)));
  CHECK_FALSE(check.is_term(sum_of(1, 0)));
  CHECK_FALSE(stored_term_check{language, e.store(), 1}.is_term(sum_of(0, 1)));
}

TEST_CASE("stored_term_check requires renamings to be permutations within sorts") {
  term_facts facts;
  facts.variables = 2;
  using check = stored_term_check<polynomial_terms>;
  const auto identity = variable_map::identity().cut(2);
  variable_map swapped;
  swapped.set(0, 1);
  CHECK(check::are_renamings(std::vector{identity, swapped}, facts));
  CHECK_FALSE(check::are_renamings(std::vector<variable_map>{}, facts));
  CHECK_FALSE(check::are_renamings(std::vector{swapped, identity}, facts));
  CHECK_FALSE(check::are_renamings(std::vector{identity, variable_map{}}, facts));
  facts.sorts.set(1, 1);
  CHECK_FALSE(check::are_renamings(std::vector{identity, swapped}, facts));
}

}  // namespace tests_of_stored_terms
