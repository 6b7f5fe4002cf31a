#include <cstddef>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/verification/axiom_form.hpp>

#include "../../support/matrices.hpp"

namespace tests_of_repetition {

using namespace unity;
using namespace unity::test;

namespace {

substitution compiled(const std::string& text) {
  return compile_rule(matrices{}, parse_rules("rule r " + text).at(0)).at(0);
}

// The patterns must be equal, whatever the names of their variables.
void check_same(const substitution& a, const substitution& b) {
  CHECK(a.source == b.source);
  CHECK(a.target == b.target);
  CHECK(a.conditions == b.conditions);
  CHECK(a.variables == b.variables);
}

}  // namespace

TEST_CASE("expand_repetitions writes a repeated rule out for a given count") {
  check_same(expand_repetitions(compiled("concat{axis=?a}(power(??x)...) => power(concat{axis=?a}(??x...))"), 2),
             compiled("concat{axis=?a}(power(?x), power(?y)) => power(concat{axis=?a}(?x, ?y))"));
  check_same(
      expand_repetitions(compiled("matmul(?x, ??w)... => split{axis=1, sizes=[size(??w, 1)...]}(matmul(?x, "
                                  "concat{axis=1}(??w...))) if rows(??w) == 3, rows(?x) == 2"),
                         3),
      compiled("(matmul(?x, ?u), matmul(?x, ?v), matmul(?x, ?w)) => split{axis=1, sizes=[size(?u, 1), size(?v, 1), "
               "size(?w, 1)]}(matmul(?x, concat{axis=1}(?u, ?v, ?w))) if rows(?u) == 3, rows(?v) == 3, "
               "rows(?w) == 3, rows(?x) == 2"));
  check_same(expand_repetitions(
                 compiled("power(split{axis=?a, sizes=?s}(?x).*)... => split{axis=?a, sizes=?s}(power(?x))"), 2),
             compiled("(power(split{axis=?a, sizes=?s}(?x).0), power(split{axis=?a, sizes=?s}(?x).1)) => "
                      "split{axis=?a, sizes=?s}(power(?x))"));
}

TEST_CASE("expand_repetitions leaves a rule without repetitions unchanged") {
  const auto s = compiled("add(?x, ?x) => scale{by=2}(?x)");
  CHECK(expand_repetitions(s, 5) == s);
}

TEST_CASE("exact_results gives the result count of an operator whose results are all taken") {
  const auto s = compiled("concat{axis=?a}(split{axis=?a, sizes=?s}(?x).*...) => ?x");
  const auto counts = exact_results(s, s.source, 3);
  REQUIRE(counts.size() == 2);
  CHECK(counts[0] == 3);
  CHECK(counts[1] == 0);
  const auto plain = compiled("power(split{axis=0, sizes=?s}(?x).0) => power(split{axis=0, sizes=?s}(?x).0)");
  CHECK(exact_results(plain, plain.source, 1) == std::vector<std::size_t>{0, 0});
}

}  // namespace tests_of_repetition
