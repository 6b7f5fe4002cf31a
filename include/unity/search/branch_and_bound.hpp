// Depth-first branch and bound over assignments: proves an optimum if enumeration is infeasible.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

template <class P>
concept has_decisions = requires(const P& p, std::size_t decision) {
  { p.decision_count() } -> std::convertible_to<std::size_t>;
  { p.choice_count(decision) } -> std::convertible_to<std::size_t>;
};

// bound(choice): the result of push, without making the decision. If bound is cheap, a prefix is only made when it is
// visited, and push need not return a bound.
template <class P>
concept has_choice_bounds = requires(const P& p, std::uint32_t choice) {
  { p.bound(choice) } -> std::same_as<cost_value>;
};

namespace detail {

// The return type of push: a bound, or anything if `bound` exists.
template <class P>
using push_answer = std::conditional_t<has_choice_bounds<P>, decltype(std::declval<P&>().push(0U)), cost_value>;

}  // namespace detail

template <class P>
concept has_prefix = requires(P& p, std::uint32_t choice) {
  { p.push(choice) } -> std::same_as<detail::push_answer<P>>;
  p.pop();
};

template <class P>
concept has_bounded_cost = requires(P& p, cost_value bound) {
  { p.cost(bound) } -> std::same_as<std::optional<cost_value>>;
};

// A fixed sequence of decisions, each with numbered choices, and the current prefix of decisions made.
//   decision_count(), choice_count(d)   of the whole problem
//   push(choice)                        makes the next decision; returns a lower bound on the cost of every completion
//   bound(choice)                       alternatively: that bound without making the decision (has_choice_bounds)
//   pop()                               undoes the last decision
//   cost(bound)                         if all decisions are made: the cost, or nothing if it exceeds the bound
// Laws: the result of push or bound is at most the cost of each completion of the prefix (the greatest number: no
// completion is of interest), and depends only on the prefix; pop restores the state before push. Models:
// systems::strategy_problem; test/search/branch_and_bound.cpp has the smallest. Non-model: an evaluator, which changes
// whole states.
template <class P>
concept assignment_problem = has_decisions<P> && has_prefix<P> && has_bounded_cost<P>;

struct branch_and_bound_options : search_options {
  // A cost known to be feasible: only cheaper assignments are searched.
  cost_value incumbent = std::numeric_limits<cost_value>::max();
  // Searches below increasing limits, starting near the least bound, so that a bad incumbent does not make the search
  // explore everything below it.
  // Source: Korf, Depth-first iterative-deepening, Artificial Intelligence 27(1), 1985.
  bool deepening = true;
};

// best: the choices, or nothing if none costs less than the incumbent; cost: that of best, or the incumbent. Without
// path.
// Counts over all rounds of deepening: `expanded` prefixes whose next decision was tried, `candidates` computed bounds,
// `rejected` candidates that were pruned at once.
struct branch_and_bound_result : search_result<std::optional<std::vector<std::uint32_t>>, std::uint32_t> {
  std::uint64_t evaluated = 0;  // complete assignments
  std::size_t rounds = 0;       // of deepening
};

namespace detail {

template <class Problem>
class depth_first_search {
 public:
  depth_first_search(Problem& problem, const branch_and_bound_options& options) : problem_{problem}, options_{options} {
    result_.cost = options.incumbent;
    path_.resize(problem.decision_count());
    frames_.resize(path_.size());
  }

  branch_and_bound_result run() {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    auto limit = result_.cost;
    if (options_.deepening && !path_.empty()) {
      expand(most);
      const auto least = frames_[0].end == 0 ? most : children_.front().bound;
      slack_ = std::max<cost_value>(1, (least < 0 ? -(least + 1) : least) / 512);
      limit = std::min(limit, plus_slack(least));
    }
    for (;;) {
      ++result_.rounds;
      search(limit);
      if (is_stopped_ || result_.best || limit == options_.incumbent) {
        break;
      }
      lower_ = limit;
      slack_ += std::min(slack_, most - slack_);
      limit = std::min(options_.incumbent, plus_slack(limit));
    }
    // If stopped, open prefixes may cost less than the best; otherwise everything left costs at least as much as the
    // best.
    result_.lower_bound = is_stopped_ ? std::max(lower_, std::min({open_, limit, result_.cost})) : result_.cost;
    result_.seconds = clock_.seconds();
    return std::move(result_);
  }

 private:
  struct child {
    cost_value bound = 0;
    std::uint32_t choice = 0;

    friend bool operator<(child a, child b) { return a.bound != b.bound ? a.bound < b.bound : a.choice < b.choice; }
  };
  struct frame {  // the remaining children of a prefix
    std::size_t next = 0;
    std::size_t end = 0;
  };

  [[nodiscard]] cost_value plus_slack(cost_value from) const {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    return from > most - slack_ ? most : from + slack_;
  }

  // Searches all assignments below the limit.
  void search(cost_value limit) {
    cutoff_ = limit;
    if (path_.empty()) {
      evaluate();
      return;
    }
    expand(cutoff_);
    for (;;) {
      auto& f = frames_[depth_];
      // Bounds are ascending: after one above the cutoff, all are.
      const bool is_done = f.next == f.end || children_[f.next].bound >= cutoff_;
      if (is_done || is_stopped_) {
        open_ = is_done ? open_ : std::min(open_, children_[f.next].bound);
        if (depth_ == 0) {
          return;
        }
        back();
        continue;
      }
      const auto chosen = children_[f.next++];
      problem_.push(chosen.choice);
      path_[depth_++] = chosen.choice;
      if (depth_ == path_.size()) {
        evaluate();
        back();
        reached_time();  // the costs of many leaves may take long
      } else if (reached_limit()) {
        open_ = std::min(open_, chosen.bound);
        back();
      } else {
        expand(cutoff_);
      }
    }
  }
  void back() {
    problem_.pop();
    --depth_;
  }

  // Computes the frame of the prefix: its children below the limit, ordered by bound, then choice, stored after those
  // of the previous frame.
  void expand(cost_value limit) {
    ++result_.counts.expanded;
    const auto count = static_cast<std::uint32_t>(problem_.choice_count(depth_));
    const auto first = depth_ == 0 ? 0 : frames_[depth_ - 1].end;
    if (children_.size() < first + count) {
      children_.resize(2 * (first + count));
    }
    auto* const begin = children_.data() + first;
    auto* end = begin;
    for (std::uint32_t c = 0; c < count; ++c) {
      const auto bound = bound_of(c);
      *end = {bound, c};
      end += bound < limit ? 1 : 0;
    }
    const auto kept = static_cast<std::size_t>(end - begin);
    result_.counts.candidates += count;
    result_.counts.rejected += count - kept;
    if (kept == 2) {  // avoids a call of sort, which would cost as much as a cheap bound
      if (begin[1] < begin[0]) {
        std::swap(begin[0], begin[1]);
      }
    } else if (kept > 2) {
      std::sort(begin, end);
    }
    frames_[depth_] = {first, first + kept};
  }
  [[nodiscard]] cost_value bound_of(std::uint32_t choice) {
    if constexpr (has_choice_bounds<Problem>) {
      return problem_.bound(choice);
    } else {
      const auto bound = problem_.push(choice);
      problem_.pop();
      return bound;
    }
  }
  void evaluate() {
    ++result_.evaluated;
    if (cutoff_ == std::numeric_limits<cost_value>::min()) {
      return;
    }
    const auto cost = problem_.cost(cutoff_ - 1);
    if (cost && *cost < cutoff_) {
      cutoff_ = result_.cost = *cost;
      result_.best = path_;
      result_.history.push_back({clock_.seconds(), result_.counts.expanded, *cost});
    }
  }

  [[nodiscard]] bool reached_limit() {
    if (result_.counts.expanded >= options_.limits.expansions) {
      return stop(stop_reason::expansions);
    }
    if (result_.counts.expanded % 64 == 0 && memory() > options_.limits.memory) {
      return stop(stop_reason::memory);
    }
    return reached_time();
  }
  bool reached_time() {
    if (is_stopped_ || !pace_.is_due()) {
      return is_stopped_;
    }
    const auto now = clock_.seconds();
    pace_.read(now);
    if (now >= options_.limits.seconds) {
      return stop(stop_reason::time);
    }
    if (options_.watch && now - last_watch_ >= 0.005) {
      last_watch_ = now;
      if (!options_.watch(
              {now, result_.cost, depth_ == 0 ? frames_[0].end : frames_[depth_ - 1].end, result_.counts})) {
        return stop(stop_reason::observer);
      }
    }
    return false;
  }
  [[nodiscard]] std::size_t memory() const {
    return children_.capacity() * sizeof(child) + frames_.capacity() * sizeof(frame) +
           path_.capacity() * sizeof(std::uint32_t) + result_.history.capacity() * sizeof(improvement);
  }
  bool stop(stop_reason why) {
    is_stopped_ = true;
    result_.stopped = why;
    return true;
  }

  Problem& problem_;
  const branch_and_bound_options& options_;
  branch_and_bound_result result_{};
  search_clock clock_{options_};
  clock_pace pace_{};
  double last_watch_ = 0;
  std::vector<std::uint32_t> path_{};  // the first `depth_` entries are the decisions made
  std::vector<frame> frames_{};        // by depth
  std::vector<child> children_{};      // of all frames
  std::size_t depth_ = 0;
  cost_value cutoff_ = 0;
  cost_value slack_ = 1;
  cost_value lower_ = std::numeric_limits<cost_value>::min();  // proven for all assignments
  cost_value open_ = std::numeric_limits<cost_value>::max();   // least bound of what was left when the search stopped
  bool is_stopped_ = false;
};

}  // namespace detail

// limits.memory applies to the open prefixes and the history, not to the problem.
// Finds the cheapest assignment. After stop_reason::exhausted, no assignment costs less than `cost`, which equals
// lower_bound; if stopped by a limit, none costs less than lower_bound. Children are visited by bound, then by number:
// the result, including all counts, depends only on the problem and the options.
// Complexity: choices for each prefix whose bound is below the optimum; repeated in each round of deepening.
// Source: Land and Doig, An automatic method of solving discrete programming problems, Econometrica 28(3), 1960.
inline constexpr struct branch_and_bound_fn {
  template <assignment_problem Problem>
  [[nodiscard]] branch_and_bound_result operator()(Problem& problem,
                                                   const branch_and_bound_options& options = {}) const {
    return detail::depth_first_search<Problem>{problem, options}.run();
  }
} branch_and_bound{};

}  // namespace unity
