// The global data-flow graph of a training job: the tasks of all ranks in one iteration, and their dependencies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/trace/events.hpp>

namespace unity::trace {

inline constexpr std::uint32_t no_index = std::numeric_limits<std::uint32_t>::max();

// The kind of a task.
//   host, launch, synchronization   of a host thread: the part of an operation in which no nested operation runs
//   gap              a host thread between operations: the interpreter, or anything that the profiler does not see
//   kernel, copy     of a stream
//   collective, send, receive   from when all data are there to the end
//   delay            passes on no resource: from a launch to its kernel, from a kernel to what waits for it
//   meeting          takes no time: all ranks of a collective are there
//   in, out          take no time: a tensor is there to be sent, has arrived
//   earlier          what an earlier iteration left on a stream
//   begin, finish    of a rank's iteration: take no time, or how much later than the first rank it begins
enum class task_type : std::uint8_t {
  host,
  launch,
  synchronization,
  gap,
  kernel,
  copy,
  collective,
  send,
  receive,
  delay,
  meeting,
  in,
  out,
  earlier,
  begin,
  finish
};
inline constexpr std::array<std::string_view, 16> task_type_names{
    "host",    "launch", "synchronization", "gap", "kernel", "copy",    "collective", "send",
    "receive", "delay",  "meeting",         "in",  "out",    "earlier", "begin",      "finish"};

[[nodiscard]] constexpr bool is_communication(task_type t) noexcept {
  return t == task_type::collective || t == task_type::send || t == task_type::receive;
}
[[nodiscard]] constexpr bool is_computation(task_type t) noexcept {
  return t == task_type::host || t == task_type::kernel || t == task_type::copy;
}

// The data that a communication task moves. Ranks are indices in the graph; no_index: a rank without a trace, or none.
struct communication {
  name_id tensor{};
  name_id group{};
  exchange way = exchange::other;
  bytes size{};  // 0: unknown
  std::uint32_t group_size = 0;
  std::uint32_t sender = no_index;
  std::uint32_t receiver = no_index;
  std::uint32_t chunk = 0;
  std::uint32_t round = 0;
  std::int64_t sequence = -1;
  // all participating ranks have a trace; otherwise it takes the recorded time, including their arrival
  bool is_whole = true;

  friend bool operator==(const communication&, const communication&) = default;
};

// `recorded` times are relative to the first begin of the iteration that gave the structure.
struct flow_task {
  name_id name{};
  name_id operation{};  // of a kernel, copy or collective: the operation that launched it
  picoseconds duration{};
  picoseconds spread{};  // standard deviation over the iterations
  picoseconds recorded_start{};
  picoseconds recorded_duration{};
  std::uint64_t key = 0;  // the same for the same task in every iteration; 0: none
  std::uint32_t rank = 0;
  std::uint32_t resource = no_index;
  std::uint32_t communication = no_index;  // index in the graph's list
  std::uint32_t samples = 0;               // iterations over which the duration is averaged
  task_type type = task_type::host;
  phase part = phase::forward;

  friend bool operator==(const flow_task&, const flow_task&) = default;
};

struct flow_edge {
  std::uint32_t before = 0;
  std::uint32_t after = 0;

  friend bool operator==(const flow_edge&, const flow_edge&) = default;
};

struct flow_resource {
  std::string name{};
  std::uint32_t rank = 0;
  lane_kind kind = lane_kind::host;

  friend bool operator==(const flow_resource&, const flow_resource&) = default;
};

struct flow_rank {
  std::string name{};
  std::uint32_t begin = no_index;  // tasks
  std::uint32_t finish = no_index;
  picoseconds measured{};  // of the iteration that gave the structure, by the rank's own clock
  bytes held{};            // memory that is held all the time

  friend bool operator==(const flow_rank&, const flow_rank&) = default;
};

// A gradient that is complete when a task has ended, and is summed in a bucket.
struct flow_gradient {
  std::uint32_t task = 0;
  bytes size{};  // 0: unknown

  friend bool operator==(const flow_gradient&, const flow_gradient&) = default;
};

// Memory of a rank from the start of one task to the end of another.
struct flow_allocation {
  std::uint32_t rank = 0;
  std::uint32_t from = no_index;
  std::uint32_t last = no_index;  // no_index: it outlives the iteration
  bytes size{};

  friend bool operator==(const flow_allocation&, const flow_allocation&) = default;
};

// A task that reads the content of an allocation.
struct flow_read {
  std::uint32_t allocation = 0;  // index in the graph's list
  std::uint32_t task = 0;

  friend bool operator==(const flow_read&, const flow_read&) = default;
};

// Regular. Tasks of a rank follow each other; edges are in no order.
struct flow_graph {
  std::vector<flow_rank> ranks{};
  std::vector<flow_resource> resources{};
  std::vector<flow_task> tasks{};
  std::vector<flow_edge> edges{};
  std::vector<communication> communications{};
  std::vector<flow_gradient> gradients{};  // of buckets with several gradients, if the trace records them
  std::vector<flow_allocation> allocations{};
  std::vector<flow_read> reads{};  // if the trace records them

  std::uint32_t add(const flow_task& t) {
    tasks.push_back(t);
    return static_cast<std::uint32_t>(tasks.size() - 1);
  }
  void link(std::uint32_t before, std::uint32_t after) { edges.push_back({before, after}); }

  friend bool operator==(const flow_graph&, const flow_graph&) = default;
};

// Neighbours of tasks, as two lists. `before(t)` and `after(t)` contain tasks.
class adjacency {
 public:
  // Complexity: linear in tasks and edges.
  explicit adjacency(const flow_graph& g);
  [[nodiscard]] std::span<const std::uint32_t> before(std::uint32_t t) const { return view(before_, before_first_, t); }
  [[nodiscard]] std::span<const std::uint32_t> after(std::uint32_t t) const { return view(after_, after_first_, t); }

 private:
  [[nodiscard]] static std::span<const std::uint32_t> view(const std::vector<std::uint32_t>& all,
                                                           const std::vector<std::uint32_t>& first, std::uint32_t t) {
    return std::span{all}.subspan(first[t], first[t + 1] - first[t]);
  }

  std::vector<std::uint32_t> before_;
  std::vector<std::uint32_t> before_first_;
  std::vector<std::uint32_t> after_;
  std::vector<std::uint32_t> after_first_;
};

// A topological order of the tasks. Complexity: linear in tasks and edges.
// Throws: unity::error that names tasks which wait for each other.
[[nodiscard]] std::vector<std::uint32_t> topological_order(const flow_graph& g, const adjacency& a,
                                                           const name_table& names);

// "aten::addmm on thread 7708 of rank 0"
[[nodiscard]] std::string describe(const flow_graph& g, const name_table& names, std::uint32_t task);

// The graph as one fragment: task t has place t. Kinds are those of tasks::task_kind if one fits the task, otherwise
// own kinds: output, launch, gap, delay. Complexity: linear in tasks and edges.
[[nodiscard]] tasks::program to_program(const flow_graph& g);

// Schedules by the priorities of a queue of dPRO's replayer: forward, output, backward, update, communication. Other
// host work has the priority of the part of the iteration that contains it. A policy of simulate (scheduling_policy).
// Source: Hu et al., dPRO, MLSys 2022, its replayer.
class by_phase {
 public:
  explicit by_phase(const flow_graph& g);
  [[nodiscard]] std::int64_t rank(const tasks::program&, std::uint32_t place) const { return parts_[place]; }

 private:
  std::vector<std::uint8_t> parts_;  // by place
};

}  // namespace unity::trace

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TRACE_FLOW_GRAPH)

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/printable.hpp>
#include <unity/core/stable_sort.hpp>

namespace unity::trace {

UNITY_INLINE adjacency::adjacency(const flow_graph& g) {
  const auto fill = [&](std::vector<std::uint32_t>& all, std::vector<std::uint32_t>& first, auto from, auto to) {
    first.assign(g.tasks.size() + 1, 0);
    all.resize(g.edges.size());
    for (const auto& e : g.edges) {
      ++first[e.*from + 1];
    }
    for (std::size_t t = 0; t < g.tasks.size(); ++t) {
      first[t + 1] += first[t];
    }
    auto next = first;
    for (const auto& e : g.edges) {
      all[next[e.*from]++] = e.*to;
    }
  };
  fill(before_, before_first_, &flow_edge::after, &flow_edge::before);
  fill(after_, after_first_, &flow_edge::before, &flow_edge::after);
}

namespace detail {

// Throws an error that names a cycle: follows predecessors among the remaining tasks until one repeats.
[[noreturn]] inline void report_flow_cycle(const flow_graph& g, const adjacency& a, const name_table& names,
                                           const std::vector<std::uint32_t>& waits) {
  auto t = static_cast<std::uint32_t>(std::find_if(waits.begin(), waits.end(), [](auto w) { return w > 0; }) -
                                      waits.begin());
  std::vector<bool> seen(g.tasks.size());
  while (!seen[t]) {
    seen[t] = true;
    const auto before = a.before(t);
    t = *std::find_if(before.begin(), before.end(), [&](auto b) { return waits[b] > 0; });
  }
  std::vector<std::uint32_t> named;
  for (auto u = t; named.empty() || u != t;) {
    named.push_back(u);
    const auto before = a.before(u);
    u = *std::find_if(before.begin(), before.end(), [&](auto b) { return waits[b] > 0; });
  }
  // Communications first: they tell most, because they connect ranks.
  const auto is_between = [&](std::uint32_t u) { return is_communication(g.tasks[u].type); };
  unity::stable_sort(named, [&](auto one, auto other) { return is_between(one) && !is_between(other); });
  throw error{"traces",
              fmt::format("{} and {} wait for each other", describe(g, names, named[0]),
                          describe(g, names, named[named.size() > 1 ? 1 : 0])),
              "events of ranks in an order that all of them agree on"};
}

}  // namespace detail

UNITY_INLINE std::vector<std::uint32_t> topological_order(const flow_graph& g, const adjacency& a,
                                                          const name_table& names) {
  std::vector<std::uint32_t> waits(g.tasks.size());
  std::vector<std::uint32_t> order;
  order.reserve(g.tasks.size());
  for (std::uint32_t t = 0; t < g.tasks.size(); ++t) {
    waits[t] = static_cast<std::uint32_t>(a.before(t).size());
    if (waits[t] == 0) {
      order.push_back(t);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const auto n : a.after(order[i])) {
      if (--waits[n] == 0) {
        order.push_back(n);
      }
    }
  }
  if (order.size() < g.tasks.size()) {
    detail::report_flow_cycle(g, a, names, waits);
  }
  return order;
}

UNITY_INLINE std::string describe(const flow_graph& g, const name_table& names, std::uint32_t task) {
  const auto& t = g.tasks[task];
  const auto& name = names.text(t.name);
  const auto type = task_type_names[static_cast<std::size_t>(t.type)];
  const auto what = name.empty()               ? std::string{type}
                    : t.type == task_type::gap ? fmt::format("gap after {}", name)
                    : t.type == task_type::host || t.type == task_type::kernel || is_communication(t.type)
                        ? name
                        : fmt::format("{} of {}", type, name);
  const auto& rank = g.ranks[t.rank].name;
  const auto text = t.resource == no_index ? fmt::format("{} on {}", what, rank)
                                           : fmt::format("{} on {} of {}", what, g.resources[t.resource].name, rank);
  return printable(text, 240);
}

namespace detail {

struct program_kinds {
  tasks::task_kind output;
  tasks::task_kind launch;
  tasks::task_kind gap;
  tasks::task_kind delay;
};

inline tasks::task_kind kind_of(const flow_task& t, const program_kinds& k) {
  switch (t.type) {
    case task_type::launch:
    case task_type::synchronization: return k.launch;
    case task_type::gap: return k.gap;
    case task_type::delay: return k.delay;
    case task_type::collective: return tasks::task_kind::reduce;
    case task_type::send:
    case task_type::receive: return tasks::task_kind::transfer;
    case task_type::host:
    case task_type::kernel:
    case task_type::copy:
      return t.part == phase::forward    ? tasks::task_kind::forward
             : t.part == phase::output   ? k.output
             : t.part == phase::backward ? tasks::task_kind::backward
             : t.part == phase::update   ? tasks::task_kind::update
                                         : tasks::task_kind::transfer;
    default: return tasks::task_kind::other;
  }
}

inline tasks::resource_kind kind_of(lane_kind k) {
  return k == lane_kind::host     ? tasks::resource_kind::host
         : k == lane_kind::stream ? tasks::resource_kind::stream
                                  : tasks::resource_kind::link;
}

}  // namespace detail

UNITY_INLINE tasks::program to_program(const flow_graph& g) {
  tasks::program p;
  const detail::program_kinds kinds{p.add_kind("output"), p.add_kind("launch"), p.add_kind("gap"), p.add_kind("delay")};
  for (const auto& r : g.resources) {
    p.add_resource({fmt::format("{} of {}", r.name, g.ranks[r.rank].name), detail::kind_of(r.kind), r.rank});
  }
  const auto f = p.add_fragment({tasks::owner_kind::other, 0, "iteration"});
  tasks::fragment fragment;
  fragment.tasks.reserve(g.tasks.size());
  fragment.dependencies.reserve(g.edges.size());
  for (const auto& t : g.tasks) {
    const auto size = t.communication == no_index ? bytes{} : g.communications[t.communication].size;
    fragment.add({t.resource == no_index ? tasks::resource_id{} : tasks::resource_id{t.resource},
                  t.duration,
                  {},
                  size,
                  detail::kind_of(t, kinds),
                  0});
  }
  for (const auto& e : g.edges) {
    fragment.dependencies.push_back({{{}, e.before}, {{}, e.after}, false});
  }
  p.replace(f, fragment);
  p.commit();
  return p;
}

UNITY_INLINE by_phase::by_phase(const flow_graph& g) {
  parts_.reserve(g.tasks.size());
  for (const auto& t : g.tasks) {
    parts_.push_back(static_cast<std::uint8_t>(is_communication(t.type) ? phase::communication : t.part));
  }
}

}  // namespace unity::trace

#endif
