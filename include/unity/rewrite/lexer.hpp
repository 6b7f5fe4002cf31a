// Splits rule text into tokens with positions.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity {

// A name, variable, number, text or symbol of a rule or vocabulary, and where it is. Refers to the text that was read.
struct rule_token {
  enum class form : std::uint8_t { name, variable, indexed_variable, number, text, symbol, end };
  form kind = form::end;
  std::string_view text{};  // without quotes and question marks
  std::size_t line = 1;
  std::size_t column = 1;
};

// Reads tokens one by one. Text and file name must outlive it.
// Errors: unity::error that names file, line and column, for text that is not a token.
class rule_lexer {
 public:
  rule_lexer(std::string_view text, std::string_view file) : text_{without_byte_order_mark(text)}, file_{file} {
    advance();
  }

  [[nodiscard]] const rule_token& peek() const noexcept { return current_; }
  rule_token next();

  [[nodiscard]] bool at(std::string_view symbol) const noexcept {
    return current_.kind == rule_token::form::symbol && current_.text == symbol;
  }
  [[nodiscard]] bool at_name(std::string_view name) const noexcept {
    return current_.kind == rule_token::form::name && current_.text == name;
  }
  bool accept(std::string_view symbol);
  void expect(std::string_view symbol);
  // The file and the line of the next token.
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", file_, peek().line); }
  // Throws: always; the message names file, line, column, the text found there and what was expected.
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  static bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
  static bool continues_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

  [[nodiscard]] char look(std::size_t ahead = 0) const {
    return position_ + ahead < text_.size() ? text_[position_ + ahead] : '\0';
  }
  void skip_space();
  void take(rule_token::form kind, std::size_t from, std::size_t to) {
    current_ = {kind, text_.substr(from, to - from), line_, start_ - line_start_ + 1};
  }
  template <class Predicate>
  std::size_t scan(Predicate continues) {
    while (position_ < text_.size() && continues(look())) {
      ++position_;
    }
    return position_;
  }

  void advance();
  void take_number(std::size_t from);
  void take_text();
  void take_symbol(std::size_t from);

  std::string_view text_;
  std::string_view file_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
  std::size_t start_ = 0;  // of the current token
  rule_token current_{};
};

}  // namespace unity

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_REWRITE_LEXER)

#include <string>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>

namespace unity {

UNITY_INLINE rule_token rule_lexer::next() {
  const auto t = current_;
  advance();
  return t;
}

UNITY_INLINE bool rule_lexer::accept(std::string_view symbol) {
  if (!at(symbol)) {
    return false;
  }
  advance();
  return true;
}

UNITY_INLINE void rule_lexer::expect(std::string_view symbol) {
  if (!accept(symbol)) {
    fail(fmt::format("'{}'", symbol));
  }
}

UNITY_INLINE void rule_lexer::fail(std::string_view expected) const {
  const auto found = current_.kind == rule_token::form::end ? std::string{"end of file"}
                                                            : fmt::format("'{}'", printable(current_.text));
  throw error{fmt::format("{}:{}:{}", file_, current_.line, current_.column), fmt::format("found {}", found), expected};
}

UNITY_INLINE void rule_lexer::skip_space() {
  for (;; ++position_) {
    if (look() == '#') {
      while (position_ < text_.size() && look() != '\n') {
        ++position_;
      }
    }
    if (look() == '\n') {
      ++line_;
      line_start_ = position_ + 1;
    } else if (position_ >= text_.size() || std::isspace(static_cast<unsigned char>(look())) == 0) {
      return;
    }
  }
}

UNITY_INLINE void rule_lexer::advance() {
  skip_space();
  const auto from = position_;
  start_ = from;
  const char c = look();
  if (position_ >= text_.size()) {
    take(rule_token::form::end, from, from);
  } else if (starts_name(c)) {
    const auto to = scan(continues_name);
    take(rule_token::form::name, from, to);
  } else if (c == '?') {
    const bool indexed = look(1) == '?';
    position_ += indexed ? 2 : 1;
    const auto start = position_;
    take(indexed ? rule_token::form::indexed_variable : rule_token::form::variable, start, scan(continues_name));
  } else if (is_digit(c)) {
    take_number(from);
  } else if (c == '"') {
    take_text();
  } else {
    take_symbol(from);
  }
}

UNITY_INLINE void rule_lexer::take_number(std::size_t from) {
  scan(is_digit);
  if (look() == '.' && is_digit(look(1))) {
    ++position_;
    scan(is_digit);
  }
  const bool exponent =
      look() == 'e' && (is_digit(look(1)) || ((look(1) == '-' || look(1) == '+') && is_digit(look(2))));
  if (exponent) {
    position_ += 2;
    scan(is_digit);
  }
  take(rule_token::form::number, from, position_);
}

UNITY_INLINE void rule_lexer::take_text() {
  const auto from = ++position_;
  const auto to = scan([](char c) { return c != '"' && c != '\n'; });
  take(rule_token::form::text, from, to);
  if (look() != '"') {
    fail("a closing quote");
  }
  ++position_;
}

UNITY_INLINE void rule_lexer::take_symbol(std::size_t from) {
  std::size_t length = 1;
  for (const std::string_view longer : {"...", "..", "==", "=>", "!=", "<=", ">=", "&&", "||"}) {
    if (text_.substr(position_, longer.size()) == longer) {
      length = longer.size();
      break;
    }
  }
  position_ += length;
  take(rule_token::form::symbol, from, position_);
}

}  // namespace unity

#endif
