// A reference implementation of the semantics of programs, which reads only the fragments; quadratic time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <unity/simulate/full.hpp>
#include <unity/tasks/program.hpp>

namespace unity::test {

// Times by fragment and index within it.
using slow_times = std::map<std::pair<std::uint32_t, std::uint32_t>, simulate::task_times>;

// The tasks of a program by name: fragment and index within it.
struct named_tasks {
  using name = std::pair<std::uint32_t, std::uint32_t>;

  std::map<name, tasks::task> tasks{};
  std::vector<std::tuple<name, name, bool>> edges{};  // before, after, cut-through

  explicit named_tasks(const tasks::program& p) {
    for (std::uint32_t f = 0; f < p.fragment_count(); ++f) {
      const auto& fragment = p[tasks::fragment_id{f}];
      for (std::uint32_t i = 0; i < fragment.tasks.size(); ++i) {
        tasks[{f, i}] = fragment.tasks[i];
      }
      for (const auto& d : fragment.dependencies) {
        const auto full_name = [&](const tasks::task_ref& r) {
          return name{r.fragment.valid() ? r.fragment.index() : f, r.index};
        };
        edges.emplace_back(full_name(d.before), full_name(d.after), d.cut_through);
      }
    }
  }
};

inline slow_times slow_simulation(const tasks::program& p) {
  using name = named_tasks::name;
  auto [tasks, edges] = named_tasks{p};
  slow_times done;
  std::map<tasks::resource_id, std::int64_t> free;
  while (done.size() < tasks.size()) {
    std::map<name, simulate::task_times> possible;
    for (const auto& [n, t] : tasks) {
      if (!done.contains(n)) {
        possible[n] = {};
      }
    }
    for (const auto& [from, to, cut] : edges) {
      if (!possible.contains(to)) {
        continue;
      }
      const auto before = done.find(from);
      if (before == done.end()) {
        possible.erase(to);
        continue;
      }
      const auto latency = tasks[from].latency.count();
      auto& times = possible[to];
      times.ready = std::max(times.ready, (cut ? before->second.start : before->second.end) + latency);
      times.end = std::max(times.end, cut ? before->second.end + latency : 0);
    }
    const auto order = [&](const auto& entry) {
      const auto& t = tasks[entry.first];
      return std::tuple{entry.second.ready, entry.first.first, t.shard, t.kind, entry.first.second};
    };
    const auto next = *std::min_element(possible.begin(), possible.end(),
                                        [&](const auto& a, const auto& b) { return order(a) < order(b); });
    const auto& t = tasks[next.first];
    auto times = next.second;
    times.start = t.resource.valid() ? std::max(times.ready, free[t.resource]) : times.ready;
    times.end = std::max(times.end, times.start + t.duration.count());
    if (t.resource.valid()) {
      free[t.resource] = times.end;
    }
    done[next.first] = times;
  }
  return done;
}

}  // namespace unity::test
