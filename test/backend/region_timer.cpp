#include <unity/backend/device_timer.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <utility>

#include <unity/backend/cpu.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/builder.hpp>

namespace tests_of_region_timer {

using namespace unity;

TEST_CASE("a region is timed together with each of its operators that runs", "[region_timer]") {
  const auto operators = tensor::standard_algebra();
  tensor::builder b{operators};
  const auto x = b.input("x", {32, 64});
  const auto y = b.reshape(b.matmul(x, b.input("w", {64, 48})), {32, 6, 8});
  auto g = std::move(b).finish({b.relu(y)});
  const auto node_count = g.node_count();
  const fusion::kernel_region region{std::move(g), {true, false, true, true, true}, 32};
  backend::cpu_backend device{operators, {.threads = 1}};
  const auto times = backend::time_region_and_parts(device, operators, region, {.least = 2, .seconds = 0.001});
  CHECK(times.fused.median > picoseconds{});
  REQUIRE(times.parts.size() == node_count);
  picoseconds sum{};
  for (std::size_t n = 0; n < node_count; ++n) {
    CAPTURE(n);
    const bool runs = n == 2 || n == 4;  // the product and relu
    CHECK((times.parts[n].median > picoseconds{}) == runs);
    sum += times.parts[n].median;
  }
  CHECK(times.parts_sum() == sum);
}

}  // namespace tests_of_region_timer
