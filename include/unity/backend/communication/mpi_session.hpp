// MPI from initialization to finalization: its algorithms, element types and reductions.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <mpi.h>

#include <unity/backend/communication/mpi_start.hpp>
#include <unity/backend/communication/mpi_watch.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communication/reduce.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::detail {

// Throws: unity::error with MPI's own message if a call failed.
inline void check_mpi(int code, std::string_view what) {
  if (code != MPI_SUCCESS) {
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw error{what, std::string(text.data(), static_cast<std::size_t>(length)), "MPI_SUCCESS"};
  }
}

[[nodiscard]] inline int mpi_count(std::size_t count, std::string_view what) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (count > most) {
    throw error{what, fmt::format("{} elements", count), fmt::format("at most {} in one call of MPI", most)};
  }
  return static_cast<int>(count);
}

// MPI 3 has no 16-bit floats: they are sent as integers and reduced by our own operators.
[[nodiscard]] inline MPI_Datatype mpi_type(tensor::dtype type) noexcept {
  using tensor::dtype;
  switch (type) {
    case dtype::float32: return MPI_FLOAT;
    case dtype::float64: return MPI_DOUBLE;
    case dtype::float16:
    case dtype::bfloat16: return MPI_UINT16_T;
    case dtype::int64: return MPI_INT64_T;
    case dtype::int32: return MPI_INT32_T;
    case dtype::int8: return MPI_INT8_T;
    case dtype::uint8:
    case dtype::boolean: break;
  }
  return MPI_UINT8_T;
}

// Reduction operators for 16-bit floats. Each step of a reduction rounds once.
class mpi_operators {
 public:
  mpi_operators() {
    with<float16_element>(0);
    with<bfloat16_element>(4);
  }
  mpi_operators(const mpi_operators&) = delete;
  mpi_operators& operator=(const mpi_operators&) = delete;
  // Not in the destructor, which may run after MPI_Finalize.
  void free() noexcept {
    for (auto& op : half_) {
      MPI_Op_free(&op);
    }
  }

  [[nodiscard]] MPI_Op find(tensor::dtype type, reduction op) const noexcept {
    const auto index = static_cast<std::size_t>(op);
    switch (type) {
      case tensor::dtype::float16: return half_[index];
      case tensor::dtype::bfloat16: return half_[4 + index];
      case tensor::dtype::boolean:
        return op == reduction::sum || op == reduction::maximum ? MPI_MAX : MPI_MIN;  // of 0 and 1
      default: break;
    }
    switch (op) {
      case reduction::product: return MPI_PROD;
      case reduction::minimum: return MPI_MIN;
      case reduction::maximum: return MPI_MAX;
      case reduction::sum: break;
    }
    return MPI_SUM;
  }

 private:
  template <class Element, reduction Op>
  static void combine(void* in, void* inout, int* count, MPI_Datatype*) {
    const std::array<const std::byte*, 2> inputs{static_cast<const std::byte*>(in),
                                                 static_cast<const std::byte*>(inout)};
    const std::array<std::byte*, 1> outputs{static_cast<std::byte*>(inout)};
    reduce_elements<Element, Op>(inputs, 0, outputs, 0, static_cast<std::size_t>(*count));
  }
  template <class Element>
  void with(std::size_t first) {
    make(first, combine<Element, reduction::sum>);
    make(first + 1, combine<Element, reduction::product>);
    make(first + 2, combine<Element, reduction::minimum>);
    make(first + 3, combine<Element, reduction::maximum>);
  }
  void make(std::size_t at, MPI_User_function* function) {
    check_mpi(MPI_Op_create(function, 1, &half_[at]), "MPI_Op_create");
  }

  std::array<MPI_Op, 8> half_{};  // by type (float16, bfloat16) and reduction
};

// Replaces MPI's algorithms where its defaults are poor and can be changed. Settings of the user in the environment or
// on the command line of mpirun take precedence; an MPI without these settings ignores them.

// Settings of Open MPI's TCP for slow networks. To be called before MPI_Init.
// - A message of any length is sent as one piece, and everything else for that rank waits behind it: the answers of the
//   watch would wait minutes for a gradient. So long messages are divided.
// - A message above the eager limit (64 KiB by default) waits for the receiver's reply, which waits behind what that
//   rank sends itself: an exchange of 128 KiB in both directions takes up to twice as long as in one. Ranks prepare to
//   receive early, so up to 1 MiB are sent without asking.
inline void tune_tcp() {
  ::setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "262144", 0);
  ::setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", 0);
  ::setenv("OMPI_MCA_btl_tcp_max_send_size", "1048576", 0);  // not below the limit
}

// For at most 3 ranks, Open MPI's non-blocking all_reduce sends everything to one rank and back. If the network is the
// bottleneck, that takes twice as long as a ring on 2 ranks, and is also slower on 3.
// At most one instance at a time, between MPI's start and end; used only by the thread that communicates.
class mpi_algorithms {
 public:
  mpi_algorithms() {
    int level = 0;
    if (MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
      return;
    }
    started_ = true;
    int number = 0;
    int count = 0;
    if (MPI_T_cvar_get_index("coll_libnbc_iallreduce_algorithm", &number) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(number, nullptr, &variable_, &count) != MPI_SUCCESS) {
      return;
    }
    int current = ring;
    can_choose_ = count == 1 && MPI_T_cvar_read(variable_, &current) == MPI_SUCCESS && current == of_mpi;
  }
  mpi_algorithms(const mpi_algorithms&) = delete;
  mpi_algorithms& operator=(const mpi_algorithms&) = delete;
  ~mpi_algorithms() {
    if (started_) {
      if (variable_ != MPI_T_CVAR_HANDLE_NULL) {
        MPI_T_cvar_handle_free(&variable_);
      }
      MPI_T_finalize();
    }
  }

  // Calls `begin`, which calls MPI_Iallreduce. All ranks must pass the same arguments.
  // MPI also reduces internally when it creates communicators, and ranks with different settings would deadlock: so the
  // choice only lasts for this call.
  template <class Begin>
  int all_reduce(int ranks, std::size_t bytes, bool in_place, const Begin& begin) {
    constexpr std::size_t small = 8192;  // from this size on, bandwidth dominates
    if (!can_choose_ || ranks > 3 || bytes < small || in_place || MPI_T_cvar_write(variable_, &ring) != MPI_SUCCESS) {
      return begin();
    }
    const int code = begin();
    can_choose_ = MPI_T_cvar_write(variable_, &of_mpi) == MPI_SUCCESS;
    return code;
  }

 private:
  static constexpr int of_mpi = 0;
  static constexpr int ring = 1;

  bool started_ = false;
  bool can_choose_ = false;
  MPI_T_cvar_handle variable_ = MPI_T_CVAR_HANDLE_NULL;
};

class mpi_session {
 public:
  // Throws: unity::error if MPI does not support calls from several threads. Stops the process if a rank does not start
  // within the limit.
  explicit mpi_session(const mpi_options& options)
      : options_{options}, guard_{options.take_termination, options.start_limit, [this, roster = mpi_roster{}] {
                                    return fmt::format("{}; expected it {}", roster.missing(),
                                                       guard_.terminated()
                                                           ? "before SIGTERM"
                                                           : "within " + to_string(options_.start_limit));
                                  }} {
    tune_tcp();
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
    watch_.emplace(control_, rank_, size_, options_, guard_);
  }
  mpi_session(const mpi_session&) = delete;
  mpi_session& operator=(const mpi_session&) = delete;
  // Either all ranks have finished their operations, or one has failed: then MPI is not finalized, because that would
  // hang.
  ~mpi_session() {
    if (watch_->failed()) {
      guard_.expect(std::max(options_.silence, std::chrono::milliseconds{1000}), [this] {
        return fmt::format("rank {}: MPI does not return after a rank was lost; expected it to", rank_);
      });
      return;
    }
    guard_.expect(options_.limit, [this] {
      return fmt::format("rank {}: waits in MPI_Finalize; expected all ranks there within {}", rank_,
                         to_string(options_.limit));
    });
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
  mpi_guard guard_;
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
