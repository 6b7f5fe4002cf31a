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

namespace tests_of_axiom_checks {

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

TEST_CASE("redundant_axioms finds an axiom that follows and the axioms it follows from") {
  auto axioms = parse_rules(few);
  CHECK(redundant_axioms(standard(), axioms).empty());
  axioms.push_back(parse_rules("rule three_times relu(relu(relu(?x))) => relu(?x)").at(0));
  const auto found = redundant_axioms(standard(), axioms);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "three_times");
  CHECK(found[0].from == std::vector<std::string>{"relu_twice"});
}

TEST_CASE("contradiction finds an axiom that equates any two tensors and an instance") {
  auto axioms = parse_rules(few);
  CHECK_FALSE(contradiction(standard(), axioms));
  axioms.push_back(parse_rules("rule first_of_sum add(?x, ?y) => ?x").at(0));
  const auto found = contradiction(standard(), axioms);
  REQUIRE(found);
  CHECK(std::find(found->from.begin(), found->from.end(), "first_of_sum") != found->from.end());
  CHECK(found->instance.find("?x float32[") != std::string::npos);
}

TEST_CASE("redundant_axioms omits an axiom that follows only for some ranks") {
  const auto axioms = parse_rules(R"(
    rule known add(?x, relu(?y)) => relu(add(?x, ?y)) if rank(?x) >= rank(?y)
    rule wider add(?x, relu(?y)) => relu(add(?x, ?y))
  )");
  const auto found = redundant_axioms(standard(), axioms);
  REQUIRE(found.size() == 1);
  CHECK(found[0].name == "known");
}

TEST_CASE("redundant_axioms finds an axiom whose cases follow in different ways") {
  // Permutations that change nothing follow from one property, the others from two more.
  const auto axioms = parse_rules(R"(
    rule square mul(identity_matrix{size=?n}(), identity_matrix{size=?n}()) => identity_matrix{size=?n}()
    rule same transpose{permutation=?p}(?x) => ?x if ?p == iota(rank(?x))
    rule twice transpose{permutation=?p}(transpose{permutation=?q}(?x)) => transpose{permutation=compose(?p, ?q)}(?x)
    rule product
      transpose{permutation=?p}(mul(?x, ?y)) == mul(transpose{permutation=?p}(?x), transpose{permutation=?p}(?y))
    rule diagonal
      mul(identity_matrix{size=?n}(), transpose{permutation=[1, 0]}(?x)) => mul(identity_matrix{size=?n}(), ?x)
      if shape(?x) == [?n, ?n]
    rule symmetric transpose{permutation=?p}(identity_matrix{size=?n}()) => identity_matrix{size=?n}()
  )");
  const auto found = redundant_axioms(standard(), axioms);
  CHECK(std::any_of(found.begin(), found.end(), [](const auto& f) { return f.name == "symmetric"; }));
}

namespace {

struct kept_property {
  std::string_view name;
  std::string_view why;
};

// Properties that are kept although they follow from others.
constexpr kept_property kept[] = {
    {"expand_in_product", "layer_norm_with_pow, of the shipped rules, has no proof within the limits without it"},
};

}  // namespace

TEST_CASE("standard axioms are consistent and only the listed ones are redundant") {
  const auto axioms = parse_rules(standard_axioms);
  CHECK_FALSE(contradiction(standard(), axioms));
  std::set<std::string> found;
  for (const auto& r : redundant_axioms(standard(), axioms)) {
    found.insert(r.name);
  }
  std::set<std::string> expected;
  for (const auto& k : kept) {
    expected.insert(std::string{k.name});
  }
  CHECK(found == expected);
}

}  // namespace tests_of_axiom_checks
