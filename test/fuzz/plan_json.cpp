// Any text is a plan or an error; a plan comes back from its own text, and can be drawn.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_svg.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::training_algebra();
  unity::parallel::plan plan;
  try {
    plan = unity::io::parse_plan(algebra, {reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // not a plan, and it said so
  }
  if (!(unity::io::parse_plan(algebra, unity::io::to_plan_text(algebra, plan), "again") == plan) ||
      unity::io::to_strategy_svg(algebra, plan).empty()) {
    __builtin_trap();
  }
  return 0;
}
