// Measured durations of tensor operators.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/timing_cache.hpp>

namespace unity::tensor {

// Durations from a timing cache, which measures those that it lacks: the median, and the interval that contains four of
// five runs. Zero for operators that an executor does not run. All kinds of devices are the one that is timed. Models
// duration_model as long as algebra and cache live; another process that measures again may get other times under the
// same version.
// Throws: unity::error that names the operator if it cannot run.
template <kernel_timer<algebra> Timer>
class measured_durations {
 public:
  // shares_memory: the timed executor leaves results in the memory of their operands if it can, such as slices of rows.
  measured_durations(const algebra& operators, timing_cache<Timer>& cache, bool shares_memory = true)
      : operators_{&operators}, cache_{&cache}, running_{operators, mode::training}, shares_{shares_memory} {}

  [[nodiscard]] duration duration_of(std::uint32_t, const operation& op, std::span<const tensor_type> inputs,
                                     std::span<const tensor_type> outputs) const {
    if (!running_.runs(op, inputs, outputs) || (shares_ && shares_memory(op, inputs, outputs))) {
      return {};
    }
    const auto m = cache_->time(op, inputs, outputs);
    return {m.median, m.low, m.high};
  }
  [[nodiscard]] fingerprint version() const { return hasher{hash_bytes(cache_->description())}.result(); }

 private:
  // An executor does not run such an operator: the results lie in the memory of the operand, such as slices of rows.
  [[nodiscard]] bool shares_memory(const operation& op, std::span<const tensor_type> inputs,
                                   std::span<const tensor_type> outputs) const {
    return std::holds_alternative<view>(operators_->definition_of(op.kind).body) &&
           operators_->work(op, inputs, outputs).moved == bytes{};
  }

  const algebra* operators_;
  timing_cache<Timer>* cache_;
  running_operators running_;
  bool shares_;
};

}  // namespace unity::tensor
