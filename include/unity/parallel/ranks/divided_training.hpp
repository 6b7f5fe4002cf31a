// A plan with tables that lowering it to ranks needs frequently, such as the boxes of a value that are sent from its
// producers to its readers.
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
#include <unity/parallel/lowering/edge_reads.hpp>
#include <unity/parallel/lowering/messages.hpp>
#include <unity/parallel/lowering/network.hpp>
#include <unity/parallel/lowering/weight_gathers.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/ranks/identical_ranks.hpp>
#include <unity/parallel/row_fetching.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/differentiate.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// An operand of a task that reads a box of the value.
struct flow_reader {
  std::uint32_t operand = 0;
  std::uint32_t task = 0;
  box part{};

  friend bool operator==(const flow_reader&, const flow_reader&) = default;
};

// A result that is read on the producer's device.
struct local_flow {
  std::uint32_t producer = 0;
  flow_reader reader{};

  friend bool operator==(const local_flow&, const local_flow&) = default;
};

// A box of one task's result, sent to another device once for all readers there.
struct sent_flow {
  std::uint32_t producer = 0;
  std::uint32_t from = 0;  // devices
  std::uint32_t to = 0;
  box part{};
  std::vector<flow_reader> readers{};  // with parts within the box

  friend bool operator==(const sent_flow&, const sent_flow&) = default;
};

// A box of a sum of partials. Its owner adds up the partials and sends the sum to the holders; if the devices with
// partials are those that read it, and all read the whole block, they reduce it together without an owner.
struct summed_flow {
  std::vector<std::uint32_t> producers{};  // one task per partial
  box part{};
  bool is_reduced = false;
  std::uint32_t owner = 0;               // a device
  std::vector<std::uint32_t> holders{};  // devices that read it, ascending
  std::vector<flow_reader> readers{};

  friend bool operator==(const summed_flow&, const summed_flow&) = default;
};

struct value_flows {
  std::vector<local_flow> local{};
  std::vector<sent_flow> sent{};
  std::vector<summed_flow> sums{};

  friend bool operator==(const value_flows&, const value_flows&) = default;
};

namespace detail {

class flow_finder {
 public:
  flow_finder(const divided_edge& e, std::uint32_t result) : edge_{e}, result_{result} {}

  [[nodiscard]] value_flows run(const edge_reads& reads) &&;

 private:
  [[nodiscard]] const box& written(std::uint32_t producer) const { return edge_.from.parts[producer].results[result_]; }
  // Readers are numbered operand by operand.
  [[nodiscard]] flow_reader reader_of(std::uint32_t number, std::uint32_t producer) const;
  [[nodiscard]] std::uint32_t device_of(const flow_reader& r) const {
    return static_cast<std::uint32_t>(edge_.consumers[r.task].index());
  }
  [[nodiscard]] std::uint32_t producer_device(std::uint32_t task) const {
    return static_cast<std::uint32_t>(edge_.producers[task].index());
  }

  // The row belongs to one producer.
  void add_single(std::span<const overlap> row);
  void add_sum(const term_sum& s);

  [[nodiscard]] static std::vector<box> cells(std::span<const flow_reader> readers);
  [[nodiscard]] static std::vector<flow_reader> within(std::span<const flow_reader> readers, const box& cell);

  const divided_edge& edge_;
  std::uint32_t result_;
  value_flows all_{};
};

}  // namespace detail

// result: of the first operator, which the second reads as operands. Every element of an operand that is in the value
// is transferred once, from the task or partials that lowering chooses. Complexity: linear in overlaps, besides cells.
[[nodiscard]] value_flows flows_of(const network& n, division_table& divisions, const divided_edge& e,
                                   std::uint32_t result);
// Precondition: is_single.
[[nodiscard]] value_flows single_flows_of(division_table& divisions, const divided_edge& e, std::uint32_t result);

}  // namespace unity::parallel

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

#include <set>

#include <unity/graph/concepts.hpp>
#include <unity/parallel/pipeline.hpp>

namespace unity::parallel::detail {

UNITY_INLINE value_flows flow_finder::run(const edge_reads& reads) && {
  for (std::size_t i = 0; i < reads.single.size();) {
    auto end = i;
    while (end < reads.single.size() && reads.single[end].producer == reads.single[i].producer) {
      ++end;
    }
    add_single(std::span{reads.single}.subspan(i, end - i));
    i = end;
  }
  for (const auto& s : reads.sums) {
    add_sum(s);
  }
  return std::move(all_);
}

UNITY_INLINE flow_reader flow_finder::reader_of(std::uint32_t number, std::uint32_t producer) const {
  const auto tasks = static_cast<std::uint32_t>(edge_.consumers.size());
  flow_reader r{edge_.operands[number / tasks], number % tasks, {}};
  r.part = intersection(written(producer), edge_.to.parts[r.task].operands[r.operand]);
  return r;
}

UNITY_INLINE void flow_finder::add_single(std::span<const overlap> row) {
  const auto producer = row[0].producer;
  const auto from = producer_device(producer);
  std::vector<std::pair<std::uint32_t, std::vector<flow_reader>>> remote;  // by device, in order of occurrence
  for (const auto& o : row) {
    auto r = reader_of(o.consumer, producer);
    const auto to = device_of(r);
    if (to == from) {
      all_.local.push_back({producer, std::move(r)});
      continue;
    }
    auto at = std::find_if(remote.begin(), remote.end(), [&](const auto& x) { return x.first == to; });
    (at == remote.end() ? remote.emplace_back(to, std::vector<flow_reader>{}) : *at).second.push_back(std::move(r));
  }
  for (const auto& [to, readers] : remote) {
    for (const auto& cell : cells(readers)) {
      all_.sent.push_back({producer, from, to, cell, within(readers, cell)});
    }
  }
}

UNITY_INLINE void flow_finder::add_sum(const term_sum& s) {
  std::vector<flow_reader> readers;
  std::set<std::uint32_t> to;
  std::set<std::uint32_t> from;
  bool is_all = true;
  for (const auto p : s.producers) {
    from.insert(producer_device(p));
  }
  for (const auto r : s.readers) {
    readers.push_back(reader_of(r, s.producers[0]));
    to.insert(device_of(readers.back()));
    is_all = is_all && readers.back().part == written(s.producers[0]);
  }
  if (is_all && from == to && from.size() > 1) {
    all_.sums.push_back({s.producers, written(s.producers[0]), true, 0, {to.begin(), to.end()}, std::move(readers)});
    return;
  }
  std::uint32_t turn = 0;  // owners take turns
  for (const auto& cell : cells(readers)) {
    summed_flow f{s.producers, cell, false, 0, {}, within(readers, cell)};
    std::set<std::uint32_t> holders;
    for (const auto& r : f.readers) {
      holders.insert(device_of(r));
    }
    f.holders.assign(holders.begin(), holders.end());
    std::vector<std::uint32_t> able;
    std::copy_if(f.holders.begin(), f.holders.end(), std::back_inserter(able),
                 [&](std::uint32_t d) { return from.contains(d); });
    f.owner = able.empty() ? f.holders[turn++ % f.holders.size()] : able[turn++ % able.size()];
    all_.sums.push_back(std::move(f));
  }
}

UNITY_INLINE std::vector<box> flow_finder::cells(std::span<const flow_reader> readers) {
  std::vector<box> boxes;
  for (const auto& r : readers) {
    if (std::find(boxes.begin(), boxes.end(), r.part) == boxes.end()) {
      boxes.push_back(r.part);
    }
  }
  return cells_of(boxes);
}

UNITY_INLINE std::vector<flow_reader> flow_finder::within(std::span<const flow_reader> readers, const box& cell) {
  std::vector<flow_reader> all;
  for (const auto& r : readers) {
    if (const auto common = intersection(r.part, cell); !common.empty()) {
      all.push_back({r.operand, r.task, common});
    }
  }
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE value_flows flows_of(const network& n, division_table& divisions, const divided_edge& e,
                                  std::uint32_t result) {
  if (is_single(e.from, e.to, e.operands)) {
    return single_flows_of(divisions, e, result);
  }
  return detail::flow_finder{e, result}.run(reads_of(n, e, divisions.overlaps(e.from, result, e.to, e.operands)));
}

UNITY_INLINE value_flows single_flows_of(division_table& divisions, const divided_edge& e, std::uint32_t result) {
  const auto overlaps = divisions.overlaps(e.from, result, e.to, e.operands);
  return detail::flow_finder{e, result}.run({{overlaps.begin(), overlaps.end()}, {}});
}

}  // namespace unity::parallel

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
  const auto identical = identical_ranks(plan_.graph, dimensions_, training_, plan_.configurations);
  exchanges_weights_alone_ = !identical.empty();
  for (std::size_t w = 0; w < training_.weights().size(); ++w) {
    const auto& weight = training_.weights()[w];
    fetches_rows_.push_back(are_rows_fetched(algebra_, plan_.graph, plan_.configurations, weight, sync_of(w)));
    exchanges_weights_alone_ = exchanges_weights_alone_ && !fetches_rows_.back();
  }
  if (only && exchanges_weights_alone_) {
    written_ = written_ranks{plan_.machine.network.device_count(), *only, identical};
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
