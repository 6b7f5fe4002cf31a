// Whatever an estimator file with a valid checksum contains, it is read or refused; an accepted estimator can estimate.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/learn/attention_network.hpp>
#include <unity/learn/estimator_file.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unity;
  static test::memory_file file;
  const auto input = test::split_input(data, size);
  file.assign(test::sealed_of(learn::estimator_line, input.header, input.values));
  std::optional<learn::attention_estimator> e;
  try {
    e = learn::read_estimator(file.path());
  } catch (const error& refused) {
    test::expect_one_line(refused);
    return 0;
  }
  fusion::kernel_description k;
  k.parts.resize(3);
  k.edges = {{0, 1}, {0, 2}};
  if ((*e)(k) < picoseconds{1}) {
    __builtin_trap();
  }
  return 0;
}
