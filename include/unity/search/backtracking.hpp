// Searches with a queue of candidates: cost-based backtracking, and exhaustive search with pruning by bounds, which
// proves an optimum over all states reachable by moves.
// Source: Jia's dissertation (TASO, 2020), section 2.7, Algorithm 2.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <unity/core/config.hpp>
#include <unity/search/best_first.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

namespace detail {

struct keep_all {
  static constexpr bool keeps_all = true;
  [[nodiscard]] constexpr bool operator()(cost_value, cost_value) const noexcept { return true; }
};

}  // namespace detail

// Explores every reachable state (A* order with a zero heuristic). After stop_reason::exhausted, cost == lower_bound:
// no reachable state costs less. If stopped by a limit, lower_bound is valid for a bounded_space and the minimum
// otherwise. Sleep sets are off: only equal states are removed.
// Complexity: linear in the reachable states and their moves.
inline constexpr struct exact_fn {
  template <search_space Space>
  [[nodiscard]] auto operator()(Space& space, const best_first_options& options = {}) const {
    return engine(space, options).run();
  }
  template <search_space Space>
  [[nodiscard]] auto resume(Space& space, const std::string& checkpoint, const best_first_options& options = {}) const {
    return engine(space, options).resume(checkpoint);
  }

 private:
  template <class Space>
  static detail::best_first<Space, detail::keep_all> engine(Space& space, const best_first_options& options) {
    using best_first = detail::best_first<Space, detail::keep_all>;
    return best_first{space, options, {}, false, best_first::endless};
  }
} exact{};

struct backtracking_options : best_first_options {
  // Drops candidates that cost alpha times the best or more, but never the best itself. 1: greedy.
  double alpha = 1.05;
  bool sleep_sets = true;
  // Stops after this many expansions without a better state; DisCo uses 1,000.
  std::uint64_t patience = std::numeric_limits<std::uint64_t>::max();
};

namespace detail {

struct within_alpha {
  static constexpr bool keeps_all = false;
  double alpha;
  [[nodiscard]] bool operator()(cost_value cost, cost_value best) const {
    return cost <= best || static_cast<double>(cost) < alpha * static_cast<double>(best);
  }
};

}  // namespace detail

// Expands the cheapest state until no state within alpha of the best is left, patience runs out or a limit is reached.
// Complexity: per expansion linear in the state and its moves.
inline constexpr struct backtracking_fn {
  template <search_space Space>
  [[nodiscard]] auto operator()(Space& space, const backtracking_options& options = {}) const {
    return engine(space, options).run();
  }
  // Resumes from a checkpoint of an earlier call (options.checkpoint): the result is that of an uninterrupted search,
  // provided that this space was not searched before (ids are assigned in order).
  // Throws: unity::error if the file is not a checkpoint of this space.
  template <search_space Space>
  [[nodiscard]] auto resume(Space& space, const std::string& checkpoint,
                            const backtracking_options& options = {}) const {
    return engine(space, options).resume(checkpoint);
  }

 private:
  template <class Space>
  static detail::best_first<Space, detail::within_alpha> engine(Space& space, const backtracking_options& options) {
    UNITY_EXPECTS(options.alpha >= 1, "alpha of at least 1");
    return {space, options, detail::within_alpha{options.alpha}, options.sleep_sets, options.patience};
  }
} backtracking{};

}  // namespace unity
