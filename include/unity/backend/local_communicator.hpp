// Threads of one process as ranks.
//
// Data moves when the last rank has come: what is small at once, by that rank; the rest by a thread of the world's own
// while the ranks compute, and by ranks that wait. Reductions are in the order of ranks, element by element, so results
// do not depend on timing.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unity/backend/communication/local_world.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>

namespace unity::backend {

struct local_options {
  std::chrono::milliseconds limit = default_time_limit;
  bool progress_thread = true;  // without it data moves only while ranks wait or ask whether it is done
};

// Models communication_request. Belongs to one thread at a time.
class local_request {
 public:
  local_request(local_request&& o) noexcept = default;
  local_request& operator=(local_request&& o) noexcept {
    if (this != &o) {
      end();
      world_ = std::move(o.world_);
      group_ = std::move(o.group_);
      operation_ = std::move(o.operation_);
      rank_ = o.rank_;
      until_ = o.until_;
      exceptions_ = o.exceptions_;
    }
    return *this;
  }
  ~local_request() { end(); }

  void wait() {
    if (operation_) {
      start_clock();
      const auto operation = std::move(operation_);
      world_->wait(*operation, *group_, *until_);
    }
  }
  [[nodiscard]] bool done() {
    if (operation_) {
      start_clock();
      if (world_->poll(*operation_, *group_, *until_)) {
        operation_.reset();
      }
    }
    return operation_ == nullptr;
  }

 private:
  friend class local_communicator;

  local_request(std::shared_ptr<detail::local_world> world, std::shared_ptr<detail::local_group> group, int rank,
                std::shared_ptr<detail::local_operation> operation) noexcept
      : world_{std::move(world)}, group_{std::move(group)}, operation_{std::move(operation)}, rank_{rank} {}

  void start_clock() {
    if (!until_) {
      until_ = world_->deadline();
    }
  }
  // An exception is on its way through this rank: nobody may wait for it, nor touch its memory any more.
  void end() noexcept {
    try {
      if (operation_ && std::uncaught_exceptions() > exceptions_) {
        world_->fail("rank " + std::to_string(group_->members[static_cast<std::size_t>(rank_)]) +
                     ": stopped; expected it to end its " + to_string(operation_->call()));
      }
      wait();
    } catch (...) {
      // The next operation of this rank says it.
    }
  }

  std::shared_ptr<detail::local_world> world_;
  std::shared_ptr<detail::local_group> group_;
  std::shared_ptr<detail::local_operation> operation_;  // null: nothing is left to wait for
  int rank_;
  std::optional<std::chrono::steady_clock::time_point> until_{};
  int exceptions_ = std::uncaught_exceptions();
};

// Models splitting_communicator. Belongs to one thread at a time; requests may outlive it.
// Effects: a rank whose communicator is destroyed has left; who waits for it then gets an error.
class local_communicator {
 public:
  using request = local_request;

  local_communicator(local_communicator&&) noexcept = default;
  local_communicator& operator=(local_communicator&& o) noexcept {
    std::swap(world_, o.world_);
    std::swap(group_, o.group_);
    std::swap(rank_, o.rank_);
    return *this;
  }
  ~local_communicator() {
    if (group_) {
      world_->leave(*group_, rank_);
    }
  }

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
    check_rank("broadcast", root);
    return begin({detail::local_kind::broadcast, count, type, reduction::sum, root}, data, data);
  }
  request all_to_all(const std::byte* in, std::byte* out, std::size_t count, tensor::dtype type) {
    return begin({detail::local_kind::all_to_all, count, type}, in, out);
  }

  request send(int to, std::span<const std::byte> bytes, int tag) {
    check_rank("send", to);
    return {world_, group_, rank_, world_->post(*group_, rank_, to, tag, bytes.data(), nullptr, bytes.size(), true)};
  }
  request receive(int from, std::span<std::byte> bytes, int tag) {
    check_rank("receive", from);
    return {world_, group_, rank_, world_->post(*group_, from, rank_, tag, nullptr, bytes.data(), bytes.size(), false)};
  }

  std::optional<local_communicator> split(int color) {
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

  // Stops all ranks: from now on who waits for a missing rank, or begins anything, gets an error with this line.
  void fail(const std::string& line) { world_->fail(line); }

 private:
  friend std::vector<local_communicator> make_local_communicators(int size, const local_options& options);

  local_communicator(std::shared_ptr<detail::local_world> world, std::shared_ptr<detail::local_group> group,
                     int rank) noexcept
      : world_{std::move(world)}, group_{std::move(group)}, rank_{rank} {}

  request begin(const detail::local_call& call, const std::byte* in, std::byte* out) {
    return {world_, group_, rank_, world_->begin(*group_, rank_, call, in, out)};
  }
  void check_rank(const char* what, int rank) const {
    if (rank < 0 || rank >= size()) {
      throw error{what, "rank " + std::to_string(rank), "one below " + std::to_string(size())};
    }
  }

  std::shared_ptr<detail::local_world> world_;
  std::shared_ptr<detail::local_group> group_;
  int rank_;
};

// One for each rank, in order, to be handed to as many threads.
[[nodiscard]] inline std::vector<local_communicator> make_local_communicators(int size,
                                                                              const local_options& options = {}) {
  if (size < 1) {
    throw error{"local communicators", std::to_string(size) + " ranks", "at least one"};
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

// Calls f(communicator) for each rank in a thread of its own and returns when all have returned.
// Throws: what the first rank that failed threw; the others stop where they wait.
template <class F>
void run_local(int size, const F& f, const local_options& options = {}) {
  std::exception_ptr first;
  std::mutex lock;
  const auto run = [&](local_communicator c) {
    const auto keep = [&](const std::string& line) {
      const std::lock_guard hold{lock};
      if (!first) {
        first = std::current_exception();
      }
      c.fail("rank " + std::to_string(c.rank()) + ": stopped (" + line + "); expected it to go on");
    };
    try {
      f(c);
    } catch (const std::exception& e) {
      keep(e.what());
    } catch (...) {
      keep("unknown exception");
    }
  };
  std::vector<std::thread> threads;
  for (auto& c : make_local_communicators(size, options)) {
    threads.emplace_back(run, std::move(c));
  }
  for (auto& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace unity::backend
