// Plans: a graph, how each of its operators is divided among devices, and a machine; with a fingerprint, which all
// ranks of a plan must share.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/printable.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/offloading.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// A configuration per node of a graph; empty for nodes without operands (inputs, weights).
// Source: Jia's dissertation (2020), section 3.3.
using strategy = std::vector<configuration>;

// The order in which the devices of a stage work on the passes of micro-batches (pipeline.hpp).
enum class pipeline_schedule : std::uint8_t { one_forward_one_backward, gpipe, interleaved, zero_bubble };
inline constexpr std::array<std::string_view, 4> pipeline_schedule_names{"one_forward_one_backward", "gpipe",
                                                                         "interleaved", "zero_bubble"};

[[nodiscard]] constexpr std::optional<pipeline_schedule> find_pipeline_schedule(std::string_view name) noexcept {
  return find_enumerator<pipeline_schedule>(pipeline_schedule_names, name);
}

// Regular. The graph is that of one micro-batch, and an iteration has several. While a stage works on one micro-batch,
// the next stage works on the previous one, in the order of the schedule. The gradients of all are added up before
// weights change, so an iteration computes what one batch of all samples would.
struct pipeline {
  std::int64_t microbatches = 1;
  std::vector<std::uint32_t> stages{};  // by device; empty: a single stage
  // Without a flush: a batch begins during the backward passes of the previous one, and its
  // gradients change the weights one iteration later.
  // Source: Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021 (PipeDream-2BW).
  bool is_delayed = false;
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  // Chunks of the graph per device: more than one if the schedule is interleaved. Values go through all stages once per
  // chunk; chunks_of (pipeline.hpp) gives the chunk of an operator.
  std::uint32_t chunks = 1;

  [[nodiscard]] bool is_trivial() const noexcept { return microbatches == 1 && stage_count() == 1; }
  [[nodiscard]] std::uint32_t stage_count() const {
    return stages.empty() ? 1 : *std::max_element(stages.begin(), stages.end()) + 1;
  }

  friend bool operator==(const pipeline&, const pipeline&) = default;
};

// Regular.
struct plan {
  tensor::tensor_graph graph{};
  strategy configurations{};
  unity::hardware::machine machine{};
  parallel::pipeline pipeline{};
  parallel::optimizer updates = parallel::optimizer::sgd;
  parallel::synchronization synchronization{};
  parallel::recomputation recomputed{};
  parallel::offloading offloaded{};

  friend bool operator==(const plan&, const plan&) = default;
};

// Throws: unity::error that names the node and the reason if the strategy does not fit the graph and number of devices.
void check(const tensor::algebra& a, const graph_dimensions& dimensions, const strategy& s, std::size_t devices);

// The first node with an output of the graph that consists of partial sums, which no
// operator adds up; the null id if there is none.
[[nodiscard]] node_id unsummed_output(const tensor::tensor_graph& g, const strategy& s);

// Throws: as the check above; and if an output of the graph consists of partial sums, unless it is the only output and
// a single number: the caller adds up the partials of a loss.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& dimensions,
           const strategy& s, std::size_t devices);

// Throws: unity::error if results are offloaded and updates are delayed, where passes of two iterations overlap.
void check(const offloading& o, const pipeline& p);

inline void check(const tensor::algebra& a, const plan& p) {
  check(a, p.graph, graph_dimensions{a, p.graph}, p.configurations, p.machine.network.device_count());
  check(a, p.graph, p.synchronization, p.machine.network.device_count());
  check(a, p.graph, p.recomputed);
  check(a, p.graph, p.offloaded, p.recomputed);
  check(p.offloaded, p.pipeline);
}

// Covers everything that lowering to ranks reads: each rank lowers on its own, and ranks with different plans would
// exchange wrong data or deadlock. Equal in all processes of one program. Complexity: linear in the plan, plus a
// comparison for each device of an operator with the same devices as the previous one.
[[nodiscard]] fingerprint fingerprint_of(const plan& p);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PLAN)

#include <functional>
#include <string>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

UNITY_INLINE void check(const tensor::algebra& a, const graph_dimensions& dimensions, const strategy& s,
                        std::size_t devices) {
  if (s.size() != dimensions.node_count()) {
    throw error{"strategy", fmt::format("{} configurations", s.size()),
                fmt::format("one for each of the {} nodes", dimensions.node_count())};
  }
  for (std::size_t n = 0; n < s.size(); ++n) {
    const auto& o = dimensions[node_id{n}];
    const auto where = [&] { return fmt::format("strategy, node {} ({})", n, a.signature(o.op.kind).name); };
    if (o.inputs.empty()) {
      if (s[n] != configuration{}) {
        throw error{where(), "a configuration", "none: the node has no operands"};
      }
    } else if (const auto reason = why_not(o, s[n], devices); !reason.empty()) {
      throw error{where(), reason, "a configuration that divides it among the devices"};
    }
  }
}

UNITY_INLINE node_id unsummed_output(const tensor::tensor_graph& g, const strategy& s) {
  for (const auto v : g.outputs()) {
    if (const auto n = g.producer(v); product(s[n.index()].partials) * product(s[n.index()].reductions) > 1) {
      return n;
    }
  }
  return {};
}

UNITY_INLINE void check(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& dimensions,
                        const strategy& s, std::size_t devices) {
  check(a, dimensions, s, devices);
  const bool is_number = g.outputs().size() == 1 && g.type(g.outputs()[0]).dims.empty();
  if (const auto n = unsummed_output(g, s); n.valid() && !is_number) {
    throw error{fmt::format("strategy, node {} ({})", n.index(), a.signature(g.operation(n).kind).name),
                "an output of the graph that consists of partial sums", "one that is added up"};
  }
}

UNITY_INLINE void check(const offloading& o, const pipeline& p) {
  if (p.is_delayed && std::find(o.begin(), o.end(), true) != o.end()) {
    throw error{"pipeline", "delayed updates, and results that are offloaded", "one of the two"};
  }
}

namespace detail {

class plan_hasher {
 public:
  [[nodiscard]] fingerprint run(const plan& p) {
    number(p.machine.network.device_count());
    for (const auto& d : p.machine.network.devices()) {  // a task reads the copy on its own node, if there is one
      number(d.node);
    }
    add(p.graph);
    for (std::size_t n = 0; n < p.configurations.size(); ++n) {
      add(p.configurations[n], n == 0 ? configuration{} : p.configurations[n - 1]);
    }
    number(p.pipeline.microbatches);
    number(p.pipeline.is_delayed);
    list(p.pipeline.stages);
    number(p.pipeline.schedule);
    number(p.pipeline.chunks);
    number(p.updates);
    add(p.synchronization);
    list(p.recomputed);
    list(p.offloaded);
    return all_.result();
  }

 private:
  template <class T>
  void number(T x) {
    all_.add(static_cast<std::uint64_t>(x));
  }
  template <class List>
  void list(const List& numbers) {
    number(numbers.size());
    for (const auto x : numbers) {
      number(x);
    }
  }
  void add(const tensor::tensor_graph& g);
  // Omits devices that equal those of the previous configuration.
  void add(const configuration& c, const configuration& before);
  void add(const synchronization& s);

  hasher all_{};
};

UNITY_INLINE void plan_hasher::add(const tensor::tensor_graph& g) {
  number(g.node_count());
  for (const auto n : node_ids(g)) {
    number(std::hash<tensor::operation>{}(g.operation(n)));
    number(g.operands(n).size());
    for (const auto v : g.operands(n)) {
      number(v.index());
    }
    for (const auto v : g.results(n)) {
      number(std::hash<tensor::tensor_type>{}(g.type(v)));
    }
  }
  for (const auto v : g.outputs()) {
    number(v.index());
  }
}

UNITY_INLINE void plan_hasher::add(const configuration& c, const configuration& before) {
  list(c.degrees);
  list(c.reductions);
  list(c.partials);
  number(c.copies);
  const bool is_same = c.devices == before.devices;
  number(is_same);
  for (const auto d : is_same ? decltype(c.devices){} : c.devices) {
    number(d.index());
  }
}

UNITY_INLINE void plan_hasher::add(const synchronization& s) {
  number(s.buckets.size());
  number(s.weights.size());
  for (const auto& w : s.weights) {
    number(w.axis);
    number(w.parts.size());
    for (const auto& part : w.parts) {
      number(part.kind);
      number(part.bucket);
      number(part.destination.valid() ? part.destination.index() + 1 : 0);
      number(part.compressor.kind);
      number(part.compressor.has_feedback);
      number(part.compressor.amount);
      number(part.is_proxied);
      number(part.staleness);
      number(part.is_per_node);
      number(part.is_sparse);
      number(part.stage);
      number(part.is_resharded);
      number(part.prefetch);
    }
  }
}

}  // namespace detail

UNITY_INLINE fingerprint fingerprint_of(const plan& p) { return detail::plan_hasher{}.run(p); }

}  // namespace unity::parallel

#endif
