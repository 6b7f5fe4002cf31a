// Chains of parallelization operators.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <catch2/catch.hpp>

#include <unity/core/random.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>

#include "../random_pcg.hpp"

namespace tests_of_chains {

using namespace unity;
using namespace unity::parallel;
using unity::parallel::test::divided;
using unity::parallel::test::random_chain;
using unity::parallel::test::random_division;

TEST_CASE("the canonical chain of parallelization operators reduces first and injects last") {
  const auto chain = canonical_chain(divided({8, 8}, {4, 1}, 3, 2), divided({8, 8}, {1, 2}, 2, 5));
  CHECK(chain == parallel_chain{{parallel_kind::reduce, 0, 2},
                                {parallel_kind::discard, 0, 3},
                                {parallel_kind::combine, 0, 4},
                                {parallel_kind::partition, 1, 2},
                                {parallel_kind::replicate, 0, 2},
                                {parallel_kind::inject, 0, 5}});
  CHECK(canonical_chain(divided({12}, {4}), divided({12}, {6})) ==
        parallel_chain{{parallel_kind::combine, 0, 2}, {parallel_kind::partition, 0, 3}});
  CHECK(canonical_chain(divided({12}, {4}), divided({12}, {4})).empty());
}

TEST_CASE("the canonical chain changes pipeline steps while the dimension is whole") {
  const auto from = divided({12}, {2});
  auto to = from;
  to.steps[0] = 3;
  CHECK(canonical_chain(from, to) == parallel_chain{{parallel_kind::combine, 0, 2},
                                                    {parallel_kind::pipeline, 0, 3},
                                                    {parallel_kind::partition, 0, 2}});
}

TEST_CASE("the canonical chain between random parallel types ends in the target type", "[law]") {
  const auto seed = GENERATE(range(0U, 20U));
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 200; ++i) {
    const auto t = parallel::test::type({random.between(1, 12), random.between(1, 12), 4});
    const auto from = random_division(random, t, true);
    const auto to = random_division(random, t, true);
    const auto chain = canonical_chain(from, to);
    CAPTURE(to_string(from), to_string(to));
    REQUIRE(type_behind(from, chain) == to);
    REQUIRE(canonical(from, chain) == chain);
    REQUIRE(type_behind(dual(to), adjoint_of(chain)) == dual(from));
  }
}

TEST_CASE("a random chain and its canonical form end in the same parallel type", "[law]") {
  const auto seed = GENERATE(range(0U, 20U));
  CAPTURE(seed);
  random_engine random{seed};
  for (int i = 0; i < 200; ++i) {
    const auto from = random_division(random, parallel::test::type({12, 6}), true);
    const auto chain = random_chain(random, from, 6);
    const auto to = type_behind(from, chain);
    REQUIRE(to.has_value());
    const auto form = canonical(from, chain);
    REQUIRE(form.has_value());
    REQUIRE(type_behind(from, *form) == to);
    REQUIRE(form == canonical_chain(from, *to));
  }
}

TEST_CASE("a chain that its type does not accept has no end type and no canonical form") {
  const parallel_chain chain{{parallel_kind::reduce, 0, 2}};
  CHECK_FALSE(type_behind(divided({4}, {1}), chain));
  CHECK_FALSE(canonical(divided({4}, {1}), chain));
}

}  // namespace tests_of_chains
