// Files that others published, which this project does not hold; docs/architecture.md says where they come from. Tests
// that read one have the tag [shared], and ctest runs those of a file of tests apart, to say where they are skipped.
#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <optional>
#include <string>

namespace unity::test {

// In the folder UNITY_SHARED_DIR; where it is not there, nothing, and the test says that it is skipped.
[[nodiscard]] inline std::optional<std::filesystem::path> shared_file(const std::string& name) {
  auto path = std::filesystem::path{UNITY_SHARED_DIR} / name;
  if (!std::filesystem::exists(path)) {
    WARN("skipped: " << path.string() << " is not here");
    return std::nullopt;
  }
  return path;
}

}  // namespace unity::test
