// The line that shows the progress of a search.
#pragma once

#include <unistd.h>

#include <cstdio>

#include <fmt/core.h>

#include <unity/core/budget.hpp>

namespace support {

// The words of the line. The best cost is shown in `unit`, of the given number of picoseconds.
struct progress_words {
  const char* unit = "us";
  double picoseconds = 1e6;
  const char* expanded = "expanded";
  const char* candidates = "candidates";
};

// Draws the line on standard error; empty if that is not a terminal.
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
// Removes the line, if there is one.
inline void end_progress(const unity::observer& line) {
  if (line) {
    fmt::print(stderr, "\r{:>80}\r", "");
  }
}

}  // namespace support
