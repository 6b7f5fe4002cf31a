// Makes the program of an iteration from that of one micro-batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/lowering/device_copies.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

namespace detail {

class pipeline_repeater {
 public:
  pipeline_repeater(const tasks::program& one, const pipeline& p, std::span<const std::uint32_t> chunks,
                    std::span<const device_copies> copies)
      : one_{one}, pipeline_{p}, chunks_{chunks}, copies_{copies} {}

  [[nodiscard]] tasks::program run();

 private:
  // Throws: unity::error if there are more than most_tasks.
  void expect_few_tasks() const;
  // Weights are fetched from servers once, before the first micro-batch, and reduced and updated once, after the last.
  [[nodiscard]] bool is_repeated(tasks::fragment_id f) const {
    const auto kind = one_.owner_of(f).kind;
    return kind != tasks::owner_kind::weight && kind != tasks::owner_kind::bucket;
  }
  [[nodiscard]] std::uint32_t first_of(tasks::fragment_id f, std::int64_t microbatch, std::size_t count) const {
    return is_repeated(f) ? static_cast<std::uint32_t>(static_cast<std::size_t>(microbatch) * count) : 0;
  }
  [[nodiscard]] tasks::task_ref moved(tasks::task_ref r, tasks::fragment_id own, std::int64_t microbatch) const;
  [[nodiscard]] tasks::buffer_ref moved(tasks::buffer_ref r, tasks::fragment_id own, std::int64_t microbatch) const;
  void add(tasks::fragment_id f, std::int64_t microbatch, tasks::fragment& fragment) const;

  [[nodiscard]] std::uint32_t chunk_of(tasks::fragment_id f) const {
    const auto& owner = one_.owner_of(f);
    return owner.kind == tasks::owner_kind::node && !chunks_.empty() ? chunks_[owner.index] : 0;
  }
  // The chunk of each recomputing task: that of the first backward task which needs it.
  using chunks_by_task = std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t>;  // by fragment and task
  [[nodiscard]] chunks_by_task chunks_again() const;
  // The phases of the device of a resource.
  [[nodiscard]] std::vector<pipeline_phase> phases_on(std::uint32_t device) const;
  // Per device, a task after each phase, which follows all tasks of the phase and precedes all of the next one.
  [[nodiscard]] tasks::fragment order(const chunks_by_task& again) const;
  // Orders the fetches of all micro-batches by the phases that need them, one after another, each as late as possible.
  void hold_back_fetches(const device_copies& of, const chunks_by_task& again, tasks::fragment& fragment) const;
  // A task waits for the stores of the task that is tasks_with_stores before it among those with stores, over all
  // phases.
  void limit_stores(const device_copies& of, const chunks_by_task& again, tasks::fragment& fragment) const;
  // By chunk and pass: the numbers below `count`, in order, whose tasks belong to that phase. task(i): the task with
  // number i.
  using numbers_by_phase = std::vector<std::array<std::vector<std::size_t>, 3>>;
  template <class F>
  [[nodiscard]] numbers_by_phase by_phase(std::size_t count, const chunks_by_task& again, const F& task) const;

  const tasks::program& one_;
  const pipeline& pipeline_;
  std::span<const std::uint32_t> chunks_;  // by node
  std::span<const device_copies> copies_;  // by device
  tasks::program all_{};
};

}  // namespace detail

// The program of all micro-batches from that of one. Devices work in the order of phases_of. Weights are fetched once,
// before the first micro-batch; reductions of gradients and updates are done once, after the last; adding up gradients
// is not priced.
// chunks: by node, for fragments that belong to nodes (chunks_of); empty: all are 0. If the program does not separate
// gradients of weights, phases of a schedule that separates them are empty.
// copies: of offloaded results, by device. They are stored and come back in the order of phases, just in time
// (device_copies.hpp). Empty: the copies of micro-batches do not wait for each other.
// Precondition: forward passes depend on no later virtual stage.
// Complexity: linear in the program, times the micro-batches, and n log n in the copies.
// Throws: unity::error if there would be more than tasks::most_tasks.
[[nodiscard]] inline tasks::program pipelined(const tasks::program& one, const pipeline& p,
                                              std::span<const std::uint32_t> chunks = {},
                                              std::span<const device_copies> copies = {}) {
  return p.is_trivial() ? one : detail::pipeline_repeater{one, p, chunks, copies}.run();
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_PIPELINED_PROGRAM)

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/units.hpp>

namespace unity::parallel::detail {

// The pass that a task is part of.
UNITY_INLINE std::optional<pipeline_pass> pass_of(tasks::task_kind k) {
  switch (k) {
    case tasks::task_kind::forward: return pipeline_pass::forward;
    case tasks::task_kind::backward:
    case tasks::task_kind::recompute: return pipeline_pass::backward;
    case tasks::task_kind::weight_gradient: return pipeline_pass::weight_gradient;
    default: return std::nullopt;
  }
}

UNITY_INLINE tasks::program pipeline_repeater::run() {
  expect_few_tasks();
  all_ = one_.without_fragments();
  std::vector<tasks::fragment> fragments(one_.fragment_count());
  for (std::size_t f = 0; f < fragments.size(); ++f) {
    const tasks::fragment_id id{f};
    all_.add_fragment(one_.owner_of(id));
    if (is_repeated(id)) {
      for (std::int64_t m = 0; m < pipeline_.microbatches; ++m) {
        add(id, m, fragments[f]);
      }
    } else {
      add(id, pipeline_.microbatches - 1, fragments[f]);
    }
  }
  const auto again = chunks_again();
  fragments.push_back(order(again));
  for (const auto& of : copies_) {
    hold_back_fetches(of, again, fragments.back());
    limit_stores(of, again, fragments.back());
  }
  all_.add_fragment({tasks::owner_kind::other, 0, "micro-batches in turn"});
  all_.replace(tasks::replacements_of(fragments));
  all_.commit();
  return std::move(all_);
}

UNITY_INLINE void pipeline_repeater::expect_few_tasks() const {
  std::int64_t repeated = 0;
  for (std::size_t f = 0; f < one_.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    repeated += is_repeated(id) ? static_cast<std::int64_t>(one_[id].tasks.size()) : 0;
  }
  if (repeated > 0 && pipeline_.microbatches > tasks::most_tasks / repeated) {
    throw error{"pipeline", fmt::format("{} micro-batches of {} tasks", pipeline_.microbatches, repeated),
                fmt::format("{} micro-batches at most", tasks::most_tasks / repeated)};
  }
}

UNITY_INLINE tasks::task_ref pipeline_repeater::moved(tasks::task_ref r, tasks::fragment_id own,
                                                      std::int64_t microbatch) const {
  const auto f = r.fragment.valid() ? r.fragment : own;
  r.index += first_of(f, microbatch, one_[f].tasks.size());
  return r;
}

UNITY_INLINE tasks::buffer_ref pipeline_repeater::moved(tasks::buffer_ref r, tasks::fragment_id own,
                                                        std::int64_t microbatch) const {
  const auto f = r.fragment.valid() ? r.fragment : own;
  r.index += first_of(f, microbatch, one_[f].buffers.size());
  return r;
}

UNITY_INLINE void pipeline_repeater::add(tasks::fragment_id f, std::int64_t microbatch,
                                         tasks::fragment& fragment) const {
  const auto& from = one_[f];
  fragment.tasks.insert(fragment.tasks.end(), from.tasks.begin(), from.tasks.end());
  for (const auto& d : from.dependencies) {
    // Weights that are fetched once precede the tasks of the first micro-batch.
    const auto after = moved(d.after, f, is_repeated(f) ? microbatch : 0);
    fragment.dependencies.push_back({moved(d.before, f, microbatch), after, d.cut_through});
  }
  for (auto b : from.buffers) {
    if (!b.permanent) {
      b.producer = moved(b.producer, f, microbatch);
    }
    fragment.buffers.push_back(b);
  }
  for (const auto& r : from.reads) {
    fragment.reads.push_back({moved(r.of, f, microbatch), moved(r.reader, f, microbatch)});
  }
}

UNITY_INLINE pipeline_repeater::chunks_by_task pipeline_repeater::chunks_again() const {
  chunks_by_task all;
  for (bool changes = pipeline_.chunks > 1; changes;) {
    changes = false;
    for (std::size_t f = 0; f < one_.fragment_count(); ++f) {
      const tasks::fragment_id id{f};
      const auto owner_of = [&](const tasks::task_ref& t) { return t.fragment.valid() ? t.fragment : id; };
      const auto is_again = [&](const tasks::task_ref& t) {
        return one_[owner_of(t)].tasks[t.index].kind == tasks::task_kind::recompute;
      };
      for (const auto& d : one_[id].dependencies) {
        if (is_again(d.before)) {
          const auto after = owner_of(d.after);
          const auto wanted = is_again(d.after) ? all[{after.index(), d.after.index}] : chunk_of(after);
          auto& own = all[{owner_of(d.before).index(), d.before.index}];
          changes = changes || wanted > own;
          own = std::max(own, wanted);
        }
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<pipeline_phase> pipeline_repeater::phases_on(std::uint32_t device) const {
  return phases_of(pipeline_, pipeline_.stages.empty() ? 0 : pipeline_.stages[device]);
}

UNITY_INLINE tasks::fragment pipeline_repeater::order(const chunks_by_task& again) const {
  using pass_tasks = std::array<std::vector<tasks::task_ref>, 3>;
  std::vector<std::vector<pass_tasks>> tasks(one_.resources().size(), std::vector<pass_tasks>(pipeline_.chunks));
  for (std::size_t f = 0; f < one_.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    const auto& fragment = one_[id];
    for (std::uint32_t t = 0; is_repeated(id) && t < fragment.tasks.size(); ++t) {
      if (const auto pass = pass_of(fragment.tasks[t].kind); pass && fragment.tasks[t].resource.valid()) {
        const auto own = again.find({f, t});
        const auto chunk = own == again.end() ? chunk_of(id) : own->second;
        tasks[fragment.tasks[t].resource.index()][chunk][static_cast<std::size_t>(*pass)].push_back({id, t});
      }
    }
  }
  tasks::fragment fragment;
  for (std::size_t r = 0; r < tasks.size(); ++r) {
    const auto& resource = one_.resources()[r];
    if (std::all_of(tasks[r].begin(), tasks[r].end(), [](const pass_tasks& of) { return of[0].empty(); })) {
      continue;
    }
    std::optional<tasks::task_ref> last;
    for (const auto& phase : phases_on(resource.device)) {
      const auto end =
          fragment.add({tasks::resource_id{r}, picoseconds{1}, {}, {}, tasks::task_kind::other, resource.device, 0});
      if (last) {
        fragment.dependencies.push_back({*last, {{}, end}, false});
      }
      for (const auto& t : tasks[r][phase.chunk][static_cast<std::size_t>(phase.pass)]) {
        const auto own = moved(t, {}, phase.microbatch);
        if (last) {
          fragment.dependencies.push_back({*last, own, false});
        }
        fragment.dependencies.push_back({own, {{}, end}, false});
      }
      last = tasks::task_ref{{}, end};
    }
  }
  return fragment;
}

template <class F>
pipeline_repeater::numbers_by_phase pipeline_repeater::by_phase(std::size_t count, const chunks_by_task& again,
                                                                const F& task) const {
  numbers_by_phase all(pipeline_.chunks);
  for (std::size_t i = 0; i < count; ++i) {
    const tasks::task_ref t = task(i);
    const auto own = again.find({t.fragment.index(), t.index});
    const auto chunk = own == again.end() ? chunk_of(t.fragment) : own->second;
    all[chunk][static_cast<std::size_t>(*pass_of(one_[t.fragment].tasks[t.index].kind))].push_back(i);
  }
  return all;
}

UNITY_INLINE void pipeline_repeater::hold_back_fetches(const device_copies& of, const chunks_by_task& again,
                                                       tasks::fragment& fragment) const {
  if (of.fetches.empty()) {
    return;
  }
  const auto task_of = [&](const tasks::task_ref& t) -> const tasks::task& { return one_[t.fragment].tasks[t.index]; };
  const auto count = of.tasks.size();
  const auto tasks = by_phase(count, again, [&](std::size_t i) { return of.tasks[i]; });
  const auto fetches =
      by_phase(of.fetches.size(), again, [&](std::size_t i) { return of.tasks[of.fetches[i].needed]; });
  const auto phases = phases_on(one_.resources()[task_of(of.tasks[0]).resource.index()].device);
  std::vector<std::size_t> places(static_cast<std::size_t>(pipeline_.microbatches) * count);
  std::vector<tasks::task_ref> sequence;  // of tasks in all phases
  phase_sequence timed;
  for (const auto& phase : phases) {
    timed.phases.push_back(sequence.size());
    for (const auto i : tasks[phase.chunk][static_cast<std::size_t>(phase.pass)]) {
      places[static_cast<std::size_t>(phase.microbatch) * count + i] = sequence.size();
      sequence.push_back(moved(of.tasks[i], {}, phase.microbatch));
      timed.durations.push_back(task_of(of.tasks[i]).duration.count());
    }
  }
  const auto is_forward = [&](const tasks::task_ref& t) { return task_of(t).kind == tasks::task_kind::forward; };
  const auto forward =
      static_cast<std::size_t>(std::partition_point(of.tasks.begin(), of.tasks.end(), is_forward) - of.tasks.begin());
  std::vector<tasks::task_ref> held;
  std::vector<std::size_t> begun;  // by fetch, in the sequence
  for (const auto& phase : phases) {
    const auto place_of = [&](std::size_t i) { return places[static_cast<std::size_t>(phase.microbatch) * count + i]; };
    for (const auto i : fetches[phase.chunk][static_cast<std::size_t>(phase.pass)]) {
      const auto& own = of.fetches[i];
      timed.fetches.push_back({place_of(own.needed), place_of(forward - 1), task_of(own.task).duration.count()});
      begun.push_back(place_of(own.begun));
      held.push_back(moved(own.task, {}, phase.microbatch));
    }
  }
  const auto ended = ended_before(timed);
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (ended[i] > begun[i] + 1) {
      fragment.dependencies.push_back({sequence[ended[i] - 1], held[i], false});
    }
    if (i > 0) {
      fragment.dependencies.push_back({held[i - 1], held[i], false});
    }
  }
}

UNITY_INLINE void pipeline_repeater::limit_stores(const device_copies& of, const chunks_by_task& again,
                                                  tasks::fragment& fragment) const {
  if (of.stores.empty()) {
    return;
  }
  const auto maker_of = [&](std::size_t i) { return of.tasks[of.stores[i].maker]; };
  const auto stores = by_phase(of.stores.size(), again, maker_of);
  const auto stream = one_[maker_of(0).fragment].tasks[maker_of(0).index].resource;
  std::vector<std::pair<std::size_t, std::int64_t>> before;  // number and micro-batch
  for (const auto& phase : phases_on(one_.resources()[stream.index()].device)) {
    for (const auto i : stores[phase.chunk][static_cast<std::size_t>(phase.pass)]) {
      if (before.size() >= tasks_with_stores) {
        const auto& [number, microbatch] = before[before.size() - tasks_with_stores];
        for (const auto& t : of.stores[number].tasks) {
          fragment.dependencies.push_back({moved(t, {}, microbatch), moved(maker_of(i), {}, phase.microbatch), false});
        }
      }
      before.emplace_back(i, phase.microbatch);
    }
  }
}

}  // namespace unity::parallel::detail

#endif
