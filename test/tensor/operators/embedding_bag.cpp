// Sums of rows against loops and against sums of lookups, and what proofs know of them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operators/embedding.hpp>
#include <unity/tensor/verification/validate.hpp>

#include "../small_bounds.hpp"
#include "../testing.hpp"

namespace tests_of_embedding_bag {

using namespace unity::tensor;
using namespace unity::tensor::test;

namespace {

// Validates at sizes up to 2.
validation_report validated(const std::string& property) {
  validation_options o;
  o.ladder = unity::tensor::test::small_bounds();
  o.random.instances = 10;
  return validate_axiom(standard(), unity::parse_rules("rule r " + property, "these.rules").at(0), o);
}

using verdict = validation_report::verdict;

}  // namespace

TEST_CASE("embedding_bag sums its rows and ignores missing rows") {
  unity::random_engine random{1};
  const auto table = random_tensor({5, 3, 2}, random);
  const dense<double> ids{{2, 2, 4}, {4, 0, 7, 4, 1, 1, 1, 3, -1, 9, 9, 9, 0, 1, 2, 3}};
  const types t{type({5, 3, 2}), type({2, 2, 4}, dtype::int64)};
  const auto found =
      evaluate<double>(standard(), standard().make_operation("embedding_bag"), std::vector{table, ids}, t)[0];
  const auto expected = tabulate({2, 2, 3, 2}, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t s = 0; s < 4; ++s) {
      const auto row = static_cast<std::int64_t>(at(ids, {p[0], p[1], s}));
      sum += row >= 0 && row < 5 ? at(table, {row, p[2], p[3]}) : 0;
    }
    return sum;
  });
  CHECK(distance(found, expected) < 1e-15);
}

TEST_CASE("embedding_bag infers the embedding's shape without the last index dimension") {
  CHECK(shapes("embedding_bag", {}, {type({5, 3}), type({2, 4}, dtype::int64)}) == std::vector<shape>{{2, 3}});
  CHECK(shapes("embedding_bag", {}, {type({5}), type({4}, dtype::int32)}) == std::vector<shape>{shape{}});
  CHECK(refusal_of("embedding_bag", {}, {type({5, 3}), type({2})}) == "integers in operand 1");
  CHECK(refusal_of("embedding_bag", {}, {type({}), type({2}, dtype::int32)}) == "rank 1 or more in operand 0");
  CHECK(refusal_of("embedding_bag", {}, {type({5, 3}), type({}, dtype::int64)}) == "rank 1 or more in operand 1");
}

TEST_CASE("embedding_bag_gradient adds the cotangent once per occurrence of a row") {
  unity::random_engine random{2};
  const auto a = training_algebra();
  const types t{type({4, 3}), type({2, 5}, dtype::int64)};
  const auto adjoint = adjoint_of(a, a.make_operation("embedding_bag"), t);
  REQUIRE(adjoint.operands == std::vector<std::size_t>{0});
  REQUIRE(adjoint.graph.outputs().size() == 1);
  CHECK(adjoint.graph.type(adjoint.graph.outputs()[0]).dims == shape{4, 3});

  const dense<double> ids{{2, 5}, {3, 3, 0, 8, 1, 1, 3, 3, 3, -2}};
  const auto cotangent = random_tensor({2, 3}, random);
  const auto gradient = a.make_operation("embedding_bag_gradient", {{"rows", 4}});
  const auto found = evaluate<double>(a, gradient, std::vector{ids, cotangent}, types{t[1], type({2, 3})})[0];
  const auto expected = tabulate({4, 3}, [&](const shape& p) {
    double sum = 0;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t s = 0; s < 5; ++s) {
        sum += static_cast<std::int64_t>(at(ids, {b, s})) == p[0] ? at(cotangent, {b, p[1]}) : 0;
      }
    }
    return sum;
  });
  CHECK(distance(found, expected) < 1e-15);
}

TEST_CASE("validation confirms embedding_bag as a sum of embeddings") {
  const auto report =
      validated("reduce_sum{axes=[rank(?i) - 1], keep_dims=0}(embedding(?t, ?i)) == embedding_bag(?t, ?i)");
  INFO(report.because);
  CHECK(report.found == verdict::holds);
  CHECK(report.exact > 10);
  CHECK(report.random >= 10);
}

// If rows of unknown numbers were taken as zero, all of these would hold exactly.
TEST_CASE("validation refutes false properties of embeddings") {
  for (const char* property :
       {"reduce_mean{axes=[rank(?i) - 1], keep_dims=0}(embedding(?t, ?i)) => embedding_bag(?t, ?i)",
        "reduce_sum{axes=[0], keep_dims=0}(embedding(?t, ?i)) => embedding_bag(?t, ?i)\n  if rank(?i) == 2, "
        "size(?i, 0) == size(?i, 1)",
        "embedding(?t, ?i) => embedding(negate(?t), ?i)"}) {
    CAPTURE(property);
    const auto report = validated(property);
    INFO(report.because);
    CHECK(report.found == verdict::refuted);
    CHECK(report.random == 0);
  }
}

}  // namespace tests_of_embedding_bag
