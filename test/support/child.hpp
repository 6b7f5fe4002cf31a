// Runs code that is expected to abort in a child process.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace unity::test {

struct outcome {
  bool aborted = false;
  std::string messages;  // what was written to stderr
};

// Effects: runs `action` in a copy of this process and waits for its end. Throws: std::runtime_error without a child.
template <class Action>
outcome in_child(Action action) {
  int ends[2];
  if (pipe(ends) != 0) {
    throw std::runtime_error{"no pipe"};
  }
  const auto child = fork();
  if (child < 0) {
    throw std::runtime_error{"no child process"};
  }
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);  // Catch2's handler would report the abort as a failed test
    action();
    _exit(0);
  }
  close(ends[1]);
  outcome result;
  char buffer[256];
  for (ssize_t count = 0; (count = read(ends[0], buffer, sizeof buffer)) > 0;) {
    result.messages.append(buffer, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  result.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  return result;
}

}  // namespace unity::test
