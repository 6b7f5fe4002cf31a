// The engine of backtracking and exact search: a priority queue of candidates, which are built when popped.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/archive.hpp>
#include <unity/core/budget.hpp>
#include <unity/core/index_table.hpp>
#include <unity/core/thread_pool.hpp>
#include <unity/search/search_space.hpp>

namespace unity {

// Options of backtracking and exact search.
struct best_first_options : search_options {
  std::size_t threads = 1;   // does not affect the result
  std::string checkpoint{};  // file to write during the search; empty: none
  double checkpoint_seconds = 60;
};

}  // namespace unity

namespace unity::detail {

// Expands states in order of cost. `Admit` decides which candidates to keep: admit(cost, best).
//
// Sleep sets: explores one interleaving of independent moves. A move sleeps in a child if it came before the child's
// own move in the parent (by cost, then position) or slept there, and is independent of it. Moves that increase the
// cost do not fall asleep: the bound may cut the interleaving in which they come first. A remaining loss: a state
// reached on two routes keeps the sleeping moves of the first (test/search measures how often).
// Source: Godefroid, Partial-Order Methods for the Verification of Concurrent Systems, 1996, chapter 5.
template <search_space Space, class Admit>
class best_first {
 public:
  using state = typename Space::state_type;
  using move = typename Space::move_type;
  using result = search_result<state, move>;

  static constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

  // patience: stops after this many expansions without a better state.
  best_first(Space& space, const best_first_options& options, Admit admit, bool sleep_sets, std::uint64_t patience)
      : space_{space},
        options_{options},
        admit_{std::move(admit)},
        sleep_sets_{sleep_sets},
        patience_{patience},
        pool_{options.threads},
        scratch_(pool_.size()) {}

  result run() {
    // The space gets no end if checkpoints are written: see is_past_deadline.
    if constexpr (timed_space<Space>) {
      space_.end_at(options_.checkpoint.empty() ? end_of(options_) : std::chrono::steady_clock::time_point::max());
    }
    begin();
    return search();
  }
  // Continues from a checkpoint of the same space, including counts and history.
  result resume(const std::string& checkpoint) {
    if constexpr (timed_space<Space>) {
      space_.end_at(std::chrono::steady_clock::time_point::max());
    }
    restore(checkpoint);
    return search();
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  static constexpr cost_value unpriced = std::numeric_limits<cost_value>::max();
  static constexpr std::size_t slice = pricing_slice<Space>();
  static constexpr bool sleeps = commuting_space<Space> && !Admit::keeps_all;

  struct entry {
    cost_value cost;
    std::uint32_t order;
    std::uint32_t parent;
    move by;
  };
  // Cheapest first; equal costs in order of insertion.
  struct later {
    bool operator()(const entry& a, const entry& b) const {
      return a.cost != b.cost ? a.cost > b.cost : a.order > b.order;
    }
  };
  // A popped state. A duplicate keeps its record without a state, because replaying a checkpoint needs its index.
  struct record {
    std::uint32_t parent = none;
    move by{};
    std::optional<state> at{};
  };
  // Indexed by the position of the moves of a record. Only for spaces with commuting moves.
  struct sleep_set {
    std::vector<cost_value> prices{};  // unpriced if the move slept or does not apply
    std::vector<std::uint8_t> asleep{};
  };
  struct heap : std::priority_queue<entry, std::vector<entry>, later> {
    [[nodiscard]] const std::vector<entry>& entries() const { return this->c; }
  };

  void begin() {
    add_record({none, {}, space_.initial()});
    best_ = space_.cost(*records_[0].at);
    history_.push_back({0, 0, best_});
    seen_.insert(space_.fingerprint_of(*records_[0].at));
    admit_record(0);
    expand(0);
  }

  result search() {
    std::optional<stop_reason> stop = reached_limit();
    while (!stop) {
      if (queue_.empty() || !admit_(queue_.top().cost, best_)) {
        stop = stop_reason::exhausted;
        break;
      }
      step();
      stop = reached_limit();
    }
    return finish(*stop);
  }

  void step() {
    const auto e = queue_.top();
    queue_.pop();
    add_record({e.parent, e.by, materialize(e.parent, e.by)});
    const auto r = static_cast<std::uint32_t>(records_.size() - 1);
    if (!admit_record(r)) {
      ++counts_.duplicates;
      state_memory_ -= memory_of(*records_[r].at);
      records_[r].at.reset();
      return;
    }
    if (sleep_sets_) {
      put_to_sleep(r);
    }
    if constexpr (bounded_space<Space> && Admit::keeps_all) {
      if (space_.lower_bound(*records_[r].at) >= best_) {
        return;  // no state reachable from it is better
      }
    }
    expand(r);
  }

  void add_record(record r) {
    records_.push_back(std::move(r));
    if constexpr (sleeps) {
      sleep_.emplace_back();
    }
  }

  [[nodiscard]] state materialize(std::uint32_t parent, move by) {
    space_.prepare(*records_[parent].at, parent_scratch_);
    return space_.apply(*records_[parent].at, by, parent_scratch_, scratch_[0]);
  }

  // The second test for duplicates. False if the state was expanded before under another fingerprint.
  bool admit_record(std::uint32_t r) {
    state_memory_ += memory_of(*records_[r].at);
    if constexpr (canonical_space<Space>) {
      space_.prepare(*records_[r].at, scratch_[0]);
      return expanded_.insert(space_.canonical_fingerprint(*records_[r].at, scratch_[0]));
    }
    return true;
  }

  void put_to_sleep(std::uint32_t r) {
    if constexpr (sleeps) {
      const auto& parent = sleep_[records_[r].parent];
      const std::span<const move> theirs = space_.moves(*records_[records_[r].parent].at);
      const std::span<const move> mine = space_.moves(*records_[r].at);
      const auto own =
          static_cast<std::size_t>(std::find(theirs.begin(), theirs.end(), records_[r].by) - theirs.begin());
      const auto own_price = parent.prices[own];
      const auto parent_cost = space_.cost(*records_[records_[r].parent].at);
      auto& asleep = sleep_[r].asleep;
      asleep.assign(mine.size(), 0);
      std::size_t at = 0;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        at = static_cast<std::size_t>(
            std::find(theirs.begin() + static_cast<std::ptrdiff_t>(at), theirs.end(), mine[i]) - theirs.begin());
        if (at == theirs.size()) {
          break;  // the rest is new
        }
        const bool slept = !parent.asleep.empty() && parent.asleep[at] != 0;
        const bool earlier =
            parent.prices[at] <= parent_cost && std::pair{parent.prices[at], at} < std::pair{own_price, own};
        if ((slept || earlier) && space_.independent(mine[i], records_[r].by)) {
          asleep[i] = 1;
          ++counts_.asleep;
        }
      }
    }
  }

  void expand(std::uint32_t r) {
    ++counts_.expanded;
    const auto& s = *records_[r].at;
    const std::span<const move> moves = space_.moves(s);
    if constexpr (sleeps) {
      sleep_[r].prices.assign(moves.size(), unpriced);
      state_memory_ += moves.size() * (sizeof(cost_value) + 1);
    }
    if (pool_.size() == 1 || moves.size() < 2 * slice) {
      space_.prepare(s, scratch_[0]);
      for (std::size_t i = 0; i < moves.size(); ++i) {
        if (i % slice == slice - 1 && is_past_deadline()) {
          cut_ = r;
          return;
        }
        if (awake(r, i)) {
          take(r, i, moves[i], space_.price(s, moves[i], scratch_[0]));
        }
      }
    } else {
      expand_in_parallel(r, s, moves);
    }
    if constexpr (timed_space<Space>) {
      cut_ = is_past_deadline() ? r : cut_;  // the space may have left moves out
    }
  }
  // Threads price slices, and the results are processed in order, so the number of threads does not matter.
  void expand_in_parallel(std::uint32_t r, const state& s, std::span<const move> moves) {
    priced_.assign(moves.size(), std::nullopt);
    std::atomic<bool> ended = false;
    pool_.parallel_for(moves.size(), slice, [&](std::size_t worker, std::size_t begin, std::size_t end) {
      if (is_past_deadline()) {
        ended = true;
        return;
      }
      space_.prepare(s, scratch_[worker]);
      for (auto i = begin; i < end; ++i) {
        if (awake(r, i)) {
          priced_[i] = space_.price(s, moves[i], scratch_[worker]);
        }
      }
    });
    cut_ = ended ? r : cut_;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (awake(r, i) && (priced_[i] || !ended)) {
        take(r, i, moves[i], priced_[i]);
      }
    }
  }
  [[nodiscard]] bool awake(std::uint32_t r, std::size_t i) const {
    if constexpr (sleeps) {
      return sleep_[r].asleep.empty() || sleep_[r].asleep[i] == 0;
    }
    return true;
  }

  void take(std::uint32_t parent, std::size_t position, move by, const std::optional<candidate>& priced) {
    if (!priced) {
      ++counts_.rejected;
      return;
    }
    const auto& c = *priced;
    ++counts_.candidates;
    if constexpr (sleeps) {
      sleep_[parent].prices[position] = c.cost;
    }
    if (c.cost < best_) {
      best_ = c.cost;
      best_parent_ = parent;
      best_move_ = by;
      history_.push_back({elapsed(), counts_.expanded, best_});
    }
    if (!admit_(c.cost, best_)) {
      return;
    }
    if (!seen_.insert(c.fingerprint)) {
      ++counts_.duplicates;
      return;
    }
    queue_.push({c.cost, orders_++, parent, by});
  }

  [[nodiscard]] std::optional<stop_reason> reached_limit() {
    const auto& limits = options_.limits;
    if (counts_.expanded >= limits.expansions) {
      return stop_reason::expansions;
    }
    if (counts_.expanded - history_.back().expanded >= patience_) {
      return stop_reason::converged;
    }
    if (limits.memory != budget{}.memory && memory() > limits.memory) {
      return stop_reason::memory;
    }
    return watches_clock() ? reached_time() : std::nullopt;
  }
  // Reading the clock costs as much as expanding a small state.
  [[nodiscard]] bool watches_clock() const {
    return options_.limits.seconds != budget{}.seconds || options_.watch || !options_.checkpoint.empty();
  }
  [[nodiscard]] std::optional<stop_reason> reached_time() {
    const auto now = elapsed();
    if (now >= options_.limits.seconds) {
      return stop_reason::time;
    }
    if (!options_.checkpoint.empty() && now - last_checkpoint_ >= options_.checkpoint_seconds) {
      save();
    }
    if (options_.watch && now - last_watch_ >= 0.005) {
      last_watch_ = now;
      if (!options_.watch({now, best_, queue_.size(), counts_})) {
        return stop_reason::observer;
      }
    }
    return std::nullopt;
  }

  // Whether to end an expansion before all moves are priced. Not if checkpoints are written: a resumed search would
  // never see the skipped moves.
  [[nodiscard]] bool is_past_deadline() const {
    return options_.limits.seconds != budget{}.seconds && options_.checkpoint.empty() &&
           elapsed() >= options_.limits.seconds;
  }
  [[nodiscard]] double elapsed() const { return clock_.seconds(); }
  [[nodiscard]] std::size_t memory_of(const state& s) const {
    if constexpr (measured_space<Space>) {
      return space_.memory(s);
    }
    return sizeof(state);
  }
  [[nodiscard]] std::size_t memory() const {
    auto total = state_memory_ + seen_.memory() + expanded_.memory() + queue_.size() * sizeof(entry) +
                 records_.capacity() * sizeof(record);
    if constexpr (measured_space<Space>) {
      total += space_.memory();
    }
    return total;
  }

  result finish(stop_reason why) {
    if (!options_.checkpoint.empty()) {
      save();
    }
    result r{best_parent_ == none ? std::move(*records_[0].at) : materialize(best_parent_, best_move_)};
    r.cost = best_;
    r.lower_bound = proven_bound(why);
    r.history = history_;
    r.counts = counts_;
    r.queued = admitted();
    r.seconds = elapsed();
    r.stopped = why;
    collect_path(r);
    return r;
  }
  // The queued candidates that are still admitted: a better state may have been found after they were queued.
  [[nodiscard]] std::uint64_t admitted() const {
    const auto& all = queue_.entries();
    return static_cast<std::uint64_t>(
        std::count_if(all.begin(), all.end(), [&](const entry& e) { return admit_(e.cost, best_); }));
  }
  void collect_path(result& r) const {
    auto by = best_move_;
    auto cost = best_;
    for (auto at = best_parent_; at != none; at = records_[at].parent) {
      r.path.emplace_back(by, cost);
      by = records_[at].by;
      cost = space_.cost(*records_[at].at);
    }
    std::reverse(r.path.begin(), r.path.end());
  }
  // A lower bound for all states that the search may reach: the best cost if nothing was left out, otherwise the
  // minimum over the bounds of queued states and of the one whose expansion the time limit cut.
  [[nodiscard]] cost_value proven_bound(stop_reason why) const {
    if (!admit_.keeps_all) {
      return std::numeric_limits<cost_value>::min();
    }
    if (why == stop_reason::exhausted) {
      return best_;
    }
    if constexpr (bounded_space<Space>) {
      auto bound = cut_ == none ? best_ : std::min(best_, space_.lower_bound(*records_[cut_].at));
      for (const auto& e : queue_.entries()) {
        bound = std::min(bound, space_.lower_bound(*records_[e.parent].at));
      }
      return bound;
    }
    return std::numeric_limits<cost_value>::min();
  }

  void save();
  void restore(const std::string& path);
  void restore_start(archive_reader& in);
  void restore_records(archive_reader& in);
  void restore_sleepers(archive_reader& in);
  void restore_candidates(archive_reader& in);
  void restore_best(archive_reader& in);
  // Fingerprints may depend on ids; canonical ones depend on what the ids stand for.
  [[nodiscard]] fingerprint identity(const state& s) {
    if constexpr (canonical_space<Space>) {
      space_.prepare(s, scratch_[0]);
      return space_.canonical_fingerprint(s, scratch_[0]);
    }
    return space_.fingerprint_of(s);
  }
  [[nodiscard]] bool has_move(std::uint32_t r, move m) const {
    if (r >= records_.size() || !records_[r].at) {
      return false;
    }
    const std::span<const move> moves = space_.moves(*records_[r].at);
    return std::find(moves.begin(), moves.end(), m) != moves.end();
  }
  // Rebuilds the state of a checkpoint record, if its move still exists in its parent.
  [[nodiscard]] state replay(const record& r, const archive_reader& in);

  Space& space_;
  const best_first_options& options_;
  Admit admit_;
  bool sleep_sets_;
  std::uint64_t patience_;
  thread_pool pool_;
  typename Space::scratch_type parent_scratch_{};
  std::vector<typename Space::scratch_type> scratch_;
  std::vector<record> records_;
  std::uint32_t cut_ = none;      // the record whose moves were not all priced when the time ended
  std::vector<sleep_set> sleep_;  // by record
  heap queue_;
  fingerprint_set seen_;      // of candidates
  fingerprint_set expanded_;  // canonical fingerprints of states
  std::vector<std::optional<candidate>> priced_;
  cost_value best_ = 0;
  std::uint32_t best_parent_ = none;
  move best_move_{};
  std::uint32_t orders_ = 0;
  std::vector<improvement> history_;
  counters counts_;
  std::size_t state_memory_ = 0;
  search_clock clock_{options_};
  double last_watch_ = 0;
  double last_checkpoint_ = 0;
};

}  // namespace unity::detail

#include <unity/search/detail/search_checkpoint.hpp>
