// Words in modules of Python.
#pragma once

#include <string>
#include <string_view>

namespace unity::io::detail {

// In quotes. Throws: unity::error where it is not printable ASCII.
[[nodiscard]] std::string python_word(std::string_view word);

// Within a text in three quotes: what could end it, and what is not printable ASCII, is replaced by "?".
[[nodiscard]] std::string python_comment(std::string_view text);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_PYTHON_TEXT)

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

}  // namespace unity::io::detail

#endif
