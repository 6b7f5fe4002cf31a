// The shipped, proved rules that searches for training use.
#pragma once

#include <string>

#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/systems/taso.hpp>
#include <unity/systems/unity/joint_space.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "../support/operators.hpp"

namespace unity::test {

inline rule_set training_rules(const std::string& text) {
  return systems::select_rules(compile_rules(training::operators(), parse_rules(text, "shipped rules")),
                               syntax::standing::proved, tensor::mode::training);
}
inline const rule_set& standard_rules() {
  static const auto all = training_rules(std::string{tensor::standard_rules});
  return all;
}
// The same for searches that also map the rewritten graphs.
inline const rule_set& joint_rules() {
  static const auto all = training_rules(std::string{tensor::standard_rules} + std::string{systems::joint_rules});
  return all;
}

}  // namespace unity::test
