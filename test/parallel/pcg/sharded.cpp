// Shards, and the effect of parallelization operators on them.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/interpreter.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/shape.hpp>

#include "../random_pcg.hpp"

namespace tests_of_sharded {

using namespace unity;
using namespace unity::parallel;

namespace {

using numbers = std::vector<double>;

sharded<double> counting(tensor::shape dims) {
  tensor::dense<double> x{dims};
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    x.data[i] = static_cast<double>(i + 1);
  }
  return in_one_piece(parallel::test::type(dims), std::move(x));
}
sharded<double> applied(const parallel_operator& p, const std::vector<sharded<double>>& operands) {
  std::vector<parallel_type> types;
  std::vector<const sharded<double>*> pointers;
  for (const auto& x : operands) {
    types.push_back(x.type);
    pointers.push_back(&x);
  }
  return apply_to_shards<double>(p, pointers, result_type(p, types).value());
}
std::vector<numbers> data_of(const sharded<double>& x) {
  std::vector<numbers> all;
  for (const auto& s : x.shards) {
    all.push_back(s.data);
  }
  return all;
}

}  // namespace

TEST_CASE("partition splits shards into blocks and combine joins them") {
  const auto rows = applied({parallel_kind::partition, 0, 2}, {counting({2, 4})});
  CHECK(data_of(rows) == std::vector<numbers>{{1, 2, 3, 4}, {5, 6, 7, 8}});
  const auto both = applied({parallel_kind::partition, 1, 2}, {rows});
  CHECK(data_of(both) == std::vector<numbers>{{1, 2}, {3, 4}, {5, 6}, {7, 8}});
  CHECK(data_of(applied({parallel_kind::partition, 1, 2}, {both})) ==
        std::vector<numbers>{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}});
  CHECK(applied({parallel_kind::combine, 1, 2}, {both}) == rows);
  CHECK(data_of(applied({parallel_kind::combine, 0, 2}, {both})) == std::vector<numbers>{{1, 2, 5, 6}, {3, 4, 7, 8}});
  CHECK(data_of(applied({parallel_kind::pipeline, 1, 4}, {counting({1, 4})})) ==
        std::vector<numbers>{{1}, {2}, {3}, {4}});
}

TEST_CASE("replicate copies shards and inject adds zero terms; discard and reduce undo them") {
  const auto x = counting({2});
  const auto copies = applied({parallel_kind::replicate, 0, 3}, {x});
  CHECK(data_of(copies) == std::vector<numbers>{{1, 2}, {1, 2}, {1, 2}});
  CHECK(applied({parallel_kind::discard, 0, 3}, {copies}) == x);
  const auto terms = applied({parallel_kind::inject, 0, 2}, {x});
  CHECK(data_of(terms) == std::vector<numbers>{{1, 2}, {0, 0}});
  CHECK(applied({parallel_kind::reduce, 0, 2}, {terms}) == x);
}

TEST_CASE("reduce adds up terms of shards; blocks are joined") {
  const auto x = applied({parallel_kind::partition, 0, 2}, {counting({4})});
  const auto sum = applied({parallel_kind::reduce, 0, 2}, {applied({parallel_kind::terms, 0, 0}, {x, x})});
  CHECK(combined(sum).data == numbers{2, 4, 6, 8});
  const auto joined = applied({parallel_kind::blocks, 0, 0}, {x, x, x});
  CHECK(joined.type.degrees[0] == 6);
  CHECK(combined(joined).data == numbers{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
}

TEST_CASE("a random chain of parallelization operators keeps the value", "[law]") {
  const auto seed = GENERATE(range(0U, 30U));
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 30; ++i) {
    const auto whole = counting({random.between(1, 6), random.between(1, 6)});
    auto x = whole;
    for (const auto& p : parallel::test::random_chain(random, x.type, 8)) {
      x = applied(p, {x});
    }
    REQUIRE(combined(x) == whole.shards[0]);
    for (const auto& p : canonical_chain(x.type, whole.type)) {
      x = applied(p, {x});
    }
    REQUIRE(x == whole);
  }
}

TEST_CASE("combining shards whose replicas differ is an error") {
  auto x = applied({parallel_kind::replicate, 0, 2}, {counting({2})});
  x.shards[1].data[0] = 7;
  CHECK_THROWS_AS(combined(x), error);
}

}  // namespace tests_of_sharded
