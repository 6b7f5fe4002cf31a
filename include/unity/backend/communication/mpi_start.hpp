// MPI's start, at which ranks cannot communicate yet, and a thread that ends a hanging process.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/communication/rank_failure.hpp>

namespace unity::backend::detail {

// mpirun ends all ranks as soon as one has ended; each rank waits this long before it ends, so that others can report
// as well.
inline constexpr std::chrono::milliseconds linger{500};

// Prints text as a single line: the multi-line messages of several ranks, such as MPI's, cannot be told apart.
inline void print_line(const std::string& text) {
  std::fputs((fmt::format("{}\n", one_line(text))).c_str(), stderr);
  std::fflush(stderr);
}

// Before MPI_Init, ranks cannot communicate. Each creates a file in the folder that mpirun made for its ranks on this
// machine, so that waiting ranks can tell who is missing. mpirun removes the folder when it ends.
class mpi_roster {
 public:
  mpi_roster() {
    const auto folder = text_of("PMIX_SERVER_TMPDIR");
    const auto job = text_of("PMIX_NAMESPACE");
    ranks_ = number_of("OMPI_COMM_WORLD_SIZE");
    here_ = number_of("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!folder.empty() && !job.empty() && ranks_ > 0) {
      prefix_ = fmt::format("{}/unity_{}_rank_", folder, job);
      std::ofstream{fmt::format("{}{}", prefix_, text_of("OMPI_COMM_WORLD_RANK"))}.flush();
    }
  }
  // The missing ranks as far as known here, such as "rank 2: has not started".
  [[nodiscard]] std::string missing() const {
    int present = 0;
    int first_absent = -1;
    for (int r = 0; r < ranks_ && !prefix_.empty(); ++r) {
      std::error_code none;
      if (std::filesystem::exists(fmt::format("{}{}", prefix_, r), none)) {
        ++present;
      } else if (first_absent < 0) {
        first_absent = r;
      }
    }
    if (prefix_.empty() || present == ranks_) {
      return "MPI_Init: has not returned";
    }
    if (here_ == ranks_ || present + 1 == ranks_) {
      return fmt::format("rank {}: has not started", first_absent);
    }
    return fmt::format("a rank of {} machine: has not started", present < here_ ? "this" : "another");
  }

 private:
  static std::string text_of(const char* variable) {
    const char* const value = std::getenv(variable);
    return value == nullptr ? "" : value;
  }
  static int number_of(const char* variable) { return std::atoi(text_of(variable).c_str()); }

  std::string prefix_{};  // empty: not started by mpirun
  int ranks_ = 0;
  int here_ = 0;
};

// A thread that ends the process with a line if it hangs in MPI: nothing else can. MPI_Init and MPI_Finalize return
// only when all ranks have called them. And a rank that dies can block all threads of another rank that call MPI: Open
// MPI's TCP locks the connection that it closes twice. So code that may hang states the longest time that it may take,
// and the line to end with.
class mpi_guard {
 public:
  using last_line = std::function<std::string()>;

  // As expect(). takes_termination: after SIGTERM, which is blocked in this thread and those that it starts, the
  // process has less than a second.
  mpi_guard(bool takes_termination, std::chrono::milliseconds patience, last_line line)
      : takes_termination_{takes_termination}, patience_{patience}, line_{std::move(line)} {
    if (takes_termination_) {
      const auto signals = termination();
      ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    }
    thread_ = std::thread{[this] { run(); }};
  }
  mpi_guard(const mpi_guard&) = delete;
  mpi_guard& operator=(const mpi_guard&) = delete;
  ~mpi_guard() {
    stopping_.store(true);
    thread_.join();
  }

  // Whether SIGTERM was received.
  [[nodiscard]] bool terminated() const noexcept { return terminated_.load(std::memory_order_acquire); }
  // Prints a line about the end of this process; only the first call prints.
  void say(const std::string& line) {
    if (!said_.exchange(true)) {
      print_line(line);
    }
  }

  // From now on, the guard ends the process if nobody calls this or come_round() for `patience`; its thread makes the
  // line to end with.
  void expect(std::chrono::milliseconds patience, last_line line) {
    const std::lock_guard hold{lock_};
    patience_ = patience;
    line_ = std::move(line);
    come_round();
  }
  void come_round() noexcept { rounds_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::chrono::milliseconds turn{20};
  // SIGKILL follows SIGTERM after a second. Before that, the watch needs half a second to find out who is missing.
  static constexpr std::chrono::milliseconds after_termination{800};

  [[nodiscard]] static sigset_t termination() noexcept {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    return signals;
  }
  // Counts time in turns of this thread, so that a process that was suspended for a while does not time out.
  void run() {
    std::uint64_t seen = 0;
    std::chrono::milliseconds since_round{};
    std::chrono::milliseconds since_termination{};
    while (!stopping_.load()) {
      rest();
      const std::lock_guard hold{lock_};
      const auto rounds = rounds_.load(std::memory_order_relaxed);
      since_round = rounds == seen ? since_round + turn : std::chrono::milliseconds{};
      seen = rounds;
      since_termination += terminated() ? turn : std::chrono::milliseconds{};
      if (since_round >= patience_ || (since_termination >= after_termination && !said_.load())) {
        say(line_());
        std::this_thread::sleep_for(terminated() ? std::chrono::milliseconds{} : linger);
        std::_Exit(1);
      }
    }
  }
  void rest() {
    if (takes_termination_ && !terminated()) {
      const auto signals = termination();
      const timespec time{0, std::chrono::nanoseconds{turn}.count()};
      terminated_.store(::sigtimedwait(&signals, nullptr, &time) == SIGTERM, std::memory_order_release);
    } else {
      std::this_thread::sleep_for(turn);
    }
  }

  bool takes_termination_;
  std::mutex lock_;
  std::chrono::milliseconds patience_;
  last_line line_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> terminated_ = false;
  std::atomic<bool> said_ = false;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::thread thread_{};
};

}  // namespace unity::backend::detail
