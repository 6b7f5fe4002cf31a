// Collects the types of results in a shape function, or the reason why there are none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// What an operator expects instead of some inputs. Cheap to make; formatted as text only on request.
struct refusal {
  const char* expected = nullptr;                  // noun phrase
  const char* index = "";                          // the index concerned, if any
  int operand = -1;                                // the operand concerned, if any
  std::optional<std::size_t> rank = std::nullopt;  // a rank that ends the phrase

  [[nodiscard]] std::string text() const {
    const auto t = rank ? fmt::format("{} {}", expected, *rank) : fmt::format("{}{}", expected, index);
    return operand < 0 ? t : fmt::format("{} in operand {}", t, operand);
  }
};

// Collects the types of results. Keeps the first failed requirement; later calls change nothing.
class judgement {
 public:
  explicit judgement(std::span<const tensor_type> inputs) noexcept : inputs_{inputs} {}

  [[nodiscard]] std::span<const tensor_type> inputs() const noexcept { return inputs_; }
  [[nodiscard]] const shape& dims(std::size_t operand) const { return inputs_[operand].dims; }
  [[nodiscard]] std::size_t rank(std::size_t operand) const { return inputs_[operand].dims.size(); }

  // Returns `condition`. The first false condition is the reason why there is no result. `expected`: a noun phrase, as
  // a string literal.
  bool require(bool condition, const char* expected, int operand = -1) noexcept;
  // Requires that an operand has this rank.
  bool require_rank(std::size_t operand, std::size_t expected) noexcept;
  // Requires that the first operand's element type is floating-point.
  bool require_floating() noexcept {
    return require(!inputs_.empty() && is_floating(inputs_[0].element), "floating-point elements");
  }
  bool require_numeric() noexcept {
    return require(inputs_.empty() || inputs_[0].element != dtype::boolean, "numeric elements");
  }
  // Allows operands of different element types; by default all must have the same.
  void allow_mixed_elements() noexcept { mixed_ = true; }
  [[nodiscard]] bool allows_mixed_elements() const noexcept { return mixed_; }

  // Adds a result with the first operand's element type.
  void result(shape dims) { result(std::move(dims), inputs_.empty() ? dtype::float32 : inputs_[0].element); }
  void result(shape dims, dtype element);

  [[nodiscard]] bool failed() const noexcept { return refusal_.expected != nullptr; }
  [[nodiscard]] const refusal& why_not() const noexcept { return refusal_; }
  [[nodiscard]] std::span<const tensor_type> results() const noexcept { return results_; }

  // Ends the collection: checks the requirements of all operators, and marks results constant if every operand is.
  [[nodiscard]] std::optional<std::vector<tensor_type>> take(bool constant_source);

 protected:
  void refuse(refusal r) noexcept;

 private:
  std::span<const tensor_type> inputs_;
  std::vector<tensor_type> results_;
  refusal refusal_{};
  bool mixed_ = false;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_JUDGEMENT)

#include <unity/core/config.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::tensor {

UNITY_INLINE bool judgement::require(bool condition, const char* expected, int operand) noexcept {
  if (!condition) {
    refuse({expected, "", operand});
  }
  return condition;
}

UNITY_INLINE bool judgement::require_rank(std::size_t operand, std::size_t expected) noexcept {
  if (rank(operand) != expected) {
    refuse({"rank", "", static_cast<int>(operand), expected});
  }
  return rank(operand) == expected;
}

UNITY_INLINE void judgement::result(shape dims, dtype element) {
  if (failed()) {
    return;
  }
  if (!checked_element_count(dims)) {
    refuse({"a result of positive sizes and a countable number of elements", "", -1});
    return;
  }
  results_.push_back({element, layout::row_major, false, std::move(dims)});
}

UNITY_INLINE std::optional<std::vector<tensor_type>> judgement::take(bool constant_source) {
  bool constant = constant_source || !inputs_.empty();
  for (const auto& t : inputs_) {
    constant = constant && t.constant;
    require(mixed_ || t.element == inputs_[0].element, "operands of one element type");
  }
  if (failed()) {
    return std::nullopt;
  }
  for (auto& t : results_) {
    t.constant = constant;
  }
  return std::move(results_);
}

UNITY_INLINE void judgement::refuse(refusal r) noexcept {
  if (!failed()) {
    refusal_ = r;
  }
}

}  // namespace unity::tensor

#endif
