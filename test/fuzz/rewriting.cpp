// A tensor graph and a rule built from any bytes: wherever the rule matches, the rewritten graph is acyclic, has the
// types that its operators infer, has the predicted cost, and computes the same values.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <unity/core/file.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/generated_rules.hpp>
#include <unity/tensor/standard_rules.hpp>

#include "support/drawn_rewriting.hpp"

namespace {

using namespace unity;

// The rules of the file named by UNITY_FUZZ_RULES, or the shipped ones; without rules that hold on real numbers only.
rule_set make_rules(const tensor::algebra& a) {
  const char* const file = std::getenv("UNITY_FUZZ_RULES");
  const auto text =
      file != nullptr ? read_file(file) : std::string{tensor::standard_rules} + std::string{tensor::generated_rules};
  rule_set rules;
  for (auto& s : compile_rules(a, parse_rules(text, file != nullptr ? file : "shipped rules"))) {
    if (!s.rule.real_only) {
      rules.push_back(std::move(s));
    }
  }
  return rules;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto algebra = tensor::training_algebra();
  static const auto rules = make_rules(algebra);
  static test::rewriting_drawer drawer{algebra, rules};
  if (const auto fault = drawer.fault({data, size}); !fault.empty()) {
    std::fprintf(stderr, "%s\n", fault.c_str());
    __builtin_trap();
  }
  return 0;
}
