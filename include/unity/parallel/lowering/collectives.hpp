// Lowers collectives to tasks on links.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/collective_flows.hpp>
#include <unity/machine/link.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>

namespace unity::parallel {

// A message between vertices (devices or switches) for all rounds of a phase.
struct flow_message {
  machine::vertex_id from{};
  machine::vertex_id to{};
  bytes volume{};

  friend bool operator==(const flow_message&, const flow_message&) = default;
};

// The device of a flow: its source, or its target if the source is a switch.
[[nodiscard]] inline machine::device_id device_of(const machine::topology& t, machine::vertex_id from,
                                                  machine::vertex_id to) {
  return machine::device_id{t.is_device(from) ? from.index() : to.index()};
}

// Effects: adds a task without duration or resource that runs after all of these.
[[nodiscard]] inline program::task_ref add_meeting(program::fragment& f, std::span<const program::task_ref> all,
                                                   std::uint32_t shard) {
  const program::task_ref met{{}, f.add({{}, {}, {}, {}, program::task_kind::reduce, shard})};
  for (const auto& t : all) {
    f.dependencies.push_back({t, met, false});
  }
  return met;
}

// Effects: adds a task for the startup time of a collective with this many rounds, which runs after all of `all` and
// before any transfer. Collectives with the same first device start one after another, as on one stream.
template <class Network>
[[nodiscard]] program::task_ref add_start(const Network& n, program::fragment& f,
                                          std::span<const program::task_ref> all, machine::device_id first,
                                          std::int64_t rounds) {
  const auto started = add_meeting(f, all, first.index());
  const auto each = n.start(first);
  const picoseconds takes{each.start.count() + rounds * each.round.count()};
  if (takes > picoseconds{}) {
    f.tasks[started.index].duration = takes;
    f.tasks[started.index].resource = n.starts(first);
  }
  return started;
}

// Effects: adds messages after `ready`, with the latency of each link counted `rounds` times. Returns the task after
// them. Simultaneously ready messages on a link are ordered by the index of their device within its node, then by the
// number of preceding links, then as listed.
template <class Network>
[[nodiscard]] program::task_ref add_phase(Network& n, program::fragment& f, std::span<const flow_message> messages,
                                          std::int64_t rounds, const program::task_ref& ready, std::uint32_t shard) {
  std::vector<program::task_ref> arrivals(messages.size(), ready);
  bool goes_on = true;
  for (std::size_t h = 0; goes_on; ++h) {  // all first hops, then all second ones: this order breaks ties
    goes_on = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto& m = messages[i];
      const auto hops = n.flow_hops(m.from, m.to, m.volume, rounds);
      if (h < hops.size()) {
        const auto place = n.place(device_of(n.topology(), m.from, m.to)).place;
        const program::task task{
            hops[h].link, hops[h].duration, hops[h].latency, m.volume, program::task_kind::transfer, place};
        const program::task_ref next{{}, f.add(task)};
        f.dependencies.push_back({arrivals[i], next, h > 0});
        arrivals[i] = next;
        goes_on = true;
      }
    }
  }
  return add_meeting(f, arrivals, shard);
}

namespace detail {

// Occupies the links from the devices for the measured time, regardless of the links after them.
template <class Network>
[[nodiscard]] program::task_ref add_measured(Network& n, program::fragment& f,
                                             std::span<const machine::collective_flow> flows,
                                             const machine::collective_flows& all, bytes size, picoseconds takes,
                                             const program::task_ref& ready, machine::device_id first) {
  std::vector<program::task_ref> arrivals{ready};
  for (const auto& flow : flows) {
    if (n.has(device_of(n.topology(), flow.from, flow.to))) {
      const auto volume = all.volume(size, flow.parts);
      const auto link = n.flow_hops(flow.from, flow.to, volume, 1).front().link;
      const auto shard = n.place(device_of(n.topology(), flow.from, flow.to)).place;
      arrivals.push_back({{}, f.add({link, takes, {}, volume, program::task_kind::transfer, shard})});
      f.dependencies.push_back({ready, arrivals.back(), false});
    }
  }
  return add_meeting(f, arrivals, first.index());
}

}  // namespace detail

// Effects: adds a collective of that size (as machine::collective defines it) among devices, which starts after all of
// `before`. Returns the task after which it is done. Uses the algorithm that the closed form chooses for the size. Each
// flow is one message that stands for all its rounds: the time is the same if rounds are equally long and all links
// equally loaded, with k messages for a ring instead of 2k(k-1). If the machine has measurements of the exchange, only
// the links of the first phase are busy, for the measured time. Only devices for which network.has() holds send.
// Preconditions: several devices, ascending.
template <class Network>
[[nodiscard]] program::task_ref add_collective(Network& n, program::fragment& f, machine::exchange kind,
                                               std::span<const machine::device_id> devices, bytes size,
                                               std::span<const program::task_ref> before) {
  const auto first = devices.front();
  const auto& ways = n.collective(kind, devices);
  if (const auto measured = n.measured(kind, devices.size(), size)) {
    const auto& ring = ways.ways.front().flows;
    return detail::add_measured(n, f, ring.phases.front().flows, ring, size, *measured,
                                add_meeting(f, before, first.index()), first);
  }
  const auto& flows = ways.at(size).flows;
  std::int64_t rounds = 0;
  for (const auto& phase : flows.phases) {
    rounds += phase.rounds;
  }
  auto ready = add_start(n, f, before, first, rounds);
  std::vector<flow_message> messages;
  for (const auto& phase : flows.phases) {
    messages.clear();
    for (const auto& flow : phase.flows) {
      if (n.has(device_of(n.topology(), flow.from, flow.to))) {
        messages.push_back({flow.from, flow.to, flows.volume(size, flow.parts)});
      }
    }
    ready = add_phase(n, f, messages, phase.rounds, ready, first.index());
  }
  return ready;
}

}  // namespace unity::parallel
