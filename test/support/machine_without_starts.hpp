// Machines without start times of messages and collectives, for papers' examples of a few elements.
#pragma once

#include <string_view>

#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>

namespace unity::test {

[[nodiscard]] inline hardware::machine machine_without_starts(std::string_view preset) {
  auto m = hardware::preset(preset);
  for (auto& d : m.devices) {
    d.collective_start_seconds = 0;
    d.collective_round_seconds = 0;
  }
  return m;
}

}  // namespace unity::test
