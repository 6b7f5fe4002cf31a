// Dependencies between consecutive iterations of a plan.
#pragma once

#include <vector>

#include <unity/parallel/plan.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tasks/repeated.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::parallel {

// The dependencies between iterations of a program that lowering made of the plan. A device starts an iteration when it
// has finished computing the previous one and has the new versions of all weights that it updates or receives; weights
// that servers send with staleness may lag by that many iterations. Ranks and the steps of frameworks do the same.
// Readers of a weight also wait for its update. Weights are requested from servers at the beginning of an iteration,
// after the last updates of all servers and of the receiver.
// Complexity: linear in the program; for each weight, its updates times the tasks that read it.
[[nodiscard]] std::vector<tasks::carried_dependency> carried_dependencies(const tensor::algebra& a, const plan& p,
                                                                          const tasks::program& program);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_NEXT_ITERATION)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::parallel {

namespace detail {

// The lag of a weight in iterations: the minimum over its parts.
UNITY_INLINE std::uint32_t lag_of(const synchronization& s, std::size_t weight) {
  if (s.weights.empty()) {
    return 0;
  }
  const auto& parts = s.weights[weight].parts;
  return std::min_element(parts.begin(), parts.end(),
                          [](const synchronizer& x, const synchronizer& y) { return x.staleness < y.staleness; })
      ->staleness;
}

// By device: the task after all its updates; the null fragment if the device updates nothing, or nothing is fetched.
UNITY_INLINE std::vector<tasks::task_ref> ends_of_updates(const tasks::program& program, std::size_t devices) {
  std::vector<tasks::task_ref> all(devices);
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind != tasks::owner_kind::weight) {
      continue;
    }
    const auto& tasks = program[id].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].kind == tasks::task_kind::other) {
        all[tasks[i].shard] = {id, i};
      }
    }
  }
  return all;
}

// The tasks, one per device, that start the gather of the weight for a forward pass.
UNITY_INLINE std::vector<std::uint32_t> gathers_for_forward(const tasks::program& program, tasks::fragment_id shares) {
  std::vector<std::uint32_t> all;
  const auto& tasks = program[shares].tasks;
  for (std::uint32_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == tasks::task_kind::forward) {
      all.push_back(i);
    }
  }
  return all;
}

// The devices that serve parts.
UNITY_INLINE std::set<std::size_t> servers_of(const synchronization& s) {
  std::set<std::size_t> all;
  for_each_part(s, [&](const synchronizer& part) {
    if (part.kind == sync_kind::parameter_server) {
      all.insert(part.destination.index());
    }
  });
  return all;
}

}  // namespace detail

UNITY_INLINE std::vector<tasks::carried_dependency> carried_dependencies(const tensor::algebra& a, const plan& p,
                                                                         const tasks::program& program) {
  using tasks::task_kind;
  const auto computes = [](const tasks::task& t) {
    return t.kind == task_kind::forward || t.kind == task_kind::backward || t.kind == task_kind::recompute ||
           t.kind == task_kind::weight_gradient;
  };
  std::vector<tasks::fragment_id> node_fragment(p.graph.node_count());
  std::vector<tasks::fragment_id> shares(p.synchronization.weights.size());  // by weight
  // By stream: tasks that wait for nothing.
  std::vector<std::vector<tasks::task_ref>> first(program.resources().size());
  // By stream: tasks that no computation on the stream waits for.
  std::vector<std::vector<tasks::task_ref>> last(program.resources().size());
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind == tasks::owner_kind::shares) {
      shares[program.owner_of(id).index] = id;
      for (const auto begin : detail::gathers_for_forward(program, id)) {
        if (program.before(program.find(id, begin).index()).empty()) {
          first[program[id].tasks[begin].shard].push_back({id, begin});
        }
      }
    }
    if (program.owner_of(id).kind != tasks::owner_kind::node) {
      continue;
    }
    node_fragment[program.owner_of(id).index] = id;
    const auto& tasks = program[id].tasks;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      const auto place = program.find(id, i).index();
      const auto after = program.after(place);
      const auto before = program.before(place);
      if (std::all_of(before.begin(), before.end(), [&](const tasks::task_link& link) {
            const auto kind = program.owner_of(program.where(tasks::task_id{link.task()}).fragment).kind;
            return kind == tasks::owner_kind::weight || kind == tasks::owner_kind::shares;  // fetched or gathered
          })) {
        first[tasks[i].resource.index()].push_back({id, i});
      }
      if (std::none_of(after.begin(), after.end(), [&](const tasks::task_link& link) {
            const auto& next = program[tasks::task_id{link.task()}];
            return computes(next) && next.resource == tasks[i].resource;
          })) {
        last[tasks[i].resource.index()].push_back({id, i});
      }
    }
  }
  std::vector<tasks::carried_dependency> all;
  for (std::size_t r = 0; r < first.size(); ++r) {
    for (const auto& after : first[r]) {
      for (const auto& before : last[r]) {
        all.push_back({before, after, 1});
      }
    }
  }
  const training_graph training{a, p.graph};
  const auto updated = detail::ends_of_updates(program, p.machine.network.device_count());
  const auto servers = detail::servers_of(p.synchronization);
  for (std::size_t f = 0; f < program.fragment_count(); ++f) {
    const tasks::fragment_id id{f};
    if (program.owner_of(id).kind != tasks::owner_kind::weight) {
      continue;
    }
    const auto number = program.owner_of(id).index;
    const auto& tasks = program[id].tasks;
    std::vector<std::uint32_t> fetches;
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].kind == task_kind::transfer && program.before(program.find(id, i).index()).empty()) {
        fetches.push_back(i);
      }
    }
    for (const auto fetch : fetches) {
      auto before = servers;
      before.insert(tasks[fetch].shard);
      for (const auto d : before) {
        if (updated[d].fragment.valid()) {
          all.push_back({updated[d], {id, fetch}, 1});
        }
      }
    }
    for (std::uint32_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].kind != task_kind::update) {  // on the device of its shard, or of what arrives there
        continue;
      }
      for (const auto fetch : fetches) {
        all.push_back({{id, i}, {id, fetch}, 1});
      }
      for (const auto begin : shares.empty() || !shares[number].valid()
                                  ? std::vector<std::uint32_t>{}
                                  : detail::gathers_for_forward(program, shares[number])) {
        if (program[shares[number]].tasks[begin].shard == tasks[i].shard) {
          all.push_back({{id, i}, {shares[number], begin}, 1});
        }
      }
      for (const auto& after : first[tasks[i].shard]) {
        all.push_back({{id, i}, after, 1 + detail::lag_of(p.synchronization, number)});
      }
      for (const auto& use : training.weights()[number].uses) {
        const auto reader = node_fragment[use.node.index()];
        const auto& readers = program[reader].tasks;
        for (std::uint32_t t = 0; t < readers.size(); ++t) {
          if (readers[t].kind == task_kind::forward && readers[t].resource.index() == tasks[i].shard) {
            all.push_back({{id, i}, {reader, t}, 1 + detail::lag_of(p.synchronization, number)});
          }
        }
      }
    }
  }
  return all;
}

}  // namespace unity::parallel

#endif
