#include <unity/parallel/synchronization.hpp>

#include <catch2/catch.hpp>

#include <utility>

#include <unity/tensor/builder.hpp>

#include "../support/message_of.hpp"
#include "../support/operators.hpp"

namespace tests_of_weight_synchronization {

using namespace unity;
using unity::test::training::operators;

TEST_CASE("compression of an integer weight is rejected because it is not trained") {
  tensor::builder b{operators()};
  const auto table = b.weight("table", {8, 4});
  const auto places = b.weight("places", {3}, tensor::dtype::int32);
  const auto rows = b.embedding(table, places);
  const auto g = std::move(b).finish({rows});
  parallel::synchronization s;
  s.weights.resize(2);
  s.weights[0].parts.front().compressor.kind = parallel::compression::float16;
  CHECK_NOTHROW(parallel::check(operators(), g, s, 2));
  s.weights[1].parts.front().compressor.kind = parallel::compression::float16;
  CHECK(unity::test::message_of([&] { parallel::check(operators(), g, s, 2); }) ==
        "synchronization, weight of node 1: a way of its own; expected none for what training does not change");
}

}  // namespace tests_of_weight_synchronization
