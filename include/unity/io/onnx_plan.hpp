// A plan in ONNX's annotations for several devices: for each operator, how its operands and results are divided among
// devices, and its stage.
#pragma once

#include <string>

#include <unity/io/onnx_model.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io {

// The devices of the machine, by their names, and each operator that has operands.
//
// An operator of ONNX has its operands divided as stated before it begins, and its results as stated when it ends, by
// whatever messages that takes. So a result that consists of terms of a sum is stated as added up: divided as all of
// its readers read it, or, if they differ or there are none, on all devices that have a term. What only training needs
// (synchronization, what is computed again, the optimizer) and the schedule of micro-batches are not stated.
// Complexity: linear in the tasks of all operators.
// Throws: unity::error that names the operator that reads terms of a sum, or overlapping or unequal parts
// (parallel::layout_of).
[[nodiscard]] graph_devices devices_of(const tensor::algebra& a, const parallel::plan& p);

// What of the plan a model of ONNX does not state, in words: "2 micro-batches (one_forward_one_backward), ..."; empty
// if that is nothing.
[[nodiscard]] std::string unstated_in_onnx(const parallel::plan& p);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_PLAN)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/pipeline.hpp>
#include <unity/parallel/shard_layout.hpp>

namespace unity::io {

namespace detail {

UNITY_INLINE device_sharding sharding_of(const parallel::shard_layout& layout, const tensor::shape& dims) {
  device_sharding s;
  for (const auto& part : layout.devices) {
    auto& devices = s.devices.emplace_back();
    for (const auto d : part) {
      devices.push_back(static_cast<std::int64_t>(d.index()));
    }
  }
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (layout.parts[d] > 1) {
      s.dimensions.push_back({static_cast<std::int64_t>(d), dims[d], layout.parts[d]});
    }
  }
  return s;
}

UNITY_INLINE std::string shown_node(const tensor::algebra& a, const parallel::plan& p, node_id n) {
  return fmt::format("plan.graph, node {} ({})", n.index(), a.signature(p.graph.operation(n).kind).name);
}

// Results of these operators are stated as readers read them, if these agree.
UNITY_INLINE void add_up(const parallel::plan& p, graph_devices& all) {
  const auto& g = p.graph;
  std::vector<std::optional<device_sharding>> read(g.value_count());
  std::vector<bool> differs(g.value_count());
  for (const auto n : node_ids(g)) {
    for (std::size_t i = 0; i < g.operands(n).size(); ++i) {
      const auto v = g.operands(n)[i].index();
      const auto& as = all.nodes[n.index()].operands[i];
      differs[v] = differs[v] || (read[v] && *read[v] != as);
      read[v] = as;
    }
  }
  for (const auto n : node_ids(g)) {
    const auto& c = p.configurations[n.index()];
    for (std::size_t r = 0; r < g.results(n).size() && parallel::product(c.reductions) > 1; ++r) {
      const auto v = g.results(n)[r].index();
      if (read[v] && !differs[v]) {
        all.nodes[n.index()].results[r] = *read[v];
      }
    }
  }
}

}  // namespace detail

UNITY_INLINE graph_devices devices_of(const tensor::algebra& a, const parallel::plan& p) {
  const auto& g = p.graph;
  const parallel::graph_dimensions dimensions{a, g};
  graph_devices all{p.machine.name, {}, std::vector<operator_devices>(g.node_count())};
  for (const auto& d : p.machine.network.devices()) {
    all.devices.push_back(d.name);
  }
  const auto chunks = parallel::chunks_of(g, p.configurations, p.pipeline);
  const auto stages = p.pipeline.stage_count();
  for (const auto n : node_ids(g)) {
    if (g.operands(n).empty()) {
      continue;
    }
    const auto& c = p.configurations[n.index()];
    if (parallel::product(c.terms) > 1) {
      throw error{detail::shown_node(a, p, n), "reads terms of a sum",
                  "sums that are added up before they are read: ONNX knows no others"};
    }
    const auto& o = dimensions[n];
    const auto layout = parallel::layout_of(o, c, detail::shown_node(a, p, n));
    auto& own = all.nodes[n.index()];
    for (std::size_t i = 0; i < layout.operands.size(); ++i) {
      own.operands.push_back(detail::sharding_of(layout.operands[i], o.inputs[i].dims));
    }
    for (std::size_t r = 0; r < layout.results.size(); ++r) {
      own.results.push_back(detail::sharding_of(layout.results[r], o.outputs[r].dims));
    }
    if (stages > 1) {
      own.stage = std::int64_t{chunks[n.index()]} * stages + p.pipeline.stages[c.devices[0].index()];
    }
  }
  detail::add_up(p, all);
  return all;
}

UNITY_INLINE std::string unstated_in_onnx(const parallel::plan& p) {
  std::string text;
  const auto add = [&](const std::string& what) { text += fmt::format("{}{}", text.empty() ? "" : ", ", what); };
  if (p.pipeline.microbatches > 1) {
    const auto schedule = parallel::pipeline_schedule_names[static_cast<std::size_t>(p.pipeline.schedule)];
    add(fmt::format("{} micro-batches{}", p.pipeline.microbatches,
                    p.pipeline.stage_count() > 1 ? fmt::format(" ({})", schedule) : std::string{}));
  }
  if (p.synchronization != parallel::synchronization{}) {
    add("synchronization of weights");
  }
  if (p.recomputed != parallel::recomputation{}) {
    add("recomputation");
  }
  return text;
}

}  // namespace unity::io

#endif
