// The durations of the GPU kernels with which PyTorch runs tensor operators.
//
// What PyTorch runs as one kernel is priced as one, and what becomes part of a neighbour's kernel costs nothing:
// - Products accept transposed operands, and other operators strided ones: transpositions and slices cost nothing.
// - An element-wise operator with one operand of the result's size and otherwise only smaller ones is the prologue or
//   epilogue of the kernel next to it: the bias of a product (cuBLASLt, optionally with gelu), scale and mask of a
//   softmax (Megatron's fused softmax, flash attention). Activations that are attributes are also free.
// - Attention as one operator, and its gradient, are flash attention.
// This is decided for each operator alone, because searches price parts of operators that are not yet in a graph. So an
// operator is free even if it has no neighbour that could absorb it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/cost/duration.hpp>
#include <unity/hardware/kernel_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::hardware {

// The kernels of an operator, in order; empty if it costs nothing. An operator without a kernel in the model, such as
// an embedding or a sum, is a kernel that moves its bytes, as an element-wise operator is.
[[nodiscard]] std::vector<kernel_shape> kernels_of(const tensor::algebra& operators, const tensor::operation& op,
                                                   std::span<const tensor::tensor_type> inputs,
                                                   std::span<const tensor::tensor_type> outputs);

using kernel_devices_by_element = std::array<kernel_device, tensor::dtype_names.size()>;

// Durations by the kernel model with the coefficients of machines/kernels.json, for the element type of an operator's
// first result. Kernels run one after another on a device that is kept busy: each costs its own time or the time to
// launch the next one, whichever is longer. low and high: the interval that contains the times of four of five kernels
// to which the coefficients were not fitted (kernel_interval). Models duration_model; the algebra must outlive it.
class kernel_durations {
 public:
  // `devices`: by number of the kind of device.
  kernel_durations(const tensor::algebra& operators, std::vector<kernel_devices_by_element> devices);

  // Precondition: the device was given.
  [[nodiscard]] duration duration_of(std::uint32_t device, const tensor::operation& op,
                                     std::span<const tensor::tensor_type> inputs,
                                     std::span<const tensor::tensor_type> outputs) const;
  [[nodiscard]] fingerprint version() const;

 private:
  const tensor::algebra* operators_;
  std::vector<kernel_devices_by_element> devices_;
  tensor::running_operators running_;
};

}  // namespace unity::hardware

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_HARDWARE_KERNEL_DURATIONS)

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <variant>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/kernel_table.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>
#include <unity/tensor/work.hpp>

namespace unity::hardware::detail {

// Per index of the space: whether it runs along a dimension of an operand or result.
[[nodiscard]] inline std::vector<bool> indices_of(const tensor::space& s, std::span<const tensor::access> accesses) {
  std::vector<bool> has(s.indices().size());
  for (const auto& a : accesses) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      has[a[i]] = true;
    }
    if (a.is_window()) {
      const auto& w = s.windows()[a.window_number()];
      has[static_cast<std::size_t>(w.outer)] = true;
      if (w.inner >= 0) {
        has[static_cast<std::size_t>(w.inner)] = true;
      }
    }
  }
  return has;
}

[[nodiscard]] inline bool sums_products(const tensor::scalar_kernel& k) noexcept {
  const auto& p = k.inner;
  return k.reduce == tensor::reduction::sum && p.size() == 3 && p[0].op == tensor::scalar_op::operand &&
         p[1].op == tensor::scalar_op::operand && p[2].op == tensor::scalar_op::mul;
}

[[nodiscard]] inline double element_bytes_of(std::span<const tensor::tensor_type> outputs) {
  return outputs.empty() ? 4 : static_cast<double>(tensor::size_of(outputs[0].element));
}

// Matrix products, convolutions and their gradients. Rows are the indices of the first operand and the result, columns
// those of the second operand and the result.
[[nodiscard]] inline kernel_shape product_of(const tensor::space& s, double element_bytes) {
  const auto left = indices_of(s, s.operand(0));
  const auto right = indices_of(s, s.operand(1));
  const auto result = indices_of(s, s.result_accesses(0));
  kernel_shape k;
  k.m = k.n = k.k = 1;
  for (std::size_t i = 0; i < s.indices().size(); ++i) {
    const auto size = static_cast<double>(s.indices()[i].size);
    (!result[i] ? k.k : left[i] && right[i] ? k.batch : left[i] ? k.m : k.n) *= size;
  }
  k.element_bytes = element_bytes;
  k.kind = element_bytes <= 2 ? kernel_kind::tensor_product
           : k.batch > 1      ? kernel_kind::batched_product
                              : kernel_kind::product;
  return k;
}

// 3x3 convolutions that keep the image size, and their input gradients, in 4-byte elements. Nothing for other
// operators.
[[nodiscard]] inline std::optional<kernel_shape> convolution_of(std::string_view name,
                                                                std::span<const tensor::tensor_type> inputs,
                                                                std::span<const tensor::tensor_type> outputs) {
  const bool forward = name == "conv2d";
  if ((!forward && name != "conv2d_input_gradient") || tensor::size_of(outputs[0].element) != 4) {
    return std::nullopt;
  }
  const auto& weights = inputs[1].dims;
  const auto& from = inputs[0].dims;
  const auto& to = outputs[0].dims;
  const bool is_whole = from[1] == weights[forward ? 1 : 0] && to[1] == weights[forward ? 0 : 1];
  if (weights[2] != 3 || weights[3] != 3 || !is_whole || from[2] != to[2] || from[3] != to[3]) {
    return std::nullopt;
  }
  kernel_shape k{kernel_kind::convolution, static_cast<double>(from[0])};
  k.m = std::sqrt(static_cast<double>(from[2] * from[3]));
  k.n = static_cast<double>(to[1]);
  k.k = static_cast<double>(from[1]);
  return k;
}

// Rows of elements that are reduced together: m rows of width n.
[[nodiscard]] inline kernel_shape rows_of(kernel_kind kind, const tensor::tensor_type& t, std::int64_t axis,
                                          bool to_the_last, double operands) {
  const auto rank = static_cast<std::int64_t>(t.rank());
  const auto first = axis < 0 ? axis + rank : axis;
  double width = 1;
  for (auto d = first; d < (to_the_last ? rank : first + 1); ++d) {
    width *= static_cast<double>(t.dims[static_cast<std::size_t>(d)]);
  }
  kernel_shape k{kind};
  k.m = static_cast<double>(tensor::element_count(t.dims)) / std::max(width, 1.0);
  k.n = width;
  k.operands = operands;
  k.element_bytes = static_cast<double>(tensor::size_of(t.element));
  return k;
}

// Operands: q[b, h, s, d] and k[b, g, t, d], or heads side by side, as in dot_product_attention.
[[nodiscard]] inline kernel_shape attention_of(kernel_kind kind, const tensor::attribute_reader& a,
                                               std::span<const tensor::tensor_type> inputs) {
  const auto& q = inputs[0].dims;
  const auto& k = inputs[1].dims;
  const auto heads = a.integer("heads");
  const auto size = [](std::int64_t x) { return static_cast<double>(x); };
  kernel_shape s{kind, size(q[0] * (heads == 0 ? q[1] : heads))};
  s.m = size(q[heads == 0 ? 2 : 1]);
  s.n = size(k[heads == 0 ? 2 : 1]);
  s.k = heads == 0 ? size(q[3]) : size(q[2] / heads);
  s.element_bytes = size(static_cast<std::int64_t>(tensor::size_of(inputs[0].element)));
  s.causal = a.flag("causal");
  return s;
}

// A kernel that only moves the given bytes.
[[nodiscard]] inline kernel_shape traffic_of(bytes moved, std::span<const tensor::tensor_type> outputs) {
  kernel_shape k;
  std::int64_t most = 1;
  for (const auto& t : outputs) {
    most = std::max(most, tensor::element_count(t.dims));
  }
  k.m = static_cast<double>(most);
  k.n = 1;
  k.element_bytes = element_bytes_of(outputs);
  k.operands = static_cast<double>(moved.count()) / (k.m * k.element_bytes);
  return k;
}

[[nodiscard]] inline bool joins_neighbour(std::span<const tensor::tensor_type> inputs,
                                          std::span<const tensor::tensor_type> outputs) {
  const auto size = tensor::element_count(outputs[0].dims);
  const auto whole = std::count_if(inputs.begin(), inputs.end(),
                                   [&](const tensor::tensor_type& t) { return tensor::element_count(t.dims) >= size; });
  return inputs.size() > 1 && whole == 1;
}

[[nodiscard]] inline std::vector<kernel_shape> kernels_of_primitive(const tensor::algebra& operators,
                                                                    const tensor::operation& op,
                                                                    std::span<const tensor::tensor_type> inputs,
                                                                    std::span<const tensor::tensor_type> outputs) {
  const auto& p = std::get<tensor::primitive>(operators.definition_of(op.kind).body);
  const auto kernel = p.kernel(operators.read(op), inputs);
  if (kernel.reduce == tensor::reduction::none && joins_neighbour(inputs, outputs)) {
    return {};
  }
  if (inputs.size() > 1 && sums_products(kernel)) {
    if (const auto c = convolution_of(operators.signature(op.kind).name, inputs, outputs)) {
      return {*c};
    }
    if (const auto s = operators.iteration(op, inputs)) {
      return {product_of(*s, element_bytes_of(outputs))};
    }
  }
  return {traffic_of(operators.work(op, inputs, outputs).moved, outputs)};
}

// One kernel, or the kernels of its body if that multiplies matrices.
[[nodiscard]] inline std::vector<kernel_shape> kernels_of_composite(const tensor::algebra& operators,
                                                                    const tensor::operation& op,
                                                                    std::span<const tensor::tensor_type> inputs,
                                                                    std::span<const tensor::tensor_type> outputs) {
  const auto moved = operators.work(op, inputs, outputs).moved;
  std::vector<kernel_shape> all;
  if (const auto g = operators.body(op, inputs)) {
    const auto types = [&](std::span<const value_id> values) {
      std::vector<tensor::tensor_type> of;
      for (const auto v : values) {
        of.push_back(g->type(v));
      }
      return of;
    };
    for (const auto n : node_ids(*g)) {
      if (g->operation(n).kind.valid() && !g->operands(n).empty()) {
        const auto some = kernels_of(operators, g->operation(n), types(g->operands(n)), types(g->results(n)));
        all.insert(all.end(), some.begin(), some.end());
      }
    }
  }
  const bool multiplies =
      std::any_of(all.begin(), all.end(), [](const kernel_shape& k) { return operations_of(k) > 0; });
  return multiplies ? all : std::vector{traffic_of(moved, outputs)};
}

// The kernels of the operator `attention`: the projections of queries, keys, values and the result, and the attention
// kernel between them.
[[nodiscard]] inline std::vector<kernel_shape> projected_attention(const tensor::algebra& operators,
                                                                   const tensor::operation& op,
                                                                   std::span<const tensor::tensor_type> inputs,
                                                                   bool is_gradient) {
  const auto count = [](std::int64_t x) { return static_cast<double>(x); };
  const auto heads = count(operators.read(op).integers("heads")[0]);
  const auto bytes_each = count(static_cast<std::int64_t>(tensor::size_of(inputs[0].element)));
  std::vector<kernel_shape> all;
  const auto project = [&](const tensor::shape& rows, const tensor::shape& weights) {
    kernel_shape k{bytes_each <= 2 ? kernel_kind::tensor_product : kernel_kind::product, 1, count(rows[0] * rows[1]),
                   count(weights[1]), count(weights[0])};
    k.element_bytes = bytes_each;
    all.push_back(k);
    if (is_gradient) {
      all.push_back(k);
      std::swap(all.back().n, all.back().k);
      all.push_back(k);
      std::swap(all.back().m, all.back().k);
    }
  };
  for (std::size_t i = 0; i < 3; ++i) {
    project(inputs[i].dims, inputs[3 + i].dims);
  }
  kernel_shape k{kernel_kind::attention, count(inputs[0].dims[0]) * heads, count(inputs[0].dims[1]),
                 count(inputs[1].dims[1]), count(inputs[3].dims[1]) / heads};
  k.element_bytes = bytes_each;
  all.push_back(k);
  if (is_gradient) {
    all.push_back(k);
    all.back().kind = kernel_kind::attention_gradient;
  }
  project(inputs[0].dims, inputs[6].dims);
  return all;
}

}  // namespace unity::hardware::detail

namespace unity::hardware {

UNITY_INLINE std::vector<kernel_shape> kernels_of(const tensor::algebra& operators, const tensor::operation& op,
                                                  std::span<const tensor::tensor_type> inputs,
                                                  std::span<const tensor::tensor_type> outputs) {
  const auto& d = operators.definition_of(op.kind);
  const std::string_view name = d.signature.name;
  const auto a = operators.read(op);
  if (name == "softmax" || name == "softmax_gradient") {
    return {detail::rows_of(kernel_kind::softmax, outputs[0], a.integers("axis")[0], false, name == "softmax" ? 2 : 3)};
  }
  if (name == "layer_norm" || name == "layer_norm_gradient") {
    const bool forward = name == "layer_norm";
    return {detail::rows_of(forward ? kernel_kind::layer_norm : kernel_kind::layer_norm_gradient, inputs[0],
                            a.integers("axis")[0], true, forward ? 2 : 3)};
  }
  if (name == "dot_product_attention" || name == "dot_product_attention_gradient") {
    return {detail::attention_of(
        name == "dot_product_attention" ? kernel_kind::attention : kernel_kind::attention_gradient, a, inputs)};
  }
  if (name == "attention" || name == "attention_gradient") {
    return detail::projected_attention(operators, op, inputs, name == "attention_gradient");
  }
  if (name == "transpose" || name == "slice" || name == "split") {
    return {};
  }
  if (std::holds_alternative<tensor::primitive>(d.body)) {
    return detail::kernels_of_primitive(operators, op, inputs, outputs);
  }
  if (std::holds_alternative<tensor::composite>(d.body)) {
    return detail::kernels_of_composite(operators, op, inputs, outputs);
  }
  const auto moved = operators.work(op, inputs, outputs).moved;
  return moved == bytes{} ? std::vector<kernel_shape>{} : std::vector{detail::traffic_of(moved, outputs)};
}

UNITY_INLINE kernel_durations::kernel_durations(const tensor::algebra& operators,
                                                std::vector<kernel_devices_by_element> devices)
    : operators_{&operators}, devices_{std::move(devices)}, running_{operators, tensor::mode::training} {}

UNITY_INLINE duration kernel_durations::duration_of(std::uint32_t device, const tensor::operation& op,
                                                    std::span<const tensor::tensor_type> inputs,
                                                    std::span<const tensor::tensor_type> outputs) const {
  UNITY_EXPECTS(device < devices_.size(), "a device whose numbers were given");
  if (!running_.runs(op, inputs, outputs)) {
    return {};
  }
  const auto element = outputs.empty() ? tensor::dtype::float32 : outputs[0].element;
  const auto& d = devices_[device][static_cast<std::size_t>(element)];
  double expected = 0;
  double low = 0;
  double high = 0;
  for (const auto& k : kernels_of(*operators_, op, inputs, outputs)) {
    const auto seconds = kernel_seconds(k, d, kernel_coefficients(k.kind));
    const auto interval = kernel_interval(k.kind);
    expected += std::max(d.launch_seconds, seconds);
    low += std::max(d.launch_seconds, seconds * interval[0]);
    high += std::max(d.launch_seconds, seconds * interval[1]);
  }
  return {from_seconds(expected), from_seconds(low), from_seconds(high)};
}

UNITY_INLINE fingerprint kernel_durations::version() const {
  hasher h;
  const auto add = [&](double x) { h.add(std::bit_cast<std::uint64_t>(x)); };
  for (const auto& device : devices_) {
    for (const auto& d : device) {
      for (const auto x : {d.units, d.clock_hz, d.l2, d.widest_warp_row, d.bytes_per_second, d.launch_seconds,
                           d.rates.brief, d.rates.sustained, d.rates.deep_share}) {
        add(x);
      }
      h.add(static_cast<std::uint64_t>(d.batched_tile + 1));
    }
  }
  for (std::size_t k = 0; k < kernel_kind_names.size(); ++k) {
    for (const auto x : kernel_coefficients(static_cast<kernel_kind>(k))) {
      add(x);
    }
    for (const auto x : kernel_interval(static_cast<kernel_kind>(k))) {
      add(x);
    }
  }
  return h.result();
}

}  // namespace unity::hardware

#endif
