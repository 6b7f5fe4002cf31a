// usage: test_make_kernels COUNT SEED FILE: so many kernels with times that a law gives, for tests of what learns them.
#include <cstdio>
#include <exception>
#include <string>

#include <unity/core/error.hpp>
#include <unity/learn/kernel_samples.hpp>

#include "../learn/synthetic_kernels.hpp"

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      throw unity::error{"arguments", "others", "COUNT SEED FILE"};
    }
    unity::test::synthetic_kernels kernels{std::stoull(argv[2])};
    unity::learn::write_kernel_samples(argv[3], kernels.next(std::stoull(argv[1])));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "make_kernels: %s\n", e.what());
    return 1;
  }
}
