// What is run where: a graph, how each of its operators is divided, and a machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/machine/machine.hpp>
#include <unity/machine/topology.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/optimizer.hpp>
#include <unity/parallel/recomputation.hpp>
#include <unity/parallel/synchronization.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// A configuration per node of a graph; those of nodes without operands (inputs, weights) are empty.
// Source: Jia's dissertation (2020), section 3.3.
using strategy = std::vector<configuration>;

// In which order the devices of a stage work on the passes of micro-batches (pipeline_phases.hpp).
enum class pipeline_schedule : std::uint8_t { one_forward_one_backward, gpipe, interleaved, zero_bubble };
inline constexpr std::array<std::string_view, 4> pipeline_schedule_names{"one_forward_one_backward", "gpipe",
                                                                         "interleaved", "zero_bubble"};

[[nodiscard]] constexpr std::optional<pipeline_schedule> find_pipeline_schedule(std::string_view name) noexcept {
  const auto found = std::find(pipeline_schedule_names.begin(), pipeline_schedule_names.end(), name);
  return found == pipeline_schedule_names.end()
             ? std::nullopt
             : std::optional{static_cast<pipeline_schedule>(found - pipeline_schedule_names.begin())};
}

// Regular. The graph is of one micro-batch, and an iteration works on several, one after the other: the
// devices of a stage on one while the next stage works on the one before it, as the schedule says. Gradients of all are
// added up before weights change, so that the iteration computes what one batch of all samples would.
struct pipeline {
  std::int64_t microbatches = 1;
  std::vector<std::uint32_t> stages{};  // by device; empty: all are of one stage
  // No flush: a batch begins while backward passes of the one before go on, and its
  // gradients change the weights one iteration later.
  // Source: Narayanan et al., Memory-efficient pipeline-parallel DNN training, ICML 2021 (PipeDream-2BW).
  bool is_delayed = false;
  pipeline_schedule schedule = pipeline_schedule::one_forward_one_backward;
  // Of the graph, that a device holds: more than one where the schedule is interleaved. Values go through all stages so
  // often; which chunk an operator is of follows (chunks_of, pipeline.hpp).
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
  unity::machine::machine machine{};
  parallel::pipeline pipeline{};
  parallel::optimizer updates = parallel::optimizer::sgd;
  parallel::synchronization synchronization{};
  parallel::recomputation recomputed{};

  friend bool operator==(const plan&, const plan&) = default;
};

// Throws: unity::error that names the node and says why, where the strategy is not one of the graph on so many devices.
void check(const tensor::algebra& a, const graph_dimensions& dimensions, const strategy& s, std::size_t devices);

// The first node with an output of the graph that is terms of a sum, which nobody
// computes; the null id where there is none.
[[nodiscard]] node_id unsummed_output(const tensor::tensor_graph& g, const strategy& s);

// Likewise, and outputs of the graph are no terms of a sum, but where the only one is a number, a loss: who reads it
// adds up.
void check(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& dimensions,
           const strategy& s, std::size_t devices);

inline void check(const tensor::algebra& a, const plan& p) {
  check(a, p.graph, graph_dimensions{a, p.graph}, p.configurations, p.machine.network.device_count());
  check(a, p.graph, p.synchronization, p.machine.network.device_count());
  check(a, p.graph, p.recomputed);
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PLAN)

#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>

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
        throw error{where(), "a configuration", "none for what has no operands"};
      }
    } else if (const auto reason = why_not(o, s[n], devices); !reason.empty()) {
      throw error{where(), reason, "a configuration that divides it among the devices"};
    }
  }
}

UNITY_INLINE node_id unsummed_output(const tensor::tensor_graph& g, const strategy& s) {
  for (const auto v : g.outputs()) {
    if (const auto n = g.producer(v); product(s[n.index()].terms) * product(s[n.index()].reductions) > 1) {
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
                "an output of the graph that is terms of a sum", "one that is added up"};
  }
}

}  // namespace unity::parallel

#endif
