// Removes common subterms from rules of tensor graphs if nothing is lost.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/generation/common_subterms.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/rewrite/verification/entailment.hpp>
#include <unity/rewrite/verification/theory.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generation/widened_rule.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/verification/rule_worlds.hpp>

namespace unity::tensor {

// The questions for entailment about a rule: for each case of its instances, the graphs of a few instances.
[[nodiscard]] inline std::vector<std::vector<tensor_graph>> rule_questions(const algebra& a, const syntax::rule& r,
                                                                           const world_options& options = {}) {
  std::vector<std::vector<tensor_graph>> all;
  for (const auto& c : rule_cases(a, compile_rule(a, r).front(), options)) {
    auto& question = all.emplace_back();
    for (std::size_t w = 0; w < std::min(options.worlds, c.size()); ++w) {
      question.push_back(c[w].graph);
    }
  }
  return all;
}

// The rule without the common subterms of its sides, if the rest passes tests and implies the rule. The latter must be
// checked: of conv2d(?x, enlarge(?w)) => conv2d(?x, ?w), the rest enlarge(?w) => ?w is true where its sides have one
// type, which is where nothing is enlarged.
// Source: Jia's dissertation (TASO, 2020), section 2.5, common subgraph.
[[nodiscard]] inline syntax::rule without_common_subterms(const algebra& a, const syntax::rule& r,
                                                          const rule_test_options& tests = generalize_options{}.last) {
  const auto questions = rule_questions(a, r);
  const auto follows_from = [&](const syntax::rule& rest) {
    theory known;
    known.add(a, rest);
    entailment<algebra> ask{a, known, {.rounds = 2}};
    return !questions.empty() && std::all_of(questions.begin(), questions.end(), [&](const auto& worlds) {
      return ask.prove_outputs(std::span<const tensor_graph>{worlds}).has_value();
    });
  };
  const auto valid = [&](const syntax::rule& rest) {
    auto back = rest;
    std::swap(back.source, back.target);
    return follows_from(rest) && detail::passes(a, rest, tests) && (!rest.both_ways || detail::passes(a, back, tests));
  };
  return unity::without_common_subterms(a, r, valid);
}

}  // namespace unity::tensor
