// expect: satisf[a-z ]+[^a-z]+prover
// expect: p[.]name[(][)][^ ]* (is|would be) invalid
// A prover must have a name, which rule files record.
#include <span>

#include <unity/rewrite/verification/prover.hpp>

struct nameless {
  unity::prover_answer decide(const unity::ground_problem&) const;
};

auto decide(const nameless& p, std::span<const unity::ground_problem> problems) {
  return unity::decide_all(p, problems);
}
