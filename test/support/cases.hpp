// How many cases of a property a test tries.
#pragma once

#include <cstdint>

namespace unity::test {

// All cases, or a share of them under sanitizers, which slow each down tenfold or more (UNITY_TEST_EXHAUSTIVE in
// CMake).
#ifdef UNITY_TEST_FEW_CASES
inline constexpr std::uint64_t one_case_of = 8;
inline constexpr std::uint64_t one_listed_case_of = 13;  // a prime above the lengths of the lists
#else
inline constexpr std::uint64_t one_case_of = 1;
inline constexpr std::uint64_t one_listed_case_of = 1;
#endif

// Number of random cases to try, out of `all`.
[[nodiscard]] constexpr std::uint64_t cases(std::uint64_t all) { return (all + one_case_of - 1) / one_case_of; }

// A quantity other than a number of cases (a size, a budget), or a number of slow cases: `all`, or `few` under
// sanitizers.
template <class T>
[[nodiscard]] constexpr T all_or(T all, T few) {
  return one_case_of == 1 ? all : few;
}

// Called once per case of nested loops over short lists: whether to try this case. The first case is tried, and enough
// others that each element of each list occurs.
class one_of_some {
 public:
  [[nodiscard]] bool operator()() { return met_++ % one_listed_case_of == 0; }

 private:
  std::uint64_t met_ = 0;
};

}  // namespace unity::test
