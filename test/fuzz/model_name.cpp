// Any text names a model of the zoo with valid sizes, or is an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <unity/core/error.hpp>
#include <unity/tensor/zoo.hpp>

#include "support/expect_one_line.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static_cast<void>(unity::tensor::zoo::parse({reinterpret_cast<const char*>(data), size}));
  } catch (const unity::error& e) {
    unity::test::expect_one_line(e);  // refused: not a model
  }
  return 0;
}
