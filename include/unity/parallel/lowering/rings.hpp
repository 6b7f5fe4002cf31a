// Rings of devices that add up or hand around what each of them has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>
#include <unity/program/fragment.hpp>

namespace unity::parallel {

// From a device to its neighbour in a ring: all rounds together.
struct ring_message {
  machine::device_id from{};
  machine::device_id to{};
  bytes volume{};

  friend bool operator==(const ring_message&, const ring_message&) = default;
};

// So many rounds between two neighbours of a ring of k devices, a k-th of the size each, rounded up once: 2(k-1) where
// it reduces so much and hands it around.
[[nodiscard]] bytes ring_volume(bytes size, std::size_t count, std::int64_t rounds);

// Node by node, every other one backwards: then a message to another node leaves and arrives at the same place in both,
// which where each device has a network adapter of its own is one rail.
template <class Network>
[[nodiscard]] std::vector<machine::device_id> ring_of(const Network& n, std::span<const machine::device_id> devices) {
  std::vector<machine::device_id> ring(devices.begin(), devices.end());
  std::sort(ring.begin(), ring.end(),
            [&](machine::device_id a, machine::device_id b) { return n.place(a) < n.place(b); });
  bool backwards = false;
  for (auto first = ring.begin(); first != ring.end(); backwards = !backwards) {
    const auto last =
        std::find_if(first, ring.end(), [&](machine::device_id d) { return n.place(d).node != n.place(*first).node; });
    if (backwards) {
      std::reverse(first, last);
    }
    first = last;
  }
  return ring;
}

// Effects: adds a task after which all of these have ended; it takes a picosecond.
template <class Network>
[[nodiscard]] program::task_ref add_meeting(const Network& n, program::fragment& f,
                                            std::span<const program::task_ref> all, std::uint32_t shard) {
  const program::task_ref met{{}, f.add({n.meeting(), picoseconds{1}, {}, {}, program::task_kind::reduce, shard})};
  for (const auto& t : all) {
    f.dependencies.push_back({t, met, false});
  }
  return met;
}

// Effects: adds messages between neighbours, all after `ready`, each link's latency counted `rounds` times. The last
// hops. Messages that are ready at the same time for the same link go in the order of their senders within the nodes.
template <class Network>
[[nodiscard]] std::vector<program::task_ref> add_ring(Network& n, program::fragment& f,
                                                      std::span<const ring_message> messages, std::int64_t rounds,
                                                      const program::task_ref& ready) {
  std::vector<program::task_ref> arrivals(messages.size(), ready);
  bool goes_on = true;
  for (std::size_t h = 0; goes_on; ++h) {  // all first hops, then all second ones: ties are in that order
    goes_on = false;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto& m = messages[i];
      const auto hops = n.hops(m.from, m.to, m.volume, rounds);
      if (h < hops.size()) {
        const auto shard = n.place(m.from).place;
        const program::task task{
            hops[h].link, hops[h].duration, hops[h].latency, m.volume, program::task_kind::transfer, shard};
        const program::task_ref next{{}, f.add(task)};
        f.dependencies.push_back({arrivals[i], next, h > 0});
        arrivals[i] = next;
        goes_on = true;
      }
    }
  }
  return arrivals;
}

namespace detail {

// Effects: adds so many rounds of a ring, once all of these have ended. The task after which all messages have arrived.
template <class Network>
[[nodiscard]] program::task_ref add_rounds(Network& n, program::fragment& f,
                                           std::span<const machine::device_id> devices, bytes size,
                                           std::int64_t rounds, std::span<const program::task_ref> before) {
  const auto ring = ring_of(n, devices);
  const auto count = ring.size();
  const auto shard = devices.front().index();
  const auto ready = add_meeting(n, f, before, shard);
  std::vector<ring_message> messages;
  for (std::size_t i = 0; i < count; ++i) {
    if (n.has(ring[i])) {
      messages.push_back({ring[i], ring[(i + 1) % count], ring_volume(size, count, rounds)});
    }
  }
  const auto arrivals = add_ring(n, f, messages, rounds, ready);
  return add_meeting(n, f, arrivals, shard);
}

}  // namespace detail

// Effects: adds an all-reduce of that size, once all contributions are there. The task after which all devices have the
// sum. All 2(k-1) rounds of a ring of k devices between two neighbours are one message of 2(k-1)/k of the size, with
// 2(k-1) latencies: what the ring takes when its rounds are equally long, and the same load on every link, in k
// messages instead of 2k(k-1). Only devices that the network `has` send. Precondition: several devices, ascending.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009.
template <class Network>
[[nodiscard]] program::task_ref add_all_reduce(Network& n, program::fragment& f,
                                               std::span<const machine::device_id> devices, bytes size,
                                               std::span<const program::task_ref> contributions) {
  return detail::add_rounds(n, f, devices, size, 2 * (static_cast<std::int64_t>(devices.size()) - 1), contributions);
}

// The halves of it. After a reduce-scatter each device has its share of the sum, after an all-gather all of them; the
// size is that of the whole.
template <class Network>
[[nodiscard]] program::task_ref add_reduce_scatter(Network& n, program::fragment& f,
                                                   std::span<const machine::device_id> devices, bytes size,
                                                   std::span<const program::task_ref> contributions) {
  return detail::add_rounds(n, f, devices, size, static_cast<std::int64_t>(devices.size()) - 1, contributions);
}
template <class Network>
[[nodiscard]] program::task_ref add_all_gather(Network& n, program::fragment& f,
                                               std::span<const machine::device_id> devices, bytes size,
                                               std::span<const program::task_ref> shares) {
  return detail::add_rounds(n, f, devices, size, static_cast<std::int64_t>(devices.size()) - 1, shares);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_RINGS)

namespace unity::parallel {

UNITY_INLINE bytes ring_volume(bytes size, std::size_t count, std::int64_t rounds) {
  const auto ranks = static_cast<std::int64_t>(count);
  return bytes{size.count() / ranks * rounds + (size.count() % ranks * rounds + ranks - 1) / ranks};
}

}  // namespace unity::parallel

#endif
