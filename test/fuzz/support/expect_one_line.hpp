// Every error message must be one line, even if it quotes a file, which may contain anything.
#pragma once

#include <algorithm>
#include <string_view>

#include <unity/core/error.hpp>

namespace unity::test {

inline void expect_one_line(const error& e) {
  const std::string_view text{e.what()};
  const bool is_line =
      std::none_of(text.begin(), text.end(), [](char c) { return (c >= '\0' && c < ' ') || c == '\x7f'; });
  if (!is_line || text.empty()) {
    __builtin_trap();
  }
}

}  // namespace unity::test
