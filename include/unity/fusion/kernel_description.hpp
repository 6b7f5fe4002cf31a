// What is known of the operators of one kernel before it runs, the input of time estimators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/hash.hpp>

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

[[nodiscard]] constexpr std::optional<operator_class> find_operator_class(std::string_view name) noexcept {
  for (std::size_t i = 0; i < operator_class_names.size(); ++i) {
    if (operator_class_names[i] == name) {
      return static_cast<operator_class>(i);
    }
  }
  return std::nullopt;
}

// One operator of a kernel. Regular.
struct kernel_part {
  operator_class kind = operator_class::elementwise;
  bool is_folding = false;    // a sum over the kernel's rows (kernel_region.hpp)
  double flops = 0;           // arithmetic
  double reads = 0;           // bytes of all operands
  double writes = 0;          // bytes of the result
  double reads_outside = 0;   // bytes of operands from outside of the kernel
  double writes_outside = 0;  // bytes of the result if it leaves the kernel
  std::int64_t duration = 0;  // picoseconds as a kernel of its own; 0 if not known

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
[[nodiscard]] fingerprint print_of(const kernel_description& d);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_KERNEL_DESCRIPTION)

#include <bit>

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE fingerprint print_of(const kernel_description& d) {
  hasher h;
  for (const auto& p : d.parts) {
    h.add(static_cast<std::uint64_t>(p.kind) * 2 + (p.is_folding ? 1U : 0U));
    for (const auto number : {p.flops, p.reads, p.writes, p.reads_outside, p.writes_outside}) {
      h.add(std::bit_cast<std::uint64_t>(number));
    }
    h.add(static_cast<std::uint64_t>(p.duration));
  }
  for (const auto& [from, to] : d.edges) {
    h.add((std::uint64_t{from} << 16U) | to);
  }
  return h.result();
}

}  // namespace unity::fusion

#endif
