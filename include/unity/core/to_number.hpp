// Numbers in text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace unity {

// As std::from_chars parses it ("inf" and "nan" are floating-point numbers); nothing if the whole text is not a number
// of that type.
template <class Number>
[[nodiscard]] std::optional<Number> to_number(std::string_view text) noexcept {
  Number value{};
  const auto* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  return status == std::errc{} && end == last ? std::optional{value} : std::nullopt;
}

}  // namespace unity
