// The line that shows how far a search is.
#pragma once

#include <unistd.h>

#include <cstdio>

#include <fmt/core.h>

#include <unity/core/budget.hpp>

namespace support {

// What the line calls things: the best cost is shown in `unit`, of so many picoseconds.
struct progress_words {
  const char* unit = "us";
  double picoseconds = 1e6;
  const char* expanded = "expanded";
  const char* candidates = "candidates";
};

// Draws the line on standard error; empty where that is no terminal.
inline unity::observer progress_line(const progress_words& words) {
  if (isatty(STDERR_FILENO) == 0) {
    return {};
  }
  return [words](const unity::progress& p) {
    fmt::print(stderr, "\r{:7.1f} s  best {:.3f} {}  {} {}  {} {} ", p.seconds,
               static_cast<double>(p.best) / words.picoseconds, words.unit, p.counts.expanded, words.expanded,
               p.counts.candidates, words.candidates);
    return true;
  };
}
// Takes the line away, where there was one.
inline void end_progress(const unity::observer& line) {
  if (line) {
    fmt::print(stderr, "\r{:>80}\r", "");
  }
}

}  // namespace support
