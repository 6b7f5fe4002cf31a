// Beam search: level by level, keeping the cheapest states.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/budget.hpp>
#include <unity/core/config.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

struct beam_options : search_options {
  std::size_t threads = 1;  // does not affect the result
  std::size_t width = 16;
  std::size_t patience = 8;  // levels without a better state before it stops
};

namespace detail {

template <search_space Space>
class beam_search {
 public:
  using state = typename Space::state_type;
  using move = typename Space::move_type;
  using result = search_result<state, move>;

  beam_search(Space& space, const beam_options& options)
      : space_{space}, options_{options}, pool_{options.threads}, scratch_(pool_.size()) {}

  result run() {
    if constexpr (timed_space<Space>) {
      space_.end_at(end_of(options_));
    }
    result r{space_.initial()};
    r.cost = space_.cost(r.best);
    r.history.push_back({0, 0, r.cost});
    std::vector<member> level;
    level.push_back({space_.initial(), add_step(none, {}, r.cost)});
    seen_.insert(space_.fingerprint_of(level[0].at));
    std::size_t idle = 0;
    r.stopped = stop_reason::converged;
    while (idle < options_.patience) {
      if (const auto limit = reached_limit(r)) {
        r.stopped = *limit;
        break;
      }
      const auto before = r.cost;
      const auto all_expanded = r.counts.expanded + level.size();
      level = next_level(level, r);
      if (level.empty()) {
        r.stopped =
            r.counts.expanded == all_expanded && !is_cut_ ? stop_reason::exhausted : work_limit(r).value();
        break;
      }
      idle = r.cost < before ? 0 : idle + 1;
    }
    r.seconds = clock_.seconds();
    return r;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t slice = pricing_slice<Space>();
  struct step {
    std::uint32_t parent;
    move by;
    cost_value cost;
  };
  struct member {
    state at;
    std::uint32_t trace;
  };
  struct choice {
    cost_value cost;
    std::uint32_t parent;  // index in the level
    std::uint32_t order;   // order of discovery
    move by;
    fingerprint leads_to;

    friend bool operator<(const choice& a, const choice& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.order < b.order;
    }
  };
  // As many choices as fit into the next level, so that most candidates are dropped after one comparison with the most
  // expensive. Unlimited if duplicates may only be detected after building a state.
  [[nodiscard]] std::size_t most_choices() const {
    return canonical_space<Space> ? std::numeric_limits<std::size_t>::max() : options_.width;
  }

  std::uint32_t add_step(std::uint32_t parent, move by, cost_value cost) {
    steps_.push_back({parent, by, cost});
    return static_cast<std::uint32_t>(steps_.size() - 1);
  }

  std::vector<member> next_level(const std::vector<member>& level, result& r) {
    choices_.clear();
    chosen_ = {};
    orders_ = 0;
    most_ = std::numeric_limits<cost_value>::max();
    for (std::uint32_t i = 0; i < level.size() && !work_limit(r); ++i) {
      expand(level[i].at, i, r);
    }
    std::sort(choices_.begin(), choices_.end());
    std::vector<member> next;
    for (const auto& c : choices_) {
      if (next.size() == options_.width || (!next.empty() && is_past_deadline())) {
        break;  // what is cut here is not marked as seen: a later level with room may find it again
      }
      seen_.insert(c.leads_to);
      space_.prepare(level[c.parent].at, parent_scratch_);
      member m{space_.apply(level[c.parent].at, c.by, parent_scratch_, scratch_[0]),
               add_step(level[c.parent].trace, c.by, c.cost)};
      if (!admit(m.at)) {
        ++r.counts.duplicates;
        continue;
      }
      if (c.cost < r.cost) {
        take_best(m, c.cost, r);
      }
      next.push_back(std::move(m));
    }
    return next;
  }

  void expand(const state& s, std::uint32_t index, result& r) {
    const std::span<const move> moves = space_.moves(s);
    ++r.counts.expanded;
    if (pool_.size() == 1 || moves.size() < 2 * slice) {
      space_.prepare(s, scratch_[0]);
      for (std::size_t i = 0; i < moves.size(); ++i) {
        if (i % slice == slice - 1 && is_past_deadline()) {
          is_cut_ = true;
          return;
        }
        take(index, moves[i], space_.price(s, moves[i], scratch_[0]), r);
      }
    } else {
      expand_in_parallel(s, index, moves, r);
    }
  }
  // Threads price slices, and the results are processed in order, so the number of threads does not matter.
  void expand_in_parallel(const state& s, std::uint32_t index, std::span<const move> moves, result& r) {
    priced_.assign(moves.size(), std::nullopt);
    std::atomic<bool> ended = false;
    pool_.parallel_for(moves.size(), slice, [&](std::size_t worker, std::size_t begin, std::size_t end) {
      if (is_past_deadline()) {
        ended = true;
        return;
      }
      space_.prepare(s, scratch_[worker]);
      for (auto i = begin; i < end; ++i) {
        priced_[i] = space_.price(s, moves[i], scratch_[worker]);
      }
    });
    is_cut_ = is_cut_ || ended;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (priced_[i] || !ended) {
        take(index, moves[i], priced_[i], r);
      }
    }
  }

  // Candidates that would not enter the level are not looked up.
  void take(std::uint32_t parent, move by, const std::optional<candidate>& priced, result& r) {
    if (!priced) {
      ++r.counts.rejected;
      return;
    }
    ++r.counts.candidates;
    ++orders_;
    if (priced->cost <= most_) {
      enter({priced->cost, parent, orders_, by, priced->fingerprint}, r);
    }
  }
  void enter(const choice& c, result& r) {
    if (seen_.contains(c.leads_to) || !chosen_.insert(c.leads_to)) {
      ++r.counts.duplicates;
      return;
    }
    if (choices_.size() == most_choices()) {
      std::pop_heap(choices_.begin(), choices_.end());
      choices_.pop_back();
    }
    choices_.push_back(c);
    if constexpr (!canonical_space<Space>) {
      std::push_heap(choices_.begin(), choices_.end());
      most_ = choices_.size() == most_choices() ? choices_.front().cost - 1 : most_;
    }
  }

  bool admit(const state& s) {
    if constexpr (canonical_space<Space>) {
      space_.prepare(s, scratch_[0]);
      return expanded_.insert(space_.canonical_fingerprint(s, scratch_[0]));
    }
    return true;
  }

  void take_best(const member& m, cost_value cost, result& r) {
    r.best = m.at;
    r.cost = cost;
    r.history.push_back({clock_.seconds(), r.counts.expanded, cost});
    r.path.clear();
    for (auto at = m.trace; steps_[at].parent != none; at = steps_[at].parent) {
      r.path.emplace_back(steps_[at].by, steps_[at].cost);
    }
    std::reverse(r.path.begin(), r.path.end());
  }

  // Limits that are checked between expansions.
  [[nodiscard]] std::optional<stop_reason> work_limit(const result& r) const {
    if (r.counts.expanded >= options_.limits.expansions) {
      return stop_reason::expansions;
    }
    return is_past_deadline() ? std::optional{stop_reason::time} : std::nullopt;
  }
  [[nodiscard]] bool is_past_deadline() const {
    return options_.limits.seconds != budget{}.seconds && clock_.seconds() >= options_.limits.seconds;
  }
  // Limits that are checked between levels.
  [[nodiscard]] std::optional<stop_reason> reached_limit(const result& r) const {
    if (const auto limit = work_limit(r)) {
      return limit;
    }
    auto memory = seen_.memory() + expanded_.memory() + chosen_.memory() + steps_.capacity() * sizeof(step) +
                  choices_.capacity() * sizeof(choice);
    if constexpr (measured_space<Space>) {
      memory += space_.memory();
    }
    if (memory > options_.limits.memory) {
      return stop_reason::memory;
    }
    const bool go_on = !options_.watch || options_.watch({clock_.seconds(), r.cost, options_.width, r.counts});
    return go_on ? std::nullopt : std::optional{stop_reason::observer};
  }

  Space& space_;
  const beam_options& options_;
  thread_pool pool_;
  typename Space::scratch_type parent_scratch_{};
  std::vector<typename Space::scratch_type> scratch_;
  fingerprint_set seen_;
  fingerprint_set expanded_;
  std::vector<step> steps_;
  std::vector<choice> choices_;  // for the next level; a heap, most expensive first, if limited to the width
  fingerprint_set chosen_;       // fingerprints of all entered choices
  std::uint32_t orders_ = 0;     // candidates of the level so far
  cost_value most_ = 0;          // largest cost that may enter; among equal ones the first enters
  std::vector<std::optional<candidate>> priced_;
  bool is_cut_ = false;  // the time ended before all moves of a state were priced
  search_clock clock_{options_};
};

}  // namespace detail

// limits.memory applies to the tables of the search, and to those of the space if it is a measured_space.
// Complexity: per level, width expansions; keeps the states of the last two levels.
inline constexpr struct beam_fn {
  template <search_space Space>
  [[nodiscard]] auto operator()(Space& space, const beam_options& options = {}) const {
    UNITY_EXPECTS(options.width > 0, "a beam at least one wide");
    return detail::beam_search<Space>{space, options}.run();
  }
} beam{};

}  // namespace unity
