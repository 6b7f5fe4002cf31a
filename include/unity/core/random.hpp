// A small deterministic generator whose stream is the same on every platform.
#pragma once

#include <cstdint>
#include <limits>

#include <unity/core/config.hpp>
#include <unity/core/hash.hpp>

namespace unity {

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
  // Uniform in [lo, hi], both included.
  constexpr std::int64_t between(std::int64_t lo, std::int64_t hi) noexcept {
    return lo + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(hi - lo) + 1));
  }
  // Uniform in [0, 1).
  constexpr double unit() noexcept { return static_cast<double>((*this)() >> 11U) * 0x1.0p-53; }

  // The whole state: saved and restored by checkpoints.
  [[nodiscard]] constexpr std::uint64_t state() const noexcept { return state_; }

 private:
  std::uint64_t state_;
};

}  // namespace unity
