// Any text is a machine or an error; a machine survives printing and parsing.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include <unity/core/error.hpp>
#include <unity/io/machine_json.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  unity::hardware::machine machine;
  try {
    machine = unity::io::parse_machine(text, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a machine
  }
  // Version 1 allowed rates that are refused today, and files are written in the newest version.
  if (nlohmann::json::parse(text).at("version") == 2 &&
      !(unity::io::parse_machine(unity::io::to_json(machine).dump(), "again") == machine)) {
    __builtin_trap();
  }
  return 0;
}
