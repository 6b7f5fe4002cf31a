// How far a rule is generalized, and how the result is tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/comparison.hpp>

namespace unity::tensor {

// Which conditions of a specific rule on its operands may be dropped.
enum class generality : std::uint8_t {
  most,     // all unnecessary ones
  related,  // all but those that relate sizes of operands
  ranked    // nor their ranks: attributes alone become variables
};

struct generalize_options {
  generality wanted = generality::most;
  std::vector<std::string> kept{};  // attributes that are not generalized
  rule_test_options quick{.instances = 4, .attempts = 400, .varied = 0, .points = 1, .chained = true};
  rule_test_options thorough{.instances = 16, .attempts = 2000, .varied = 1, .points = 1, .chained = true};
  rule_test_options broadcasting{
      .instances = 6, .attempts = 2000, .varied = 0, .collapsed = 6, .points = 1, .chained = true};
  rule_test_options last{// of the result
                         .instances = 50, .attempts = 20000, .varied = 2, .collapsed = 2, .points = 2, .chained = true};
};

namespace detail {

// Whether the rule, read from left to right, passes the tests.
[[nodiscard]] bool passes(const algebra& a, const syntax::rule& r, const rule_test_options& o);

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_GENERALITY)

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/tensor/rule_test.hpp>

namespace unity::tensor::detail {

UNITY_INLINE bool passes(const algebra& a, const syntax::rule& r, const rule_test_options& o) {
  try {
    return test_rule(a, compile_rule(a, r).at(0), o).found == rule_report::verdict::passes;
  } catch (const error&) {
    return false;  // not valid in this direction
  }
}

}  // namespace unity::tensor::detail

#endif
