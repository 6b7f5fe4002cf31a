// Where measured times are kept between runs of a program.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <unity/core/hash.hpp>

namespace support {

// `choice`: a file, or `none`. Empty: one file for each description in the user's cache folder (XDG base directory
// specification), so that machines that share a home folder and versions that come and go keep their own; none where
// there is no such folder.
inline std::filesystem::path timings_file(const std::string& choice, std::string_view description) {
  if (!choice.empty()) {
    return choice == "none" ? std::filesystem::path{} : std::filesystem::path{choice};
  }
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    const std::filesystem::path path{value == nullptr ? "" : value};
    return path.is_absolute() ? path : std::filesystem::path{};
  };
  auto caches = folder("XDG_CACHE_HOME");
  if (caches.empty() && !folder("HOME").empty()) {
    caches = folder("HOME") / ".cache";
  }
  char name[24];
  std::snprintf(name, sizeof name, "%016llx.txt", static_cast<unsigned long long>(unity::hash_bytes(description)));
  return caches.empty() ? caches : caches / "unity" / "timings" / name;
}

}  // namespace support
