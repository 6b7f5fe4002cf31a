// MPI calls that return only when all ranks have made them, and cannot be aborted: MPI_Init and MPI_Finalize.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/core.h>

#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communication/time_limit.hpp>

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

}  // namespace unity::backend::detail
