// Any text is rules or an error with a place; rules come back from their own text, and compile or say why not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/rewrite/compile.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/rewrite/print.hpp>
#include <unity/tensor/algebra.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::standard_algebra();
  try {
    const auto rules = unity::parse_rules({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const auto& r : rules) {
      if (unity::parse_rules(unity::to_text(r)).at(0) != r) {
        __builtin_trap();
      }
    }
    static_cast<void>(unity::compile_rules(algebra, rules));
  } catch (const unity::error&) {
    // Not rules, and it said so.
  }
  return 0;
}
