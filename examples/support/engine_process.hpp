// A process that answers questions, such as an inference engine in one of its own: what it crashes is not this one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace support {

// Lines of JSON: a question goes to its standard input, the answer comes from its standard output. The first line says
// what it is, without a question. An answer may be {"error": one line}.
class engine_process {
 public:
  // Effects: starts the command, found in PATH, and reads its first line. `name`: for messages. `limit`: the longest
  // time for an answer. Throws: unity::error where it does not start, dies, says nothing in time, or what is no JSON.
  engine_process(std::string name, const std::vector<std::string>& command, std::chrono::milliseconds limit);
  engine_process(const engine_process&) = delete;
  engine_process& operator=(const engine_process&) = delete;
  // Effects: kills the process.
  ~engine_process();

  // What it said first: {"engine", "version"}.
  [[nodiscard]] const nlohmann::json& hello() const noexcept { return hello_; }
  // `more`: time that the question itself asks for, besides the limit. Throws: unity::error where the process cannot
  // do what is asked, which it survives; as the constructor, where it is lost afterwards.
  [[nodiscard]] nlohmann::json ask(const nlohmann::json& question, std::chrono::milliseconds more = {});
  // Whether it died, hung or spoke nonsense. It answers nothing any more.
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
  [[noreturn]] void lose(const std::string& how, const std::string& expected);
  // Why it died, as far as it said so.
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
