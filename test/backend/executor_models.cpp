// Models on the reference backend with every optional capability of a backend.
#include <catch2/catch.hpp>

#include <unity/backend/executor.hpp>
#include <unity/backend/reference.hpp>
#include <unity/tensor/shrink.hpp>
#include <unity/tensor/source_values.hpp>
#include <unity/tensor/zoo.hpp>

#include "executor_suite.hpp"
#include "observed_backend.hpp"

namespace tests_of_executor_models {

using namespace unity::backend;
using namespace unity::backend::test;

TEST_CASE("models and their optimized graphs match the double reference on a reference backend", "[executor]") {
  observed_backend b{standard()};
  check_models(b);
}

TEST_CASE("graphs with searched layouts give the same outputs on a reference backend", "[executor]") {
  observed_backend b{standard()};
  check_searched_layouts(b);
}

TEST_CASE("the executor's arena for ResNet-50 is below a quarter of its values' memory", "[executor]") {
  const auto full = unity::tensor::zoo::build(standard(), "zoo:resnet50");
  const auto small = unity::tensor::shrink(standard(), full, full, {.least = 4}).first;
  reference_backend b{standard()};
  const executor e{b, standard(), small, {.data = unity::tensor::balanced_values(standard(), small)}};
  CHECK(4 * e.counts().arena.count() < e.counts().unshared.count());
}

}  // namespace tests_of_executor_models
