// Numbers with units on a command line.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <system_error>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>

namespace support {

// Units by name, as multiples of the smallest unit.
using units = std::map<std::string, double>;

// Units of seconds, of bytes, and of bytes per second.
inline const units durations{{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}};
inline const units memory_sizes{{"", 1},     {"B", 1},        {"KB", 1e3},     {"MB", 1e6},
                                {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}};
inline const units rates{{"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};

// Throws: unity::error if `text` is not a number from 0 to 1e18 followed by a unit; `flag`: its flag, for the message.
inline double parse_quantity(const std::string& flag, const std::string& text, const units& known) {
  double number = 0;  // decimal: std::stod also reads spaces and hexadecimal, in which 0x10B is not a number of bytes
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto used = status == std::errc{} ? static_cast<std::size_t>(end - text.data()) : 0;
  const auto unit = known.find(text.substr(used));
  constexpr double largest = 1e18;  // fits an integer
  if (used == 0 || unit == known.end() || !(number >= 0 && number * unit->second <= largest)) {
    std::string expected = "a number from 0 to 1e18, followed by one of:";
    for (const auto& [name, factor] : known) {
      expected += fmt::format(" {}", (name.empty() ? "nothing" : name));
    }
    throw unity::error{flag, fmt::format("'{}'", text), expected};
  }
  return number * unit->second;
}

// Throws: as above, and if it is not a whole number of at least 1.
inline std::int64_t parse_size(const std::string& flag, const std::string& text) {
  const auto size = parse_quantity(flag, text, {{"", 1}});
  if (size < 1 || size != std::floor(size)) {
    throw unity::error{flag, "a size that is not a whole number", "a size of at least 1"};
  }
  return static_cast<std::int64_t>(size);
}

// A limit on memory. Throws: as above, and if it is less than a byte.
inline unity::bytes parse_memory(const std::string& flag, const std::string& text) {
  const auto size = parse_quantity(flag, text, memory_sizes);
  if (size < 1) {
    throw unity::error{flag, fmt::format("'{}'", text), "a byte at least"};
  }
  return unity::bytes{std::llround(size)};
}

// --offload: bytes per second between a device and its host.
// Throws: as above, and if it is zero.
inline double parse_host_rate(const std::string& text) {
  const auto rate = parse_quantity("--offload", text, rates);
  if (rate <= 0) {
    throw unity::error{"--offload", fmt::format("'{}'", text), "a rate above 0"};
  }
  return rate;
}

}  // namespace support
