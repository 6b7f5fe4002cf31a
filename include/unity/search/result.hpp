// What a search is told and what it answers.
#pragma once

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

struct search_options {
  budget limits{};
  std::uint64_t seed = 0;
  std::size_t threads = 1;      // the answer does not depend on it
  observer watch{};             // may be empty
  std::string checkpoint{};     // file to write while searching; empty: none
  double checkpoint_seconds = 60;
  // Wall-clock seconds spent so far, since whenever, on what does not count as searching, such as measuring what moves
  // cost. Empty: none.
  std::function<double()> aside{};
};

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
  double seconds = 0;
  stop_reason stopped = stop_reason::exhausted;
};

}  // namespace unity
