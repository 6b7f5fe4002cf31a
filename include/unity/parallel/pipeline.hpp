// Iterations in micro-batches, over stages of devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// What must hold for the devices of an operator: all are of one stage, and what it
// reads comes from that stage or one before.
// Throws: unity::error that names the node.
void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_PIPELINE)

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/parallel/configuration.hpp>

namespace unity::parallel {

UNITY_INLINE void check(const tensor::tensor_graph& g, const strategy& s, const pipeline& p, std::size_t devices) {
  if (p.microbatches < 1) {
    throw error{"pipeline", fmt::format("{} micro-batches", p.microbatches), "1 or more"};
  }
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
  const auto stage_of = [&](node_id n) { return p.stages[s[n.index()].devices[0].index()]; };
  for (const auto n : node_ids(g)) {
    const auto& c = s[n.index()];
    const auto where = fmt::format("pipeline, node {}", n.index());
    for (const auto d : c.devices) {
      if (p.stages[d.index()] != stage_of(n)) {
        throw error{where, fmt::format("tasks on devices of stages {} and {}", stage_of(n), p.stages[d.index()]),
                    "devices of one stage"};
      }
    }
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v);
      if (!g.operands(from).empty() && stage_of(from) > stage_of(n)) {
        throw error{where, fmt::format("an operand of stage {}, behind its own, {}", stage_of(from), stage_of(n)),
                    "operands of its stage or those before"};
      }
    }
  }
}

}  // namespace unity::parallel

#endif
