// Values for inputs, weights and constants that nobody supplied.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/hash.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/dense.hpp>
#include <unity/tensor/modular.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// Real numbers: inputs uniform in [-1, 1); weights and constants in [1/8, 9/8), so that a variance has a root.
template <std::floating_point Real>
[[nodiscard]] Real arbitrary_value(std::uint64_t bits, source_kind kind) noexcept {
  const auto unit = static_cast<double>(bits >> 11U) * 0x1.0p-53;
  return static_cast<Real>(kind == source_kind::input ? 2 * unit - 1 : unit + 0.125);
}
template <std::same_as<modular61> Modular>
[[nodiscard]] Modular arbitrary_value(std::uint64_t bits, source_kind) noexcept {
  return modular61::of_residue(bits);
}

}  // namespace detail

// Scalars for which arbitrary values can be generated; for all others, sources must be supplied.
template <class Scalar>
concept arbitrary_scalar = std::floating_point<Scalar> || std::same_as<Scalar, modular61>;

// Equal name, type and seed give equal values. Integers are in [0, 4), so that they can index rows; bools are 0 or 1.
template <arbitrary_scalar Scalar>
[[nodiscard]] dense<Scalar> arbitrary_source(std::string_view name, const tensor_type& type, source_kind kind,
                                             std::uint64_t seed) {
  dense<Scalar> values{type.dims};
  const auto stream = hash_combine(seed, hash_bytes(name));
  const std::uint64_t below = type.element == dtype::boolean ? 2 : 4;
  for (std::size_t i = 0; i < values.data.size(); ++i) {
    const auto bits = hash_combine(stream, i);
    values.data[i] = is_floating(type.element) ? detail::arbitrary_value<Scalar>(bits, kind)
                                               : static_cast<Scalar>(static_cast<std::int64_t>(bits % below));
  }
  return values;
}

}  // namespace unity::tensor
