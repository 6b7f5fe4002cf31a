// Flags whose value is one of some names. CLI11's own CheckedTransformer prints the values of a map beside their names:
// for small enumerations as control characters, at which its messages end.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace support {

// Adds a flag that takes a name of the map and stores its value. `to` and `values` must outlive the parsing.
template <class Value>
CLI::Option* add_choice(CLI::App& app, const std::string& flag, Value& to, const std::map<std::string, Value>& values,
                        const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    names.push_back(name);
  }
  return app
      .add_option_function<std::string>(flag, [&](const std::string& name) { to = values.at(name); }, text)
      ->check(CLI::IsMember(names));
}

}  // namespace support
