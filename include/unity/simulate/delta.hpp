// The time of every task again, after some fragments of the program were replaced. Over 500 lines because every step of
// it reads and writes the same state: what is queued, what was saved, who waits for whom.
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
#include <unity/program/program.hpp>
#include <unity/simulate/detail/change_shares.hpp>
#include <unity/simulate/detail/run_order.hpp>
#include <unity/simulate/detail/task_state.hpp>
#include <unity/simulate/event_queue.hpp>
#include <unity/simulate/full.hpp>

namespace unity::simulate {

// What delta simulation did, summed over edits.
struct delta_counters {
  std::uint64_t edits = 0;
  std::uint64_t retimed = 0;  // tasks whose start and end were computed; at most once each per edit
  std::uint64_t changed = 0;  // of them: new tasks, and those with another ready time, start or end than before
  std::uint64_t events = 0;
  std::uint64_t stopped = 0;  // edits that exceeded the bound

  friend bool operator==(const delta_counters&, const delta_counters&) = default;
};

// Which tasks an edit looks at: those whose times depend on something that changed; all from the first change on; or
// whichever is likely to be faster, as earlier edits of a like size went.
enum class retiming : std::uint8_t { changes, all_after, adaptive };

// Holds a program and its times. After each edit every task has exactly the times that full_simulation gives.
//
// One sweep in order of time. Behind the sweep all times are final; ahead of it they are those of before the edit, and
// a task there is looked at only where something that its times depend on has changed: a predecessor, or what runs
// before it on its resource. A task that turns out not to be ready at its old time leaves its place ("withdrawn") and
// is timed when it is ready. Since times grow along dependencies, no task is timed twice.
//
// Where most tasks after the first change are likely to change, all of them are timed, each when its last predecessor
// is: less work per task, since none asks its predecessors again.
// Source: Jia, dissertation (2020), section 3.4.3, has the aim; the paper relaxes times until nothing changes instead.
class delta_simulation {
 public:
  static constexpr picoseconds no_bound{std::numeric_limits<std::int64_t>::max()};

  // Throws: unity::error where tasks wait for each other.
  explicit delta_simulation(program::program p, retiming which = retiming::adaptive)
      : program_{std::move(p)}, which_{which} {
    start();
  }

  [[nodiscard]] const program::program& code() const noexcept { return program_; }
  [[nodiscard]] picoseconds iteration_time() const noexcept { return picoseconds{latest_}; }
  [[nodiscard]] task_times times(program::task_id t) const { return times(t.index()); }
  [[nodiscard]] task_times times(std::uint32_t place) const {
    const auto& s = states_[place];
    return {s.ready, s.start, s.end};
  }
  // Of all places; what holds no task has no meaning. Complexity: linear in the program.
  [[nodiscard]] std::vector<task_times> times() const {
    std::vector<task_times> all(program_.capacity());
    for (std::uint32_t t = 0; t < all.size(); ++t) {
      all[t] = times(t);
    }
    return all;
  }
  [[nodiscard]] const delta_counters& counts() const noexcept { return counts_; }

  // Effects: replaces the fragments and retimes. The iteration time, and the edit stays open; or nothing, and all is as
  // before, where it would be more than `bound`.
  // Complexity: u log u for u tasks that are retimed, withdrawn or were touched by the edit; and linear in the order of
  // their resources from the first of them on.
  // Throws: unity::error where tasks wait for each other; all is as before.
  [[nodiscard]] std::optional<picoseconds> try_replace(std::span<const program::replacement> all,
                                                       picoseconds bound = no_bound) {
    ++counts_.edits;
    program_.replace(all);
    before_ = latest_;
    begin();
    if (!retime(bound.count())) {
      ++counts_.stopped;
      rollback();
      return std::nullopt;
    }
    if (pending_ != 0) {
      report_blocked();
    }
    settle();
    latest_ = last_end();
    if (latest_ > bound.count()) {
      ++counts_.stopped;
      rollback();
      return std::nullopt;
    }
    return iteration_time();
  }

  // Keeps the open edit. Complexity: linear in the replaced fragments.
  void commit() {
    program_.commit();
    journal_.clear();
    open_orders_.clear();
  }
  // Undoes the open edit. Complexity: linear in what it changed.
  void rollback() {
    for (const auto& range : program_.edit().removed) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        states_[t].what = status::idle;
      }
    }
    program_.rollback();
    for (const auto& j : journal_) {
      states_[j.task] = {j.ready, j.start, j.end, j.arrival, j.ready, j.end_by, status::idle, true, true, 0};
    }
    for (const auto r : open_orders_) {
      orders_[r].restore();
    }
    journal_.clear();
    open_orders_.clear();
    latest_ = before_;
  }

 private:
  using status = detail::task_status;
  using state = detail::task_state;
  using saved_state = detail::saved_task_state;
  using is_gone_in = detail::is_gone_in;
  using ties_of = detail::ties_of;
  static constexpr auto never = detail::never;

  void start() {
    UNITY_EXPECTS(!program_.is_open(), "no open edit");
    latest_ = full_.run(program_).count();
    states_.assign(program_.capacity(), {});
    orders_.resize(program_.resources().size());
    for (const auto t : full_.order()) {
      const auto& times = full_.times()[t];
      const auto& task = program_.timed(t);
      states_[t] = {times.ready, times.start, times.end, times.end + task.latency, times.ready, 0, status::idle,
                    true,        true,        0};
      orders_[task.resource.index()].append(times.ready, t);
    }
    for (const auto t : full_.order()) {
      states_[t].end_by = asked(t, never).end;
    }
  }

  // Queues what the edit itself touched.
  void begin() {
    const auto& edit = program_.edit();
    queue_.clear();
    pending_ = 0;
    if (states_.size() < program_.capacity()) {
      states_.resize(std::max(program_.capacity(), states_.size() + states_.size() / 2));
    }
    for (const auto& range : edit.removed) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        states_[t].what = status::removed;
        queue_.push({states_[t].ready, program_.tie(t), t});
      }
    }
    for (const auto& range : edit.added) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        states_[t] = {};
        states_[t].what = status::waiting;
        ++pending_;
      }
    }
    for (const auto& range : edit.added) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        if (const auto by = asked(t, never); by.ready < never) {
          queue(t, by.ready, by.end);
        }
      }
    }
    for (const auto t : edit.relinked) {
      const auto by = asked(t, never);
      const auto& s = states_[t];
      if (by.ready < s.ready) {
        queue(t, by.ready, by.end);
      } else if (by.ready > s.ready || by.end != s.end_by) {
        queue_check(t);
      }
    }
  }

  // Whether no end was found beyond the bound. Restores nothing.
  bool retime(std::int64_t bound) {
    if (queue_.empty()) {
      return true;
    }
    const auto first = queue_.front();
    const auto size = added_count();
    const auto after = tasks_from(first) + size;
    const auto before = counts_;
    all_ = which_ == retiming::all_after || (which_ == retiming::adaptive && shares_.expects_most(size));
    const bool within = all_ ? run_from(first, bound) : sweep(bound);
    shares_.learn(size, counts_.changed - before.changed, all_ ? counts_.retimed - before.retimed : after,
                  within || all_);
    return within;
  }
  // Of the old program, those that are not before the event.
  [[nodiscard]] std::size_t tasks_from(const event& e) const {
    std::size_t sum = 0;
    for (const auto& o : orders_) {
      sum += o.count_from(e.time, e.tie, ties_of{&program_});
    }
    return sum;
  }
  [[nodiscard]] std::size_t added_count() const {
    std::size_t sum = 0;
    for (const auto& range : program_.edit().added) {
      sum += range.count;
    }
    return sum;
  }

  // Times all tasks again that are not before the event, which is the first of the edit. States change only at the end.
  bool run_from(const event& first, std::int64_t bound) {
    free_.clear();
    for (const auto& o : orders_) {
      const auto kept = o.count() - o.count_from(first.time, first.tie, ties_of{&program_});
      free_.push_back(kept == 0 ? 0 : states_[o.task(kept - 1)].end);
    }
    task_times times;
    const auto known = [&](std::uint32_t t) -> const task_times* {
      const auto& s = states_[t];
      if (s.what != status::idle || !earlier({s.ready, program_.tie(t), t}, first)) {
        return nullptr;
      }
      times = {s.ready, s.start, s.end};
      return &times;
    };
    const auto end = full_.run_from(program_, free_, known, bound);
    for (const auto t : full_.order()) {
      counts_.changed += has_times(t, full_.times()[t]) ? 0 : 1;
    }
    counts_.retimed += full_.order().size();
    counts_.events += full_.order().size();
    if (!end) {
      return false;
    }
    pending_ = full_.is_complete() ? 0 : 1;
    if (pending_ != 0) {
      return true;
    }
    take_all(first);
    return true;
  }
  // Of an old task: are these its times of before the edit.
  [[nodiscard]] bool has_times(std::uint32_t t, const task_times& now) const {
    const auto& s = states_[t];
    if (s.what == status::idle) {
      return s.ready == now.ready && s.start == now.start && s.end == now.end;
    }
    return s.has_place && has_times_of(now, journal_[s.journal]);
  }
  // Takes the times of the full simulation over.
  void take_all(const event& first) {
    for (std::uint32_t r = 0; r < orders_.size(); ++r) {
      orders_[r].open(first.time, first.tie, ties_of{&program_});
      orders_[r].drop_rest();
      open_orders_.push_back(r);
    }
    for (const auto t : full_.order()) {
      const auto& times = full_.times()[t];
      const auto& task = program_.timed(t);
      save(t);
      auto& s = states_[t];
      const auto journal = s.journal;
      s = {times.ready, times.start, times.end, times.end + task.latency, times.ready, 0, status::placed,
           true,        true,        journal};
      orders_[task.resource.index()].insert(times.ready, t);
    }
    for (const auto t : full_.order()) {
      states_[t].end_by = asked(t, never).end;
    }
  }
  void prefetch_next() const {
    if (!queue_.empty()) {  // most likely the next: its lines come from memory meanwhile
      __builtin_prefetch(&program_.timed(queue_.front().task));
      __builtin_prefetch(&states_[queue_.front().task]);
    }
  }

  bool sweep(std::int64_t bound) {
    while (!queue_.empty()) {
      const auto e = queue_.pop();
      ++counts_.events;
      prefetch_next();
      const auto& s = states_[e.task];
      if (s.what == status::queued && s.want == e.time) {
        if (look_at(e) > bound) {
          return false;
        }
      } else if (s.what == status::placed || s.what == status::removed) {
        check_next(open_order(e));  // it was here before
      }
    }
    return true;
  }
  // All times are final: what was placed is idle again.
  void settle() {
    for (const auto r : open_orders_) {
      orders_[r].close();
    }
    for (const auto& j : journal_) {
      states_[j.task].what = status::idle;
    }
    for (const auto& range : program_.edit().added) {
      for (auto t = range.first; t < range.first + range.count; ++t) {
        states_[t].what = status::idle;
      }
    }
  }
  [[nodiscard]] std::int64_t last_end() const {
    std::int64_t latest = 0;
    for (const auto& o : orders_) {
      latest = o.empty() ? latest : std::max(latest, states_[o.back()].end);
    }
    return latest;
  }
  [[noreturn]] void report_blocked() {
    try {
      detail::report_cycle(program_, [&](std::uint32_t t) { return all_ ? full_.is_done(t) : states_[t].end < never; });
    } catch (...) {
      rollback();
      throw;
    }
  }

  // The task of an event at its time; returns its end, or 0 where it is not timed now.
  std::int64_t look_at(const event& e) {
    auto& s = states_[e.task];
    if (s.is_exact) {
      return place(e);
    }
    const auto by = asked(e.task, never);
    if (by.ready <= e.time) {
      s.end_by = by.end;
      return place(e);
    }
    if (s.has_place && e.time == s.ready) {
      withdraw(e);
    }
    if (s.has_place && s.ready < by.ready) {
      s.want = s.ready;
      queue_check(e.task);  // its old place is looked at in any case
    } else {
      queue(e.task, by.ready, by.end);
    }
    if (!s.has_place) {
      warn_after(e.task);
    }
    return 0;
  }

  std::int64_t place(const event& e) {
    auto& s = states_[e.task];
    const auto was = s;
    s.what = status::placed;
    const auto& task = program_.timed(e.task);
    auto& order = open_order(e);
    s.ready = s.want = e.time;
    s.start = std::max(e.time, free_from(order));
    s.end = std::max(s.start + task.duration, s.end_by);
    s.arrival = s.end + task.latency;
    s.has_place = s.is_exact = true;
    order.skip(is_gone_in{&states_});  // its old entry, too, where that comes next
    order.insert(e.time, e.task);
    check_next(order);
    ++counts_.retimed;
    if (!was.has_place) {
      --pending_;
    } else if (was.ready != e.time && order.has_next() && order.is_next_before(was.ready, e.tie, ties_of{&program_})) {
      queue_.push({was.ready, e.tie, e.task});  // others still see it in its old place
    }
    if (was.has_place && was.ready == s.ready && was.start == s.start && was.end == s.end) {
      return s.end;
    }
    counts_.changed += has_old_times(e.task, was) ? 0 : 1;
    for (const auto link : program_.after(e.task)) {
      tell(link, was, s);
    }
    return s.end;
  }
  // Whether a withdrawn task came back to its times of before the edit.
  [[nodiscard]] bool has_old_times(std::uint32_t t, const state& was) const {
    if (was.has_place || was.journal >= journal_.size() || journal_[was.journal].task != t) {
      return false;
    }
    return has_times_of(states_[t], journal_[was.journal]);
  }
  template <class Times>
  [[nodiscard]] static bool has_times_of(const Times& s, const saved_state& before) noexcept {
    return before.ready == s.ready && before.start == s.start && before.end == s.end;
  }

  // A successor learns what became of a task's times.
  void tell(program::task_link link, const state& was, const state& now) {
    const auto t = link.task();
    auto& s = states_[t];
    const auto before = seen(was, link);
    const auto after = seen(now, link);
    if (before >= s.want && after < s.want) {
      if (const auto by = asked(t, s.want); by.ready < s.want) {
        queue(t, by.ready, by.end);
        return;
      }
    }
    if (after > s.want || link.cut_through()) {
      if (s.what == status::idle) {
        queue_check(t);
      } else {
        s.is_exact = false;
      }
    }
  }

  // Takes a task out of its old place: it is not ready then.
  void withdraw(const event& e) {
    auto& s = states_[e.task];
    s.has_place = false;
    s.start = s.end = s.arrival = never;
    ++pending_;
    check_next(open_order(e));
  }
  // Successors that the sweep would pass before a withdrawn task is looked at again.
  void warn_after(std::uint32_t t) {
    const event again{states_[t].want, program_.tie(t), t};
    for (const auto link : program_.after(t)) {
      auto& s = states_[link.task()];
      if (s.want <= again.time && earlier({s.want, program_.tie(link.task()), link.task()}, again)) {
        if (s.what == status::idle) {
          queue_check(link.task());
        } else {
          s.is_exact = false;
        }
      }
    }
  }
  // What runs next on a resource, where its order or an end has changed.
  void check_next(detail::run_order& order) {
    order.skip(is_gone_in{&states_});
    if (!order.has_next()) {
      return;
    }
    const auto t = order.next();
    const auto& s = states_[t];
    if (s.what == status::idle && std::max(s.ready, free_from(order)) != s.start) {
      push(t);
    }
  }

  // An event for a task where predecessors ask for it now. Never: it waits until it is told more.
  void queue(std::uint32_t t, std::int64_t time, std::int64_t end_by) {
    auto& s = states_[t];
    save(t);
    s.want = time;
    s.end_by = end_by;
    s.is_exact = true;
    s.what = status::waiting;
    if (time < never) {
      push(t);
    }
  }
  // An event for it where it is now, to ask predecessors again.
  void queue_check(std::uint32_t t) {
    push(t);
    states_[t].is_exact = false;
  }
  void push(std::uint32_t t) {
    save(t);
    auto& s = states_[t];
    s.what = status::queued;
    queue_.push({s.want, program_.tie(t), t});
  }
  void save(std::uint32_t t) {
    auto& s = states_[t];
    if (s.what == status::idle) {
      s.journal = static_cast<std::uint32_t>(journal_.size());
      journal_.push_back({s.ready, s.start, s.end, s.arrival, s.end_by, t});
    }
  }

  // What the predecessors of a task ask of it.
  struct demands {
    std::int64_t ready = 0;
    std::int64_t end = 0;
  };
  // Looks no further where the ready time is `enough` or more.
  [[nodiscard]] demands asked(std::uint32_t t, std::int64_t enough) const {
    demands by;
    const auto links = program_.before(t);
    for (auto i = links.size(); i-- > 0 && by.ready < enough;) {
      const auto& s = states_[links[i].task()];
      by.ready = std::max(by.ready, seen(s, links[i]));
      if (links[i].cut_through()) {
        by.end = std::max(by.end, s.arrival);
      }
    }
    return by;
  }
  // From when on the other end of a link may be ready.
  [[nodiscard]] static std::int64_t seen(const state& s, program::task_link link) noexcept {
    return link.cut_through() ? s.start + (s.arrival - s.end) : s.arrival;
  }

  // The order of the event's resource, at its time.
  detail::run_order& open_order(const event& e) {
    const auto r = program_.timed(e.task).resource.index();
    auto& order = orders_[r];
    if (!order.is_open()) {
      order.open(e.time, e.tie, ties_of{&program_});
      open_orders_.push_back(r);
    } else {
      order.advance(e.time, e.tie, ties_of{&program_}, is_gone_in{&states_});
    }
    return order;
  }
  [[nodiscard]] std::int64_t free_from(const detail::run_order& order) const {
    return order.has_last() ? states_[order.last()].end : 0;
  }

  program::program program_;
  std::vector<state> states_;
  std::vector<detail::run_order> orders_;  // by resource
  std::int64_t latest_ = 0;
  delta_counters counts_{};

  // Of the open edit.
  event_queue queue_;
  std::vector<saved_state> journal_;
  std::vector<std::uint32_t> open_orders_;
  std::int64_t before_ = 0;
  std::size_t pending_ = 0;  // tasks without a time
  bool all_ = false;      // that come after the first change are timed, by full_
  full_simulation full_;
  std::vector<std::int64_t> free_;

  retiming which_;
  detail::change_shares shares_{};
};

}  // namespace unity::simulate
