// Any text is a machine or an error; a machine comes back from the JSON that it is written as.
#include <cstddef>
#include <cstdint>

#include <unity/core/error.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/resource_spec.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  unity::machine::machine machine;
  try {
    machine = unity::io::parse_resource_spec({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // no machine, and it said so
  }
  if (!(unity::io::parse_machine(unity::io::to_json(machine).dump(), "again") == machine)) {
    __builtin_trap();
  }
  return 0;
}
