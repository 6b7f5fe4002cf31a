// Any text is an HLO module or a one-line error; a module survives printing and parsing, and stays valid under random
// edits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/io/hlo/work.hpp>
#include <unity/io/hlo_text.hpp>

#include "../support/random_hlo_edits.hpp"
#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace io = unity::io;
  io::hlo_module m;
  try {
    m = io::parse_hlo({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a module
  }
  if (!(io::parse_hlo(io::to_text(m), "again") == m)) {
    __builtin_trap();
  }
  const io::hlo_work_table work{m};
  for (const auto& c : m.computations) {
    for (const auto& i : c.instructions) {
      if (!(work.of(c, i).flops >= 0)) {
        __builtin_trap();
      }
    }
  }
  unity::random_engine random{size};
  try {
    const auto edited = unity::test::edited_at_random(m, random, size % 2 == 0);
    io::check(edited.module, "edited");
    if (!(io::parse_hlo(io::to_text(edited.module), "again") == edited.module)) {
      __builtin_trap();
    }
  } catch (const unity::error& e) {
    if (std::string_view{e.what()}.find("too much in a fusion") == std::string_view::npos) {
      __builtin_trap();  // every other drawn edit is possible
    }
  }
  return 0;
}
