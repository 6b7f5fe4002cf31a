// Any text is a machine or an error, as is any whole specification; a machine survives writing as JSON and reading.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/machine_json.hpp>
#include <unity/io/resource_spec.hpp>

#include "support/expect_one_line.hpp"

namespace {

void expect(bool holds) {
  if (!holds) {
    __builtin_trap();
  }
}

void read_machine(std::string_view text) {
  unity::hardware::machine machine;
  try {
    machine = unity::io::parse_resource_spec(text, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return;  // refused: not a machine
  }
  expect(unity::io::parse_machine(unity::io::to_json(machine).dump(), "again") == machine);
}

void read_resources(std::string_view text) {
  unity::io::resources all;
  try {
    all = unity::io::parse_resources(text, "fuzz");
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return;
  }
  expect(unity::io::parse_resources(text, "fuzz") == all);
  expect(unity::io::parse_machine(unity::io::to_json(all.machine).dump(), "again") == all.machine);
  expect(!all.replicas.empty() && !all.servers.empty() && !all.chief.empty());
  for (const auto* some : {&all.replicas, &all.servers}) {
    for (const auto d : *some) {
      expect(d.valid() && d.index() < all.machine.network.device_count());
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  read_machine(text);
  read_resources(text);
  return 0;
}
