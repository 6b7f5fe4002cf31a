#include <unity/rewrite/generation/term_store.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/enumerate.hpp>

#include "../../support/boolean_terms.hpp"

namespace tests_of_written {

using namespace unity;
using namespace unity::test;

TEST_CASE("write_term lists operands before users and each node once") {
  boolean_terms language{{gate_form::negation, gate_form::conjunction, gate_form::difference}, 5};
  enumeration<boolean_terms> e{language, {.most_operators = 5, .variables = 5}};
  for (int size = 0; size < 4; ++size) {
    e.advance();
  }
  for (orbit_id id = 1; id < e.store().size(); ++id) {
    const auto& o = e.store()[id];
    const auto names = variable_map::identity().cut(o.facts.variables);
    const auto t = write_term(e.store(), o.term, o.facts.sorts, names);
    std::size_t operators = 0;
    for (std::size_t n = 0; n < t.size(); ++n) {
      CHECK(std::all_of(t[n].operands.begin(), t[n].operands.end(), [&](std::uint32_t p) { return p < n; }));
      CHECK(std::find(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(n), t[n]) ==
            t.begin() + static_cast<std::ptrdiff_t>(n));
      operators += t[n].op != term_node::variable ? 1U : 0U;
    }
    CHECK(operators == o.facts.size);
    CHECK(t.size() == operators + o.facts.variables);
    CHECK(t.back().op == o.term.op);
  }
}

TEST_CASE("write_terms numbers variables within their sorts") {
  const std::vector<std::uint16_t> sorts{0, 1};
  term_store store{sorts};
  term_facts facts;
  facts.variables = 3;
  facts.sorts.set(0, 1);
  facts.sorts.set(1, 0);
  facts.sorts.set(2, 1);
  variable_map third;
  third.set(0, 2);
  const stored_term t{5, 2, {term_instance{1, variable_map{}}, term_instance{1, third}}};
  const auto written = write_terms(store, {&t, 1}, facts)[0];
  REQUIRE(written.size() == 3);
  CHECK(written[0] == term_node{term_node::variable, 1, 0, {}});
  CHECK(written[1] == term_node{term_node::variable, 1, 1, {}});
  CHECK(written[2] == term_node{5, 0, 0, {0, 1}});
}

}  // namespace tests_of_written
