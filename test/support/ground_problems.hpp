// Ground problems with known answers, for tests of every prover.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/rewrite/verification/prover.hpp>

namespace unity::test {

struct solved_problem {
  std::string what;
  ground_problem problem;
  verdict expected = verdict::refuted;
  std::vector<std::uint32_t> used{};
};

// Labels: 0 .. 3 constants a, b, c, d; 4 f(.), 5 g(., .), 6 h(., .) commutative, 7 p(.) of two results.
inline ground_problem ground(std::vector<ground_term> terms,
                             const std::vector<std::pair<std::uint32_t, std::uint32_t>>& equal,
                             std::vector<std::pair<std::uint32_t, std::uint32_t>> goals) {
  ground_problem p;
  p.labels = {"a", "b", "c", "d", "f", "g", "h", "p"};
  p.commutative = {false, false, false, false, false, false, true, false};
  p.terms = std::move(terms);
  for (const auto& [left, right] : equal) {
    const auto number = static_cast<std::uint32_t>(p.equalities.size());
    p.equalities.push_back({left, right, number, number, false});
  }
  p.goals = std::move(goals);
  return p;
}

inline std::vector<solved_problem> ground_problems() {
  const ground_term a{0}, b{1}, c{2}, d{3};
  const auto f = [](std::uint32_t x) { return ground_term{4, 0, {x}}; };
  const auto g = [](std::uint32_t x, std::uint32_t y) { return ground_term{5, 0, {x, y}}; };
  const auto h = [](std::uint32_t x, std::uint32_t y) { return ground_term{6, 0, {x, y}}; };
  const auto p = [](std::uint32_t x, std::uint32_t result) { return ground_term{7, result, {x}}; };
  return {
      {"a term equals itself", ground({a}, {}, {{0, 0}}), verdict::proved, {}},
      {"constants differ", ground({a, b}, {}, {{0, 1}})},
      {"equality is transitive", ground({a, b, c}, {{0, 1}, {2, 1}}, {{0, 2}}), verdict::proved, {0, 1}},
      {"functions keep equality", ground({a, b, f(0), f(1), f(2), f(3)}, {{0, 1}}, {{4, 5}}), verdict::proved, {0}},
      {"functions need not tell apart", ground({a, b, f(0), f(1)}, {{2, 3}}, {{0, 1}})},
      {"all goals are needed", ground({a, b, c}, {{0, 1}}, {{0, 1}, {0, 2}})},
      {"g does not commute", ground({a, b, g(0, 1), g(1, 0)}, {}, {{2, 3}})},
      {"h commutes", ground({a, b, h(0, 1), h(1, 0)}, {}, {{2, 3}}), verdict::proved, {}},
      {"h commutes up to equality",
       ground({a, b, c, d, h(0, 1), h(3, 2)}, {{0, 2}, {1, 3}}, {{4, 5}}),
       verdict::proved,
       {0, 1}},
      {"results of one operator differ", ground({a, p(0, 0), p(0, 1)}, {}, {{1, 2}})},
      {"results of one operator agree each",
       ground({a, b, p(0, 1), p(1, 1)}, {{1, 0}}, {{2, 3}}),
       verdict::proved,
       {0}},
      {"what is not needed is not used",
       ground({a, b, c, d}, {{0, 1}, {2, 3}, {1, 2}}, {{0, 2}}),
       verdict::proved,
       {0, 2}},
      // f(f(f(a))) = a and f(f(f(f(f(a))))) = a, hence f(a) = a
      {"three and five make one",
       ground({a, f(0), f(1), f(2), f(3), f(4)}, {{3, 0}, {5, 0}}, {{1, 0}}),
       verdict::proved,
       {0, 1}},
  };
}

}  // namespace unity::test
