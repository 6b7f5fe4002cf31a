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
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/rings.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/program/fragment.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

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
    has_gradient_ =
        std::any_of(readers.begin(), readers.end(), [](const program::task_ref& r) { return r.fragment.valid(); });
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
      contributions.assign(1, add_all_reduce(network_, fragment_, g.devices, size_of(g.elements), contributions));
    }
    for (const auto d : g.devices) {
      auto& waits = before_[d.index()];
      waits.insert(waits.end(), contributions.begin(), contributions.end());
    }
  }
  void update(machine::device_id d) {
    const auto elements = elements_[d.index()];
    const auto size = size_of(elements);
    const bytes kept{elements * state_bytes(times_.how(), type_.element)};
    fragment_.buffers.push_back({has_gradient_ ? size + size + kept : size, d.index(), {}, true});
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

// The fragment of a weight of that type. readers: for each box that `held` was made of, the backward task that gives
// its gradient; without a fragment: none does. Each part that several devices hold is reduced over a ring of them, node
// by node, every other one backwards, once all contributions are there, those of all operators that share the weight
// (rings.hpp); the update of a device follows. Messages of a ring that are ready at the same time for the same link go
// in the order of their senders within the nodes, then of how many links are behind them: nodes that are alike stay so.
// Weights without gradient take memory alone.
// Network: as a class it has the members of parallel::network; only devices that it `has` get tasks and memory.
// Complexity: linear in the fragment and the readers of each part, for each part.
// Source: Jia's dissertation (2020), section 3.4, leaves open how gradients are added up; rings.hpp.
template <class Network>
[[nodiscard]] program::fragment synchronized(Network& n, const task_times& times, const tensor::tensor_type& type,
                                                    const replicas& held, std::span<const program::task_ref> readers) {
  return detail::weight_synchronization<Network>{n, times, type}.run(held, readers);
}

}  // namespace unity::parallel
