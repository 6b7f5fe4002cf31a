// From a plan to a program: one iteration of training.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/machine/machine.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/messages.hpp>
#include <unity/parallel/network.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/replicas.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/parallel/task_times.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/program/fragment.hpp>
#include <unity/program/program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/dtype.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

struct fragment_code {
  program::fragment_id id{};
  program::fragment code{};
};

// Lowers strategies of one graph on one machine. A fragment per operator, per edge between operators and per weight; a
// new configuration of one operator changes its own fragment and those of its edges and weights, no others.
// - An operator of n tasks: forward tasks 0 to n-1 and, where a weight depends on it, backward tasks n to 2n-1, each after
//   its forward task. Sources are there from the start, wherever they are read.
// - An edge: a message from each task to each device that reads what it wrote (messages.hpp), and each message back with
//   the cotangent. Adding up cotangents is not priced.
// - A weight: reductions of its gradient and its update (synchronization.hpp). Nothing waits for them, so they overlap with
//   the backward pass.
// - Memory: weights with their gradients, permanently; results until the backward task and all readers have ended; what was
//   received likewise; cotangents until they are used. Inputs are not counted.
// Refers to the algebra, graph and machine, which must outlive it. One thread uses one lowering; copies are independent.
// Source: Jia's dissertation (2020), sections 3.4 and 3.4.1.
class lowering {
 public:
  // The algebra must have the gradient operators (tensor::training_algebra).
  // Throws: unity::error for a machine without topology.
  lowering(const tensor::algebra& a, const tensor::tensor_graph& g, const machine::machine& m, operation_timer timer)
      : algebra_{&a}, graph_{&g}, network_{m}, dimensions_{a, g}, training_{a, g}, times_{a, std::move(timer)} {
    node_fragments_.resize(g.node_count());
    std::size_t next = 0;
    for (std::size_t n = 0; n < g.node_count(); ++n) {
      node_fragments_[n] = g.operands(node_id{n}).empty() ? program::fragment_id{} : program::fragment_id{next++};
    }
    first_edge_ = next;
    first_weight_ = next + training_.edges().size();
  }
  lowering(const tensor::algebra& a, const tensor::tensor_graph& g, const machine::machine& m) : lowering{a, g, m, analytic_timer(a, m)} {}

  [[nodiscard]] const graph_dimensions& dimensions() const noexcept { return dimensions_; }
  [[nodiscard]] const training_graph& training() const noexcept { return training_; }
  // The null id for sources.
  [[nodiscard]] program::fragment_id fragment_of(node_id n) const { return node_fragments_[n.index()]; }
  [[nodiscard]] program::fragment_id edge_fragment(std::size_t edge) const { return program::fragment_id{first_edge_ + edge}; }
  [[nodiscard]] program::fragment_id weight_fragment(std::size_t weight) const { return program::fragment_id{first_weight_ + weight}; }

  // Complexity: linear in the program, besides intersecting shards.
  // Throws: unity::error where the strategy is not one of the graph and machine, or an operator has no adjoint.
  [[nodiscard]] program::program run(const strategy& s) {
    check(*algebra_, dimensions_, s, network_.device_count());
    program::program p;
    network_.declare(p);
    declare_fragments(p);
    std::vector<fragment_code> all;
    for (std::size_t n = 0; n < graph_->node_count(); ++n) {
      if (fragment_of(node_id{n}).valid()) {
        all.push_back({fragment_of(node_id{n}), code_of(s, node_id{n})});
      }
    }
    for (std::uint32_t e = 0; e < training_.edges().size(); ++e) {
      all.push_back({edge_fragment(e), code_of_edge(s, e)});
    }
    for (std::uint32_t w = 0; w < training_.weights().size(); ++w) {
      all.push_back({weight_fragment(w), code_of_weight(s, w)});
    }
    std::vector<program::replacement> replacements;
    for (const auto& f : all) {
      replacements.push_back({f.id, &f.code});
    }
    p.replace(replacements);
    p.commit();
    return p;
  }

  // All fragments that depend on the configuration of the node, under the whole strategy, which is valid.
  // Complexity: linear in the fragments, besides intersecting shards.
  [[nodiscard]] std::vector<fragment_code> around(const strategy& s, node_id n) {
    std::vector<fragment_code> all;
    all.push_back({fragment_of(n), code_of(s, n)});
    for (const auto e : training_.edges_of(n)) {
      all.push_back({edge_fragment(e), code_of_edge(s, e)});
    }
    for (const auto w : training_.weights_of(n)) {
      all.push_back({weight_fragment(w), code_of_weight(s, w)});
    }
    return all;
  }

  // The tasks of an operator, their memory, and what each pass takes.
  [[nodiscard]] program::fragment code_of(const strategy& s, node_id n) {
    const auto& o = dimensions_[n];
    const auto& c = s[n.index()];
    const auto& parts = shards(n, c.degrees);
    const auto tasks = static_cast<std::uint32_t>(c.task_count());
    const bool backward = training_.has_backward(n);
    const auto& wanted = training_.wanted(n);
    program::fragment f;
    for (std::uint32_t t = 0; t < tasks; ++t) {
      const auto times = times_.of(dimensions_.kind(n), o, c.degrees, parts[t], wanted, network_.model(c.devices[t]));
      f.add({network::stream(c.devices[t]), times.forward, {}, {}, program::task_kind::forward, t});
    }
    for (std::uint32_t t = 0; t < tasks; ++t) {
      for (std::size_t r = 0; r < o.outputs.size(); ++r) {
        f.buffers.push_back({size_of(parts[t].results[r].volume(), o.outputs[r]), c.devices[t].index(), {{}, t}, false});
      }
    }
    for (std::uint32_t t = 0; backward && t < tasks; ++t) {
      const auto times = times_.of(dimensions_.kind(n), o, c.degrees, parts[t], wanted, network_.model(c.devices[t]));
      const auto b = f.add({network::stream(c.devices[t]), times.backward, {}, {}, program::task_kind::backward, t});
      f.dependencies.push_back({{{}, t}, {{}, b}, false});
      for (std::uint32_t r = 0; r < o.outputs.size(); ++r) {
        f.reads.push_back({{{}, result_buffer(o, t, r)}, {{}, b}});
      }
      f.buffers.push_back({cotangent_bytes(n, parts[t]), c.devices[t].index(), {{}, b}, false});
    }
    return f;
  }

  // What goes from the tasks of one operator to those of another, and back.
  [[nodiscard]] program::fragment code_of_edge(const strategy& s, std::uint32_t edge) {
    const auto ends = ends_of(s, training_.edges()[edge]);
    program::fragment f;
    for (const auto& use : ends.uses.local) {
      link_local(f, ends, use);
    }
    for (const auto& m : ends.uses.messages) {
      send(f, ends, m);
    }
    return f;
  }

  // Reductions of a weight's gradient, and its update.
  [[nodiscard]] program::fragment code_of_weight(const strategy& s, std::uint32_t weight) {
    const auto& w = training_.weights()[weight];
    std::vector<box> read;
    std::vector<machine::device_id> on;
    std::vector<program::task_ref> readers;  // backward tasks; the null fragment where there is none
    for (const auto& use : w.uses) {
      const auto& c = s[use.node.index()];
      const auto& parts = shards(use.node, c.degrees);
      const bool gives = w.is_trained && training_.wanted(use.node)[use.operand];
      for (std::uint32_t t = 0; t < c.task_count(); ++t) {
        read.push_back(parts[t].operands[use.operand]);
        on.push_back(c.devices[t]);
        readers.push_back(gives ? backward_of(fragment_of(use.node), c, t) : program::task_ref{});
      }
    }
    return synchronized(network_, times_, graph_->type(w.value), replicas_of(read, on), readers);
  }

 private:
  struct edge_ends {
    program::fragment_id from{};
    program::fragment_id to{};
    const configuration* producer = nullptr;
    const configuration* consumer = nullptr;
    edge_messages uses{};
    tensor::tensor_type type{};
    std::uint32_t buffers_per_task = 0;  // of the producer
    std::uint32_t result = 0;
    std::uint32_t consumer_buffers = 0;  // before those of cotangents
    bool is_wanted = false;
    bool consumer_has_backward = false;
  };

  [[nodiscard]] static bytes size_of(std::int64_t elements, const tensor::tensor_type& t) {
    return bytes{elements * static_cast<std::int64_t>(tensor::size_of(t.element))};
  }
  [[nodiscard]] static std::uint32_t result_buffer(const operator_dimensions& o, std::uint32_t task, std::uint32_t result) {
    return task * static_cast<std::uint32_t>(o.outputs.size()) + result;
  }
  // Cotangents of operands that are no weights; those have buffers of their own.
  [[nodiscard]] bytes cotangent_bytes(node_id n, const shard& part) const {
    bytes sum{};
    for (std::size_t i = 0; i < part.operands.size(); ++i) {
      const auto v = graph_->operands(n)[i];
      if (training_.wanted(n)[i] && !graph_->operands(graph_->producer(v)).empty()) {
        sum += size_of(part.operands[i].volume(), graph_->type(v));
      }
    }
    return sum;
  }
  [[nodiscard]] const std::vector<shard>& shards(node_id n, const degree_list& degrees) {
    const auto key = std::pair{dimensions_.kind(n), degrees};
    const auto found = shards_.find(key);
    return found != shards_.end() ? found->second : shards_.emplace(key, shards_of(dimensions_[n], degrees)).first->second;
  }

  void declare_fragments(program::program& p) const {
    const auto name_of = [&](node_id n) { return algebra_->signature(graph_->operation(n).kind).name + " " + std::to_string(n.index()); };
    for (std::uint32_t n = 0; n < graph_->node_count(); ++n) {
      if (fragment_of(node_id{n}).valid()) {
        p.add_fragment({program::owner_kind::node, n, name_of(node_id{n})});
      }
    }
    for (std::uint32_t e = 0; e < training_.edges().size(); ++e) {
      const auto& edge = training_.edges()[e];
      p.add_fragment({program::owner_kind::edge, e, name_of(edge.from) + " to " + name_of(edge.to)});
    }
    for (std::uint32_t w = 0; w < training_.weights().size(); ++w) {
      const auto n = graph_->producer(training_.weights()[w].value);
      p.add_fragment({program::owner_kind::weight, w, name_of(n)});
    }
  }

  [[nodiscard]] edge_ends ends_of(const strategy& s, const graph_edge& e) {
    edge_ends ends;
    ends.from = fragment_of(e.from);
    ends.to = fragment_of(e.to);
    ends.producer = &s[e.from.index()];
    ends.consumer = &s[e.to.index()];
    ends.type = graph_->type(e.value);
    ends.is_wanted = training_.wanted(e.to)[e.operands.front()];
    ends.consumer_has_backward = training_.has_backward(e.to);
    const auto results = graph_->results(e.from);
    ends.result = static_cast<std::uint32_t>(std::find(results.begin(), results.end(), e.value) - results.begin());
    ends.buffers_per_task = static_cast<std::uint32_t>(results.size());
    const auto tasks = static_cast<std::uint32_t>(ends.consumer->task_count());
    ends.consumer_buffers = tasks * static_cast<std::uint32_t>(graph_->results(e.to).size());
    std::vector<box> written;
    for (const auto& part : shards(e.from, ends.producer->degrees)) {
      written.push_back(part.results[ends.result]);
    }
    std::vector<box> read;
    std::vector<machine::device_id> to;
    for (const auto operand : e.operands) {
      for (const auto& part : shards(e.to, ends.consumer->degrees)) {
        read.push_back(part.operands[operand]);
      }
      to.insert(to.end(), ends.consumer->devices.begin(), ends.consumer->devices.end());
    }
    ends.uses = messages_of(written, std::span{ends.producer->devices.data(), ends.producer->devices.size()}, read, to);
    merge_operands(ends.uses, tasks);
    return ends;
  }
  // Readers were numbered operand by operand; a task is one reader.
  static void merge_operands(edge_messages& uses, std::uint32_t tasks) {
    for (auto& u : uses.local) {
      u.consumer %= tasks;
    }
    for (auto& m : uses.messages) {
      for (auto& c : m.consumers) {
        c %= tasks;
      }
      std::sort(m.consumers.begin(), m.consumers.end());
      m.consumers.erase(std::unique(m.consumers.begin(), m.consumers.end()), m.consumers.end());
    }
  }

  [[nodiscard]] static program::task_ref forward_of(program::fragment_id f, std::uint32_t task) { return {f, task}; }
  [[nodiscard]] static program::task_ref backward_of(program::fragment_id f, const configuration& c, std::uint32_t task) {
    return {f, static_cast<std::uint32_t>(c.task_count()) + task};
  }

  static void link_local(program::fragment& f, const edge_ends& e, const local_use& use) {
    const program::buffer_ref result{e.from, use.producer * e.buffers_per_task + e.result};
    const auto consumer = forward_of(e.to, use.consumer);
    f.dependencies.push_back({forward_of(e.from, use.producer), consumer, false});
    f.reads.push_back({result, consumer});
    if (e.consumer_has_backward) {
      f.reads.push_back({result, backward_of(e.to, *e.consumer, use.consumer)});
    }
    if (e.is_wanted) {
      const auto from = backward_of(e.to, *e.consumer, use.consumer);
      const auto to = backward_of(e.from, *e.producer, use.producer);
      f.dependencies.push_back({from, to, false});
      f.reads.push_back({{e.to, e.consumer_buffers + use.consumer}, to});
    }
  }

  void send(program::fragment& f, const edge_ends& e, const message& m) {
    const auto volume = size_of(m.elements, e.type);
    const auto here = e.producer->devices[m.producer];
    const auto sender = forward_of(e.from, m.producer);
    const auto first = static_cast<std::uint32_t>(f.tasks.size());
    const auto last = program::add_transfer(f, network_.hops(here, m.to, volume), volume, m.producer, {&sender, 1});
    f.reads.push_back({{e.from, m.producer * e.buffers_per_task + e.result}, {{}, first}});
    const auto received = static_cast<std::uint32_t>(f.buffers.size());
    f.buffers.push_back({volume, m.to.index(), last, false});
    for (const auto c : m.consumers) {
      f.dependencies.push_back({last, forward_of(e.to, c), false});
      f.reads.push_back({{{}, received}, forward_of(e.to, c)});
      if (e.consumer_has_backward) {
        f.reads.push_back({{{}, received}, backward_of(e.to, *e.consumer, c)});
      }
    }
    if (e.is_wanted) {
      send_back(f, e, m, volume);
    }
  }
  void send_back(program::fragment& f, const edge_ends& e, const message& m, bytes volume) {
    std::vector<program::task_ref> senders;
    for (const auto c : m.consumers) {
      senders.push_back(backward_of(e.to, *e.consumer, c));
    }
    const auto here = e.producer->devices[m.producer];
    const auto receiver = backward_of(e.from, *e.producer, m.producer);
    const auto first = static_cast<std::uint32_t>(f.tasks.size());
    const auto last = program::add_transfer(f, network_.hops(m.to, here, volume), volume, m.producer, senders);
    f.dependencies.push_back({last, receiver, false});
    for (const auto c : m.consumers) {
      f.reads.push_back({{e.to, e.consumer_buffers + c}, {{}, first}});
    }
    f.reads.push_back({{{}, static_cast<std::uint32_t>(f.buffers.size())}, receiver});
    f.buffers.push_back({volume, here.index(), last, false});
  }

  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  network network_;
  graph_dimensions dimensions_;
  training_graph training_;
  task_times times_;
  std::vector<program::fragment_id> node_fragments_{};
  std::size_t first_edge_ = 0;
  std::size_t first_weight_ = 0;
  std::map<std::pair<std::uint32_t, degree_list>, std::vector<shard>> shards_{};
};

// The program of a plan, by the roofline of its devices.
[[nodiscard]] inline program::program lower(const tensor::algebra& a, const plan& p) {
  return lowering{a, p.graph, p.machine}.run(p.configurations);
}

}  // namespace unity::parallel
