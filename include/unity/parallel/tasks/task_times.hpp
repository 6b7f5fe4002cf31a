// The time of the tasks of a divided operator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Roofline durations for each of the machine's kinds of devices. Uses the rate of float32 for element types without a
// rate. The algebra must outlive the result.
// Throws: unity::error for a kind of device without a float32 rate.
[[nodiscard]] tensor::roofline_durations analytic_durations(const tensor::algebra& a, const hardware::machine& m);

namespace detail {

// Sets the size of each windowed dimension so that the padded operator produces the part's result size. Parts at the
// border read less of the operand than others; the operator treats all alike.
void fit_windows(const tensor::algebra& a, const operator_dimensions& o, part_of_operation& s);

}  // namespace detail

// Throws: unity::error if the operator does not accept operands of such parts.
[[nodiscard]] part_of_operation operation_on(const tensor::algebra& a, const operator_dimensions& o, const shard& part);

// The operand type of a vector subtraction that moves as many bytes as an optimizer step: it reads weight and gradient,
// writes the weight, and reads and writes the optimizer's state.
[[nodiscard]] tensor::tensor_type update_operand(std::int64_t elements, tensor::dtype element, optimizer updates);

struct shard_times {
  picoseconds forward{};
  picoseconds backward{};  // of all operators of the adjoint
  std::uint32_t forward_launches = 0;  // operators that take time
  std::uint32_t backward_launches = 0;
};

// The sum of the times of all operators of an adjoint. timed(operation, types of operands, types of results): the time
// of one.
// Throws: unity::error if the operator has no adjoint.
template <class Timed>
[[nodiscard]] picoseconds adjoint_time(const tensor::algebra& a, const part_of_operation& s,
                                       const std::vector<bool>& wanted, const Timed& timed) {
  const auto adjoint = tensor::adjoint_of(a, s.op, s.inputs, wanted);
  const auto& g = adjoint.graph;
  const auto types = [&](std::span<const value_id> values) {
    std::vector<tensor::tensor_type> all;
    for (const auto v : values) {
      all.push_back(g.type(v));
    }
    return all;
  };
  picoseconds sum{};
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind.valid()) {
      sum += timed(g.operation(n), types(g.operands(n)), types(g.results(n)));
    }
  }
  return sum;
}

// The times of parts of operators, each computed once. `wanted`, per operand: whether its cotangent is computed.
class task_times {
 public:
  // The algebra must have the gradient operators (tensor::training_algebra) and outlive this.
  task_times(const tensor::algebra& a, tensor::durations durations, optimizer updates = optimizer::sgd)
      : algebra_{&a}, durations_{std::move(durations)}, optimizer_{updates} {}

  [[nodiscard]] optimizer updates() const noexcept { return optimizer_; }

  // kind: a number that identifies the operator. All parts of a configuration have the same time.
  [[nodiscard]] shard_times of(std::uint32_t kind, const operator_dimensions& o, const task_grid& grid,
                               const shard& part, const std::vector<bool>& wanted, std::uint32_t model);

  // The times of looking up rows of a table, and of the table's gradient from gradients of such rows. Shapes:
  // table[v, e]; ids[n], or [n, k] for sums of k rows.
  [[nodiscard]] picoseconds lookup(const tensor::tensor_type& table, const tensor::tensor_type& ids,
                                   std::uint32_t model) const;
  [[nodiscard]] picoseconds lookup_gradient(const tensor::tensor_type& table, const tensor::tensor_type& ids,
                                            std::uint32_t model) const;

  // The time of an optimizer step on that many elements.
  [[nodiscard]] picoseconds update(std::int64_t elements, tensor::dtype element, std::uint32_t model) const;

 private:
  struct key {
    std::uint32_t kind;
    std::uint32_t model;
    task_grid grid;
    std::vector<bool> wanted;

    friend auto operator<=>(const key&, const key&) = default;
  };

  [[nodiscard]] static picoseconds at_least_one(picoseconds t) { return std::max(t, picoseconds{1}); }
  [[nodiscard]] picoseconds timed(std::uint32_t model, const tensor::operation& op,
                                  std::span<const tensor::tensor_type> inputs,
                                  std::span<const tensor::tensor_type> outputs) const;
  const tensor::algebra* algebra_;
  tensor::durations durations_;
  optimizer optimizer_;
  std::map<key, shard_times> known_{};
};

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_TASK_TIMES)

#include <optional>
#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::parallel {

UNITY_INLINE tensor::roofline_durations analytic_durations(const tensor::algebra& a, const hardware::machine& m) {
  std::vector<tensor::rates_by_element> devices;
  for (const auto& d : m.devices) {
    const auto usual = hardware::roofline_of(d);
    if (!usual) {
      throw error{fmt::format("machine {}, device {}", m.name, d.name), "no float32 rate", "one, to predict times"};
    }
    auto& rates = devices.emplace_back();
    for (std::size_t element = 0; element < rates.size(); ++element) {
      rates[element] = hardware::roofline_of(d, static_cast<tensor::dtype>(element)).value_or(*usual);
    }
  }
  return {a, std::move(devices)};
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE void fit_windows(const tensor::algebra& a, const operator_dimensions& o, part_of_operation& s) {
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    for (std::size_t d = 0; d < o.inputs[i].dims.size(); ++d) {
      const auto& dim = o.structure.operands[i][d];
      const auto& results = o.structure.results[0];
      if (!dim.window) {
        continue;
      }
      const auto& w = o.structure.windows[*dim.window];
      const auto r = std::find_if(results.begin(), results.end(), [&](const tensor::dimension_index& x) {
        return x.indices == std::vector{static_cast<std::size_t>(w.outer)};
      });
      if (r == results.end()) {
        continue;
      }
      const auto place = static_cast<std::size_t>(r - results.begin());
      const auto wanted = s.outputs[0].dims[place];
      const auto taps = w.inner < 0 ? 1 : o.structure.indices[static_cast<std::size_t>(w.inner)].size;
      const auto reach = (taps - 1) * w.dilation + 1;
      if (wanted == o.outputs[0].dims[place]) {
        s.inputs[i].dims[d] = o.inputs[i].dims[d];
        continue;
      }
      for (auto size = (wanted - 1) * w.stride + reach; size >= 1; --size) {
        s.inputs[i].dims[d] = size;
        const auto results_of = a.infer(s.op, s.inputs);
        if (results_of && (*results_of)[0].dims[place] == wanted) {
          break;
        }
      }
    }
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE part_of_operation operation_on(const tensor::algebra& a, const operator_dimensions& o, const shard& part) {
  part_of_operation s{o.op, o.inputs, o.outputs};
  tensor::resizing sizes{o.op, o.inputs, o.outputs};
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    sizes.new_inputs.push_back(s.inputs[i].dims = part.operands[i].sizes());
  }
  for (std::size_t r = 0; r < o.outputs.size(); ++r) {
    sizes.new_outputs.push_back(s.outputs[r].dims = part.results[r].sizes());
  }
  s.op = tensor::resized_part(a, sizes);
  detail::fit_windows(a, o, s);
  const auto made = a.infer(s.op, s.inputs);
  if (!made || *made != s.outputs) {
    throw error{fmt::format("operator {}", a.signature(o.op.kind).name),
                made ? "results of other sizes for its parts" : "no results for its parts",
                made ? "an operator that runs on parts of its operands" : a.why_not(s.op, s.inputs)};
  }
  return s;
}

UNITY_INLINE tensor::tensor_type update_operand(std::int64_t elements, tensor::dtype element, optimizer updates) {
  const auto size = static_cast<std::int64_t>(tensor::size_of(element));
  const auto moved = elements * (3 * size + 2 * state_bytes(updates, element));
  tensor::tensor_type t;
  t.element = element;
  t.dims = {(moved + 3 * size - 1) / (3 * size)};
  return t;
}

UNITY_INLINE shard_times task_times::of(std::uint32_t kind, const operator_dimensions& o, const task_grid& grid,
                                        const shard& part, const std::vector<bool>& wanted, std::uint32_t model) {
  key k{kind, model, grid, wanted};
  const auto found = known_.find(k);
  if (found != known_.end()) {
    return found->second;
  }
  const auto s = operation_on(*algebra_, o, part);
  const auto counted = [&](std::uint32_t& launches) {
    return [this, model, &launches](const tensor::operation& op, const auto& inputs, const auto& outputs) {
      const auto takes = timed(model, op, inputs, outputs);
      launches += takes > picoseconds{} ? 1 : 0;
      return takes;
    };
  };
  shard_times t;
  t.forward = at_least_one(counted(t.forward_launches)(s.op, s.inputs, s.outputs));
  if (std::find(wanted.begin(), wanted.end(), true) != wanted.end()) {
    t.backward = at_least_one(adjoint_time(*algebra_, s, wanted, counted(t.backward_launches)));
  }
  known_.emplace(std::move(k), t);
  return t;
}

UNITY_INLINE picoseconds task_times::update(std::int64_t elements, tensor::dtype element, std::uint32_t model) const {
  const auto t = update_operand(elements, element, optimizer_);
  const std::vector<tensor::tensor_type> inputs{t, t};
  return at_least_one(timed(model, algebra_->make_operation("sub"), inputs, {&t, 1}));
}

UNITY_INLINE picoseconds task_times::lookup(const tensor::tensor_type& table, const tensor::tensor_type& ids,
                                            std::uint32_t model) const {
  auto rows = table;
  rows.dims[0] = ids.dims[0];
  const std::vector<tensor::tensor_type> inputs{table, ids};
  const auto op = algebra_->make_operation(ids.dims.size() > 1 ? "embedding_bag" : "embedding");
  return at_least_one(timed(model, op, inputs, {&rows, 1}));
}

UNITY_INLINE picoseconds task_times::lookup_gradient(const tensor::tensor_type& table, const tensor::tensor_type& ids,
                                                     std::uint32_t model) const {
  auto rows = table;
  rows.dims[0] = ids.dims[0];
  const std::vector<tensor::tensor_type> inputs{ids, rows};
  const auto* name = ids.dims.size() > 1 ? "embedding_bag_gradient" : "embedding_gradient";
  return at_least_one(timed(model, algebra_->make_operation(name, {{"rows", table.dims[0]}}), inputs, {&table, 1}));
}

UNITY_INLINE picoseconds task_times::timed(std::uint32_t model, const tensor::operation& op,
                                           std::span<const tensor::tensor_type> inputs,
                                           std::span<const tensor::tensor_type> outputs) const {
  const auto t = durations_.duration_of(model, op, inputs, outputs).expected;
  if (t > tasks::longest_task) {
    throw error{fmt::format("operator {}", algebra_->signature(op.kind).name),
                fmt::format("it would take {:f} s on the machine's device {}", to_seconds(t), model),
                "at most 100 s; are the device's rates right?"};
  }
  return t;
}

}  // namespace unity::parallel

#endif
