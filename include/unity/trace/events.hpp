// What the ranks of a training job did and when, as their profilers recorded it. All readers of traces make a
// job_trace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/trace/message.hpp>

namespace unity::trace {

// A place where events happen one after another. A host thread launches what a stream runs; a channel moves messages.
enum class lane_kind : std::uint8_t { host, stream, channel };

struct lane {
  std::string name{};
  lane_kind kind = lane_kind::host;
  std::uint32_t device = 0;  // of a stream: index within its rank
  bool is_queue = false;     // of a channel: overlapping events wait for each other, in order of their starts

  friend bool operator==(const lane&, const lane&) = default;
};

// The kind of an event.
//   operation        of a host thread, such as an operator of a framework; operations of a thread may nest
//   launch           a call of a host thread that starts work on a stream (the two share a correlation)
//   kernel, copy     work of a stream
//   collective       of a group of ranks, on a stream, a channel or a host thread
//   send, receive    of one message
//   synchronization  a host thread waits for streams
//   step             a whole iteration, as the program marked it
enum class event_kind : std::uint8_t {
  operation,
  launch,
  kernel,
  copy,
  collective,
  send,
  receive,
  synchronization,
  step
};
inline constexpr std::array<std::string_view, 9> event_kind_names{
    "operation", "launch", "kernel", "copy", "collective", "send", "receive", "synchronization", "step"};

// The part of an iteration that an event belongs to, by descending priority in a queue of dPRO's replayer.
enum class phase : std::uint8_t { forward, output, backward, update, communication };
inline constexpr std::array<std::string_view, 5> phase_names{"forward", "output", "backward", "update",
                                                             "communication"};

inline constexpr std::int64_t no_step = -1;
inline constexpr std::uint32_t no_event = std::numeric_limits<std::uint32_t>::max();

struct event {
  picoseconds start{};            // from the origin of the rank
  picoseconds duration{};         // not negative
  std::uint64_t correlation = 0;  // a launch and what it started have the same one; 0: none
  std::int64_t step = no_step;    // number of the training step
  name_id name{};
  std::uint32_t lane = 0;
  std::uint32_t message = no_message;  // index in the rank's list
  event_kind kind = event_kind::operation;
  phase part = phase::forward;

  [[nodiscard]] constexpr picoseconds end() const noexcept { return start + duration; }
  friend bool operator==(const event&, const event&) = default;
};

// `after` starts when `before` has ended. Indices in the rank's list of events.
struct event_order {
  std::uint32_t before = 0;
  std::uint32_t after = 0;

  friend bool operator==(const event_order&, const event_order&) = default;
};

// An iteration of a rank, as its main thread saw it. Times are from the origin of the rank.
struct step_window {
  std::int64_t number = 0;
  picoseconds start{};
  picoseconds end{};

  [[nodiscard]] constexpr picoseconds duration() const noexcept { return end - start; }
  friend bool operator==(const step_window&, const step_window&) = default;
};

// More than any device has, and more than one message moves. Sums over two million events fit in 63 bits.
inline constexpr bytes most_memory{std::int64_t{1} << 42U};

// Memory of a rank from the start of one event to the end of another. Indices in the rank's list of events.
struct allocation {
  std::uint32_t made_by = no_event;   // none: allocated before the recording
  std::uint32_t freed_by = no_event;  // none: outlives the recording
  bytes size{};                       // above 0

  friend bool operator==(const allocation&, const allocation&) = default;
};

// An event that reads the content of an allocation.
struct memory_read {
  std::uint32_t allocation = 0;  // indices in the rank's lists
  std::uint32_t event = 0;

  friend bool operator==(const memory_read&, const memory_read&) = default;
};

// A gradient that is complete when an event has ended, and is summed in a bucket with others.
struct gradient_event {
  std::uint32_t event = 0;  // index in the rank's list
  bytes size{};             // 0: unknown

  friend bool operator==(const gradient_event&, const gradient_event&) = default;
};

// Regular. Events are sorted by lane, then by start, longer ones first (sort_events); steps by number.
struct rank_trace {
  std::string name{};     // unique in the job
  std::string machine{};  // ranks of one machine share a clock
  std::string source{};   // the file, for messages
  std::int32_t rank = -1;
  std::int32_t world_size = 0;  // ranks of the job; 0: unknown
  nanoseconds origin{};         // on the rank's own clock
  std::vector<lane> lanes{};
  std::vector<event> events{};
  std::vector<message> messages{};
  std::vector<event_order> dependencies{};  // stated in the trace; others follow from lanes and times
  std::vector<step_window> steps{};
  std::vector<allocation> allocations{};
  std::vector<memory_read> reads{};         // if the trace records them, including readers that free
  std::vector<gradient_event> gradients{};  // if buckets have several gradients and the trace records them
  bytes held{};                             // bytes that are allocated all the time: weights, optimizer state, buffers
  std::map<std::string, std::size_t> unknown{};  // events that were not understood, by reason
  std::size_t recorded = 0;                      // events in the file, in total

  friend bool operator==(const rank_trace&, const rank_trace&) = default;
};

// All ranks share one table of names.
struct job_trace {
  name_table names{};
  std::vector<rank_trace> ranks{};
  [[nodiscard]] std::size_t event_count() const noexcept;
};

// Effects: sorts events and corrects references to their indices. Complexity: n log n.
void sort_events(rank_trace& t);

// Effects: assigns each event without a step the step of its launch, or otherwise that of the window in which it
// starts. Steps that events name and that have no window get one, from their first start to the first start of the next
// step (or their last end). A trace without steps is one step with number 0. Events outside of all steps keep none.
// Precondition: events are sorted. Complexity: n log n.
void assign_steps(rank_trace& t);

// Effects: numbers collectives without a sequence number by group, way and step in order of start. Precondition:
// assign_steps. Complexity: n log n.
void number_sequences(rank_trace& t);

// Effects: all of the above, for a rank whose events were all added. First divides device lanes with overlapping
// events, and moves starts that lie within the precision of traces (2 us) before the end of the previous event to that
// end. Complexity: n log n, times how many overlap.
void complete(rank_trace& t);

// Effects: sorts ranks by number and name, and gives each a unique name.
// Throws: unity::error without ranks or events, if a rank occurs twice, if ranks belong to jobs of different sizes, if
// no step is common to all ranks, if an event ends before it starts, or if a message or gradient is of more than
// most_memory.
void check_job(job_trace& job);

// The numbers of the steps that all ranks have, ascending.
[[nodiscard]] std::vector<std::int64_t> common_steps(const job_trace& job);

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_EVENTS)

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::trace {

UNITY_INLINE std::size_t job_trace::event_count() const noexcept {
  std::size_t all = 0;
  for (const auto& r : ranks) {
    all += r.events.size();
  }
  return all;
}

namespace detail {

// Moves the later of overlapping events on a stream or channel to further lanes. Moves starts that lie within the
// precision of traces (2 us) before the end of the previous event to that end.
inline void divide_lanes(rank_trace& t) {
  constexpr picoseconds rounding{2'000'000};
  std::vector<std::vector<std::uint32_t>> parts(t.lanes.size());  // the lanes into which a lane was divided
  std::vector<picoseconds> ends(t.lanes.size(), picoseconds{std::numeric_limits<std::int64_t>::min()});
  for (std::uint32_t l = 0; l < t.lanes.size(); ++l) {
    parts[l].push_back(l);
  }
  for (auto& e : t.events) {
    if (t.lanes[e.lane].kind == lane_kind::host || t.lanes[e.lane].is_queue || e.kind == event_kind::step) {
      continue;
    }
    auto& own = parts[e.lane];
    auto free = std::find_if(own.begin(), own.end(), [&](auto l) { return ends[l] <= e.start; });
    if (free == own.end()) {
      free = std::find_if(own.begin(), own.end(),
                          [&](auto l) { return ends[l] - e.start <= std::min(rounding, e.duration); });
      if (free != own.end()) {
        e.duration -= ends[*free] - e.start;
        e.start = ends[*free];
      }
    }
    if (free == own.end()) {
      auto another = t.lanes[e.lane];
      another.name += fmt::format(" ({})", own.size() + 1);
      own.push_back(static_cast<std::uint32_t>(t.lanes.size()));
      t.lanes.push_back(std::move(another));
      ends.push_back({});
      parts.emplace_back();
      e.lane = static_cast<std::uint32_t>(t.lanes.size() - 1);
    } else {
      e.lane = *free;
    }
    ends[e.lane] = e.end();
  }
}

}  // namespace detail

UNITY_INLINE void complete(rank_trace& t) {
  sort_events(t);
  detail::divide_lanes(t);
  sort_events(t);
  assign_steps(t);
  number_sequences(t);
}

UNITY_INLINE void sort_events(rank_trace& t) {
  std::vector<std::uint32_t> order(t.events.size());
  std::iota(order.begin(), order.end(), std::uint32_t{0});
  const auto key = [&](std::uint32_t i) {
    const auto& e = t.events[i];
    return std::tuple{e.lane, e.start, -e.duration, i};
  };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  std::vector<event> sorted;
  sorted.reserve(order.size());
  std::vector<std::uint32_t> place(order.size());
  for (const auto i : order) {
    place[i] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(t.events[i]);
  }
  t.events = std::move(sorted);
  for (auto& d : t.dependencies) {
    d = {place[d.before], place[d.after]};
  }
  for (auto& a : t.allocations) {
    a.made_by = a.made_by == no_event ? no_event : place[a.made_by];
    a.freed_by = a.freed_by == no_event ? no_event : place[a.freed_by];
  }
  for (auto& r : t.reads) {
    r.event = place[r.event];
  }
  for (auto& g : t.gradients) {
    g.event = place[g.event];
  }
}

namespace detail {

// Adds windows for steps that events name but that have no window.
inline void add_named_steps(rank_trace& t) {
  std::map<std::int64_t, step_window> named;
  for (const auto& e : t.events) {
    if (e.step != no_step && e.kind != event_kind::step) {
      auto& w = named.try_emplace(e.step, step_window{e.step, e.start, e.end()}).first->second;
      w.start = std::min(w.start, e.start);
      w.end = std::max(w.end, e.end());
    }
  }
  for (auto w = named.begin(); w != named.end(); ++w) {
    if (const auto next = std::next(w); next != named.end() && next->second.start > w->second.start) {
      w->second.end = next->second.start;
    }
    if (std::none_of(t.steps.begin(), t.steps.end(), [&](const auto& s) { return s.number == w->first; })) {
      t.steps.push_back(w->second);
    }
  }
}

// Finds the step at a time: the one with the lowest number if steps overlap.
class step_finder {
 public:
  explicit step_finder(const std::vector<step_window>& by_number) : by_number_{by_number}, by_start_{by_number} {
    std::sort(by_start_.begin(), by_start_.end(), [](auto& a, auto& b) { return a.start < b.start; });
    for (std::size_t i = 1; i < by_start_.size(); ++i) {
      overlap_ = overlap_ || by_start_[i].start < by_start_[i - 1].end;
    }
  }
  // Complexity: logarithmic in steps, linear where some overlap.
  [[nodiscard]] std::int64_t at(picoseconds time) const {
    const auto is_in = [&](const step_window& w) { return time >= w.start && time < w.end; };
    if (overlap_) {
      const auto w = std::find_if(by_number_.begin(), by_number_.end(), is_in);
      return w == by_number_.end() ? no_step : w->number;
    }
    const auto next = std::upper_bound(by_start_.begin(), by_start_.end(), time,
                                       [](picoseconds t, const step_window& w) { return t < w.start; });
    return next != by_start_.begin() && is_in(*std::prev(next)) ? std::prev(next)->number : no_step;
  }

 private:
  const std::vector<step_window>& by_number_;
  std::vector<step_window> by_start_;
  bool overlap_ = false;
};

}  // namespace detail

UNITY_INLINE void assign_steps(rank_trace& t) {
  for (const auto& e : t.events) {
    if (e.kind == event_kind::step) {
      t.steps.push_back({e.step, e.start, e.end()});
    }
  }
  detail::add_named_steps(t);
  if (t.steps.empty() && !t.events.empty()) {
    step_window all{0, t.events[0].start, t.events[0].end()};
    for (const auto& e : t.events) {
      all.start = std::min(all.start, e.start);
      all.end = std::max(all.end, e.end());
    }
    t.steps.push_back({all.number, all.start, all.end + picoseconds{1}});
  }
  std::sort(t.steps.begin(), t.steps.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  const detail::step_finder steps{t.steps};
  std::unordered_map<std::uint64_t, std::int64_t> by_correlation;
  for (auto& e : t.events) {
    if (e.kind == event_kind::launch || e.kind == event_kind::synchronization) {
      e.step = e.step == no_step ? steps.at(e.start) : e.step;
      if (e.correlation != 0) {
        by_correlation.emplace(e.correlation, e.step);
      }
    }
  }
  for (auto& e : t.events) {
    if (e.step == no_step) {
      const auto launch = e.correlation == 0 ? by_correlation.end() : by_correlation.find(e.correlation);
      e.step = launch != by_correlation.end() ? launch->second : steps.at(e.start);
    }
  }
}

UNITY_INLINE void number_sequences(rank_trace& t) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < t.events.size(); ++i) {
    if (t.events[i].kind == event_kind::collective && t.events[i].message != no_message) {
      order.push_back(i);
    }
  }
  unity::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return t.events[a].start < t.events[b].start; });
  std::map<std::tuple<name_id, exchange, std::int64_t>, std::int64_t> counts;
  for (const auto i : order) {
    auto& m = t.messages[t.events[i].message];
    if (m.sequence < 0) {
      m.sequence = counts[{m.group, m.way, t.events[i].step}]++;
    }
  }
}

UNITY_INLINE std::vector<std::int64_t> common_steps(const job_trace& job) {
  std::map<std::int64_t, std::size_t> counts;  // ranks that have it
  for (const auto& r : job.ranks) {
    std::set<std::int64_t> own;
    for (const auto& w : r.steps) {
      counts[w.number] += own.insert(w.number).second ? 1 : 0;
    }
  }
  std::vector<std::int64_t> all;
  for (const auto& [number, count] : counts) {
    if (count == job.ranks.size()) {
      all.push_back(number);
    }
  }
  return all;
}

namespace detail {

inline void check_rank(const rank_trace& r) {
  if (r.events.empty()) {
    throw error{r.source, "no event of a rank", "operators, kernels or messages with times"};
  }
  for (const auto& e : r.events) {
    if (e.duration < picoseconds{}) {
      throw error{r.source, fmt::format("an event of {}", e.duration), "events that do not end before they start"};
    }
  }
  const auto expect_size = [&](std::string_view what, bytes size) {
    if (size > most_memory) {
      throw error{r.source, fmt::format("{} of {}", what, size), fmt::format("{} at most", most_memory)};
    }
  };
  for (const auto& m : r.messages) {
    expect_size("a message", m.size);
  }
  for (const auto& g : r.gradients) {
    expect_size("a gradient", g.size);
  }
}

}  // namespace detail

UNITY_INLINE void check_job(job_trace& job) {
  if (job.ranks.empty()) {
    throw error{"traces", "no rank", "a trace of at least one"};
  }
  std::set<std::string> names;
  std::map<std::int32_t, std::string> numbers;
  std::int32_t size = 0;
  for (const auto& r : job.ranks) {
    detail::check_rank(r);
    if (r.rank >= 0 && !numbers.emplace(r.rank, r.source).second) {
      throw error{r.source, fmt::format("rank {}, which {} has, too", r.rank, numbers[r.rank]), "each rank once"};
    }
    if (!names.insert(r.name).second) {
      throw error{r.source, fmt::format("a second trace of {}", printable(r.name)), "each rank once"};
    }
    if (size != 0 && r.world_size != 0 && r.world_size != size) {
      throw error{r.source, fmt::format("a job of {} ranks", r.world_size), fmt::format("one of {}, as before", size)};
    }
    size = std::max(size, r.world_size);
  }
  unity::stable_sort(job.ranks, [](const rank_trace& a, const rank_trace& b) {
    return std::tie(a.rank, a.name) < std::tie(b.rank, b.name);
  });
  if (common_steps(job).empty()) {
    const auto& first = job.ranks.front();
    const auto other = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const rank_trace& r) {
      return r.steps.empty() || r.steps.front().number > first.steps.back().number ||
             r.steps.back().number < first.steps.front().number;
    });
    throw error{(other == job.ranks.end() ? job.ranks.back() : *other).source,
                fmt::format("none of the steps of {}", first.source), "ranks that recorded the same step"};
  }
}

}  // namespace unity::trace

#endif
