// Durations and cost models of tensor graphs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/cost/duration.hpp>
#include <unity/cost/roofline.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// Any model of the durations of tensor operators.
using durations = any_durations<algebra>;

// Inference: weights are fixed, so values that depend on weights alone are computed once and cost nothing (Jia's
// dissertation (2020), section 2.9.3). Training: weights change, so these values cost time in every iteration.
enum class mode : std::uint8_t { inference, training };

// Decides which operators run at all in a mode: not those that only relabel, nor, in inference, those whose results
// depend on weights alone.
class running_operators {
 public:
  running_operators(const algebra& operators, mode m);
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return mode_ == mode::inference && t.constant; }
  [[nodiscard]] bool runs(const operation& op, std::span<const tensor_type> inputs,
                          std::span<const tensor_type> outputs) const;

 private:
  // Whether elements keep their addresses: always between row-major types, otherwise only if layout and dimensions stay
  // the same.
  [[nodiscard]] static bool stays(const tensor_type& from, const tensor_type& to) noexcept {
    const auto is_list = [](const tensor_type& t) { return t.order == layout::row_major || t.rank() < 2; };
    return (is_list(from) && is_list(to)) || (from.order == to.order && from.dims == to.dims);
  }

  mode mode_;
  std::vector<bool> relabels_;  // by kind
};

// The rates of a device for tensor operators.
struct roofline_rates : device_rates {
  constexpr roofline_rates() = default;
  constexpr roofline_rates(const device_rates& d) : device_rates{d} {}

  // Speed of a matrix product relative to the fastest layout of its operands: [is a column-major][is b column-major].
  std::array<std::array<double, 2>, 2> product_efficiency{{{1, 1}, {1, 1}}};
  bool free_movement = false;  // operators that only relabel or reorder are free
};

// By dtype.
using rates_by_element = std::array<roofline_rates, dtype_names.size()>;

// Durations by the roofline of each device, with the rates for the element type of an operator's first result. Models
// duration_model. Operators that only relabel cost nothing. A roofline is a lower bound from arithmetic and memory
// traffic, without spread. The algebra must outlive it.
// Source: Williams et al., Roofline, CACM 52(4), 2009.
class roofline_durations {
 public:
  // One kind of device, with the same rates for all element types.
  roofline_durations(const algebra& operators, const roofline_rates& device);
  // `devices`: by number of the kind of device.
  roofline_durations(const algebra& operators, std::vector<rates_by_element> devices);

  // Precondition: the rates of the device were given.
  [[nodiscard]] duration duration_of(std::uint32_t device, const operation& op, std::span<const tensor_type> inputs,
                                     std::span<const tensor_type> outputs) const;
  [[nodiscard]] fingerprint version() const;

 private:
  [[nodiscard]] double efficiency(const roofline_rates& d, const operation& op,
                                  std::span<const tensor_type> inputs) const;

  const algebra* operators_;
  std::vector<rates_by_element> devices_;
  running_operators running_;
  std::array<kind_id, 3> moves_;  // movement operators, which are free if the device says so
  std::array<kind_id, 2> products_;
};

// The time of a graph on a device: the sum of the expected durations of its operators. Unit: picoseconds. Models
// staged_cost_model. Safe for several threads if the durations are. The algebra must outlive it.
template <duration_model<algebra> Durations>
class time_cost {
 public:
  using cost_type = picoseconds;
  static constexpr picoseconds cannot_run{1'000'000'000'000'000};  // 1000 s: more than any graph that can run

  time_cost(const algebra& operators, Durations all, mode m = mode::inference, std::uint32_t device = 0)
      : durations_{std::move(all)}, running_{operators, m}, device_{device} {}

  [[nodiscard]] picoseconds node_cost(const operation& op, std::span<const tensor_type> inputs,
                                      std::span<const tensor_type> outputs) const {
    try {
      return of(op, inputs, outputs).expected;
    } catch (const error&) {
      return cannot_run;
    }
  }
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(picoseconds total) const noexcept { return total.count(); }

  // The sum over the nodes of a graph.
  // Throws: unity::error about the first operator that cannot run.
  [[nodiscard]] duration total(const tensor_graph& g) const {
    duration sum;
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
      sum += of(g.operation(i), inputs, outputs);
    }
    return sum;
  }

 private:
  [[nodiscard]] duration of(const operation& op, std::span<const tensor_type> inputs,
                            std::span<const tensor_type> outputs) const {
    return running_.runs(op, inputs, outputs) ? durations_.duration_of(device_, op, inputs, outputs) : duration{};
  }

  Durations durations_;
  running_operators running_;
  std::uint32_t device_;
};

// Time by the roofline of one device.
class analytic_cost : public time_cost<roofline_durations> {
 public:
  analytic_cost(const algebra& operators, const roofline_rates& device, mode m = mode::inference)
      : time_cost{operators, roofline_durations{operators, device}, m} {}
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
  running_operators running_;
};

// Memory of results and parameters if none is reused. Unit: bytes. A value precomputed from weights counts once for
// each operator on activations that reads it; the weights from which it is computed do not count.
class memory_cost {
 public:
  using cost_type = bytes;

  explicit memory_cost(const algebra& operators, mode m = mode::inference) : running_{operators, m} {}

  [[nodiscard]] bytes node_cost(const operation& op, std::span<const tensor_type> inputs,
                                std::span<const tensor_type> outputs) const;
  [[nodiscard]] bool computed_before(const tensor_type& t) const { return running_.computed_before(t); }
  [[nodiscard]] cost_value objective(bytes total) const noexcept { return total.count(); }

 private:
  running_operators running_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_COST)

#include <algorithm>
#include <bit>

#include <unity/core/config.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor {

UNITY_INLINE running_operators::running_operators(const algebra& operators, mode m)
    : mode_{m}, relabels_(operators.kind_count()) {
  for (std::size_t k = 0; k < operators.kind_count(); ++k) {
    const auto runs = operators.definition_of(kind_id{k}).runs;
    relabels_[k] = runs == runs_in::no_mode || (runs == runs_in::training && m == mode::inference);
  }
}

UNITY_INLINE bool running_operators::runs(const operation& op, std::span<const tensor_type> inputs,
                                          std::span<const tensor_type> outputs) const {
  const bool precomputed =
      std::all_of(outputs.begin(), outputs.end(), [&](const auto& t) { return computed_before(t); });
  return !inputs.empty() && !precomputed && !(relabels_[op.kind.index()] && stays(inputs[0], outputs[0]));
}

UNITY_INLINE roofline_durations::roofline_durations(const algebra& operators, const roofline_rates& device)
    : roofline_durations{operators, {[&] {
                           rates_by_element all;
                           all.fill(device);
                           return all;
                         }()}} {}

UNITY_INLINE roofline_durations::roofline_durations(const algebra& operators, std::vector<rates_by_element> devices)
    : operators_{&operators},
      devices_{std::move(devices)},
      running_{operators, mode::training},
      moves_{operators.kind("split"), operators.kind("transpose"), operators.kind("enlarge")},
      products_{operators.kind("matmul"), operators.kind("linear")} {}

UNITY_INLINE duration roofline_durations::duration_of(std::uint32_t device, const operation& op,
                                                      std::span<const tensor_type> inputs,
                                                      std::span<const tensor_type> outputs) const {
  UNITY_EXPECTS(device < devices_.size(), "a device whose rates were given");
  const auto element = outputs.empty() ? dtype::float32 : outputs[0].element;
  const auto& d = devices_[device][static_cast<std::size_t>(element)];
  const bool is_free = d.free_movement && std::find(moves_.begin(), moves_.end(), op.kind) != moves_.end();
  if (is_free || !running_.runs(op, inputs, outputs)) {
    return {};
  }
  return duration::exactly(roofline_time(d, operators_->work(op, inputs, outputs), efficiency(d, op, inputs)));
}

UNITY_INLINE fingerprint roofline_durations::version() const {
  hasher h;
  const auto add = [&](double x) { h.add(std::bit_cast<std::uint64_t>(x)); };
  for (const auto& device : devices_) {
    for (const auto& d : device) {
      add(d.flops_per_second);
      add(d.bytes_per_second);
      add(d.launch_seconds);
      for (const auto& row : d.product_efficiency) {
        add(row[0]);
        add(row[1]);
      }
      h.add(d.free_movement ? 1 : 0);
    }
  }
  return h.result();
}

UNITY_INLINE double roofline_durations::efficiency(const roofline_rates& d, const operation& op,
                                                   std::span<const tensor_type> inputs) const {
  if (inputs.size() < 2 || std::find(products_.begin(), products_.end(), op.kind) == products_.end()) {
    return 1;
  }
  return d.product_efficiency[inputs[0].order == layout::column_major][inputs[1].order == layout::column_major];
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
