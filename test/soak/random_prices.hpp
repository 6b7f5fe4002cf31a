// Random prices of operators.
#pragma once

#include <cstdint>
#include <span>

#include <unity/core/hash.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::test {

// A random price per operator kind, independent of sizes, so that searches take different paths.
class random_prices {
 public:
  using cost_type = cost_value;

  random_prices(std::uint64_t seed, bool weights_are_fixed) : seed_{seed}, fixed_{weights_are_fixed} {}

  [[nodiscard]] cost_value node_cost(const tensor::operation& op, std::span<const tensor::tensor_type> inputs,
                                     std::span<const tensor::tensor_type> outputs) const {
    const bool is_free = inputs.empty() || computed_before(outputs[0]);
    return is_free ? 0 : static_cast<cost_value>(1 + hash_combine(seed_, op.kind.index()) % 64);
  }
  [[nodiscard]] bool computed_before(const tensor::tensor_type& t) const { return fixed_ && t.constant; }
  [[nodiscard]] cost_value objective(cost_value total) const noexcept { return total; }

 private:
  std::uint64_t seed_;
  bool fixed_;
};

}  // namespace unity::test
