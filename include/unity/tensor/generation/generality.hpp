// How general a general rule is to be, and how it is tested.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/comparison.hpp>

namespace unity::tensor {

// How much of what a specific rule says about its operands may go.
enum class generality : std::uint8_t {
  most,     // all that it does not need
  related,  // not what relates sizes of operands
  ranked    // nor their ranks: attributes alone become variables
};

struct generalize_options {
  generality wanted = generality::most;
  std::vector<std::string> kept{};  // attributes that stay as they are
  rule_test_options quick{.instances = 4, .attempts = 400, .varied = 0, .points = 1, .chained = true};
  rule_test_options thorough{.instances = 16, .attempts = 2000, .varied = 1, .points = 1, .chained = true};
  rule_test_options broadcasting{
      .instances = 6, .attempts = 2000, .varied = 0, .collapsed = 6, .points = 1, .chained = true};
  rule_test_options last{// of the result
                         .instances = 50, .attempts = 20000, .varied = 2, .collapsed = 2, .points = 2, .chained = true};
};

namespace detail {

// Whether the rule, read from left to right, passes tests.
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
    return false;  // it cannot be read in this direction
  }
}

}  // namespace unity::tensor::detail

#endif
