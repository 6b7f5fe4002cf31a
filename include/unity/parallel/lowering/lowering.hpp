// Lowers plans to programs: one iteration of training. Over 500 lines because operators, edges and weights share the
// network and the caches of one iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/lowering/device_copies.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/lowering/edge_needs.hpp>
#include <unity/parallel/lowering/edge_writer.hpp>
#include <unity/parallel/lowering/exchanges.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/tasks/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tasks/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// A fragment that is not yet in its program.
struct lowered_fragment {
  tasks::fragment_id id{};
  tasks::fragment body{};
};
// Refers to the fragments.
[[nodiscard]] std::vector<tasks::replacement> replacements_of(std::span<const lowered_fragment> fragments);

// How an edge's messages become tasks. messages: a task per hop of each message. exchanges: messages that share a
// sender or a receiver form an exchange, with a task per link (exchanges.hpp). The load of links is the same; an
// exchange starts when all its senders are ready, and needs tens of times fewer tasks if many devices send to many.
enum class transfers : std::uint8_t { messages, exchanges };

// Lowers strategies of one graph on one machine. There is a fragment per operator, per edge between operators, per
// weight and per bucket, and one more for each weight whose gradient is divided; a new configuration of an operator
// changes only its own fragment and those of its edges, weights and their buckets.
// - An operator of n tasks: forward tasks 0 to n-1 and, if a weight depends on it, backward tasks n to 2n-1, each after
//   its forward task. Sources are available from the start wherever they are read.
// - An edge: a message from each task to each device that reads its result (messages.hpp), and for each a message back
//   with the cotangent, in the form given by `transfers`. Adding up cotangents is not priced. A device reads one of
//   several copies (edge_reads.hpp); partials are summed where their sum is read (sum_writer.hpp).
// - A weight: reductions of its gradient and its update (synchronization.hpp). No task waits for them, so they overlap
//   with the backward pass. If the weight is an operand of several partials, the first is the weight and the others are
//   zero. If devices keep shares of weights, tasks wait for gathers (weight_shards.hpp).
// - Memory: weights with their gradients and optimizer state, permanently; results and received values until all
//   readers have ended, including backward tasks whose adjoint reads them (backward_reads.hpp); cotangents until they
//   are used. Inputs are not counted.
// Refers to the algebra, graph and machine, which must outlive it. Not thread-safe; copies are independent.
// Source: Jia's dissertation (2020), sections 3.4 and 3.4.1.
class lowering {
 public:
  // The algebra must have the gradient operators (tensor::training_algebra).
  // Throws: unity::error if the machine has no topology, or an operator has no adjoint.
  lowering(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m,
           tensor::durations durations, transfers kind = transfers::exchanges, optimizer updates = optimizer::sgd);
  lowering(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m,
           transfers kind = transfers::exchanges)
      : lowering{a, g, m, analytic_durations(a, m), kind} {}

  [[nodiscard]] const graph_dimensions& dimensions() const noexcept { return dimensions_; }
  [[nodiscard]] const training_graph& training() const noexcept { return training_; }
  // The operands and results that the backward pass of a node reads.
  [[nodiscard]] const backward_reads& kept(node_id n) const { return kept_[n.index()]; }
  // Null for sources.
  [[nodiscard]] tasks::fragment_id fragment_of(node_id n) const { return node_fragments_[n.index()]; }
  [[nodiscard]] tasks::fragment_id edge_fragment(std::size_t edge) const {
    return tasks::fragment_id{first_edge_ + edge};
  }
  [[nodiscard]] tasks::fragment_id weight_fragment(std::size_t weight) const {
    return tasks::fragment_id{first_weight_ + weight};
  }

  // Effects: empties caches of operators and edges if they are large.
  void make_room() { divisions_.make_room(); }

  // Complexity: linear in the program, besides intersecting shards. again: the operators to recompute; their tasks
  // follow the others in the operator's fragment (recomputation_writer.hpp). stages: includes all micro-batches, in the
  // order of their schedule (pipelined_program.hpp). offloaded: the operators whose results wait on the host
  // (offloading_writer.hpp).
  // Throws: unity::error if the strategy does not fit the graph, machine and stages, or an operator has no adjoint.
  [[nodiscard]] tasks::program run(const strategy& s, const synchronization& sync = {}, const recomputation& again = {},
                                   const pipeline& stages = {}, const offloading& offloaded = {});
  // The program of one micro-batch, which pipelined() repeats; nothing is offloaded.
  [[nodiscard]] tasks::program run_microbatch(const strategy& s, const synchronization& sync,
                                              const recomputation& again, const pipeline& stages) {
    return run_once(s, sync, again, stages, {}).program;
  }

  // The times of a task on a device without its gradients of weights: other tasks wait for this part of its backward
  // pass.
  [[nodiscard]] shard_times input_gradient_times(const strategy& s, node_id n, hardware::device_id d);

  // The tasks of an operator with their durations and memory.
  [[nodiscard]] tasks::fragment lowered_operator(const strategy& s, node_id n, const synchronization& sync = {});
  // The transfers between the tasks of two operators, forward and backward.
  [[nodiscard]] tasks::fragment lowered_edge(const strategy& s, std::uint32_t edge);

  // The reductions of a weight's gradient and its update; for a weight that is all-reduced alone.
  [[nodiscard]] tasks::fragment lowered_weight(const strategy& s, std::uint32_t weight);

  [[nodiscard]] transfers transfer_kind() const noexcept { return transfers_; }
  // Access for programs of some of the devices (folding.hpp).
  [[nodiscard]] const tensor::algebra& operators() const noexcept { return *algebra_; }
  [[nodiscard]] const tensor::tensor_graph& graph() const noexcept { return *graph_; }
  [[nodiscard]] network& links() noexcept { return network_; }
  [[nodiscard]] const hardware::machine& machine() const noexcept { return network_.machine(); }
  [[nodiscard]] const task_times& times() const noexcept { return times_; }
  [[nodiscard]] std::size_t device_count() const noexcept { return network_.device_count(); }
  [[nodiscard]] const division& parts_of(const strategy& s, node_id n) {
    return divisions_.of(dimensions_.kind(n), dimensions_[n], s[n.index()]);
  }
  // Adds the resources, and empty fragments.
  void declare(tasks::program& p, const synchronization& sync = {}) const;
  [[nodiscard]] edge_ends ends_of(const strategy& s, const graph_edge& e) const;
  // Valid until the next call.
  [[nodiscard]] edge_needs needs(const strategy& s, const graph_edge& e, const edge_ends& ends);
  [[nodiscard]] static bytes size_of(std::int64_t elements, const tensor::tensor_type& t) {
    return bytes{elements * static_cast<std::int64_t>(tensor::size_of(t.element))};
  }

 private:
  struct microbatch {
    tasks::program program{};
    std::vector<std::uint32_t> chunks{};
    std::vector<device_copies> copies{};
  };
  [[nodiscard]] microbatch run_once(const strategy& s, const synchronization& sync, const recomputation& again,
                                    const pipeline& stages, const offloading& offloaded);
  [[nodiscard]] static std::span<const hardware::device_id> devices_of(const configuration& c) {
    return {c.devices.data(), c.devices.size()};
  }
  // Bytes of cotangents of operands that are not weights; weights have their own buffers.
  [[nodiscard]] bytes cotangent_bytes(node_id n, const shard& part) const;

  // Per operand: whether the operator's backward tasks compute its cotangent. Gradients of a table that are sent as
  // indices and rows for all parts are computed where the rows arrive instead (synchronization.hpp).
  [[nodiscard]] std::vector<bool> computed(node_id n, const synchronization& sync) const;
  void write(const strategy& s, node_id n, const std::vector<bool>& wanted, tasks::fragment& f);

  void write_edge(const strategy& s, std::uint32_t edge, tasks::fragment& f);
  void write_edge(const strategy& s, const graph_edge& e, const edge_ends& ends, tasks::fragment& f);

  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  network network_;
  graph_dimensions dimensions_;
  training_graph training_;
  task_times times_;
  std::vector<tasks::fragment_id> node_fragments_{};
  std::vector<backward_reads> kept_{};  // by node
  std::size_t first_edge_ = 0;
  std::size_t first_weight_ = 0;
  transfers transfers_;
  exchange_builder exchanges_{};
  edge_patterns patterns_{};
  std::vector<sent_value> sent_{};
  division_table divisions_{};
  needs_finder needs_{};
};

// The program of a plan with all its micro-batches, with operator times from `durations`.
// Throws: unity::error if the plan does not fit its graph and machine.
[[nodiscard]] tasks::program lower(const tensor::algebra& a, const plan& p, tensor::durations durations);
// Likewise, with operator times from the roofline of the plan's devices.
[[nodiscard]] inline tasks::program lower(const tensor::algebra& a, const plan& p) {
  return lower(a, p, analytic_durations(a, p.machine));
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_LOWERING_LOWERING)

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/parallel/lowering/edge_reads.hpp>
#include <unity/parallel/lowering/offloading_writer.hpp>
#include <unity/parallel/lowering/pipelined_program.hpp>
#include <unity/parallel/lowering/recomputation_writer.hpp>
#include <unity/parallel/lowering/replicas.hpp>
#include <unity/parallel/lowering/sum_writer.hpp>
#include <unity/parallel/lowering/synchronization.hpp>
#include <unity/parallel/lowering/weight_fragments.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/lowering/weight_gradients.hpp>
#include <unity/parallel/lowering/weight_shards.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/row_fetching.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<tasks::replacement> replacements_of(std::span<const lowered_fragment> fragments) {
  std::vector<tasks::replacement> all;
  for (const auto& f : fragments) {
    all.push_back({f.id, &f.body});
  }
  return all;
}

UNITY_INLINE lowering::lowering(const tensor::algebra& a, const tensor::tensor_graph& g, const hardware::machine& m,
                                tensor::durations durations, transfers kind, optimizer updates)
    : algebra_{&a},
      graph_{&g},
      network_{m},
      dimensions_{a, g},
      training_{a, g},
      times_{a, std::move(durations), updates},
      transfers_{kind} {
  node_fragments_.resize(g.node_count());
  std::size_t next = 0;
  for (const auto n : node_ids(g)) {
    node_fragments_[n.index()] = g.operands(n).empty() ? tasks::fragment_id{} : tasks::fragment_id{next++};
  }
  first_edge_ = next;
  first_weight_ = next + training_.edges().size();
  expect_derivatives(a, g, training_);
  kept_ = reads_of_adjoints(a, dimensions_, training_);
}

UNITY_INLINE tasks::program lowering::run(const strategy& s, const synchronization& sync, const recomputation& again,
                                          const pipeline& stages, const offloading& offloaded) {
  auto one = run_once(s, sync, again, stages, offloaded);
  return stages.is_trivial() ? std::move(one.program) : pipelined(one.program, stages, one.chunks, one.copies);
}

UNITY_INLINE lowering::microbatch lowering::run_once(const strategy& s, const synchronization& sync,
                                                     const recomputation& again, const pipeline& stages,
                                                     const offloading& offloaded) {
  check(*algebra_, *graph_, dimensions_, s, network_.device_count());
  check(*graph_, s, stages, network_.device_count());
  check(*algebra_, *graph_, sync, network_.device_count());
  check(*algebra_, *graph_, again);
  check(*algebra_, *graph_, offloaded, again);
  check(offloaded, stages);
  microbatch r{{}, chunks_of(*graph_, s, stages), {}};
  declare(r.program, sync);
  std::vector<lowered_fragment> all;
  for (const auto n : node_ids(*graph_)) {
    if (fragment_of(n).valid()) {
      all.push_back({fragment_of(n), lowered_operator(s, n, sync)});
    }
  }
  for (std::uint32_t e = 0; e < training_.edges().size(); ++e) {
    all.push_back({edge_fragment(e), lowered_edge(s, e)});
  }
  detail::add_synchronization(*this, s, sync, stages.microbatches, all);
  if (!again.empty()) {
    detail::add_recomputation(*this, s, again, r.chunks, all);
  }
  detail::add_gathers(*this, s, sync, again, all);
  if (stages.schedule == pipeline_schedule::zero_bubble) {
    detail::split_weight_gradients(*this, s, all);
  }
  detail::limit_scatters(*this, s, sync, stages, all);
  if (!offloaded.empty()) {
    r.copies = detail::add_offloading(*this, s, offloaded, r.chunks, r.program, all);
  }
  r.program.replace(replacements_of(all));
  r.program.commit();
  return r;
}

UNITY_INLINE shard_times lowering::input_gradient_times(const strategy& s, node_id n, hardware::device_id d) {
  auto wanted = training_.wanted(n);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = wanted[i] && !graph_->operands(graph_->producer(graph_->operands(n)[i])).empty();
  }
  return times_.of(dimensions_.kind(n), dimensions_[n], s[n.index()].grid(), parts_of(s, n).parts[0], wanted,
                   network_.model(d));
}

UNITY_INLINE tasks::fragment lowering::lowered_operator(const strategy& s, node_id n, const synchronization& sync) {
  tasks::fragment f;
  write(s, n, computed(n, sync), f);
  return f;
}

UNITY_INLINE std::vector<bool> lowering::computed(node_id n, const synchronization& sync) const {
  auto all = training_.wanted(n);
  for (const auto w : training_.weights_of(n)) {
    if (!sync.weights.empty() && std::all_of(sync.weights[w].parts.begin(), sync.weights[w].parts.end(),
                                             [](const synchronizer& part) { return part.is_sparse; })) {
      for (const auto& use : training_.weights()[w].uses) {
        if (use.node == n) {
          all[use.operand] = false;
        }
      }
    }
  }
  return all;
}

UNITY_INLINE tasks::fragment lowering::lowered_edge(const strategy& s, std::uint32_t edge) {
  tasks::fragment f;
  write_edge(s, edge, f);
  return f;
}

UNITY_INLINE tasks::fragment lowering::lowered_weight(const strategy& s, std::uint32_t weight) {
  return synchronized(network_, times_, graph_->type(training_.weights()[weight].value),
                      detail::readers_of(*this, s, weight));
}

UNITY_INLINE void lowering::declare(tasks::program& p, const synchronization& sync) const {
  network_.declare(p);
  const auto name_of = [&](node_id n) {
    return fmt::format("{} {}", algebra_->signature(graph_->operation(n).kind).name, n.index());
  };
  for (const auto n : node_ids(*graph_)) {
    if (fragment_of(n).valid()) {
      p.add_fragment({tasks::owner_kind::node, n.index(), name_of(n)});
    }
  }
  for (std::uint32_t e = 0; e < training_.edges().size(); ++e) {
    const auto& edge = training_.edges()[e];
    p.add_fragment({tasks::owner_kind::edge, e, fmt::format("{} to {}", name_of(edge.from), name_of(edge.to))});
  }
  for (std::uint32_t w = 0; w < training_.weights().size(); ++w) {
    const auto n = graph_->producer(training_.weights()[w].value);
    p.add_fragment({tasks::owner_kind::weight, w, name_of(n)});
  }
  for (std::uint32_t b = 0; b < sync.buckets.size(); ++b) {
    p.add_fragment({tasks::owner_kind::bucket, b, sync.buckets[b]});
  }
  for (const auto w : divided_weights(sync)) {
    p.add_fragment(
        {tasks::owner_kind::shares, w, "shares of " + name_of(graph_->producer(training_.weights()[w].value))});
  }
}

UNITY_INLINE edge_ends lowering::ends_of(const strategy& s, const graph_edge& e) const {
  const auto results = graph_->results(e.from);
  edge_ends ends;
  ends.from = fragment_of(e.from);
  ends.to = fragment_of(e.to);
  ends.producers = static_cast<std::uint32_t>(s[e.from.index()].task_count());
  ends.consumers = static_cast<std::uint32_t>(s[e.to.index()].task_count());
  ends.result = static_cast<std::uint32_t>(std::find(results.begin(), results.end(), e.value) - results.begin());
  ends.buffers_per_task = static_cast<std::uint32_t>(results.size());
  ends.consumer_buffers = ends.consumers * static_cast<std::uint32_t>(graph_->results(e.to).size());
  ends.is_wanted = training_.wanted(e.to)[e.operands.front()];
  const auto& kept = kept_[e.to.index()].operands;
  ends.consumer_keeps =
      std::any_of(e.operands.begin(), e.operands.end(), [&](std::uint32_t i) { return i < kept.size() && kept[i]; });
  return ends;
}

UNITY_INLINE edge_needs lowering::needs(const strategy& s, const graph_edge& e, const edge_ends& ends) {
  const divided_edge between{parts_of(s, e.from), devices_of(s[e.from.index()]), parts_of(s, e.to),
                             devices_of(s[e.to.index()]), e.operands};
  return needs_.run(network_, divisions_, between, ends.result);
}

UNITY_INLINE bytes lowering::cotangent_bytes(node_id n, const shard& part) const {
  bytes sum{};
  for (std::size_t i = 0; i < part.operands.size(); ++i) {
    const auto v = graph_->operands(n)[i];
    if (training_.wanted(n)[i] && !graph_->operands(graph_->producer(v)).empty()) {
      sum += size_of(part.operands[i].volume(), graph_->type(v));
    }
  }
  return sum;
}

UNITY_INLINE void lowering::write(const strategy& s, node_id n, const std::vector<bool>& wanted, tasks::fragment& f) {
  const auto& o = dimensions_[n];
  const auto& c = s[n.index()];
  const auto& parts = parts_of(s, n).parts;
  const auto tasks = static_cast<std::uint32_t>(c.task_count());
  const auto results = static_cast<std::uint32_t>(o.outputs.size());
  const bool backward = training_.has_backward(n);
  std::vector<std::optional<shard_times>> known;  // by model; the parts of a configuration are equal
  const auto times_on = [&](hardware::device_id d) {
    const auto model = network_.model(d);
    known.resize(std::max(known.size(), model + std::size_t{1}));
    if (!known[model]) {
      known[model] = times_.of(dimensions_.kind(n), o, c.grid(), parts[0], wanted, model);
    }
    return *known[model];
  };
  f.tasks.reserve(tasks * (backward ? 2 : 1));
  for (std::uint32_t t = 0; t < tasks; ++t) {
    const auto times = times_on(c.devices[t]);
    f.add({network::stream(c.devices[t]), times.forward, {}, {}, tasks::task_kind::forward, t, times.forward_launches});
  }
  for (std::uint32_t t = 0; t < tasks; ++t) {
    for (std::size_t r = 0; r < results; ++r) {
      f.buffers.push_back({size_of(parts[t].results[r].volume(), o.outputs[r]), c.devices[t].index(), {{}, t}, false});
    }
  }
  for (std::uint32_t t = 0; backward && t < tasks; ++t) {
    const auto times = times_on(c.devices[t]);
    const auto b = f.add({network::stream(c.devices[t]),
                          times.backward,
                          {},
                          {},
                          tasks::task_kind::backward,
                          t,
                          times.backward_launches});
    f.dependencies.push_back({{{}, t}, {{}, b}, false});
    for (std::uint32_t r = 0; r < results; ++r) {
      if (kept_[n.index()].results[r]) {
        f.reads.push_back({{{}, t * results + r}, {{}, b}});
      }
    }
    f.buffers.push_back({cotangent_bytes(n, parts[t]), c.devices[t].index(), {{}, b}, false});
  }
}

UNITY_INLINE void lowering::write_edge(const strategy& s, std::uint32_t edge, tasks::fragment& f) {
  const auto& e = training_.edges()[edge];
  const auto ends = ends_of(s, e);
  if (transfers_ == transfers::messages) {
    write_edge(s, e, ends, f);
    return;
  }
  const edge_pattern_key key{dimensions_.kind(e.from), dimensions_.kind(e.to), ends.result,
                             ends.is_wanted,           ends.consumer_keeps,    e.operands,
                             s[e.from.index()],        s[e.to.index()]};
  patterns_.write(key, ends.from, ends.to, f, [&](tasks::fragment& fragment) {
    auto named = ends;
    named.from = edge_patterns::producer;
    named.to = edge_patterns::consumer;
    write_edge(s, e, named, fragment);
  });
}

UNITY_INLINE void lowering::write_edge(const strategy& s, const graph_edge& e, const edge_ends& ends,
                                       tasks::fragment& f) {
  const auto& producer = s[e.from.index()];
  const auto& type = graph_->type(e.value);
  const auto [uses, sums] = needs(s, e, ends);
  edge_writer writer{f, ends};
  for (const auto& use : uses.local) {
    writer.use(use.producer, use.consumer);
  }
  for (const auto& sum : sums) {
    sum_writer{f, ends, {network_, exchanges_, transfers_ == transfers::exchanges, size_of(1, type)}}.add(sum);
  }
  sent_.clear();
  for (const auto& m : uses.messages) {
    sent_.push_back({m.producer, uses.consumers_of(m), size_of(m.elements, type), producer.devices[m.producer].index(),
                     m.to.index()});
  }
  if (transfers_ == transfers::exchanges) {
    writer.send_together(sent_, network_, exchanges_);
    return;
  }
  for (const auto& m : sent_) {
    const hardware::device_id here{m.from};
    const hardware::device_id there{m.to};
    writer.send(m, network_.hops(here, there, m.volume));
    if (ends.is_wanted) {
      writer.send_back(m, network_.hops(there, here, m.volume));
    }
  }
}

UNITY_INLINE tasks::program lower(const tensor::algebra& a, const plan& p, tensor::durations durations) {
  if (!p.pipeline.is_trivial()) {
    const training_graph training{a, p.graph};
    for (std::size_t w = 0; w < p.synchronization.weights.size(); ++w) {
      const auto& weight = training.weights()[w];
      if (are_rows_fetched(a, p.graph, p.configurations, weight, p.synchronization.weights[w])) {
        throw error{"simulation", "rows of a table that micro-batches fetch", "proxies, or one micro-batch"};
      }
    }
  }
  lowering l{a, p.graph, p.machine, std::move(durations), transfers::exchanges, p.updates};
  check_gathers(p.graph, l.training(), p.configurations, p.pipeline, p.synchronization);
  return l.run(p.configurations, p.synchronization, p.recomputed, p.pipeline, p.offloaded);
}

}  // namespace unity::parallel

#endif
