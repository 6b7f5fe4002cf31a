// Collectives as tasks on links.
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

// From a device or switch to another: all rounds of a phase together.
struct flow_message {
  machine::vertex_id from{};
  machine::vertex_id to{};
  bytes volume{};

  friend bool operator==(const flow_message&, const flow_message&) = default;
};

// The device on whose behalf a flow is sent: where it begins, or of a switch where it ends.
[[nodiscard]] inline machine::device_id device_of(const machine::topology& t, machine::vertex_id from,
                                                  machine::vertex_id to) {
  return machine::device_id{t.is_device(from) ? from.index() : to.index()};
}

// Effects: adds a task without time or resource, after all of these have ended.
[[nodiscard]] inline program::task_ref add_meeting(program::fragment& f, std::span<const program::task_ref> all,
                                                   std::uint32_t shard) {
  const program::task_ref met{{}, f.add({{}, {}, {}, {}, program::task_kind::reduce, shard})};
  for (const auto& t : all) {
    f.dependencies.push_back({t, met, false});
  }
  return met;
}

// Effects: adds what a collective of so many rounds takes besides its transfers, after all of these have ended and
// before it moves anything. Collectives whose first device is the same one do that one after the other, as on one
// stream of it.
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

// Effects: adds messages, all after `ready`, each link's latency counted `rounds` times. The task after them. Messages
// that are ready at the same time for the same link go in the order of their devices within the nodes, then of how many
// links are behind them, then as they stand here.
template <class Network>
[[nodiscard]] program::task_ref add_phase(Network& n, program::fragment& f, std::span<const flow_message> messages,
                                          std::int64_t rounds, const program::task_ref& ready, std::uint32_t shard) {
  std::vector<program::task_ref> arrivals(messages.size(), ready);
  bool goes_on = true;
  for (std::size_t h = 0; goes_on; ++h) {  // all first hops, then all second ones: ties are in that order
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

// What was measured takes the links from the devices that long, whatever is behind them.
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

// Effects: adds a collective of that size (as machine::collective has it) among devices, once all of these have ended.
// The task after which it is done. It goes the way that the closed form chooses for the size; each flow is one
// message, which is what the rounds take when they are equally long, with the same load on every link, in k messages of
// a ring instead of 2k(k-1). Where the machine has measured links for the exchange, the first phase alone says which
// links are busy, and as long as measured. Only devices that the network `has` send. Preconditions: several devices,
// ascending.
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
