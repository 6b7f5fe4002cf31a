// Delta simulation: the times of all tasks after some fragments of the program were replaced.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// Counters, summed over edits.
struct delta_counters {
  std::uint64_t edits = 0;
  std::uint64_t retimed = 0;  // tasks whose start and end were computed; at most once each per edit
  std::uint64_t stopped = 0;  // edits that exceeded the bound

  friend bool operator==(const delta_counters&, const delta_counters&) = default;
};

// Holds a program and its times. After each edit every task has exactly the times that full_simulation gives.
//
// Tasks that are ready before the first change of an edit keep their times; all later ones are timed anew into a second
// set of times, so an edit is undone by dropping that set. docs/design/decisions.md explains why it does not look for
// later tasks whose times stay the same.
// Source: Jia, dissertation (2020), section 3.4.3, has the aim; the paper relaxes times until nothing changes instead.
class delta_simulation {
 public:
  static constexpr picoseconds no_bound{std::numeric_limits<std::int64_t>::max()};

  // Throws: unity::error if tasks wait for each other.
  explicit delta_simulation(tasks::program p) : program_{std::move(p)} {
    UNITY_EXPECTS(!program_.is_open(), "no open edit");
    latest_ = kept_latest_ = now_.run(program_);
  }

  [[nodiscard]] const tasks::program& program() const noexcept { return program_; }
  [[nodiscard]] picoseconds iteration_time() const noexcept { return latest_; }
  [[nodiscard]] task_times times(tasks::task_id t) const { return times(t.index()); }
  [[nodiscard]] task_times times(std::uint32_t place) const { return times()[place]; }
  // By place; entries of empty places are meaningless. Valid until the next edit.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return (is_retimed_ ? next_ : now_).times(); }
  [[nodiscard]] const delta_counters& counts() const noexcept { return counts_; }

  // Effects: replaces the fragments and retimes. Returns the iteration time and leaves the edit open; or returns
  // nothing and restores everything if the iteration would take longer than `bound`. Complexity: u log u for the u
  // tasks that are not ready before the first change, linear in the program.
  // Throws: unity::error if tasks wait for each other or times overflow; everything is restored.
  [[nodiscard]] std::optional<picoseconds> try_replace(std::span<const tasks::replacement> all,
                                                       picoseconds bound = no_bound) {
    ++counts_.edits;
    program_.replace(all);
    auto end = std::optional{kept_latest_};
    if (const auto& edit = program_.edit(); !edit.removed.empty() || !edit.added.empty() || !edit.relinked.empty()) {
      end = retimed(bound);
      counts_.retimed += next_.order().size() - next_.kept();
      is_retimed_ = true;
    }
    if (!end || *end > bound) {
      ++counts_.stopped;
      rollback();
      return std::nullopt;
    }
    if (is_retimed_ && !next_.is_complete()) {
      report_blocked();
    }
    latest_ = *end;
    return end;
  }

  // Keeps the open edit. Complexity: linear in the replaced fragments.
  void commit() {
    program_.commit();
    if (std::exchange(is_retimed_, false)) {
      std::swap(now_, next_);
    }
    kept_latest_ = latest_;
  }
  // Undoes the open edit. Complexity: linear in what it replaced.
  void rollback() {
    program_.rollback();
    is_retimed_ = false;
    latest_ = kept_latest_;
  }

 private:
  [[nodiscard]] std::optional<picoseconds> retimed(picoseconds bound) {
    try {
      return next_.run_after(program_, now_, first_change(), bound.count());
    } catch (...) {
      rollback();
      throw;
    }
  }

  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  // The first time at which the edited program can differ: all tasks that are ready before it have the same times in
  // both programs. An added, removed or relinked task matters at the earliest when it is, or was, ready.
  [[nodiscard]] std::int64_t first_change() {
    const auto& edit = program_.edit();
    auto first = never;
    for (const auto& range : edit.removed) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        first = std::min(first, now_.times()[t].ready);
      }
    }
    for (const auto& range : edit.added) {
      now_.forget(program_.capacity(), range.first, range.count);
    }
    for (const auto& range : edit.added) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        first = std::min(first, asked(t));
      }
    }
    for (const auto t : edit.relinked) {
      first = std::min({first, now_.times()[t].ready, asked(t)});
    }
    return first;
  }
  // When everything that a task waits for has arrived, by the times before the edit; never if some of it is new.
  [[nodiscard]] std::int64_t asked(std::uint32_t t) const {
    std::int64_t ready = 0;
    for (const auto link : program_.before(t)) {
      const auto& by = now_.times()[link.task()];
      if (by.ready == never) {
        return never;
      }
      ready = std::max(ready, (link.cut_through() ? by.start : by.end) + program_.timed(link.task()).latency);
    }
    return ready;
  }
  [[noreturn]] void report_blocked() {
    try {
      detail::report_cycle(program_, [&](std::uint32_t t) { return next_.is_done(t); });
    } catch (...) {
      rollback();
      throw;
    }
  }

  tasks::program program_;
  full_simulation now_;   // of the program without the open edit
  full_simulation next_;  // of the program with it, where it is_retimed_
  bool is_retimed_ = false;
  picoseconds latest_{};
  picoseconds kept_latest_{};  // of the program without the open edit
  delta_counters counts_{};
};

}  // namespace unity::simulate
