// The range of numbers for a flag. CLI11's own ranges accept NaN, and print the largest double with all digits.
#pragma once

#include <CLI/CLI.hpp>
#include <limits>
#include <string>
#include <type_traits>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace support {

// From `least` to `most`, both included; whole numbers if Number is an integer. Those have no zero in front: CLI11
// would read 010 as the octal 8.
template <class Number>
CLI::Validator number_in(Number least, Number most) {
  const auto* const kind = std::is_integral_v<Number> ? "whole number" : "number";
  const auto range = most == std::numeric_limits<Number>::max() ? fmt::format("from {} on", least)
                                                                : fmt::format("from {} to {}", least, most);
  return CLI::Validator{[=](std::string& text) {
                          const auto value = unity::to_number<Number>(text);
                          const bool is_in = value && *value >= least && *value <= most;
                          if (is_in && std::is_integral_v<Number> && text != fmt::format("{}", *value)) {
                            return fmt::format("'{}'; expected a {} without zeros in front", text, kind);
                          }
                          return is_in ? std::string{} : fmt::format("'{}'; expected a {} {}", text, kind, range);
                        },
                        std::is_integral_v<Number> ? "INT" : "FLOAT"};
}

template <class Number>
CLI::Validator number_from(Number least) {
  return number_in(least, std::numeric_limits<Number>::max());
}

}  // namespace support
