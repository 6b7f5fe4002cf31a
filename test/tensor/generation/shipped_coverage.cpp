// The shipped generated rules are complete: they imply every equality that an enumeration of all graphs of their sizes
// finds. Images have one variable of each sort: two would make too many graphs.
#include "coverage.hpp"
#include "plain_enumeration.hpp"

#include <cstddef>
#include <span>
#include <string_view>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

#include "../testing.hpp"

namespace tests_of_shipped_coverage {

using namespace unity;
using unity::tensor::test::coverage;
using unity::tensor::test::plain_enumeration;
using unity::tensor::test::standard;

namespace {

constexpr std::size_t most_rewrites = 6;

coverage of_shipped_rules() {
  const auto rules = parse_rules(tensor::generated_rules);
  return {standard(), std::span<const syntax::rule>{rules}};
}

void check_complete(std::string_view vocabulary, std::size_t operators, std::size_t variables, std::size_t at_least) {
  tensor::term_language language{standard(), tensor::parse_vocabulary(standard(), vocabulary, "vocabulary")};
  plain_enumeration plain{language, variables};
  plain.run(operators);
  CHECK(plain.equalities().size() >= at_least);
  for (const auto& m : of_shipped_rules().missing(plain, most_rewrites)) {
    FAIL_CHECK(m);
  }
}

}  // namespace

TEST_CASE("shipped generated rules imply all equalities of two TASO operators") {
  check_complete(tensor::taso_vocabulary, 2, 3, 1400);
}

TEST_CASE("shipped generated rules imply all equalities of three matrix operators") {
  check_complete(tensor::matrix_vocabulary, 3, 2, 17000);
}

TEST_CASE("shipped generated rules imply all equalities of three image operators on a variable per sort") {
  check_complete(tensor::image_vocabulary, 3, 1, 100);
}

}  // namespace tests_of_shipped_coverage
