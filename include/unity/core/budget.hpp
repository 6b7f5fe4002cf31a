// Limits of a search, and the reason why it stopped.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string_view>

#include <fmt/core.h>

#include <unity/core/printable.hpp>

namespace unity {

// Limits of a search; unset ones do not limit. Time is checked between expansions and within them; a search that writes
// checkpoints finishes the current expansion.
struct budget {
  double seconds = std::numeric_limits<double>::infinity();
  std::uint64_t expansions = std::numeric_limits<std::uint64_t>::max();
  std::size_t memory = std::numeric_limits<std::size_t>::max();  // bytes that the search itself holds
};

enum class stop_reason : std::uint8_t { exhausted, converged, time, expansions, memory, observer };

[[nodiscard]] constexpr std::string_view to_string(stop_reason r) noexcept {
  switch (r) {
    case stop_reason::exhausted: return "exhausted";
    case stop_reason::converged: return "converged";
    case stop_reason::time: return "time";
    case stop_reason::expansions: return "expansions";
    case stop_reason::memory: return "memory";
    case stop_reason::observer: return "observer";
  }
  return "unknown";
}

// Counters of a search. The first four do not depend on time or threads.
struct counters {
  std::uint64_t expanded = 0;    // states whose moves were priced
  std::uint64_t candidates = 0;  // valid moves: shapes, acyclicity, cost and fingerprint computed
  std::uint64_t rejected = 0;    // moves that were priced and found invalid there
  std::uint64_t duplicates = 0;  // candidates met before, at either test
  std::uint64_t asleep = 0;      // moves not priced because an equal interleaving is explored elsewhere
  friend bool operator==(const counters&, const counters&) = default;
};

struct progress {
  double seconds = 0;
  std::int64_t best = 0;
  std::uint64_t queued = 0;
  counters counts{};
};

// Called between expansions at most every few milliseconds; returning false stops the search.
using observer = std::function<bool(const progress&)>;

// Wall-clock seconds since construction.
class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Thrown when time is over; caught by whoever set the limit.
struct out_of_time : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "the time ran out"; }
};

// The deadline of a computation that has no result before its end.
class time_limit {
 public:
  // Infinity: no limit.
  void end_in(double seconds) {
    using clock = std::chrono::steady_clock;
    constexpr double longest = 1e8;  // three years: far below the range of a clock
    end_ = seconds < longest
               ? clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>{seconds})
               : clock::time_point::max();
  }
  // Throws: out_of_time.
  void check() const {
    if (end_ != std::chrono::steady_clock::time_point::max() && std::chrono::steady_clock::now() >= end_) {
      throw out_of_time{};
    }
  }

 private:
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::time_point::max();
};

// Decides when to read a clock that costs as much as the work between two readings: every tenth of a millisecond, at
// least every 64th time.
class clock_pace {
 public:
  // Whether to read the clock now; if so, call read() with the result.
  [[nodiscard]] bool is_due() noexcept { return --left_ == 0; }
  void read(double seconds) noexcept {
    const auto passed = seconds - last_;
    last_ = seconds;
    interval_ = passed < 1e-4 ? (interval_ < 64 ? 2 * interval_ : 64) : passed > 1e-3 ? 1 : interval_;
    left_ = interval_;
  }

 private:
  unsigned interval_ = 1;
  unsigned left_ = 1;
  double last_ = 0;
};

}  // namespace unity

template <>
struct fmt::formatter<unity::stop_reason> : unity::plain_formatter {
  template <class Context>
  auto format(unity::stop_reason r, Context& context) const -> decltype(context.out()) {
    return put(context, unity::to_string(r));
  }
};
