// A thread beside an MPI program that notices missing ranks.
//
// MPI itself waits forever. So each process has a watch: a thread that tracks what the process waits for, and for how
// long. After the time limit it asks all other watches whether their processes wait as well, and sends the conclusion
// to all ranks: a rank that does not answer, or answers that it is elsewhere, is missing. For ranks that do not answer
// at all, a shorter limit applies. The same thread drives MPI while messages are in flight and no thread waits for
// them.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/communication/mpi_start.hpp>
#include <unity/backend/communication/rank_failure.hpp>
#include <unity/backend/communicator.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>

namespace unity::backend {

struct mpi_options {
  std::chrono::milliseconds limit = default_time_limit;
  std::chrono::milliseconds start_limit = default_time_limit;  // until all ranks have started
  // The time after which a rank without any sign of life is considered lost. Computing does not count as silence: a
  // separate thread answers.
  std::chrono::milliseconds silence = default_silence;
  // Whether data moves while ranks compute, driven by a thread that wakes up 20,000 times a second while requests are
  // in flight. Otherwise data moves while ranks wait or test for completion, and 200 times a second.
  bool progress_thread = true;
  // Handles SIGTERM, which mpirun sends to all ranks when one has died: each rank reports which one before it ends. The
  // signal is blocked in the thread that starts MPI, and in the threads and processes that this thread starts.
  bool take_termination = false;
  // Identifies what this rank is going to run, and on which data: a plan, the command line. Ranks that differ do not
  // start.
  fingerprint program{};
};

namespace detail {

// The ranks of a communicator: by rank in the communicator, the rank in the world.
struct mpi_group {
  std::vector<int> members;
};

class mpi_watch {
 public:
  using clock = std::chrono::steady_clock;

  // `control`: the communicator for the watches' own messages. The guard ends the process if a call of the watch does
  // not return. Before the watch is destroyed, the guard is given something else to expect.
  mpi_watch(MPI_Comm control, int rank, int size, const mpi_options& options, mpi_guard& guard)
      : options_{options},
        rank_{rank},
        size_{size},
        control_{control},
        answers_(static_cast<std::size_t>(size)),
        guard_{guard} {
    guard_.expect(std::max(options.silence, std::chrono::milliseconds{1000}), [this] { return lost_line(); });
    thread_ = std::thread{[this] { run(); }};
  }
  mpi_watch(const mpi_watch&) = delete;
  mpi_watch& operator=(const mpi_watch&) = delete;
  ~mpi_watch() {
    {
      const std::lock_guard hold{lock_};
      stopping_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  void throw_if_failed() {
    if (failed()) {
      const std::lock_guard hold{lock_};
      throw error{failure_};
    }
  }
  // Tells all ranks to stop with this line.
  void fail(const std::string& line) {
    const std::lock_guard hold{lock_};
    if (failure_.empty()) {
      set_failure(line);
      wanted_.push_back({stopped, 0, line});
      wake();
    }
  }

  // For a request that is still in flight while its memory is about to be freed. MPI would still write there when data
  // arrives. So once all ranks have been told, this process makes no more MPI calls.
  void abandon() {
    std::unique_lock hold{lock_};
    abandoned_ = true;
    wake();
    changed_.wait(hold, [this] { return quiet_; });
  }

  // Prints a line about the end of this process; only the first call prints.
  void say(const std::string& line) { guard_.say(line); }

  // While an object of this class exists, the process counts as waiting for the operation.
  class waiting {
   public:
    waiting(mpi_watch& w, const mpi_group& group, const char* what, bool blocking) noexcept : watch_{w} {
      w.waits_at_.set(group, what);
      w.blocking_.store(blocking, std::memory_order_relaxed);
      count();
    }
    waiting(const waiting&) = delete;
    waiting& operator=(const waiting&) = delete;
    ~waiting() { count(); }

   private:
    // Only one thread writes; an odd number means that it waits.
    void count() noexcept {
      watch_.waits_.store(watch_.waits_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    mpi_watch& watch_;
  };

  // The program tested a request. This counts as waiting for a while, and after `until` as waiting in vain.
  void asked(const mpi_group& group, const char* what, clock::time_point until) noexcept {
    const auto now = clock::now();
    asked_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    if (now >= until) {
      asks_for_.set(group, what);
      asked_in_vain_.store(now.time_since_epoch().count(), std::memory_order_release);
    }
  }

  // A request of `bytes` was started, which the watch drives. The watch is not woken, because that would take as long
  // as a small message: it polls, and more often for a while after a request of many bytes, to notice the next one.
  void begun(std::size_t bytes) noexcept {
    constexpr std::size_t much = std::size_t{64} << 10U;
    under_way_.store(under_way_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (bytes >= much) {
      moved_.store(moved_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }
  void ended() noexcept {
    under_way_.store(under_way_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    // If that was another request, the next test sets it again.
    asked_in_vain_.store(0, std::memory_order_relaxed);
  }

 private:
  enum kind : int { roll_call, answer, stopped };
  struct order {
    kind what = roll_call;
    int value = 0;
    std::string line{};
  };
  struct message {
    int what = 0;
    int value = 0;
    std::array<char, 504> line{};
  };
  enum : signed char { silent = -1, elsewhere = 0, waits = 1 };
  // The operation that the program waits for. Written by the thread that communicates.
  struct place {
    std::atomic<const mpi_group*> group = nullptr;
    std::atomic<const char*> what = "";

    void set(const mpi_group& g, const char* w) noexcept {
      group.store(&g, std::memory_order_relaxed);
      what.store(w, std::memory_order_relaxed);
    }
  };

  void wake() {
    kicked_ = true;
    changed_.notify_all();
  }
  void set_failure(const std::string& line) {
    if (failure_.empty()) {
      failure_ = line;
      failed_.store(true, std::memory_order_release);
    }
  }
  // ---- functions of the watch's thread ----

  void run() {
    for (;;) {
      sends_to_.store(nobody, std::memory_order_relaxed);
      guard_.come_round();
      receive();
      std::unique_lock hold{lock_};
      const auto orders = std::exchange(wanted_, {});
      hold.unlock();
      for (const auto& o : orders) {
        send_all(o);
      }
      look_for_termination();
      failed() ? leave_blocking_call() : look();
      hold.lock();
      if (!wanted_.empty()) {
        continue;
      }
      if (stopping_) {
        return;
      }
      if (abandoned_ && !quiet_) {
        quiet_ = true;
        changed_.notify_all();
      }
      changed_.wait_for(hold, pause(), [this] { return stopping_ || kicked_; });
      kicked_ = false;
    }
  }
  [[nodiscard]] std::chrono::microseconds pause() {
    if (options_.progress_thread) {
      // A waiting thread drives MPI itself.
      if (under_way_.load(std::memory_order_relaxed) > 0 && (waits_.load(std::memory_order_relaxed) & 1U) == 0) {
        return std::chrono::microseconds{50};
      }
      const auto moved = moved_.load(std::memory_order_relaxed);
      quiet_looks_ = std::exchange(moved_seen_, moved) == moved ? quiet_looks_ + 1 : 0;
      if (quiet_looks_ < 100) {
        return std::chrono::microseconds{500};
      }
    }
    return std::chrono::milliseconds{5};
  }

  void receive() {
    while (!quiet_) {
      int there = 0;
      MPI_Status status;
      if (MPI_Iprobe(MPI_ANY_SOURCE, 0, control_, &there, &status) != MPI_SUCCESS || there == 0) {
        return;
      }
      message m;
      if (MPI_Recv(&m, sizeof m, MPI_BYTE, status.MPI_SOURCE, 0, control_, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return;
      }
      if (m.what == roll_call) {
        send(status.MPI_SOURCE, {answer, m.value * 2 + (is_waiting() ? 1 : 0)});
      } else if (m.what == answer) {
        if (m.value / 2 == call_) {
          answers_[static_cast<std::size_t>(status.MPI_SOURCE)] = m.value % 2 != 0 ? waits : elsewhere;
        }
      } else {
        const std::lock_guard hold{lock_};
        set_failure(m.line.data());
      }
    }
  }
  // Repeated testing counts as waiting.
  [[nodiscard]] bool is_waiting() const {
    return (waits_.load(std::memory_order_acquire) & 1U) != 0 || is_recent(asked_);
  }
  [[nodiscard]] static bool is_recent(const std::atomic<clock::rep>& moment) {
    return clock::now().time_since_epoch() - clock::duration{moment.load(std::memory_order_acquire)} <
           std::chrono::milliseconds{200};
  }

  void send(int to, const order& o) {
    auto& m = sent_.emplace_back();
    m.what = o.what;
    m.value = o.value;
    o.line.copy(m.line.data(), m.line.size() - 1);
    // The answer shows whether it arrived. The memory is kept until the session ends.
    sends_to_.store(to, std::memory_order_relaxed);
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(&m, sizeof m, MPI_BYTE, to, 0, control_, &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
  void send_all(const order& o) {
    for (int r = 0; r < size_; ++r) {
      if (r != rank_) {
        send(r, o);
      }
    }
  }

  void look() {
    const auto now = clock::now();
    const auto waits_now = waits_.load(std::memory_order_acquire);
    const bool moves = waits_now != seen_ || (waits_now & 1U) == 0;
    seen_ = waits_now;
    if (moves) {
      since_ = now;
    }
    const bool waits_in_vain = !moves && now - since_ >= options_.limit;
    const bool asks_in_vain = !waits_in_vain && is_recent(asked_in_vain_);
    const bool is_late = terminating_ || waits_in_vain || asks_in_vain;
    // While waiting, checks now and then whether all ranks are alive, and continues to wait if they are.
    const bool looks_around = !moves && now - std::max(since_, answered_) >= options_.silence / 2;
    asking_ = asking_ && (is_late || !moves);
    if (!asking_) {
      if (is_late || looks_around) {
        stuck_at_ = asks_in_vain ? &asks_for_ : &waits_at_;
        ask(now, is_late);
      }
      return;
    }
    const bool all = std::find(answers_.begin(), answers_.end(), silent) == answers_.end();
    if (all && !is_late) {
      asking_ = false;
      answered_ = now;
    } else if (all || now >= until_) {
      fail(verdict());
    }
  }
  void ask(clock::time_point now, bool is_late) {
    asking_ = true;
    // Ranks under load answer late; but SIGKILL follows SIGTERM after a second.
    using std::chrono::milliseconds;
    const auto patience =
        is_late ? std::clamp(options_.limit, milliseconds{200}, milliseconds{5000}) : options_.silence / 2;
    until_ = now + (terminating_ ? milliseconds{500} : patience);
    ++call_;
    std::fill(answers_.begin(), answers_.end(), silent);
    answers_[static_cast<std::size_t>(rank_)] = waits;
    send_all({roll_call, call_});
  }
  [[nodiscard]] std::string verdict() const {
    if (terminating_) {
      const auto dead = std::find(answers_.begin(), answers_.end(), silent) - answers_.begin();
      return dead < size_ ? fmt::format("rank {}: has died; expected it to go on", dead)
                          : fmt::format("rank {}: told to stop (SIGTERM); expected to go on", rank_);
    }
    const std::string what{stuck_at_->what.load(std::memory_order_relaxed)};
    const auto& own = stuck_at_->group.load(std::memory_order_relaxed)->members;
    std::vector<int> world(answers_.size());
    for (std::size_t r = 0; r < world.size(); ++r) {
      world[r] = static_cast<int>(r);
    }
    const auto within = [](std::chrono::milliseconds limit) {
      return fmt::format("; expected it within {}", to_string(limit));
    };
    for (const auto state : {silent, elsewhere}) {
      for (const auto* const ranks : {&own, &std::as_const(world)}) {
        for (const int r : *ranks) {
          if (answers_[static_cast<std::size_t>(r)] == state) {
            const auto rank = fmt::format("rank {}", r);
            return state == silent ? fmt::format("{}: does not answer at {}{}", rank, what,
                                                 within(std::min(options_.limit, options_.silence)))
                                   : fmt::format("{}: did not come to {}{}", rank, what, within(options_.limit));
          }
        }
      }
    }
    return fmt::format(
        "rank {}: waits at {} for {}, and all others wait as well; expected the same operations in the same order on "
        "all ranks",
        rank_, what, to_string(options_.limit));
  }
  // Called by the guard's thread.
  [[nodiscard]] std::string lost_line() const {
    const auto to = sends_to_.load(std::memory_order_relaxed);
    return to != nobody
               ? fmt::format("rank {}: cannot be reached; expected it to go on", to)
               : fmt::format("rank {}: MPI does not return since a rank was lost; expected all to go on", rank_);
  }
  // Ends the process if it is inside a call that cannot be aborted.
  void leave_blocking_call() {
    const auto now = clock::now();
    const auto waits_now = waits_.load(std::memory_order_acquire);
    if (waits_now != seen_ || (waits_now & 1U) == 0 || !blocking_.load(std::memory_order_relaxed)) {
      seen_ = waits_now;
      since_stuck_ = now;
      stuck_ = false;
    } else if (!stuck_) {
      stuck_ = true;
      since_stuck_ = now;
    } else if (now - since_stuck_ > std::chrono::milliseconds{200}) {
      stop_process();
    }
  }
  void look_for_termination() {
    if (!terminating_ && guard_.terminated()) {
      terminating_ = true;
      asking_ = false;  // starts a new roll call
    }
    if (terminating_ && failed()) {
      stop_process();
    }
  }
  [[noreturn]] void stop_process() {
    std::string line;
    {
      const std::lock_guard hold{lock_};
      line = failure_;
    }
    say(line);
    // Keeps answering for a while, so that other ranks do not take this one for the one that died.
    for (const auto end = clock::now() + linger; clock::now() < end;) {
      receive();
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    std::_Exit(1);
  }

  mpi_options options_;
  int rank_;
  int size_;
  MPI_Comm control_;

  // Written by the thread that communicates.
  std::atomic<std::uint64_t> waits_ = 0;  // odd: it waits
  place waits_at_{};
  std::atomic<bool> blocking_ = false;
  std::atomic<clock::rep> asked_ = 0;          // time of the last test
  std::atomic<clock::rep> asked_in_vain_ = 0;  // time of the last test in vain; 0: that request has completed
  place asks_for_{};
  std::atomic<int> under_way_ = 0;
  std::atomic<std::uint64_t> moved_ = 0;  // number of requests with much to move

  std::mutex lock_;
  std::condition_variable changed_;
  std::string failure_{};
  std::atomic<bool> failed_ = false;
  bool kicked_ = false;
  bool abandoned_ = false;
  bool quiet_ = false;  // written by the watch
  bool stopping_ = false;
  std::vector<order> wanted_{};

  // Used only by the watch's thread.
  std::deque<message> sent_{};
  std::uint64_t moved_seen_ = 0;
  int quiet_looks_ = 100;
  std::uint64_t seen_ = 0;
  clock::time_point since_{};
  bool asking_ = false;
  clock::time_point answered_{};  // last time that all ranks had answered
  const place* stuck_at_ = &waits_at_;
  clock::time_point until_{};
  int call_ = 0;
  std::vector<signed char> answers_;
  bool terminating_ = false;
  bool stuck_ = false;
  clock::time_point since_stuck_{};
  static constexpr int nobody = -1;
  std::atomic<int> sends_to_ = nobody;  // written by the watch
  mpi_guard& guard_;
  std::thread thread_{};
};

}  // namespace detail
}  // namespace unity::backend
