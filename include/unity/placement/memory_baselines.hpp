// Plans by cache policies: nothing stays, least recently used, largest first, or furthest next use.
#pragma once

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>
#include <unity/placement/memory_plan.hpp>

namespace unity::placement {

// All run the operators in their own order, and throw unity::error as require_capacity.

// Nothing stays: each operator loads all its operands.
// Source: Ma et al., NeuGraph, USENIX ATC 2019.
[[nodiscard]] memory_plan streaming_plan(const memory_graph& g, bytes capacity);

// Evicts the least recently used tensor when memory is needed. It does not look ahead, so dead tensors stay until
// evicted as well. Operands are used in the order of their numbers, then results. Complexity: operators times tensors.
[[nodiscard]] memory_plan lru_plan(const memory_graph& g, bytes capacity);

// Evicts the largest tensor when memory is needed; among equal ones the least recently used.
[[nodiscard]] memory_plan largest_first_plan(const memory_graph& g, bytes capacity);

// Evicts the tensor with the furthest next use. Optimal if all tensors have one size.
// Source: Belady, A study of replacement algorithms for a virtual-storage computer, IBM Systems Journal 5, 1966.
[[nodiscard]] memory_plan farthest_first_plan(const memory_graph& g, bytes capacity);

}  // namespace unity::placement

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_MEMORY_BASELINES)

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <vector>

namespace unity::placement {

namespace detail {

// victim(evictable tensors on the device, least recently used first; the operator): which one to evict.
template <class Victim>
[[nodiscard]] memory_plan plan_by_eviction(const memory_graph& g, bytes capacity, const Victim& victim) {
  require_capacity(g, capacity);
  memory_plan plan;
  std::vector<tensor_id> on_device;  // by last use, least recent first
  bytes held;
  for (std::size_t i = 0; i < g.operator_count(); ++i) {
    const operator_id o{i};
    const auto touched = g.touched(o);
    const auto make_room = [&](bytes size) {
      while (held + size > capacity) {
        std::vector<tensor_id> candidates;
        std::copy_if(on_device.begin(), on_device.end(), std::back_inserter(candidates),
                     [&](tensor_id t) { return !touched[t.index()]; });
        const tensor_id out = victim(candidates, o);
        held -= g.tensor(out).size;
        on_device.erase(std::find(on_device.begin(), on_device.end(), out));
        auto& kept = plan.back().kept;
        kept.erase(std::find(kept.begin(), kept.end(), out));
      }
    };
    const auto use = [&](tensor_id t) {
      const auto place = std::find(on_device.begin(), on_device.end(), t);
      if (place != on_device.end()) {
        on_device.erase(place);
      } else {
        make_room(g.tensor(t).size);
        held += g.tensor(t).size;
      }
      on_device.push_back(t);
    };
    std::for_each(g.operation(o).reads.begin(), g.operation(o).reads.end(), use);
    std::for_each(g.operation(o).writes.begin(), g.operation(o).writes.end(), use);
    plan.push_back({o, on_device});
    std::sort(plan.back().kept.begin(), plan.back().kept.end());
  }
  if (!plan.empty()) {
    plan.back().kept.clear();
  }
  return plan;
}

// The first operator from `now` on that reads the tensor; past the end if there is none.
[[nodiscard]] UNITY_INLINE std::size_t next_read(const memory_graph& g, tensor_id t, operator_id now) {
  const auto readers = g.readers(t);
  const auto next = std::lower_bound(readers.begin(), readers.end(), now);
  return next == readers.end() ? std::numeric_limits<std::size_t>::max() : next->index();
}

}  // namespace detail

UNITY_INLINE memory_plan streaming_plan(const memory_graph& g, bytes capacity) {
  require_capacity(g, capacity);
  memory_plan plan;
  for (std::size_t o = 0; o < g.operator_count(); ++o) {
    plan.push_back({operator_id{o}, {}});
  }
  return plan;
}

UNITY_INLINE memory_plan lru_plan(const memory_graph& g, bytes capacity) {
  return detail::plan_by_eviction(
      g, capacity, [](const std::vector<tensor_id>& candidates, operator_id) { return candidates.front(); });
}

UNITY_INLINE memory_plan largest_first_plan(const memory_graph& g, bytes capacity) {
  return detail::plan_by_eviction(g, capacity, [&](const std::vector<tensor_id>& candidates, operator_id) {
    return *std::max_element(candidates.begin(), candidates.end(),
                             [&](tensor_id a, tensor_id b) { return g.tensor(a).size < g.tensor(b).size; });
  });
}

UNITY_INLINE memory_plan farthest_first_plan(const memory_graph& g, bytes capacity) {
  return detail::plan_by_eviction(g, capacity, [&](const std::vector<tensor_id>& candidates, operator_id now) {
    return *std::max_element(candidates.begin(), candidates.end(), [&](tensor_id a, tensor_id b) {
      return detail::next_read(g, a, now) < detail::next_read(g, b, now);
    });
  });
}

}  // namespace unity::placement

#endif
