// How many cases of a property are tried.
#pragma once

#include <cstdint>

namespace unity::test {

// All of them, or an eighth where sanitizers make each ten times as long (UNITY_TEST_EXHAUSTIVE of CMake).
[[nodiscard]] constexpr std::uint64_t cases(std::uint64_t all) {
#ifdef UNITY_TEST_FEW_CASES
  return (all + 7) / 8;
#else
  return all;
#endif
}

}  // namespace unity::test
