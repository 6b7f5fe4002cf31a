// Threads of one process as ranks.
//
// Data moves when the last rank has arrived: small amounts at once, by that rank; the rest by a separate thread while
// ranks compute, and by ranks that wait. Reductions combine ranks in their order, element by element, so results do not
// depend on timing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/local_operation.hpp>
#include <unity/backend/communication/local_world.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

struct local_options {
  std::chrono::milliseconds limit = default_time_limit;
  bool progress_thread = true;  // false: data moves only while ranks wait or call done()
};

// Models communication_request. Used by one thread at a time.
class local_request {
 public:
  local_request(local_request&& o) noexcept = default;
  local_request& operator=(local_request&& o) noexcept;
  ~local_request() { end(); }

  void wait();
  [[nodiscard]] bool done();

 private:
  friend class local_communicator;

  local_request(std::shared_ptr<detail::local_world> world, std::shared_ptr<detail::local_group> group, int rank,
                std::shared_ptr<detail::local_operation> operation) noexcept
      : world_{std::move(world)}, group_{std::move(group)}, operation_{std::move(operation)}, rank_{rank} {}

  void start_clock();
  void end() noexcept;

  std::shared_ptr<detail::local_world> world_;
  std::shared_ptr<detail::local_group> group_;
  std::shared_ptr<detail::local_operation> operation_;  // null: nothing left to wait for
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_{};
  detail::unwinding unwinding_{};
};

class local_communicator;
namespace detail {
template <class Thread, class F>
void run_ranks(std::vector<local_communicator>& ranks, const F& f);
}  // namespace detail

// Models host_communicator and splitting_communicator. Used by one thread at a time; requests may outlive it.
// Effects: a rank whose communicator is destroyed has left: ranks that wait for it get an error. If an exception
// destroys it, the rank has not left yet; the others get the exception's message when the rank's function has ended
// (run_local).
class local_communicator {
 public:
  using request = local_request;
  static constexpr bool on_host = true;

  local_communicator(local_communicator&&) noexcept = default;
  local_communicator& operator=(local_communicator&& o) noexcept;
  ~local_communicator();

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(group_->members.size()); }

  void barrier() { begin({detail::local_kind::barrier}, nullptr, nullptr).wait(); }

  request all_reduce(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    return begin({detail::local_kind::all_reduce, count, type, op}, in, out);
  }
  request reduce_scatter(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type, reduction op) {
    return begin({detail::local_kind::reduce_scatter, count, type, op}, in, out);
  }
  request all_gather(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return begin({detail::local_kind::all_gather, count, type}, in, out);
  }
  request broadcast(std::byte* data, std::size_t count, tensor::dtype type, int root) {
    detail::check_rank("broadcast", root, size());
    return begin({detail::local_kind::broadcast, count, type, reduction::sum, root}, data, data);
  }
  request all_to_all(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return begin({detail::local_kind::all_to_all, count, type}, in, out);
  }

  request send(int to, std::span<const std::byte> bytes, int tag) {
    detail::check_rank("send", to, size());
    return {world_, group_, rank_, world_->post(*group_, rank_, to, tag, bytes.data(), nullptr, bytes.size(), true)};
  }
  request receive(int from, std::span<std::byte> bytes, int tag) {
    detail::check_rank("receive", from, size());
    return {world_, group_, rank_, world_->post(*group_, from, rank_, tag, nullptr, bytes.data(), bytes.size(), false)};
  }

  std::optional<local_communicator> split(int color);

  // Stops all ranks: from now on, a rank that waits for a missing rank, or starts an operation, gets an error with this
  // line.
  void fail(const std::string& line) { world_->fail(line); }

 private:
  friend std::vector<local_communicator> make_local_communicators(int size, const local_options& options);
  template <class Thread, class F>
  friend void detail::run_ranks(std::vector<local_communicator>& ranks, const F& f);

  local_communicator(std::shared_ptr<detail::local_world> world, std::shared_ptr<detail::local_group> group,
                     int rank) noexcept
      : world_{std::move(world)}, group_{std::move(group)}, rank_{rank} {}

  request begin(const detail::local_call& call, const std::byte* in, std::byte* out) {
    return {world_, group_, rank_, world_->begin(*group_, rank_, call, in, out)};
  }

  std::shared_ptr<detail::local_world> world_;
  std::shared_ptr<detail::local_group> group_;
  int rank_;
  detail::unwinding unwinding_{};
};

// One communicator per rank, in order, each for a thread of its own.
[[nodiscard]] std::vector<local_communicator> make_local_communicators(int size, const local_options& options = {});

namespace detail {

// Calls f(communicator) for each rank in its own Thread, a type that joins when it is destroyed.
template <class Thread, class F>
void run_ranks(std::vector<local_communicator>& ranks, const F& f) {
  struct outcome {
    std::exception_ptr thrown{};
    bool is_own = false;  // not just a consequence of another rank's failure
  };
  std::vector<outcome> outcomes(ranks.size());
  const auto world = ranks.front().world_;  // f may move its communicator
  const auto run = [&](std::size_t rank) {
    auto c = std::move(ranks[rank]);
    try {
      f(c);
    } catch (...) {
      const auto line = current_exception_line();
      world->fail(fmt::format("rank {}: stopped ({}); expected it to go on", rank, line));
      outcomes[rank] = {std::current_exception(), line.find(world->failure()) == std::string::npos};
    }
  };
  {
    std::vector<Thread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      try {
        threads.emplace_back(run, rank);
      } catch (const std::exception& e) {
        const error problem{fmt::format("rank {}", rank),
                            fmt::format("no thread can be started ({})", one_line(e.what())),
                            fmt::format("{} of them", ranks.size())};
        world->fail(problem.what());
        throw problem;
      }
    }
  }
  // Which rank threw first depends on timing, and it often only reports another rank's failure.
  auto found = std::find_if(outcomes.begin(), outcomes.end(), [](const auto& o) { return o.is_own; });
  if (found == outcomes.end()) {
    found = std::find_if(outcomes.begin(), outcomes.end(), [](const auto& o) { return o.thrown != nullptr; });
  }
  if (found != outcomes.end()) {
    std::rethrow_exception(found->thrown);
  }
}

}  // namespace detail

// Calls f(communicator) for each rank in its own thread and returns when all have returned.
// Throws: what a rank threw; the others then stop where they wait. Of several exceptions, that of the lowest rank that
// did not only report another rank's failure, if there is one. unity::error if the threads cannot be started.
template <class F>
void run_local(int size, const F& f, const local_options& options = {}) {
  auto ranks = make_local_communicators(size, options);
  detail::run_ranks<std::jthread>(ranks, f);
}

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_LOCAL_COMMUNICATOR)

#include <numeric>

namespace unity::backend {

UNITY_INLINE local_request& local_request::operator=(local_request&& o) noexcept {
  if (this != &o) {
    end();
    world_ = std::move(o.world_);
    group_ = std::move(o.group_);
    operation_ = std::move(o.operation_);
    rank_ = o.rank_;
    until_ = o.until_;
    unwinding_ = o.unwinding_;
  }
  return *this;
}

UNITY_INLINE void local_request::wait() {
  if (operation_) {
    start_clock();
    const auto operation = std::move(operation_);
    world_->wait(*operation, *group_, *until_);
  }
}

UNITY_INLINE bool local_request::done() {
  if (operation_) {
    start_clock();
    if (world_->poll(*operation_, *group_, *until_)) {
      operation_.reset();
    }
  }
  return operation_ == nullptr;
}

UNITY_INLINE void local_request::start_clock() {
  if (!until_) {
    until_ = world_->deadline();
  }
}

UNITY_INLINE void local_request::end() noexcept {
  if (operation_) {
    const auto give_up = [this] {
      world_->fail(fmt::format("rank {}: stopped; expected it to end its {}",
                               group_->members[static_cast<std::size_t>(rank_)], to_string(operation_->call())));
    };
    detail::end_request(unwinding_, give_up, [this] { wait(); });
  }
}

UNITY_INLINE local_communicator& local_communicator::operator=(local_communicator&& o) noexcept {
  std::swap(world_, o.world_);
  std::swap(group_, o.group_);
  std::swap(rank_, o.rank_);
  return *this;
}

UNITY_INLINE local_communicator::~local_communicator() {
  if (group_ && !unwinding_.under_way()) {
    world_->leave(*group_, rank_);
  }
}

UNITY_INLINE std::optional<local_communicator> local_communicator::split(int color) {
  const auto operation = world_->begin(*group_, rank_, {detail::local_kind::split}, nullptr, nullptr, color);
  world_->wait(*operation, *group_, world_->deadline());
  const auto group = operation->groups[static_cast<std::size_t>(rank_)];
  if (!group) {
    return std::nullopt;
  }
  const auto own = group_->members[static_cast<std::size_t>(rank_)];
  const auto place = std::find(group->members.begin(), group->members.end(), own) - group->members.begin();
  return local_communicator{world_, group, static_cast<int>(place)};
}

UNITY_INLINE std::vector<local_communicator> make_local_communicators(int size, const local_options& options) {
  if (size < 1) {
    throw error{"local communicators", fmt::format("{} ranks", size), "at least one"};
  }
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto world = std::make_shared<detail::local_world>(options.limit, options.progress_thread);
  const auto group = std::make_shared<detail::local_group>(ranks);
  std::vector<local_communicator> all;
  for (const auto rank : ranks) {
    all.push_back(local_communicator{world, group, rank});
  }
  return all;
}

}  // namespace unity::backend

#endif
