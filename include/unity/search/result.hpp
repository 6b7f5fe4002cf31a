// What a search is told and what it answers.
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

// Of every search; what only some have is in their own.
struct search_options {
  budget limits{};
  observer watch{};  // may be empty
  // Wall-clock seconds spent so far, since whenever, on what does not count as searching, such as measuring what moves
  // cost. Empty: none.
  std::function<double()> aside{};
};

// When a search that starts now ends, if its time is limited and all of it counts.
[[nodiscard]] inline std::chrono::steady_clock::time_point end_of(const search_options& o) {
  using clock = std::chrono::steady_clock;
  constexpr double longest = 1e8;  // seconds: three years
  if (o.aside || o.limits.seconds > longest) {
    return clock::time_point::max();
  }
  return clock::now() + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(o.limits.seconds));
}

// Seconds of a search.
class search_clock {
 public:
  // Starts. The options must outlive it.
  explicit search_clock(const search_options& o) : options_{o} {}

  [[nodiscard]] double seconds() const { return earlier_ + watch_.seconds() - (aside() - aside_before_); }
  // Effects: starts again, where an earlier search stopped after so many.
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

// A better state was found.
struct improvement {
  double seconds = 0;
  std::uint64_t expanded = 0;
  cost_value cost = 0;
};

template <class State, class Move>
struct search_result {
  State best;  // need not have a default
  cost_value cost = 0;
  // No state of the space that was searched (see the algorithm) costs less. Minimum: nothing is known.
  cost_value lower_bound = std::numeric_limits<cost_value>::min();
  std::vector<std::pair<Move, cost_value>> path{};  // moves from the start to best, and the cost after each
  std::vector<improvement> history{};
  counters counts{};
  // States that were met, worth expanding by the algorithm's own measure, and not expanded. Of searches with a queue.
  std::uint64_t queued = 0;
  double seconds = 0;
  stop_reason stopped = stop_reason::exhausted;
};

}  // namespace unity
