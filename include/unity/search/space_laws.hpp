// Checks along random walks whether a search space obeys the laws that searches rely on. For tests of a space.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/random.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

struct walk_options {
  std::uint64_t seed = 0;
  std::size_t steps = 100;
  std::size_t moves = 64;   // per state, to price and apply
  std::size_t threads = 1;  // more: they also price the moves of a state at the same time
};

namespace detail {

template <search_space Space>
class law_check {
 public:
  using state = typename Space::state_type;
  using move = typename Space::move_type;
  using scratch = typename Space::scratch_type;

  law_check(Space& space, const walk_options& options)
      : space_{space}, options_{options}, random_{options.seed}, pool_{options.threads} {}

  [[nodiscard]] std::optional<error> run() {
    auto here = space_.initial();
    if (const auto again = space_.initial(); !is_same(here, again)) {
      return broken("initial() gives another state the second time", "the same one");
    }
    for (step_ = 0; step_ < options_.steps; ++step_) {
      const auto listed = moves_of(here);
      if (listed != moves_of(here)) {
        return broken("moves() gives something else the second time", "the same list");
      }
      auto tried = listed;
      if (listed.size() > options_.moves) {
        tried.resize(options_.moves);
        std::generate(tried.begin(), tried.end(), [&] { return listed[random_.below(listed.size())]; });
      }
      if (pool_.size() > 1 && !is_same_from_threads(here, tried)) {
        return broken("price() from several threads differs from that of one", "the same for any number of threads");
      }
      std::optional<state> next;
      for (const auto m : tried) {
        if (auto wrong = check(here, m, listed, next)) {
          return wrong;
        }
      }
      if (!next) {
        return std::nullopt;
      }
      here = *std::move(next);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] error broken(std::string_view found, std::string_view expected) const {
    return {fmt::format("search space, step {} of seed {}", step_, options_.seed), found, expected};
  }
  [[nodiscard]] std::vector<move> moves_of(const state& s) {
    const std::span<const move> all = space_.moves(s);
    return {all.begin(), all.end()};
  }
  [[nodiscard]] bool is_same(const state& a, const state& b) {
    return space_.cost(a) == space_.cost(b) && space_.fingerprint_of(a) == space_.fingerprint_of(b);
  }
  [[nodiscard]] std::optional<candidate> price(const state& s, move m, scratch& with) {
    space_.prepare(s, with);
    return space_.price(s, m, with);
  }

  // Prices each move twice, so that threads also meet at one.
  [[nodiscard]] bool is_same_from_threads(const state& here, const std::vector<move>& tried) {
    std::vector<std::optional<candidate>> found(2 * tried.size());
    std::vector<scratch> scratches(pool_.size());
    pool_.parallel_for(found.size(), 1, [&](std::size_t worker, std::size_t begin, std::size_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto& s = std::as_const(space_);
        s.prepare(here, scratches[worker]);
        found[i] = s.price(here, tried[i / 2], scratches[worker]);
      }
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!is_equal(found[i], price(here, tried[i / 2], used_))) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] static bool is_equal(const std::optional<candidate>& a, const std::optional<candidate>& b) {
    return a.has_value() == b.has_value() && (!a || (a->cost == b->cost && a->fingerprint == b->fingerprint));
  }

  // Checks one move of `here`; if it applies, the resulting state may become the next one.
  [[nodiscard]] std::optional<error> check(const state& here, move m, const std::vector<move>& listed,
                                           std::optional<state>& next) {
    const auto priced = price(here, m, used_);
    scratch fresh;
    if (!is_equal(priced, price(here, m, fresh))) {
      return broken("price() depends on what its scratch was used for", "the same for every scratch");
    }
    if (!priced) {
      return std::nullopt;
    }
    space_.prepare(here, used_);
    auto there = space_.apply(here, m, used_, other_);
    if (space_.cost(there) != priced->cost) {
      return broken(
          fmt::format("a move is priced {}, and leads to a state of cost {}", priced->cost, space_.cost(there)),
          "equal costs");
    }
    if (space_.fingerprint_of(there) != priced->fingerprint) {
      return broken("the fingerprint of a priced move is not that of the state it leads to", "equal fingerprints");
    }
    if (auto wrong = check_inherited(listed, moves_of(there))) {
      return wrong;
    }
    if constexpr (bounded_space<Space>) {
      if (space_.lower_bound(here) > space_.cost(there) || space_.lower_bound(here) > space_.lower_bound(there)) {
        return broken("a lower bound above what a move leads to", "at most the cost of all states behind");
      }
    }
    if constexpr (commuting_space<Space>) {
      const auto other = listed[random_.below(listed.size())];
      if (space_.independent(m, other) != space_.independent(other, m)) {
        return broken("a move is independent of another, and that one not of it", "both or neither");
      }
    }
    if (!next || random_.below(4) == 0) {
      next = std::move(there);
    }
    return std::nullopt;
  }

  // Moves inherited from the parent must come first, in the parent's order.
  [[nodiscard]] std::optional<error> check_inherited(const std::vector<move>& before, const std::vector<move>& after) {
    std::size_t at = 0;
    bool is_new = false;
    for (const auto m : after) {
      const auto found = std::find(before.begin() + static_cast<std::ptrdiff_t>(at), before.end(), m);
      if (found == before.end()) {
        if (std::find(before.begin(), before.end(), m) != before.end()) {
          return broken("moves of a parent in another order, or twice", "the parent's order");
        }
        is_new = true;
      } else if (is_new) {
        return broken("a move of the parent behind one that is new", "those of the parent first");
      } else {
        at = static_cast<std::size_t>(found - before.begin()) + 1;
      }
    }
    return std::nullopt;
  }

  Space& space_;
  walk_options options_;
  random_engine random_;
  thread_pool pool_;
  std::size_t step_ = 0;
  scratch used_{};  // reused for everything, so that effects of earlier uses would show
  scratch other_{};
};

}  // namespace detail

// The first law of search_space, bounded_space or commuting_space that is broken along a random walk from the initial
// state, with its step and seed; nothing if all hold. Does not check that independent moves lead to the same state:
// that need only hold nearly always, since a violation only costs a missed state.
// Complexity: steps x moves prices and applications.
template <search_space Space>
[[nodiscard]] std::optional<error> broken_law(Space& space, const walk_options& options = {}) {
  return detail::law_check<Space>{space, options}.run();
}

}  // namespace unity
