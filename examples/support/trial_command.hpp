// Runs plans by a command of the user, which prints the time of an iteration.
#pragma once

#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <sys/wait.h>

#include <unity/core/error.hpp>
#include <unity/core/file.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/units.hpp>

#include "scratch_folder.hpp"

namespace support {

namespace detail {

// The output of a shell command.
class command_output {
 public:
  explicit command_output(const std::string& line) : file_{::popen(line.c_str(), "r")} {
    if (file_ == nullptr) {
      throw unity::error{line, "the shell does not start", "one that runs commands"};
    }
  }
  command_output(const command_output&) = delete;
  command_output& operator=(const command_output&) = delete;
  ~command_output() {
    if (file_ != nullptr) {
      ::pclose(file_);
    }
  }

  // Its whole output until it ends, and its exit status in the shell's convention.
  std::pair<std::string, int> finish() {
    std::string all;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, file_) != nullptr) {
      all += buffer;
    }
    return {std::move(all), ::pclose(std::exchange(file_, nullptr))};
  }

 private:
  std::FILE* file_;
};

}  // namespace detail

// Runs command lines in which {plan} stands for the file of a plan.
class trial_command {
 public:
  // Throws: unity::error if it names no plan.
  explicit trial_command(std::string line) : line_{std::move(line)} {
    if (line_.find("{plan}") == std::string::npos) {
      throw unity::error{"--trial", fmt::format("'{}'", unity::printable(line_)), "a command with {plan} in it"};
    }
  }

  // Effects: writes the text to a file, which is removed afterwards.
  // Throws: unity::error if the command fails, or its last line is not a number of seconds.
  [[nodiscard]] unity::picoseconds operator()(std::string_view plan) const {
    const scratch_folder folder{"trial"};
    const auto file = folder.path() / "plan.json";
    unity::atomic_write(file, plan);
    auto line = line_;
    for (auto at = line.find("{plan}"); at != std::string::npos; at = line.find("{plan}", at)) {
      line.replace(at, 6, file.string());
      at += file.string().size();
    }
    auto [printed, status] = detail::command_output{line}.finish();
    while (!printed.empty() && std::isspace(static_cast<unsigned char>(printed.back())) != 0) {
      printed.pop_back();
    }
    const auto last = printed.substr(printed.rfind('\n') + 1);  // npos + 1 is 0
    const auto seconds = unity::to_number<double>(last);
    constexpr double longest = 1e6;
    if (status != 0) {
      throw unity::error{"--trial",
                         WIFEXITED(status)
                             ? fmt::format("exit code {} of {}", WEXITSTATUS(status), unity::printable(line))
                             : fmt::format("signal {} in {}", WTERMSIG(status), unity::printable(line)),
                         "a command that succeeds"};
    }
    if (!seconds || !(*seconds > 0) || *seconds > longest) {
      throw unity::error{"--trial", fmt::format("the last line is '{}'", unity::printable(last)),
                         "seconds of an iteration"};
    }
    return unity::from_seconds(*seconds);
  }

 private:
  std::string line_;
};

}  // namespace support
