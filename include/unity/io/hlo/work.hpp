// The kind, arithmetic and bytes of an HLO instruction, for decisions about which instructions run as one kernel.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io {

// Each element of the result depends on the operands' elements at the same position, by one operation or, for a map, a
// computation.
[[nodiscard]] bool is_elementwise_opcode(std::string_view opcode);
// Moves bytes unchanged, or reinterprets them as another type.
[[nodiscard]] bool is_movement_opcode(std::string_view opcode);

// compute       runs as a kernel, alone or in a fusion
// source        a parameter or a constant, which exists already
// relabelling   bytes under another name or shape: bitcast, reshape, tuple, get-tuple-element
// control_flow  call, while, conditional, and instructions that wait for or order others
// collective    devices exchange data, or start or finish an exchange
enum class hlo_role : std::uint8_t { compute, source, relabelling, control_flow, collective };

[[nodiscard]] hlo_role role_of(const hlo_instruction& i);

// Regular.
struct hlo_work {
  double flops = 0;   // 1 for each element, 2 for each product that a dot or a convolution adds up
  double reads = 0;   // bytes of all operands
  double writes = 0;  // bytes of the result

  friend bool operator==(const hlo_work&, const hlo_work&) = default;
};

// Work and kinds of the instructions of a module, which must not change or move.
class hlo_work_table {
 public:
  // Complexity: linear in the module.
  // Throws: nothing if the module was checked.
  explicit hlo_work_table(const hlo_module& m);

  // Counts the arithmetic of callees once per call; that of loop bodies times the trip count that XLA knows
  // ("known_trip_count"), or else once; for a conditional, that of the branch with the most. An operand that is copied
  // out only in part counts with the size of the copy.
  [[nodiscard]] hlo_work of(const hlo_computation& c, const hlo_instruction& i) const;
  // For a fusion: the class of the part with the most arithmetic or, without arithmetic, of its root.
  [[nodiscard]] fusion::operator_class class_of(const hlo_instruction& i) const;
  // Whether the instruction may be fused: it has no effects, and XLA's code generators for CPUs and GPUs can compute
  // each element of its result independently; or it is a fusion of such instructions. Copies are not: in an optimized
  // module they protect a buffer that is still read when a loop or an in-place update overwrites it.
  [[nodiscard]] bool is_fusible(const hlo_instruction& i) const;

 private:
  struct summary {
    double flops = 0;
    fusion::operator_class heaviest = fusion::operator_class::other;
    bool is_fusible = true;
  };

  [[nodiscard]] double flops(const hlo_computation& c, const hlo_instruction& i) const;
  [[nodiscard]] double region(const hlo_instruction& i, std::string_view key) const;
  [[nodiscard]] double called(const hlo_instruction& i) const;
  [[nodiscard]] summary summary_of(const hlo_computation& c) const;

  std::vector<summary> computations_;  // callees before callers
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_WORK)

#include <algorithm>
#include <array>
#include <cstddef>

#include <unity/core/printable.hpp>
#include <unity/io/hlo/attribute_values.hpp>
#include <unity/io/hlo/infer.hpp>

namespace unity::io::detail {

// A dimension of any size counts as one.
inline double hlo_size(std::int64_t dimension) { return dimension < 0 ? 1 : static_cast<double>(dimension); }

inline double hlo_elements(const hlo_shape& s) {
  auto count = static_cast<double>(element_count(s));
  for (const auto& part : s.parts) {
    count += hlo_elements(part);
  }
  return count;
}

// {"known_trip_count":{"n":"5"},...}; 1 if unknown.
inline double known_trips(const hlo_instruction& i) {
  constexpr std::string_view key = R"("known_trip_count":{"n":")";
  const auto text = i.text_of("backend_config").value_or("");
  const auto at = text.find(key);
  const auto number = at == std::string_view::npos ? std::string_view{} : text.substr(at + key.size());
  return static_cast<double>(
      std::max<std::int64_t>(1, to_number<std::int64_t>(number.substr(0, number.find('"'))).value_or(1)));
}

inline double dot_flops(const hlo_computation& c, const hlo_instruction& i) {
  double products = hlo_elements(i.shape);
  const auto left = i.operands.empty() ? std::vector<std::int64_t>{} : c[i.operands[0]].shape.dimensions;
  for (const auto d : integers_of(i, "lhs_contracting_dims").value_or(std::vector<std::int64_t>{})) {
    const auto at = static_cast<std::size_t>(d);
    products *= at < left.size() ? hlo_size(left[at]) : 1;  // dynamic dimensions were not checked
  }
  return 2 * products;
}

// Each pair of a window position and element that is neither padding nor a hole, for each pair of features.
inline double convolution_flops(const hlo_computation& c, const hlo_instruction& i) {
  const auto d = convolution_dimensions_of(i.text_of("dim_labels").value_or(""));
  const auto w = window_of(i.text_of("window").value_or("{}"));
  if (!d || !w || i.operands.size() != 2) {
    return 0;
  }
  const auto& x = c[i.operands[0]].shape.dimensions;
  const auto& k = c[i.operands[1]].shape.dimensions;
  const auto rank = w->size() + 2;
  if (x.size() != rank || k.size() != rank || i.shape.dimensions.size() != rank ||
      d->input.spatial.size() + 2 != rank) {
    return 0;  // dynamic dimensions were not checked
  }
  double products = hlo_size(i.shape.dimensions[d->output.batch]) * hlo_size(i.shape.dimensions[d->output.feature]) *
                    hlo_size(k[d->kernel.feature]);
  for (std::size_t s = 0; s < w->size(); ++s) {
    products *= window_hits((*w)[s], x[d->input.spatial[s]]);
  }
  return 2 * products;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE bool is_elementwise_opcode(std::string_view opcode) {
  return is_unary_elementwise(opcode) || is_binary_elementwise(opcode) || opcode == "select" || opcode == "clamp" ||
         opcode == "map" || opcode == "stochastic-convert";
}

UNITY_INLINE bool is_movement_opcode(std::string_view opcode) {
  constexpr std::array<std::string_view, 10> all{
      "concatenate", "copy",  "dynamic-slice", "dynamic-update-slice", "gather", "pad",
      "reverse",     "slice", "transpose",     "bitcast-convert"};
  return detail::is_one_of(opcode, all);
}

UNITY_INLINE hlo_role role_of(const hlo_instruction& i) {
  constexpr std::array<std::string_view, 4> relabellings{"bitcast", "reshape", "tuple", "get-tuple-element"};
  constexpr std::array<std::string_view, 7> control{
      "call", "while", "conditional", "after-all", "add-dependency", "optimization-barrier", "domain"};
  constexpr std::array<std::string_view, 9> collectives{"all-reduce", "all-gather",           "reduce-scatter",
                                                        "all-to-all", "ragged-all-to-all",    "send",
                                                        "recv",       "collective-broadcast", "collective-permute"};
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

UNITY_INLINE hlo_work_table::hlo_work_table(const hlo_module& m) {
  computations_.reserve(m.computations.size());
  for (const auto& c : m.computations) {
    computations_.push_back(summary_of(c));
  }
}

UNITY_INLINE hlo_work_table::summary hlo_work_table::summary_of(const hlo_computation& c) const {
  summary all{0, class_of(c[c.root]), true};
  double most = 0;
  for (const auto& i : c.instructions) {
    const auto own = flops(c, i);
    all.flops += own;
    all.heaviest = own > most ? class_of(i) : all.heaviest;
    most = std::max(most, own);
    all.flops = std::min(all.flops, 1e200);  // nested calls could reach infinity, which times 0 is NaN
    all.is_fusible = all.is_fusible && (i.is("parameter") || is_fusible(i));
  }
  return all;
}

// Operations of the computation that is applied to each element.
UNITY_INLINE double hlo_work_table::region(const hlo_instruction& i, std::string_view key) const {
  const auto f = i.callee(key);
  return f ? std::max(1.0, computations_[f->index()].flops) : 1;
}

UNITY_INLINE double hlo_work_table::called(const hlo_instruction& i) const {
  double sum = 0;
  double most = 0;
  for (const auto& a : i.attributes) {
    for (const auto f : a.computations) {
      sum += computations_[f.index()].flops;
      most = std::max(most, computations_[f.index()].flops);
    }
  }
  return i.is("conditional") ? most : i.is("while") ? sum * detail::known_trips(i) : sum;
}

UNITY_INLINE double hlo_work_table::flops(const hlo_computation& c, const hlo_instruction& i) const {
  using detail::hlo_elements;
  const auto operand = [&](std::size_t k) { return k < i.operands.size() ? hlo_elements(c[i.operands[k]].shape) : 0; };
  const auto results = hlo_elements(i.shape);
  if (i.is("copy") || i.is("bitcast-convert")) {
    return 0;
  }
  if (is_elementwise_opcode(i.opcode)) {
    return results * region(i, "to_apply");
  }
  if (i.is("dot")) {
    return detail::dot_flops(c, i);
  }
  if (i.is("convolution")) {
    return detail::convolution_flops(c, i);
  }
  if (i.is("reduce")) {  // the first element of each sum needs no addition
    const auto sums = results / std::max(1.0, static_cast<double>(i.operands.size() / 2));
    return std::max(0.0, operand(0) - sums) * region(i, "to_apply");
  }
  if (i.is("reduce-window")) {
    double elements = results;
    for (const auto& w : window_of(i.text_of("window").value_or("{}")).value_or(std::vector<hlo_window_dimension>{})) {
      elements *= static_cast<double>(w.size);
    }
    return elements * region(i, "to_apply");
  }
  if (i.is("scatter")) {
    return (i.operands.empty() ? 0 : operand(i.operands.size() - 1)) * region(i, "to_apply");
  }
  if (i.is("select-and-scatter") || i.is("all-reduce") || i.is("reduce-scatter")) {
    return operand(0) * region(i, i.is("select-and-scatter") ? "scatter" : "to_apply");
  }
  return i.is("fusion") || i.is("call") || i.is("while") || i.is("conditional") ? called(i) : 0;
}

UNITY_INLINE fusion::operator_class hlo_work_table::class_of(const hlo_instruction& i) const {
  using fusion::operator_class;
  if (const auto f = i.callee("calls"); f && i.is("fusion")) {
    return computations_[f->index()].heaviest;
  }
  return is_movement_opcode(i.opcode) || role_of(i) == hlo_role::relabelling ? operator_class::movement
         : is_elementwise_opcode(i.opcode)                                   ? operator_class::elementwise
         : i.is("broadcast") || i.is("iota")                                 ? operator_class::broadcast
         : i.is("reduce")                                                    ? operator_class::reduction
         : i.is("dot")                                                       ? operator_class::product
         : i.is("convolution")                                               ? operator_class::convolution
                                                                             : operator_class::other;
}

UNITY_INLINE hlo_work hlo_work_table::of(const hlo_computation& c, const hlo_instruction& i) const {
  hlo_work w{flops(c, i), 0, byte_count(i.shape)};
  const bool is_part = i.is("slice") || i.is("dynamic-slice") || i.is("gather");
  for (std::size_t k = 0; k < i.operands.size(); ++k) {
    const auto bytes = byte_count(c[i.operands[k]].shape);
    w.reads += k == 0 && is_part ? std::min(w.writes, bytes) : bytes;
  }
  return w;
}

UNITY_INLINE bool hlo_work_table::is_fusible(const hlo_instruction& i) const {
  if (const auto f = i.callee("calls"); f && i.is("fusion")) {
    return computations_[f->index()].is_fusible;
  }
  constexpr std::array<std::string_view, 6> others{"broadcast", "iota", "dot", "reduce", "reduce-window", "constant"};
  return !i.is("copy") && (is_elementwise_opcode(i.opcode) || is_movement_opcode(i.opcode) ||
                           detail::is_one_of(i.opcode, others) || role_of(i) == hlo_role::relabelling);
}

}  // namespace unity::io

#endif
