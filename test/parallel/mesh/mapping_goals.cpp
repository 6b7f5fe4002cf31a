// Parts of graphs as goals: their subgoals, and which goals are equal.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/tensor/builder.hpp>

#include "../placed_graph.hpp"

namespace tests_of_mapping_goals {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::operators;
using unity::parallel::test::placed_graph;

namespace {

// relu, then `count` blocks of two branches (tanh; `second` operators) and their sum, then relu.
tensor::tensor_graph blocks(std::size_t count, std::size_t second, bool is_gelu = false) {
  tensor::builder b{operators()};
  auto x = b.relu(b.input("x", {4, 4}));
  for (std::size_t i = 0; i < count; ++i) {
    const auto left = b.tanh(x);
    auto right = x;
    for (std::size_t k = 0; k < second; ++k) {
      right = is_gelu ? b.gelu(right) : b.relu(right);
    }
    x = b.add(left, right);
  }
  return std::move(b).finish({b.relu(x)});
}

// Fingerprints of the root's subgoals, all of which are joins.
std::vector<fingerprint> joins_of(const placed_graph& g) {
  mapping_goals goals{g.ops};
  std::vector<fingerprint> all;
  for (const auto& s : goals.subgoals(goals.root())) {
    CHECK(s.kind == mapping_goal::kinds::join);
    all.push_back(goals.fingerprint_of(s));
  }
  return all;
}

}  // namespace

TEST_CASE("mapping subgoals of a graph are its joins; those of a join are its branches") {
  const placed_graph g{blocks(2, 3)};
  mapping_goals goals{g.ops};
  const auto joins = goals.subgoals(goals.root());
  REQUIRE(joins.size() == 2);
  CHECK(joins[0].u == 0);
  CHECK(joins[0].v == joins[1].u);
  const auto branches = goals.subgoals(joins[0]);
  REQUIRE(branches.size() == 2);
  std::vector<std::size_t> sizes;
  for (const auto& b : branches) {
    CHECK(b.kind == mapping_goal::kinds::branch);
    CHECK(b.u == joins[0].u);
    CHECK(goals.subgoals(b).empty());
    sizes.push_back(goals.steps(b).size());
  }
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<std::size_t>{1, 3});
  CHECK_FALSE(goals.is_core(joins[0].part));
}

TEST_CASE("equal mapping goals have one fingerprint within a graph and across graphs") {
  const placed_graph three{blocks(3, 2)};
  const placed_graph four{blocks(4, 2)};
  const auto few = joins_of(three);
  const auto many = joins_of(four);
  REQUIRE(few.size() == 3);
  CHECK(few[0] != few[1]);  // it follows another operator
  CHECK(few[1] == few[2]);
  CHECK(many[0] == few[0]);
  CHECK(many[3] == few[2]);
  CHECK(mapping_goals{three.ops}.fingerprint_of(mapping_goals{three.ops}.root()) !=
        mapping_goals{four.ops}.fingerprint_of(mapping_goals{four.ops}.root()));
}

TEST_CASE("mapping goals with another operator or length or wire have other fingerprints") {
  const placed_graph plain{blocks(2, 2)};
  const placed_graph longer{blocks(2, 3)};
  const placed_graph other{blocks(2, 2, true)};
  const placed_graph wired{blocks(2, 0)};
  CHECK(joins_of(plain)[1] != joins_of(longer)[1]);
  CHECK(joins_of(plain)[1] != joins_of(other)[1]);
  CHECK(joins_of(plain)[1] != joins_of(wired)[1]);
}

TEST_CASE("branches with edges between them are a mapping core without subgoals") {
  tensor::builder b{operators()};
  const auto x = b.relu(b.input("x", {4, 4}));
  const auto y = b.tanh(x);
  const auto z = b.gelu(x);
  const auto both = b.add(y, z);
  const placed_graph g{std::move(b).finish({b.add(b.add(both, y), b.mul(both, z))})};
  REQUIRE_FALSE(g.ops.tree().is_series_parallel());
  mapping_goals goals{g.ops};
  const auto joins = goals.subgoals(goals.root());
  REQUIRE(joins.size() == 1);
  CHECK(goals.is_core(joins[0].part));
  CHECK(goals.subgoals(joins[0]).empty());
}

}  // namespace tests_of_mapping_goals
