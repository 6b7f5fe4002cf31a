#include <unity/rewrite/generation/naming.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/generation/enumerate.hpp>
#include <unity/rewrite/generation/term_store.hpp>

#include "../../support/boolean_terms.hpp"

namespace tests_of_naming {

using namespace unity;
using namespace unity::test;

namespace {

const std::vector<gate_form> gates{gate_form::zero, gate_form::negation, gate_form::conjunction, gate_form::disjunction,
                                   gate_form::difference};

// Stored terms of up to three gates, with the symmetries of their functions.
struct stored_terms {
  boolean_terms language{gates, 5};
  enumeration<boolean_terms> terms{language, {.most_operators = 4, .variables = 5}};
  stored_terms() {
    for (int size = 0; size < 3; ++size) {
      terms.advance();
    }
  }
};
const term_store& store() {
  static const stored_terms stored;
  return stored.terms.store();
}

variable_map random_names(random_engine& random, std::size_t count, std::size_t of) {
  std::array<std::size_t, 6> names{};
  std::iota(names.begin(), names.end(), std::size_t{0});
  variable_map m;
  for (std::size_t i = 0; i < count; ++i) {
    std::swap(names[i], names[i + random.below(of - i)]);
    m.set(i, names[i]);
  }
  return m;
}
term_instance random_instance(random_engine& random) {
  const auto id = static_cast<orbit_id>(random.below(store().size()));
  return {id, random_names(random, store()[id].facts.variables, 6)};
}
term_instance renamed(term_instance i, variable_map by) {
  return {i.orbit, i.map.then(by, store()[i.orbit].facts.variables)};
}
term_instance turned(random_engine& random, term_instance i) {
  const auto& o = store()[i.orbit];
  const auto all = store().automorphisms(o);
  return {i.orbit, all[random.below(all.size())].then(i.map, o.facts.variables)};
}
std::uint64_t table_of(const stored_term& t, variable_map names) {
  return truth_table(gates, write_term(store(), t, sort_list{}, names));
}
std::uint64_t table_of(std::uint16_t op, term_instance a, term_instance b) {
  return table_of(stored_term{op, 2, {a, b}}, variable_map::identity());
}
std::size_t count_namings(std::uint8_t left, std::uint8_t right, std::vector<std::int8_t> forced, std::size_t most) {
  term_facts l;
  l.variables = left;
  term_facts r;
  r.variables = right;
  std::vector<std::uint32_t> all;
  for_each_naming(l, r, forced, most, [&](variable_map map, std::size_t variables) {
    all.push_back(map.bits());
    CHECK(variables <= most);
  });
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  return all.size();
}

}  // namespace

TEST_CASE("the canonical stored term is invariant to renaming and symmetry") {
  const auto seed = std::uint64_t{6};
  CAPTURE(seed);
  random_engine random{seed};
  for (int round = 0; round < 3000; ++round) {
    const auto op = static_cast<std::uint16_t>(2 + random.below(3));
    const bool commutative = random.below(4) != 0;
    const std::array operands{random_instance(random), random_instance(random)};
    const auto c = canonical(store(), op, commutative, operands);
    const auto by = random_names(random, 6, 6);
    const std::array moved{renamed(operands[0], by), renamed(operands[1], by)};
    const std::array symmetric{turned(random, operands[0]), turned(random, operands[1])};
    const std::array swapped{operands[1], operands[0]};
    CHECK(canonical(store(), op, commutative, moved).term == c.term);
    CHECK(canonical(store(), op, commutative, symmetric).term == c.term);
    CHECK((!commutative || canonical(store(), op, commutative, swapped).term == c.term));
    CHECK(canonical(store(), op, commutative, c.term.operands).term == c.term);
    // The canonical form under its names computes the same function as the given term.
    CHECK(table_of(c.term, c.names) == table_of(op, operands[0], operands[1]));
    // No symmetric form shares more operators between its operands.
    CHECK(store().shared(c.term.operands[0], c.term.operands[1]) >= store().shared(symmetric[0], symmetric[1]));
  }
}

TEST_CASE("instances that are equal by symmetry have one canonical name") {
  const auto seed = std::uint64_t{7};
  CAPTURE(seed);
  random_engine random{seed};
  std::size_t symmetric = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto i = random_instance(random);
    const auto least = store().canonical(i);
    CHECK(store().canonical(turned(random, i)) == least);
    CHECK(store().canonical(least) == least);
    symmetric += store()[i.orbit].automorphism_count > 1 ? 1U : 0U;
  }
  CHECK(symmetric > 100);
}

TEST_CASE("symmetries of stored terms form groups that keep the function") {
  for (orbit_id id = 1; id < store().size(); ++id) {
    const auto& o = store()[id];
    const auto identity = variable_map::identity().cut(o.facts.variables);
    const auto group = store().automorphisms(o);
    const std::size_t count = o.facts.variables;
    CHECK(group[0].cut(count) == identity);
    for (const auto a : group) {
      CHECK(table_of(o.term, a) == table_of(o.term, identity));
      for (const auto b : group) {
        CHECK(std::count_if(group.begin(), group.end(), [&](variable_map g) {
                return g.cut(count) == a.then(b, count);
              }) == 1);
      }
    }
    for (const auto plain : plain_symmetries(store(), o.term, o.term.arity == 2)) {
      CHECK(std::any_of(group.begin(), group.end(), [&](variable_map g) { return g.cut(count) == plain.cut(count); }));
    }
  }
}

TEST_CASE("for_each_naming enumerates each identification of variables once") {
  // Partial injective maps from the variables of the right term to those of the left term.
  CHECK(count_namings(2, 2, {}, 4) == 1 + 4 + 2);
  CHECK(count_namings(2, 2, {}, 3) == 4 + 2);
  CHECK(count_namings(2, 2, {}, 2) == 2);
  CHECK(count_namings(3, 2, {}, 8) == 1 + 6 + 6);
  CHECK(count_namings(0, 3, {}, 8) == 1);
  CHECK(count_namings(3, 0, {}, 8) == 1);
  CHECK(count_namings(2, 2, {1, -1}, 4) == 2);
  CHECK(count_namings(2, 2, {1, 0}, 4) == 1);
}

}  // namespace tests_of_naming
