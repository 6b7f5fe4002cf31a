// The settings of a training run of a graph neural network, independent of the partition.
#pragma once

#include <cstdint>
#include <string>

#include <unity/core/config.hpp>
#include <unity/core/units.hpp>
#include <unity/gnn/csr_graph.hpp>
#include <unity/systems/roc/range_model.hpp>
#include <unity/systems/roc/range_program.hpp>
#include <unity/systems/roc/vertex_model.hpp>
#include <unity/train/run_settings.hpp>
#include <unity/train/update.hpp>

namespace unity::systems {

// The model, the data and the training options. Refers to the data.
struct vertex_training {
  gnn::csr_view graph;
  vertex_rows rows;
  vertex_model model{};
  train::update_rule rule{};
  range_program_options program{};
  std::uint64_t seed = 0;
  // Device memory for everything except weights and optimizer state, including features and edges. What does not fit is
  // kept on the host in the meantime (train/memory_moves.hpp). 0: no limit.
  bytes memory{};
};

// Identifies the run in a checkpoint. Model and data are identified by their sizes.
[[nodiscard]] train::run_settings settings_of(const vertex_training& t, std::string data);

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_ROC_VERTEX_TRAINING)

#include <bit>
#include <utility>

#include <fmt/core.h>

#include <unity/core/hash.hpp>

namespace unity::systems {

UNITY_INLINE train::run_settings settings_of(const vertex_training& t, std::string data) {
  hasher h{static_cast<std::uint64_t>(t.model.layer)};
  for (const auto x : {t.model.layers, t.model.hidden, t.model.heads}) {
    h.add(static_cast<std::uint64_t>(x));
  }
  for (const auto x : {t.model.dropout, t.model.drawn, t.program.decay}) {
    h.add(std::bit_cast<std::uint64_t>(x));
  }
  h.add(static_cast<std::uint64_t>(t.model.element));
  h.add(t.graph.edges()).add(t.rows.features.columns).add(static_cast<std::uint64_t>(t.rows.classes));
  return {fmt::format("{:016x}", h.result().low),
          static_cast<std::int64_t>(t.graph.vertices()),
          "cross_entropy",
          std::move(data),
          t.rule,
          t.seed};
}

}  // namespace unity::systems

#endif
