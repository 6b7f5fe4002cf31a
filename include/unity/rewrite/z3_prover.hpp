// Z3 as a prover of ground problems. Link unity::z3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <z3++.h>

#include <unity/rewrite/verification/prover.hpp>

namespace unity {

// Z3 crashes, or gives up as if a question were too hard, if it runs out of memory.
// Throws: std::bad_alloc if less memory is available than suffices for every question of ours.
inline void expect_room_for_z3() {
  constexpr std::size_t room = std::size_t{64} << 20U;
  ::operator delete(::operator new(room));
}

// Asks Z3 whether equalities over uninterpreted functions, with commutativity where declared, entail the goals (QF_UF),
// and takes the used equalities from the unsatisfiable core. Deterministic: work is limited by Z3's own resource count,
// not by time. A value; every call has its own Z3 context, so threads share nothing and answers do not depend on
// earlier questions.
class z3_prover {
 public:
  explicit z3_prover(unsigned resources = 5'000'000) : resources_{resources} {}

  // "z3 4.8.12"
  [[nodiscard]] std::string name() const;

  [[nodiscard]] prover_answer decide(const ground_problem& problem) const { return decide_all({&problem, 1}).front(); }
  // Making a context takes several times as long as a decision.
  [[nodiscard]] std::vector<prover_answer> decide_all(std::span<const ground_problem> problems) const;

 private:
  [[nodiscard]] prover_answer decide(z3::context& context, const ground_problem& problem) const;
  static std::string tag(std::size_t equality) { return fmt::format("e{}", equality); }

  static std::vector<z3::expr> translate(z3::context& context, const ground_problem& problem);
  static void assert_commutes(z3::solver& solver, const ground_problem& problem, const std::vector<z3::expr>& terms,
                              std::size_t t);
  static std::vector<std::uint32_t> used(z3::solver& solver, std::size_t equalities);

  unsigned resources_;
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_Z3_PROVER)

#include <map>
#include <new>

#include <unity/core/config.hpp>

namespace unity {

UNITY_INLINE std::string z3_prover::name() const {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned build = 0;
  unsigned revision = 0;
  Z3_get_version(&major, &minor, &build, &revision);
  return fmt::format("z3 {}.{}.{}", major, minor, build);
}

UNITY_INLINE std::vector<prover_answer> z3_prover::decide_all(std::span<const ground_problem> problems) const {
  expect_room_for_z3();
  z3::context context;
  std::vector<prover_answer> answers;
  for (const auto& p : problems) {
    answers.push_back(decide(context, p));
  }
  return answers;
}

UNITY_INLINE prover_answer z3_prover::decide(z3::context& context, const ground_problem& problem) const {
  z3::solver solver{context, "QF_UF"};
  z3::params parameters{context};
  parameters.set("rlimit", resources_);
  parameters.set("core.minimize", true);
  solver.set(parameters);
  const auto terms = translate(context, problem);
  for (std::size_t t = 0; t < terms.size(); ++t) {
    assert_commutes(solver, problem, terms, t);
  }
  for (std::size_t i = 0; i < problem.equalities.size(); ++i) {
    const auto& e = problem.equalities[i];
    solver.add(terms[e.left] == terms[e.right], tag(i).c_str());
  }
  z3::expr_vector differ{context};
  for (const auto& [a, b] : problem.goals) {
    differ.push_back(terms[a] != terms[b]);
  }
  solver.add(z3::mk_or(differ));
  switch (solver.check()) {
    case z3::unsat: return {verdict::proved, used(solver, problem.equalities.size())};
    case z3::sat: return {verdict::refuted, {}};
    default: return {};
  }
}

UNITY_INLINE std::vector<z3::expr> z3_prover::translate(z3::context& context, const ground_problem& problem) {
  const auto value = context.uninterpreted_sort("value");
  std::map<std::pair<std::uint32_t, std::pair<std::uint32_t, std::size_t>>, z3::func_decl> symbols;
  std::vector<z3::expr> terms;
  for (const auto& t : problem.terms) {
    const auto key = std::pair{t.label, std::pair{t.result, t.operands.size()}};
    auto place = symbols.find(key);
    if (place == symbols.end()) {
      z3::sort_vector domain{context};
      for (std::size_t k = 0; k < t.operands.size(); ++k) {
        domain.push_back(value);
      }
      const auto name = fmt::format("f{}", symbols.size());
      place = symbols.emplace(key, context.function(name.c_str(), domain, value)).first;
    }
    z3::expr_vector operands{context};
    for (const auto o : t.operands) {
      operands.push_back(terms[o]);
    }
    terms.push_back(place->second(operands));
  }
  return terms;
}

UNITY_INLINE void z3_prover::assert_commutes(z3::solver& solver, const ground_problem& problem,
                                             const std::vector<z3::expr>& terms, std::size_t t) {
  const auto& term = problem.terms[t];
  if (problem.commutative[term.label] && term.operands.size() == 2 && term.operands[0] != term.operands[1]) {
    const auto function = terms[t].decl();
    solver.add(terms[t] == function(terms[term.operands[1]], terms[term.operands[0]]));
  }
}

UNITY_INLINE std::vector<std::uint32_t> z3_prover::used(z3::solver& solver, std::size_t equalities) {
  std::vector<bool> in_core(equalities);
  for (const auto& literal : solver.unsat_core()) {
    in_core[static_cast<std::size_t>(std::stoul(literal.decl().name().str().substr(1)))] = true;
  }
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < equalities; ++i) {
    if (in_core[i]) {
      all.push_back(i);
    }
  }
  return all;
}

}  // namespace unity

#endif
