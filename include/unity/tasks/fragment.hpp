// The work of one operator or one edge of a plan on a machine: tasks, their order, and the memory they hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>

namespace unity::tasks {

using resource_id = id<struct resource_tag>;  // runs one task at a time: a stream of a device, or a link
using fragment_id = id<struct fragment_tag>;
using device_index = std::uint32_t;  // identifies the memory that is used

// Kinds of tasks of a training iteration; a program may have further ones (tasks::add_kind).
// recompute: forward work that is repeated for the backward pass. weight_gradient: the part of the backward pass that
// only weights need, if it is a separate task.
enum class task_kind : std::uint8_t { forward, backward, recompute, update, transfer, reduce, other, weight_gradient };
inline constexpr std::array<std::string_view, 8> task_kind_names{
    "forward", "backward", "recompute", "update", "transfer", "reduce", "other", "weight_gradient"};

// The longest duration of a task: 92,000 such tasks in a row fit in 64-bit picoseconds. Simulators report iterations
// that take longer than their own limit as errors.
inline constexpr picoseconds longest_task{100'000'000'000'000};  // 100 s

// Other tasks see the end of a task `latency` later: 0 for computation, the latency of the link for a transfer. A task
// may have duration zero: a synchronization point, or work that another machine does meanwhile.
struct task {
  resource_id resource{};  // the null id: none, the task starts as soon as it is ready
  picoseconds duration{1};
  picoseconds latency{};
  bytes volume{};  // of a transfer: bytes that it moves over its link
  task_kind kind = task_kind::other;
  std::uint32_t shard = 0;
  std::uint32_t launches = 1;  // operators of a task on a stream, each launched by the host; 0: only bookkeeping

  friend bool operator==(const task&, const task&) = default;
};

// A task by its index within its fragment; the null fragment means the fragment that contains the reference.
struct task_ref {
  fragment_id fragment{};
  std::uint32_t index = 0;

  friend bool operator==(const task_ref&, const task_ref&) = default;
};

// `after` is ready when `before` has ended and its latency has passed. With cut_through, `after` is the next hop of a
// message: it is ready one latency after `before` started, and ends no earlier than one latency after `before` ends.
// That latency must be at least 1.
struct dependency {
  task_ref before{};
  task_ref after{};
  bool cut_through = false;

  friend bool operator==(const dependency&, const dependency&) = default;
};

// Memory that is held from the start of its producer to the last end of its readers (of the producer, if there are no
// readers). A permanent buffer (a weight) is held all the time.
struct buffer {
  bytes size{};
  device_index device = 0;
  task_ref producer{};
  bool permanent = false;

  friend bool operator==(const buffer&, const buffer&) = default;
};

struct buffer_ref {
  fragment_id fragment{};
  std::uint32_t index = 0;

  friend bool operator==(const buffer_ref&, const buffer_ref&) = default;
};

struct buffer_read {
  buffer_ref of{};
  task_ref reader{};

  friend bool operator==(const buffer_read&, const buffer_read&) = default;
};

// Regular. Dependencies may connect tasks of any fragments; they are replaced together with the fragment that lists
// them.
struct fragment {
  std::vector<task> tasks{};
  std::vector<dependency> dependencies{};
  std::vector<buffer> buffers{};
  std::vector<buffer_read> reads{};

  void clear() noexcept {
    tasks.clear();
    dependencies.clear();
    buffers.clear();
    reads.clear();
  }
  std::uint32_t add(const task& t) {
    tasks.push_back(t);
    return static_cast<std::uint32_t>(tasks.size() - 1);
  }

  friend bool operator==(const fragment&, const fragment&) = default;
};

// One link of a route, and how long the message occupies it.
struct hop {
  resource_id link{};
  picoseconds duration{1};
  picoseconds latency{1};
};

// Effects: adds the tasks of a message over a route, each hop following the previous one in cut-through, and their
// dependencies on the senders. Returns the last hop, on which receivers depend; the latency of a route is the sum of
// the latencies of its hops.
inline task_ref add_transfer(fragment& f, std::span<const hop> route, bytes volume, std::uint32_t shard,
                             std::span<const task_ref> senders) {
  UNITY_EXPECTS(!route.empty(), "a route of at least one link");
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < route.size(); ++i) {
    const auto t = f.add({route[i].link, route[i].duration, route[i].latency, volume, task_kind::transfer, shard});
    if (i > 0) {
      f.dependencies.push_back({{{}, last}, {{}, t}, true});
    } else {
      for (const auto& s : senders) {
        f.dependencies.push_back({s, {{}, t}, false});
      }
    }
    last = t;
  }
  return {{}, last};
}

}  // namespace unity::tasks
