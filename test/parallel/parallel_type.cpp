// The types on edges of parallel computation graphs.
#include <concepts>
#include <functional>
#include <string>

#include <catch2/catch.hpp>

#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>

#include "random_pcg.hpp"

namespace tests_of_parallel_type {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::divided;

static_assert(std::regular<parallel_type>);

TEST_CASE("a parallel type counts its shards and their elements") {
  const auto t = divided({8, 6}, {4, 3}, 2, 5);
  CHECK(is_valid(t));
  CHECK(total(t) == 4 * 3 * 2 * 5);
  CHECK(shard_type(t).dims == tensor::shape{2, 2});
  CHECK(element_count(t) == 8 * 6 * 2 * 5);
}

TEST_CASE("the dual of a parallel type swaps replicas and partial sums; it is its own inverse") {
  const auto t = divided({8}, {2}, 3, 5);
  CHECK(dual(t) == divided({8}, {2}, 5, 3));
  CHECK(dual(dual(t)) == t);
}

TEST_CASE("steps of a parallel type shrink the shard and do not add shards") {
  auto t = divided({8, 6}, {2, 1});
  t.steps[0] = 4;
  CHECK(is_valid(t));
  CHECK(total(t) == 2);
  CHECK(shard_type(t).dims == tensor::shape{1, 6});
  t.steps[0] = 8;
  CHECK_FALSE(is_valid(t));
}

TEST_CASE("a parallel type is invalid if degrees do not divide the sizes or are not positive") {
  CHECK_FALSE(is_valid(divided({8}, {3})));
  CHECK_FALSE(is_valid(divided({8}, {0})));
  CHECK_FALSE(is_valid(divided({8}, {1}, 0)));
  CHECK_FALSE(is_valid(divided({8}, {1}, 1, -1)));
  CHECK_FALSE(is_valid(divided({8}, {1, 1})));
  CHECK_FALSE(is_valid(divided({0}, {1})));
  auto stepped = divided({8}, {2});
  stepped.steps[0] = 0;
  CHECK_FALSE(is_valid(stepped));
  stepped.steps = {1, 1};
  CHECK_FALSE(is_valid(stepped));
  CHECK(is_valid(divided({}, {})));
}

TEST_CASE("a parallel type prints as sizes over degrees with copies and partial sums") {
  auto t = divided({64, 512}, {2, 1}, 2, 4);
  CHECK(to_string(t) == "float32[64/2,512] copies 2 partial 4");
  t.steps[1] = 8;
  CHECK(to_string(t) == "float32[64/2,512/1*8] copies 2 partial 4");
  CHECK(to_string(divided({}, {})) == "float32[]");
}

TEST_CASE("parallel types with other degrees or copies have different hashes") {
  const std::hash<parallel_type> hash;
  const auto t = divided({8, 8}, {2, 1}, 2, 1);
  CHECK(hash(t) == hash(divided({8, 8}, {2, 1}, 2, 1)));
  CHECK(hash(t) != hash(divided({8, 8}, {1, 2}, 2, 1)));
  CHECK(hash(t) != hash(dual(t)));
  auto stepped = t;
  stepped.steps[1] = 4;
  CHECK(hash(t) != hash(stepped));
  CHECK(hash(t) != hash(divided({8, 8}, {2, 1}, 2, 3)));
}

}  // namespace tests_of_parallel_type
