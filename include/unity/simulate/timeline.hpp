// A summary of a simulated iteration: utilization, traffic, the memory that each device holds, and the critical path
// with its composition.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/simulate/full.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::simulate {

// The level from this time on.
struct memory_level {
  picoseconds from{};
  bytes held{};

  friend bool operator==(const memory_level&, const memory_level&) = default;
};

struct memory_profile {
  bytes peak{};
  std::vector<memory_level> levels{};  // ascending in time; consecutive levels differ

  friend bool operator==(const memory_profile&, const memory_profile&) = default;
};

namespace detail {

class memory_profiler {
 public:
  memory_profiler(const tasks::program& p, std::span<const task_times> times) : program_{p}, times_{times} {}

  [[nodiscard]] std::vector<memory_profile> run() const {
    struct change {
      tasks::device_index device;
      std::int64_t time;
      std::int64_t size;
    };
    std::vector<change> changes;
    tasks::device_index devices = 0;
    for (const auto& r : program_.resources()) {
      devices = r.kind == tasks::resource_kind::stream ? std::max(devices, r.device + 1) : devices;
    }
    for_each_buffer([&](const tasks::buffer& b, std::int64_t start, std::int64_t end) {
      devices = std::max(devices, b.device + 1);
      changes.push_back({b.device, start, b.size.count()});
      if (!b.permanent) {
        changes.push_back({b.device, end, -b.size.count()});
      }
    });
    std::sort(changes.begin(), changes.end(), [](const change& a, const change& b) {
      return a.device != b.device ? a.device < b.device : a.time < b.time;
    });
    std::vector<memory_profile> all(devices);
    std::int64_t held = 0;
    for (std::size_t k = 0; k < changes.size(); ++k) {
      const auto& c = changes[k];
      held = k > 0 && changes[k - 1].device == c.device ? held + c.size : c.size;
      const bool is_last =
          k + 1 == changes.size() || changes[k + 1].device != c.device || changes[k + 1].time != c.time;
      auto& profile = all[c.device];
      if (is_last && held != (profile.levels.empty() ? 0 : profile.levels.back().held.count())) {
        profile.levels.push_back({picoseconds{c.time}, bytes{held}});
        profile.peak = std::max(profile.peak, bytes{held});
      }
    }
    return all;
  }
  [[nodiscard]] std::vector<bytes> bounds(std::size_t devices, picoseconds iteration) const {
    constexpr std::size_t parts = 1024;
    struct change {
      std::int64_t gained = 0;
      std::int64_t freed = 0;
    };
    std::vector<change> changes(devices * parts);
    const auto length = iteration.count() / static_cast<std::int64_t>(parts) + 1;
    for_each_buffer([&](const tasks::buffer& b, std::int64_t start, std::int64_t end) {
      auto* const of_device = changes.data() + b.device * parts;
      of_device[start / length].gained += b.size.count();
      if (!b.permanent) {
        of_device[end / length].freed += b.size.count();
      }
    });
    std::vector<bytes> all(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      std::int64_t held = 0;
      for (std::size_t i = 0; i < parts; ++i) {
        held += changes[d * parts + i].gained;
        all[d] = std::max(all[d], bytes{held});
        held -= changes[d * parts + i].freed;
      }
    }
    return all;
  }

 private:
  // visit(buffer, when it is allocated, when it is freed); a permanent buffer is allocated at zero.
  template <class Visit>
  void for_each_buffer(const Visit& visit) const {
    const auto ends = last_uses();
    std::size_t i = 0;
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      for (const auto& b : program_[tasks::fragment_id{f}].buffers) {
        visit(b, b.permanent ? 0 : of(b.producer, tasks::fragment_id{f}).start, ends[i++]);
      }
    }
  }
  // The end of the last use of each buffer; buffers are in the order of fragments.
  [[nodiscard]] std::vector<std::int64_t> last_uses() const {
    std::vector<std::size_t> first(program_.fragment_count() + 1, 0);
    std::vector<std::int64_t> ends;
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      first[f] = ends.size();
      for (const auto& b : program_[id].buffers) {
        ends.push_back(b.permanent ? 0 : of(b.producer, id).end);
      }
    }
    first.back() = ends.size();
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      for (const auto& read : program_[id].reads) {
        const auto at = first[(read.of.fragment.valid() ? read.of.fragment : id).index()] + read.of.index;
        UNITY_EXPECTS(at < ends.size(), "a buffer of the program");
        ends[at] = std::max(ends[at], of(read.reader, id).end);
      }
    }
    return ends;
  }
  [[nodiscard]] const task_times& of(const tasks::task_ref& r, tasks::fragment_id own) const {
    return times_[program_.find(r.fragment.valid() ? r.fragment : own, r.index).index()];
  }

  const tasks::program& program_;
  std::span<const task_times> times_;
};

}  // namespace detail

// Memory profiles by device. The times must be those of a simulation of the program, by place. Complexity: n log n in
// buffers, linear in their readers.
[[nodiscard]] inline std::vector<memory_profile> memory_profiles(const tasks::program& p,
                                                                 std::span<const task_times> times) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::memory_profiler{p, times}.run();
}

// Upper bounds on the peaks of memory, by device: at most the peak plus what is allocated within a thousandth of the
// iteration. If a bound fits, no profile is needed. The times are as above; iteration: its length. Complexity: linear
// in buffers, their readers and devices.
[[nodiscard]] inline std::vector<bytes> memory_bounds(const tasks::program& p, std::span<const task_times> times,
                                                      std::size_t devices, picoseconds iteration) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::memory_profiler{p, times}.bounds(devices, iteration);
}

enum class wait_reason : std::uint8_t {
  nothing,     // it could start with the iteration
  dependency,  // on another task
  resource,    // another task ran there
};

// A step of the critical path. It starts when the data of the task that it waited for is there, or when its resource is
// free. Times do not say in which order device_queues ran tasks of zero duration at one time, so the first step may be
// one of these that waited for its resource.
struct critical_step {
  tasks::task_id task{};
  wait_reason reason = wait_reason::nothing;
  tasks::task_id cause{};  // the step before; null for the first one

  friend bool operator==(const critical_step&, const critical_step&) = default;
};

struct resource_use {
  picoseconds busy{};
  bytes moved{};  // of links
  std::size_t tasks = 0;

  friend bool operator==(const resource_use&, const resource_use&) = default;
};

// Regular.
struct timeline {
  picoseconds iteration{};
  std::size_t tasks = 0;
  std::vector<resource_use> resources{};
  bytes communicated{};  // bytes of messages, counted on every link that they cross
  std::vector<critical_step> critical_path{};
  std::vector<memory_profile> memory{};  // by device

  friend bool operator==(const timeline&, const timeline&) = default;
};

namespace detail {

class timeline_builder {
 public:
  timeline_builder(const tasks::program& p, std::span<const task_times> times) : program_{p}, times_{times} {
    for (std::size_t f = 0; f < p.fragment_count(); ++f) {
      const auto range = p.tasks_of(tasks::fragment_id{f});
      for (auto t = range.first; t < range.first + range.count; ++t) {
        order_.push_back(t);
      }
    }
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const auto key = [&](std::uint32_t t) {
        return std::tuple{p.timed(t).resource, times[t].start, times[t].end, times[t].ready, p.tie(t)};
      };
      return key(a) < key(b);
    });
  }

  timeline run() {
    timeline all;
    all.tasks = order_.size();
    all.resources.resize(program_.resources().size());
    for (std::size_t f = 0; f < program_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      const auto& fragment = program_[id];
      for (std::uint32_t i = 0; i < fragment.tasks.size(); ++i) {
        const auto& times = times_[program_.find(id, i).index()];
        if (const auto r = fragment.tasks[i].resource; r.valid()) {
          auto& use = all.resources[r.index()];
          use.busy += picoseconds{times.end - times.start};
          use.moved += fragment.tasks[i].volume;
          ++use.tasks;
        }
        all.communicated += fragment.tasks[i].volume;
        all.iteration = std::max(all.iteration, picoseconds{times.end});
      }
    }
    all.critical_path = critical_path();
    all.memory = memory_profiles(program_, times_);
    return all;
  }

 private:
  // Follows causes backwards from the last end; among several causes, the one with the lowest tie.
  [[nodiscard]] std::vector<critical_step> critical_path() const {
    std::vector<critical_step> path;
    if (order_.empty()) {
      return path;
    }
    std::vector<std::uint32_t> previous(program_.capacity(), none);  // on its resource
    for (std::size_t i = 1; i < order_.size(); ++i) {
      const auto on = program_.timed(order_[i]).resource;
      if (on.valid() && on == program_.timed(order_[i - 1]).resource) {
        previous[order_[i]] = order_[i - 1];
      }
    }
    auto t = *std::max_element(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return times_[a].end != times_[b].end ? times_[a].end < times_[b].end : program_.tie(a) > program_.tie(b);
    });
    for (;;) {
      auto step = cause_of(t, previous[t]);
      path.push_back(step);
      if (!step.cause.valid()) {
        break;
      }
      t = step.cause.index();
    }
    std::reverse(path.begin(), path.end());
    return path;
  }
  [[nodiscard]] critical_step cause_of(std::uint32_t t, std::uint32_t previous) const {
    const auto& times = times_[t];
    const bool ends_late = times.end > times.start + program_.timed(t).duration;  // held up by the hop before
    if (!ends_late && times.start > times.ready) {
      return {tasks::task_id{t}, wait_reason::resource, tasks::task_id{previous}};
    }
    auto cause = none;
    for (const auto link : program_.before(t)) {
      const auto& by = times_[link.task()];
      const auto latency = program_.timed(link.task()).latency;
      const bool decides = ends_late ? link.cut_through() && by.end + latency == times.end
                                     : (link.cut_through() ? by.start : by.end) + latency == times.ready;
      if (decides && (cause == none || program_.tie(link.task()) < program_.tie(cause))) {
        cause = link.task();
      }
    }
    return cause == none ? critical_step{tasks::task_id{t}, wait_reason::nothing, {}}
                         : critical_step{tasks::task_id{t}, wait_reason::dependency, tasks::task_id{cause}};
  }

  static constexpr std::uint32_t none = 0xffffffffU;
  const tasks::program& program_;
  std::span<const task_times> times_;
  std::vector<std::uint32_t> order_;  // by resource, as it runs them
};

}  // namespace detail

// The summary of a simulated iteration. The times must be those of a simulation of the program, by place. Complexity: n
// log n in tasks and buffers, linear in dependencies.
[[nodiscard]] inline timeline summarize(const tasks::program& p, std::span<const task_times> times) {
  UNITY_EXPECTS(times.size() >= p.capacity(), "the times of the program's tasks");
  return detail::timeline_builder{p, times}.run();
}

// The delay that each step of the path adds: the time from the end of the step before to its own end. The delays add up
// to the iteration. Hops of a message overlap, so a step may add less than its task takes.
[[nodiscard]] inline std::vector<picoseconds> step_times(std::span<const critical_step> path,
                                                         std::span<const task_times> times) {
  std::vector<picoseconds> all;
  std::int64_t before = 0;
  for (const auto& step : path) {
    const auto end = times[step.task.index()].end;
    all.push_back(picoseconds{end - before});
    before = end;
  }
  return all;
}

// Steps of one kind of task that waited for the same reason.
struct path_share {
  tasks::task_kind kind = tasks::task_kind::other;
  wait_reason reason = wait_reason::nothing;
  std::size_t steps = 0;
  picoseconds time{};

  friend bool operator==(const path_share&, const path_share&) = default;
};

// The shares of the path by kind, then by reason; only those that occur. Complexity: linear in the path.
[[nodiscard]] inline std::vector<path_share> path_shares(const tasks::program& p, std::span<const critical_step> path,
                                                         std::span<const task_times> times) {
  std::map<std::pair<tasks::task_kind, wait_reason>, path_share> all;
  const auto taken = step_times(path, times);
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto& step = path[i];
    const auto kind = p[step.task].kind;
    auto& share = all[{kind, step.reason}];
    share.kind = kind;
    share.reason = step.reason;
    ++share.steps;
    share.time += taken[i];
  }
  std::vector<path_share> list;
  for (const auto& [key, share] : all) {
    list.push_back(share);
  }
  return list;
}

}  // namespace unity::simulate
