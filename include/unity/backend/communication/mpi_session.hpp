// MPI from initialization to finalization.
#pragma once

#include <mpi.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/mpi_algorithms.hpp>
#include <unity/backend/communication/mpi_start.hpp>
#include <unity/backend/communication/mpi_types.hpp>
#include <unity/backend/communication/mpi_watch.hpp>
#include <unity/backend/communication/time_limit.hpp>
#include <unity/core/error.hpp>

namespace unity::backend::detail {

class mpi_session {
 public:
  // Throws: unity::error if MPI does not support calls from several threads. Stops the process if a rank does not start
  // within the limit.
  explicit mpi_session(const mpi_options& options) : options_{options} {
    const mpi_roster roster;
    const auto late = [&roster, limit = options.start_limit] {
      return fmt::format("{}; expected it within {}", roster.missing(), to_string(limit));
    };
    if (options.take_termination) {
      mpi_watch::block_termination();
    }
    divide_long_messages();
    const mpi_call_limit limit{options.start_limit, late};
    int running = 0;
    MPI_Initialized(&running);
    int level = 0;
    if (running != 0) {
      MPI_Query_thread(&level);
    } else {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init");
      owns_ = true;
    }
    if (level < MPI_THREAD_MULTIPLE) {
      if (owns_) {
        MPI_Finalize();
      }
      throw error{"MPI_Init", fmt::format("thread level {}", level), "MPI_THREAD_MULTIPLE"};
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
    operators_ = std::make_unique<mpi_operators>();
    algorithms_.emplace();
    watch_.emplace(control_, rank_, size_, options_);
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;
  // Either all ranks have finished their operations, or one has failed: then MPI is not finalized, because that would
  // hang.
  ~mpi_session() {
    if (watch_->failed()) {
      return;
    }
    const mpi_call_limit limit{options_.limit, [this] {
                                 return fmt::format(
                                     "rank {}: waits in MPI_Finalize; expected all ranks there within {}", rank_,
                                     to_string(options_.limit));
                               }};
    watch_.reset();
    operators_->free();
    algorithms_.reset();
    MPI_Comm_free(&control_);
    if (owns_) {
      MPI_Finalize();
    }
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const mpi_operators& operators() const noexcept { return *operators_; }
  [[nodiscard]] mpi_algorithms& algorithms() noexcept { return *algorithms_; }
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const { return deadline_after(options_.limit); }
  [[nodiscard]] mpi_watch& watch() noexcept { return *watch_; }

  // Groups live as long as the session, because the watch may read one at any time.
  [[nodiscard]] const mpi_group& add_group(std::vector<int> members) {
    groups_.push_back({std::move(members)});
    return groups_.back();
  }

  // Throws: unity::error if a rank is missing, or MPI failed.
  void wait(MPI_Request& request, MPI_Status& status, const mpi_group& group, const char* what) {
    watch_->throw_if_failed();
    const mpi_watch::waiting mark{*watch_, group, what, false};
    for (int ended = 0;;) {
      for (int i = 0; i < 16 && ended == 0; ++i) {
        check_mpi(MPI_Test(&request, &ended, &status), what);
      }
      if (ended != 0) {
        return;
      }
      watch_->throw_if_failed();
    }
  }
  // Returns whether the request has completed. If it has not at `until`, the watch finds out who is missing, and a
  // later call throws.
  [[nodiscard]] bool test(MPI_Request& request, MPI_Status& status, const mpi_group& group, const char* what,
                          std::chrono::steady_clock::time_point until) {
    watch_->throw_if_failed();
    int ended = 0;
    check_mpi(MPI_Test(&request, &ended, &status), what);
    if (ended == 0) {
      watch_->asked(group, what, until);
    }
    return ended != 0;
  }

  // Returns when all ranks have called it.
  void finish(const mpi_group& world) {
    watch_->throw_if_failed();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    check_mpi(MPI_Ibarrier(control_, &request), "the end");
    wait(request, status, world, "the end of the program");
  }

 private:
  mpi_options options_;
  bool owns_ = false;  // MPI was initialized here
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm control_ = MPI_COMM_NULL;
  std::unique_ptr<mpi_operators> operators_{};
  std::optional<mpi_algorithms> algorithms_{};
  std::deque<mpi_group> groups_{};
  std::optional<mpi_watch> watch_{};
};

}  // namespace unity::backend::detail
