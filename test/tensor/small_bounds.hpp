// Bounds of sizes up to 2 for validations.
#pragma once

#include <algorithm>
#include <vector>

#include <unity/tensor/rules/bounded_instances.hpp>
#include <unity/tensor/verification/validate.hpp>

namespace unity::tensor::test {

// The widest of default_ladder() with sizes up to 2.
inline std::vector<instance_bounds> small_bounds() {
  const auto all = default_ladder();
  return {*std::find_if(all.begin(), all.end(), [](const instance_bounds& b) { return b.size == 2; })};
}

}  // namespace unity::tensor::test
