// How a gradient is made smaller before it is sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// none
// float16, bfloat16  each element is rounded to 16 bits, and sums are made of those (Horovod's compression)
// top_k              the elements that are the largest without their sign, of equal ones the first; a NaN is larger
//                    than all, so that it is not lost (Lin et al., Deep gradient compression, ICLR 2018)
// power_sgd          of a matrix of the first axis and all others, a product of two narrow ones
//                    (Vogels et al., PowerSGD, NeurIPS 2019); what has one axis goes as it is
enum class compression : std::uint8_t { none, float16, bfloat16, top_k, power_sgd };
inline constexpr std::array<std::string_view, 5> compression_names{"none", "float16", "bfloat16", "top_k", "power_sgd"};

[[nodiscard]] constexpr std::optional<compression> find_compression(std::string_view name) noexcept {
  for (std::size_t i = 0; i < compression_names.size(); ++i) {
    if (compression_names[i] == name) {
      return static_cast<compression>(i);
    }
  }
  return std::nullopt;
}

// Regular.
struct compressor {
  compression kind = compression::none;
  // What the message lost is added to the next gradient. Always so of top_k and power_sgd, which would not converge.
  bool has_feedback = false;
  // top_k: of 1,000 elements, how many are sent, one at least. power_sgd: columns of the narrow matrices. Otherwise 0.
  std::uint32_t amount = 0;

  friend bool operator==(const compressor&, const compressor&) = default;
};

// top_k: how many of so many elements are sent.
[[nodiscard]] constexpr std::int64_t sent_elements(const compressor& c, std::int64_t elements) noexcept {
  const auto share = elements * static_cast<std::int64_t>(c.amount) / 1000;
  return share > 0 ? share : 1;
}

// A message is of one weight or part of one: no bucket has it.
[[nodiscard]] constexpr bool is_of_one_weight(const compressor& c) noexcept {
  return c.kind == compression::top_k || c.kind == compression::power_sgd;
}

// Messages are of elements of 16 bits.
[[nodiscard]] constexpr bool is_rounded(const compressor& c) noexcept {
  return c.kind == compression::float16 || c.kind == compression::bfloat16;
}

// The messages by which each device gives so many elements of a weight of that type: sums of them follow each other.
// What rounding, products and the like take is not priced. Precondition: not top_k, whose messages are gathered.
[[nodiscard]] std::vector<bytes> message_sizes(const compressor& c, const tensor::tensor_type& weight,
                                               std::int64_t elements);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_COMPRESSOR)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/tensor/dtype.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<bytes> message_sizes(const compressor& c, const tensor::tensor_type& weight,
                                              std::int64_t elements) {
  const auto each = tensor::size_of(weight.element);
  if (is_rounded(c)) {
    return {bytes{elements * 2}};
  }
  const auto columns = weight.dims.empty() ? 1 : tensor::element_count(weight.dims) / weight.dims[0];
  const auto rows = elements / columns;
  if (c.kind == compression::power_sgd && weight.dims.size() > 1 && std::min(rows, columns) > c.amount) {
    return {bytes{rows * c.amount * each}, bytes{columns * c.amount * each}};
  }
  return {bytes{elements * each}};
}

}  // namespace unity::parallel

#endif
