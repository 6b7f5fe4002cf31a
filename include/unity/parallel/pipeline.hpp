// Pipelines: iterations in micro-batches over stages of devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// By node: the chunk of its devices that it belongs to, which is how often values go from a stage to an earlier one on
// their way to it. Sources: 0; all nodes: 0 if the schedule is not interleaved. With p stages, an operator of chunk c
// on stage i is on virtual stage c p + i, and reads only from that and earlier ones.
// Complexity: linear in the graph.
[[nodiscard]] std::vector<std::uint32_t> chunks_of(const tensor::tensor_graph& g, const strategy& s, const pipeline& p);

// Checks that the devices of each operator are of one stage, and that its operands come from that stage or an earlier
// one. If the schedule is interleaved, values must go through all stages once for each chunk, and the number of
// micro-batches must be a multiple of the number of stages.
// Throws: unity::error that names the node.
void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PIPELINE)

#include <algorithm>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>

namespace unity::parallel {

UNITY_INLINE std::vector<std::uint32_t> chunks_of(const tensor::tensor_graph& g, const strategy& s, const pipeline& p) {
  std::vector<std::uint32_t> chunks(g.node_count());
  if (p.stages.empty()) {
    return chunks;
  }
  const auto stage_of = [&](node_id n) { return p.stages[s[n.index()].devices[0].index()]; };
  for (const auto n : node_ids(g)) {
    for (const auto v : g.operands(n)) {
      if (const auto from = g.producer(v); !g.operands(from).empty()) {
        const auto goes_around = stage_of(from) > stage_of(n) ? 1U : 0U;
        chunks[n.index()] = std::max(chunks[n.index()], chunks[from.index()] + goes_around);
      }
    }
  }
  return chunks;
}

namespace detail {

// The checks that need no graph.
UNITY_INLINE void check_schedule(const pipeline& p) {
  const auto stages = p.stage_count();
  const std::string name{pipeline_schedule_names[static_cast<std::size_t>(p.schedule)]};
  const bool is_interleaved = p.schedule == pipeline_schedule::interleaved;
  if (is_interleaved != (p.chunks > 1)) {
    throw error{"pipeline", fmt::format("{} chunks for schedule {}", p.chunks, name),
                is_interleaved ? "2 or more" : "1, or schedule interleaved"};
  }
  if (p.schedule == pipeline_schedule::one_forward_one_backward) {
    return;
  }
  if (stages < 2) {
    throw error{"pipeline", fmt::format("schedule {} of one stage", name), "2 stages or more"};
  }
  if (p.is_delayed) {
    throw error{"pipeline", fmt::format("schedule {} with delayed updates", name), "one_forward_one_backward"};
  }
  if (is_interleaved && p.microbatches % stages != 0) {
    throw error{"pipeline", fmt::format("{} micro-batches, interleaved on {} stages", p.microbatches, stages),
                "a multiple of the stages"};
  }
}

// Throws: if values go around more often than there are chunks, or a stage has no operator of a chunk.
UNITY_INLINE void check_chunks(const tensor::tensor_graph& g, const strategy& s, const pipeline& p) {
  const auto stage_of = [&](node_id n) { return p.stages[s[n.index()].devices[0].index()]; };
  const auto chunks = chunks_of(g, s, p);
  std::vector<bool> is_used(std::size_t{p.stage_count()} * p.chunks);
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty()) {
      continue;
    }
    const auto where = [&] { return fmt::format("pipeline, node {}", n.index()); };
    if (chunks[n.index()] >= p.chunks && p.chunks > 1) {
      throw error{where(), fmt::format("values that have gone through all stages {} times", chunks[n.index()]),
                  fmt::format("as often as there are chunks, {}, with it", p.chunks)};
    }
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v);
      if (p.chunks == 1 && !g.operands(from).empty() && stage_of(from) > stage_of(n)) {
        throw error{where(), fmt::format("an operand of stage {}, behind its own, {}", stage_of(from), stage_of(n)),
                    "operands of its stage or those before"};
      }
    }
    is_used[chunks[n.index()] * std::size_t{p.stage_count()} + stage_of(n)] = true;
  }
  const auto unused = static_cast<std::size_t>(std::find(is_used.begin(), is_used.end(), false) - is_used.begin());
  if (p.chunks > 1 && unused < is_used.size()) {
    throw error{"pipeline",
                fmt::format("no operator of chunk {} on stage {}", unused / p.stage_count(), unused % p.stage_count()),
                fmt::format("values that go through all {} stages {} times", p.stage_count(), p.chunks)};
  }
}

}  // namespace detail

UNITY_INLINE void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices) {
  if (p.microbatches < 1) {
    throw error{"pipeline", fmt::format("{} micro-batches", p.microbatches), "1 or more"};
  }
  detail::check_schedule(p);
  if (p.stages.empty()) {
    if (p.microbatches > 1) {
      throw error{"pipeline", "no stages", "a stage for each device"};
    }
    return;
  }
  if (p.stages.size() != devices) {
    throw error{"pipeline", fmt::format("{} devices with a stage", p.stages.size()), fmt::format("all {}", devices)};
  }
  for (std::uint32_t k = 0; k < p.stage_count(); ++k) {
    if (std::find(p.stages.begin(), p.stages.end(), k) == p.stages.end()) {
      throw error{"pipeline", fmt::format("no device of stage {}", k), "a device at least for each stage"};
    }
  }
  for (const auto n : node_ids(g)) {
    for (const auto d : s[n.index()].devices) {
      if (const auto first = s[n.index()].devices[0]; p.stages[d.index()] != p.stages[first.index()]) {
        throw error{fmt::format("pipeline, node {}", n.index()),
                    fmt::format("tasks on devices of stages {} and {}", p.stages[first.index()], p.stages[d.index()]),
                    "devices of one stage"};
      }
    }
  }
  detail::check_chunks(g, s, p);
}

}  // namespace unity::parallel

#endif
