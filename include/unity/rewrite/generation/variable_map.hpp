// Renamings of the few variables of a term, packed into a word.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include <unity/core/config.hpp>

namespace unity {

// Entry i is the new number of variable i. At most 8 variables, numbered below 16. The number of variables is known to
// the term.
class variable_map {
 public:
  static constexpr std::size_t most = 8;

  constexpr variable_map() noexcept = default;
  [[nodiscard]] static constexpr variable_map identity() noexcept {
    variable_map m;
    m.bits_ = 0x76543210U;
    return m;
  }
  [[nodiscard]] static constexpr variable_map from_bits(std::uint32_t bits) noexcept {
    variable_map m;
    m.bits_ = bits;
    return m;
  }
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept { return bits_; }

  [[nodiscard]] constexpr std::size_t operator[](std::size_t i) const noexcept { return bits_ >> 4U * i & 15U; }
  constexpr void set(std::size_t i, std::size_t to) noexcept {
    bits_ = (bits_ & ~(15U << 4U * i)) | static_cast<std::uint32_t>(to) << 4U * i;
  }
  // Composition, this first: entry i is next[this[i]]. Entries from `count` on become 0.
  [[nodiscard]] constexpr variable_map then(variable_map next, std::size_t count) const noexcept {
    variable_map m;
    for (std::size_t i = 0; i < count; ++i) {
      m.set(i, next[(*this)[i]]);
    }
    return m;
  }
  // Only the first `count` entries.
  [[nodiscard]] constexpr variable_map cut(std::size_t count) const noexcept {
    return from_bits(count >= most ? bits_ : bits_ & ((std::uint32_t{1} << 4U * count) - 1));
  }
  // The inverse of a permutation of `count` variables.
  [[nodiscard]] constexpr variable_map inverse(std::size_t count) const noexcept {
    variable_map m;
    for (std::size_t i = 0; i < count; ++i) {
      m.set((*this)[i], i);
    }
    return m;
  }

  friend constexpr auto operator<=>(variable_map, variable_map) noexcept = default;
  friend constexpr bool operator==(variable_map, variable_map) noexcept = default;

 private:
  std::uint32_t bits_ = 0;
};

}  // namespace unity
