// Any text names a machine with the stated number of devices, or is an error.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/hardware/presets.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto counts = unity::hardware::detail::parse_size(text.substr(std::min(text.find(':') + 1, text.size())));
  if (counts && counts->nodes <= 4096 && counts->nodes > 64) {
    return 0;  // larger machines add nothing and are slow
  }
  try {
    const auto machine = unity::hardware::preset(text);
    if (machine.name != text || !counts || machine.network.device_count() != counts->nodes * counts->devices) {
      __builtin_trap();
    }
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);  // refused: not a machine
  }
  return 0;
}
