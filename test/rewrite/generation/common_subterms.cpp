#include <unity/rewrite/generation/common_subterms.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/generation/redundancy.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/entailment.hpp>

#include "../../support/circuit_rules.hpp"
#include "../../support/circuits.hpp"
#include "../../support/matrices.hpp"

namespace tests_of_common_subterms {

using namespace unity;
using namespace unity::test;

namespace {

syntax::rule rule(std::string_view text) { return parse_rules("rule r " + std::string{text}).at(0); }

std::string reduced(std::string_view text) {
  return statement_text(canonical_rule(circuits{}, without_common_subterms(circuits{}, rule(text), is_true)));
}
std::string canonical(std::string_view text) { return statement_text(canonical_rule(circuits{}, rule(text))); }

}  // namespace

TEST_CASE("without_common_subterms replaces a subterm of both sides by a variable") {
  CHECK(reduced("and(or(?x, ?y), or(?x, ?y)) => or(?x, ?y)") == canonical("and(?x, ?x) => ?x"));
  CHECK(reduced("and(not(?x), or(not(?x), ?y)) => not(?x)") == canonical("and(?x, or(?x, ?y)) => ?x"));
}

TEST_CASE("without_common_subterms keeps subterms that the rule needs") {
  const auto* needed = "or(and(?x, ?y), and(?x, not(?y))) => ?x";
  CHECK(reduced(needed) == canonical(needed));
  CHECK(reduced("and(not(?x), not(?y)) == not(or(?x, ?y))") == canonical("and(not(?x), not(?y)) == not(or(?x, ?y))"));
}

TEST_CASE("without_common_subterms removes an outer operator shared by both sides") {
  CHECK(reduced("not(and(?x, ?x)) => not(?x)") == canonical("and(?x, ?x) => ?x"));
  CHECK(reduced("xor(and(?y, ?y), ?x) => xor(?x, ?y)") == canonical("and(?x, ?x) => ?x"));
  // The operator's operands become outputs if the remainder is still a rule.
  CHECK(reduced("xor(not(not(not(?x))), or(?y, or(?z, ?w))) => xor(not(?x), or(?z, or(?y, ?w)))") ==
        canonical("(not(not(?x)), or(?y, or(?z, ?w))) => (?x, or(?z, or(?y, ?w)))"));
}

TEST_CASE("without_common_subterms removes outputs that are equal on both sides") {
  CHECK(reduced("(and(?x, ?x), or(?x, ?y)) => (?x, or(?y, ?x))") == canonical("and(?x, ?x) => ?x"));
  CHECK(reduced("(not(?x), or(?x, ?y)) => (not(?x), or(not(not(?x)), ?y))") ==
        canonical("or(?x, ?y) => or(not(not(?x)), ?y)"));
}

TEST_CASE("without_common_subterms replaces the results of one operator together") {
  CHECK(reduced("half_adder(and(?x, ?x), ?y) == half_adder(?x, ?y)") == canonical("and(?x, ?x) => ?x"));
}

TEST_CASE("without_common_subterms keeps a subterm whose removal makes the rule false") {
  // or(x, y) and and(x, y) are not independent values, so variables in their place make the rule false.
  const auto* needed = "and(or(?x, ?y), and(?x, ?y)) => and(?x, ?y)";
  CHECK(reduced(needed) == canonical(needed));
}

TEST_CASE("without_common_subterms moves measures of removed operands to the result") {
  const auto r = rule(
      "join(matmul(?x, ?y), ?z) => split{axis=0, sizes=[rows(?x), 1]}(concat{axis=0}(matmul(?x, ?y), ?z)).0 "
      "if columns(?y) == 3, rows(?z) == 1");
  const auto left = without_common_subterms(matrices{}, r, [](const syntax::rule&) { return true; });
  CHECK(statement_text(canonical_rule(matrices{}, left)) ==
        statement_text(rule("join(?x, ?y) => split{sizes=[rows(?x), 1]}(concat(?x, ?y)).0 if rows(?y) == 1")));
}

TEST_CASE("without_common_subterms makes an equality with a variable as a side one-way") {
  CHECK(reduced("not(and(?x, ?x)) == not(?x)") == canonical("and(?x, ?x) => ?x"));
  CHECK(reduced("not(?x) == not(and(?x, ?x))") == canonical("and(?x, ?x) => ?x"));
}

TEST_CASE("rules without common subterms derive the full rule set", "[law]") {
  const auto full = small_circuit_rules(2);
  REQUIRE(full.size() > 200);
  std::map<std::string, syntax::rule> left;
  for (const auto& r : full) {
    INFO(to_text(r));
    auto c = canonical_rule(circuits{}, without_common_subterms(circuits{}, r, is_true));
    CHECK(is_true(c));
    left.emplace(statement_text(c), std::move(c));
  }
  CHECK(left.size() < full.size() / 2);
  theory known;
  for (const auto& [text, r] : left) {
    known.add(circuits{}, r);
  }
  const circuits algebra;
  entailment<circuits> ask{algebra, known, {.rounds = 2}};
  for (const auto& r : full) {
    INFO(to_text(r));
    const std::vector<circuit> question{circuit_question(r)};
    CHECK(ask.prove_outputs(std::span{question}).has_value());
  }
}

}  // namespace tests_of_common_subterms
