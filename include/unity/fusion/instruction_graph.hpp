// An iteration on one device as a graph of instructions, the input of fusion.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/units.hpp>

namespace unity::fusion {

// elementwise  an element of the result needs the elements at its place
// broadcast    the same, of operands that are stretched
// movement     elements change their places: transposed, sliced, joined, gathered
// reduction    sums and maxima along dimensions
// product      matrix products
// convolution  convolutions and their adjoints
// other        everything else: pools, sorts, embeddings, calls of libraries
enum class operator_class : std::uint8_t { elementwise, broadcast, movement, reduction, product, convolution, other };
inline constexpr std::array<std::string_view, 7> operator_class_names{
    "elementwise", "broadcast", "movement", "reduction", "product", "convolution", "other"};

// One operator of a kernel. Regular.
struct kernel_part {
  operator_class kind = operator_class::elementwise;
  bool is_folding = false;    // a sum over the kernel's rows (kernel_region.hpp)
  double flops = 0;           // arithmetic
  double reads = 0;           // bytes of all operands
  double writes = 0;          // bytes of the result
  double reads_outside = 0;   // bytes of operands from outside of the kernel
  double writes_outside = 0;  // bytes of the result if it leaves the kernel
  picoseconds duration{};     // as a kernel of its own; 0 if not known

  friend bool operator==(const kernel_part&, const kernel_part&) = default;
};

// Regular.
struct kernel_description {
  std::vector<kernel_part> parts{};  // operands before readers
  // from an operator to a reader of its result; ascending
  std::vector<std::pair<std::uint16_t, std::uint16_t>> edges{};

  friend bool operator==(const kernel_description&, const kernel_description&) = default;
};

// Equal descriptions have equal fingerprints.
[[nodiscard]] fingerprint fingerprint_of(const kernel_description& d);

using instruction_id = std::uint32_t;

// source      there before the iteration: inputs, weights, constants
// fusible     may run in one kernel with others
// alone       runs in a kernel of its own: control flow, updates of weights, sends, calls
// all_reduce  adds up what it reads over all devices
enum class instruction_role : std::uint8_t { source, fusible, alone, all_reduce };

// Has one result; an operator with several results counts as one value here.
struct instruction {
  static constexpr std::uint32_t any_domain = 0xffffffffU;

  instruction_role role = instruction_role::fusible;
  operator_class kind = operator_class::elementwise;
  bool is_folding = false;  // sums over the rows of a kernel (kernel_region.hpp)
  bool leaves = false;      // the result is needed after the iteration
  // Fusible instructions may run in one kernel if their domains are equal. All instructions over the batch have one
  // domain, others have that of their sizes; any_domain equals every domain. All_reduces may run in one bucket if
  // theirs are equal: the number of the element type.
  std::uint32_t domain = 0;
  std::uint32_t sizes = 0;  // equal if the results have the same sizes
  double flops = 0;
  double arithmetic = 0;   // picoseconds for the arithmetic alone
  double size = 0;         // bytes of the result; for an all_reduce, bytes to reduce
  picoseconds duration{};  // as a kernel of its own; not for sources and all_reduces
  std::string name{};

  // A product or convolution starts a kernel: its operands come from outside.
  [[nodiscard]] bool is_head() const noexcept {
    return kind == operator_class::product || kind == operator_class::convolution;
  }
};

struct instruction_operand {
  instruction_id from = 0;
  double bytes = 0;  // bytes of the result that are read
};

// Instructions in topological order. Immutable once finished; readers are indexed, too.
class instruction_graph {
 public:
  // Preconditions: operands exist already, and differ.
  instruction_id add(instruction i, std::span<const instruction_operand> operands);
  // Effects: indexes readers(). Complexity: linear.
  void finish();

  [[nodiscard]] std::size_t size() const noexcept { return instructions_.size(); }
  [[nodiscard]] const instruction& operator[](instruction_id i) const { return instructions_[i]; }
  [[nodiscard]] std::span<const instruction_operand> operands(instruction_id i) const {
    return {operands_.data() + first_operand_[i], operands_.data() + first_operand_[i + 1]};
  }
  // Ascending.
  [[nodiscard]] std::span<const instruction_id> readers(instruction_id i) const {
    return {readers_.data() + first_reader_[i], readers_.data() + first_reader_[i + 1]};
  }
  [[nodiscard]] instruction_role role(instruction_id i) const { return instructions_[i].role; }
  [[nodiscard]] bool computes(instruction_id i) const noexcept {
    return instructions_[i].role == instruction_role::fusible || instructions_[i].role == instruction_role::alone;
  }
  [[nodiscard]] bool reduces(instruction_id i) const noexcept {
    return instructions_[i].role == instruction_role::all_reduce;
  }

 private:
  std::vector<instruction> instructions_{};
  std::vector<instruction_operand> operands_{};
  std::vector<std::uint32_t> first_operand_{0};
  std::vector<instruction_id> readers_{};
  std::vector<std::uint32_t> first_reader_{};
};

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_INSTRUCTION_GRAPH)

#include <bit>

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE fingerprint fingerprint_of(const kernel_description& d) {
  hasher h;
  for (const auto& p : d.parts) {
    h.add(static_cast<std::uint64_t>(p.kind) * 2 + (p.is_folding ? 1U : 0U));
    for (const auto number : {p.flops, p.reads, p.writes, p.reads_outside, p.writes_outside}) {
      h.add(std::bit_cast<std::uint64_t>(number));
    }
    h.add(static_cast<std::uint64_t>(p.duration.count()));
  }
  for (const auto& [from, to] : d.edges) {
    h.add((std::uint64_t{from} << 16U) | to);
  }
  return h.result();
}

UNITY_INLINE instruction_id instruction_graph::add(instruction i, std::span<const instruction_operand> operands) {
  const auto id = static_cast<instruction_id>(instructions_.size());
  for (const auto& o : operands) {
    UNITY_EXPECTS(o.from < id, "operands before readers");
    operands_.push_back(o);
  }
  instructions_.push_back(std::move(i));
  first_operand_.push_back(static_cast<std::uint32_t>(operands_.size()));
  return id;
}

UNITY_INLINE void instruction_graph::finish() {
  first_reader_.assign(size() + 1, 0);
  for (const auto& o : operands_) {
    ++first_reader_[o.from + 1];
  }
  for (std::size_t i = 0; i < size(); ++i) {
    first_reader_[i + 1] += first_reader_[i];
  }
  readers_.resize(operands_.size());
  auto next = first_reader_;
  for (instruction_id i = 0; i < size(); ++i) {
    for (const auto& o : operands(i)) {
      readers_[next[o.from]++] = i;
    }
  }
}

}  // namespace unity::fusion

#endif
