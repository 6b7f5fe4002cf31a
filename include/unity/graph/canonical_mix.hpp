// The 128-bit mixing steps of canonical fingerprints.
#pragma once

#include <cstdint>

#include <unity/core/hash.hpp>

namespace unity::detail {

// The two halves of the 128-bit product, folded: one multiplication that every bit of both factors reaches.
[[nodiscard]] constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

// Order-sensitive: the state after one more 128-bit word. hasher (core/hash.hpp) mixes better and costs six times as
// much; words here are hashes themselves.
[[nodiscard]] constexpr fingerprint absorb(fingerprint state, fingerprint word) noexcept {
  return {fold(state.low ^ word.low ^ 0xa0761d6478bd642fU, state.high ^ word.high ^ 0xe7037ed1a0b428dbU),
          fold(state.low + word.high + 0x8ebc6af09c88c6e3U, state.high + word.low + 0x589965cc75374cc3U)};
}

// Two small or unmixed numbers as a state.
[[nodiscard]] constexpr fingerprint seed_hash(std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t low = mix64(a + b * 0x9e3779b97f4a7c15U);
  return {low, fold(a ^ 0x1d8e4e27c47d124fU, low ^ 0xeb44accab455d165U) + b};
}

// The hash of what has been absorbed, `count` words: fit to be summed into the hash of a multiset.
[[nodiscard]] constexpr fingerprint finish(fingerprint state, std::uint64_t count) noexcept {
  return {mix64(state.low ^ (count * 0x9e3779b97f4a7c15U)), mix64(state.high + count)};
}

// The hash of result number k of a node.
[[nodiscard]] constexpr fingerprint result_hash(fingerprint node, std::uint64_t k) noexcept {
  return k == 0 ? node : absorb(node, {k * 0x9e3779b97f4a7c15U, k});
}

// Seeds for the members of different multisets, so that sums over one kind are never confused with another.
inline constexpr fingerprint set_seed{0x452821e638d01377U, 0xbe5466cf34e90c6cU};
inline constexpr fingerprint component_seed{0xc0ac29b7c97c50ddU, 0x3f84d5b5b5470917U};
inline constexpr fingerprint chosen_seed{0x9216d5d98979fb1bU, 0xd1310ba698dfb5acU};
inline constexpr fingerprint use_seed{0x2ffd72dbd01adfb7U, 0xb8e1afed6a267e96U};
inline constexpr fingerprint output_seed{0xba7c9045f12c7f99U, 0x24a19947b3916cf7U};

}  // namespace unity::detail
