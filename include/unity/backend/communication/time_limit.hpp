// Time limits of communicators.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

namespace unity::backend::detail {

// Limits beyond a year would overflow the clock; nobody waits that long.
[[nodiscard]] inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds limit) {
  return std::chrono::steady_clock::now() + std::min<std::chrono::milliseconds>(limit, std::chrono::hours{24 * 365});
}

[[nodiscard]] inline std::string to_string(std::chrono::milliseconds limit) {
  const auto count = limit.count();
  return count % 1000 == 0 ? std::to_string(count / 1000) + " s" : std::to_string(count) + " ms";
}

}  // namespace unity::backend::detail
