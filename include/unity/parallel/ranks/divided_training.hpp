// A plan with tables that lowering it to ranks needs frequently.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/divisions.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/alike_ranks.hpp>
#include <unity/parallel/ranks/value_flows.hpp>
#include <unity/parallel/row_fetching.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

class divided_training {
 public:
  // only: if ranks are alike, restricts operators to the tasks of that rank, or of the first computing one; all tasks
  // if they are not alike, or if servers look up rows.
  // Throws: as check.
  divided_training(const tensor::algebra& a, const plan& p, std::optional<std::uint32_t> only = {});

  [[nodiscard]] const tensor::algebra& algebra() const noexcept { return algebra_; }
  [[nodiscard]] const tensor::tensor_graph& graph() const noexcept { return plan_.graph; }
  // The synchronization of a weight.
  [[nodiscard]] weight_sync sync_of(std::size_t weight) const {
    return plan_.synchronization.weights.empty() ? weight_sync{} : plan_.synchronization.weights[weight];
  }
  // When shares of weights are gathered. Complexity: linear in the graph, plus adjoints.
  [[nodiscard]] weight_gathers gathers() const;
  // Whether the weight has parts that are gathered again for the backward pass.
  [[nodiscard]] bool is_gathered_again(value_id weight) const;
  // Whether servers look up its rows for readers.
  [[nodiscard]] bool fetches_rows(std::size_t weight) const { return fetches_rows_[weight]; }
  [[nodiscard]] const hardware::topology& topology() const noexcept { return plan_.machine.network; }
  [[nodiscard]] std::size_t bucket_count() const noexcept { return plan_.synchronization.buckets.size(); }
  [[nodiscard]] const training_graph& training() const noexcept { return training_; }
  [[nodiscard]] const operator_dimensions& dimensions_of(node_id n) const { return dimensions_[n]; }
  [[nodiscard]] const configuration& division_of(node_id n) const { return plan_.configurations[n.index()]; }
  [[nodiscard]] const division& parts_of(node_id n) const {
    return table_.of(dimensions_.kind(n), dimensions_[n], division_of(n));
  }
  // The number of visible tasks.
  [[nodiscard]] std::size_t task_count(node_id n) const { return devices_of(n).size(); }
  [[nodiscard]] std::uint32_t rank_of(node_id n, std::uint32_t task) const {
    return static_cast<std::uint32_t>(devices_of(n)[task].index());
  }
  // Whether ranks exchange only weights and gradients, and computing ranks are alike.
  [[nodiscard]] bool exchanges_weights_alone() const noexcept { return exchanges_weights_alone_; }
  [[nodiscard]] const written_ranks& written() const noexcept { return written_; }
  [[nodiscard]] bool is_recomputed(node_id n) const { return parallel::is_recomputed(plan_.recomputed, n); }
  [[nodiscard]] bool is_operator(node_id n) const { return !graph().operands(n).empty(); }
  // Operators in the order of their virtual stages, or otherwise of the graph.
  [[nodiscard]] std::span<const node_id> operators() const noexcept { return operators_; }
  [[nodiscard]] bool is_before(node_id x, node_id y) const {
    return std::pair{virtual_stage(x), x} < std::pair{virtual_stage(y), y};
  }
  [[nodiscard]] std::uint32_t stage_of(node_id n) const {
    return plan_.pipeline.stages.empty() ? 0 : plan_.pipeline.stages[division_of(n).devices[0].index()];
  }
  [[nodiscard]] std::uint32_t chunk_of(node_id n) const { return chunks_[n.index()]; }
  // Whether gradients of weights are computed in separate passes.
  [[nodiscard]] bool has_weight_passes() const noexcept {
    return plan_.pipeline.schedule == pipeline_schedule::zero_bubble;
  }
  // The index of a value among its producer's results.
  [[nodiscard]] std::uint32_t number_of(value_id v) const {
    const auto results = graph().results(graph().producer(v));
    return static_cast<std::uint32_t>(std::find(results.begin(), results.end(), v) - results.begin());
  }
  [[nodiscard]] tensor::tensor_type type_of(value_id v, const box& b) const;
  // The transfers along an edge.
  [[nodiscard]] const value_flows& flows(std::uint32_t edge) const { return flows_[edge]; }

 private:
  [[nodiscard]] std::span<const hardware::device_id> devices_of(node_id n) const {
    return written_.is_one() ? std::span{&own_, 1} : std::span<const hardware::device_id>{division_of(n).devices};
  }
  // 0 without chunks: then the graph's order suffices.
  [[nodiscard]] std::uint32_t virtual_stage(node_id n) const {
    return plan_.pipeline.chunks == 1 ? 0 : chunk_of(n) * plan_.pipeline.stage_count() + stage_of(n);
  }
  // Chooses the ranks to write.
  void choose(std::optional<std::uint32_t> only);
  void find_flows();

  const tensor::algebra& algebra_;
  const plan& plan_;
  graph_dimensions dimensions_;
  training_graph training_;
  std::vector<std::uint32_t> chunks_{};  // by node
  std::vector<node_id> operators_{};
  std::vector<bool> fetches_rows_{};  // by weight
  bool exchanges_weights_alone_ = false;
  written_ranks written_;
  hardware::device_id own_{};       // if one rank is written
  mutable division_table table_{};  // a cache
  std::vector<value_flows> flows_{};
};

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RANKS_DIVIDED_TRAINING)

#include <unity/graph/concepts.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/pipeline.hpp>

namespace unity::parallel::detail {

UNITY_INLINE divided_training::divided_training(const tensor::algebra& a, const plan& p,
                                                std::optional<std::uint32_t> only)
    : algebra_{a},
      plan_{p},
      dimensions_{a, p.graph},
      training_{a, p.graph},
      written_{p.machine.network.device_count()} {
  parallel::check(a, p.graph, dimensions_, p.configurations, p.machine.network.device_count());
  parallel::check(a, p.graph, p.synchronization, p.machine.network.device_count());
  parallel::check(a, p.graph, p.recomputed);
  parallel::check(p.graph, p.configurations, p.pipeline, p.machine.network.device_count());
  chunks_ = chunks_of(p.graph, p.configurations, p.pipeline);
  for (const auto n : node_ids(p.graph)) {
    if (is_operator(n)) {
      operators_.push_back(n);
    }
  }
  if (p.pipeline.chunks > 1) {
    std::sort(operators_.begin(), operators_.end(), [&](node_id x, node_id y) { return is_before(x, y); });
  }
  expect_derivatives(a, p.graph, training_);
  choose(only);
  find_flows();
}

UNITY_INLINE void divided_training::choose(std::optional<std::uint32_t> only) {
  const auto alike = alike_ranks(plan_.graph, dimensions_, training_, plan_.configurations);
  exchanges_weights_alone_ = !alike.empty();
  for (std::size_t w = 0; w < training_.weights().size(); ++w) {
    const auto& weight = training_.weights()[w];
    fetches_rows_.push_back(are_rows_fetched(algebra_, plan_.graph, plan_.configurations, weight, sync_of(w)));
    exchanges_weights_alone_ = exchanges_weights_alone_ && !fetches_rows_.back();
  }
  if (only && exchanges_weights_alone_) {
    written_ = written_ranks{plan_.machine.network.device_count(), *only, alike};
    own_ = written_.computing();
    table_ = division_table{written_.task()};
  }
}

UNITY_INLINE void divided_training::find_flows() {
  const auto edge_of = [&](const graph_edge& e) {
    return divided_edge{parts_of(e.from), devices_of(e.from), parts_of(e.to), devices_of(e.to), e.operands};
  };
  if (written_.is_one()) {
    for (const auto& e : training_.edges()) {
      flows_.push_back(single_flows_of(table_, edge_of(e), number_of(e.value)));
    }
    return;
  }
  const network n{plan_.machine};
  for (const auto& e : training_.edges()) {
    flows_.push_back(flows_of(n, table_, edge_of(e), number_of(e.value)));
  }
}

UNITY_INLINE weight_gathers divided_training::gathers() const {
  return gathers_of(graph(), training_, plan_.synchronization, plan_.recomputed, [&](node_id n) {
    const auto& o = dimensions_[n];
    return reads_of_adjoint(algebra_, o.op, o.inputs, o.outputs.size(), training_.wanted(n));
  });
}

UNITY_INLINE bool divided_training::is_gathered_again(value_id weight) const {
  const auto& all = training_.weights();
  const auto found = std::find_if(all.begin(), all.end(), [&](const weight_uses& w) { return w.value == weight; });
  return found != all.end() &&
         parallel::is_gathered_again(plan_.synchronization, static_cast<std::size_t>(found - all.begin()));
}

UNITY_INLINE tensor::tensor_type divided_training::type_of(value_id v, const box& b) const {
  auto t = graph().type(v);
  t.dims = b.sizes();
  return t;
}

}  // namespace unity::parallel::detail

#endif
