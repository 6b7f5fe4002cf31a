// Provides the values of the forward pass that the backward pass of a micro-batch reads: kept, recomputed or gathered
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/forward_tasks.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/ranks/weight_cells.hpp>

namespace unity::parallel::detail {

// A recomputed task runs again on its rank, once, when its results are first needed, after the recomputed tasks on the
// rank that it reads. Values from other ranks (including rows that servers looked up) and sums of partials are kept.
class recomputed_tasks {
 public:
  recomputed_tasks(const divided_training& d, rank_streams& streams, weight_cells& weights,
                   const std::vector<node_state>& nodes)
      : training_{d}, streams_{streams}, weights_{weights}, nodes_{nodes} {}

  // An operand as the operator read it, and a result before scaling. Effects: writes the steps that make it if it is
  // not kept.
  [[nodiscard]] value_id operand(node_id n, std::uint32_t t, std::uint32_t x);
  [[nodiscard]] value_id result(node_id n, std::uint32_t t, std::uint32_t r);

 private:
  // Not for lookups whose table is on other ranks.
  [[nodiscard]] bool is_run_again(node_id n, std::uint32_t t) const {
    const auto& operands = nodes_[n.index()].tasks[t].operands;
    return training_.is_recomputed(n) &&
           std::all_of(operands.begin(), operands.end(), [](value_id v) { return v.valid(); });
  }
  // The results of running the task again.
  [[nodiscard]] const task_state& again(node_id n, std::uint32_t t);
  // The edge of an operand, if its producer is recomputed and a part of it is on the rank.
  [[nodiscard]] std::optional<std::uint32_t> edge_again(node_id n, std::uint32_t t, std::uint32_t x) const;
  // A weight with parts that were dropped and gathered again.
  [[nodiscard]] value_id gathered_again(node_id n, std::uint32_t t, std::uint32_t x);
  [[nodiscard]] value_id joined_again(std::uint32_t edge, node_id n, std::uint32_t t, std::uint32_t x);

  const divided_training& training_;
  rank_streams& streams_;
  weight_cells& weights_;
  const std::vector<node_state>& nodes_;
  std::map<std::tuple<std::size_t, std::uint32_t>, task_state> again_{};                  // by node and task
  std::map<std::tuple<std::size_t, std::uint32_t, std::uint32_t>, value_id> operands_{};  // by node, task and operand
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RECOMPUTED_TASKS)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/training_graph.hpp>

namespace unity::parallel::detail {

UNITY_INLINE value_id recomputed_tasks::operand(node_id n, std::uint32_t t, std::uint32_t x) {
  const auto v = training_.graph().operands(n)[x];
  const bool is_dropped =
      weights_.is_weight(v) && training_.is_gathered_again(v) && training_.parts_of(n).partials[x].of_task(t) == 0;
  const auto edge = edge_again(n, t, x);
  if (!edge && !is_dropped) {
    return nodes_[n.index()].tasks[t].operands[x];
  }
  const std::tuple key{n.index(), t, x};
  auto at = operands_.find(key);
  if (at == operands_.end()) {
    at = operands_.emplace(key, is_dropped ? gathered_again(n, t, x) : joined_again(*edge, n, t, x)).first;
  }
  return at->second;
}

UNITY_INLINE value_id recomputed_tasks::result(node_id n, std::uint32_t t, std::uint32_t r) {
  const auto& task = nodes_[n.index()].tasks[t];
  return is_run_again(n, t) ? again(n, t).raw[r] : task.raw[r];
}

UNITY_INLINE const task_state& recomputed_tasks::again(node_id n, std::uint32_t t) {
  const std::tuple key{n.index(), t};
  if (const auto known = again_.find(key); known != again_.end()) {
    return known->second;
  }
  task_state made;
  made.operation = nodes_[n.index()].tasks[t].operation;
  for (std::uint32_t x = 0; x < training_.graph().operands(n).size(); ++x) {
    made.operands.push_back(operand(n, t, x));
  }
  run_operation(streams_.on(training_.rank_of(n, t), n), made);
  return again_.emplace(key, std::move(made)).first->second;
}

UNITY_INLINE std::optional<std::uint32_t> recomputed_tasks::edge_again(node_id n, std::uint32_t t,
                                                                       std::uint32_t x) const {
  const auto v = training_.graph().operands(n)[x];
  if (!training_.is_recomputed(training_.graph().producer(v))) {
    return std::nullopt;
  }
  for (const auto e : training_.training().edges_of(n)) {
    const auto& edge = training_.training().edges()[e];
    if (edge.to == n && edge.value == v) {
      const auto& local = training_.flows(e).local;
      const bool is_local = std::any_of(
          local.begin(), local.end(), [&](const local_flow& l) { return l.reader.operand == x && l.reader.task == t; });
      return is_local ? std::optional{e} : std::nullopt;
    }
  }
  return std::nullopt;
}

UNITY_INLINE value_id recomputed_tasks::gathered_again(node_id n, std::uint32_t t, std::uint32_t x) {
  const auto v = training_.graph().operands(n)[x];
  const auto rank = training_.rank_of(n, t);
  const auto parts = weights_.parts(v, rank);
  return streams_.on(rank, n).joined(training_.parts_of(n).parts[t].operands[x], parts,
                                     training_.graph().type(v).element);
}

UNITY_INLINE value_id recomputed_tasks::joined_again(std::uint32_t edge, node_id n, std::uint32_t t, std::uint32_t x) {
  const auto& node = nodes_[n.index()];
  const auto& e = training_.training().edges()[edge];
  const auto result = training_.number_of(e.value);
  const auto rank = training_.rank_of(n, t);
  auto parts = node.operands[x][t];  // the rank's own parts come first
  std::size_t next = 0;
  for (const auto& l : training_.flows(edge).local) {
    if (l.reader.operand == x && l.reader.task == t) {
      const auto whole = is_run_again(e.from, l.producer) ? again(e.from, l.producer).results[result]
                                                          : nodes_[e.from.index()].tasks[l.producer].results[result];
      const held_part made{training_.parts_of(e.from).parts[l.producer].results[result], whole};
      parts[next++].value = streams_.on(rank, e.from).cut(made, l.reader.part);
    }
  }
  auto& w = streams_.on(rank, n);
  const auto joined =
      w.joined(training_.parts_of(n).parts[t].operands[x], std::move(parts), training_.graph().type(e.value).element);
  return shifted(training_.algebra(), w, node.tasks[t].operation, x, joined);
}

}  // namespace unity::parallel::detail

#endif
