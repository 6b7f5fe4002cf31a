// Converts Graphviz text to SVG, if Graphviz is installed.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" char** environ;

namespace unity::io {

namespace detail {

// The full path of a program, searched in PATH like a shell does.
[[nodiscard]] std::optional<std::filesystem::path> find_program(std::string_view name);

// Waits for a child and returns its exit status; after the limit, kills it and returns nothing.
[[nodiscard]] std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit);

// A file name whose file is removed with this object.
class temporary_path {
 public:
  explicit temporary_path(std::filesystem::path path) : path_{std::move(path)} {}
  temporary_path(const temporary_path&) = delete;
  temporary_path& operator=(const temporary_path&) = delete;
  ~temporary_path() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& get() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace detail

// Effects: draws `dot` into the file. Returns the reason if there is no picture: Graphviz is not installed, fails, or
// exceeds `limit` (its layout is superlinear); else nothing.
// Throws: unity::error if the file cannot be written.
[[nodiscard]] std::optional<std::string> write_svg(const std::filesystem::path& path, std::string_view dot,
                                                   std::chrono::milliseconds limit = std::chrono::seconds{20});

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_SVG)

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/file.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::filesystem::path> find_program(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view path = variable == nullptr ? std::string_view{"/usr/bin:/bin"} : std::string_view{variable};
  while (!path.empty()) {
    const auto end = std::min(path.find(':'), path.size());
    const auto candidate = std::filesystem::path{path.substr(0, end)} / name;
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate)) {
      return candidate;
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<int> wait_for(pid_t child, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  for (;;) {
    const auto got = ::waitpid(child, &status, WNOHANG);
    if (got == child) {
      return WIFEXITED(status) ? std::optional{WEXITSTATUS(status)} : std::optional{-1};
    }
    if (got < 0 && errno != EINTR) {
      return -1;
    }
    if (std::chrono::steady_clock::now() >= end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::optional<std::string> write_svg(const std::filesystem::path& path, std::string_view dot,
                                                  std::chrono::milliseconds limit) {
  const auto program = detail::find_program("dot");
  if (!program) {
    return "no SVG: the program `dot` is not installed (package graphviz)";
  }
  // Absolute, so that no name is parsed as an option.
  const auto base = std::filesystem::absolute(path).string();
  const detail::temporary_path in{fmt::format("{}.in.dot", base)};
  const detail::temporary_path out{fmt::format("{}.out.svg", base)};
  atomic_write(in.get(), dot);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string arguments[] = {program->string(), "-Tsvg", "-o", out.get().string(), in.get().string()};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), arguments[4].data(), nullptr};
  pid_t child = 0;
  const int problem = ::posix_spawn(&child, program->c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    return fmt::format("no SVG: `dot` does not start ({})", std::strerror(problem));
  }
  const auto status = detail::wait_for(child, limit);
  if (!status || *status != 0) {
    return status ? fmt::format("no SVG: `dot` failed with status {}", *status)
                  : fmt::format("no SVG: `dot` took longer than {} ms", limit.count());
  }
  atomic_write(path, read_file(out.get()));
  return std::nullopt;
}

}  // namespace unity::io

#endif
