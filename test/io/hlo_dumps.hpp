// The files that examples/hlo/make_hlo_dumps.py wrote for its programs.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

namespace unity::test {

inline std::vector<std::filesystem::path> hlo_dumps() {
  std::vector<std::filesystem::path> files;
  for (const auto& f :
       std::filesystem::directory_iterator{std::filesystem::path{UNITY_TEST_SOURCE_DIR} / "test/io/hlo_data"}) {
    files.push_back(f.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace unity::test
