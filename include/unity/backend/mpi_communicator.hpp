// Processes as ranks, over MPI.
//
// Operations use MPI's own non-blocking calls. MPI chooses the order of a reduction, the same in every run of the same
// ranks. Start programs with mpirun:
//
//   int main() {
//     return unity::backend::run_mpi([](unity::backend::mpi_communicator& c) { ... });
//   }
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/mpi_session.hpp>
#include <unity/backend/communication/mpi_watch.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// Models communication_request. Must be destroyed before its mpi_environment.
class mpi_request {
 public:
  mpi_request(mpi_request&& o) noexcept { take(o); }
  mpi_request& operator=(mpi_request&& o) noexcept {
    if (this != &o) {
      end();
      take(o);
    }
    return *this;
  }
  ~mpi_request() { end(); }

  void wait() {
    if (under_way_) {
      MPI_Status status{};
      guarded([&] { session_->wait(handle_, status, *group_, what_); });
      close(status);
    }
  }
  [[nodiscard]] bool done() {
    if (under_way_) {
      if (!until_) {
        until_ = session_->deadline();
      }
      MPI_Status status{};
      bool ended = false;
      guarded([&] { ended = session_->test(handle_, status, *group_, what_, *until_); });
      if (ended) {
        close(status);
      }
    }
    return !under_way_;
  }

 private:
  friend class mpi_communicator;

  mpi_request(detail::mpi_session& session, const detail::mpi_group& group, const char* what) noexcept
      : session_{&session}, group_{&group}, what_{what} {}

  void begin(int code, std::size_t bytes) {
    detail::check_mpi(code, what_);
    under_way_ = true;
    session_->watch().begun(bytes);
  }
  void close(const MPI_Status& status) {
    forget();
    if (!staging_.empty()) {
      std::memcpy(staged_, staging_.data(), staging_.size());
    }
    if (expected_ >= 0) {
      int got = 0;
      MPI_Get_count(&status, MPI_BYTE, &got);
      if (got != expected_) {
        throw error{what_, fmt::format("a message of {} bytes", got), fmt::format("{}", expected_)};
      }
    }
  }
  template <class Call>
  void guarded(const Call& call) {
    try {
      call();
    } catch (...) {
      forget();
      if (handle_ != MPI_REQUEST_NULL && session_->watch().failed()) {
        session_->watch().abandon();
      }
      throw;
    }
  }
  void forget() noexcept {
    under_way_ = false;
    session_->watch().ended();
  }
  void end() noexcept {
    if (under_way_) {
      const auto give_up = [this] {
        session_->watch().fail(fmt::format("rank {}: stopped; expected it to end its {}", session_->rank(), what_));
      };
      detail::end_request(unwinding_, give_up, [this] { wait(); });
    }
  }
  void take(mpi_request& o) noexcept {
    session_ = o.session_;
    group_ = o.group_;
    what_ = o.what_;
    handle_ = std::exchange(o.handle_, MPI_REQUEST_NULL);
    under_way_ = std::exchange(o.under_way_, false);
    expected_ = o.expected_;
    staging_ = std::move(o.staging_);
    staged_ = o.staged_;
    until_ = o.until_;
    unwinding_ = o.unwinding_;
  }

  detail::mpi_session* session_ = nullptr;
  const detail::mpi_group* group_ = nullptr;
  const char* what_ = "";
  MPI_Request handle_ = MPI_REQUEST_NULL;
  bool under_way_ = false;
  int expected_ = -1;                 // bytes of the message to be received
  std::vector<std::byte> staging_{};  // receives a result that MPI must not write in place
  std::byte* staged_ = nullptr;
  std::optional<std::chrono::steady_clock::time_point> until_{};  // deadline, from the first done()
  detail::unwinding unwinding_{};
};

// Models host_communicator, splitting_communicator and blocking_communicator. All communicators of a process are used
// by one thread at a time, and must be destroyed before their mpi_environment.
class mpi_communicator {
 public:
  using request = mpi_request;
  static constexpr bool on_host = true;

  mpi_communicator(mpi_communicator&& o) noexcept
      : session_{o.session_},
        group_{o.group_},
        comm_{std::exchange(o.comm_, MPI_COMM_NULL)},
        rank_{o.rank_},
        size_{o.size_} {}
  mpi_communicator& operator=(mpi_communicator&& o) noexcept {
    std::swap(session_, o.session_);
    std::swap(group_, o.group_);
    std::swap(comm_, o.comm_);
    std::swap(rank_, o.rank_);
    std::swap(size_, o.size_);
    return *this;
  }
  ~mpi_communicator() {
    if (comm_ != MPI_COMM_NULL && !session_->watch().failed()) {
      MPI_Comm_free(&comm_);
    }
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }

  void barrier() {
    start("barrier", 0, [&](MPI_Request* r) { return MPI_Ibarrier(comm_, r); }).wait();
  }

  request all_reduce(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    const int n = detail::mpi_count(count, "all_reduce");
    const void* const from = in == out ? MPI_IN_PLACE : static_cast<const void*>(in);
    const auto bytes = bytes_of(count, type);
    return start("all_reduce", bytes, [&](MPI_Request* r) {
      return session_->algorithms().all_reduce(size_, bytes, in == out, [&] {
        return MPI_Iallreduce(from, out, n, detail::mpi_type(type), session_->operators().find(type, op), comm_, r);
      });
    });
  }
  void all_reduce_now(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    session_->watch().throw_if_failed();
    const int n = detail::mpi_count(count, "all_reduce");
    const void* const from = in == out ? MPI_IN_PLACE : static_cast<const void*>(in);
    const detail::mpi_watch::waiting mark{session_->watch(), *group_, "all_reduce", true};
    detail::check_mpi(MPI_Allreduce(from, out, n, detail::mpi_type(type), session_->operators().find(type, op), comm_),
                      "all_reduce");
  }
  request reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    const int n = detail::mpi_count(count, "reduce_scatter");
    const auto part = bytes_of(count, type);
    request made{*session_, *group_, "reduce_scatter"};
    std::byte* to = out;
    if (part > 0 && out == in + static_cast<std::size_t>(rank_) * part) {
      // MPI_IN_PLACE would put the result elsewhere and overwrite the other parts.
      made.staging_.resize(part);
      made.staged_ = out;
      to = made.staging_.data();
    }
    begin(made, part, [&](MPI_Request* r) {
      return MPI_Ireduce_scatter_block(in, to, n, detail::mpi_type(type), session_->operators().find(type, op), comm_,
                                       r);
    });
    return made;
  }
  request all_gather(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    const int n = detail::mpi_count(count, "all_gather");
    const auto part = bytes_of(count, type);
    const void* const from =
        in == out + static_cast<std::size_t>(rank_) * part ? MPI_IN_PLACE : static_cast<const void*>(in);
    return start("all_gather", bytes_of(count, type), [&](MPI_Request* r) {
      return MPI_Iallgather(from, n, detail::mpi_type(type), out, n, detail::mpi_type(type), comm_, r);
    });
  }
  request broadcast(std::byte* data, std::size_t count, tensor::dtype type, int root) {
    detail::check_rank("broadcast", root, size_);
    const int n = detail::mpi_count(count, "broadcast");
    return start("broadcast", bytes_of(count, type),
                 [&](MPI_Request* r) { return MPI_Ibcast(data, n, detail::mpi_type(type), root, comm_, r); });
  }
  request all_to_all(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    const int n = detail::mpi_count(count, "all_to_all");
    const void* const from = in == out ? MPI_IN_PLACE : static_cast<const void*>(in);
    return start("all_to_all", bytes_of(count, type), [&](MPI_Request* r) {
      return MPI_Ialltoall(from, n, detail::mpi_type(type), out, n, detail::mpi_type(type), comm_, r);
    });
  }

  // tag: every MPI supports 0 to 32767.
  request send(int to, std::span<const std::byte> bytes, int tag) {
    detail::check_rank("send", to, size_);
    const int n = detail::mpi_count(bytes.size(), "send");
    return start("send", bytes.size(),
                 [&](MPI_Request* r) { return MPI_Isend(bytes.data(), n, MPI_BYTE, to, tag, comm_, r); });
  }
  request receive(int from, std::span<std::byte> bytes, int tag) {
    detail::check_rank("receive", from, size_);
    const int n = detail::mpi_count(bytes.size(), "receive");
    request made{*session_, *group_, "receive"};
    made.expected_ = n;
    begin(made, bytes.size(),
          [&](MPI_Request* r) { return MPI_Irecv(bytes.data(), n, MPI_BYTE, from, tag, comm_, r); });
    return made;
  }

  std::optional<mpi_communicator> split(int color) {
    // Waits for all ranks here, so that a missing rank is an error; in MPI_Comm_split it would end the process.
    std::vector<std::int32_t> colors(static_cast<std::size_t>(size_));
    const std::int32_t own = color;
    const auto out = std::as_writable_bytes(std::span{colors});
    all_gather(std::as_bytes(std::span{&own, 1}).data(), out.data(), 1, tensor::dtype::int32).wait();
    MPI_Comm part = MPI_COMM_NULL;
    {
      const detail::mpi_watch::waiting mark{session_->watch(), *group_, "split", true};
      detail::check_mpi(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, rank_, &part), "split");
    }
    if (part == MPI_COMM_NULL) {
      return std::nullopt;
    }
    std::vector<int> members;
    for (std::size_t r = 0; r < colors.size(); ++r) {
      if (colors[r] == color) {
        members.push_back(group_->members[r]);
      }
    }
    return mpi_communicator{*session_, session_->add_group(std::move(members)), part};
  }

  // The MPI communicator, for other libraries.
  [[nodiscard]] MPI_Comm native() const noexcept { return comm_; }

 private:
  friend class mpi_environment;

  mpi_communicator(detail::mpi_session& session, const detail::mpi_group& group, MPI_Comm comm)
      : session_{&session}, group_{&group}, comm_{comm} {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  template <class Call>
  void begin(request& made, std::size_t bytes, Call call) {
    session_->watch().throw_if_failed();
    made.begin(call(&made.handle_), bytes);
  }
  template <class Call>
  request start(const char* what, std::size_t bytes, Call call) {
    request made{*session_, *group_, what};
    begin(made, bytes, call);
    return made;
  }
  [[nodiscard]] static std::size_t bytes_of(std::size_t count, tensor::dtype type) noexcept {
    return count * static_cast<std::size_t>(tensor::size_of(type));
  }

  detail::mpi_session* session_;
  const detail::mpi_group* group_;
  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
};

// MPI from initialization to finalization. At most one per process at a time.
// Effects: initializes MPI if the program has not, and then also finalizes it; all ranks must do both. If an exception
// destroys it, it tells the other ranks to stop and does not wait for them.
// Throws: unity::error on every rank if the ranks' options name different programs.
class mpi_environment {
 public:
  explicit mpi_environment(const mpi_options& options = {}) : session_{std::make_unique<detail::mpi_session>(options)} {
    std::vector<int> ranks(static_cast<std::size_t>(session_->size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    const auto& group = session_->add_group(std::move(ranks));
    MPI_Comm comm = MPI_COMM_NULL;
    {
      const detail::mpi_watch::waiting mark{session_->watch(), group, "MPI_Comm_dup", true};
      detail::check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    }
    world_.emplace(mpi_communicator{*session_, group, comm});
    agree(*world_, options.program, "the program");
  }
  mpi_environment(const mpi_environment&) = delete;
  mpi_environment& operator=(const mpi_environment&) = delete;
  ~mpi_environment() {
    if (unwinding_.under_way()) {
      stop("an exception left MPI's environment");
    } else if (!session_->watch().failed()) {
      try {
        finish();
      } catch (...) {
        stop(detail::current_exception_line());
      }
    }
  }

  [[nodiscard]] mpi_communicator& world() noexcept { return *world_; }

  // Returns when all ranks have called it; nothing may be exchanged afterwards. The destructor calls it if the program
  // has not, but can only print errors.
  // Throws: unity::error if a rank is missing.
  void finish() {
    if (!std::exchange(finished_, true)) {
      session_->finish(*world_->group_);
    }
  }

  // Prints one line on standard error that says why this rank stops; the other ranks stop with a line that names it.
  void stop(const std::string& why) {
    session_->watch().say(why);
    session_->watch().fail(
        fmt::format("rank {}: stopped ({}); expected it to go on", session_->rank(), detail::one_line(why)));
    std::this_thread::sleep_for(detail::linger);
  }

 private:
  std::unique_ptr<detail::mpi_session> session_;
  std::optional<mpi_communicator> world_{};
  bool finished_ = false;
  detail::unwinding unwinding_{};
};

// Whether mpirun or a similar launcher started this process as one of several. For programs that also run alone:
// starting MPI takes a second even then.
[[nodiscard]] inline bool started_as_rank() {
  for (const char* const variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(variable) != nullptr) {
      return true;
    }
  }
  return false;
}

// The body of main: runs f(world communicator) between MPI's initialization and finalization. Returns the exit code: 0;
// or 1 if f threw or a rank was missing, on this rank or another, after one line on standard error that says why.
// Handles SIGTERM (mpi_options).
template <class F>
int run_mpi(const F& f, mpi_options options = {}) {
  options.take_termination = true;
  std::optional<mpi_environment> environment;
  try {
    environment.emplace(options);
    f(environment->world());
    environment->finish();
    return 0;
  } catch (...) {
    const auto line = detail::current_exception_line();
    if (environment) {
      environment->stop(line);
    } else {
      detail::print_line(line);
      std::this_thread::sleep_for(detail::linger);
    }
  }
  return 1;
}

}  // namespace unity::backend
