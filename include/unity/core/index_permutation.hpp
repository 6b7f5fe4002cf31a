// A permutation of 0 .. n - 1 that is computed element by element: without a table, in any order.
#pragma once

#include <bit>
#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity {

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

}  // namespace unity
