// Gives opaque operators a meaning: some fixed function of their operands.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// In [-1, 1).
[[nodiscard]] inline double signed_unit(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11U) * 0x1.0p-52 - 1;
}

// Four numbers that depend smoothly on all elements of a tensor, so that operands that differ only by rounding give
// results that differ little.
struct projection {
  static constexpr std::size_t count = 4;
  double at[count] = {};
};

// Replaces infinities, such as those in masks, by a large number.
[[nodiscard]] inline double finite(double x) noexcept {
  constexpr double large = 1e30;
  return std::isinf(x) ? std::copysign(large, x) : x;
}

template <class Scalar>
[[nodiscard]] projection project(std::uint64_t function, std::span<const Scalar> x) {
  projection p;
  for (std::size_t m = 0; m < projection::count; ++m) {
    const auto stream = hash_combine(function, m);
    for (std::size_t i = 0; i < x.size(); ++i) {
      p.at[m] += signed_unit(hash_combine(stream, i)) * finite(static_cast<double>(x[i]));
    }
    p.at[m] = std::asinh(p.at[m] / std::sqrt(static_cast<double>(x.size())));
  }
  return p;
}

// Real results are in [1/2, 5/2), so roots and reciprocals exist. Integers are in [0, 4), bools 0 or 1.
class opaque_function {
 public:
  explicit opaque_function(std::uint64_t identity) noexcept : identity_{identity} {}

  template <class Scalar>
  void add(std::span<const Scalar> operand) {
    const auto number = hash_combine(identity_, ++operands_);
    if constexpr (std::is_same_v<Scalar, modular61>) {
      for (const auto x : operand) {
        residues_ = hash_combine(residues_, x.residue());
      }
      residues_ = hash_combine(residues_, number);
    } else {
      projections_.push_back(project(number, operand));
    }
  }

  template <class Scalar>
  [[nodiscard]] dense<Scalar> result(std::size_t number, const tensor_type& type) const {
    dense<Scalar> out{type.dims};
    const auto stream = hash_combine(hash_combine(identity_, number), residues_);
    const std::uint64_t choices = type.element == dtype::boolean ? 2 : 4;
    for (std::size_t j = 0; j < out.data.size(); ++j) {
      const auto bits = hash_combine(stream, j);
      if constexpr (std::is_same_v<Scalar, modular61>) {
        out.data[j] = modular61::of_residue(is_floating(type.element) ? bits : bits % choices);
      } else {
        const auto wave = std::sin(phase(bits));
        out.data[j] = static_cast<Scalar>(
            is_floating(type.element) ? 1.5 + wave : std::floor((wave + 1) / 2.000001 * static_cast<double>(choices)));
      }
    }
    return out;
  }

 private:
  [[nodiscard]] double phase(std::uint64_t bits) const;

  std::uint64_t identity_;
  std::uint64_t operands_ = 0;
  std::uint64_t residues_ = 0;
  std::vector<projection> projections_;
};

// All attributes except sizes distinguish opaque operators. Precondition: the operator accepts the operands.
template <class Scalar>
[[nodiscard]] std::vector<dense<Scalar>> evaluate_opaque(const algebra& a, const operation& op,
                                                         std::span<const Scalar* const> operands,
                                                         std::span<const tensor_type> types) {
  const auto& fields = a.definition_of(op.kind).fields;
  std::uint64_t identity = op.kind.index();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    identity = fields[i].signature.name == "dims" ? identity : hash_combine(identity, hash_value(op.attributes[i]));
  }
  opaque_function f{identity};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    f.add(std::span{operands[i], static_cast<std::size_t>(element_count(types[i].dims))});
  }
  std::vector<dense<Scalar>> results;
  const auto made = a.infer(op, types);
  UNITY_EXPECTS(made.has_value(), "operands that the operator takes");
  for (const auto& t : *made) {
    results.push_back(f.template result<Scalar>(results.size(), t));
  }
  return results;
}

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_OPAQUE_VALUES)

#include <numbers>

#include <unity/tensor/scalar.hpp>

namespace unity::tensor::detail {

UNITY_INLINE double opaque_function::phase(std::uint64_t bits) const {
  auto sum = std::numbers::pi * signed_unit(bits);
  std::uint64_t term = 0;
  for (const auto& p : projections_) {
    for (const auto x : p.at) {
      sum += signed_unit(hash_combine(bits, ++term)) * x;
    }
  }
  return sum;
}

}  // namespace unity::tensor::detail

#endif
