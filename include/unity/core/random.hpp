// Deterministic randomness: a small generator whose stream is the same on every platform, and permutations.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity {

// A permutation of 0 .. n - 1 that is computed element by element: without a table, in any order.

// A Feistel network of hashes on the smallest 4^k that is at least n, applied until the result is below n.
// Source: Luby and Rackoff, How to construct pseudorandom permutations, SIAM J. Comput. 17 (1988); Black and Rogaway,
// Ciphers with arbitrary finite domains, CT-RSA 2002, section 3.
class index_permutation {
 public:
  constexpr index_permutation(std::uint64_t size, std::uint64_t key) noexcept
      : size_{size}, key_{key}, half_bits_{(static_cast<unsigned>(std::bit_width(size - 1)) + 1) / 2} {
    UNITY_EXPECTS(size > 0, "numbers to permute");
  }

  // Complexity: expected constant.
  [[nodiscard]] constexpr std::uint64_t operator()(std::uint64_t index) const noexcept {
    UNITY_EXPECTS(index < size_, "a number below the size");
    do {
      index = step(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr unsigned rounds = 6;  // four suffice for large halves; the smallest halves have one bit

  [[nodiscard]] constexpr std::uint64_t step(std::uint64_t index) const noexcept {
    const auto mask = (std::uint64_t{1} << half_bits_) - 1;
    auto left = index >> half_bits_;
    auto right = index & mask;
    for (unsigned r = 0; r < rounds; ++r) {
      const auto mixed = left ^ (hash_combine(hash_combine(key_, r), right) & mask);
      left = right;
      right = mixed;
    }
    return left << half_bits_ | right;
  }

  std::uint64_t size_;
  std::uint64_t key_;
  unsigned half_bits_;
};

// splitmix64: 64 bits of state, passes BigCrush; models std::uniform_random_bit_generator.
// The distributions of <random> differ between standard libraries, so the ones needed here are members.
class random_engine {
 public:
  using result_type = std::uint64_t;

  constexpr explicit random_engine(std::uint64_t seed = 0) noexcept : state_{seed} {}

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  constexpr result_type operator()() noexcept {
    const auto r = mix64(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return r;
  }

  // Uniform in [0, n); n > 0. The bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) noexcept {
    UNITY_EXPECTS(n > 0, "a positive bound");
    __extension__ using wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<wide>((*this)()) * n) >> 64U);
  }
  // Uniform in [lo, hi], both included; lo <= hi.
  constexpr std::int64_t between(std::int64_t lo, std::int64_t hi) noexcept {
    UNITY_EXPECTS(lo <= hi, "bounds in order");
    // Unsigned, because the distance need not fit in 63 bits; that of all integers plus one not even in 64.
    const auto distance = static_cast<std::uint64_t>(hi) - static_cast<std::uint64_t>(lo);
    const auto drawn = distance == max() ? (*this)() : below(distance + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(lo) + drawn);
  }
  // Uniform in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>((*this)() >> 11U) * 0x1.0p-53; }

  // The whole state: saved and restored by checkpoints.
  [[nodiscard]] constexpr std::uint64_t state() const noexcept { return state_; }

 private:
  std::uint64_t state_;
};

}  // namespace unity
