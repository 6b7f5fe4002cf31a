// The state of the tasks of one micro-batch while they are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/ranks/value_flows.hpp>
#include <unity/parallel/tasks/task_operation.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

struct task_state {
  task_operation code{};
  std::vector<value_id> operands{};  // as the operator reads them
  std::vector<value_id> raw{};       // results before scaling
  std::vector<value_id> results{};
  std::vector<value_id> cotangents{};  // of operands; null: zero
};

// The state of a node; outer vectors are by operand or result, inner ones by task.
struct node_state {
  std::vector<task_state> tasks{};
  std::vector<std::vector<std::vector<held_part>>> operands{};    // received parts
  std::vector<std::vector<std::vector<held_part>>> cotangents{};  // of results: received parts
  std::vector<std::vector<rank_step>> waits{};                    // by task: before it runs
  std::vector<std::vector<rank_step>> waits_back{};
};

// Returns an operand as the operator reads it. Effects: adds a subtraction if it contains row numbers of a part.
[[nodiscard]] value_id shifted(const tensor::algebra& a, region_writer& w, const task_operation& code,
                               std::uint32_t operand, value_id v);
// Effects: runs the operator of the task on its operands; the results are in the writer's graph.
void run_operation(region_writer& w, task_state& task);

// By node; empty for nodes without operands.
[[nodiscard]] std::vector<node_state> tasks_of(const divided_training& d);

// Ranks with terms of a sum, ascending.
[[nodiscard]] std::vector<std::uint32_t> ranks_with_terms(const divided_training& d, const graph_edge& e,
                                                          const summed_flow& s);
[[nodiscard]] std::vector<flow_reader> readers_on(const divided_training& d, const graph_edge& e, const summed_flow& s,
                                                  std::uint32_t rank);

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_TASKS)

#include <algorithm>
#include <iterator>
#include <set>

namespace unity::parallel::detail {

UNITY_INLINE value_id shifted(const tensor::algebra& a, region_writer& w, const task_operation& code,
                              std::uint32_t operand, value_id v) {
  for (const auto& shift : code.shifts) {
    if (shift.operand == operand) {
      const auto& type = w.graph().type(v);
      const std::vector<value_id> both{v, w.filled(type.dims, type.element, static_cast<double>(shift.by))};
      v = w.run(a.make_operation("sub"), both);
    }
  }
  return v;
}

UNITY_INLINE void run_operation(region_writer& w, task_state& task) {
  task.raw = w.run(task.code.part.op, task.operands, task.code.part.outputs);
  task.results = task.raw;
  for (auto& r : task.results) {
    r = task.code.share != 1 ? w.scaled(r, task.code.share) : r;
  }
}

UNITY_INLINE std::vector<node_state> tasks_of(const divided_training& d) {
  std::vector<node_state> all(d.graph().node_count());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const node_id n{i};
    if (d.is_operator(n)) {
      const auto tasks = d.task_count(n);
      all[i].tasks.resize(tasks);
      all[i].operands.assign(d.graph().operands(n).size(), std::vector<std::vector<held_part>>(tasks));
      all[i].cotangents.assign(d.graph().results(n).size(), std::vector<std::vector<held_part>>(tasks));
      all[i].waits.resize(tasks);
      all[i].waits_back.resize(tasks);
    }
  }
  return all;
}

UNITY_INLINE std::vector<std::uint32_t> ranks_with_terms(const divided_training& d, const graph_edge& e,
                                                         const summed_flow& s) {
  std::set<std::uint32_t> all;
  for (const auto p : s.producers) {
    all.insert(d.rank_of(e.from, p));
  }
  return {all.begin(), all.end()};
}

UNITY_INLINE std::vector<flow_reader> readers_on(const divided_training& d, const graph_edge& e, const summed_flow& s,
                                                 std::uint32_t rank) {
  std::vector<flow_reader> all;
  std::copy_if(s.readers.begin(), s.readers.end(), std::back_inserter(all),
               [&](const flow_reader& r) { return d.rank_of(e.to, r.task) == rank; });
  return all;
}

}  // namespace unity::parallel::detail

#endif
