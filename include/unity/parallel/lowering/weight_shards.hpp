// Weights divided among replicas: scatters of gradients and gathers of weights in each micro-batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/parallel/lowering/synchronization.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tasks/fragment.hpp>

namespace unity::parallel {

class lowering;
struct lowered_fragment;

// The indices of weights whose gradients are divided among replicas. Each has a separate fragment, after those of
// buckets, which every micro-batch repeats.
[[nodiscard]] std::vector<std::uint32_t> divided_weights(const synchronization& s);

namespace detail {

// Effects: adds to the fragment, which is `self`, the reduce-scatters of the part's gradient after all
// contributions, and the memory of the gradient beyond the device's share until then. Records their ends in the part.
// Source: Rajbhandari et al., ZeRO, SC 2020, section 5.2.
void add_scatters(lowering& l, const tensor::tensor_type& type, tasks::fragment_id self, synchronized_part& part,
                  tasks::fragment& fragment);

// Effects: adds to the fragments of divided weights, which are the last ones, what keeps whole gradients from piling
// up, as on ranks (sharded_cells::wait_for_shares). On each device, operators that contribute last to scatters are
// ordered as in the backward pass: the tasks of the next but one wait for a scatter, so that a scatter runs beside one
// operator; and with several micro-batches, a backward pass ends after its scatters. Weights that several stages of a
// pipeline read are left out, as stages would wait for each other. Precondition: as checked by check_gathers.
// Complexity: n log n in the scatters of each device, and linear in the tasks of these operators.
void limit_scatters(const lowering& l, const strategy& s, const synchronization& sync, const pipeline& stages,
                    std::vector<lowered_fragment>& all);

// Effects: adds to the fragments of divided weights, which are the last ones, the gathers of weights and the memory of
// gathered elements until their last reader has ended. In each pass a device lets a gather begin, by a task without
// duration, as many operators before its reader as the weight's prefetch says (synchronizer::prefetch). Complexity:
// linear in operators, and in the readers of these weights.
// Source: Zhao et al., PyTorch FSDP, VLDB 2023.
void add_gathers(lowering& l, const strategy& s, const synchronization& sync, const recomputation& again,
                 std::vector<lowered_fragment>& all);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_WEIGHT_SHARDS)

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/stable_sort.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/weight_fragments.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<std::uint32_t> divided_weights(const synchronization& s) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t w = 0; w < s.weights.size(); ++w) {
    if (std::any_of(s.weights[w].parts.begin(), s.weights[w].parts.end(), divides_gradient)) {
      all.push_back(w);
    }
  }
  return all;
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

// Effects: adds memory for the elements of a group beyond the device's share, from the start of `producer`.
UNITY_INLINE tasks::buffer_ref add_rest(tasks::fragment& fragment, const replica_group& g, std::size_t place,
                                        const tensor::tensor_type& type, const tasks::task_ref& producer) {
  const auto rest = lowering::size_of(g.elements - share_of(g, place), type);
  fragment.buffers.push_back({rest, g.devices[place].index(), producer, false});
  return {{}, static_cast<std::uint32_t>(fragment.buffers.size() - 1)};
}

UNITY_INLINE void add_scatters(lowering& l, const tensor::tensor_type& type, tasks::fragment_id self,
                               synchronized_part& part, tasks::fragment& fragment) {
  const part_givers givers{part.of};
  if (!divides_gradient(part.sync) || !givers.any()) {
    return;
  }
  for (const auto& g : part.of.held.groups) {
    if (g.devices.size() == 1) {
      continue;
    }
    std::vector<tasks::task_ref> given;
    // By device: the contributing task that runs first, which is that of the last reader: backward passes begin there.
    std::vector<std::optional<tasks::task_ref>> first(g.devices.size());
    for (const auto& r : givers.of(g)) {
      given.push_back(r.task);
      first[static_cast<std::size_t>(std::lower_bound(g.devices.begin(), g.devices.end(), r.on) - g.devices.begin())] =
          r.task;
    }
    auto end = add_collective(l.links(), fragment, hardware::exchange::reduce_scatter, g.devices,
                              lowering::size_of(g.elements, type), given);
    for (std::size_t i = 0; i < g.devices.size(); ++i) {
      if (first[i]) {
        fragment.reads.push_back({add_rest(fragment, g, i, type, *first[i]), end});
      }
    }
    end.fragment = self;
    part.of.scattered[g.devices] = end;
  }
}

// A scatter of a device's gradient.
struct device_scatter {
  node_id last{};  // the operator that contributes last
  tasks::task_ref end{};
};

// By device: its scatters in the order of the backward pass.
using scatters_by_device = std::vector<std::vector<device_scatter>>;

UNITY_INLINE scatters_by_device scatters_of(const lowering& l, const strategy& s, const synchronization& sync,
                                            const pipeline& stages, std::span<const lowered_fragment> shares) {
  scatters_by_device on(l.device_count());
  const auto stage_of = [&](hardware::device_id d) { return stages.stages.empty() ? 0 : stages.stages[d.index()]; };
  const auto divided = divided_weights(sync);
  for (std::size_t k = 0; k < divided.size(); ++k) {
    std::set<std::uint32_t> read_in;  // stages
    std::set<node_id> contributing;
    for (const auto& use : l.training().weights()[divided[k]].uses) {
      for (const auto d : s[use.node.index()].devices) {
        read_in.insert(stage_of(d));
      }
      if (l.training().has_backward(use.node)) {
        contributing.insert(use.node);
      }
    }
    for (const auto& read : shares[k].body.reads) {
      const auto& whole = shares[k].body.buffers[read.of.index];
      if (read_in.size() == 1 && whole.producer.fragment.valid()) {  // not of a gather
        on[whole.device].push_back({*contributing.begin(), {shares[k].id, read.reader.index}});
      }
    }
  }
  for (auto& all : on) {
    unity::stable_sort(all, [](const auto& x, const auto& y) { return x.last > y.last; });
  }
  return on;
}

// By device and operator: the backward tasks of operators that contribute last to a scatter.
using last_tasks = std::map<std::pair<std::uint32_t, node_id>, std::vector<tasks::task_ref>>;

UNITY_INLINE last_tasks last_tasks_of(const lowering& l, const strategy& s, const scatters_by_device& on) {
  std::set<node_id> contributing_last;
  for (const auto& all : on) {
    for (const auto& x : all) {
      contributing_last.insert(x.last);
    }
  }
  last_tasks tasks;
  for (const auto n : contributing_last) {
    const auto& c = s[n.index()];
    const auto count = static_cast<std::uint32_t>(c.task_count());
    for (std::uint32_t t = 0; t < count; ++t) {
      tasks[{c.devices[t].index(), n}].push_back({l.fragment_of(n), count + t});
    }
  }
  return tasks;
}

// Effects: has all of `after` wait for all of `before`. Complexity: linear in both.
UNITY_INLINE void add_waits(tasks::fragment& fragment, std::vector<tasks::task_ref> before,
                            std::span<const tasks::task_ref> after, std::uint32_t device) {
  if (before.size() > 1 && after.size() > 1) {
    before.assign(1, add_meeting(fragment, before, device));
  }
  for (const auto& end : before) {
    for (const auto& t : after) {
      fragment.dependencies.push_back({end, t, false});
    }
  }
}

UNITY_INLINE void limit_scatters(const lowering& l, const strategy& s, const synchronization& sync,
                                 const pipeline& stages, std::vector<lowered_fragment>& all) {
  const auto shares = std::span{all}.last(divided_weights(sync).size());
  const auto on = scatters_of(l, s, sync, stages, shares);
  const auto tasks = last_tasks_of(l, s, on);
  for (std::uint32_t d = 0; d < on.size(); ++d) {
    if (on[d].empty()) {
      continue;
    }
    auto& fragment = shares.back().body;
    std::vector<tasks::task_ref> due;   // ends that no task waits for yet, of all operators but the last
    std::vector<tasks::task_ref> last;  // those of the last operator
    for (auto x = on[d].begin(); x != on[d].end();) {
      if (const auto own = tasks.find({d, x->last}); own != tasks.end()) {
        add_waits(fragment, std::move(due), own->second, d);
        due.clear();
      }
      due.insert(due.end(), last.begin(), last.end());
      last.clear();
      for (const auto n = x->last; x != on[d].end() && x->last == n; ++x) {
        last.push_back(x->end);
      }
    }
    if (stages.microbatches > 1) {
      due.insert(due.end(), last.begin(), last.end());
      const tasks::task_ref passed{
          {}, fragment.add({network::stream(hardware::device_id{d}), {}, {}, {}, tasks::task_kind::backward, d, 0})};
      add_waits(fragment, std::move(due), {&passed, 1}, d);
    }
  }
}

class gather_writer {
 public:
  gather_writer(lowering& l, const strategy& s, const synchronization& sync, std::vector<lowered_fragment>& all)
      : lowering_{l}, strategy_{s}, sync_{sync}, all_{all}, divided_{divided_weights(sync)} {}

  void run(const weight_gathers& points) {
    forward_ = operators_at(points.forward, false);
    backward_ = operators_at(points.backward, true);
    add(points.forward, false);
    add(points.backward, true);
  }

 private:
  // The tasks on a device of an operator that needs a gather.
  struct point_tasks {
    std::size_t point = 0;
    std::vector<tasks::task_ref> tasks{};
  };
  using by_device = std::vector<std::vector<point_tasks>>;  // in the order of the pass

  [[nodiscard]] by_device operators_at(std::span<const gather_point> points, bool is_backward) const;
  void add(std::span<const gather_point> points, bool is_backward);
  void add(const synchronized_part& part, const tensor::tensor_type& type, std::size_t point, bool is_backward,
           tasks::fragment& fragment);
  // The tasks of the reader in the forward pass, or in the backward pass including recomputation.
  [[nodiscard]] std::vector<tasks::task_ref> readers(const weight_reader& r, bool is_backward) const;
  // Effects: adds the task after which a gather may begin on a device: when the operator that synchronizer::prefetch
  // determines has ended, or the pass has begun.
  [[nodiscard]] tasks::task_ref add_begin(hardware::device_id d, std::size_t point, std::uint32_t prefetch,
                                          bool is_backward, tasks::fragment& fragment) const;

  lowering& lowering_;
  const strategy& strategy_;
  const synchronization& sync_;
  std::vector<lowered_fragment>& all_;
  std::vector<std::uint32_t> divided_;
  by_device forward_{};
  by_device backward_{};
};

UNITY_INLINE auto gather_writer::operators_at(std::span<const gather_point> points, bool is_backward) const
    -> by_device {
  by_device all(lowering_.device_count());
  for (std::size_t k = 0; k < points.size(); ++k) {
    const auto n = points[k].before;
    const auto& c = strategy_[n.index()];
    const auto tasks = static_cast<std::uint32_t>(c.task_count());
    for (std::uint32_t t = 0; t < tasks; ++t) {
      auto& own = all[c.devices[t].index()];
      if (own.empty() || own.back().point != k) {
        own.push_back({k, {}});
      }
      own.back().tasks.push_back({lowering_.fragment_of(n), is_backward ? tasks + t : t});
    }
  }
  return all;
}

UNITY_INLINE void gather_writer::add(std::span<const gather_point> points, bool is_backward) {
  for (std::size_t k = 0; k < points.size(); ++k) {
    for (const auto w : points[k].weights) {
      const auto number = std::lower_bound(divided_.begin(), divided_.end(), w) - divided_.begin();
      auto& fragment = all_[all_.size() - divided_.size() + static_cast<std::size_t>(number)].body;
      const auto& type = lowering_.graph().type(lowering_.training().weights()[w].value);
      for (const auto& part : parts_of_weight(lowering_, strategy_, w, sync_.weights[w])) {
        if (divides_weight(part.sync) && (!is_backward || part.sync.is_resharded)) {
          add(part, type, k, is_backward, fragment);
        }
      }
    }
  }
}

UNITY_INLINE std::vector<tasks::task_ref> gather_writer::readers(const weight_reader& r, bool is_backward) const {
  if (!is_backward) {
    return {r.reads};
  }
  std::vector<tasks::task_ref> all;
  if (r.is_read_back && r.task.fragment.valid()) {
    all.push_back(r.task);
  }
  const auto& tasks = all_[r.reads.fragment.index()].body.tasks;
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == tasks::task_kind::recompute && tasks[i].shard == r.reads.index) {
      all.push_back({r.reads.fragment, i});
    }
  }
  return all;
}

UNITY_INLINE tasks::task_ref gather_writer::add_begin(hardware::device_id d, std::size_t point, std::uint32_t prefetch,
                                                      bool is_backward, tasks::fragment& fragment) const {
  const auto& own = (is_backward ? backward_ : forward_)[d.index()];
  const auto here =
      std::lower_bound(own.begin(), own.end(), point, [](const point_tasks& x, std::size_t p) { return x.point < p; });
  const auto place = static_cast<std::size_t>(here - own.begin());
  const auto kind = is_backward ? tasks::task_kind::backward : tasks::task_kind::forward;
  const bool is_first = place <= prefetch;  // on the stream, where micro-batches take turns (pipelined_program.hpp)
  const tasks::task_ref begin{
      {}, fragment.add({is_first ? network::stream(d) : tasks::resource_id{}, {}, {}, {}, kind, d.index(), 0})};
  const auto& ahead = is_first ? forward_[d.index()] : own;
  if (!is_first || (is_backward && !ahead.empty())) {
    for (const auto& t : (is_first ? ahead.back() : ahead[place - 1 - prefetch]).tasks) {
      fragment.dependencies.push_back({t, begin, false});
    }
  }
  return begin;
}

UNITY_INLINE void gather_writer::add(const synchronized_part& part, const tensor::tensor_type& type, std::size_t point,
                                     bool is_backward, tasks::fragment& fragment) {
  for (const auto& g : part.of.held.groups) {
    std::vector<std::vector<tasks::task_ref>> readers_on(g.devices.size());
    std::vector<std::vector<tasks::task_ref>> dropped_behind(g.devices.size());
    bool is_read = false;
    for (std::size_t i = 0; i < part.of.readers.size() && g.devices.size() > 1; ++i) {
      const auto& r = part.of.readers[i];
      if (!std::binary_search(g.boxes.begin(), g.boxes.end(), part.of.held.box_of[i])) {
        continue;
      }
      const auto at =
          static_cast<std::size_t>(std::lower_bound(g.devices.begin(), g.devices.end(), r.on) - g.devices.begin());
      const auto own = readers(r, is_backward);
      readers_on[at].insert(readers_on[at].end(), own.begin(), own.end());
      is_read = is_read || !own.empty();
      if (is_backward) {
        dropped_behind[at].push_back(r.reads);
      } else if (!part.sync.is_resharded) {
        const auto back = readers(r, true);
        readers_on[at].insert(readers_on[at].end(), back.begin(), back.end());
      }
    }
    if (!is_read) {
      continue;
    }
    std::vector<tasks::task_ref> begins;
    for (std::size_t i = 0; i < g.devices.size(); ++i) {
      begins.push_back(add_begin(g.devices[i], point, part.sync.prefetch, is_backward, fragment));
      for (const auto& t : dropped_behind[i]) {
        fragment.dependencies.push_back({t, begins.back(), false});
      }
    }
    const auto end = add_collective(lowering_.links(), fragment, hardware::exchange::all_gather, g.devices,
                                    lowering::size_of(g.elements, type), begins);
    for (std::size_t i = 0; i < g.devices.size(); ++i) {
      const auto rest = add_rest(fragment, g, i, type, begins[i]);
      fragment.reads.push_back({rest, end});
      for (const auto& r : readers_on[i]) {
        fragment.dependencies.push_back({end, r, false});
        fragment.reads.push_back({rest, r});
      }
    }
  }
}

UNITY_INLINE void add_gathers(lowering& l, const strategy& s, const synchronization& sync, const recomputation& again,
                              std::vector<lowered_fragment>& all) {
  const auto points = gathers_of(l.graph(), l.training(), sync, again, [&](node_id n) { return l.kept(n); });
  if (!points.forward.empty()) {
    gather_writer{l, s, sync, all}.run(points);
  }
}

}  // namespace unity::parallel::detail

#endif
