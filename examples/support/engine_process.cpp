#include "engine_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>

extern "C" char** environ;

namespace support {

namespace {

constexpr std::size_t longest_answer = std::size_t{64} << 20;

}  // namespace

engine_process::engine_process(std::string name, const std::vector<std::string>& command,
                               std::chrono::milliseconds limit)
    : name_{std::move(name)}, limit_{limit}, complaints_{std::tmpfile()} {
  try {
    start(command);
    hello_ = answer(limit_);
    if (!hello_.contains("engine") || !hello_.contains("version")) {
      lose(fmt::format("its first line is {}", unity::printable(hello_.dump(), 80)), R"({"engine", "version"})");
    }
  } catch (...) {
    end();
    throw;
  }
}

engine_process::~engine_process() { end(); }

void engine_process::start(const std::vector<std::string>& command) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw unity::error{name_, fmt::format("no socket ({})", std::strerror(errno)), "one more"};
  }
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (complaints_) {
    posix_spawn_file_actions_adddup2(&actions, ::fileno(complaints_.get()), STDERR_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  auto words = command;
  std::vector<char*> argv;
  for (auto& w : words) {
    argv.push_back(w.data());
  }
  argv.push_back(nullptr);
  const int problem = ::posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (problem != 0) {
    child_ = 0;
    throw unity::error{name_, fmt::format("'{}' does not start ({})", command[0], std::strerror(problem)),
                       "a program; see --python"};
  }
}

nlohmann::json engine_process::ask(const nlohmann::json& question, std::chrono::milliseconds more) {
  if (is_lost()) {
    throw unity::error{name_, "a question to a process that was lost", "one that runs"};
  }
  send(fmt::format("{}\n", question.dump()));
  return answer(limit_ + more);
}

void engine_process::send(std::string line) {
  for (std::size_t sent = 0; sent < line.size();) {
    const auto n = ::send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return;  // the process died: reading reports how
    }
    sent += static_cast<std::size_t>(n);
  }
}

std::string engine_process::line_within(std::chrono::milliseconds limit) {
  using clock = std::chrono::steady_clock;
  const auto late = clock::now() + limit;
  for (;;) {
    if (const auto end = read_.find('\n'); end != std::string::npos) {
      auto line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(late - clock::now()).count();
    pollfd waits{socket_, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&waits, 1, static_cast<int>(std::min<std::int64_t>(left, 1 << 30))) : 0;
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      lose(fmt::format("no answer within {:g} s", static_cast<double>(limit.count()) * 1e-3),
           "one; see --engine-limit");
    }
    char buffer[1 << 16];
    const auto n = ::read(socket_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0 || read_.size() > longest_answer) {
      end();
      lose(fmt::format("died ({})", last_words()), "answers");
    }
    read_.append(buffer, static_cast<std::size_t>(n));
  }
}

nlohmann::json engine_process::answer(std::chrono::milliseconds limit) {
  const auto line = line_within(limit);
  auto said = nlohmann::json::parse(line, nullptr, false);
  if (!said.is_object()) {
    lose(fmt::format("answers '{}'", unity::printable(line, 80)), "a line of JSON");
  }
  if (const auto e = said.find("error"); e != said.end()) {
    throw unity::error{
        fmt::format("{}: {}", name_, unity::printable(e->is_string() ? e->get<std::string>() : e->dump(), 400))};
  }
  return said;
}

void engine_process::lose(const std::string& found, const std::string& expected) {
  end();
  throw unity::error{name_, found, expected};
}

std::string engine_process::last_words() const {
  std::string all;
  if (complaints_) {
    std::rewind(complaints_.get());
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, complaints_.get())) > 0;) {
      all.append(buffer, n);
    }
  }
  all.erase(all.find_last_not_of(" \n\r\t") + 1);
  all.erase(0, all.rfind('\n') + 1);  // npos + 1 is 0
  const auto ended = WIFSIGNALED(status_) ? fmt::format("signal {}", WTERMSIG(status_))
                                          : fmt::format("exit code {}", WEXITSTATUS(status_));
  return all.empty() ? ended : fmt::format("{}: {}", ended, unity::printable(all, 200));
}

void engine_process::end() noexcept {
  if (socket_ >= 0) {
    ::close(std::exchange(socket_, -1));
  }
  if (child_ > 0) {
    // A process that closed its end is about to exit, and its status tells why.
    for (int i = 0; i < 20; ++i) {
      if (::waitpid(child_, &status_, WNOHANG) == child_) {
        child_ = 0;
        return;
      }
      ::usleep(5000);
    }
    ::kill(child_, SIGKILL);
    ::waitpid(child_, &status_, 0);
    child_ = 0;
  }
}

}  // namespace support
