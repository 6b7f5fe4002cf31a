// Base class of fmt formatters of public values.
#pragma once

#include <string_view>

#include <fmt/core.h>

namespace unity {

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

}  // namespace unity
