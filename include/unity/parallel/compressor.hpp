// How gradients are compressed before they are sent.
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
// float16, bfloat16  rounds each element to 16 bits and sums the rounded values (Horovod's compression)
// top_k              sends the elements of largest magnitude, the first of equal ones; a NaN counts as the largest, so
//                    that it is not lost (Lin et al., Deep gradient compression, ICLR 2018)
// power_sgd          approximates the matrix of the first axis by all others with a product of two narrow ones
//                    (Vogels et al., PowerSGD, NeurIPS 2019); sends a vector unchanged
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
  // Error feedback: what compression lost is added to the next gradient. Always true for top_k and power_sgd, which
  // would not converge without it.
  bool has_feedback = false;
  // top_k: elements sent per 1,000, at least one in total. power_sgd: columns of the narrow matrices. Otherwise 0.
  std::uint32_t amount = 0;

  friend bool operator==(const compressor&, const compressor&) = default;
};

// The number of elements that top_k sends out of `elements`.
[[nodiscard]] constexpr std::int64_t sent_elements(const compressor& c, std::int64_t elements) noexcept {
  const auto share = elements * static_cast<std::int64_t>(c.amount) / 1000;
  return share > 0 ? share : 1;
}

// Messages are of one weight or a part of one, so they are not bucketed.
[[nodiscard]] constexpr bool is_of_one_weight(const compressor& c) noexcept {
  return c.kind == compression::top_k || c.kind == compression::power_sgd;
}

// Messages have 16-bit elements.
[[nodiscard]] constexpr bool is_rounded(const compressor& c) noexcept {
  return c.kind == compression::float16 || c.kind == compression::bfloat16;
}

// The sizes of the messages, summed one after another, by which each device contributes `elements` elements of a weight
// of that type. Time for rounding, products and the like is not included. Precondition: not top_k, whose messages are
// gathered.
[[nodiscard]] std::vector<bytes> message_sizes(const compressor& c, const tensor::tensor_type& weight,
                                               std::int64_t elements);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_COMPRESSOR)

#include <algorithm>

#include <unity/core/config.hpp>

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
