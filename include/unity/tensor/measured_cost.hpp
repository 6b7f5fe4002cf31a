// The cost of a tensor graph by measured times of its operators.
#pragma once

#include <cstddef>
#include <span>
#include <variant>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/cost/kernel_timer.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

// The timer's median; nothing for what an executor does not run. Unit: picoseconds. Models staged_cost_model. Algebra
// and timer must outlive the model, which asks the timer while it prices: from one thread at a time, unless the timer
// takes several.
// An operator that cannot be run costs more than any graph that can.
template <remembering_timer<algebra> Timer>
class measured_cost {
 public:
  using cost_type = picoseconds;
  static constexpr picoseconds cannot_run{1'000'000'000'000'000};  // 1000 s

  measured_cost(const algebra& operators, Timer& timer, mode m = mode::inference)
      : operators_{&operators}, timer_{&timer}, running_{operators, m} {}

  [[nodiscard]] picoseconds node_cost(const operation& op, std::span<const tensor_type> inputs,
                                      std::span<const tensor_type> outputs) const {
    try {
      return time(op, inputs, outputs);
    } catch (const error&) {
      return cannot_run;
    }
  }
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(picoseconds total) const noexcept { return total.count(); }

  // The sum over the nodes of a graph.
  // Throws: unity::error of the first operator that cannot be run.
  [[nodiscard]] picoseconds time(const tensor_graph& g) const {
    picoseconds sum;
    std::vector<tensor_type> inputs;
    std::vector<tensor_type> outputs;
    for (const auto i : node_ids(g)) {
      inputs.clear();
      outputs.clear();
      for (const auto v : g.operands(i)) {
        inputs.push_back(g.type(v));
      }
      for (const auto v : g.results(i)) {
        outputs.push_back(g.type(v));
      }
      sum += time(g.operation(i), inputs, outputs);
    }
    return sum;
  }

 private:
  [[nodiscard]] picoseconds time(const operation& op, std::span<const tensor_type> inputs,
                                 std::span<const tensor_type> outputs) const {
    return running_.runs(op, inputs, outputs) && !shares_memory(op, inputs, outputs)
               ? timer_->time(op, inputs, outputs).median
               : picoseconds{};
  }
  // An executor does not run it: the results lie where the operand does, such as slices of rows.
  [[nodiscard]] bool shares_memory(const operation& op, std::span<const tensor_type> inputs,
                                   std::span<const tensor_type> outputs) const {
    return std::holds_alternative<view>(operators_->definition_of(op.kind).body) &&
           operators_->work(op, inputs, outputs).moved == bytes{};
  }

  const algebra* operators_;
  Timer* timer_;
  detail::running_operators running_;
};

}  // namespace unity::tensor
