// Writes the forward pass of a micro-batch: each task with its operands, and transfers between tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/ranks/weight_cells.hpp>
#include <unity/parallel/tasks/task_operation.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel::detail {

// The state of the tasks of one micro-batch while they are written.

struct task_state {
  task_operation operation{};
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
[[nodiscard]] value_id shifted(const tensor::algebra& a, region_writer& w, const task_operation& operation,
                               std::uint32_t operand, value_id v);
// Effects: runs the operator of the task on its operands; the results are in the writer's graph.
void run_operation(region_writer& w, task_state& task);

// The states of the nodes, by node; empty for nodes without operands.
[[nodiscard]] std::vector<node_state> tasks_of(const divided_training& d);

// Ranks with partial sums, ascending.
[[nodiscard]] std::vector<std::uint32_t> ranks_with_partials(const divided_training& d, const graph_edge& e,
                                                             const summed_flow& s);
[[nodiscard]] std::vector<flow_reader> readers_on(const divided_training& d, const graph_edge& e, const summed_flow& s,
                                                  std::uint32_t rank);

class forward_tasks {
 public:
  forward_tasks(const divided_training& d, rank_streams& streams, weight_cells& weights, std::vector<node_state>& nodes)
      : training_{d}, streams_{streams}, weights_{weights}, nodes_{nodes} {}

  void write();

 private:
  void run_task(node_id n, std::uint32_t t);
  // Has servers look up the rows of a task, and adds up their results.
  void look_up(node_id n, std::uint32_t t, std::span<const weight_cells::served_part> parts);
  [[nodiscard]] value_id operand(node_id n, std::uint32_t t, std::uint32_t x);
  // A part of a value that no operator makes.
  [[nodiscard]] value_id source(node_id reader, value_id v, const box& b, std::uint32_t rank);

  [[nodiscard]] held_part result_of(node_id n, std::uint32_t t, std::uint32_t r) const {
    return {training_.parts_of(n).parts[t].results[r], nodes_[n.index()].tasks[t].results[r]};
  }
  [[nodiscard]] held_part cut_of(node_id origin, const held_part& x, const box& b, std::uint32_t rank) {
    return {b, streams_.on(rank, origin).cut(x, b)};
  }
  // Sends an operator's result to its readers.
  void send_value(std::uint32_t e);
  static void hand_out(node_state& to, std::span<const flow_reader> readers, const held_part& x, const rank_step* wait);
  // The sum of a rank's partial sums.
  [[nodiscard]] std::optional<value_id> own_partials(const graph_edge& edge, const summed_flow& s, std::uint32_t result,
                                                     std::uint32_t rank);
  void send_sum(const graph_edge& edge, const summed_flow& s, std::uint32_t result, node_state& to);
  // Delivers the first copy of an output, with all its partials, and adds inputs for their cotangents.
  void deliver(std::uint32_t output);

  const divided_training& training_;
  rank_streams& streams_;
  weight_cells& weights_;
  std::vector<node_state>& nodes_;
  std::map<std::pair<std::size_t, std::vector<std::int64_t>>, value_id> sources_{};  // by node, rank and box
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_FORWARD_TASKS)

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE value_id shifted(const tensor::algebra& a, region_writer& w, const task_operation& operation,
                              std::uint32_t operand, value_id v) {
  for (const auto& shift : operation.shifts) {
    if (shift.operand == operand) {
      const auto& type = w.graph().type(v);
      const std::vector<value_id> both{v, w.filled(type.dims, type.element, static_cast<double>(shift.by))};
      v = w.run(a.make_operation("sub"), both);
    }
  }
  return v;
}

UNITY_INLINE void run_operation(region_writer& w, task_state& task) {
  task.raw = w.run(task.operation.part.op, task.operands, task.operation.part.outputs);
  task.results = task.raw;
  for (auto& r : task.results) {
    r = task.operation.share != 1 ? w.scaled(r, task.operation.share) : r;
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

UNITY_INLINE std::vector<std::uint32_t> ranks_with_partials(const divided_training& d, const graph_edge& e,
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

UNITY_INLINE void forward_tasks::write() {
  weights_.begin_pass(false);
  for (const auto n : training_.operators()) {
    streams_.enter(training_.stage_of(n), training_.chunk_of(n));
    weights_.fetch(n);
    weights_.come_to(n);
    for (std::uint32_t t = 0; t < training_.task_count(n); ++t) {
      run_task(n, t);
    }
    for (const auto e : training_.training().edges_of(n)) {
      if (training_.training().edges()[e].from == n) {
        send_value(e);
      }
    }
  }
  for (std::uint32_t o = 0; o < training_.graph().outputs().size(); ++o) {
    deliver(o);
  }
}

UNITY_INLINE void forward_tasks::run_task(node_id n, std::uint32_t t) {
  auto& node = nodes_[n.index()];
  auto& task = node.tasks[t];
  const auto rank = training_.rank_of(n, t);
  for (const auto& w : node.waits[t]) {
    streams_.wait(rank, w);
  }
  task.operation = operation_of_task(training_.algebra(), training_.dimensions_of(n), training_.division_of(n).grid(),
                                     training_.parts_of(n).parts[t]);
  const auto table = training_.graph().operands(n)[0];
  if (const auto parts =
          weights_.is_weight(table) ? weights_.served_parts(table) : std::vector<weight_cells::served_part>{};
      !parts.empty()) {
    look_up(n, t, parts);
    return;
  }
  for (std::uint32_t x = 0; x < training_.graph().operands(n).size(); ++x) {
    task.operands.push_back(operand(n, t, x));
  }
  auto& w = streams_.on(rank, n);
  for (std::uint32_t x = 0; x < task.operands.size(); ++x) {
    task.operands[x] = shifted(training_.algebra(), w, task.operation, x, task.operands[x]);
  }
  run_operation(w, task);
}

UNITY_INLINE void forward_tasks::look_up(node_id n, std::uint32_t t, std::span<const weight_cells::served_part> parts) {
  auto& task = nodes_[n.index()].tasks[t];
  const auto rank = training_.rank_of(n, t);
  const auto ids = operand(n, t, 1);
  task.operands = {value_id{}, ids};  // the adjoint of a lookup does not read the table
  value_id sum{};
  for (const auto& part : parts) {
    auto asked = ids;
    if (part.server != rank) {
      const auto there = streams_.sent(n, ids, rank, part.server);
      streams_.wait(part.server, there.wait);
      asked = there.value;
    }
    auto& server = streams_.on(part.server, n);
    if (part.table.part.begin[0] != 0) {
      const auto first = static_cast<double>(part.table.part.begin[0]);
      const std::vector<value_id> both{asked, server.filled({}, server.graph().type(asked).element, first)};
      asked = server.run(training_.algebra().make_operation("sub"), both);
    }
    const std::vector<value_id> both{part.table.value, asked};
    auto rows = server.run(task.operation.part.op, both, task.operation.part.outputs)[0];
    if (part.server != rank) {
      const auto back = streams_.sent(n, rows, part.server, rank);
      streams_.wait(rank, back.wait);
      rows = back.value;
    }
    sum = sum.valid() ? streams_.on(rank, n).sum(sum, rows) : rows;
  }
  task.raw = {sum};
  task.results = task.raw;
}

UNITY_INLINE value_id forward_tasks::operand(node_id n, std::uint32_t t, std::uint32_t x) {
  const auto v = training_.graph().operands(n)[x];
  const auto& d = training_.parts_of(n);
  const auto& b = d.parts[t].operands[x];
  const auto rank = training_.rank_of(n, t);
  const auto element = training_.graph().type(v).element;
  auto& w = streams_.on(rank, n);
  if (training_.is_operator(training_.graph().producer(v))) {
    return w.joined(b, nodes_[n.index()].operands[x][t], element);
  }
  if (d.partials[x].of_task(t) != 0) {
    return w.filled(b.sizes(), element, 0);
  }
  return weights_.is_weight(v) ? w.joined(b, weights_.parts(v, rank), element) : source(n, v, b, rank);
}

UNITY_INLINE value_id forward_tasks::source(node_id reader, value_id v, const box& b, std::uint32_t rank) {
  const auto n = training_.graph().producer(v);
  std::vector<std::int64_t> key{rank};
  key.insert(key.end(), b.begin.begin(), b.begin.end());
  key.insert(key.end(), b.end.begin(), b.end.end());
  const auto [at, is_new] = sources_.try_emplace({n.index(), std::move(key)});
  if (is_new) {
    const std::string_view name = training_.algebra().signature(training_.graph().operation(n).kind).name;
    if (name == "input" || name == "constant") {
      at->second = streams_.loaded(rank, reader, v, b, training_.type_of(v, b));
    } else {
      auto t = training_.graph().type(v);
      t.constant = false;
      auto& w = streams_.on(rank, reader);
      at->second = w.cut({whole(t.dims), w.run(training_.graph().operation(n), {}, {&t, 1})[0]}, b);
    }
  }
  return at->second;
}

UNITY_INLINE void forward_tasks::send_value(std::uint32_t e) {
  const auto& edge = training_.training().edges()[e];
  const auto& f = training_.flows(e);
  const auto result = training_.number_of(edge.value);
  auto& to = nodes_[edge.to.index()];
  for (const auto& l : f.local) {
    const auto rank = training_.rank_of(edge.from, l.producer);
    to.operands[l.reader.operand][l.reader.task].push_back(
        cut_of(edge.from, result_of(edge.from, l.producer, result), l.reader.part, rank));
  }
  for (const auto& s : f.sent) {
    const auto own = cut_of(edge.from, result_of(edge.from, s.producer, result), s.part, s.from);
    const auto there = streams_.sent(edge.from, own.value, s.from, s.to);
    hand_out(to, s.readers, {s.part, there.value}, &there.wait);
  }
  for (const auto& s : f.sums) {
    send_sum(edge, s, result, to);
  }
}

UNITY_INLINE void forward_tasks::hand_out(node_state& to, std::span<const flow_reader> readers, const held_part& x,
                                          const rank_step* wait) {
  for (const auto& r : readers) {
    auto& parts = to.operands[r.operand][r.task];
    if (std::none_of(parts.begin(), parts.end(), [&](const held_part& p) { return p.value == x.value; })) {
      parts.push_back(x);
    }
    if (wait != nullptr) {
      to.waits[r.task].push_back(*wait);
    }
  }
}

UNITY_INLINE std::optional<value_id> forward_tasks::own_partials(const graph_edge& edge, const summed_flow& s,
                                                                 std::uint32_t result, std::uint32_t rank) {
  std::optional<value_id> own;
  for (const auto p : s.producers) {
    if (training_.rank_of(edge.from, p) == rank) {
      const auto partial = cut_of(edge.from, result_of(edge.from, p, result), s.part, rank).value;
      own = own ? streams_.on(rank, edge.from).sum(*own, partial) : partial;
    }
  }
  return own;
}

UNITY_INLINE void forward_tasks::send_sum(const graph_edge& edge, const summed_flow& s, std::uint32_t result,
                                          node_state& to) {
  const auto with_partials = ranks_with_partials(training_, edge, s);
  if (s.is_reduced) {
    std::vector<value_id> own;
    for (const auto r : with_partials) {
      own.push_back(*own_partials(edge, s, result, r));
    }
    const auto sums = streams_.reduced(edge.from, with_partials, own);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      hand_out(to, readers_on(training_, edge, s, with_partials[i]), {s.part, sums[i].value}, &sums[i].wait);
    }
    return;
  }
  auto sum = own_partials(edge, s, result, s.owner);
  for (const auto r : with_partials) {
    if (r != s.owner) {
      const auto there = streams_.sent(edge.from, *own_partials(edge, s, result, r), r, s.owner);
      streams_.wait(s.owner, there.wait);
      sum = sum ? streams_.on(s.owner, edge.from).sum(*sum, there.value) : there.value;
    }
  }
  for (const auto h : s.holders) {
    if (h == s.owner) {
      hand_out(to, readers_on(training_, edge, s, h), {s.part, *sum}, nullptr);
    } else {
      const auto there = streams_.sent(edge.from, *sum, s.owner, h);
      hand_out(to, readers_on(training_, edge, s, h), {s.part, there.value}, &there.wait);
    }
  }
}

UNITY_INLINE void forward_tasks::deliver(std::uint32_t output) {
  const auto v = training_.graph().outputs()[output];
  const auto n = training_.graph().producer(v);
  if (!training_.is_operator(n)) {
    return;
  }
  streams_.enter(training_.stage_of(n), training_.chunk_of(n));
  const auto& d = training_.parts_of(n);
  const auto result = training_.number_of(v);
  // Only numbers may be delivered as partials.
  for (std::uint32_t place = 0; place < d.result_partials * d.blocks; ++place) {
    const auto t = d.task(place / d.blocks, 0, place % d.blocks);
    const auto rank = training_.rank_of(n, t);
    const auto made = result_of(n, t, result);
    streams_.program(rank).outputs.push_back({output, made.part, made.value, streams_.microbatch()});
    if (training_.training().has_backward(n) && tensor::is_floating(training_.graph().type(v).element)) {
      const auto c = streams_.on(rank, n).outside(training_.type_of(v, made.part));
      streams_.program(rank).cotangents.push_back({output, made.part, c, streams_.microbatch()});
      nodes_[n.index()].cotangents[result][t].push_back({made.part, c});
    }
  }
}

}  // namespace unity::parallel::detail

#endif
