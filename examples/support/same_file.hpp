// Whether two names mean one file.
#pragma once

#include <filesystem>
#include <system_error>

namespace support {

// Whether both names mean one file, which need not exist.
inline bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code failed;
  return std::filesystem::equivalent(a, b, failed) ||
         std::filesystem::weakly_canonical(a, failed) == std::filesystem::weakly_canonical(b, failed);
}

}  // namespace support
