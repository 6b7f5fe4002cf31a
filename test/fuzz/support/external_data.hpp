// Models and tensors whose data lies in another file: one that has a name and a content which inputs can count on.
#pragma once

#include <filesystem>
#include <string>

#include <unity/core/file.hpp>

#include "fuzz_folder.hpp"

namespace unity::test {

// The folder of "w", which has 256 bytes: those of 64 floats, each 0.5.
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
