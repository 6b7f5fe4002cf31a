// Machines by their names on a program's command line.
#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/io/machine_json.hpp>
#ifdef UNITY_HAS_YAML
#include <unity/io/resource_spec.hpp>  // if found
#endif

namespace support {

inline std::string machine_help() {
  return fmt::format(
      "NAME:NODESxDEVICES ({}), a machine's .json file, or a resource_spec .yml, after a comma the kind of its GPUs "
      "(FILE.yml,a100), or of each node (FILE.yml,m60+t4)",
      unity::hardware::preset_names());
}

#ifdef UNITY_HAS_YAML
inline unity::hardware::machine read_spec(const std::string& file, const std::string& gpu) {
  return gpu.empty() ? unity::io::read_resource_spec(file) : unity::io::read_resource_spec(file, gpu);
}
#else
inline unity::hardware::machine read_spec(const std::string& file, const std::string&) {
  throw unity::error{file, "this build reads no YAML", "a machine as JSON, or a build with libyaml-cpp-dev"};
}
#endif

// A machine with a topology. Throws: unity::error that names the mistake in the argument or the file.
// Effects: prints a line if the machine's rates are guesses.
inline void print_assumed(const unity::hardware::machine& m) {
  if (unity::hardware::is_assumed(m)) {
    fmt::print("the rates of {} are assumed, not measured; `calibrate` measures them\n", m.name);
  }
}

inline unity::hardware::machine load_machine(const std::string& argument) {
  using namespace unity;
  const auto comma = argument.rfind(',');
  const auto file = argument.substr(0, comma);
  if (file.ends_with(".yml") || file.ends_with(".yaml")) {
    return read_spec(file, comma == std::string::npos ? "" : argument.substr(comma + 1));
  }
  if (argument.ends_with(".json")) {
    return hardware::with_topology(io::read_machine(argument), argument);
  }
  return hardware::preset(argument);
}

}  // namespace support
