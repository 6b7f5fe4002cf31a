// Lowers a plan to programs of ranks, one for each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/rank_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>

namespace unity::parallel {

// The programs of an iteration, with a rank for each device of the plan's machine. Messages are those that lowering.hpp
// simulates: operands come from the same tasks, and cotangents return along the same routes. Backward passes are the
// adjoints of the tasks. Gradients are added up over micro-batches on each rank, then during the backward pass over the
// ranks that hold a part of a weight; ranks without a contribution only receive the sum.
// The steps of all ranks follow one common order (topological, phase by phase). A rank waits for its own sends only
// when it knows that they have arrived, or at the end, so no two ranks wait for each other.
// only: if given, programs of other ranks stay empty; that of this rank, and the groups, are the same as if all were
// written. If ranks are alike (identical_ranks.hpp), as in data parallelism, and no servers look up rows, the other
// ranks are not lowered at all. Complexity: linear in tasks, micro-batches and flows, besides send_waits; for one of
// several alike ranks, linear in its own and in the pairs of sender and receiver. Throws: unity::error if the plan is
// not valid or an operator does not run on its parts; if updates are delayed and there are fewer micro-batches than
// stages (two versions of weights would not suffice) or the plan says how weights are synchronized; as check_gathers;
// if the steps of all written ranks are more than tasks::most_tasks; and if replicas would drift apart
// (sync_kind::none), since ranks keep one model.
[[nodiscard]] rank_programs programs_of_ranks(const tensor::algebra& a, const plan& p,
                                              std::optional<std::uint32_t> only = {});

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_RANK_LOWERING)

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/ranks/divided_training.hpp>
#include <unity/parallel/ranks/forward_tasks.hpp>
#include <unity/parallel/ranks/rank_order.hpp>
#include <unity/parallel/ranks/rank_streams.hpp>
#include <unity/parallel/ranks/recomputed_tasks.hpp>
#include <unity/parallel/ranks/region_writer.hpp>
#include <unity/parallel/ranks/spelled_out.hpp>
#include <unity/parallel/ranks/weight_cells.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

// Writes the backward pass of a micro-batch: the adjoints of tasks, and the transfers of cotangents along the reversed
// edges.

class backward_tasks {
 public:
  backward_tasks(const divided_training& d, rank_streams& streams, weight_cells& weights,
                 std::vector<node_state>& nodes)
      : training_{d}, streams_{streams}, weights_{weights}, nodes_{nodes}, again_{d, streams, weights, nodes} {}

  // is_last: no micro-batch follows, and all gradients are reduced over ranks as soon as they are complete.
  void write(bool is_last);

 private:
  void run_task(node_id n, std::uint32_t t);
  // The operands and results that the adjoint reads, in order; null for those that it does not read.
  [[nodiscard]] std::vector<value_id> read_by(const tensor::operator_adjoint& adjoint, node_id n, std::uint32_t t);
  // Copies the adjoint's graph, whose first nodes stand for operands, results and cotangents of results. Operators that
  // only gradients of weights need go to a separate pass if the schedule has one.
  void run_adjoint(node_id n, std::uint32_t t, const tensor::operator_adjoint& adjoint, std::span<const value_id> read,
                   std::span<const std::optional<value_id>> given);
  // By node of the adjoint: true if no cotangent of an operator's result depends on it.
  [[nodiscard]] std::vector<bool> is_for_weights(node_id n, const tensor::operator_adjoint& adjoint) const;
  void begin_weight_gradients() {
    if (training_.has_weight_passes()) {
      streams_.go_on(pipeline_pass::weight_gradient);
    }
  }

  // The sum of the cotangents of a box from readers on a rank.
  [[nodiscard]] std::optional<value_id> own_cotangent(node_id to, std::span<const flow_reader> readers, const box& b,
                                                      std::uint32_t rank, tensor::dtype element);
  void send_back(std::uint32_t e);
  // Passes the cotangent to the partial sums on a rank.
  void give(const graph_edge& edge, const summed_flow& s, std::uint32_t result, std::uint32_t rank, value_id c,
            const rank_step* wait);
  void send_sum_back(const graph_edge& edge, const summed_flow& s, std::uint32_t result, tensor::dtype element);

  const divided_training& training_;
  rank_streams& streams_;
  weight_cells& weights_;
  std::vector<node_state>& nodes_;
  recomputed_tasks again_;
};

UNITY_INLINE void backward_tasks::write(bool is_last) {
  streams_.go_on(pipeline_pass::backward);
  weights_.begin_pass(true);
  const auto all = training_.operators();
  for (auto i = all.size(); i-- > 0;) {
    const auto n = all[i];
    if (!training_.training().has_backward(n)) {
      continue;
    }
    streams_.go_on(pipeline_pass::backward);
    streams_.enter(training_.stage_of(n), training_.chunk_of(n));
    weights_.come_to(n);
    for (std::uint32_t t = 0; t < training_.task_count(n); ++t) {
      run_task(n, t);
    }
    for (const auto e : training_.training().edges_of(n)) {
      const auto& edge = training_.training().edges()[e];
      if (edge.to == n && training_.training().wanted(n)[edge.operands.front()]) {
        send_back(e);
      }
    }
    begin_weight_gradients();
    weights_.give(n, [&](std::uint32_t t, std::uint32_t operand) {
      const auto& c = nodes_[n.index()].tasks[t].cotangents;
      return c.empty() ? value_id{} : c[operand];
    });
    weights_.reduce_behind(n, is_last);
  }
  weights_.end_backward(is_last);
}

UNITY_INLINE void backward_tasks::run_task(node_id n, std::uint32_t t) {
  auto& node = nodes_[n.index()];
  auto& task = node.tasks[t];
  const auto rank = training_.rank_of(n, t);
  task.cotangents.assign(training_.graph().operands(n).size(), {});
  const bool is_read = std::any_of(node.cotangents.begin(), node.cotangents.end(),
                                   [&](const auto& of_result) { return !of_result[t].empty(); });
  if (!is_read) {
    return;  // its cotangents are zero
  }
  const auto& part = task.operation.part;
  const auto adjoint = tensor::adjoint_of(training_.algebra(), part.op, part.inputs, training_.training().wanted(n));
  const auto read = read_by(adjoint, n, t);  // before cotangents arrive
  for (const auto& w : node.waits_back[t]) {
    streams_.wait(rank, w);
  }
  auto& w = streams_.on(rank, n);
  std::vector<std::optional<value_id>> given;
  for (std::uint32_t r = 0; r < task.results.size(); ++r) {
    const auto element = training_.graph().type(training_.graph().results(n)[r]).element;
    given.push_back(w.added(training_.parts_of(n).parts[t].results[r], node.cotangents[r][t], element));
  }
  for (std::size_t r = 0; r < given.size(); ++r) {
    if (!given[r] && tensor::is_floating(part.outputs[r].element)) {
      given[r] = w.filled(part.outputs[r].dims, part.outputs[r].element, 0);
    }
    if (given[r] && task.operation.share != 1) {
      given[r] = w.scaled(*given[r], task.operation.share);
    }
  }
  run_adjoint(n, t, adjoint, read, given);
}

UNITY_INLINE std::vector<value_id> backward_tasks::read_by(const tensor::operator_adjoint& adjoint, node_id n,
                                                           std::uint32_t t) {
  const auto& task = nodes_[n.index()].tasks[t];
  const auto is_read = reads_of(adjoint);
  std::vector<value_id> all;
  for (std::uint32_t x = 0; x < task.operands.size(); ++x) {
    all.push_back(is_read[x] ? again_.operand(n, t, x) : value_id{});
  }
  for (std::uint32_t r = 0; r < task.raw.size(); ++r) {
    all.push_back(is_read[task.operands.size() + r] ? again_.result(n, t, r) : value_id{});
  }
  return all;
}

UNITY_INLINE void backward_tasks::run_adjoint(node_id n, std::uint32_t t, const tensor::operator_adjoint& adjoint,
                                              std::span<const value_id> read,
                                              std::span<const std::optional<value_id>> given) {
  const auto& g = adjoint.graph;
  std::vector<value_id> now(g.value_count());
  std::size_t first = 0;
  const auto stand_for = [&](value_id v) { now[g.results(node_id{first++})[0].index()] = v; };
  std::for_each(read.begin(), read.end(), stand_for);
  for (const auto& c : given) {
    stand_for(c.value_or(value_id{}));
  }
  const auto is_later = is_for_weights(n, adjoint);
  const auto run = [&](bool later) {
    auto& w = streams_.on(training_.rank_of(n, t), n);
    for (auto next = first; next < g.node_count(); ++next) {
      if (is_later[next] != later) {
        continue;
      }
      const node_id own{next};
      std::vector<value_id> operands;
      for (const auto v : g.operands(own)) {
        operands.push_back(now[v.index()]);
      }
      std::vector<tensor::tensor_type> types;
      for (const auto v : g.results(own)) {
        types.push_back(g.type(v));
        types.back().constant = false;
      }
      const auto results = w.run(g.operation(own), operands, types);
      for (std::size_t r = 0; r < results.size(); ++r) {
        now[g.results(own)[r].index()] = results[r];
      }
    }
  };
  run(false);
  begin_weight_gradients();
  run(true);
  streams_.go_on(pipeline_pass::backward);
  for (std::size_t i = 0; i < adjoint.operands.size(); ++i) {
    nodes_[n.index()].tasks[t].cotangents[adjoint.operands[i]] = now[g.outputs()[i].index()];
  }
}

UNITY_INLINE std::vector<bool> backward_tasks::is_for_weights(node_id n,
                                                              const tensor::operator_adjoint& adjoint) const {
  const auto& g = adjoint.graph;
  std::vector<bool> later(g.node_count(), training_.has_weight_passes());
  for (std::size_t i = 0; i < adjoint.operands.size(); ++i) {
    if (training_.is_operator(training_.graph().producer(training_.graph().operands(n)[adjoint.operands[i]]))) {
      later[g.producer(g.outputs()[i]).index()] = false;
    }
  }
  for (auto next = g.node_count(); next-- > 0;) {
    for (const auto v : g.operands(node_id{next})) {
      const auto of = g.producer(v).index();
      later[of] = later[of] && later[next];
    }
  }
  return later;
}

UNITY_INLINE std::optional<value_id> backward_tasks::own_cotangent(node_id to, std::span<const flow_reader> readers,
                                                                   const box& b, std::uint32_t rank,
                                                                   tensor::dtype element) {
  std::vector<held_part> parts;
  for (const auto& r : readers) {
    const auto c = nodes_[to.index()].tasks[r.task].cotangents[r.operand];
    if (c.valid()) {
      const held_part all{training_.parts_of(to).parts[r.task].operands[r.operand], c};
      const auto common = intersection(all.part, b);
      parts.push_back({common, streams_.on(rank, to).cut(all, common)});
    }
  }
  return streams_.on(rank, to).added(b, parts, element);
}

UNITY_INLINE void backward_tasks::send_back(std::uint32_t e) {
  const auto& edge = training_.training().edges()[e];
  const auto& f = training_.flows(e);
  const auto result = training_.number_of(edge.value);
  const auto element = training_.graph().type(edge.value).element;
  auto& from = nodes_[edge.from.index()];
  for (const auto& l : f.local) {
    if (const auto c =
            own_cotangent(edge.to, {&l.reader, 1}, l.reader.part, training_.rank_of(edge.from, l.producer), element)) {
      from.cotangents[result][l.producer].push_back({l.reader.part, *c});
    }
  }
  for (const auto& s : f.sent) {
    if (const auto c = own_cotangent(edge.to, s.readers, s.part, s.to, element)) {
      const auto there = streams_.sent(edge.to, *c, s.to, s.from);
      from.cotangents[result][s.producer].push_back({s.part, there.value});
      from.waits_back[s.producer].push_back(there.wait);
    }
  }
  for (const auto& s : f.sums) {
    send_sum_back(edge, s, result, element);
  }
}

UNITY_INLINE void backward_tasks::give(const graph_edge& edge, const summed_flow& s, std::uint32_t result,
                                       std::uint32_t rank, value_id c, const rank_step* wait) {
  auto& from = nodes_[edge.from.index()];
  for (const auto p : s.producers) {
    if (training_.rank_of(edge.from, p) == rank) {
      from.cotangents[result][p].push_back({s.part, c});
      if (wait != nullptr) {
        from.waits_back[p].push_back(*wait);
      }
    }
  }
}

UNITY_INLINE void backward_tasks::send_sum_back(const graph_edge& edge, const summed_flow& s, std::uint32_t result,
                                                tensor::dtype element) {
  std::vector<std::pair<std::uint32_t, value_id>> own;
  for (const auto h : s.holders) {
    if (const auto c = own_cotangent(edge.to, readers_on(training_, edge, s, h), s.part, h, element)) {
      own.emplace_back(h, *c);
    }
  }
  if (own.empty()) {
    return;
  }
  if (s.is_reduced) {
    std::vector<value_id> values;
    for (const auto h : s.holders) {
      const auto found = std::find_if(own.begin(), own.end(), [&](const auto& x) { return x.first == h; });
      values.push_back(found != own.end() ? found->second : streams_.on(h, edge.to).filled(s.part.sizes(), element, 0));
    }
    const auto sums = streams_.reduced(edge.to, s.holders, values);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      give(edge, s, result, s.holders[i], sums[i].value, &sums[i].wait);
    }
    return;
  }
  std::optional<value_id> sum;
  for (const auto& [rank, c] : own) {
    auto here = c;
    if (rank != s.owner) {
      const auto there = streams_.sent(edge.to, c, rank, s.owner);
      streams_.wait(s.owner, there.wait);
      here = there.value;
    }
    sum = sum ? streams_.on(s.owner, edge.to).sum(*sum, here) : here;
  }
  for (const auto r : ranks_with_partials(training_, edge, s)) {
    if (r == s.owner) {
      give(edge, s, result, r, *sum, nullptr);
    } else {
      const auto there = streams_.sent(edge.to, *sum, s.owner, r);
      give(edge, s, result, r, there.value, &there.wait);
    }
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE rank_programs programs_of_ranks(const tensor::algebra& a, const plan& p,
                                             std::optional<std::uint32_t> only) {
  const auto count = p.pipeline.microbatches;
  if (p.pipeline.is_delayed && count < static_cast<std::int64_t>(p.pipeline.stage_count())) {
    throw error{"delayed updates", fmt::format("{} micro-batches", count),
                fmt::format("as many as the {} stages, or more", p.pipeline.stage_count())};
  }
  if (p.pipeline.is_delayed && !p.synchronization.is_trivial()) {
    throw error{"delayed updates", "weights with synchronizers of their own", "an all-reduce of each weight alone"};
  }
  if (p.pipeline.chunks > 1) {
    for_each_part(p.synchronization, [](const synchronizer& part) {
      if (!part.is_proxied) {
        throw error{"pipeline", "interleaved, with weights that micro-batches fetch", "proxies"};
      }
    });
  }
  const detail::divided_training training{a, p, only};
  check_gathers(p.graph, training.training(), p.configurations, p.pipeline, p.synchronization);
  detail::rank_streams streams{a, training.written(), p.machine.network.device_count(), p.pipeline};
  detail::weight_cells weights{training, streams};
  for (std::int64_t m = 0; m < count; ++m) {
    auto nodes = detail::tasks_of(training);
    streams.begin(m, pipeline_pass::forward);
    detail::forward_tasks{training, streams, weights, nodes}.write();
    streams.begin(m, pipeline_pass::backward);
    detail::backward_tasks{training, streams, weights, nodes}.write(m + 1 == count);
    if (const auto steps = static_cast<std::int64_t>(m == 0 ? streams.step_count() : 0);
        steps > 0 && count > tasks::most_tasks / steps) {
      throw error{"pipeline", fmt::format("{} micro-batches of {} steps of ranks", count, steps),
                  fmt::format("{} micro-batches at most", tasks::most_tasks / steps)};
    }
  }
  auto programs = std::move(streams.programs());
  for (std::uint32_t r = 0; r < programs.ranks.size(); ++r) {
    if (!training.written().has(r)) {
      continue;
    }
    programs.ranks[r].steps = detail::rank_order{streams, r, p.pipeline}.run();
  }
  if (!p.pipeline.is_delayed) {
    detail::add_send_waits(programs, training.exchanges_weights_alone());
  }
  bool is_sparse = false;  // gradients of whole tables were written, but are not read
  for_each_part(p.synchronization, [&](const synchronizer& part) { is_sparse = is_sparse || part.is_sparse; });
  for (std::uint32_t r = 0; r < programs.ranks.size(); ++r) {
    auto& own = programs.ranks[r];
    if (only && *only != r) {
      own = {};
      continue;
    }
    detail::find_begun(own.steps);
    own = is_sparse ? without_unread(own) : std::move(own);
  }
  return programs;
}

}  // namespace unity::parallel

#endif
