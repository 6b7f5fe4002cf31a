// Plans of zoo transformers that follow a plan statement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/presets.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/transformer_layers.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/zoo.hpp>

namespace unity::parallel::test {

// A GPT of `layers` layers on one node; operators before the layers are on the first stage. attention: products or
// flash.
inline plan stated_training(const tensor::algebra& operators, const std::string& text, std::int64_t layers,
                            bool are_stages_inside_data = false, const std::string& attention = "products") {
  const auto s = parse_plan_statement(text);
  plan p;
  p.graph = tensor::zoo::build(
      operators, fmt::format("zoo:gpt?attention={}&layers={}&hidden=32&heads=8&seq=16&vocab=64&batch={}", attention,
                             layers, s.micro * s.data));
  p.machine = hardware::preset(fmt::format("dgx_a100:1x{}", s.tensor * s.pipeline * s.data));
  const graph_dimensions all{operators, p.graph};
  const auto pieces = layers_of(operators, p.graph, all).pieces;
  p.pipeline.microbatches = s.microbatches();
  if (s.chunks() > 1 || s.microbatches() > 1) {
    p.pipeline.stages.resize(static_cast<std::size_t>(s.tensor * s.pipeline * s.data));
  }
  if (s.interleave > 1) {
    p.pipeline.schedule = pipeline_schedule::interleaved;
    p.pipeline.chunks = static_cast<std::uint32_t>(s.interleave);
  }
  const auto parts = chunks_of_pieces(s, layers);
  std::vector<strategy> by_stage;
  for (std::int64_t stage = 0; stage < s.pipeline; ++stage) {
    hardware::device_mesh mesh{"", {}, {}};
    for (std::int64_t i = 0; i < s.data * s.tensor; ++i) {
      const auto group = are_stages_inside_data ? (i / s.tensor) * s.pipeline + stage : stage * s.data + i / s.tensor;
      mesh.devices.emplace_back(static_cast<std::size_t>(group * s.tensor + i % s.tensor));
      if (!p.pipeline.stages.empty()) {
        p.pipeline.stages[mesh.devices.back().index()] = static_cast<std::uint32_t>(stage);
      }
    }
    mesh.sizes = {s.data};
    auto layer_axis = std::optional<std::size_t>{};
    if (s.tensor > 1 && s.data > 1) {
      mesh.sizes.push_back(s.tensor);
      layer_axis = 1;
    } else if (s.tensor > 1) {
      mesh.sizes = {s.tensor};
      layer_axis = 0;
    }
    const auto sample_axis = s.tensor > 1 && s.data == 1 ? std::nullopt : std::optional<std::size_t>{0};
    by_stage.push_back(
        detail::megatron_writer{operators, p.graph, all, mesh, sample_axis, layer_axis, s.is_sequence_parallel}.run());
  }
  std::vector<std::size_t> core(static_cast<std::size_t>(layers) + 2);  // activation products so far, by layer
  for (const auto n : node_ids(p.graph)) {
    const auto part = parts[pieces[n.index()]];
    p.configurations.push_back(by_stage[static_cast<std::size_t>(part % s.pipeline)][n.index()]);
    const bool works = !p.graph.operands(n).empty() && !detail::is_of_weights(p.graph, n);
    const bool is_layer = pieces[n.index()] > 0 && pieces[n.index()] <= layers;
    auto& met = core[pieces[n.index()]];
    met += works && detail::mixes_positions(operators, all[n]) ? 1 : 0;
    const bool again =
        s.recomputed == recomputed_part::full || (s.recomputed == recomputed_part::selective && met == 1);
    p.recomputed.push_back(works && is_layer && again);
  }
  if (s.zero > 0) {
    const training_graph training{operators, p.graph};
    for (const auto& w : training.weights()) {
      p.synchronization.weights.emplace_back();
      p.synchronization.weights.back().parts[0].kind = w.is_trained ? sync_kind::sharded : sync_kind::all_reduce;
    }
  }
  return p;
}

}  // namespace unity::parallel::test
