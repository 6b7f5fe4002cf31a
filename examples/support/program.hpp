// What every program does around its work: flags, one line for bad input, exit codes.
#pragma once

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include <fmt/core.h>

namespace support {

// declare(app, arguments), then run(arguments), which may return an exit code.
// Returns 0; 1 after an exception, told in one line on standard error; 2 for bad usage.
template <class Arguments, class Declare, class Run>
int run_program(const char* name, const char* description, int argc, char** argv, const Declare& declare,
                const Run& run) {
  try {
    Arguments a;
    CLI::App app{description};
    declare(app, a);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      return app.exit(e) == 0 ? 0 : 2;
    }
    if constexpr (std::is_void_v<decltype(run(a))>) {
      run(a);
      return 0;
    } else {
      return run(a);
    }
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory\n", name);
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

// The most memory that this process has held so far.
inline std::size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace support
