// Splits backward tasks into gradients of inputs, which others wait for, and gradients of weights.
#pragma once

#include <span>

#include <unity/parallel/plan.hpp>

namespace unity::parallel {

class lowering;
struct lowered_fragment;

namespace detail {

// Effects: changes the fragments, indexed by number, of a plan with combined backward tasks. Operators with trained
// weights get an additional task for each backward task, after all others, for the gradients of weights; the backward
// task keeps the remaining time. The additional task holds the inputs of the backward task until it ends, and the
// synchronization of the weight's gradient waits for it.
// Source: Qi et al., Zero bubble pipeline parallelism, ICLR 2024. Complexity: linear in the fragments.
void split_weight_gradients(lowering& l, const strategy& s, std::span<lowered_fragment> all);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_WEIGHT_GRADIENTS)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel::detail {

// The backward tasks of an operator, and the tasks for their gradients of weights.
struct split_tasks {
  std::uint32_t first = 0;  // backward task
  std::uint32_t count = 0;  // 0: not split
  std::uint32_t later = 0;  // the weight task of the first

  void move(tasks::task_ref& t) const {
    if (t.index >= first && t.index < first + count) {
      t.index += later - first;
    }
  }
};

UNITY_INLINE void split_weight_gradients(lowering& l, const strategy& s, std::span<lowered_fragment> all) {
  std::vector<split_tasks> split(all.size());  // by fragment
  for (const auto n : node_ids(l.graph())) {
    const auto& weights = l.training().weights_of(n);
    if (!l.fragment_of(n).valid() || !l.training().has_backward(n) ||
        std::none_of(weights.begin(), weights.end(),
                     [&](std::uint32_t w) { return l.training().weights()[w].is_trained; })) {
      continue;
    }
    auto& f = all[l.fragment_of(n).index()].body;
    const auto& devices = s[n.index()].devices;
    const auto count = static_cast<std::uint32_t>(devices.size());
    split[l.fragment_of(n).index()] = {count, count, static_cast<std::uint32_t>(f.tasks.size())};
    for (std::uint32_t t = 0; t < count; ++t) {
      auto later = f.tasks[count + t];
      const auto times = l.input_gradient_times(s, n, devices[t]);
      const auto own = std::min(times.backward, later.duration);
      const auto launches = std::min(times.backward_launches, later.launches);
      f.tasks[count + t].duration = std::max(own, picoseconds{1});
      f.tasks[count + t].launches = launches;
      later.duration -= own;
      later.launches -= launches;
      later.kind = tasks::task_kind::weight_gradient;
      f.dependencies.push_back({{{}, count + t}, {{}, f.add(later)}, false});
    }
  }
  for (std::size_t f = 0; f < all.size(); ++f) {
    const auto fragment_of = [&](const tasks::task_ref& t) { return t.fragment.valid() ? t.fragment.index() : f; };
    for (auto& r : all[f].body.reads) {
      split[fragment_of(r.reader)].move(r.reader);
    }
    if (f >= l.weight_fragment(0).index()) {
      for (auto& d : all[f].body.dependencies) {
        split[fragment_of(d.before)].move(d.before);
      }
    }
  }
}

}  // namespace unity::parallel::detail

#endif
