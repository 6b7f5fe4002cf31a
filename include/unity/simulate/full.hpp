// Full simulation: the times of all tasks of a program.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// A priority queue of events in order of time.

struct event {
  std::int64_t time = 0;  // picoseconds, not negative
  std::uint64_t tie = 0;  // breaks ties: the lower one first
  std::uint32_t task = 0;
};

// One branch-free comparison of 128 bits: which of two events is earlier is unpredictable.
[[nodiscard]] constexpr bool earlier(const event& a, const event& b) noexcept {
  __extension__ using wide = unsigned __int128;
  return (wide{static_cast<std::uint64_t>(a.time)} << 64U | a.tie) <
         (wide{static_cast<std::uint64_t>(b.time)} << 64U | b.tie);
}

// Divides time into intervals of equal length. Events of later intervals go to lists; the events of the current
// interval are sorted when it begins, and later additions, or earlier events, go through a heap. So most events are
// sorted among few others, and the next ones are known. Until intervals exist (spread), all events go through the heap.
// The heap has four children per node: it is half as deep as a binary one, and the children are adjacent. Complexity:
// logarithmic in the events of an interval, amortized; memory is kept when it is emptied.
class event_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return heap_.empty() && now_.empty(); }
  void clear() noexcept {
    heap_.clear();
    now_.clear();
    later_.clear();
    lists_.clear();
    taken_ = 0;
    current_ = from_ = 0;
  }
  // Announces about `count` events between these times. Call it at most once between two clears, before adding any
  // event later than `from`.
  void spread(std::int64_t from, std::int64_t until, std::size_t count) {
    lists_.assign(std::bit_ceil(count / 8 + 1), none);
    from_ = from;
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(until - from, 1));
    shift_ =
        std::max(0, static_cast<int>(std::bit_width(length)) + 1 - static_cast<int>(std::bit_width(lists_.size())));
  }

  void push(const event& e) {
    const auto i = interval(e.time);
    if (i <= current_ || empty()) {
      current_ = std::max(current_, i);
      heap_.push_back(e);
      sift_up(heap_.size() - 1, e);
    } else {
      auto& last = lists_[static_cast<std::size_t>(i)];
      later_.push_back({e, last});
      last = static_cast<std::uint32_t>(later_.size() - 1);
    }
  }

  // The earliest event. Precondition: not empty.
  [[nodiscard]] const event& front() const noexcept { return is_heap_next() ? heap_.front() : now_.back(); }
  event pop() {
    event first;
    if (is_heap_next()) {
      first = pop_heap();
    } else {
      first = now_.back();
      now_.pop_back();
    }
    if (empty() && taken_ < later_.size()) {
      advance();
    }
    return first;
  }
  // An event that comes soon, about this many positions later in its interval; null if not known.
  [[nodiscard]] const event* ahead(std::size_t count) const noexcept {
    return count < now_.size() ? &now_[now_.size() - 1 - count] : nullptr;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffffU;
  struct later_event {
    event what{};
    std::uint32_t next = none;  // in its list
  };

  [[nodiscard]] std::int64_t interval(std::int64_t time) const noexcept {
    return std::min((time - from_) >> shift_, static_cast<std::int64_t>(lists_.size()) - 1);
  }
  [[nodiscard]] bool is_heap_next() const noexcept {
    return now_.empty() || (!heap_.empty() && earlier(heap_.front(), now_.back()));
  }
  event pop_heap() {
    const auto first = heap_.front();
    const auto last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) {
      sift_down(last);
    }
    return first;
  }
  // Advances to the next interval that has events.
  void advance() {
    for (auto i = current_ + 1; i < static_cast<std::int64_t>(lists_.size()); ++i) {
      auto at = lists_[static_cast<std::size_t>(i)];
      if (at != none) {
        for (; at != none; at = later_[at].next, ++taken_) {
          now_.push_back(later_[at].what);
        }
        std::sort(now_.begin(), now_.end(), [](const event& a, const event& b) { return earlier(b, a); });
        current_ = i;
        return;
      }
    }
  }
  // Moves the hole down to a leaf along the earliest children, then e up from there: e was the last one, so it rarely
  // moves far.
  void sift_down(const event& e) {
    const auto size = heap_.size();
    auto* const heap = heap_.data();
    std::size_t i = 0;
    auto child = std::size_t{1};
    for (; child + 4 <= size; child = 4 * i + 1) {
      const auto left = earlier(heap[child + 1], heap[child]) ? child + 1 : child;
      const auto right = earlier(heap[child + 3], heap[child + 2]) ? child + 3 : child + 2;
      const auto best = earlier(heap[right], heap[left]) ? right : left;
      heap[i] = heap[best];
      i = best;
    }
    if (child < size) {
      auto best = child;
      for (auto c = child + 1; c < size; ++c) {
        best = earlier(heap[c], heap[best]) ? c : best;
      }
      heap[i] = heap[best];
      i = best;
    }
    sift_up(i, e);
  }
  void sift_up(std::size_t i, const event& e) {
    while (i > 0) {
      const auto parent = (i - 1) / 4;
      if (!earlier(e, heap_[parent])) {
        break;
      }
      heap_[i] = heap_[parent];
      i = parent;
    }
    heap_[i] = e;
  }

  std::vector<event> heap_;
  std::vector<event> now_;            // sorted, the earliest last
  std::vector<later_event> later_;    // all events put into lists since the last clear
  std::vector<std::uint32_t> lists_;  // by interval: the last one put in
  std::size_t taken_ = 0;             // how many of them left their lists
  std::int64_t current_ = 0;          // the current interval
  std::int64_t from_ = 0;
  int shift_ = 0;
};

// When a task is ready, starts and ends, in picoseconds from the start of the iteration.
struct task_times {
  std::int64_t ready = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;

  friend bool operator==(const task_times&, const task_times&) = default;
};

namespace detail {

// Throws: unity::error for a program in which not all tasks can run. Names the first task of a cycle.
template <class IsDone>
[[noreturn]] void report_cycle(const tasks::program& p, const IsDone& is_done) {
  tasks::task_id at;
  for (std::size_t f = 0; f < p.fragment_count() && !at.valid(); ++f) {
    const auto range = p.tasks_of(tasks::fragment_id{f});
    for (auto t = range.first; t < range.first + range.count && !at.valid(); ++t) {
      at = is_done(t) ? at : tasks::task_id{t};
    }
  }
  UNITY_EXPECTS(at.valid(), "a task that did not run");
  // Each task that did not run depends on another one that did not, so the way back ends in a cycle.
  const auto back = [&](tasks::task_id t) {
    const auto before = p.before(t.index());
    const auto found = std::find_if(before.begin(), before.end(), [&](const auto& l) { return !is_done(l.task()); });
    UNITY_EXPECTS(found != before.end(), "a task that waits for another one");
    return tasks::task_id{found->task()};
  };
  for (std::size_t step = 0; step < p.task_count(); ++step) {
    at = back(at);
  }
  auto first = at;
  for (auto t = back(at); t != at; t = back(t)) {
    first = p.tie(t.index()) < p.tie(first.index()) ? t : first;
  }
  const auto [fragment, index] = p.where(first);
  const auto& of = p.owner_of(fragment);
  throw error{"program",
              fmt::format("task {} of fragment {}{} waits for itself", index, fragment.index(),
                          of.name.empty() ? "" : fmt::format(" ({})", of.name)),
              "dependencies without a cycle"};
}

}  // namespace detail

// A task is ready when everything that it depends on has ended and arrived. Each resource runs one task at a time, in
// order of ready time and then of program::tie; a task without a resource starts when it is ready, concurrently with
// others.
// Source: Jia, dissertation (2020), section 3.4.2, table 3.2; ties, latencies and cut-through are additions of this
// library.
class full_simulation {
 public:
  // Returns the latest end. Memory is kept for the next run. Complexity: t log t for t tasks, and linear in
  // dependencies.
  // Throws: unity::error if tasks wait for each other.
  picoseconds run(const tasks::program& p) {
    begin(p);
    for_each_place(p, [&](std::uint32_t t) { expect(p, t); });
    const auto busiest = std::max_element(loads_.begin(), loads_.end());
    queue_.spread(0, busiest == loads_.end() ? 0 : *busiest + *busiest / 2, task_count_);
    const auto end = run_queue(p, std::numeric_limits<std::int64_t>::max());
    if (!is_complete()) {
      detail::report_cycle(p, [&](std::uint32_t t) { return is_done(t); });
    }
    return *end;
  }

  // Likewise for a program that was edited since `before` ran it. The edit must change no task that is ready before
  // `since`: those keep their times, and the others are timed. Returns the latest end, or nothing as soon as a task
  // must end after `bound`; check is_complete(). Places that the edit adds must have been marked as never ready in
  // `before` (forget). Complexity: as run for the tasks that are timed, and linear in the others and their
  // dependencies.
  std::optional<picoseconds> run_after(const tasks::program& p, const full_simulation& before, std::int64_t since,
                                       std::int64_t bound) {
    begin(p);
    for_each_place(p, [&](std::uint32_t t) {
      if (before.times_[t].ready < since) {
        times_[t] = before.times_[t];
      } else {
        expect(p, t);
      }
    });
    queue_.spread(since, before.latest_, task_count_);
    const auto is_kept = [&](std::uint32_t t) { return before.times_[t].ready < since; };
    kept_ = static_cast<std::size_t>(std::partition_point(before.order_.begin(), before.order_.end(), is_kept) -
                                     before.order_.begin());
    order_.assign(before.order_.begin(), before.order_.begin() + static_cast<std::ptrdiff_t>(kept_));
    for (const auto t : order_) {
      const auto& task = p.timed(t);
      const auto& times = times_[t];
      if (task.resource.valid()) {
        free_[task.resource.index()] = times.end;
      }
      latest_ = std::max(latest_, times.end);
      for (const auto link : p.after(t)) {
        if (times_[link.task()].start < 0) {
          count_down(p, link, times, task.latency);
        }
      }
    }
    return run_queue(p, bound);
  }
  // Marks places as never ready; call it for places that an edit adds.
  void forget(std::size_t capacity, std::uint32_t first, std::uint32_t count) {
    times_.resize(std::max(times_.size(), capacity));
    std::fill_n(times_.begin() + first, count, task_times{std::numeric_limits<std::int64_t>::max(), 0, 0});
  }

  // Whether the last run timed all tasks: it did not if tasks wait for each other, or it stopped at its bound.
  [[nodiscard]] bool is_complete() const noexcept { return order_.size() == task_count_; }
  [[nodiscard]] bool is_done(std::uint32_t place) const { return times_[place].start >= 0; }

  // The times by place in the program; entries of empty places are meaningless.
  [[nodiscard]] std::span<const task_times> times() const noexcept { return times_; }
  // Tasks in the order in which they were timed, which is that of their ready times. Restricted to one resource, it is
  // the order in which the resource runs them.
  [[nodiscard]] std::span<const std::uint32_t> order() const noexcept { return order_; }
  // The number of tasks at the beginning of order() that kept their times.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  template <class Visit>
  static void for_each_place(const tasks::program& p, const Visit& visit) {
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        visit(t);
      }
    }
  }
  void begin(const tasks::program& p) {
    times_.resize(std::max(times_.size(), p.capacity()));
    free_.assign(p.resources().size(), 0);
    loads_.assign(p.resources().size(), 0);
    queue_.clear();
    order_.clear();
    task_count_ = p.task_count();
    order_.reserve(task_count_);
    latest_ = 0;
    kept_ = 0;
  }
  // A task to be timed. While it waits, `start` holds minus the number of tasks that it waits for.
  void expect(const tasks::program& p, std::uint32_t t) {
    const auto& task = p.timed(t);
    times_[t] = {0, -static_cast<std::int64_t>(task.before_count), 0};
    if (task.resource.valid()) {
      // a bound: a smaller value is valid, too, if the exact one would not fit
      auto& load = loads_[task.resource.index()];
      load = std::min(load + task.duration, std::int64_t{1} << 62U);
    }
    if (task.before_count == 0) {
      queue_.push({0, p.tie(t), t});
    }
  }
  std::optional<picoseconds> run_queue(const tasks::program& p, std::int64_t bound) {
    while (!queue_.empty()) {
      const auto least = run_next(p);
      if (latest_ > latest_end) {
        throw error{"program", fmt::format("an iteration of more than {} s", latest_end / 1'000'000'000'000),
                    "times that fit"};
      }
      if (least > bound) {
        return std::nullopt;
      }
    }
    return picoseconds{latest_};
  }
  // One of the tasks that a task waits for has been timed.
  void count_down(const tasks::program& p, tasks::task_link link, const task_times& by, std::int64_t latency) {
    auto& next = times_[link.task()];
    next.ready = std::max(next.ready, (link.cut_through() ? by.start : by.end) + latency);
    if (link.cut_through()) {
      next.end = std::max(next.end, by.end + latency);
    }
    if (++next.start == 0) {
      queue_.push({next.ready, p.tie(link.task()), link.task()});
    }
  }
  // Prefetches the data of the next events: first the task, then its links, then the other ends of these.
  void prefetch(const tasks::program& p) const {
    if (const auto* const e = queue_.ahead(4)) {
      __builtin_prefetch(&p.timed(e->task));
      __builtin_prefetch(&times_[e->task]);
    }
    if (const auto* const e = queue_.ahead(2)) {
      __builtin_prefetch(p.after(e->task).data());
    }
    if (const auto* const e = queue_.ahead(0)) {
      const auto links = p.after(e->task);
      for (std::size_t i = 0; i < std::min<std::size_t>(links.size(), 4); ++i) {
        __builtin_prefetch(&times_[links[i].task()]);
        __builtin_prefetch(&p.tie(links[i].task()));
      }
    }
  }
  // The earliest time at which the resource of the next task can be done with all its remaining work.
  std::int64_t run_next(const tasks::program& p) {
    const auto e = queue_.pop();
    prefetch(p);
    const auto& task = p.timed(e.task);
    auto& times = times_[e.task];  // its end, as far as cut-through requires it
    auto least = std::int64_t{0};
    times.start = e.time;
    if (task.resource.valid()) {
      auto& free = free_[task.resource.index()];
      times.start = std::max(e.time, free);
      times.end = free = std::max(times.end, times.start + task.duration);
      auto& load = loads_[task.resource.index()];
      load -= task.duration;
      least = times.end + load;
    } else {
      times.end = least = std::max(times.end, times.start + task.duration);
    }
    latest_ = std::max(latest_, times.end);
    order_.push_back(e.task);
    for (const auto link : p.after(e.task)) {
      count_down(p, link, times, task.latency);
    }
    return least;
  }

  static constexpr std::int64_t latest_end = std::int64_t{1} << 61U;  // 27 days
  std::vector<task_times> times_;
  std::vector<std::int64_t> free_;   // start of idle time, by resource
  std::vector<std::int64_t> loads_;  // durations of tasks that did not run yet, by resource
  std::vector<std::uint32_t> order_;
  std::size_t task_count_ = 0;
  std::size_t kept_ = 0;
  std::int64_t latest_ = 0;
  event_queue queue_;
};

}  // namespace unity::simulate
