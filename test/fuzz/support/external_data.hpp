// Models and tensors with external data: one data file of known name and content that inputs can refer to.
#pragma once

#include <filesystem>
#include <string>

#include <unity/core/file.hpp>

#include "fuzz_folder.hpp"

namespace unity::test {

// The folder of the file "w": 256 bytes, 64 floats of value 0.5.
[[nodiscard]] inline const std::filesystem::path& folder_with_data() {
  static const fuzz_folder folder;
  static const bool written = [] {
    std::string halves;
    for (int i = 0; i < 64; ++i) {
      halves.append({'\0', '\0', '\0', '\x3f'});
    }
    atomic_write(folder.path() / "w", halves);
    return true;
  }();
  (void)written;
  return folder.path();
}

}  // namespace unity::test
