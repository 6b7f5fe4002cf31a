// The only header that defines macros for others: version, compiler and contract checks.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

#define UNITY_VERSION_MAJOR 0
#define UNITY_VERSION_MINOR 2
#define UNITY_VERSION_PATCH 0

// For what depends on how the library was compiled, such as measured times.
#if defined(__clang__)
#define UNITY_COMPILER "clang " __clang_version__
#elif defined(__GNUC__)
#define UNITY_COMPILER "g++ " __VERSION__
#else
#define UNITY_COMPILER "another compiler"
#endif

#if defined(__SANITIZE_THREAD__)
#define UNITY_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNITY_THREAD_SANITIZER 1
#endif
#endif

// Functions that are not templates are declared first and defined at the end of their header. A program that defines
// UNITY_COMPILED only sees the declarations and links unity::compiled (cmake/unity_compiled.cmake), whose files define
// UNITY_DEFINE_<PATH> for each header whose definitions they contain.
#ifdef UNITY_COMPILED
#define UNITY_INLINE
#else
#define UNITY_INLINE inline
#endif

// What a broken precondition does. The build chooses; the library never guesses.
//   0  nothing: the check is not compiled
//   1  print one line with the place, then abort (default)
#ifndef UNITY_CONTRACTS
#define UNITY_CONTRACTS 1
#endif

namespace unity::detail {

[[noreturn]] inline void contract_failed(const char* condition, const char* expected,
                                         std::source_location where = std::source_location::current()) noexcept {
  std::fprintf(stderr, "%s:%u: %s: expected %s (%s is false)\n", where.file_name(),
               static_cast<unsigned>(where.line()), where.function_name(), expected, condition);
  std::abort();
}

}  // namespace unity::detail

// A precondition of a public function. `expected` says, as a noun phrase, what a caller must supply.
#if UNITY_CONTRACTS
#define UNITY_EXPECTS(condition, expected) \
  (static_cast<bool>(condition) ? void() : ::unity::detail::contract_failed(#condition, expected))
#else
#define UNITY_EXPECTS(condition, expected) void()
#endif
