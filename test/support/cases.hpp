// How many cases of a property are tried.
#pragma once

#include <cstdint>

namespace unity::test {

// All of them, or one of 13 where sanitizers make each ten times as long and more (UNITY_TEST_EXHAUSTIVE of CMake). A
// prime larger than most lists, so that a walk through nested ones meets each value of each: see one_of_some.
#ifdef UNITY_TEST_FEW_CASES
inline constexpr std::uint64_t one_case_of = 13;
#else
inline constexpr std::uint64_t one_case_of = 1;
#endif

[[nodiscard]] constexpr std::uint64_t cases(std::uint64_t all) { return (all + one_case_of - 1) / one_case_of; }

// Of cases that are met one by one, as by nested loops over lists, those to try: the first, and so on.
class one_of_some {
 public:
  [[nodiscard]] bool operator()() { return met_++ % one_case_of == 0; }

 private:
  std::uint64_t met_ = 0;
};

}  // namespace unity::test
