// Delta simulation must agree with a full simulation of the same tasks.
#pragma once

#include <cstddef>

#include <catch2/catch.hpp>

#include <unity/simulate/delta.hpp>
#include <unity/simulate/full.hpp>

namespace unity::test {

// Requires equal times for every task.
inline void require_as_full(const simulate::delta_simulation& delta, simulate::full_simulation& full) {
  const auto latest = full.run(delta.program());
  std::size_t differ = 0;
  for (const auto t : full.order()) {
    differ += delta.times(t) == full.times()[t] ? 0 : 1;
  }
  REQUIRE(differ == 0);
  REQUIRE(delta.iteration_time() == latest);
}

}  // namespace unity::test
