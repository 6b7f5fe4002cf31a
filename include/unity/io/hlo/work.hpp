// What an HLO instruction is to who decides what runs as one kernel: its kind, arithmetic and bytes.
#pragma once

#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/fusion/kernel_description.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// compute       runs as a kernel, alone or in a fusion
// source        a parameter or a constant: it is there
// relabelling   bytes under another name or shape: bitcast, reshape, tuple, get-tuple-element
// control_flow  call, while, conditional, and what waits for or orders others
// collective    devices exchange data, or begin or end to
enum class hlo_role : std::uint8_t { compute, source, relabelling, control_flow, collective };

[[nodiscard]] hlo_role role_of(const hlo_instruction& i);

// Of a fusion: of the part that takes the most arithmetic, or, without any, of its root.
[[nodiscard]] fusion::operator_class class_of(const hlo_module& m, const hlo_instruction& i);

// Regular.
struct hlo_work {
  double flops = 0;   // 1 for each element, 2 for each product that a dot or a convolution adds up
  double reads = 0;   // bytes of all operands
  double writes = 0;  // bytes of the result

  friend bool operator==(const hlo_work&, const hlo_work&) = default;
};

// Callees' arithmetic is counted once for each time that the instruction calls them: bodies of loops for one iteration,
// the branch with the most of a conditional. What is copied out of a larger operand counts in the size of the copy.
[[nodiscard]] hlo_work work_of(const hlo_module& m, const hlo_computation& c, const hlo_instruction& i);

// Whether the instruction may be within a fusion: it has one result for each element of what it reads, without effects,
// and XLA's code generators for CPUs and GPUs can compute it element by element; or it is a fusion of such.
[[nodiscard]] bool is_fusible(const hlo_module& m, const hlo_instruction& i);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_WORK)

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <unity/io/hlo/attribute_values.hpp>
#include <unity/io/hlo/infer.hpp>

namespace unity::io::detail {

template <std::size_t N>
bool is_one_of(std::string_view opcode, const std::array<std::string_view, N>& all) {
  return std::find(all.begin(), all.end(), opcode) != all.end();
}

inline bool is_elementwise(std::string_view opcode) {
  return is_unary_elementwise(opcode) || is_binary_elementwise(opcode) || opcode == "select" || opcode == "clamp" ||
         opcode == "map" || opcode == "stochastic-convert";
}

// Bytes that arrive elsewhere as they are.
inline constexpr std::array<std::string_view, 10> hlo_movements{
    "concatenate", "copy",  "dynamic-slice", "dynamic-update-slice", "gather",
    "pad",         "reverse", "slice",       "transpose",            "bitcast-convert"};

inline double hlo_elements(const hlo_shape& s) {
  auto count = static_cast<double>(element_count(s));
  for (const auto& part : s.parts) {
    count += hlo_elements(part);
  }
  return count;
}

inline double dot_flops(const hlo_computation& c, const hlo_instruction& i) {
  double products = hlo_elements(i.shape);
  for (const auto d : integers_of(i, "lhs_contracting_dims").value_or(std::vector<std::int64_t>{})) {
    products *= static_cast<double>(c[i.operands[0]].shape.dimensions[static_cast<std::size_t>(d)]);
  }
  return 2 * products;
}

// Each place of the window on each element that is neither padding nor a hole, for each pair of features.
inline double convolution_flops(const hlo_computation& c, const hlo_instruction& i) {
  const auto d = convolution_dimensions_of(i.text_of("dim_labels").value_or(""));
  const auto w = window_of(i.text_of("window").value_or("{}"));
  if (!d || !w || i.operands.size() != 2) {
    return 0;
  }
  const auto& x = c[i.operands[0]].shape.dimensions;
  const auto& k = c[i.operands[1]].shape.dimensions;
  double products = static_cast<double>(i.shape.dimensions[d->output.batch]) *
                    static_cast<double>(i.shape.dimensions[d->output.feature]) *
                    static_cast<double>(k[d->kernel.feature]);
  for (std::size_t s = 0; s < w->size(); ++s) {
    products *= window_hits((*w)[s], x[d->input.spatial[s]]);
  }
  return 2 * products;
}

inline double computation_flops(const hlo_module& m, hlo_computation_id f) {
  double flops = 0;
  for (const auto& i : m[f].instructions) {
    flops += work_of(m, m[f], i).flops;
  }
  return flops;
}

inline double called_flops(const hlo_module& m, const hlo_instruction& i) {
  double sum = 0;
  double most = 0;
  for (const auto& a : i.attributes) {
    for (const auto f : a.computations) {
      const auto flops = computation_flops(m, f);
      sum += flops;
      most = std::max(most, flops);
    }
  }
  return i.is("conditional") ? most : sum;
}

inline double flops_of(const hlo_module& m, const hlo_computation& c, const hlo_instruction& i) {
  const auto operand = [&](std::size_t k) { return k < i.operands.size() ? hlo_elements(c[i.operands[k]].shape) : 0; };
  const auto region = [&](std::string_view key) {
    const auto f = i.callee(key);
    return f ? std::max(1.0, computation_flops(m, *f)) : 1;
  };
  if (i.is("map")) {
    return hlo_elements(i.shape) * region("to_apply");
  }
  if (i.is("copy") || i.is("bitcast-convert")) {
    return 0;
  }
  if (is_elementwise(i.opcode)) {
    return hlo_elements(i.shape);
  }
  if (i.is("dot")) {
    return dot_flops(c, i);
  }
  if (i.is("convolution")) {
    return convolution_flops(c, i);
  }
  if (i.is("reduce")) {  // every element but those that are the first of their sums
    const auto results = i.operands.size() > 2 ? hlo_elements(i.shape) / (static_cast<double>(i.operands.size()) / 2)
                                               : hlo_elements(i.shape);
    return std::max(0.0, operand(0) - results) * region("to_apply");
  }
  if (i.is("reduce-window")) {
    double elements = hlo_elements(i.shape);
    for (const auto& w : window_of(i.text_of("window").value_or("{}")).value_or(std::vector<hlo_window_dimension>{})) {
      elements *= static_cast<double>(w.size);
    }
    return elements * region("to_apply");
  }
  if (i.is("select-and-scatter") || i.is("all-reduce") || i.is("reduce-scatter")) {
    return operand(0) * region(i.is("select-and-scatter") ? "scatter" : "to_apply");
  }
  if (i.is("scatter")) {
    return operand(i.operands.size() - 1) * region("to_apply");
  }
  const bool calls = i.is("fusion") || i.is("call") || i.is("while") || i.is("conditional");
  return calls ? called_flops(m, i) : 0;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE hlo_role role_of(const hlo_instruction& i) {
  constexpr std::array<std::string_view, 4> relabellings{"bitcast", "reshape", "tuple", "get-tuple-element"};
  constexpr std::array<std::string_view, 7> control{"call",           "while",    "conditional", "after-all",
                                                    "add-dependency", "optimization-barrier", "domain"};
  constexpr std::array<std::string_view, 9> collectives{
      "all-reduce", "all-gather", "reduce-scatter",       "all-to-all", "ragged-all-to-all",
      "send",       "recv",       "collective-broadcast", "collective-permute"};
  std::string_view opcode = i.opcode;
  for (const std::string_view half : {"-start", "-done", "-update"}) {
    opcode = opcode.ends_with(half) ? opcode.substr(0, opcode.size() - half.size()) : opcode;
  }
  return i.is("parameter") || i.is("constant")       ? hlo_role::source
         : detail::is_one_of(i.opcode, relabellings) ? hlo_role::relabelling
         : detail::is_one_of(opcode, collectives)    ? hlo_role::collective
         : detail::is_one_of(opcode, control)        ? hlo_role::control_flow
         : opcode == "async"                         ? hlo_role::control_flow
                                                     : hlo_role::compute;
}

UNITY_INLINE fusion::operator_class class_of(const hlo_module& m, const hlo_instruction& i) {
  using fusion::operator_class;
  if (const auto f = i.callee("calls"); f && i.is("fusion")) {
    const auto& c = m[*f];
    const auto* heaviest = &c[c.root];
    for (const auto& part : c.instructions) {
      heaviest = detail::flops_of(m, c, part) > detail::flops_of(m, c, *heaviest) ? &part : heaviest;
    }
    return class_of(m, *heaviest);
  }
  return detail::is_one_of(i.opcode, detail::hlo_movements) || role_of(i) == hlo_role::relabelling
             ? operator_class::movement
         : detail::is_elementwise(i.opcode)        ? operator_class::elementwise
         : i.is("broadcast") || i.is("iota")       ? operator_class::broadcast
         : i.is("reduce")                          ? operator_class::reduction
         : i.is("dot")                             ? operator_class::product
         : i.is("convolution")                     ? operator_class::convolution
                                                   : operator_class::other;
}

UNITY_INLINE hlo_work work_of(const hlo_module& m, const hlo_computation& c, const hlo_instruction& i) {
  hlo_work w{detail::flops_of(m, c, i), 0, byte_count(i.shape)};
  const bool is_part = i.is("slice") || i.is("dynamic-slice") || i.is("gather");
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    w.reads += k == 0 && is_part ? std::min(w.writes, byte_count(c[i.operands[k]].shape))
                                 : byte_count(c[i.operands[k]].shape);
  }
  return w;
}

UNITY_INLINE bool is_fusible(const hlo_module& m, const hlo_instruction& i) {
  if (i.is("fusion")) {
    const auto f = i.callee("calls");
    return f && std::all_of(m[*f].instructions.begin(), m[*f].instructions.end(),
                            [&](const auto& part) { return part.is("parameter") || is_fusible(m, part); });
  }
  constexpr std::array<std::string_view, 7> others{"broadcast", "iota", "dot", "reduce", "reduce-window", "bitcast",
                                                   "constant"};
  return detail::is_elementwise(i.opcode) || detail::is_one_of(i.opcode, detail::hlo_movements) ||
         detail::is_one_of(i.opcode, others) || role_of(i) == hlo_role::relabelling;
}

}  // namespace unity::io

#endif
