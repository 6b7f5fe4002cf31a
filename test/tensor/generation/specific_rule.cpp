#include <unity/tensor/generation/specific_rule.hpp>

#include <cstddef>
#include <string>

#include <catch2/catch.hpp>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/rule_test.hpp>

#include "equalities.hpp"

namespace tests_of_specific_rule {

using namespace unity;
using unity::tensor::test::equalities;
using unity::tensor::test::standard;

TEST_CASE("specific_rule turns each matrix equality into a rule that passes tests") {
  equalities found{tensor::matrix_vocabulary, 2};
  REQUIRE(found.all.size() == 42);
  for (const auto& [left, right] : found.all) {
    auto r = tensor::specific_rule(found.language, left, right);
    REQUIRE(r.has_value());
    r->name = "r";
    const auto text = to_text(*r);
    CAPTURE(text);
    CHECK(to_text(parse_rules(text).at(0)) == text);
    bool holds = false;
    for (std::size_t attempt = 0; attempt < 4 && !holds; ++attempt) {
      const auto reading = tensor::specific_rule(found.language, left, right, attempt);
      REQUIRE(reading.has_value());
      const auto report =
          tensor::test_rule(standard(), compile_rule(standard(), *reading).front(), {.instances = 4, .varied = 1});
      holds = report.found == tensor::rule_report::verdict::passes;
    }
    CHECK(holds);
  }
}

}  // namespace tests_of_specific_rule
