// Coordinates the threads of a process: started operations, missing ranks, and a thread that executes units of work.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/local_operation.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/core/error.hpp>

namespace unity::backend::detail {

// The ranks of a communicator. Guarded by the world's lock.
struct local_group {
  explicit local_group(std::vector<int> ranks)
      : members{std::move(ranks)}, begun(members.size()), left(members.size()) {}

  std::vector<int> members;                             // by rank in the communicator: rank in the world
  std::vector<std::uint64_t> begun;                     // by rank: number of collectives it has started
  std::vector<bool> left;                               // by rank: whether its communicator was destroyed
  std::uint64_t first = 0;                              // the number of the collective at the front of `open`
  std::deque<std::shared_ptr<local_operation>> open{};  // collectives that some rank has not reached yet
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<local_operation>>> mail{};  // by from, to, tag
};

class local_world {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  local_world(std::chrono::milliseconds limit, bool progress_thread);
  local_world(const local_world&) = delete;
  local_world& operator=(const local_world&) = delete;
  ~local_world();

  [[nodiscard]] time_point deadline() const { return deadline_after(limit_); }

  std::shared_ptr<local_operation> begin(local_group& group, int rank, const local_call& call, const std::byte* in,
                                         std::byte* out, int color = 0);

  // One end of a message; the other end finds it under (from, to, tag).
  std::shared_ptr<local_operation> post(local_group& group, int from, int to, int tag, const std::byte* in,
                                        std::byte* out, std::size_t bytes, bool sends);

  // Helps with the work of a ready operation and returns when it is complete.
  // Throws: unity::error if a rank is missing at the deadline, or the world has failed.
  void wait(local_operation& operation, const local_group& group, time_point until);
  // Executes one unit of a ready operation.
  [[nodiscard]] bool poll(local_operation& operation, const local_group& group, time_point until);

  // From now on, every rank that waits for a missing rank or starts an operation throws this line. The first line is
  // kept.
  void fail(const std::string& line) {
    const std::lock_guard hold{lock_};
    fail_locked(line);
  }
  [[nodiscard]] std::string failure() {
    const std::lock_guard hold{lock_};
    return failure_;
  }

  void leave(local_group& group, int rank);

 private:
  [[nodiscard]] static std::string name(const local_group& g, int rank) {
    return fmt::format("{}", g.members[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] std::string missing_line(const local_operation& o, const local_group& g) const;
  [[nodiscard]] static std::string left_line(int world_rank, const local_operation& o) {
    return fmt::format("rank {}: has left; expected it to come to {}", world_rank, to_string(o.call()));
  }
  [[nodiscard]] static int first_gone(const local_operation& o, const local_group& g);
  void throw_if_failed() const;
  void fail_locked(const std::string& line);
  [[noreturn]] void fail_and_throw(const std::string& line) {
    fail_locked(line);
    throw error{failure_};
  }

  static void make_groups(local_operation& split, const local_group& parent);

  // Executes small operations immediately: waking another thread would take longer.
  void start(std::unique_lock<std::mutex>& hold, const std::shared_ptr<local_operation>& operation);
  void help(local_operation& operation);
  // Taking the lock ensures that a waiter either sees the new state or is already asleep when it is notified.
  void announce() {
    { const std::lock_guard hold{lock_}; }
    changed_.notify_all();
  }
  void work();

  std::chrono::milliseconds limit_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::string failure_{};  // empty: no failure
  std::atomic<bool> failed_ = false;
  std::deque<std::shared_ptr<local_operation>> queue_{};
  bool stopping_ = false;
  std::thread worker_{};
};

}  // namespace unity::backend::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_COMMUNICATION_LOCAL_WORLD)

#include <algorithm>

namespace unity::backend::detail {

UNITY_INLINE local_world::local_world(std::chrono::milliseconds limit, bool progress_thread) : limit_{limit} {
  if (progress_thread) {
    worker_ = std::thread{[this] { work(); }};
  }
}

UNITY_INLINE local_world::~local_world() {
  if (worker_.joinable()) {
    {
      const std::lock_guard hold{lock_};
      stopping_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
}

UNITY_INLINE std::shared_ptr<local_operation> local_world::begin(local_group& group, int rank, const local_call& call,
                                                                 const std::byte* in, std::byte* out, int color) {
  std::unique_lock hold{lock_};
  throw_if_failed();
  const auto r = static_cast<std::size_t>(rank);
  const auto at = static_cast<std::size_t>(group.begun[r] - group.first);
  if (at == group.open.size()) {
    group.open.push_back(std::make_shared<local_operation>(call, group.members.size()));
    group.open.back()->colors.resize(group.members.size());
  }
  ++group.begun[r];
  const auto operation = group.open[at];
  if (!(operation->call() == call)) {
    fail_and_throw(fmt::format("rank {}: began {}; expected {} like the ranks before it", group.members[r],
                               to_string(call), to_string(operation->call())));
  }
  operation->colors[r] = color;
  if (operation->arrive(r, in, out)) {
    // It is the front: every rank has started all earlier collectives.
    group.open.pop_front();
    ++group.first;
    if (call.kind == local_kind::split) {
      make_groups(*operation, group);
    }
    start(hold, operation);
  } else if (const auto gone = first_gone(*operation, group); gone >= 0) {
    fail_and_throw(left_line(gone, *operation));
  }
  return operation;
}

UNITY_INLINE std::shared_ptr<local_operation> local_world::post(local_group& group, int from, int to, int tag,
                                                                const std::byte* in, std::byte* out, std::size_t bytes,
                                                                bool sends) {
  std::unique_lock hold{lock_};
  throw_if_failed();
  const auto mailbox = group.mail.try_emplace({from, to, tag}).first;
  auto& queue = mailbox->second;
  const std::size_t own = sends ? 0 : 1;
  const local_call call{local_kind::message, bytes, tensor::dtype::uint8};
  if (queue.empty() || queue.front()->arrived(own)) {
    queue.push_back(std::make_shared<local_operation>(call, 2));
    auto& posted = *queue.back();
    posted.from = from;
    posted.to = to;
    posted.tag = tag;
    posted.arrive(own, in, out);
    const auto other = sends ? to : from;
    if (group.left[static_cast<std::size_t>(other)]) {
      fail_and_throw(left_line(group.members[static_cast<std::size_t>(other)], posted));
    }
    return queue.back();
  }
  const auto operation = queue.front();
  queue.pop_front();
  if (queue.empty()) {
    group.mail.erase(mailbox);
  }
  if (operation->call().count != bytes) {
    const auto sent = sends ? bytes : operation->call().count;
    const auto wanted = sends ? operation->call().count : bytes;
    fail_and_throw(fmt::format("message from rank {} to rank {}, tag {}: {} bytes; expected {}", name(group, from),
                               name(group, to), tag, sent, wanted));
  }
  operation->arrive(own, in, out);
  start(hold, operation);
  return operation;
}

UNITY_INLINE void local_world::wait(local_operation& operation, const local_group& group, time_point until) {
  for (int spin = 0; spin < 64 && !operation.ready(); ++spin) {
    std::this_thread::yield();
  }
  if (!operation.ready()) {
    std::unique_lock hold{lock_};
    if (!changed_.wait_until(hold, until, [&] { return operation.ready() || !failure_.empty(); })) {
      fail_and_throw(missing_line(operation, group));
    }
    if (!operation.ready()) {
      throw_if_failed();
    }
  }
  help(operation);
  if (!operation.complete()) {
    std::unique_lock hold{lock_};
    changed_.wait(hold, [&] { return operation.complete(); });
  }
}

UNITY_INLINE bool local_world::poll(local_operation& operation, const local_group& group, time_point until) {
  if (operation.ready()) {
    bool found = false;
    if (operation.do_unit(found)) {
      announce();
    }
    return operation.complete();
  }
  if (failed_.load(std::memory_order_relaxed) || std::chrono::steady_clock::now() >= until) {
    const std::lock_guard hold{lock_};
    if (!operation.ready()) {
      throw_if_failed();
      fail_and_throw(missing_line(operation, group));
    }
  }
  return false;
}

UNITY_INLINE void local_world::leave(local_group& group, int rank) {
  const std::lock_guard hold{lock_};
  const auto r = static_cast<std::size_t>(rank);
  group.left[r] = true;
  for (const auto& operation : group.open) {
    if (!operation->arrived(r)) {
      fail_locked(left_line(group.members[r], *operation));
    }
  }
  for (const auto& [ends, queue] : group.mail) {
    for (const auto& operation : queue) {
      if ((operation->from == rank && !operation->arrived(0)) || (operation->to == rank && !operation->arrived(1))) {
        fail_locked(left_line(group.members[r], *operation));
      }
    }
  }
}

UNITY_INLINE std::string local_world::missing_line(const local_operation& o, const local_group& g) const {
  const auto slot = static_cast<int>(o.first_missing());
  const auto rank = o.call().kind == local_kind::message ? (slot == 0 ? o.from : o.to) : slot;
  return fmt::format("rank {}: did not come to {}; expected it within {}", name(g, rank), to_string(o.call()),
                     to_string(limit_));
}

UNITY_INLINE int local_world::first_gone(const local_operation& o, const local_group& g) {
  for (std::size_t r = 0; r < g.members.size(); ++r) {
    if (g.left[r] && !o.arrived(r)) {
      return g.members[r];
    }
  }
  return -1;
}

UNITY_INLINE void local_world::throw_if_failed() const {
  if (!failure_.empty()) {
    throw error{failure_};
  }
}

UNITY_INLINE void local_world::fail_locked(const std::string& line) {
  if (failure_.empty()) {
    failure_ = line;
    failed_.store(true, std::memory_order_relaxed);
    changed_.notify_all();
  }
}

UNITY_INLINE void local_world::make_groups(local_operation& split, const local_group& parent) {
  std::map<int, std::vector<int>> members;
  for (std::size_t r = 0; r < parent.members.size(); ++r) {
    if (split.colors[r] >= 0) {
      members[split.colors[r]].push_back(parent.members[r]);
    }
  }
  std::map<int, std::shared_ptr<local_group>> groups;
  for (auto& [color, ranks] : members) {
    groups[color] = std::make_shared<local_group>(std::move(ranks));
  }
  for (std::size_t r = 0; r < parent.members.size(); ++r) {
    split.groups.push_back(split.colors[r] >= 0 ? groups[split.colors[r]] : nullptr);
  }
}

UNITY_INLINE void local_world::start(std::unique_lock<std::mutex>& hold,
                                     const std::shared_ptr<local_operation>& operation) {
  operation->make_ready();
  const bool small = operation->units() <= 1;
  if (!small && worker_.joinable()) {
    queue_.push_back(operation);
  }
  hold.unlock();
  if (small) {
    bool found = false;
    operation->do_unit(found);
  }
  announce();
}

UNITY_INLINE void local_world::help(local_operation& operation) {
  for (bool found = true; found;) {
    if (operation.do_unit(found)) {
      announce();
    }
  }
}

UNITY_INLINE void local_world::work() {
  std::unique_lock hold{lock_};
  for (;;) {
    changed_.wait(hold, [&] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) {
      return;
    }
    const auto operation = std::move(queue_.front());
    queue_.pop_front();
    hold.unlock();
    help(*operation);
    hold.lock();
  }
}

}  // namespace unity::backend::detail

#endif
