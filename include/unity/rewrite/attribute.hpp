// The common representation of operator parameters in rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/small_vector.hpp>

namespace unity {

// A list of integers: a scalar is a list of one, a word (a name) is the list of its bytes, a real number is the bits of
// its double. The signature of the operator says which (attribute_form).
using attribute = small_vector<std::int64_t, 4>;
using attribute_list = std::vector<attribute>;

[[nodiscard]] std::uint64_t hash_value(std::span<const std::int64_t> a) noexcept;

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_ATTRIBUTE)

#include <functional>

#include <unity/core/hash.hpp>

namespace unity {

UNITY_INLINE std::uint64_t hash_value(std::span<const std::int64_t> a) noexcept {
  std::uint64_t h = a.size();
  for (const auto i : a) {
    h = hash_combine(h, static_cast<std::uint64_t>(i));
  }
  return h;
}

}  // namespace unity

#endif
