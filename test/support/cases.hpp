// How many cases of a property are tried.
#pragma once

#include <cstdint>

namespace unity::test {

// All of them, or a part where sanitizers make each ten times as long and more (UNITY_TEST_EXHAUSTIVE of CMake).
#ifdef UNITY_TEST_FEW_CASES
inline constexpr std::uint64_t one_case_of = 8;
inline constexpr std::uint64_t one_listed_case_of = 13;  // a prime, longer than lists are
#else
inline constexpr std::uint64_t one_case_of = 1;
inline constexpr std::uint64_t one_listed_case_of = 1;
#endif

// Of cases that are drawn at random.
[[nodiscard]] constexpr std::uint64_t cases(std::uint64_t all) { return (all + one_case_of - 1) / one_case_of; }

// Of a number that says how much is done, a size, a budget, or cases that take long: `all`, or `few` there.
template <class T>
[[nodiscard]] constexpr T all_or(T all, T few) {
  return one_case_of == 1 ? all : few;
}

// Of cases that nested loops over short lists meet one by one, whether the next is tried: the first is, and of the
// others so many that each value of each list has its turn.
class one_of_some {
 public:
  [[nodiscard]] bool operator()() { return met_++ % one_listed_case_of == 0; }

 private:
  std::uint64_t met_ = 0;
};

}  // namespace unity::test
