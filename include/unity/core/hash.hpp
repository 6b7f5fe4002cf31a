// Stable hashing: the same value has the same hash on every run, machine and thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity {

// A bijective mix of 64 bits with full avalanche.
// Source: the finalizer of splitmix64 (Steele et al., OOPSLA'14).
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// Order-sensitive combination of a running hash with one more word.
[[nodiscard]] constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t word) noexcept {
  return mix64(seed ^ (mix64(word) + 0x9e3779b97f4a7c15U + (seed << 6U) + (seed >> 2U)));
}

[[nodiscard]] constexpr std::uint64_t hash_bytes(std::string_view text) noexcept {
  std::uint64_t h = text.size();
  std::uint64_t word = 0;
  unsigned filled = 0;
  for (const char c : text) {
    word = (word << 8U) | static_cast<unsigned char>(c);
    if (++filled == 8) {
      h = hash_combine(h, word);
      word = 0;
      filled = 0;
    }
  }
  return hash_combine(h, word);
}

// 128 bits that form a commutative group under addition: a set's fingerprint is the sum of those of its members, so it
// can be updated when members are added or removed. Two different sets of mixed members collide with probability about
// 2^-128.
struct fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  constexpr fingerprint& operator+=(fingerprint o) noexcept {
    low += o.low;
    high += o.high;
    return *this;
  }
  constexpr fingerprint& operator-=(fingerprint o) noexcept {
    low -= o.low;
    high -= o.high;
    return *this;
  }
  friend constexpr fingerprint operator+(fingerprint a, fingerprint b) noexcept { return a += b; }
  friend constexpr fingerprint operator-(fingerprint a, fingerprint b) noexcept { return a -= b; }
  friend constexpr auto operator<=>(fingerprint, fingerprint) noexcept = default;
  // Explicit, because nvcc 13 does not derive it from the line above.
  friend constexpr bool operator==(fingerprint, fingerprint) noexcept = default;
};

// Accumulates words, in order, into 128 bits.
class hasher {
 public:
  constexpr hasher() noexcept = default;
  constexpr explicit hasher(std::uint64_t seed) noexcept { add(seed); }

  constexpr hasher& add(std::uint64_t word) noexcept {
    state_.low = hash_combine(state_.low, word);
    state_.high = hash_combine(state_.high ^ 0xa0761d6478bd642fU, word + state_.low);
    return *this;
  }
  [[nodiscard]] constexpr fingerprint result() const noexcept { return state_; }

 private:
  fingerprint state_{0x243f6a8885a308d3U, 0x13198a2e03707344U};
};

}  // namespace unity

template <>
struct std::hash<unity::fingerprint> {
  std::size_t operator()(unity::fingerprint f) const noexcept { return f.low; }
};

// 32 hexadecimal digits.
template <>
struct fmt::formatter<unity::fingerprint> : unity::plain_formatter {
  template <class Context>
  auto format(unity::fingerprint f, Context& context) const -> decltype(context.out()) {
    return put(context, fmt::format("{:016x}{:016x}", f.high, f.low));
  }
};
