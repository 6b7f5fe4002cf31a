// How long tensor operators take, measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <variant>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/duration.hpp>
#include <unity/cost/kernel_timer.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/timing_cache.hpp>

namespace unity::tensor {

// What a cache of timings knows, or measures where it does not: the median, and half of the spread to either side.
// Nothing for what an executor does not run. All kinds of devices are the one that is timed. A duration_model as long
// as algebra and cache live; another process that measures anew may get other times under the same version. Throws:
// unity::error that names the operator where it cannot be run.
template <kernel_timer<algebra> Timer>
class measured_durations {
 public:
  // shares_memory: what is timed leaves results where their operands lie if it can, such as slices of rows.
  measured_durations(const algebra& operators, timing_cache<Timer>& cache, bool shares_memory = true)
      : operators_{&operators}, cache_{&cache}, running_{operators, mode::training}, shares_{shares_memory} {}

  [[nodiscard]] duration duration_of(std::uint32_t, const operation& op, std::span<const tensor_type> inputs,
                                     std::span<const tensor_type> outputs) const {
    if (!running_.runs(op, inputs, outputs) || (shares_ && shares_memory(op, inputs, outputs))) {
      return {};
    }
    const auto m = cache_->time(op, inputs, outputs);
    const picoseconds half{m.spread.count() / 2};
    return {m.median, std::max(m.median - half, picoseconds{1}), m.median + half};
  }
  [[nodiscard]] fingerprint version() const { return hasher{hash_bytes(cache_->description())}.result(); }

 private:
  // An executor does not run it: the results lie where the operand does, such as slices of rows.
  [[nodiscard]] bool shares_memory(const operation& op, std::span<const tensor_type> inputs,
                                   std::span<const tensor_type> outputs) const {
    return std::holds_alternative<view>(operators_->definition_of(op.kind).body) &&
           operators_->work(op, inputs, outputs).moved == bytes{};
  }

  const algebra* operators_;
  timing_cache<Timer>* cache_;
  detail::running_operators running_;
  bool shares_;
};

}  // namespace unity::tensor
