// How many cases of a property are tried.
#pragma once

#include <cstdint>

namespace unity::test {

// All of them, or an eighth where sanitizers make each ten times as long (UNITY_TEST_EXHAUSTIVE of CMake).
#ifdef UNITY_TEST_FEW_CASES
inline constexpr std::uint64_t one_case_of = 8;
#else
inline constexpr std::uint64_t one_case_of = 1;
#endif

[[nodiscard]] constexpr std::uint64_t cases(std::uint64_t all) { return (all + one_case_of - 1) / one_case_of; }

}  // namespace unity::test
