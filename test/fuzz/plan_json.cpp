// Any text is a plan or an error; a plan survives printing and parsing, including its file's notes, and can be drawn.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/plan_json.hpp>
#include <unity/io/strategy_svg.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const unity::tensor::algebra algebra = unity::tensor::training_algebra();
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  unity::parallel::plan plan;
  unity::io::plan_notes notes;
  try {
    plan = unity::io::parse_plan(algebra, text, "fuzz");
    notes = unity::io::parse_plan_notes(text, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a plan
  }
  const auto again = unity::io::to_plan_text(algebra, plan, notes);
  if (!(unity::io::parse_plan(algebra, again, "again") == plan) ||
      !(unity::io::parse_plan_notes(again, "again") == notes) || unity::io::to_strategy_svg(algebra, plan).empty()) {
    __builtin_trap();
  }
  return 0;
}
