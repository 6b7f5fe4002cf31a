// MPI_Init and MPI_Finalize, which return only when all ranks have called them, and a thread that ends a hanging
// process.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/core.h>

#include <unity/backend/communication/rank_failure.hpp>

namespace unity::backend::detail {

// MPI calls that return only when all ranks have made them, and cannot be aborted: MPI_Init and MPI_Finalize.

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
  // "rank 2: has not started", or as much as is known here.
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

// Ends the process with a line if it is not destroyed within the limit.
class mpi_call_limit {
 public:
  template <class Line>
  mpi_call_limit(std::chrono::milliseconds limit, Line line)
      : thread_{[this, until = deadline_after(limit), line] {
          std::unique_lock hold{lock_};
          if (!changed_.wait_until(hold, until, [this] { return returned_; })) {
            print_line(line());
            std::this_thread::sleep_for(linger);
            std::_Exit(1);
          }
        }} {}
  mpi_call_limit(const mpi_call_limit&) = delete;
  mpi_call_limit& operator=(const mpi_call_limit&) = delete;
  ~mpi_call_limit() {
    {
      const std::lock_guard hold{lock_};
      returned_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  bool returned_ = false;
  std::thread thread_;  // last, because it uses the other members
};

// A rank that dies can block all threads of another rank that call MPI: Open MPI's TCP locks the connection that it
// closes twice. So the watch (mpi_watch.hpp) reports every turn of its loop, and the rank that it is about to send to.
// If the reports stop, or the process does not end soon after SIGTERM, the guard ends the process with a line that
// names that rank.
class mpi_guard {
 public:
  // patience: how long the watch may go without a report.
  mpi_guard(int rank, bool takes_termination, std::chrono::milliseconds patience)
      : rank_{rank}, takes_termination_{takes_termination}, patience_{patience}, thread_{[this] { run(); }} {}
  mpi_guard(const mpi_guard&) = delete;
  mpi_guard& operator=(const mpi_guard&) = delete;
  ~mpi_guard() {
    stopping_.store(true);
    thread_.join();
  }

  [[nodiscard]] static sigset_t termination() noexcept {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    return signals;
  }

  // Whether SIGTERM was received.
  [[nodiscard]] bool terminated() const noexcept { return terminated_.load(std::memory_order_acquire); }
  // Prints a line about the end of this process; only the first call prints.
  void say(const std::string& line) {
    if (!said_.exchange(true)) {
      print_line(line);
    }
  }

  // Called by the watch.
  void come_round() noexcept {
    sends_to_.store(nobody, std::memory_order_relaxed);
    rounds_.store(rounds_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void about_to_send(int to) noexcept { sends_to_.store(to, std::memory_order_relaxed); }

 private:
  static constexpr int nobody = -1;
  static constexpr std::chrono::milliseconds turn{20};
  // SIGKILL follows SIGTERM after a second. Before that, the watch needs half a second to find out who is missing.
  static constexpr std::chrono::milliseconds after_termination{800};

  // Counts time in turns of this thread, so that a process that was suspended for a while does not time out.
  void run() {
    std::uint64_t seen = 0;
    std::chrono::milliseconds since_round{};
    std::chrono::milliseconds since_termination{};
    while (!stopping_.load()) {
      rest();
      const auto rounds = rounds_.load(std::memory_order_relaxed);
      since_round = rounds == seen ? since_round + turn : std::chrono::milliseconds{};
      seen = rounds;
      since_termination += terminated() ? turn : std::chrono::milliseconds{};
      if (since_round >= patience_ || (since_termination >= after_termination && !said_.load())) {
        say(last_line());
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
  [[nodiscard]] std::string last_line() const {
    const auto to = sends_to_.load(std::memory_order_relaxed);
    return to != nobody
               ? fmt::format("rank {}: cannot be reached; expected it to go on", to)
               : fmt::format("rank {}: MPI does not return since a rank was lost; expected all to go on", rank_);
  }

  int rank_;
  bool takes_termination_;
  std::chrono::milliseconds patience_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> terminated_ = false;
  std::atomic<bool> said_ = false;
  std::atomic<int> sends_to_ = nobody;
  std::atomic<std::uint64_t> rounds_ = 0;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace unity::backend::detail
