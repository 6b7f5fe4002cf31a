// Constructors for terms of rules that divide tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/parallel/pcg/parallel_operators.hpp>
#include <unity/rewrite/syntax.hpp>

namespace unity::parallel {

[[nodiscard]] inline syntax::expression number(std::int64_t value) {
  return {syntax::expression::form::integer, value, {}, {}};
}
[[nodiscard]] inline syntax::expression attribute_variable(std::string name) {
  return {syntax::expression::form::variable, 0, std::move(name), {}};
}
[[nodiscard]] inline syntax::expression call(std::string name, std::vector<syntax::expression> arguments) {
  return {syntax::expression::form::call, 0, std::move(name), std::move(arguments)};
}
[[nodiscard]] inline syntax::expression rank_of(std::string variable) {
  return call("rank", {attribute_variable(std::move(variable))});
}
// left + value in its shortest form.
[[nodiscard]] inline syntax::expression plus(syntax::expression left, std::int64_t value) {
  return value == 0 ? left : call(value < 0 ? "-" : "+", {std::move(left), number(value < 0 ? -value : value)});
}

[[nodiscard]] inline syntax::term value_variable(std::string name) {
  return {syntax::term::form::variable, std::move(name), {}, false, {}, syntax::term::whole, false};
}
[[nodiscard]] inline syntax::term applied(std::string name, std::vector<syntax::attribute_binding> attributes,
                                          std::vector<syntax::term> operands) {
  return {syntax::term::form::application,
          std::move(name),
          std::move(attributes),
          false,
          std::move(operands),
          syntax::term::whole,
          false};
}
// A parallelization operator of one operand; axis is ignored if the kind has none.
[[nodiscard]] syntax::term applied(parallel_kind kind, syntax::expression axis, syntax::expression degree,
                                   syntax::term operand);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_RULE_TERMS)

namespace unity::parallel {

UNITY_INLINE syntax::term applied(parallel_kind kind, syntax::expression axis, syntax::expression degree,
                                  syntax::term operand) {
  const auto s = signature_of(kind);
  std::vector<syntax::attribute_binding> attributes;
  if (has_axis(kind)) {
    attributes.push_back({"axis", std::move(axis)});
  }
  if (has_degree(kind)) {
    attributes.push_back({s.attributes.back().name, std::move(degree)});
  }
  return applied(s.name, std::move(attributes), {std::move(operand)});
}

}  // namespace unity::parallel

#endif
