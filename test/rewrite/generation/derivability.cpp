#include <unity/rewrite/generation/redundancy.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/common_subterms.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>

#include "../../support/circuit_rules.hpp"
#include "../../support/circuits.hpp"

namespace tests_of_derivability {

using namespace unity;
using namespace unity::test;

namespace {

using questions = std::vector<std::vector<circuit>>;

pruned_rules pruned(const std::vector<syntax::rule>& rules, const derivability_options& options = {}) {
  return prune_derivable(
      circuits{}, std::span{rules}, [&](std::size_t i) { return questions{{circuit_question(rules[i])}}; }, options);
}

// True rules with up to two gates and without common subterms, small rules and general rules first.
std::vector<syntax::rule> ordered_rules() {
  std::map<std::pair<rule_size, std::string>, syntax::rule> all;
  for (const auto& r : small_circuit_rules(2)) {
    auto c = canonical_rule(circuits{}, without_common_subterms(circuits{}, r, is_true));
    all.emplace(std::pair{size_of(c), statement_text(c)}, std::move(c));
  }
  std::vector<syntax::rule> rules;
  for (auto& [key, r] : all) {
    rules.push_back(std::move(r));
  }
  return rules;
}

}  // namespace

TEST_CASE("prune_derivable drops a rule that others derive and records how") {
  const auto rules = parse_rules(R"(
rule double    not(not(?x)) => ?x
rule morgan    and(not(?x), not(?y)) == not(or(?x, ?y))
rule other     not(and(not(?x), not(?y))) => or(?x, ?y)
rule twice     not(not(not(not(?x)))) => ?x
)");
  const auto found = pruned(rules);
  CHECK(found.kept == std::vector<std::size_t>{0, 1});
  REQUIRE(found.derived.size() == 2);
  CHECK(found.derived[0] == derived_rule{2, {0, 1}, 2});
  CHECK(found.derived[1] == derived_rule{3, {0}, 1});  // of ?x, twice the same
}

TEST_CASE("prune_derivable names rules by their places in the list where a rule before them was dropped") {
  const auto rules = parse_rules(R"(
rule double    not(not(?x)) => ?x
rule twice     not(not(not(not(?x)))) => ?x
rule morgan    and(not(?x), not(?y)) == not(or(?x, ?y))
rule other     not(and(not(?x), not(?y))) => or(?x, ?y)
)");
  const auto found = pruned(rules);
  CHECK(found.kept == std::vector<std::size_t>{0, 2});
  REQUIRE(found.derived.size() == 2);
  CHECK(found.derived[0] == derived_rule{1, {0}, 1});
  CHECK(found.derived[1] == derived_rule{3, {0, 2}, 2});
}

TEST_CASE("prune_derivable keeps a rule that others derive only against their direction") {
  const auto rules = parse_rules(R"(
rule double    not(not(?x)) => ?x
rule morgan    and(not(?x), not(?y)) == not(or(?x, ?y))
rule grows     or(?x, ?y) => not(and(not(?x), not(?y)))
rule both      not(and(not(?x), not(?y))) == or(?x, ?y)
)");
  CHECK(pruned(rules).kept == std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("prune_derivable keeps rules that need more rewrites than allowed") {
  const auto rules = parse_rules(R"(
rule double    not(not(?x)) => ?x
rule both      or(not(not(?x)), not(not(?y))) => or(?x, ?y)
)");
  CHECK(pruned(rules, {.rewrites = 1}).kept.size() == 2);
  CHECK(pruned(rules, {.rewrites = 2}).kept.size() == 1);
}

TEST_CASE("prune_derivable keeps a rule with an unanswered question or without questions") {
  const auto rules = parse_rules(R"(
rule double    not(not(?x)) => ?x
rule absorb    or(?x, and(?x, ?y)) => ?x
rule twice     not(not(not(not(?x)))) => ?x
)");
  const auto ask = [&](std::size_t i) {
    questions all{{circuit_question(rules[i])}};
    if (i == 2) {
      all.push_back({circuit_question(parse_rules("rule false not(?x) => ?x").at(0))});
    }
    return i == 1 ? questions{} : all;
  };
  CHECK(prune_derivable(circuits{}, std::span{rules}, ask).kept.size() == 3);
}

TEST_CASE("size_of orders small rules first and then rules with more variables") {
  const auto rule = [](std::string_view text) { return parse_rules("rule r " + std::string{text}).at(0); };
  CHECK(size_of(rule("and(?x, ?x) => ?x")) < size_of(rule("and(?x, and(?x, ?x)) => ?x")));
  CHECK(size_of(rule("and(?x, ?y) => and(?y, ?x)")) < size_of(rule("and(?x, ?x) => and(?x, ?x)")));
  CHECK(size_of(rule("and(not(?x), not(?x)) => ?x")) < size_of(rule("and(not(?x), not(not(?x))) => ?x")));  // shared
}

// Kept rules must derive each rule from its source to its target, and a rule with == in both directions.
TEST_CASE("the rules that prune_derivable keeps derive its input rules", "[law]") {
  const auto rules = ordered_rules();
  const auto found = pruned(rules, {.rewrites = 4, .limits = {.rounds = 3}});
  CHECK(found.kept.size() + found.derived.size() == rules.size());
  CHECK(found.derived.size() > 5);
  CHECK(found == pruned(rules, {.rewrites = 4, .limits = {.rounds = 3}}));
  for (const auto& d : found.derived) {
    CAPTURE(d.rule);
    CHECK(d.rewrites >= 1);
    CHECK(d.rewrites <= 4);
    CHECK_FALSE(d.from.empty());
    for (const auto from : d.from) {
      CHECK(from < d.rule);
      CHECK(std::ranges::find(found.kept, from) != found.kept.end());
    }
  }
  theory known{{.reading = theory_reading::rewrites}};
  for (const auto k : found.kept) {
    known.add(circuits{}, rules[k]);
  }
  const circuits algebra;
  entailment<circuits> ask{algebra, known, {}};
  for (const auto& r : rules) {
    INFO(to_text(r));
    const std::vector<circuit> question{circuit_question(r)};
    CHECK(ask.rewrite_outputs(std::span{question}).has_value());
    CHECK((!r.both_ways || ask.rewrite_outputs(std::span{question}, true).has_value()));
  }
}

}  // namespace tests_of_derivability
