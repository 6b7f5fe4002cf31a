// The order in which operators run on a device of limited memory, and which tensors stay on it between them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/placement/memory_graph.hpp>

namespace unity::placement {

// Before the operator runs, its operands are loaded unless the step before kept them, and its results are allocated.
// After it, everything is evicted except what is kept.
struct memory_step {
  operator_id operation{};
  std::vector<tensor_id> kept{};  // ascending

  friend bool operator==(const memory_step&, const memory_step&) = default;
};

// A step for each operator of a graph. Regular.
using memory_plan = std::vector<memory_step>;

// The transfers of one step, and the memory that it needs.
struct step_traffic {
  std::vector<tensor_id> loaded{};  // to the device, before the operator runs
  std::vector<tensor_id> stored{};  // to the host, after it
  bytes held{};                     // on the device while it runs

  friend bool operator==(const step_traffic&, const step_traffic&) = default;
};

// Regular.
struct memory_traffic {
  std::vector<step_traffic> steps{};
  bytes loaded{};
  bytes stored{};
  bytes peak{};

  friend bool operator==(const memory_traffic&, const memory_traffic&) = default;
};

// The traffic of a plan. Every load counts, including first loads of inputs. A tensor is stored once, when it is
// evicted and is a result or is read later; inputs are on the host already.
// Complexity: linear in operands, results and kept tensors.
// Throws: unity::error that names the step if the plan does not belong to the graph (an operator is missing or
// repeated, runs before a producer of its operands, or keeps a tensor that is not on the device) or a step exceeds the
// capacity.
[[nodiscard]] memory_traffic replay(const memory_graph& g, const memory_plan& p, bytes capacity);

// Plans by cache policies: nothing stays, least recently used, largest first, or furthest next use.

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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PLACEMENT_MEMORY_PLAN)

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include <fmt/core.h>

#include <unity/core/error.hpp>

namespace unity::placement {

namespace detail {

class plan_replay {
 public:
  plan_replay(const memory_graph& g, bytes capacity)
      : graph_{g},
        capacity_{capacity},
        has_run_(g.operator_count()),
        on_device_(g.tensor_count()),
        on_host_(g.tensor_count()),
        reads_left_(g.tensor_count()) {
    for (std::size_t t = 0; t < g.tensor_count(); ++t) {
      on_host_[t] = !g.writer(tensor_id{t}).valid();
      reads_left_[t] = g.readers(tensor_id{t}).size();
    }
  }

  void run(const memory_step& s);
  [[nodiscard]] memory_traffic finish() &&;

 private:
  void check_order(operator_id o);
  void run_operator(operator_id o, step_traffic& traffic);
  void keep(const std::vector<tensor_id>& kept, step_traffic& traffic);

  const memory_graph& graph_;
  bytes capacity_;
  operator_set has_run_;
  tensor_set on_device_;
  tensor_set on_host_;
  std::vector<std::size_t> reads_left_;
  std::string where_{};
  memory_traffic all_{};
};

UNITY_INLINE void plan_replay::check_order(operator_id o) {
  if (!o.valid() || o.index() >= graph_.operator_count() || has_run_[o.index()]) {
    throw error{where_, fmt::format("operator {}", o),
                fmt::format("each of the {} operators once", graph_.operator_count())};
  }
  where_ += fmt::format(" ({})", graph_.operation(o).name);
  for (const auto p : graph_.predecessors(o)) {
    if (!has_run_[p.index()]) {
      throw error{where_, fmt::format("before operator {} ({})", p, graph_.operation(p).name), "operators in order"};
    }
  }
}

UNITY_INLINE void plan_replay::run_operator(operator_id o, step_traffic& traffic) {
  has_run_.set(o.index());
  for (const auto t : graph_.operation(o).reads) {
    --reads_left_[t.index()];
    if (!on_device_[t.index()]) {
      on_device_.set(t.index());
      traffic.loaded.push_back(t);
      all_.loaded += graph_.tensor(t).size;
    }
  }
  for (const auto t : graph_.operation(o).writes) {
    on_device_.set(t.index());
  }
  traffic.held = graph_.size_of(on_device_);
  all_.peak = std::max(all_.peak, traffic.held);
  if (traffic.held > capacity_) {
    throw error{where_, fmt::format("{} bytes on the device", traffic.held.count()),
                fmt::format("{} at most", capacity_.count())};
  }
}

UNITY_INLINE void plan_replay::keep(const std::vector<tensor_id>& kept, step_traffic& traffic) {
  tensor_set after(graph_.tensor_count());
  for (const auto t : kept) {
    if (!t.valid() || t.index() >= graph_.tensor_count() || !on_device_[t.index()]) {
      throw error{where_, fmt::format("keeps tensor {}", t), "tensors that are on the device"};
    }
    after.set(t.index());
  }
  const auto leaving = on_device_ - after;
  for (auto t = leaving.find_first(); t != tensor_set::npos; t = leaving.find_next(t)) {
    const auto& tensor = graph_.tensor(tensor_id{t});
    if (!on_host_[t] && (reads_left_[t] > 0 || tensor.is_result)) {
      on_host_.set(t);
      traffic.stored.emplace_back(t);
      all_.stored += tensor.size;
    }
  }
  on_device_ = std::move(after);
}

UNITY_INLINE void plan_replay::run(const memory_step& s) {
  where_ = fmt::format("memory plan, step {}", all_.steps.size());
  auto& traffic = all_.steps.emplace_back();
  check_order(s.operation);
  run_operator(s.operation, traffic);
  keep(s.kept, traffic);
}

UNITY_INLINE memory_traffic plan_replay::finish() && {
  if (all_.steps.size() != graph_.operator_count()) {
    throw error{"memory plan", fmt::format("{} steps", all_.steps.size()),
                fmt::format("one for each of the {} operators", graph_.operator_count())};
  }
  if (!all_.steps.empty()) {
    keep({}, all_.steps.back());
  }
  return std::move(all_);
}

}  // namespace detail

UNITY_INLINE memory_traffic replay(const memory_graph& g, const memory_plan& p, bytes capacity) {
  detail::plan_replay all{g, capacity};
  for (const auto& s : p) {
    all.run(s);
  }
  return std::move(all).finish();
}

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
