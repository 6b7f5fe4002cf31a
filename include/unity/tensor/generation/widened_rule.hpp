// A rule while it is generalized: every change is tested on instances to which the rule did not apply before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

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
    false_there  // the sides differ, or the general form is not a valid rule
  };

  verdict found = verdict::false_there;
  std::size_t instances = 0;  // instances in which the target fits
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

// Which conditions of a specific rule on its operands may be dropped.
enum class generality : std::uint8_t {
  most,     // all unnecessary ones
  related,  // all but those that relate sizes of operands
  ranked    // none on sizes or ranks of operands: only attributes become variables
};

struct generalize_options {
  generality wanted = generality::most;
  std::vector<std::string> kept{};  // attributes that are not generalized
  rule_test_options quick{.instances = 4, .attempts = 400, .varied = 0, .sampled = 0, .points = 1, .chained = true};
  rule_test_options thorough{
      .instances = 16, .attempts = 2000, .varied = 1, .sampled = 10, .points = 1, .chained = true};
  rule_test_options broadcasting{
      .instances = 6, .attempts = 2000, .varied = 0, .collapsed = 6, .sampled = 20, .points = 1, .chained = true};
  rule_test_options last{
      // of the result
      .instances = 50, .attempts = 20000, .varied = 2, .collapsed = 2, .sampled = 100, .points = 2, .chained = true};
};

namespace detail {

// Whether the rule, read from left to right, passes the tests.
[[nodiscard]] bool passes(const algebra& a, const syntax::rule& r, const rule_test_options& o);

}  // namespace detail

}  // namespace unity::tensor

namespace unity::tensor::detail {

// suffix(shape(?w), 2) == [3, 3], size(?x, 1) == 4
[[nodiscard]] inline bool fixes_size(const syntax::expression& c) {
  return syntax::is_call(c, "==", 2) && syntax::is_literal(c.arguments[1]) &&
         c.arguments[0].kind == syntax::expression::form::call && !syntax::is_call(c.arguments[0], "rank", 1);
}

class widened_rule {
 public:
  using conditions = std::vector<syntax::expression>;

  // quick: options that reject most wrong changes; thorough: required for all changes; broadcasting: required after a
  // condition was dropped.
  widened_rule(const algebra& a, rule_graph r, const rule_test_options& quick, const rule_test_options& thorough,
               const rule_test_options& broadcasting);

  [[nodiscard]] const algebra& operators() const noexcept { return algebra_; }
  [[nodiscard]] const rule_graph& rule() const noexcept { return rule_; }

  // A new attribute variable.
  [[nodiscard]] syntax::expression fresh() { return syntax::variable(fmt::format("_{}", ++variables_)); }

  [[nodiscard]] widening try_quickly(const rule_graph& wider, const conditions& before) {
    return quick_(wider, before);
  }
  [[nodiscard]] widening try_thoroughly(const rule_graph& wider, const conditions& before) {
    return thorough_(wider, before);
  }
  // Accepts `wider` if it passes both tests and its target fits in this percentage of the instances in which the target
  // of the current rule fits.
  bool accept(rule_graph wider, const conditions& before, std::size_t percent);
  // The same for a change of the operands that may broadcast.
  bool accept_broadcasting(rule_graph wider, const conditions& before) {
    return broadcasting_(wider, before).found != widening::verdict::false_there && accept(std::move(wider), before, 0);
  }
  // The same, but also accepts a change that adds no instances in which the target fits: it only simplifies the rule.
  bool accept_or_equal(rule_graph wider, const conditions& before);
  // Whether random instances of the rule are found and pass the quick test.
  [[nodiscard]] bool is_testable(const rule_graph& r) const {
    return quick_(r, {syntax::integer(0)}).found == widening::verdict::holds;
  }
  [[nodiscard]] bool fits(const widening& found, std::size_t percent) {
    return found.holds(percent) || (found.holds(0) && found.holds(percent * share() / 100));
  }
  void take(rule_graph wider) {
    rule_ = std::move(wider);
    share_.reset();
  }

 private:
  static constexpr std::size_t enough = 4;  // instances in which the target fits

  // The percentage of instances in which the target of the current rule fits.
  [[nodiscard]] std::size_t share();

  const algebra& algebra_;
  rule_graph rule_;
  // Random instances of a general rule may all be easy ones, so this tests the important ones.
  [[nodiscard]] bool holds_where_it_matters(const rule_graph& wider) const {
    return turns(wider) && holds_for_sizes(wider);
  }
  // Tests with the sizes for which the rule was found, such as a kernel smaller than another.
  [[nodiscard]] bool holds_for_sizes(const rule_graph& wider) const;
  // Most permutations change most shapes, so a wrong target hardly ever fits. Tests with a permutation that is not its
  // own inverse, on equal sizes.
  [[nodiscard]] bool turns(const rule_graph& wider) const;
  [[nodiscard]] static std::string variable_below(const term_graph& g, const graph_node& n);

  conditions sizes_{};  // sizes for which the rule was found
  widening_test quick_;
  widening_test thorough_;
  widening_test broadcasting_;
  std::optional<std::size_t> share_{};
  std::size_t variables_ = 0;
};

// The rule without its condition `which`.
[[nodiscard]] rule_graph without(const rule_graph& r, std::size_t which);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_WIDENED_RULE)

#include <algorithm>

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

namespace unity::tensor::detail {

UNITY_INLINE bool passes(const algebra& a, const syntax::rule& r, const rule_test_options& o) {
  try {
    return test_rule(a, compile_rule(a, r).at(0), o).found == rule_report::verdict::passes;
  } catch (const error&) {
    return false;  // not valid in this direction
  }
}

UNITY_INLINE widened_rule::widened_rule(const algebra& a, rule_graph r, const rule_test_options& quick,
                                        const rule_test_options& thorough, const rule_test_options& broadcasting)
    : algebra_{a}, rule_{std::move(r)}, quick_{a, quick}, thorough_{a, thorough}, broadcasting_{a, broadcasting} {
  for (const auto& c : rule_.rest.conditions) {
    if (fixes_size(c)) {
      sizes_.push_back(c);
    }
  }
}

UNITY_INLINE bool widened_rule::accept(rule_graph wider, const conditions& before, std::size_t percent) {
  if (!fits(quick_(wider, before), percent)) {
    return false;
  }
  const auto found = thorough_(wider, before);
  if (!fits(found, percent) || found.instances < enough || !holds_where_it_matters(wider)) {
    return false;
  }
  take(std::move(wider));
  return true;
}

UNITY_INLINE bool widened_rule::accept_or_equal(rule_graph wider, const conditions& before) {
  const auto found = thorough_(wider, before);
  const bool holds = found.holds(0) && found.instances >= enough;
  const bool equal = found.found == widening::verdict::not_wider && is_testable(wider);
  if ((holds || equal) && holds_where_it_matters(wider) &&
      broadcasting_(wider, {syntax::integer(0)}).found != widening::verdict::false_there) {
    take(std::move(wider));
    return true;
  }
  return false;
}

UNITY_INLINE std::size_t widened_rule::share() {
  if (!share_) {
    const auto own = thorough_(rule_, {syntax::integer(0)});
    share_ = own.instances * 100 / std::max<std::size_t>(1, own.instances + own.misfits);
  }
  return *share_;
}

UNITY_INLINE bool widened_rule::holds_for_sizes(const rule_graph& wider) const {
  if (sizes_.empty()) {
    return true;
  }
  auto as_found = wider;
  as_found.rest.conditions.insert(as_found.rest.conditions.end(), sizes_.begin(), sizes_.end());
  return thorough_(as_found, {syntax::integer(0)}).found != widening::verdict::false_there;
}

UNITY_INLINE bool widened_rule::turns(const rule_graph& wider) const {
  auto turned = wider;
  const auto cycle = syntax::list({syntax::integer(1), syntax::integer(2), syntax::integer(0)});
  std::string operand;
  for (const auto& n : wider.source.nodes) {
    for (const auto& a : n.attributes) {
      if (a.name != "permutation" || a.value.kind != syntax::expression::form::variable) {
        continue;
      }
      for_each_expression(turned, [&](syntax::expression& e) {
        syntax::for_each_part(e, [&](syntax::expression& part) { part = part == a.value ? cycle : part; });
      });
      operand = variable_below(wider.source, n);
    }
  }
  if (operand.empty()) {
    return true;
  }
  const auto cube = syntax::list({syntax::integer(2), syntax::integer(2), syntax::integer(2)});
  turned.rest.conditions.push_back(syntax::equal(syntax::measure("shape", operand), cube));
  return thorough_(turned, {syntax::integer(0)}).found != widening::verdict::false_there;
}

UNITY_INLINE std::string widened_rule::variable_below(const term_graph& g, const graph_node& n) {
  if (n.operands.empty()) {
    return {};
  }
  const auto& first = n.operands[0];
  return first.is_node() ? variable_below(g, g.nodes[first.node]) : first.variable;
}

UNITY_INLINE rule_graph without(const rule_graph& r, std::size_t which) {
  auto wider = r;
  wider.rest.conditions.erase(wider.rest.conditions.begin() + static_cast<std::ptrdiff_t>(which));
  return wider;
}

}  // namespace unity::tensor::detail

#endif
