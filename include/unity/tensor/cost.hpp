// Cost models of tensor graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Inference: weights are fixed, so what depends on them alone is computed once and costs nothing
// (Jia's dissertation (2020), section 2.9.3). Training: weights change, so it costs every iteration.
enum class mode : std::uint8_t { inference, training };

namespace detail {

// Which operators run at all.
class running_operators {
 public:
  running_operators(const algebra& operators, mode m);
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return mode_ == mode::inference && t.constant; }
  [[nodiscard]] bool runs(const operation& op, std::span<const tensor_type> inputs,
                          std::span<const tensor_type> outputs) const;

 private:
  // In another order of rows and columns, elements that keep their place in the list of all change their address.
  [[nodiscard]] static bool stays(const tensor_type& from, const tensor_type& to) noexcept {
    const auto is_list = [](const tensor_type& t) { return t.order == layout::row_major || t.rank() < 2; };
    return (is_list(from) && is_list(to)) || (from.order == to.order && from.dims == to.dims);
  }

  mode mode_;
  std::set<kind_id> relabels_;
};

}  // namespace detail

// Time by a roofline of one device. Unit: picoseconds. The algebra must outlive the model.
class analytic_cost {
 public:
  using cost_type = picoseconds;

  analytic_cost(const algebra& operators, device_rates device, mode m = mode::inference);

  [[nodiscard]] picoseconds node_cost(const operation& op, std::span<const tensor_type> inputs,
                                      std::span<const tensor_type> outputs) const;
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(picoseconds total) const noexcept { return total.count(); }

 private:
  [[nodiscard]] double efficiency(const operation& op, std::span<const tensor_type> inputs) const;

  const algebra* operators_;
  device_rates device_;
  detail::running_operators running_;
  std::set<kind_id> moves_;
  std::set<kind_id> products_;
};

// Arithmetic. Unit: floating-point operations.
class flop_cost {
 public:
  using cost_type = flops;

  explicit flop_cost(const algebra& operators, mode m = mode::inference)
      : operators_{&operators}, running_{operators, m} {}

  [[nodiscard]] flops node_cost(const operation& op, std::span<const tensor_type> inputs,
                                std::span<const tensor_type> outputs) const {
    return running_.runs(op, inputs, outputs) ? operators_->work(op, inputs, outputs).operations : flops{};
  }
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(flops total) const noexcept { return total.count(); }

 private:
  const algebra* operators_;
  detail::running_operators running_;
};

// Memory that results and parameters take when nothing is reused. Unit: bytes. What is precomputed from weights
// is counted where activations read it, the weights behind it are not.
class memory_cost {
 public:
  using cost_type = bytes;

  explicit memory_cost(const algebra& operators, mode m = mode::inference) : running_{operators, m} {}

  [[nodiscard]] bytes node_cost(const operation& op, std::span<const tensor_type> inputs,
                                std::span<const tensor_type> outputs) const;
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(bytes total) const noexcept { return total.count(); }

 private:
  detail::running_operators running_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_COST)

#include <algorithm>
#include <optional>
#include <string_view>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::detail {

UNITY_INLINE running_operators::running_operators(const algebra& operators, mode m) : mode_{m} {
  for (std::size_t k = 0; k < operators.kind_count(); ++k) {
    const auto runs = operators.definition_of(kind_id{k}).runs;
    if (runs == runs_in::no_mode || (runs == runs_in::training && m == mode::inference)) {
      relabels_.insert(kind_id{k});
    }
  }
}

UNITY_INLINE bool running_operators::runs(const operation& op, std::span<const tensor_type> inputs,
                                          std::span<const tensor_type> outputs) const {
  const bool precomputed =
      std::all_of(outputs.begin(), outputs.end(), [&](const auto& t) { return computed_before(t); });
  return !inputs.empty() && !precomputed && !(relabels_.contains(op.kind) && stays(inputs[0], outputs[0]));
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE analytic_cost::analytic_cost(const algebra& operators, device_rates device, mode m)
    : operators_{&operators}, device_{device}, running_{operators, m} {
  for (const auto* name : {"split", "transpose", "enlarge"}) {
    moves_.insert(operators.kind(name));
  }
  products_ = {operators.kind("matmul"), operators.kind("linear")};
}

UNITY_INLINE picoseconds analytic_cost::node_cost(const operation& op, std::span<const tensor_type> inputs,
                                                  std::span<const tensor_type> outputs) const {
  if (!running_.runs(op, inputs, outputs) || (device_.free_movement && moves_.contains(op.kind))) {
    return {};
  }
  return roofline_time(device_, operators_->work(op, inputs, outputs), efficiency(op, inputs));
}

UNITY_INLINE double analytic_cost::efficiency(const operation& op, std::span<const tensor_type> inputs) const {
  if (!products_.contains(op.kind) || inputs.size() < 2) {
    return 1;
  }
  return device_.product_efficiency[inputs[0].order == layout::column_major][inputs[1].order == layout::column_major];
}

UNITY_INLINE bytes memory_cost::node_cost(const operation& op, std::span<const tensor_type> inputs,
                                          std::span<const tensor_type> outputs) const {
  if (!running_.runs(op, inputs, outputs)) {
    return {};
  }
  auto held = total_bytes(outputs);
  for (const auto& t : inputs) {
    held += t.constant ? size_in_bytes(t) : bytes{};
  }
  return held;
}

}  // namespace unity::tensor

#endif
