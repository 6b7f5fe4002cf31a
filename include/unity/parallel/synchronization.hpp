// How a weight's gradient becomes one on all devices that hold it, and its update.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/units.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/network.hpp>
#include <unity/parallel/replicas.hpp>
#include <unity/parallel/task_times.hpp>
#include <unity/program/fragment.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

// All 2(k-1) rounds between two neighbours of a ring of k devices that reduces so much.
[[nodiscard]] inline bytes ring_volume(bytes size, std::size_t count) {
  const auto rounds = static_cast<std::int64_t>(2 * (count - 1));
  const auto ranks = static_cast<std::int64_t>(count);
  return bytes{size.count() / ranks * rounds + (size.count() % ranks * rounds + ranks - 1) / ranks};
}

// Node by node, every other one backwards: then a message to another node leaves and arrives at the same place in both,
// which where each device has a network adapter of its own is one rail.
template <class Network>
[[nodiscard]] std::vector<machine::device_id> ring_of(const Network& n, std::span<const machine::device_id> devices) {
  std::vector<machine::device_id> ring(devices.begin(), devices.end());
  std::sort(ring.begin(), ring.end(), [&](machine::device_id a, machine::device_id b) { return n.place(a) < n.place(b); });
  bool backwards = false;
  for (auto first = ring.begin(); first != ring.end(); backwards = !backwards) {
    const auto last = std::find_if(first, ring.end(), [&](machine::device_id d) { return n.place(d).node != n.place(*first).node; });
    if (backwards) {
      std::reverse(first, last);
    }
    first = last;
  }
  return ring;
}

// Network: parallel::network, or one that has some of the devices alone.
template <class Network>
class weight_synchronization {
 public:
  weight_synchronization(Network& n, const task_times& times, const tensor::tensor_type& type)
      : network_{n}, times_{times}, type_{type}, elements_(n.device_count(), 0), before_(n.device_count()) {}

  [[nodiscard]] program::fragment run(const replicas& held, std::span<const program::task_ref> readers) && {
    readers_of_.resize(held.boxes.size());
    for (std::uint32_t i = 0; i < readers.size(); ++i) {
      if (readers[i].fragment.valid()) {
        readers_of_[held.box_of[i]].push_back(i);
      }
    }
    has_gradient_ = std::any_of(readers.begin(), readers.end(), [](const program::task_ref& r) { return r.fragment.valid(); });
    for (const auto& g : held.groups) {
      for (const auto d : g.devices) {
        elements_[d.index()] += g.elements;
      }
      if (has_gradient_) {
        reduce(g, readers);
      }
    }
    for (std::size_t d = 0; d < elements_.size(); ++d) {
      if (elements_[d] > 0 && network_.has(machine::device_id{d})) {
        update(machine::device_id{d});
      }
    }
    return std::move(fragment_);
  }

 private:
  [[nodiscard]] bytes size_of(std::int64_t elements) const {
    return bytes{elements * static_cast<std::int64_t>(tensor::size_of(type_.element))};
  }
  void reduce(const replica_group& g, std::span<const program::task_ref> readers) {
    std::vector<std::uint32_t> numbers;
    for (const auto b : g.boxes) {
      numbers.insert(numbers.end(), readers_of_[b].begin(), readers_of_[b].end());
    }
    if (g.boxes.size() > 1) {
      std::sort(numbers.begin(), numbers.end());
    }
    std::vector<program::task_ref> contributions;
    contributions.reserve(numbers.size());
    for (const auto i : numbers) {
      contributions.push_back(readers[i]);
    }
    if (g.devices.size() > 1) {
      contributions.assign(1, all_reduce(g, contributions));
    }
    for (const auto d : g.devices) {
      auto& waits = before_[d.index()];
      waits.insert(waits.end(), contributions.begin(), contributions.end());
    }
  }
  // The task after which all devices have the sum.
  [[nodiscard]] program::task_ref all_reduce(const replica_group& g, std::span<const program::task_ref> contributions) {
    const auto ring = ring_of(network_, g.devices);
    const auto count = ring.size();
    const auto volume = ring_volume(size_of(g.elements), count);
    const auto ready = meet(g, contributions);
    std::vector<std::pair<machine::device_id, machine::device_id>> messages;
    for (std::size_t i = 0; i < count; ++i) {
      if (network_.has(ring[i])) {
        messages.emplace_back(ring[i], ring[(i + 1) % count]);
      }
    }
    std::vector<program::task_ref> arrivals(messages.size(), ready);
    bool goes_on = true;
    for (std::size_t h = 0; goes_on; ++h) {  // all first hops, then all second ones: ties are in that order
      goes_on = false;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto [from, to] = messages[i];
        const auto hops = network_.hops(from, to, volume, static_cast<std::int64_t>(2 * (count - 1)));
        if (h < hops.size()) {
          const auto shard = network_.place(from).place;
          const program::task task{hops[h].link, hops[h].duration, hops[h].latency, volume, program::task_kind::transfer, shard};
          const program::task_ref next{{}, fragment_.add(task)};
          fragment_.dependencies.push_back({arrivals[i], next, h > 0});
          arrivals[i] = next;
          goes_on = true;
        }
      }
    }
    return meet(g, arrivals);
  }
  [[nodiscard]] program::task_ref meet(const replica_group& g, std::span<const program::task_ref> all) {
    const auto shard = g.devices.front().index();
    const program::task_ref met{{}, fragment_.add({network_.meeting(), picoseconds{1}, {}, {}, program::task_kind::reduce, shard})};
    for (const auto& t : all) {
      fragment_.dependencies.push_back({t, met, false});
    }
    return met;
  }
  void update(machine::device_id d) {
    const auto elements = elements_[d.index()];
    const auto size = size_of(elements);
    fragment_.buffers.push_back({has_gradient_ ? size + size : size, d.index(), {}, true});
    if (!has_gradient_) {
      return;
    }
    const auto takes = times_.update(elements, type_.element, network_.model(d));
    const auto task = fragment_.add({Network::stream(d), takes, {}, {}, program::task_kind::update, d.index()});
    for (const auto& b : before_[d.index()]) {
      fragment_.dependencies.push_back({b, {{}, task}, false});
    }
  }

  Network& network_;
  const task_times& times_;
  const tensor::tensor_type& type_;
  bool has_gradient_ = false;
  std::vector<std::vector<std::uint32_t>> readers_of_{};  // that give a gradient, by distinct box
  std::vector<std::int64_t> elements_;                     // that each device holds
  std::vector<std::vector<program::task_ref>> before_;  // what the update of each device waits for
  program::fragment fragment_{};
};

}  // namespace detail

// The fragment of a weight of that type. readers: for each box that `held` was made of, the backward task that gives its
// gradient; without a fragment: none does. Each part that several devices hold is reduced over a ring of them, node by node,
// every other one backwards, once all contributions are there, those of all operators that share the weight; the update of a device
// follows. All 2(k-1) rounds of a ring of k devices between two neighbours are one message of 2(k-1)/k of the part, with
// 2(k-1) latencies: what the ring takes when its rounds are equally long, and the same load on every link, in k messages
// instead of 2k(k-1). Messages of a ring that are ready at the same time for the same link go in the order of their senders
// within the nodes, then of how many links are behind them: nodes that are alike stay so. Weights without gradient take memory alone.
// Network: as a class it has the members of parallel::network; only devices that it `has` get tasks and memory.
// Complexity: linear in the fragment and the readers of each part, for each part.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009. Jia's dissertation (2020), section
// 3.4, leaves open how gradients are added up.
template <class Network>
[[nodiscard]] program::fragment synchronized(Network& n, const task_times& times, const tensor::tensor_type& type,
                                                    const replicas& held, std::span<const program::task_ref> readers) {
  return detail::weight_synchronization<Network>{n, times, type}.run(held, readers);
}

}  // namespace unity::parallel
