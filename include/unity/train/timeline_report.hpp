// Reports on the timelines of a run: gathers them from all ranks, writes them as a trace in Chrome's format, and
// divides time by kind of work.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/core/units.hpp>
#include <unity/io/chrome_trace.hpp>
#include <unity/train/host_exchange.hpp>
#include <unity/train/timeline.hpp>

namespace unity::train {

// A common origin of time for all ranks, after the last one has arrived: a time of rank 0 for ranks that share its
// clock; for others, the end of the same barrier. To be called by all ranks.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] timeline::clock::time_point common_origin(C& c) {
  using clock = timeline::clock;
  const auto of_first_rank = [&](clock::time_point own) {
    std::vector<clock::time_point> all(static_cast<std::size_t>(c.size()));
    gather_bytes(c, std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
    return all[0];
  };
  const auto before = clock::now();
  static_cast<void>(of_first_rank(before));  // a barrier
  const auto own = clock::now();
  const auto first = of_first_rank(own);
  // A time of rank 0's clock lies in this interval if this rank shares the clock. If another clock's time does by
  // chance, the error is at most the length of the barrier.
  return before <= first && first <= clock::now() ? first : own;
}

// To be called by all ranks; each gets the same result. `labels`: the names to which spans refer, the same on all
// ranks. `memory`: of this rank. Complexity: memory is ranks times the largest number of spans and values of a rank.
// Throws: unity::error if a rank is lost.
template <host_reaching_communicator C>
[[nodiscard]] merged_timeline gather_timelines(C& c, const timeline& own, std::vector<std::string> labels,
                                               const rank_memory& memory = {}) {
  struct size {
    std::uint64_t spans;
    std::uint64_t values;
    std::uint64_t readers;
    std::uint64_t dropped;
    nanoseconds origin;
    bytes kept;
    bytes arena;
    bytes loaded;
    bytes stored;
  };
  const auto ranks = static_cast<std::size_t>(c.size());
  const auto origin = std::chrono::duration_cast<std::chrono::nanoseconds>(own.origin().time_since_epoch());
  const size of_own{
      own.spans().size(), memory.values.size(), memory.readers.size(), own.dropped(), nanoseconds{origin.count()},
      memory.kept,        memory.arena,         memory.loaded,         memory.stored};
  std::vector<size> sizes(ranks);
  gather_bytes(c, std::as_bytes(std::span{&of_own, 1}), std::as_writable_bytes(std::span{sizes}));
  std::vector<std::uint64_t> spans;
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> readers;
  for (const auto& s : sizes) {
    spans.push_back(s.spans);
    values.push_back(s.values);
    readers.push_back(s.readers);
  }
  auto all_spans = gather_lists(c, own.spans(), spans);
  auto all_values = gather_lists(c, std::span<const needed_memory>{memory.values}, values);
  auto all_readers = gather_lists(c, std::span<const value_reader>{memory.readers}, readers);
  merged_timeline merged{{}, std::move(labels)};
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto& s = sizes[r];
    merged.ranks.push_back(
        {std::move(all_spans[r]),
         s.dropped,
         s.origin,
         {s.kept, s.arena, std::move(all_values[r]), std::move(all_readers[r]), s.loaded, s.stored}});
  }
  return merged;
}

// Timelines in Chrome's trace format, for comparison with a simulated iteration (io/chrome_trace.hpp).

namespace detail {

class timeline_tracer {
 public:
  explicit timeline_tracer(const merged_timeline& t) : timeline_{t}, begin_{t.extent().first} {}

  std::string run();

 private:
  // Viewers do not show overlapping spans of one thread, so overlapping spans go to separate threads: each to the first
  // free one.
  struct lane {
    std::size_t thread;
    std::size_t group;
    std::int64_t end;
  };
  // JSON `[bytes, last, readers...]` of values of the rank's arena, by the number of the span that needs them first.
  using needed_values = std::multimap<std::uint32_t, std::string>;

  void add_rank(std::size_t r);
  void add_memory(std::size_t r);
  void add_span(std::size_t r, std::size_t thread, const activity_span& s, const needed_values& values);

  // Computation comes first, then communication, then steps.
  static constexpr std::size_t threads_of_group = 1000;
  static constexpr std::array<std::string_view, 3> group_names{"device", "communication", "steps"};
  const merged_timeline& timeline_;
  std::int64_t begin_;
  io::trace_events trace_;
};

}  // namespace detail

// A process for each rank: one thread for computation, host copies and waits, further threads for communication, and
// another for whole steps. Times are relative to the first of all spans. `args` of an event: `kind`; `step` of
// training; `clock_us`, its start on the rank's own clock; `phase`, which is backward for backward computation; for
// transfers and waits for them, `direction`, `bytes`, and `peer` and `tag`, or `group`; `number` in the rank's program;
// and `memory`: a list of [bytes, number, readers...], memory needed from the start of this event to the end of the
// next one with that number, and the numbers of other events that read it. The metadata `process_memory` has the rank's
// `kept_bytes`, which are permanent, and `arena_bytes` for the rest. Complexity: n log n in spans and values, times the
// number that overlap.
[[nodiscard]] inline std::string to_chrome_trace(const merged_timeline& t) { return detail::timeline_tracer{t}.run(); }

// Throws: unity::error if the file cannot be written.
inline void write_chrome_trace(const merged_timeline& t, const std::filesystem::path& path) {
  atomic_write(path, to_chrome_trace(t));
}

// Divides the time of a run into computation, communication, waiting and so on.

// Each instant of a rank counts once: for the first, in the order of `activity`, of its activities at that time. So
// communication is the part that computation does not hide. Spans of whole steps do not count. Regular.
struct time_shares {
  picoseconds compute{};
  picoseconds update{};
  picoseconds communication{};
  picoseconds waiting{};
  picoseconds other{};   // nothing was recorded
  picoseconds hidden{};  // communication during compute or update; not in the sum

  // The time spent in computation, updates and visible communication.
  [[nodiscard]] picoseconds busy() const noexcept { return compute + update + communication; }
  [[nodiscard]] picoseconds total() const noexcept { return busy() + waiting + other; }

  time_shares& operator+=(const time_shares& o) noexcept;
  friend bool operator==(const time_shares&, const time_shares&) = default;
};

// Regular.
struct breakdown {
  picoseconds elapsed{};  // the length of the interval, the same for each rank
  std::vector<time_shares> ranks{};
  time_shares all{};         // sum over ranks
  std::size_t critical = 0;  // the busiest rank, for which the others waited; the first of equals

  friend bool operator==(const breakdown&, const breakdown&) = default;
};

namespace detail {

// Sweeps over the spans of a rank between two times, in nanoseconds.
[[nodiscard]] time_shares shares_of(const rank_timeline& rank, std::int64_t from, std::int64_t until);

}  // namespace detail

// Breaks down the time between two instants, in nanoseconds since the origin, such as the start and end of an
// iteration. Complexity: n log n in spans.
[[nodiscard]] breakdown break_down(const merged_timeline& t, std::int64_t from, std::int64_t until);

// Breaks down the whole timeline.
[[nodiscard]] inline breakdown break_down(const merged_timeline& t) {
  const auto [from, until] = t.extent();
  return break_down(t, from, until);
}

}  // namespace unity::train

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRAIN_TIMELINE_REPORT)

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::train::detail {

UNITY_INLINE std::string timeline_tracer::run() {
  for (std::size_t r = 0; r < timeline_.ranks.size(); ++r) {
    const auto dropped = timeline_.ranks[r].dropped;
    trace_.name_process(
        r, fmt::format("rank {}{}", r, dropped == 0 ? "" : fmt::format(", without the last {} spans", dropped)));
    add_memory(r);
    add_rank(r);
  }
  return trace_.text();
}

UNITY_INLINE void timeline_tracer::add_memory(std::size_t r) {
  const auto& m = timeline_.ranks[r].memory;
  if (m != rank_memory{}) {
    trace_.describe_process(r, "process_memory",
                            fmt::format(R"("kept_bytes":{},"arena_bytes":{})", m.kept.count(), m.arena.count()));
  }
}

UNITY_INLINE void timeline_tracer::add_rank(std::size_t r) {
  auto spans = timeline_.ranks[r].spans;
  std::sort(spans.begin(), spans.end(), [](const activity_span& a, const activity_span& b) {
    return a.start != b.start ? a.start < b.start : a.end < b.end;
  });
  needed_values values;
  const auto& memory = timeline_.ranks[r].memory;
  auto reader = memory.readers.begin();  // ordered by value
  for (std::uint32_t v = 0; v < memory.values.size(); ++v) {
    const auto& value = memory.values[v];
    auto text = fmt::format("[{},{}", value.size.count(), value.last);
    for (; reader != memory.readers.end() && reader->value == v; ++reader) {
      text += reader->number == value.last ? "" : fmt::format(",{}", reader->number);
    }
    values.emplace(value.first, text + "]");
  }
  std::vector<lane> lanes;
  std::array<std::size_t, group_names.size()> counts{};
  for (const auto& s : spans) {
    const bool is_beside = s.kind == activity::communication && !is_with_host(s.way);
    const std::size_t group = is_beside ? 1 : s.kind == activity::step ? 2 : 0;
    auto free =
        std::find_if(lanes.begin(), lanes.end(), [&](const lane& l) { return l.group == group && l.end <= s.start; });
    if (free == lanes.end()) {
      const auto number = counts[group]++;
      const auto thread = number + group * threads_of_group;
      trace_.name_thread(r, thread,
                         fmt::format("{}{}", group_names[group], number == 0 ? "" : fmt::format(" {}", number + 1)));
      lanes.push_back({thread, group, 0});
      free = lanes.end() - 1;
    }
    free->end = s.end;
    add_span(r, free->thread, s, values);
  }
}

UNITY_INLINE void timeline_tracer::add_span(std::size_t r, std::size_t thread, const activity_span& s,
                                            const needed_values& values) {
  const auto& kind = activity_names[static_cast<std::size_t>(s.kind)];
  auto about = fmt::format(R"("kind":"{}","step":{},"clock_us":{})", kind, s.step,
                           io::trace_time(timeline_.ranks[r].origin + nanoseconds{s.start}));
  if (s.kind == activity::compute && s.is_backward) {
    about += R"(,"phase":"backward")";
  }
  if (is_with_host(s.way)) {
    about += fmt::format(R"(,"direction":"{}","bytes":{})", direction_names[static_cast<std::size_t>(s.way)],
                         s.size.count());
  } else if (s.way != direction::none) {
    about +=
        fmt::format(R"(,"direction":"{}","{}":{},"bytes":{})", direction_names[static_cast<std::size_t>(s.way)],
                    s.way == direction::send || s.way == direction::receive ? "tag" : "group", s.tag, s.size.count());
  }
  if (s.peer != no_peer) {
    about += fmt::format(R"(,"peer":{})", s.peer);
  }
  if (s.number != no_number) {
    about += fmt::format(R"(,"number":{})", s.number);
    std::string list;
    const auto [from, to] = values.equal_range(s.number);
    for (auto v = from; v != to; ++v) {
      list += (list.empty() ? "" : ",") + v->second;
    }
    about += list.empty() ? "" : fmt::format(R"(,"memory":[{}])", list);
  }
  const auto name = s.kind == activity::step            ? fmt::format("step {}", s.step)
                    : s.label < timeline_.labels.size() ? timeline_.labels[s.label]
                                                        : fmt::format("{}", s.label);
  trace_.add({r, thread, name, std::string{kind}, (s.start - begin_) * 1000, (s.end - s.start) * 1000, about});
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE time_shares& time_shares::operator+=(const time_shares& o) noexcept {
  compute += o.compute;
  update += o.update;
  communication += o.communication;
  waiting += o.waiting;
  other += o.other;
  hidden += o.hidden;
  return *this;
}

}  // namespace unity::train

namespace unity::train::detail {

UNITY_INLINE time_shares shares_of(const rank_timeline& rank, std::int64_t from, std::int64_t until) {
  struct change {
    std::int64_t at;
    activity kind;
    int by;
  };
  std::vector<change> changes{{until, activity::waiting, 0}};
  for (const auto& s : rank.spans) {
    const auto start = std::max(s.start, from);
    const auto end = std::min(s.end, until);
    if (start < end && s.kind != activity::step) {
      changes.push_back({start, s.kind, 1});
      changes.push_back({end, s.kind, -1});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const change& a, const change& b) { return a.at < b.at; });
  std::array<int, 4> open{};
  std::array<picoseconds, open.size() + 1> sums{};
  picoseconds hidden{};
  auto before = from;
  for (const auto& c : changes) {
    const picoseconds passed{(c.at - before) * 1000};
    const auto first = std::find_if(open.begin(), open.end(), [](int count) { return count > 0; });
    sums[static_cast<std::size_t>(first - open.begin())] += passed;
    if (first < open.begin() + 2 && open[static_cast<std::size_t>(activity::communication)] > 0) {
      hidden += passed;
    }
    open[static_cast<std::size_t>(c.kind)] += c.by;
    before = c.at;
  }
  return {sums[0], sums[1], sums[2], sums[3], sums[4], hidden};
}

}  // namespace unity::train::detail

namespace unity::train {

UNITY_INLINE breakdown break_down(const merged_timeline& t, std::int64_t from, std::int64_t until) {
  UNITY_EXPECTS(from <= until, "an end that is not before the start");
  breakdown b{picoseconds{(until - from) * 1000}, {}, {}, 0};
  for (const auto& rank : t.ranks) {
    b.ranks.push_back(detail::shares_of(rank, from, until));
    b.all += b.ranks.back();
    if (b.ranks.back().busy() > b.ranks[b.critical].busy()) {
      b.critical = b.ranks.size() - 1;
    }
  }
  return b;
}

}  // namespace unity::train

#endif
