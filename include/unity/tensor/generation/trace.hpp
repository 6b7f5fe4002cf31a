// Operators as straight-line programs in residue arithmetic, traced from the single evaluator.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/rewrite/generation/sample_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// A scalar that records the operations on it: a sum of products of earlier values plus a constant.
class traced {
 public:
  using function = sample_program::function;

  traced() = default;
  explicit traced(std::int64_t n) : offset_{residue::of_integer(n)} {}
  explicit traced(residue n) : offset_{n} {}
  traced(sample_program& program, sample_program::ref r)
      : program_{&program}, sum_{{r, program.constant(residue::of(1))}} {}
  [[nodiscard]] static traced lowest();

  [[nodiscard]] bool is_number() const noexcept { return sum_.empty() && !lowest_; }
  [[nodiscard]] residue number() const noexcept { return offset_; }
  [[nodiscard]] bool is_lowest() const noexcept { return lowest_; }

  traced& operator+=(const traced& o);
  friend traced operator+(traced a, const traced& b) { return a += b; }
  friend traced operator-(const traced& a) { return a * traced{std::int64_t{-1}}; }
  friend traced operator-(const traced& a, const traced& b) { return a + -b; }
  friend traced operator*(const traced& a, const traced& b) {
    if (a.is_number() && b.is_number()) {
      return traced{a.offset_ * b.offset_};
    }
    if (a.is_number() || b.is_number()) {
      return a.is_number() ? b.scaled(a.offset_) : a.scaled(b.offset_);
    }
    traced product;
    product.program_ = a.program_;
    product.sum_.emplace_back(a.stored(*a.program_), b.stored(*a.program_));
    return product;
  }
  friend traced operator/(const traced& a, const traced& b) {
    return b.is_number() ? a * traced{residue::of(1) / b.offset_} : a.applied(function::quotient, b);
  }
  friend bool operator==(const traced& a, const traced& b) {
    return a.is_number() && b.is_number() && a.offset_ == b.offset_;
  }

  // Stores the sum as one value.
  [[nodiscard]] sample_program::ref stored(sample_program& p) const;
  [[nodiscard]] traced applied(function f, const traced& b, scalar_op op = scalar_op::add) const;

 private:
  [[nodiscard]] traced scaled(residue factor) const;

  sample_program* program_ = nullptr;
  std::vector<std::pair<sample_program::ref, sample_program::ref>> sum_{};
  residue offset_{};
  bool lowest_ = false;
};

// As for modular61: polynomials are exact, maxima compare the representatives closest to zero, all other functions are
// pseudo-random.
template <>
struct scalar_traits<traced> {
  using product_sum = traced;
  using function = sample_program::function;

  [[nodiscard]] static traced literal(double value) { return traced{of_real(value)}; }
  [[nodiscard]] static traced lowest() { return traced::lowest(); }
  [[nodiscard]] static std::optional<std::int64_t> index(const traced&) noexcept { return std::nullopt; }
  [[nodiscard]] static traced widen(const traced& s) { return s; }
  static void add_product(traced& sum, const traced& a, const traced& b) { sum += a * b; }
  [[nodiscard]] static traced narrow(const traced& sum) { return sum; }

  [[nodiscard]] static traced apply(scalar_op op, const traced& a) {
    switch (op) {
      case scalar_op::negate: return -a;
      case scalar_op::reciprocal: return traced{std::int64_t{1}} / a;
      case scalar_op::relu: return a.applied(function::relu, traced{}, op);
      default: return a.applied(function::arbitrary, traced{}, op);
    }
  }
  [[nodiscard]] static traced apply(scalar_op op, const traced& a, const traced& b) {
    switch (op) {
      case scalar_op::add: return a + b;
      case scalar_op::sub: return a - b;
      case scalar_op::mul: return a * b;
      case scalar_op::div: return a / b;
      case scalar_op::maximum: return a.is_lowest() ? b : b.is_lowest() ? a : a.applied(function::maximum, b, op);
      case scalar_op::minimum: return a.applied(function::minimum, b, op);
      case scalar_op::equal:
        UNITY_EXPECTS(a.is_number() && b.is_number(), "a comparison of numbers in a traced operator");
        return traced{std::int64_t{a == b ? 1 : 0}};
      default: return a.applied(function::arbitrary, b, op);
    }
  }

 private:
  [[nodiscard]] static residue of_real(double value) {
    const bool fits = std::abs(value) < 0x1p62;  // other values cannot be converted to a 64-bit integer
    const auto exact = fits ? static_cast<std::int64_t>(value) : 0;
    return fits && static_cast<double>(exact) == value ? residue::of_integer(exact)
                                                       : residue::of(modular61::of_real(value).residue());
  }
};

// The program for one result of an operator that accepts the inputs.
// Throws: unity::error if the operator has no known meaning.
[[nodiscard]] sample_program trace(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                   std::size_t result = 0);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_TRACE)

#include <unity/tensor/evaluate.hpp>

namespace unity::tensor {

UNITY_INLINE traced traced::lowest() {
  traced t;
  t.lowest_ = true;
  return t;
}

UNITY_INLINE traced& traced::operator+=(const traced& o) {
  program_ = program_ == nullptr ? o.program_ : program_;
  sum_.insert(sum_.end(), o.sum_.begin(), o.sum_.end());
  offset_ = offset_ + o.offset_;
  return *this;
}

UNITY_INLINE auto traced::stored(sample_program& p) const -> sample_program::ref {
  const auto one = p.constant(residue::of(1));
  if (sum_.empty()) {
    return p.constant(offset_);
  }
  if (sum_.size() == 1 && sum_[0].second == one && offset_ == residue{}) {
    return sum_[0].first;
  }
  auto all = sum_;
  if (offset_ != residue{}) {
    all.emplace_back(p.constant(offset_), one);
  }
  return p.dot(all);
}

UNITY_INLINE traced traced::applied(function f, const traced& b, scalar_op op) const {
  const auto which = static_cast<std::uint8_t>(op);
  if (is_number() && b.is_number()) {  // only padding
    return traced{sample_program::compute(f, offset_, b.offset_, which)};
  }
  auto& p = *(program_ != nullptr ? program_ : b.program_);
  return {p, p.apply(f, stored(p), b.stored(p), which)};
}

UNITY_INLINE traced traced::scaled(residue factor) const {
  traced product;
  if (factor == residue{}) {
    return product;
  }
  product.program_ = program_;
  const auto one = program_->constant(residue::of(1));
  for (const auto& [a, b] : sum_) {
    const bool plain = b == one;
    product.sum_.emplace_back(plain || factor == residue::of(1) ? a : program_->dot(std::vector{std::pair{a, b}}),
                              factor == residue::of(1) ? b : program_->constant(factor));
  }
  product.offset_ = offset_ * factor;
  return product;
}

UNITY_INLINE sample_program trace(const algebra& a, const operation& op, std::span<const tensor_type> inputs,
                                  std::size_t result) {
  sample_program program;
  std::vector<dense<traced>> operands;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto& values = operands.emplace_back(inputs[i].dims);
    for (std::size_t e = 0; e < values.data.size(); ++e) {
      values.data[e] = traced{program, sample_program::element(i, e)};
    }
  }
  const auto results = evaluate<traced>(a, op, operands, inputs);
  for (const auto& t : results[result].data) {
    program.add_output(t.stored(program));
  }
  return program;
}

}  // namespace unity::tensor

#endif
