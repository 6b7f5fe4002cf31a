// Runs code that may crash on hostile input in a separate process.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <unity/core/file.hpp>

namespace unity::io::detail {

// Marks the end of a complete result.
inline constexpr char end_mark = '.';

// The child process: runs `work` and exits in any case.
template <class Work>
[[noreturn]] void run_and_exit(int out, Work& work) noexcept {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    ::signal(number, SIG_DFL);  // handlers of the parent would report its end
  }
  try {
    const std::string result = work() + end_mark;
    std::string_view rest_of_it = result;
    while (!rest_of_it.empty()) {
      const auto put = ::write(out, rest_of_it.data(), rest_of_it.size());
      if (put <= 0) {
        break;
      }
      rest_of_it.remove_prefix(static_cast<std::size_t>(put));
    }
  } catch (...) {
    // A result without its end mark is discarded.
  }
  ::_exit(0);
}

// Reads until the other end closes; empty if that takes too long.
[[nodiscard]] std::optional<std::string> read_all(int in, std::chrono::milliseconds limit);

// The result of work(), a std::string; empty if it throws, crashes or takes longer than `limit`. Needed because the
// packaged shape inference reads out of bounds on models that it should reject. Effects: work() runs in a copy of this
// process, without its other threads, and changes nothing here.
template <class Work>
[[nodiscard]] std::optional<std::string> isolated(Work work,
                                                  std::chrono::milliseconds limit = std::chrono::seconds{10}) {
  int ends[2];
  if (::pipe(ends) != 0) {
    return std::nullopt;
  }
  unity::detail::descriptor in{ends[0]};
  unity::detail::descriptor out{ends[1]};
  const auto child = ::fork();
  if (child < 0) {
    return std::nullopt;
  }
  if (child == 0) {
    run_and_exit(out.get(), work);
  }
  (void)out.close();
  auto result = read_all(in.get(), limit);
  if (!result) {
    ::kill(child, SIGKILL);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (!result || !result->ends_with(end_mark)) {
    return std::nullopt;
  }
  result->pop_back();
  return result;
}

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_ISOLATED)

#include <array>

#include <unity/core/config.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::string> read_all(int in, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string all;
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd ready{in, POLLIN, 0};
    const int count = left.count() > 0 ? ::poll(&ready, 1, static_cast<int>(left.count())) : 0;
    if (count < 0 && errno == EINTR) {
      continue;
    }
    const auto got = count > 0 ? ::read(in, buffer.data(), buffer.size()) : -1;
    if (got <= 0) {
      return got == 0 ? std::optional{all} : std::nullopt;
    }
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace unity::io::detail

#endif
