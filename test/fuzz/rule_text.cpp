// Any text is rules or an error with a position; rules survive printing and parsing, and compile or report why not.
// Searches for instances of those that compile end.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/rules/bounded_instances.hpp>
#include <unity/tensor/rules/generator.hpp>

#include "support/expect_one_line.hpp"

namespace {

using namespace unity;

void look_for_instances(const tensor::algebra& a, const substitution& s) {
  constexpr std::size_t attempts = 30;
  constexpr std::size_t most_nodes = 20;
  if (s.source.nodes.size() > most_nodes) {
    return;
  }
  for (const bool chained : {false, true}) {
    tensor::instance_generator usual{a, s, 1, chained};
    static_cast<void>(usual.next(attempts));
  }
  tensor::instance_bounds narrow;
  narrow.size = 2;
  narrow.rank = 2;
  tensor::random_instances{a, s, narrow, 1}.visit(attempts, [](const tensor::rule_instance&) { return false; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::standard_algebra();
  std::vector<unity::syntax::rule> rules;
  try {
    rules = unity::parse_rules({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not rules
  }
  for (const auto& r : rules) {
    if (unity::parse_rules(unity::to_text(r)).at(0) != r) {
      __builtin_trap();
    }
  }
  try {
    for (const auto& s : unity::compile_rules(algebra, rules)) {
      look_for_instances(algebra, s);
    }
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);  // refused: not rules about tensors
  }
  return 0;
}
