// Any text is a list of timings or an error; timings survive printing and parsing.
#include <cstddef>
#include <cstdint>

#include <unity/core/error.hpp>
#include <unity/tensor/timing_cache.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  unity::tensor::timing_table table;
  try {
    table = unity::tensor::parse_timings({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not timings
  }
  if (!(unity::tensor::parse_timings(unity::tensor::timings_text(table), "again") == table)) {
    __builtin_trap();
  }
  return 0;
}
