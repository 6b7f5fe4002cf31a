// Time limits of communicators.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include <fmt/core.h>

namespace unity::backend::detail {

// Limits beyond a year would overflow the clock.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds limit) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(limit, std::chrono::hours{24 * 365});
}

[[nodiscard]] inline std::string to_string(std::chrono::milliseconds limit) {
  const auto count = limit.count();
  return count % 1000 == 0 ? fmt::format("{} s", count / 1000) : fmt::format("{} ms", count);
}

}  // namespace unity::backend::detail
