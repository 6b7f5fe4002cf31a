// Offloading: tasks that copy results to the host and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <unity/parallel/lowering/device_copies.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tasks/program.hpp>

namespace unity::parallel {

class lowering;
struct lowered_fragment;

namespace detail {

// Effects: adds two resources for each device to the program, the links to and from its host, which work side by side;
// and adds the copies to the fragments, indexed by number. Backward tasks on the device of an offloaded result then
// read the fetched copy. Fetches are in the order in which results are needed. Each starts as late as it can without
// delaying a task, assuming that tasks of the device wait only for fetches, and never before the forward pass of its
// micro-batch has ended on the device. In a pipeline, the forward pass may end long before the backward pass begins:
// with the returned copies, by device, pipelined() delays them phase by phase (pipelined_program.hpp). At most
// tasks_with_stores tasks of a device have results that are not stored yet.
// chunks: by node, as chunks_of gives them.
// Precondition: no tasks will be added that read results. Complexity: linear in the fragments, and n log n in the
// nodes. Throws: unity::error if the rate between a device and its host is unknown.
std::vector<device_copies> add_offloading(const lowering& l, const strategy& s, const offloading& o,
                                          std::span<const std::uint32_t> chunks, tasks::program& p,
                                          std::span<lowered_fragment> all);

}  // namespace detail

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_OFFLOADING_WRITER)

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/lowering/lowering.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

class offloading_writer {
 public:
  offloading_writer(const lowering& l, const strategy& s, const offloading& o, std::span<const std::uint32_t> chunks,
                    tasks::program& p, std::span<lowered_fragment> all)
      : lowering_{l}, strategy_{s}, offloaded_{o}, chunks_{chunks}, program_{p}, all_{all} {}

  [[nodiscard]] std::vector<device_copies> run() &&;

 private:
  using task_key = std::pair<std::size_t, std::uint32_t>;  // fragment and task

  // A result of an offloaded operator on a device, and its readers in the backward pass.
  struct result {
    tasks::fragment_id fragment{};
    std::uint32_t buffer = 0;
    std::vector<std::pair<tasks::fragment_id, std::uint32_t>> reads{};  // fragment and number of the read
    std::size_t needed = std::numeric_limits<std::size_t>::max();       // the place of its first reader
  };
  // A device's tasks of the backward pass (`tasks`), in an order in which they can run.
  struct device_order {
    std::vector<tasks::task_ref> tasks{};
    std::vector<tasks::task_ref> forward{};  // in the order of the forward pass
    std::vector<result> results{};
  };

  void declare();
  void find_order();
  // Effects: gives a task the next place on its device, after the recomputing tasks that it needs.
  void place(const tasks::task_ref& t);
  void place_again(const tasks::task_ref& needed_by);
  void find_results();
  [[nodiscard]] device_copies add_copies(std::size_t device);
  // By task of the backward pass: its end, in picoseconds, if fetches run one after another from the beginning of the
  // pass, and tasks wait only for the fetches that they need. Precondition: results are in the order of add_copies.
  [[nodiscard]] std::vector<std::int64_t> ends_of(const device_order& own, std::size_t device) const;
  void limit_stores(const device_copies& copies);
  [[nodiscard]] const tasks::task& task_of(const tasks::task_ref& t) const {
    return all_[t.fragment.index()].body.tasks[t.index];
  }
  [[nodiscard]] picoseconds copy_time(std::size_t device, bytes size) const;

  const lowering& lowering_;
  const strategy& strategy_;
  const offloading& offloaded_;
  std::span<const std::uint32_t> chunks_;
  tasks::program& program_;
  std::span<lowered_fragment> all_;
  std::vector<tasks::resource_id> to_host_{};  // by device
  std::vector<tasks::resource_id> from_host_{};
  std::vector<device_order> devices_{};
  std::map<task_key, std::size_t> places_{};                      // of tasks in the order of their device
  std::map<task_key, std::vector<tasks::task_ref>> again_for_{};  // the recomputing tasks that a task needs
};

UNITY_INLINE std::vector<device_copies> offloading_writer::run() && {
  declare();
  find_order();
  find_results();
  std::vector<device_copies> all;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    all.push_back(add_copies(d));
  }
  return all;
}

UNITY_INLINE void offloading_writer::declare() {
  const auto& machine = lowering_.machine();
  expect_host_rates(machine);
  for (std::size_t d = 0; d < lowering_.device_count(); ++d) {
    const auto& name = machine.network.devices()[d].name;
    const auto device = static_cast<tasks::device_index>(d);
    to_host_.push_back(program_.add_resource({name + " to its host", tasks::resource_kind::link, device}));
    from_host_.push_back(program_.add_resource({name + " from its host", tasks::resource_kind::link, device}));
  }
  devices_.resize(lowering_.device_count());
}

UNITY_INLINE void offloading_writer::find_order() {
  const auto& g = lowering_.graph();
  std::vector<node_id> order;
  for (const auto n : node_ids(g)) {
    if (lowering_.fragment_of(n).valid()) {
      order.push_back(n);
    }
  }
  std::sort(order.begin(), order.end(), [&](node_id a, node_id b) {
    return std::pair{chunks_[a.index()], a} < std::pair{chunks_[b.index()], b};
  });
  for (const auto n : order) {
    for (std::uint32_t t = 0; t < strategy_[n.index()].task_count(); ++t) {
      devices_[strategy_[n.index()].devices[t].index()].forward.push_back({lowering_.fragment_of(n), t});
    }
  }
  std::reverse(order.begin(), order.end());
  for (std::size_t f = 0; f < all_.size(); ++f) {
    for (const auto& d : all_[f].body.dependencies) {
      const auto in = [&](tasks::task_ref t) {
        t.fragment = t.fragment.valid() ? t.fragment : tasks::fragment_id{f};
        return t;
      };
      const auto before = in(d.before);
      const auto after = in(d.after);
      if (task_of(before).kind == tasks::task_kind::recompute) {
        again_for_[{after.fragment.index(), after.index}].push_back(before);
      }
    }
  }
  // Gradients of weights may be computed long after the other tasks, which must not wait for them.
  const auto each = [&](tasks::task_kind kind, const auto& visit) {
    for (const auto n : order) {
      const auto f = lowering_.fragment_of(n);
      const auto& tasks = all_[f.index()].body.tasks;
      for (std::uint32_t t = 0; t < tasks.size(); ++t) {
        if (tasks[t].kind == kind) {
          visit(tasks::task_ref{f, t});
        }
      }
    }
  };
  each(tasks::task_kind::backward, [&](const tasks::task_ref& t) { place(t); });
  each(tasks::task_kind::weight_gradient, [&](const tasks::task_ref& t) { place_again(t); });
  each(tasks::task_kind::weight_gradient, [&](const tasks::task_ref& t) { place(t); });
}

UNITY_INLINE void offloading_writer::place_again(const tasks::task_ref& needed_by) {
  if (const auto again = again_for_.find({needed_by.fragment.index(), needed_by.index}); again != again_for_.end()) {
    for (const auto& before : again->second) {
      place(before);
    }
  }
}

UNITY_INLINE void offloading_writer::place(const tasks::task_ref& t) {
  const task_key key{t.fragment.index(), t.index};
  if (places_.contains(key)) {
    return;
  }
  place_again(t);
  const auto& task = task_of(t);
  auto& own = devices_[program_.resources()[task.resource.index()].device];
  places_[key] = own.tasks.size();
  own.tasks.push_back(t);
}

UNITY_INLINE void offloading_writer::find_results() {
  std::map<std::pair<std::size_t, std::uint32_t>, std::pair<std::size_t, std::size_t>> known;  // by fragment and buffer
  const auto& g = lowering_.graph();
  for (const auto n : node_ids(g)) {
    if (!is_offloaded(offloaded_, n)) {
      continue;
    }
    const auto f = lowering_.fragment_of(n);
    const auto results = static_cast<std::uint32_t>(strategy_[n.index()].task_count() * g.results(n).size());
    for (std::uint32_t b = 0; b < results; ++b) {
      const auto device = all_[f.index()].body.buffers[b].device;
      known[{f.index(), b}] = {device, devices_[device].results.size()};
      devices_[device].results.push_back({f, b});
    }
  }
  for (std::size_t f = 0; f < all_.size(); ++f) {
    const tasks::fragment_id id{f};
    const auto& reads = all_[f].body.reads;
    for (std::uint32_t r = 0; r < reads.size(); ++r) {
      const auto of = reads[r].of.fragment.valid() ? reads[r].of.fragment : id;
      const auto reader = reads[r].reader.fragment.valid() ? reads[r].reader.fragment : id;
      const auto found = known.find({of.index(), reads[r].of.index});
      const auto at = places_.find({reader.index(), reads[r].reader.index});
      if (found != known.end() && at != places_.end()) {
        auto& own = devices_[found->second.first].results[found->second.second];
        own.reads.emplace_back(id, r);
        own.needed = std::min(own.needed, at->second);
      }
    }
  }
}

UNITY_INLINE device_copies offloading_writer::add_copies(std::size_t device) {
  auto& own = devices_[device];
  device_copies copies{own.forward, {}, {}};
  copies.tasks.insert(copies.tasks.end(), own.tasks.begin(), own.tasks.end());
  std::erase_if(own.results, [](const result& r) { return r.reads.empty(); });
  // From the last that is needed to the first: each ends before it is needed, and before the next one starts.
  std::sort(own.results.begin(), own.results.end(), [](const result& a, const result& b) {
    return std::tuple{a.needed, a.fragment, a.buffer} > std::tuple{b.needed, b.fragment, b.buffer};
  });
  const auto ends = ends_of(own, device);
  auto next = std::numeric_limits<std::int64_t>::max();
  std::optional<tasks::task_ref> later;                     // fetch
  std::map<task_key, std::vector<tasks::task_ref>> stores;  // by maker
  for (const auto& r : own.results) {
    auto& body = all_[r.fragment.index()].body;
    const auto size = body.buffers[r.buffer].size;
    const auto maker = body.buffers[r.buffer].producer.index;
    const auto takes = copy_time(device, size);
    const auto add = [&](tasks::resource_id on) {
      return body.add({on, takes, {}, {}, tasks::task_kind::other, static_cast<std::uint32_t>(device)});
    };
    const auto store = add(to_host_[device]);
    const auto fetch = add(from_host_[device]);
    body.dependencies.push_back({{{}, maker}, {{}, store}, false});
    body.dependencies.push_back({{{}, store}, {{}, fetch}, false});
    body.reads.push_back({{{}, r.buffer}, {{}, store}});
    next = std::min(next, ends[r.needed] - task_of(own.tasks[r.needed]).duration.count()) - takes.count();
    const auto ended = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), next) - ends.begin());
    const auto begun = own.forward.size() + ended - 1;  // the last task of the forward pass, if no task has ended
    body.dependencies.push_back({copies.tasks[begun], {{}, fetch}, false});
    copies.fetches.push_back({{r.fragment, fetch}, begun, own.forward.size() + r.needed});
    if (later) {
      all_[later->fragment.index()].body.dependencies.push_back({{r.fragment, fetch}, *later, false});
    }
    later = tasks::task_ref{r.fragment, fetch};
    stores[{r.fragment.index(), maker}].push_back({r.fragment, store});
    const auto copy = static_cast<std::uint32_t>(body.buffers.size());
    body.buffers.push_back({size, static_cast<tasks::device_index>(device), {{}, fetch}, false});
    for (const auto& [f, number] : r.reads) {
      auto& reading = all_[f.index()].body;
      auto& read = reading.reads[number];
      read.of = {r.fragment, copy};
      const auto reader = read.reader.fragment.valid() ? read.reader.fragment : f;
      body.dependencies.push_back({{{}, fetch}, {reader, read.reader.index}, false});
    }
  }
  for (std::size_t i = 0; i < own.forward.size(); ++i) {
    if (const auto made = stores.find({own.forward[i].fragment.index(), own.forward[i].index}); made != stores.end()) {
      copies.stores.push_back({i, std::move(made->second)});
    }
  }
  std::reverse(copies.fetches.begin(), copies.fetches.end());
  limit_stores(copies);
  return copies;
}

UNITY_INLINE std::vector<std::int64_t> offloading_writer::ends_of(const device_order& own, std::size_t device) const {
  std::vector<std::int64_t> ends;
  std::int64_t copied = 0;
  std::int64_t now = 0;
  auto r = own.results.rbegin();
  for (std::size_t i = 0; i < own.tasks.size(); ++i) {
    for (; r != own.results.rend() && r->needed == i; ++r) {
      copied += copy_time(device, all_[r->fragment.index()].body.buffers[r->buffer].size).count();
      now = std::max(now, copied);
    }
    now += task_of(own.tasks[i]).duration.count();
    ends.push_back(now);
  }
  return ends;
}

UNITY_INLINE void offloading_writer::limit_stores(const device_copies& copies) {
  for (std::size_t i = tasks_with_stores; i < copies.stores.size(); ++i) {
    const auto& waiting = copies.tasks[copies.stores[i].maker];
    for (const auto& before : copies.stores[i - tasks_with_stores].tasks) {
      all_[waiting.fragment.index()].body.dependencies.push_back({before, waiting, false});
    }
  }
}

UNITY_INLINE picoseconds offloading_writer::copy_time(std::size_t device, bytes size) const {
  const auto& model = hardware::model_of(lowering_.machine(), hardware::device_id{device});
  const auto seconds = model.launch_seconds + static_cast<double>(size.count()) / model.host_bytes_per_second;
  return std::clamp(from_seconds(seconds), picoseconds{1}, tasks::longest_task);
}

UNITY_INLINE std::vector<device_copies> add_offloading(const lowering& l, const strategy& s, const offloading& o,
                                                       std::span<const std::uint32_t> chunks, tasks::program& p,
                                                       std::span<lowered_fragment> all) {
  return offloading_writer{l, s, o, chunks, p, all}.run();
}

}  // namespace unity::parallel::detail

#endif
