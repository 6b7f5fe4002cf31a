#include <unity/tensor/verification/axiom_checks.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/rewrite/parse.hpp>
#include <unity/tensor/axioms.hpp>

#include "../testing.hpp"

using namespace unity;
using namespace unity::tensor;
using unity::tensor::test::standard;

namespace {

constexpr std::string_view few = R"(
  rule relu_twice relu(relu(?x)) => relu(?x)
  rule add_associates add(?x, add(?y, ?z)) == add(add(?x, ?y), ?z)
  rule concat_of_relu concat{axis=?a}(relu(??x)...) == relu(concat{axis=?a}(??x...))
)";

}  // namespace

TEST_CASE("a property that follows from others is found, with what it follows from") {
  auto axioms = parse_rules(few);
  CHECK(redundant_axioms(standard(), axioms).empty());
  axioms.push_back(parse_rules("rule three_times relu(relu(relu(?x))) => relu(?x)").at(0));
  const auto found = redundant_axioms(standard(), axioms);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "three_times");
  CHECK(found[0].from == std::vector<std::string>{"relu_twice"});
}

TEST_CASE("a property that makes any two tensors equal is found, with a way to prove it") {
  auto axioms = parse_rules(few);
  CHECK_FALSE(contradiction(standard(), axioms));
  axioms.push_back(parse_rules("rule first_of_sum add(?x, ?y) => ?x").at(0));
  const auto found = contradiction(standard(), axioms);
  REQUIRE(found);
  CHECK(std::find(found->from.begin(), found->from.end(), "first_of_sum") != found->from.end());
  CHECK(found->instance.find("?x float32[") != std::string::npos);
}

TEST_CASE("the properties of the file are consistent, and none follows from the others") {
  const auto axioms = parse_rules(standard_axioms);
  CHECK_FALSE(contradiction(standard(), axioms));
  // Each is the other, read from right to left: neither side alone says all that the other needs.
  const std::set<std::string> two_ways{"concat_of_transposes", "transpose_of_concat"};
  for (const auto& r : redundant_axioms(standard(), axioms)) {
    INFO(r.name);
    CHECK(two_ways.contains(r.name));
  }
}
