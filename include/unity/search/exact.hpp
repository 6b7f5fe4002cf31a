// Exhaustive search with pruning by bounds: proves an optimum over all states reachable by moves.
#pragma once

#include <string>

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

}  // namespace unity
