// Any bytes are rules or an error; each rule has a text that the rule parser accepts, or a reason why it has none.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/io/rule_text.hpp>
#include <unity/io/taso_rules.hpp>
#include <unity/rewrite/parse.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<unity::io::foreign_rule> rules;
  try {
    rules = unity::io::parse_taso_rules({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;
  }
  for (const auto& r : rules) {
    const auto text = unity::io::to_rule_text(r);
    if (text && unity::parse_rules(text.text).size() != 1) {
      __builtin_trap();
    }
    if (!text && text.outside_because.empty()) {
      __builtin_trap();
    }
  }
  return 0;
}
