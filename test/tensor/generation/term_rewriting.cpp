// Rewrites of terms with variables: each one holds for random tensors that satisfy its conditions.

#include <unity/tensor/generation/term_rewriting.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/random.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/term_measures.hpp>
#include <unity/tensor/rule_test.hpp>

#include "../../support/cases.hpp"
#include "../testing.hpp"

namespace tests_of_term_rewriting {

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

const std::set<std::string>& flowing() {
  static const std::set<std::string> names{"x", "y"};
  return names;
}

term_rewriting rewriting(std::string_view equalities) {
  term_rewriting made{standard()};
  for (const auto& r : parse_rules(equalities)) {
    made.add(r);
  }
  return made;
}

syntax::term term_of(const std::string& text) { return parse_rules("rule r " + text + " => ?x").at(0).source.at(0); }

// The results of all single rewrites, as text with their conditions, in alphabetical order.
std::vector<std::string> steps(const term_rewriting& by, const std::string& text) {
  const term_measures measures{flowing()};
  std::vector<std::string> all;
  for (const auto& s : by.steps(by.written_out(term_of(text)), measures)) {
    std::string line = to_text(s.term);
    for (const auto& c : s.conditions) {
      line += " if " + to_text(c);
    }
    all.push_back(line);
  }
  std::sort(all.begin(), all.end());
  return all;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("written_out makes attributes with their default values explicit") {
  const term_rewriting none{standard()};
  const auto made = none.written_out(term_of("matmul(?x, ?w)"));
  CHECK(to_text(made) == "matmul{activation=none}(?x, ?w)");
  CHECK(none.written_out(made) == made);
  CHECK(to_text(none.written_out(term_of("matmul{activation=relu}(?x, ?w)"))) == "matmul{activation=relu}(?x, ?w)");
}

TEST_CASE("steps apply one equality to one data part, in each direction that determines its result") {
  const auto products = rewriting(R"(
rule both
  relu(sub(?x, ?y)) == tanh(sub(?x, ?y))
rule forgets
  sub(?x, mul(?x, ?y)) == gelu(?x)
)");
  CHECK(steps(products, "relu(sub(?x, ?w))") == lines{"tanh(sub(?x, ?w))"});
  CHECK(steps(products, "tanh(sub(?x, ?w))") == lines{"relu(sub(?x, ?w))"});
  CHECK(steps(products, "relu(relu(sub(?x, ?y)))") == lines{"relu(tanh(sub(?x, ?y)))"});
  CHECK(steps(products, "sub(relu(sub(?x, ?w)), tanh(sub(?y, ?v)))") ==
        lines{"sub(relu(sub(?x, ?w)), relu(sub(?y, ?v)))", "sub(tanh(sub(?x, ?w)), tanh(sub(?y, ?v)))"});
  CHECK(steps(products, "add(?x, relu(sub(?w, ?v)))").empty());  // weights cost nothing
  CHECK(steps(products, "relu(sub(?w, ?v))").empty());
  CHECK(steps(products, "sub(?x, mul(?x, ?w))") == lines{"gelu(?x)"});
  CHECK(steps(products, "sub(?x, mul(?y, ?w))").empty());               // different terms for one variable
  CHECK(steps(products, "sub(?x, mul(?w, ?x))") == lines{"gelu(?x)"});  // a product is commutative
  CHECK(steps(products, "gelu(?x)").empty());                           // nothing says what ?y is
}

TEST_CASE("steps bind attributes and carry the conditions that still depend on the operands") {
  const auto joined = rewriting(R"(
rule join
  concat{axis=?a}(relu(?x), relu(?y)) == relu(concat{axis=?a}(?x, ?y))
rule fixed
  softmax{axis=0}(?x) => softmax{axis=1}(?x) if rank(?x) == 2, size(?x, 0) == size(?x, -1)
)");
  CHECK(steps(joined, "relu(concat{axis=2}(?x, ?w))") == lines{"concat{axis=2}(relu(?x), relu(?w))"});
  CHECK(steps(joined, "concat{axis=?b}(relu(?x), relu(?y))") == lines{"relu(concat{axis=?b}(?x, ?y))"});
  CHECK(steps(joined, "softmax{axis=0}(matmul(?x, ?w))") ==
        lines{"softmax{axis=1}(matmul{activation=none}(?x, ?w)) if rank(?x) == 2 if size(?x, 0) == size(?w, -1)"});
  CHECK(steps(joined, "softmax{axis=1}(?y)") ==
        lines{"softmax{axis=0}(?y) if rank(?y) == 2 if size(?y, 0) == size(?y, -1)"});
  CHECK(steps(joined, "softmax{axis=2}(?x)").empty());
  CHECK(steps(joined, "softmax{axis=0}(average_pool{kernel=[2, 2], stride=[2, 2]}(?x))").empty());  // rank 4, not 2
}

TEST_CASE("equalities with several roots or parts of a split are ignored") {
  const auto none = rewriting(R"(
rule roots
  (relu(?x), tanh(?x)) => (tanh(?x), relu(?x))
rule parts
  split{axis=0, sizes=[1, 1]}(relu(?x)).0 => relu(split{axis=0, sizes=[1, 1]}(?x).0)
)");
  CHECK(steps(none, "relu(?x)").empty());
  CHECK(steps(none, "tanh(relu(?x))").empty());
}

TEST_CASE("chains of rewrites pass tests on random tensors that satisfy their conditions", "[law]") {
  const auto seed = static_cast<std::uint64_t>(Catch::rngSeed());
  CAPTURE(seed);
  random_engine random{seed};
  const auto by = rewriting(R"(
rule commute
  add(?x, ?y) == add(?y, ?x)
rule associate
  add(add(?x, ?y), ?z) == add(?x, add(?y, ?z))
rule products
  matmul(?x, matmul(?y, ?z)) == matmul(matmul(?x, ?y), ?z) if rank(?y) == 2, rank(?z) == 2
rule distribute
  matmul(?x, add(?y, ?z)) == add(matmul(?x, ?y), matmul(?x, ?z)) if shape(?y) == shape(?z)
rule join
  concat{axis=?a}(relu(?x), relu(?y)) == relu(concat{axis=?a}(?x, ?y))
rule flat
  add(?x, reshape{dims=[size(?b, 0)]}(?b)) == add(?x, ?b) if rank(?b) == 1
)");
  const term_measures measures{flowing()};
  const std::string starts[] = {"matmul(matmul(?x, ?w), ?v)", "add(matmul(?x, ?w), matmul(?x, ?v))",
                                "relu(concat{axis=1}(add(?x, ?w), ?y))", "add(relu(?x), add(?y, ?x))"};
  std::size_t passed = 0;
  for (std::uint64_t round = 0; round < unity::test::cases(24); ++round) {
    syntax::rule r;
    r.name = "r";
    r.source = {by.written_out(term_of(starts[round % 4]))};
    r.target = r.source;
    for (auto more = 1 + random.below(3); more > 0; --more) {
      auto next = by.steps(r.target[0], measures);
      if (next.empty()) {
        break;
      }
      auto& chosen = next[random.below(next.size())];
      r.target = {chosen.term};
      for (auto& c : chosen.conditions) {
        r.conditions.push_back(std::move(c));
      }
    }
    CAPTURE(round, to_text(r));
    const auto report = test_rule(standard(), compile_rule(standard(), r).front(), {.instances = 4, .chained = true});
    CHECK(report.found != rule_report::verdict::refuted);
    passed += report.found == rule_report::verdict::passes ? 1 : 0;
  }
  CHECK(2 * passed > unity::test::cases(24));
}

}  // namespace tests_of_term_rewriting
