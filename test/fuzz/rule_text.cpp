// Any text is rules or an error with a position; rules survive printing and parsing, and compile or report why not.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>

#include "support/expect_one_line.hpp"

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
    static_cast<void>(unity::compile_rules(algebra, rules));
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);  // refused: not rules about tensors
  }
  return 0;
}
