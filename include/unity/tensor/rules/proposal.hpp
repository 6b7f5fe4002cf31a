// An operator under construction: what is known and what has to be filled in.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/attributes.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// The element type of an operand.
[[nodiscard]] inline dtype element_of_operand(std::string_view kind, std::size_t operand) noexcept {
  const bool numbers = operand == 1 && (kind == "embedding" || kind == "embedding_bag");
  const bool lists = kind.starts_with("segment_") && operand >= (kind == "segment_weighted_sum" ? 2U : 1U);
  return numbers || lists || kind == "incidence" ? dtype::int64 : dtype::float32;
}

// Known parts stay; the others are to be filled in.
struct proposal {
  std::string_view kind{};
  std::span<const attribute_field> fields{};
  std::vector<std::optional<attribute>> attributes{};  // by field
  std::vector<std::optional<shape>> operands{};
  std::vector<dtype> elements{};  // of operands that are filled in
  std::size_t results = 1;        // used results, for operators with any number of them

  [[nodiscard]] std::optional<attribute>& at(std::string_view name);
  // Whether the known attributes have the forms of their fields; those from the text of a rule may not.
  [[nodiscard]] bool is_well_formed() const;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_PROPOSAL)

namespace unity::tensor::detail {

UNITY_INLINE std::optional<attribute>& proposal::at(std::string_view name) {
  std::size_t i = 0;
  while (fields[i].signature.name != name) {
    ++i;
  }
  return attributes[i];
}

UNITY_INLINE bool proposal::is_well_formed() const {
  bool fit = true;
  for (const auto& [field, value] : ranges::views::zip(fields, attributes)) {
    fit = fit && (!value || fits(field, *value));
  }
  return fit;
}

}  // namespace unity::tensor::detail

#endif
