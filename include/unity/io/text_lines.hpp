// Lines of a text and fields of a line, with line numbers for messages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io {

// Iterates over the lines of a text that the caller owns; a carriage return before a line's end is removed. `name`: of
// the file.
class text_lines {
 public:
  text_lines(std::string_view text, std::string_view name) noexcept : left_{text}, name_{name} {}

  // Goes to the next line, which becomes `line()`; false at the end. Complexity: linear in its length.
  [[nodiscard]] bool next() noexcept {
    if (left_.empty()) {
      return false;
    }
    const auto end = std::min(left_.find('\n'), left_.size());
    line_ = left_.substr(0, end);
    left_.remove_prefix(std::min(end + 1, left_.size()));
    if (!line_.empty() && line_.back() == '\r') {
      line_.remove_suffix(1);
    }
    ++number_;
    return true;
  }

  [[nodiscard]] std::string_view line() const noexcept { return line_; }
  // From 1 on.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  // "cora.graph:7"
  [[nodiscard]] std::string where() const { return fmt::format("{}:{}", name_, number_); }

  // Effects: truncates the line to this many characters.
  void shorten(std::size_t length) noexcept { line_ = line_.substr(0, length); }

  // Removes and returns the next field, which ends at a space or tab, with the spaces around it. Empty at the end of
  // the line.
  [[nodiscard]] std::string_view next_field() noexcept {
    constexpr std::string_view spaces = " \t";
    line_.remove_prefix(std::min(line_.find_first_not_of(spaces), line_.size()));
    const auto end = std::min(line_.find_first_of(spaces), line_.size());
    const auto field = line_.substr(0, end);
    line_.remove_prefix(end);
    line_.remove_prefix(std::min(line_.find_first_not_of(spaces), line_.size()));
    return field;
  }

  // Throws: unity::error at this line.
  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{where(), found.empty() ? "the end of the line" : printable(found), expected};
  }

  // The next field as a number.
  // Throws: unity::error at this line if it is not one.
  template <class Number>
  [[nodiscard]] Number next_number(std::string_view expected) {
    const auto field = next_field();
    const auto number = to_number<Number>(field);
    if (!number) {
      refuse(field, expected);
    }
    return *number;
  }
  // Throws: likewise, and for infinities and NaN.
  template <class Number>
  [[nodiscard]] Number next_finite(std::string_view expected) {
    const auto field = next_field();
    const auto number = to_number<Number>(field);
    if (!number || !std::isfinite(*number)) {
      refuse(field, expected);
    }
    return *number;
  }

 private:
  std::string_view left_;
  std::string_view name_;
  std::string_view line_{};
  std::size_t number_ = 0;
};

}  // namespace unity::io
