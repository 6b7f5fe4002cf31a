// Text for Python modules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unity::io::detail {

// A quoted string.
// Throws: unity::error if it is not printable ASCII.
[[nodiscard]] std::string python_word(std::string_view word);

// For a triple-quoted text: replaces what could end it, and what is not printable ASCII, by "?".
[[nodiscard]] std::string python_comment(std::string_view text);

// Names for a triple-quoted text, six per line.
[[nodiscard]] std::string python_lines(const std::vector<std::string>& names);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PYTHON_TEXT)

#include <cstddef>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string python_word(std::string_view word) {
  std::string text = "\"";
  for (const char c : word) {
    if (c < ' ' || c > '~') {
      throw error{printable(word), "a name that is not printable ASCII", "one that is"};
    }
    text += c == '"' || c == '\\' ? "\\" : "";
    text += c;
  }
  return text + "\"";
}

UNITY_INLINE std::string python_comment(std::string_view text) {
  std::string safe{text};
  for (char& c : safe) {
    c = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  }
  return safe;
}

UNITY_INLINE std::string python_lines(const std::vector<std::string>& names) {
  constexpr std::size_t a_line = 6;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += i == 0 ? "" : i % a_line == 0 ? "\n" : " ";
    text += python_comment(names[i]);
  }
  return text;
}

}  // namespace unity::io::detail

#endif
