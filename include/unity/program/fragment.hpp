// What one operator or one edge of a plan asks of the machine: tasks, their order, and the memory they hold.
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

namespace unity::program {

using resource_id = id<struct resource_tag>;  // runs one task at a time: a stream of a device, or a link
using fragment_id = id<struct fragment_tag>;
using device_index = std::uint32_t;  // whose memory it is

// Those of a training iteration; a program may have further ones (program::add_kind).
// recompute: forward work that is done again, for the backward pass. weight_gradient: what of the backward pass weights
// alone need, where it is done apart.
enum class task_kind : std::uint8_t { forward, backward, recompute, update, transfer, reduce, other, weight_gradient };
inline constexpr std::array<std::string_view, 8> task_kind_names{
    "forward", "backward", "recompute", "update", "transfer", "reduce", "other", "weight_gradient"};

// No task is longer: sums of as many as fit in memory are far from what a number of picoseconds can hold.
inline constexpr picoseconds longest_task{100'000'000'000'000};  // 100 s

// Others see the end of a task `latency` later: 0 for computation, of a link its latency.
// A task may take no time: a meeting of others, or something that another machine does meanwhile.
struct task {
  resource_id resource{};  // the null id: none, so that it starts when it is ready
  picoseconds duration{1};
  picoseconds latency{};
  bytes volume{};  // that a transfer moves over its link
  task_kind kind = task_kind::other;
  std::uint32_t shard = 0;

  friend bool operator==(const task&, const task&) = default;
};

// A task by its place within its fragment; no fragment: the one that says so.
struct task_ref {
  fragment_id fragment{};
  std::uint32_t index = 0;

  friend bool operator==(const task_ref&, const task_ref&) = default;
};

// `after` is ready when `before` has ended and its latency has passed. With cut_through, `after` is the next hop of a
// message: it is ready the latency after `before` started, and ends no earlier than the latency after its end. That
// latency is at least 1.
struct dependency {
  task_ref before{};
  task_ref after{};
  bool cut_through = false;

  friend bool operator==(const dependency&, const dependency&) = default;
};

// Memory from the start of its producer to the last end of its readers (of the producer, without readers).
// A permanent buffer (a weight) is there all the time.
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

// Regular. Dependencies may join tasks of any fragments; they go where the fragment goes that lists them.
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

// One link of a route, and how long the message holds it.
struct hop {
  resource_id link{};
  picoseconds duration{1};
  picoseconds latency{1};
};

// Effects: adds the tasks of a message over a route, each hop after the one before in cut-through, and the
// dependencies on what sends it. Returns the last hop, which receivers depend on; the latency of a route is the sum of
// its hops'.
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

}  // namespace unity::program
