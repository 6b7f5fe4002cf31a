// Options and results of searches.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/cost/cost_model.hpp>

namespace unity {

// Options of every search; algorithms add their own.
struct search_options {
  budget limits{};
  observer watch{};  // may be empty
  // Monotonic seconds to exclude from the search time, such as measuring the cost of moves; of all threads together,
  // which may call it at the same time. Empty: none.
  std::function<double()> aside{};
};

// When a search that starts now ends, if its time is limited and none of it is excluded.
[[nodiscard]] inline std::chrono::steady_clock::time_point end_of(const search_options& o) {
  using clock = std::chrono::steady_clock;
  constexpr double longest = 1e8;  // seconds: three years
  if (o.aside || o.limits.seconds > longest) {
    return clock::time_point::max();
  }
  return clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.limits.seconds));
}

// Measures the seconds of a search.
class search_clock {
 public:
  // Starts the clock. The options must outlive it.
  explicit search_clock(const search_options& o) : options_{o} {}

  [[nodiscard]] double seconds() const { return earlier_ + watch_.seconds() - (aside() - aside_before_); }
  // Effects: restarts as the continuation of a search that ran for this many seconds.
  void go_on_from(double seconds) {
    earlier_ = seconds;
    watch_ = {};
    aside_before_ = aside();
  }

 private:
  [[nodiscard]] double aside() const { return options_.aside ? options_.aside() : 0; }

  const search_options& options_;
  stopwatch watch_{};
  double earlier_ = 0;
  double aside_before_ = aside();
};

// A better state that was found.
struct improvement {
  double seconds = 0;
  std::uint64_t expanded = 0;
  cost_value cost = 0;
};

template <class State, class Move>
struct search_result {
  State best;  // need not be default-constructible
  cost_value cost = 0;
  // No state of the searched space (see the algorithm) costs less. Minimum: unknown.
  cost_value lower_bound = std::numeric_limits<cost_value>::min();
  std::vector<std::pair<Move, cost_value>> path{};  // moves from the start to best, and the cost after each
  std::vector<improvement> history{};
  counters counts{};
  // Candidates that the algorithm would still expand. For searches with a queue.
  std::uint64_t queued = 0;
  double seconds = 0;
  stop_reason stopped = stop_reason::exhausted;
};

}  // namespace unity
