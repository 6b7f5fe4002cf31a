// A process that answers requests, such as an inference engine: a crash of it does not affect this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace support {

// The protocol is lines of JSON: requests on its standard input, answers on its standard output. It first writes a line
// that describes it. An answer may be {"error": one line}.
class engine_process {
 public:
  // Effects: starts the command, found in PATH, and reads its first line. `name`: for messages. `limit`: the longest
  // time for an answer. Throws: unity::error if it does not start, dies, does not answer in time, or writes no JSON.
  engine_process(std::string name, const std::vector<std::string>& command, std::chrono::milliseconds limit);
  engine_process(const engine_process&) = delete;
  engine_process& operator=(const engine_process&) = delete;
  // Effects: kills the process.
  ~engine_process();

  // Its first line: {"engine", "version"}.
  [[nodiscard]] const nlohmann::json& hello() const noexcept { return hello_; }
  // `more`: additional time for this request. Throws: unity::error if the process refuses the request, and then it
  // stays usable; as the constructor, if the process is lost.
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& question, std::chrono::milliseconds more = {});
  // Whether it died, hung or wrote invalid output. It answers no further requests.
  [[nodiscard]] bool is_lost() const noexcept { return child_ == 0; }

 private:
  struct closes_file {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };

  void start(const std::vector<std::string>& command);
  void send(std::string line);
  [[nodiscard]] std::string line_within(std::chrono::milliseconds limit);
  [[nodiscard]] nlohmann::json answer(std::chrono::milliseconds limit);
  // Effects: kills it.
  [[noreturn]] void lose(const std::string& found, const std::string& expected);
  // Why it died, if it reported a reason.
  [[nodiscard]] std::string last_words() const;
  void end() noexcept;

  std::string name_;
  std::chrono::milliseconds limit_;
  std::unique_ptr<std::FILE, closes_file> complaints_;  // its standard error
  pid_t child_ = 0;
  int status_ = 0;  // of the child that ended
  int socket_ = -1;
  std::string read_{};  // behind the last line
  nlohmann::json hello_{};
};

}  // namespace support
