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

class weight_synchronization {
 public:
  weight_synchronization(network& n, const task_times& times, const tensor::tensor_type& type)
      : network_{n}, times_{times}, type_{type}, elements_(n.device_count(), 0), before_(n.device_count()) {}

  [[nodiscard]] program::fragment run(const replicas& held, std::span<const program::task_ref> readers) && {
    has_gradient_ = std::any_of(readers.begin(), readers.end(), [](const program::task_ref& r) { return r.fragment.valid(); });
    for (const auto& g : held.groups) {
      for (const auto d : g.devices) {
        elements_[d.index()] += g.elements;
      }
      if (has_gradient_) {
        reduce(held, g, readers);
      }
    }
    for (std::size_t d = 0; d < elements_.size(); ++d) {
      if (elements_[d] > 0) {
        update(machine::device_id{d});
      }
    }
    return std::move(fragment_);
  }

 private:
  [[nodiscard]] bytes size_of(std::int64_t elements) const {
    return bytes{elements * static_cast<std::int64_t>(tensor::size_of(type_.element))};
  }
  void reduce(const replicas& held, const replica_group& g, std::span<const program::task_ref> readers) {
    std::vector<program::task_ref> contributions;
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (readers[i].fragment.valid() && std::binary_search(g.boxes.begin(), g.boxes.end(), held.box_of[i])) {
        contributions.push_back(readers[i]);
      }
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
    const auto size = size_of(g.elements).count();
    const auto count = g.devices.size();
    const auto rounds = static_cast<std::int64_t>(2 * (count - 1));
    const auto ranks = static_cast<std::int64_t>(count);
    const bytes volume{size / ranks * rounds + (size % ranks * rounds + ranks - 1) / ranks};
    const auto ready = meet(g, contributions);
    std::vector<program::task_ref> arrivals;
    for (std::size_t i = 0; i < count; ++i) {
      const auto from = g.devices[i];
      const auto to = g.devices[(i + 1) % count];
      const auto hops = network_.hops(from, to, volume, rounds);
      arrivals.push_back(program::add_transfer(fragment_, hops, volume, from.index(), {&ready, 1}));
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
    const auto task = fragment_.add({network::stream(d), takes, {}, {}, program::task_kind::update, d.index()});
    for (const auto& b : before_[d.index()]) {
      fragment_.dependencies.push_back({b, {{}, task}, false});
    }
  }

  network& network_;
  const task_times& times_;
  const tensor::tensor_type& type_;
  bool has_gradient_ = false;
  std::vector<std::int64_t> elements_;                     // that each device holds
  std::vector<std::vector<program::task_ref>> before_;  // what the update of each device waits for
  program::fragment fragment_{};
};

}  // namespace detail

// The fragment of a weight of that type. readers: for each box that `held` was made of, the backward task that gives its
// gradient; without a fragment: none does. Each part that several devices hold is reduced over a ring of them, in order of
// their numbers, once all contributions are there, those of all operators that share the weight; the update of a device
// follows. All 2(k-1) rounds of a ring of k devices between two neighbours are one message of 2(k-1)/k of the part, with
// 2(k-1) latencies: what the ring takes when its rounds are equally long, and the same load on every link, in k messages
// instead of 2k(k-1). Weights without gradient take memory alone.
// Complexity: linear in the fragment, and in readers times groups.
// Source: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009. Jia's dissertation (2020), section
// 3.4, leaves open how gradients are added up.
[[nodiscard]] inline program::fragment synchronized(network& n, const task_times& times, const tensor::tensor_type& type,
                                                    const replicas& held, std::span<const program::task_ref> readers) {
  return detail::weight_synchronization{n, times, type}.run(held, readers);
}

}  // namespace unity::parallel
