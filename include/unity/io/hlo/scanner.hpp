// A scanner of HLO text that tracks the position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <unity/core/config.hpp>
#include <unity/core/printable.hpp>
#include <unity/io/hlo/module.hpp>

namespace unity::io::detail {

class hlo_scanner {
 public:
  hlo_scanner(std::string_view text, std::string_view file) : text_{without_byte_order_mark(text)}, file_{file} {}

  // Skips white space and comments; skip_blanks stops at line ends, where they have a meaning.
  void skip_space();
  void skip_blanks();
  [[nodiscard]] bool at_end() const noexcept { return position_ >= text_.size(); }
  [[nodiscard]] char peek() const noexcept { return at_end() ? '\0' : text_[position_]; }
  [[nodiscard]] bool at(std::string_view symbol) const noexcept {
    return text_.substr(position_, symbol.size()) == symbol;
  }
  // After white space.
  bool accept(std::string_view symbol);
  void expect(std::string_view symbol);
  bool accept_word(std::string_view word);

  // "%add.1" without '%'.
  [[nodiscard]] std::string name(std::string_view expected);
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] hlo_shape shape(int depth = 0);
  // The text from an opening bracket to the matching one, without comments.
  [[nodiscard]] std::string bracketed();
  // The text up to a ',' or a closing bracket outside of brackets and quotes, or the end of the line there; without
  // comments.
  [[nodiscard]] std::string raw(std::string_view expected);
  // The text up to an empty line.
  [[nodiscard]] std::string paragraph();

  [[nodiscard]] std::size_t line() const noexcept { return line_; }
  // Throws: always. The message names file, line and column, what was found and what was expected.
  [[noreturn]] void fail(std::string_view expected) const;
  // The same for a token that began `back` characters before.
  [[noreturn]] void fail_behind(std::size_t back, std::string_view found, std::string_view expected) const;

 private:
  static bool is_name(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
  }
  void advance(std::size_t by = 1);
  void skip(bool ends_of_lines);
  [[nodiscard]] bool skip_comment();
  [[nodiscard]] std::string quoted();
  void dimension(hlo_shape& s);

  std::string_view text_;
  std::string_view file_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_HLO_SCANNER)

#include <algorithm>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

namespace unity::io::detail {

UNITY_INLINE void hlo_scanner::advance(std::size_t by) {
  for (const auto to = std::min(text_.size(), position_ + by); position_ < to; ++position_) {
    if (text_[position_] == '\n') {
      ++line_;
      line_start_ = position_ + 1;
    }
  }
}

// "/*index=5*/" before the fifth operand.
UNITY_INLINE bool hlo_scanner::skip_comment() {
  if (at("/*")) {
    const auto end = text_.find("*/", position_ + 2);
    if (end == std::string_view::npos) {
      fail("a closing '*/'");
    }
    advance(end + 2 - position_);
    return true;
  }
  if (at("//")) {
    advance(std::min(text_.find('\n', position_), text_.size()) - position_);
    return true;
  }
  return false;
}

UNITY_INLINE void hlo_scanner::skip(bool ends_of_lines) {
  for (;;) {
    const auto c = peek();
    if (c == ' ' || c == '\t' || c == '\r' || (ends_of_lines && c == '\n')) {
      advance();
    } else if (!skip_comment()) {
      return;
    }
  }
}

UNITY_INLINE void hlo_scanner::skip_space() { skip(true); }
UNITY_INLINE void hlo_scanner::skip_blanks() { skip(false); }

UNITY_INLINE bool hlo_scanner::accept(std::string_view symbol) {
  skip_space();
  const bool is_there = at(symbol);
  advance(is_there ? symbol.size() : 0);
  return is_there;
}

UNITY_INLINE void hlo_scanner::expect(std::string_view symbol) {
  if (!accept(symbol)) {
    fail(fmt::format("'{}'", symbol));
  }
}

UNITY_INLINE bool hlo_scanner::accept_word(std::string_view word) {
  skip_space();
  const auto behind = position_ + word.size();
  return at(word) && (behind >= text_.size() || !is_name(text_[behind])) && accept(word);
}

UNITY_INLINE std::string hlo_scanner::name(std::string_view expected) {
  skip_space();
  const auto start = position_;
  const auto from = position_ + (at("%") ? 1 : 0);
  auto to = from;
  while (to < text_.size() && is_name(text_[to])) {
    ++to;
  }
  if (to == from || text_[from] == '.' || text_[from] == '-') {
    fail(expected);
  }
  advance(to - start);
  return std::string{text_.substr(from, to - from)};
}

UNITY_INLINE std::int64_t hlo_scanner::integer() {
  skip_space();
  auto to = position_ + (at("-") ? 1 : 0);
  while (to < text_.size() && text_[to] >= '0' && text_[to] <= '9') {
    ++to;
  }
  const auto number = to_number<std::int64_t>(text_.substr(position_, to - position_));
  if (!number) {
    fail("an integer of 64 bits");
  }
  advance(to - position_);
  return *number;
}

UNITY_INLINE void hlo_scanner::dimension(hlo_shape& s) {
  const bool is_any = accept("?");
  s.is_dynamic.push_back(is_any || accept("<="));
  const auto size = is_any ? -1 : integer();
  constexpr std::int64_t most = std::int64_t{1} << 50U;  // elements, so that sums and byte counts do not overflow
  if (!is_any && (size < 0 || size > most / std::max<std::int64_t>(1, element_count(s)))) {
    fail_behind(fmt::format("{}", size).size(), fmt::format("a dimension of {}", size), "2^50 elements at most");
  }
  s.dimensions.push_back(size);
}

UNITY_INLINE hlo_shape hlo_scanner::shape(int depth) {
  constexpr int most_tuples = 64;
  hlo_shape s;
  if (accept("(")) {
    if (depth == most_tuples) {
      fail("tuples in tuples, 64 at most");
    }
    while (!accept(")")) {
      if (!s.parts.empty()) {
        expect(",");
      }
      s.parts.push_back(shape(depth + 1));
    }
    return s;
  }
  s.element = name("a shape");
  expect("[");
  while (!accept("]")) {
    if (!s.dimensions.empty()) {
      expect(",");
    }
    dimension(s);
  }
  if (std::find(s.is_dynamic.begin(), s.is_dynamic.end(), true) == s.is_dynamic.end()) {
    s.is_dynamic.clear();
  }
  if (at("{")) {
    s.layout = bracketed();
  }
  return s;
}

UNITY_INLINE std::string hlo_scanner::quoted() {
  const auto start = position_;
  for (advance(); !at_end() && peek() != '"'; advance()) {
    advance(peek() == '\\' ? 1 : 0);
  }
  if (at_end()) {
    fail("a closing quote");
  }
  advance();
  return std::string{text_.substr(start, position_ - start)};
}

UNITY_INLINE std::string hlo_scanner::bracketed() {
  constexpr std::string_view opening{"([{"};
  std::string value;
  std::string open;  // the closing brackets that are still expected
  do {
    const auto c = peek();
    if (at_end()) {
      fail(fmt::format("'{}'", open.back()));
    }
    if (c == '"') {
      value += quoted();
    } else if (!skip_comment()) {
      if (const auto kind = opening.find(c); kind != std::string_view::npos) {
        open += ")]}"[kind];
      } else if (c == ')' || c == ']' || c == '}') {
        if (c != open.back()) {
          fail(fmt::format("'{}'", open.back()));
        }
        open.pop_back();
      }
      value += c;
      advance();
    }
  } while (!open.empty());
  return value;
}

UNITY_INLINE std::string hlo_scanner::raw(std::string_view expected) {
  skip_blanks();
  std::string value;
  while (!at_end() && std::string_view{",)]}\n"}.find(peek()) == std::string_view::npos) {
    if (peek() == '"') {
      value += quoted();
    } else if (peek() == '(' || peek() == '[' || peek() == '{') {
      value += bracketed();
    } else if (!skip_comment()) {
      value += peek();
      advance();
    }
  }
  value.erase(value.find_last_not_of(" \t\r") + 1);
  if (value.empty()) {
    fail(expected);
  }
  return value;
}

UNITY_INLINE std::string hlo_scanner::paragraph() {
  skip_space();
  const auto start = position_;
  auto end = text_.size();
  for (const std::string_view empty : {"\n\n", "\n\r\n"}) {
    end = std::min(end, text_.find(empty, start));
  }
  advance(end - start);
  std::string all{text_.substr(start, end - start)};
  all.erase(all.find_last_not_of(" \t\r\n") + 1);
  return all;
}

UNITY_INLINE void hlo_scanner::fail(std::string_view expected) const {
  const auto to = std::min(text_.find('\n', position_), text_.size());
  const auto rest = at_end() ? std::string_view{} : text_.substr(position_, to - position_);
  fail_behind(0,
              at_end()       ? "the end of the file"
              : rest.empty() ? "the end of the line"
                             : fmt::format("'{}'", printable(rest, 30)),
              expected);
}

UNITY_INLINE void hlo_scanner::fail_behind(std::size_t back, std::string_view found, std::string_view expected) const {
  const auto column = position_ - line_start_ + 1;
  throw error{fmt::format("{}:{}:{}", file_, line_, column - std::min(back, column - 1)), found, expected};
}

}  // namespace unity::io::detail

#endif
