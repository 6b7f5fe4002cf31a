// Machines on which messages and collectives begin at once, as papers have it whose examples are of a few elements.
#pragma once

#include <string_view>

#include <unity/machine/machine.hpp>
#include <unity/machine/presets.hpp>

namespace unity::test {

[[nodiscard]] inline machine::machine machine_without_starts(std::string_view preset) {
  auto m = machine::preset(preset);
  for (auto& d : m.devices) {
    d.collective_start_seconds = 0;
    d.collective_round_seconds = 0;
  }
  return m;
}

}  // namespace unity::test
