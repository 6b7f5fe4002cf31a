// Whatever a sealed file with a valid checksum contains, it is read or refused; an accepted one survives writing and
// reading.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/io/sealed_file.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

namespace {

constexpr std::string_view line = "unity weights 1\n";

std::string values_of(const unity::io::sealed_reader& file) {
  std::string values(file.value_bytes(), '\0');
  file.read(0, std::as_writable_bytes(std::span{values}));
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static unity::test::memory_file file;
  file.assign(unity::test::sealed({reinterpret_cast<const char*>(data), size}));
  std::optional<unity::io::sealed_reader> first;
  try {
    first.emplace(file.path(), line);
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);
    return 0;  // refused: not a sealed file
  }
  const auto values = values_of(*first);
  static unity::test::memory_file again;
  again.assign(unity::test::sealed_of(line, first->header(), values));
  const unity::io::sealed_reader second{again.path(), line};
  if (second.header() != first->header() || values_of(second) != values) {
    __builtin_trap();
  }
  return 0;
}
