// Invalid files, and processes that are killed while they write a file.
#pragma once

#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include <unity/io/sealed_file.hpp>

#include "../support/message_of.hpp"

namespace sealed_files {

namespace fs = std::filesystem;

inline fs::path fresh_folder(const std::string& name) {
  const auto folder = fs::path{UNITY_TEST_SCRATCH_DIR} / ("io_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

inline std::size_t file_count(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
}

inline std::string content_of(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

inline void overwrite(const fs::path& path, const std::string& content) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << content;
}

inline void alter(const fs::path& path, std::size_t at, char byte) {
  std::fstream file{path, std::ios::binary | std::ios::in | std::ios::out};
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

// A sealed file with any header and values, and the checksum that matches.
inline std::string sealed(std::string_view line, std::string_view header, const std::string& values) {
  auto bytes = unity::io::sealed_head(line, header, values.size()) + values;
  unity::io::byte_hasher sum;
  sum.add(std::as_bytes(std::span{bytes}));
  const std::uint64_t words[2]{sum.result().low, sum.result().high};
  return bytes.append(reinterpret_cast<const char*>(words), sizeof words);
}

// Limits the size of files while it lives: writing fails as on a full disk.
class small_files {
 public:
  explicit small_files(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    auto now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~small_files() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  small_files(const small_files&) = delete;
  small_files& operator=(const small_files&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = SIG_DFL;
};

enum class outcome : std::uint8_t { killed, finished, cannot };

// Runs the action in a child process, which is killed on entry to its system call number `call`, if there are so many.
template <class Action>
outcome killed_at_call(int call, Action action) {
  const auto child = ::fork();
  if (child < 0) {
    return outcome::cannot;
  }
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(77);
    }
    ::raise(SIGSTOP);
    try {
      action();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  for (int stops = 0;; ++stops) {
    if (::waitpid(child, &status, 0) != child) {
      return outcome::cannot;
    }
    if (WIFEXITED(status)) {
      return WEXITSTATUS(status) == 0 ? outcome::finished : outcome::cannot;
    }
    // The first stop is the child's own; each system call then stops it twice, on entry and on exit.
    if (stops == 2 * call + 1) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return outcome::killed;
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
  }
}

}  // namespace sealed_files
