// A thread that never calls MPI, and ends the process if MPI hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>

#include <fmt/core.h>

#include <unity/backend/communication/mpi_start.hpp>

namespace unity::backend::detail {

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
