// Bytes that training moves beside the graph's operators, computed by hand.
#include <unity/parallel/strategies/training_kernels.hpp>

#include <catch2/catch.hpp>

#include <cstdint>

#include <unity/core/units.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/tensor/shape.hpp>

#include "../operators.hpp"

namespace tests_of_training_kernels {

using namespace unity;
using tensor::dtype;

TEST_CASE("bytes that training kernels move per element match hand counts") {
  // Dropout, forward: 2 bytes read, 2 and a 1-byte mask written. With the residual sum: 2 more read.
  CHECK(parallel::dropout_bytes(3, dtype::bfloat16) == 3 * 5);
  CHECK(parallel::dropout_add_bytes(3, dtype::bfloat16) == 3 * 7);
  CHECK(parallel::cotangent_sum_bytes(3, dtype::bfloat16) == 3 * 6);
  // Gradients accumulate in float32: 2 read, 4 read, 4 written.
  CHECK(parallel::gradient_bytes(dtype::bfloat16) == 4);
  CHECK(parallel::gradient_bytes(dtype::float64) == 8);
  CHECK(parallel::accumulation_bytes(3, dtype::bfloat16) == 3 * 10);
  CHECK(parallel::accumulation_bytes(3, dtype::float32) == 3 * 12);
  // Norm 4, clipping 8, step 4 + 8 for the weight + 16 for two moments, narrow copy 4 + 2, zeroing the gradient 4.
  CHECK(parallel::step_bytes(3, dtype::bfloat16, parallel::optimizer::adam) == 3 * 50);
  CHECK(parallel::step_bytes(3, dtype::float32, parallel::optimizer::adam) == 3 * 44);
  CHECK(parallel::step_bytes(3, dtype::float32, parallel::optimizer::sgd) == 3 * 28);
}

TEST_CASE("moving_time is linear in the bytes") {
  const auto& a = parallel::test::operators();
  const auto m = hardware::preset("dgx_a100:1x1");
  const auto durations = parallel::analytic_durations(a, m);
  const auto of = [&](std::int64_t moved) { return parallel::moving_time(a, durations, 0, moved).count(); };
  CHECK(of(0) == 0);
  CHECK(of(1) > 0);
  const auto one = of(1'200'000'000) - of(1);
  const auto two = of(2'400'000'000) - of(1);
  CHECK(static_cast<double>(two) == Approx(2.0 * static_cast<double>(one)).epsilon(0.01));
}

}  // namespace tests_of_training_kernels
