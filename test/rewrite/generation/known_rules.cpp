#include <unity/rewrite/generation/known_rules.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <catch2/catch.hpp>

namespace tests_of_known_rules {

using namespace unity;

namespace {

constexpr std::uint16_t unary = 0;
constexpr std::uint16_t binary = 1;
constexpr std::uint16_t turned = 2;  // commutative

// Two sorts, x of type 0 and y of type 1, and unary(x), stored with type 5.
struct few_terms {
  std::array<std::uint16_t, 2> sorts{0, 1};
  term_store store{sorts};
  term_table table{};
  known_rules rules{store, table, {false, false, true}};
  orbit_id made = 0;

  few_terms() {
    const auto t = of(unary, {0, {}});
    made = store.add(t, facts(t, 1, 5), 0, std::array{variable_map::identity().cut(1)});
    table.emplace(t, term_instance{made, {}});
  }

  [[nodiscard]] static stored_term of(std::uint16_t op, term_instance a) { return {op, 1, {a}}; }
  [[nodiscard]] static stored_term of(std::uint16_t op, term_instance a, term_instance b) { return {op, 2, {a, b}}; }
  [[nodiscard]] static stored_term variable(orbit_id sort, std::size_t number) {
    variable_map name;
    name.set(0, number);
    return {term_node::variable, 1, {term_instance{sort, name}}};
  }
  [[nodiscard]] static term_instance named(orbit_id orbit, std::size_t number) {
    return variable(orbit, number).operands[0];
  }
  [[nodiscard]] term_facts facts(const stored_term& t, std::size_t size, std::uint16_t type) const {
    auto f = facts_of(store, t, size);
    f.type = type;
    return f;
  }
  [[nodiscard]] std::optional<canonical_term> explain(const stored_term& t, std::size_t size, std::uint16_t type) {
    return rules.explain(t, facts(t, size, type), [](const stored_term&) { return std::optional<std::uint16_t>{}; });
  }
};

}  // namespace

TEST_CASE("a rule that drops an operator explains a term only of the same type") {
  few_terms f;
  const auto t = f.of(unary, {0, {}});
  CHECK_FALSE(f.explain(t, 1, 0));
  f.rules.add({t, f.facts(t, 1, 0), f.variable(0, 0), 0});
  const auto same = f.explain(t, 1, 0);
  REQUIRE(same);
  CHECK(same->term.op == term_node::variable);
  CHECK(same->term.operands[0].orbit == 0);
  // unary(y) can equal y only if it has the type of y.
  const auto other = f.of(unary, {1, {}});
  CHECK_FALSE(f.explain(other, 1, 2));
  REQUIRE(f.explain(other, 1, 1));
  CHECK(f.explain(other, 1, 1)->term.operands[0].orbit == 1);
}

TEST_CASE("an earlier term explains a later one of its type and maps its variables") {
  few_terms f;
  const auto first = f.of(binary, f.named(0, 0), f.named(0, 1));
  f.rules.add({first, f.facts(first, 1, 0), f.variable(0, 1), 0});
  // binary(y, unary(x)) = unary(x)
  const auto t = f.of(binary, f.named(1, 0), f.named(f.made, 1));
  CHECK_FALSE(f.explain(t, 2, 6));
  const auto found = f.explain(t, 2, 5);
  REQUIRE(found);
  CHECK(found->term == f.store[f.made].term);
  CHECK(found->names[0] == 1);
  CHECK(found->variables == 1);
}

TEST_CASE("known_rules match commutative operands in each order and only equal operators") {
  few_terms f;
  // turned(unary(x), y) = y
  const auto left = f.of(turned, f.named(f.made, 0), f.named(1, 1));
  f.rules.add({left, f.facts(left, 2, 1), f.variable(1, 1), 0});
  CHECK(f.explain(left, 2, 1));
  CHECK(f.explain(f.of(turned, f.named(1, 0), f.named(f.made, 1)), 2, 1));
  CHECK_FALSE(f.explain(f.of(turned, f.named(1, 0), f.named(0, 1)), 1, 1));
  CHECK_FALSE(f.explain(f.of(binary, f.named(f.made, 0), f.named(1, 1)), 2, 1));
}

TEST_CASE("a rule that only renames variables is a symmetry of the terms it matches") {
  few_terms f;
  const auto t = f.of(binary, f.named(0, 0), f.named(0, 1));
  std::vector<variable_map> renamings;
  f.rules.self_renamings(t, renamings);
  CHECK(renamings.empty());
  f.rules.add({t, f.facts(t, 1, 0), f.of(binary, f.named(0, 1), f.named(0, 0)), 1});
  f.rules.add({t, f.facts(t, 1, 0), f.variable(0, 0), 0});
  f.rules.self_renamings(t, renamings);
  REQUIRE(renamings.size() == 1);
  CHECK(renamings[0][0] == 1);
  CHECK(renamings[0][1] == 0);
}

}  // namespace tests_of_known_rules
