// A fusion strategy as a program for the simulators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <unity/core/units.hpp>
#include <unity/fusion/instruction_graph.hpp>
#include <unity/fusion/strategy.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::fusion {

// Adds the tasks of one all-reduce to its fragment. Returns the last one, which readers wait for.
//   begin   a task that takes no time: all devices have their operands
//   number  of the bucket, in the order of group numbers
using reduction_writer = std::function<tasks::task_ref(tasks::program& p, tasks::fragment& f, tasks::task_ref begin,
                                                       std::size_t number, bytes size)>;

// Kernels run on the first resource, a stream; one fragment per group, in the order of their numbers. duration(group):
// the time of a kernel. Precondition: an acyclic strategy of the graph. Complexity: linear in the graph, plus what the
// writer of all-reduces adds.
[[nodiscard]] tasks::program fusion_program(const instruction_graph& g, const fusion_strategy& s,
                                            const std::function<picoseconds(std::uint32_t group)>& duration,
                                            const reduction_writer& reduce);

// Bucket b is reduced on channel b % channels, in the time that `time` gives, one after another. Precondition: at least
// one channel.
[[nodiscard]] reduction_writer on_channels(std::size_t channels, std::function<picoseconds(bytes)> time);

}  // namespace unity::fusion

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_FUSION_FUSION_PROGRAM)

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::fusion {

UNITY_INLINE tasks::program fusion_program(const instruction_graph& g, const fusion_strategy& s,
                                           const std::function<picoseconds(std::uint32_t group)>& duration,
                                           const reduction_writer& reduce) {
  tasks::program p;
  const auto stream = p.add_resource({"device", tasks::resource_kind::stream, 0});
  const auto members = members_of(s);
  std::vector<tasks::fragment_id> fragments(members.size());
  for (std::size_t k = 0; k < members.size(); ++k) {
    const auto& first = g[static_cast<instruction_id>(k)];
    if (!members[k].empty() && first.role != instruction_role::source) {
      const auto kind = g.reduces(static_cast<instruction_id>(k)) ? tasks::owner_kind::bucket : tasks::owner_kind::node;
      fragments[k] = p.add_fragment({kind, static_cast<std::uint32_t>(k), first.name});
    }
  }
  // For each group, the task that readers wait for.
  std::vector<tasks::task_ref> ends(members.size());
  std::vector<tasks::fragment> bodies(members.size());
  std::size_t buckets = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (!fragments[k].valid()) {
      continue;
    }
    auto& f = bodies[k];
    if (!g.reduces(static_cast<instruction_id>(k))) {
      f.add({stream, duration(static_cast<std::uint32_t>(k)), {}, {}, tasks::task_kind::forward, 0});
      ends[k] = {fragments[k], 0};
      continue;
    }
    double size = 0;
    for (const auto m : members[k]) {
      size += g[m].size;
    }
    f.add({{}, picoseconds{0}, {}, {}, tasks::task_kind::other, 0});
    ends[k] = reduce(p, f, {{}, 0}, buckets++, bytes{std::llround(size)});
    ends[k].fragment = fragments[k];
  }
  std::vector<std::uint32_t> before;
  for (std::size_t k = 0; k < members.size(); ++k) {
    before.clear();
    for (const auto m : fragments[k].valid() ? members[k] : std::vector<instruction_id>{}) {
      for (const auto& o : g.operands(m)) {
        const bool is_inside = std::binary_search(members[k].begin(), members[k].end(), o.from);
        if (!is_inside && g[o.from].role != instruction_role::source) {
          before.push_back(s.group_of[o.from]);
        }
      }
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const auto b : before) {
      bodies[k].dependencies.push_back({ends[b], {{}, 0}, false});
    }
  }
  std::vector<tasks::replacement> all;
  for (std::size_t k = 0; k < members.size(); ++k) {
    if (fragments[k].valid()) {
      all.push_back({fragments[k], &bodies[k]});
    }
  }
  p.replace(all);
  p.commit();
  return p;
}

UNITY_INLINE reduction_writer on_channels(std::size_t channels, std::function<picoseconds(bytes)> time) {
  UNITY_EXPECTS(channels > 0, "a channel at least");
  return [channels, time = std::move(time)](tasks::program& p, tasks::fragment& f, tasks::task_ref begin,
                                            std::size_t number, bytes size) {
    while (p.resources().size() < 1 + channels) {
      p.add_resource({fmt::format("channel {}", p.resources().size() - 1), tasks::resource_kind::link, 0});
    }
    const auto t =
        f.add({tasks::resource_id{1 + number % channels}, time(size), {}, size, tasks::task_kind::reduce, 0});
    f.dependencies.push_back({begin, {{}, t}, false});
    return tasks::task_ref{{}, t};
  };
}

}  // namespace unity::fusion

#endif
