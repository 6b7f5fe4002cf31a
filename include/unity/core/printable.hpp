// Text in files, messages and markup: text quoted from files, numbers, and the base class of fmt formatters.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

namespace unity {

// The text of a file without the UTF-8 byte order mark that some editors put before it.
[[nodiscard]] constexpr std::string_view without_byte_order_mark(std::string_view text) noexcept {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  return text.substr(text.starts_with(mark) ? mark.size() : 0);
}

// As std::from_chars parses it ("inf" and "nan" are floating-point numbers); nothing if the whole text is not a number
// of that type.
template <class Number>
[[nodiscard]] std::optional<Number> to_number(std::string_view text) noexcept {
  Number value{};
  const auto* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  return status == std::errc{} && end == last ? std::optional{value} : std::nullopt;
}

// The enumerator at the place of the name in the list of all names; nothing if it is not one of them.
template <class Enumeration, std::size_t Count>
[[nodiscard]] constexpr std::optional<Enumeration> find_enumerator(const std::array<std::string_view, Count>& names,
                                                                   std::string_view name) noexcept {
  for (std::size_t i = 0; i < Count; ++i) {
    if (names[i] == name) {
      return static_cast<Enumeration>(i);
    }
  }
  return std::nullopt;
}

// For values with a single format: "{}" without a specification. Writes character by character: fmt::format_to of fmt
// 9, as compiled by g++, has another symbol name for clang 18 and later, and would not link.
struct plain_formatter {
  constexpr auto parse(fmt::format_parse_context& context) -> decltype(context.begin()) { return context.begin(); }

 protected:
  template <class Context>
  static auto put(Context& context, std::string_view text) -> decltype(context.out()) {
    auto out = context.out();
    for (const char c : text) {
      *out++ = c;
    }
    return out;
  }
};

// The number of bytes of the first character of a text that is not empty; 0 if it is a control character or not UTF-8
// (RFC 3629).
[[nodiscard]] inline std::size_t visible_character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[i])}; };
  const auto first = byte(0);
  if (first < 0x80) {
    return first >= 0x20 && first != 0x7f ? 1 : 0;
  }
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) {
    return 0;
  }
  auto code = first & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) {
      return 0;
    }
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0xa0, 0x800, 0x10000};  // below 0xa0: control characters
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code >= least[size] && code <= 0x10ffff && !surrogate ? size : 0;
}

// The characters of the first `most` bytes, followed by "..." if there are more: white space becomes one space, and
// each byte that is not visible a '?'. The input may contain line breaks, or half of a character.
[[nodiscard]] inline std::string printable(std::string_view text, std::size_t most = 60) {
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool space = std::string_view{" \t\n\v\f\r"}.find(text[at]) != std::string_view::npos;
    const auto size = visible_character_size(text.substr(at));
    const auto next = at + (size == 0 ? 1 : size);
    if (next > most) {
      return fmt::format("{}...", line);
    }
    if (space) {
      line += line.empty() || line.back() != ' ' ? " " : "";
    } else {
      line += size == 0 ? "?" : text.substr(at, size);
    }
    at = next;
  }
  return line;
}

// The text as character data, or as an attribute's value, of XML and HTML.
[[nodiscard]] inline std::string markup(std::string_view text) {
  std::string all;
  for (const char c : text) {
    switch (c) {
      case '&': all += "&amp;"; break;
      case '<': all += "&lt;"; break;
      case '>': all += "&gt;"; break;
      case '"': all += "&quot;"; break;
      default: all += c;
    }
  }
  return all;
}

}  // namespace unity
