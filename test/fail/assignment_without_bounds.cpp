// expect: satisf[a-z ]+[^a-z]+assignment_problem
// expect: satisf[a-z ]+[^a-z]+has_prefix
// expect: p[.]push[(]choice[)]([^ ]* does not satisfy return-type| } -> )
// A prefix whose completions have no bound.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <unity/search/branch_and_bound.hpp>

struct knapsack {
  std::size_t decision_count() const;
  std::size_t choice_count(std::size_t) const;
  void push(std::uint32_t);
  void pop();
  std::optional<unity::cost_value> cost(unity::cost_value);
};

void search(knapsack& problem) { static_cast<void>(unity::branch_and_bound(problem)); }
