// expect: satisf[a-z ]+[^a-z]+decomposition
// expect: satisf[a-z ]+[^a-z]+has_subgoals
// expect: d[.]subgoals[(]goal[)][^ ]* (is|would be) invalid
// A decomposition that does not list a goal's subgoals.
#include <span>

#include <unity/search/dynamic_programming.hpp>

struct parts {
  using goal_type = int;
  using value_type = int;
  unity::fingerprint fingerprint_of(const int&) const;
  int combine(const int&, std::span<const int* const>);
};

void search(parts& problem) { unity::dynamic_program<parts> solver{problem}; }
