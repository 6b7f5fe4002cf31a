// Graphs of micro-batches with what mappings need to know of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <unity/graph/compact_graph.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mapping_goals.hpp>
#include <unity/parallel/mesh/operator_graph.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::systems {

// A graph of one micro-batch, and what is known of it.
struct microbatch_graph {
  std::int64_t count = 1;  // micro-batches
  tensor::tensor_graph graph;
  parallel::graph_dimensions dimensions;
  parallel::training_graph training;
  parallel::operator_graph ops;
  std::vector<parallel::spine_step> steps;

  microbatch_graph(const tensor::algebra& a, tensor::tensor_graph g, std::int64_t n)
      : count{n},
        graph{std::move(g)},
        dimensions{a, graph},
        training{a, graph},
        ops{a, graph, dimensions, training},
        steps{parallel::spine_of(ops.tree(), ops.tree().root())} {}
  microbatch_graph(const microbatch_graph&) = delete;  // its members refer to each other
  microbatch_graph& operator=(const microbatch_graph&) = delete;
};

// By operator: its step of the spine; what is attached goes with its reader.
[[nodiscard]] std::vector<std::size_t> steps_of(const microbatch_graph& g);
// By operator: its stage. first: by stage, its first step.
[[nodiscard]] std::vector<std::uint32_t> stages_of(const microbatch_graph& g, std::span<const std::size_t> first);

// The graphs of micro-batches of some graphs, each made once.
class microbatch_graphs {
 public:
  explicit microbatch_graphs(const tensor::algebra& a) : algebra_{a} {}

  // Null if samples cannot be divided so. Complexity: linear in the graph.
  [[nodiscard]] const microbatch_graph* of(const tensor::tensor_graph& g, std::int64_t count);

 private:
  struct entry {
    tensor::tensor_graph whole{};
    std::int64_t count = 1;
    std::unique_ptr<microbatch_graph> part{};
  };

  const tensor::algebra& algebra_;
  std::vector<entry> all_{};
};

}  // namespace unity::systems

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_SYSTEMS_UNITY_MICROBATCH_GRAPHS)

#include <algorithm>

#include <unity/core/config.hpp>
#include <unity/parallel/pipeline.hpp>

namespace unity::systems {

UNITY_INLINE std::vector<std::size_t> steps_of(const microbatch_graph& g) {
  std::vector<std::size_t> step_of(g.ops.size(), 0);
  for (std::size_t s = 0; s < g.steps.size(); ++s) {
    for (const auto i : parallel::operators_of(g.ops.tree(), g.steps[s])) {
      step_of[i] = s;
    }
  }
  for (auto i = static_cast<std::uint32_t>(g.ops.size()); i-- > 0;) {
    for (const auto& source : g.ops.sources(i)) {
      if (source.from != parallel::operand_source::none && g.ops.is_attached(source.from)) {
        step_of[source.from] = step_of[i];
      }
    }
  }
  return step_of;
}

UNITY_INLINE std::vector<std::uint32_t> stages_of(const microbatch_graph& g,
                                                                   std::span<const std::size_t> first) {
  const auto step_of = steps_of(g);
  std::vector<std::uint32_t> stages(g.ops.size());
  for (std::uint32_t i = 0; i < g.ops.size(); ++i) {
    const auto after = std::upper_bound(first.begin(), first.end(), step_of[i]);
    stages[i] = static_cast<std::uint32_t>(after - first.begin() - 1);
  }
  return stages;
}

UNITY_INLINE const microbatch_graph* microbatch_graphs::of(const tensor::tensor_graph& g, std::int64_t count) {
  const auto known =
      std::find_if(all_.begin(), all_.end(), [&](const entry& e) { return e.count == count && e.whole == g; });
  if (known != all_.end()) {
    return known->part.get();
  }
  auto& added = all_.emplace_back(entry{g, count, nullptr});
  if (count == 1) {
    added.part = std::make_unique<microbatch_graph>(algebra_, g, 1);
  } else if (auto part = parallel::microbatch(algebra_, g, parallel::graph_dimensions{algebra_, g}, count)) {
    added.part = std::make_unique<microbatch_graph>(algebra_, *std::move(part), count);
  }
  return added.part.get();
}

}  // namespace unity::systems

#endif
