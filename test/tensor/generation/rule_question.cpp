#include <unity/tensor/generation/rule_question.hpp>

#include <cstddef>

#include <catch2/catch.hpp>

#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/generation/vocabularies.hpp>
#include <unity/tensor/scalar.hpp>

#include "equalities.hpp"

namespace tests_of_rule_question {

using namespace unity;
using unity::tensor::test::equalities;
using unity::tensor::test::standard;

TEST_CASE("rule_question gives worlds with equal node counts and equal values of both sides") {
  equalities found{tensor::matrix_vocabulary, 3};
  REQUIRE(found.all.size() == 238 + 14);
  std::size_t joint = 0;
  for (const auto& [left, right] : found.all) {
    const auto worlds = tensor::rule_question(found.language, left, right);
    REQUIRE(worlds.size() == tensor::world_count);
    REQUIRE(worlds[0].outputs().size() == 2 * left.size());
    joint += left.size() > 1 ? 1U : 0U;
    for (std::size_t w = 0; w < worlds.size(); ++w) {
      CHECK(worlds[w].node_count() == worlds[0].node_count());
      CHECK(worlds[w].outputs().size() == worlds[0].outputs().size());
      for (std::size_t i = 0; i < left.size(); ++i) {
        const auto outputs = worlds[w].outputs();
        CHECK(worlds[w].type(outputs[i]).dims == worlds[w].type(outputs[left.size() + i]).dims);
      }
      if (w + 1 < worlds.size()) {  // the last world is too large
        const auto values = tensor::evaluate<tensor::modular61>(standard(), worlds[w]);
        for (std::size_t i = 0; i < left.size(); ++i) {
          CHECK(values[i].data == values[left.size() + i].data);
        }
      }
    }
  }
  CHECK(joint == 14);
}

TEST_CASE("rule_question keeps the element types of results") {
  equalities found{R"(
sizes M=3, K=4
sort x input [M, K]
operator less(any, any) same_shape
operator logical_not(any)
operator cast{element={bool, int64}}(any)
operator negate(any)
)",
                   2};
  std::size_t integers = 0;
  for (const auto& [left, right] : found.all) {
    for (const auto& world : tensor::rule_question(found.language, left, right)) {
      const auto type = world.type(world.outputs()[0]);
      CHECK(type == world.type(world.outputs()[left.size()]));
      integers += type.element == tensor::dtype::int64 ? 1U : 0U;
    }
  }
  CHECK(integers > 0);
}

}  // namespace tests_of_rule_question
