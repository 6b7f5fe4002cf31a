// The frame of every program: flags, one line for bad input, exit codes.
#pragma once

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>

#include "same_file.hpp"

namespace support {

namespace detail {

// Flags that name a file which is written. A checkpoint may be the file that is resumed.
inline bool is_output(const CLI::Option& o) {
  static constexpr std::array<const char*, 10> names{"--json",    "--report",   "--trace", "--svg",        "--program",
                                                     "--buckets", "--plan-out", "--out",   "--checkpoint", "--timings"};
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return o.check_name(name); });
}

// The files that a value can mean: itself; where it is read, also what is behind a kind or before a comma, as in
// analytic:FILE.json and FILE.yml,a100.
inline std::vector<std::string> files_in(const CLI::Option& o, const std::string& value) {
  if (o.check_name("--timings") && value == "none") {
    return {};  // times are kept nowhere
  }
  if (is_output(o)) {
    return {value};
  }
  const auto colon = value.find(':');
  return {value, value.substr(colon == std::string::npos ? 0 : colon + 1), value.substr(0, value.rfind(','))};
}

// Throws: unity::error if another option names the file that this one has written.
inline void expect_own_file(const CLI::App& app, const CLI::Option& output, const std::string& file) {
  namespace fs = std::filesystem;
  for (const auto* other : app.get_options()) {
    const bool may_be_same = other == &output || (output.check_name("--checkpoint") && other->check_name("--resume"));
    for (const auto& value : may_be_same ? std::vector<std::string>{} : other->results()) {
      for (const auto& name : files_in(*other, value)) {
        std::error_code ignored;
        const bool is_file = is_output(*other) || fs::is_regular_file(name, ignored);
        if (is_file && !fs::is_character_file(file, ignored) && is_same_file(file, name)) {
          throw unity::error{output.get_name(), fmt::format("{}, which {} names, too", file, other->get_name()),
                             "a file of its own"};
        }
      }
    }
  }
}

// Throws: unity::error if a file would overwrite one that is read, or another result.
inline void expect_distinct_files(const CLI::App& app) {
  for (const auto* output : app.get_options()) {
    for (const auto& value : is_output(*output) ? output->results() : std::vector<std::string>{}) {
      for (const auto& file : files_in(*output, value)) {
        expect_own_file(app, *output, file);
      }
    }
  }
}

// The first option that is given an empty value, as by a shell variable that is not set: it would be taken for an
// option that is not given. nullptr: none.
inline const CLI::Option* empty_option(const CLI::App& app) {
  for (const auto* option : app.get_options()) {
    const auto values = option->results();
    if (std::any_of(values.begin(), values.end(), [](const std::string& value) { return value.empty(); })) {
      return option;
    }
  }
  return nullptr;
}

}  // namespace detail

// declare(app, arguments), then run(arguments), which may return an exit code.
// Returns 0; 1 after an exception, which is reported in one line on standard error; 2 for bad usage.
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
    if (const auto* const option = detail::empty_option(app)) {
      fmt::print(stderr, "{}: {}: ''; expected a value\n", name, option->get_name());
      return 2;
    }
    detail::expect_distinct_files(app);
    int code = 0;
    if constexpr (std::is_void_v<decltype(run(a))>) {
      run(a);
    } else {
      code = run(a);
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw unity::error{"standard output", "it cannot be written", "a place with room"};
    }
    return code;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "{}: out of memory\n", name);
    return 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", name, e.what());
    return 1;
  }
}

// The peak memory of this process so far.
inline std::size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace support
