// Files published by others that are not in this repository; docs/architecture.md gives their origin. Tests that read
// one have the tag [shared]; ctest runs these separately, so that skipping them is visible.
#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace unity::test {

// The file's path in the folder UNITY_SHARED_DIR; nothing, with a warning that the test is skipped, if it is absent.
[[nodiscard]] inline std::optional<std::filesystem::path> shared_file(const std::string& name) {
  auto path = std::filesystem::path{UNITY_SHARED_DIR} / name;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: " << path.string() << " is not here");
    return std::nullopt;
  }
  return path;
}

}  // namespace unity::test
