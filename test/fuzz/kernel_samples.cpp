// Whatever a file of kernel samples with a valid checksum contains, it is read or refused; accepted kernels have finite
// features.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/learn/kernel_features.hpp>
#include <unity/learn/kernel_samples.hpp>

#include "support/expect_one_line.hpp"
#include "support/files.hpp"
#include "support/memory_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unity;
  static test::memory_file file;
  const auto input = test::split_input(data, size);
  file.assign(test::sealed_of(learn::kernel_samples_line, input.header, input.values));
  std::vector<learn::kernel_sample> samples;
  try {
    samples = learn::read_kernel_samples(file.path());
  } catch (const error& e) {
    test::expect_one_line(e);
    return 0;
  }
  for (const auto& s : samples) {
    for (const auto x : learn::features_of(s.kernel, true).rows) {
      if (!std::isfinite(x)) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
