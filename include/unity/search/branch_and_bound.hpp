// Depth-first search with pruning by bounds, over assignments: proves an optimum where all cannot be tried.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/cost/cost_model.hpp>
#include <unity/search/result.hpp>

namespace unity {

template <class P>
concept has_decisions = requires(const P& p, std::size_t decision) {
  { p.decision_count() } -> std::convertible_to<std::size_t>;
  { p.choice_count(decision) } -> std::convertible_to<std::size_t>;
};

template <class P>
concept has_prefix = requires(P& p, std::uint32_t choice) {
  { p.push(choice) } -> std::same_as<cost_value>;
  p.pop();
};

template <class P>
concept has_bounded_cost = requires(P& p, cost_value bound) {
  { p.cost(bound) } -> std::same_as<std::optional<cost_value>>;
};

// A fixed sequence of decisions, each with numbered choices, and a prefix of them that are made.
//   decision_count(), choice_count(d)   of the whole problem
//   push(choice)                        makes the next decision; a lower bound on the cost of every completion
//   pop()                               takes the last decision back
//   cost(bound)                         where all are made: the cost, or nothing where that is more than the bound
// Laws: what push answers is at most the cost of each completion of the prefix (the greatest number: none needs to be
// looked at), and depends on the prefix alone; after pop all is as before the push.
// Models: systems::strategy_problem; test/search/branch_and_bound.cpp has the smallest. Non-model: an evaluator, which
// changes whole states.
template <class P>
concept assignment_problem = has_decisions<P> && has_prefix<P> && has_bounded_cost<P>;

struct branch_and_bound_options : search_options {  // threads, seed and checkpoint have no effect
  // What is known to be possible: only what costs less is looked for.
  cost_value incumbent = std::numeric_limits<cost_value>::max();
  // Search below limits first that grow from the least bound on, so that a bad incumbent does not send the search into
  // all that is better than it. Source: Korf, Depth-first iterative-deepening, Artificial Intelligence 27(1), 1985.
  bool deepening = true;
};

// best: the choices, or nothing where none costs less than the incumbent; cost:
// of best, or the incumbent's. Without path.
// Counts: `expanded` prefixes whose next decision was tried, `candidates` the bounds computed, `rejected` those of them
// that were pruned at once; over all rounds of deepening.
struct branch_and_bound_result : search_result<std::optional<std::vector<std::uint32_t>>, std::uint32_t> {
  std::uint64_t evaluated = 0;  // whole assignments
  std::size_t rounds = 0;       // of deepening
};

namespace detail {

template <class Problem>
class depth_first_search {
 public:
  depth_first_search(Problem& problem, const branch_and_bound_options& options) : problem_{problem}, options_{options} {
    result_.cost = options.incumbent;
  }

  branch_and_bound_result run() {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    auto limit = result_.cost;
    if (options_.deepening && problem_.decision_count() > 0) {
      expand(most);
      const auto least = children_.empty() ? most : children_.front().bound;
      frames_.clear();
      children_.clear();
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
    // Stopped, open prefixes are not known to cost more; else all that is left costs at least as much as the best.
    result_.lower_bound = is_stopped_ ? std::max(lower_, std::min({open_, limit, result_.cost})) : result_.cost;
    result_.seconds = clock_.seconds();
    return std::move(result_);
  }

 private:
  struct child {
    cost_value bound = 0;
    std::uint32_t choice = 0;
  };
  struct frame {  // of a prefix: its children that are left
    std::size_t first = 0;
    std::size_t next = 0;
  };

  [[nodiscard]] cost_value plus_slack(cost_value from) const {
    constexpr auto most = std::numeric_limits<cost_value>::max();
    return from > most - slack_ ? most : from + slack_;
  }

  // All below the limit.
  void search(cost_value limit) {
    cutoff_ = limit;
    if (problem_.decision_count() == 0) {
      evaluate();
      return;
    }
    expand(cutoff_);
    while (!frames_.empty()) {
      auto& f = frames_.back();
      if (f.next == children_.size() || children_[f.next].bound >= cutoff_) {  // ascending: all that follow, too
        leave();
        continue;
      }
      if (is_stopped_) {
        open_ = std::min(open_, children_[f.next].bound);
        leave();
        continue;
      }
      const auto chosen = children_[f.next++];
      problem_.push(chosen.choice);
      path_.push_back(chosen.choice);
      if (path_.size() == problem_.decision_count()) {
        evaluate();
        back();
      } else if (reached_limit()) {
        open_ = std::min(open_, chosen.bound);
        back();
      } else {
        expand(cutoff_);
      }
    }
  }
  void leave() {
    children_.resize(frames_.back().first);
    frames_.pop_back();
    if (!frames_.empty()) {
      back();
    }
  }
  void back() {
    problem_.pop();
    path_.pop_back();
  }

  // A frame with the children of the prefix below the limit, by bound, then by choice.
  void expand(cost_value limit) {
    ++result_.counts.expanded;
    const frame f{children_.size(), children_.size()};
    const auto count = problem_.choice_count(path_.size());
    for (std::uint32_t c = 0; c < count; ++c) {
      const auto bound = problem_.push(c);
      problem_.pop();
      ++result_.counts.candidates;
      if (bound < limit) {
        children_.push_back({bound, c});
      } else {
        ++result_.counts.rejected;
      }
    }
    std::sort(
        children_.begin() + static_cast<std::ptrdiff_t>(f.first), children_.end(),
        [](const child& a, const child& b) { return a.bound != b.bound ? a.bound < b.bound : a.choice < b.choice; });
    frames_.push_back(f);
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
    if (result_.counts.expanded % 64 != 0) {
      return false;
    }
    const auto now = clock_.seconds();
    if (now >= options_.limits.seconds) {
      return stop(stop_reason::time);
    }
    if (options_.watch && now - last_watch_ >= 0.005) {
      last_watch_ = now;
      if (!options_.watch({now, result_.cost, children_.size(), result_.counts})) {
        return stop(stop_reason::observer);
      }
    }
    return false;
  }
  bool stop(stop_reason why) {
    is_stopped_ = true;
    result_.stopped = why;
    return true;
  }

  Problem& problem_;
  const branch_and_bound_options& options_;
  branch_and_bound_result result_{};
  stopwatch clock_{};
  double last_watch_ = 0;
  std::vector<std::uint32_t> path_{};
  std::vector<frame> frames_{};
  std::vector<child> children_{};  // of all frames
  cost_value cutoff_ = 0;
  cost_value slack_ = 1;
  cost_value lower_ = std::numeric_limits<cost_value>::min();  // known of all
  cost_value open_ = std::numeric_limits<cost_value>::max();   // the least bound of what was left when it stopped
  bool is_stopped_ = false;
};

}  // namespace detail

// The cheapest assignment. Ended with stop_reason::exhausted, no assignment costs less than `cost`, which is
// lower_bound; stopped by a limit, none costs less than lower_bound. Children are visited by bound, then by number: the
// answer, all counts included, depends on the problem and the options alone.
// Complexity: choices for each prefix whose bound is below the optimum; with deepening, for each round again.
// Source: Land and Doig, An automatic method of solving discrete programming problems, Econometrica 28(3), 1960.
inline constexpr struct branch_and_bound_fn {
  template <assignment_problem Problem>
  [[nodiscard]] branch_and_bound_result operator()(Problem& problem,
                                                   const branch_and_bound_options& options = {}) const {
    return detail::depth_first_search<Problem>{problem, options}.run();
  }
} branch_and_bound{};

}  // namespace unity
