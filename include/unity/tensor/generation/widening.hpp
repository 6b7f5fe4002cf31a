// Tests whether a more general form of a rule is true where the rule itself did not apply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <unity/rewrite/generation/expressions.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rule_test.hpp>
#include <unity/tensor/rules/comparison.hpp>

namespace unity::tensor {

// The outcome of testing the instances that only the general form has.
struct widening {
  enum class verdict : std::uint8_t {
    holds,       // both sides are equal
    not_wider,   // there are no such instances, or the target fits in none
    false_there  // the sides differ, or it is no rule
  };

  verdict found = verdict::false_there;
  std::size_t instances = 0;  // in which the target fits
  std::size_t misfits = 0;

  // Holds, and the target fits in at least this percentage of the instances.
  [[nodiscard]] bool holds(std::size_t percent) const noexcept {
    return found == verdict::holds && instances * 100 >= percent * (instances + misfits);
  }
};

// Tests one direction of rules. The algebra must outlive it.
class widening_test {
 public:
  widening_test(const algebra& a, rule_test_options options) : algebra_{a}, options_{options} {}

  // Tests `wider` on instances that violate some condition in `before`.
  [[nodiscard]] widening operator()(const rule_graph& wider, const std::vector<syntax::expression>& before) const;
  [[nodiscard]] widening tested(const syntax::rule& r) const;

 private:
  [[nodiscard]] static widening read(const rule_report& report);

  const algebra& algebra_;
  rule_test_options options_;
};

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_WIDENING)

#include <string>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>

namespace unity::tensor {

UNITY_INLINE widening widening_test::operator()(const rule_graph& wider,
                                                const std::vector<syntax::expression>& before) const {
  auto r = to_rule(algebra_, wider);
  r.both_ways = false;
  r.conditions.push_back(syntax::call("!", {syntax::conjunction(before)}));
  return tested(r);
}

UNITY_INLINE widening widening_test::tested(const syntax::rule& r) const {
  try {
    return read(test_rule(algebra_, compile_rule(algebra_, r).at(0), options_));
  } catch (const error&) {
    return {};  // for example an expression that the source does not bind
  }
}

UNITY_INLINE widening widening_test::read(const rule_report& report) {
  using from = rule_report::verdict;
  using to = widening::verdict;
  const auto found = report.found == from::passes    ? to::holds
                     : report.found == from::refuted ? to::false_there
                                                     : to::not_wider;
  return {found, report.instances, report.misfits};
}

}  // namespace unity::tensor

#endif
