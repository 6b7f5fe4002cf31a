// Optimizer states and their names.

#include <catch2/catch.hpp>

#include <unity/parallel/optimizer.hpp>
#include <unity/tensor/shape.hpp>

namespace tests_of_optimizer {

using namespace unity;
using parallel::optimizer;
using parallel::state_bytes;
using tensor::dtype;

static_assert(state_bytes(optimizer::sgd, dtype::float32) == 0);
static_assert(state_bytes(optimizer::momentum, dtype::float32) == 4);
static_assert(state_bytes(optimizer::adam, dtype::float32) == 8);
// With a float32 master copy: 16 bytes per weight, including the gradient, for Adam in mixed precision.
static_assert(state_bytes(optimizer::sgd, dtype::bfloat16) == 4);
static_assert(2 + 2 + state_bytes(optimizer::adam, dtype::float16) == 16);
static_assert(state_bytes(optimizer::adam, dtype::float64) == 16);

TEST_CASE("find_optimizer finds optimizers by exact name only") {
  CHECK(parallel::find_optimizer("sgd") == optimizer::sgd);
  CHECK(parallel::find_optimizer("momentum") == optimizer::momentum);
  CHECK(parallel::find_optimizer("adam") == optimizer::adam);
  CHECK_FALSE(parallel::find_optimizer("Adam"));
  CHECK_FALSE(parallel::find_optimizer("adamw"));
  CHECK_FALSE(parallel::find_optimizer("ada"));
  CHECK_FALSE(parallel::find_optimizer(""));
}

}  // namespace tests_of_optimizer
