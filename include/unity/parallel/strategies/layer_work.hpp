// Over 500 lines because dropouts, losses, exchanges and sums are found in one pass over the same layer.
// The work and memory of one device of a tensor-parallel group per layer of a transformer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/hardware/machine.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/strategies/megatron.hpp>
#include <unity/parallel/strategies/statement_groups.hpp>
#include <unity/parallel/strategies/training_kernels.hpp>
#include <unity/parallel/strategies/transformer_layers.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tasks/fragment.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/cost.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Consecutive operators, or an exchange within the tensor-parallel group.
struct work_step {
  tasks::task_kind kind = tasks::task_kind::forward;  // transfer: an exchange
  picoseconds time{};                                 // of the operators
  hardware::exchange exchange{};                      // of an exchange, like its size
  bytes size{};                                       // as hardware::collective counts it

  friend bool operator==(const work_step&, const work_step&) = default;
};

// The work of one layer, the embedding or the head on one micro-batch. Regular.
struct layer_work {
  std::vector<work_step> forward{};
  std::vector<work_step> backward{};  // including recomputation
  bytes kept{};                       // from the forward to the backward pass, including masks of dropouts
  bytes again{};                      // what is recomputed for the backward pass, and held while it runs
  bytes handed_on{};                  // to the next layer, by each device
  bool is_handed_on_whole = true;     // each device of the group has all of it

  friend bool operator==(const layer_work&, const layer_work&) = default;
};

// A weight as one device holds it. Regular.
struct held_weight {
  std::int64_t elements = 0;
  tensor::dtype element = tensor::dtype::float32;
  std::vector<std::uint32_t> pieces{};  // that read it, ascending, each once
  bool adds_up = false;                 // its gradient is a sum over the tensor-parallel group
  picoseconds adding{};                 // if gradients are divided: the time to add a share to the sum so far

  friend bool operator==(const held_weight&, const held_weight&) = default;
};

struct transformer_work {
  std::vector<layer_work> pieces{};  // embedding, layers, head
  std::vector<held_weight> weights{};

  friend bool operator==(const transformer_work&, const transformer_work&) = default;
};

namespace detail {

[[nodiscard]] value_spread spread_of(const parallel_type& t);
// The exchange that converts one to the other; nothing if devices already have what they need.
[[nodiscard]] std::optional<hardware::exchange> exchange_between(const value_spread& from, const value_spread& to);

class layer_work_finder {
 public:
  layer_work_finder(const tensor::algebra& a, const tensor::tensor_graph& g, const plan_statement& s,
                    const tensor::durations& durations, std::uint32_t model);

  [[nodiscard]] transformer_work run();

 private:
  void find_types();
  // Cross entropy of logits that are divided by classes: each device computes with its own, and three numbers per row
  // are exchanged. Source: Shoeybi et al., Megatron-LM, 2019, section 3; Megatron-LM's vocab_parallel_cross_entropy.
  void find_losses();
  // Finds the dropouts that run in one kernel with the sum that reads them.
  void find_dropouts();
  // Finds the sums of cotangents of values with several readers. Products need none: they add to what is there.
  void find_sums();
  void find_exchanges();
  // Finds the exchanges of a value, forward and backward. Each is done for the first operator that needs it.
  void find_exchanges(value_id v);
  void find_core();
  void find_kept();
  // Finds the weights, and the operators after which their gradients are added to those of other micro-batches.
  void find_weights();
  [[nodiscard]] bool is_made(value_id v) const;
  [[nodiscard]] value_spread result_spread(value_id v) const;
  [[nodiscard]] value_spread cotangent_spread(node_id n, std::size_t operand) const;
  [[nodiscard]] bytes whole_bytes(value_id v) const;
  // Per device.
  [[nodiscard]] bytes kept_bytes(value_id v) const;
  [[nodiscard]] std::uint32_t piece(node_id n) const { return layers_.pieces[n.index()]; }
  [[nodiscard]] bool is_again(node_id n) const;
  [[nodiscard]] shard_times times(node_id n);
  [[nodiscard]] bool is_dropout(node_id n) const { return graph_.operation(n).kind == algebra_.kind("dropout"); }
  [[nodiscard]] std::int64_t own_elements(node_id n) const;  // of the first result
  [[nodiscard]] std::int64_t own_rows(node_id n) const;      // of scores of attention as one operator
  [[nodiscard]] picoseconds moving(std::int64_t moved) const {
    return moving_time(algebra_, durations_, model_, moved);
  }
  void write(std::uint32_t piece, const std::vector<node_id>& nodes);
  // Effects: consecutive operators become one step.
  static void add(std::vector<work_step>& steps, tasks::task_kind kind, picoseconds time);
  void add_forward(std::vector<work_step>& steps, node_id n, tasks::task_kind kind);

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const plan_statement& statement_;
  graph_dimensions dimensions_;
  training_graph training_;
  transformer_layers layers_;
  shard_clock clock_;
  tensor::durations durations_;
  std::uint32_t model_;
  std::vector<operator_grid> grids_{};                                   // per node
  std::vector<grid_types> types_{};                                      // per node
  std::vector<std::vector<std::pair<node_id, std::size_t>>> readers_{};  // per value
  std::vector<std::vector<work_step>> before_{};                         // per node: exchanges of what it reads
  std::vector<std::vector<work_step>> after_{};      // per node: exchanges of cotangents, after its backward pass
  std::vector<std::vector<work_step>> exchanged_{};  // per node: exchanges that are part of its forward pass
  std::vector<bool> core_{};                         // per node: part of the attention core
  std::vector<bool> joined_{};                       // per node: a dropout and a sum that run together
  std::vector<picoseconds> summing_{};               // per node: of cotangents, after its backward pass
  std::vector<picoseconds> accumulating_{};          // per piece: of gradients
  transformer_work all_{};
};

}  // namespace detail

// For the graph of one micro-batch. Transposes and reshapes take no time: the products that read them use strides.
// Includes the kernels of strategies/training_kernels.hpp: dropouts with their masks, sums of cotangents, and the sum
// of gradients over micro-batches; if gradients are divided, instead of this sum the kernel that widens them before
// they are scattered.
// `model`: the number of the kind of device.
// Complexity: linear in the graph.
// Throws: unity::error if the statement does not fit the graph.
[[nodiscard]] inline transformer_work work_of(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              const plan_statement& s, const tensor::durations& durations,
                                              std::uint32_t model = 0) {
  return detail::layer_work_finder{a, g, s, durations, model}.run();
}

// The work of a statement that divides gradients, for another d: only held_weight::adding depends on d.
// Complexity: linear in the work.
[[nodiscard]] transformer_work with_data_groups(transformer_work work, const tensor::algebra& a, std::int64_t data,
                                                const tensor::durations& durations, std::uint32_t model = 0);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_LAYER_WORK)

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/cost/duration.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_mesh.hpp>

namespace unity::parallel::detail {

// Durations in which moves within memory are free.
class strided_durations {
 public:
  strided_durations(const tensor::algebra& a, tensor::durations all)
      : all_{std::move(all)}, moves_{a.kind("transpose"), a.kind("reshape")} {}

  [[nodiscard]] duration duration_of(std::uint32_t device, const tensor::operation& op,
                                     std::span<const tensor::tensor_type> inputs,
                                     std::span<const tensor::tensor_type> outputs) const {
    return op.kind == moves_[0] || op.kind == moves_[1] ? duration{} : all_.duration_of(device, op, inputs, outputs);
  }
  [[nodiscard]] fingerprint version() const { return hasher{all_.version().low}.add(1).result(); }

 private:
  tensor::durations all_;
  std::array<kind_id, 2> moves_;
};

UNITY_INLINE value_spread spread_of(const parallel_type& t) {
  if (t.partial > 1) {
    return {value_spread::kinds::partial, 0};
  }
  for (std::size_t d = 0; d < t.degrees.size(); ++d) {
    if (t.degrees[d] > 1) {
      return {value_spread::kinds::block, d};
    }
  }
  return {};
}

UNITY_INLINE std::optional<hardware::exchange> exchange_between(const value_spread& from, const value_spread& to) {
  using kinds = value_spread::kinds;
  if (from == to || from.kind == kinds::whole) {
    return std::nullopt;
  }
  if (from.kind == kinds::partial) {
    return to.kind == kinds::block ? hardware::exchange::reduce_scatter : hardware::exchange::all_reduce;
  }
  return to.kind == kinds::block ? hardware::exchange::all_to_all : hardware::exchange::all_gather;
}

UNITY_INLINE layer_work_finder::layer_work_finder(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                  const plan_statement& s, const tensor::durations& durations,
                                                  std::uint32_t model)
    : algebra_{a},
      graph_{g},
      statement_{s},
      dimensions_{a, g},
      training_{a, g},
      layers_{layers_of(a, g, dimensions_)},
      clock_{a, strided_durations{a, durations}, {model}},
      durations_{durations},
      model_{model},
      grids_(g.node_count()),
      types_(g.node_count()),
      readers_(g.value_count()),
      before_(g.node_count()),
      after_(g.node_count()),
      exchanged_(g.node_count()),
      core_(g.node_count()),
      joined_(g.node_count()),
      summing_(g.node_count()) {}

UNITY_INLINE transformer_work layer_work_finder::run() {
  static_cast<void>(layers_of_stages(statement_, layers_.count));  // refuses what does not divide
  if (layers_.heads % statement_.tensor != 0) {
    throw error{"plan", fmt::format("{} heads for t={}", layers_.heads, statement_.tensor), "a multiple of t"};
  }
  if (statement_.is_sequence_parallel && layers_.positions % statement_.tensor != 0) {
    throw error{"plan", fmt::format("{} positions for t={},sp", layers_.positions, statement_.tensor),
                "a multiple of t"};
  }
  find_types();
  find_losses();
  find_exchanges();
  find_core();
  find_dropouts();
  find_sums();
  all_.pieces.resize(layers_.count + 2);
  find_kept();
  std::vector<std::vector<node_id>> nodes(all_.pieces.size());
  for (const auto n : node_ids(graph_)) {
    if (!graph_.operands(n).empty() && !is_of_weights(graph_, n)) {
      nodes[piece(n)].push_back(n);
    }
  }
  find_weights();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    write(i, nodes[i]);
  }
  return std::move(all_);
}

UNITY_INLINE void layer_work_finder::find_types() {
  hardware::device_mesh mesh{"", {statement_.tensor}, {}};
  for (std::int64_t i = 0; i < statement_.tensor; ++i) {
    mesh.devices.emplace_back(static_cast<std::size_t>(i));
  }
  const auto axis = statement_.tensor > 1 ? std::optional<std::size_t>{0} : std::nullopt;
  megatron_writer writer{algebra_, graph_, dimensions_, mesh, std::nullopt, axis, statement_.is_sequence_parallel};
  writer.divide();
  for (const auto n : node_ids(graph_)) {
    if (!graph_.operands(n).empty()) {
      grids_[n.index()] = writer.grid_of(n);
      types_[n.index()] = types_on(dimensions_[n], grids_[n.index()]).value();
    }
    for (std::size_t i = 0; i < graph_.operands(n).size(); ++i) {
      readers_[graph_.operands(n)[i].index()].emplace_back(n, i);
    }
  }
}

UNITY_INLINE void layer_work_finder::find_losses() {
  for (const auto n : node_ids(graph_)) {
    if (graph_.operation(n).kind != algebra_.kind("cross_entropy")) {
      continue;
    }
    const auto logits = graph_.operands(n)[0];
    const auto last = graph_.type(logits).rank() - 1;
    if (!is_made(logits) || result_spread(logits) != value_spread{value_spread::kinds::block, last}) {
      continue;
    }
    auto& grid = grids_[n.index()] = undivided_grid(dimensions_[n]);
    grid.copies = statement_.tensor;
    auto& types = types_[n.index()] = types_on(dimensions_[n], grid).value();
    auto& own = types.operands[0];
    own.degrees[last] = statement_.tensor;
    own.copies = 1;
    const bytes rows{tensor::element_count(graph_.type(logits).dims) / graph_.type(logits).dims[last] *
                     static_cast<std::int64_t>(tensor::size_of(graph_.type(logits).element))};
    // The largest logit of each row, that of its label, and the sum of exponentials.
    exchanged_[n.index()].assign(3, {tasks::task_kind::transfer, {}, hardware::exchange::all_reduce, rows});
  }
}

UNITY_INLINE void layer_work_finder::find_dropouts() {
  for (const auto n : node_ids(graph_)) {
    if (graph_.operands(n).size() != 2 || graph_.operation(n).kind != algebra_.kind("add")) {
      continue;
    }
    for (const auto v : graph_.operands(n)) {
      const auto from = graph_.producer(v);
      if (is_dropout(from) && readers_[v.index()].size() == 1 && before_[n.index()].empty() && !joined_[n.index()]) {
        joined_[n.index()] = joined_[from.index()] = true;
      }
    }
  }
}

UNITY_INLINE void layer_work_finder::find_sums() {
  for (std::size_t i = 0; i < graph_.value_count(); ++i) {
    const value_id v{i};
    const auto& all = readers_[i];
    std::size_t given = 0;     // cotangents
    std::size_t products = 0;  // of these
    for (const auto& [n, operand] : all) {
      const bool is_given = training_.has_backward(n) && training_.wanted(n)[operand];
      given += is_given ? 1 : 0;
      products += is_given && graph_.operation(n).kind == algebra_.kind("matmul") ? 1 : 0;
    }
    const auto sums = given - std::min(given, std::max<std::size_t>(1, products));
    if (sums > 0 && is_made(v)) {
      const auto& t = graph_.type(v);
      const auto elements = kept_bytes(v).count() / static_cast<std::int64_t>(tensor::size_of(t.element));
      summing_[all.front().first.index()] +=
          picoseconds{moving(cotangent_sum_bytes(elements, t.element)).count() * static_cast<std::int64_t>(sums)};
    }
  }
}

UNITY_INLINE std::int64_t layer_work_finder::own_elements(node_id n) const {
  return tensor::element_count(shard_type(types_[n.index()].results[0]).dims);
}

UNITY_INLINE std::int64_t layer_work_finder::own_rows(node_id n) const {
  const auto& q = graph_.type(graph_.operands(n)[0]);
  const auto heads = algebra_.read(graph_.operation(n)).integer("heads");
  const auto width = heads == 0 ? q.dims.back() : q.dims.back() / heads;
  return tensor::element_count(shard_type(types_[n.index()].operands[0]).dims) / width;
}

UNITY_INLINE bool layer_work_finder::is_made(value_id v) const {
  const auto from = graph_.producer(v);
  return !graph_.operands(from).empty() && !is_of_weights(graph_, from);
}

UNITY_INLINE value_spread layer_work_finder::result_spread(value_id v) const {
  const auto from = graph_.producer(v);
  const auto results = graph_.results(from);
  return spread_of(
      types_[from.index()]
          .results[static_cast<std::size_t>(std::find(results.begin(), results.end(), v) - results.begin())]);
}

// If the work is divided, the cotangent of an operand that is read whole is a sum with a partial per device.
UNITY_INLINE value_spread layer_work_finder::cotangent_spread(node_id n, std::size_t operand) const {
  const auto& t = types_[n.index()].operands[operand];
  return grids_[n.index()].copies == 1 && t.copies > 1 ? value_spread{value_spread::kinds::partial, 0}
         : t.partial > 1                               ? value_spread{}
                                                       : spread_of(t);
}

UNITY_INLINE bytes layer_work_finder::whole_bytes(value_id v) const {
  const auto& t = graph_.type(v);
  return bytes{tensor::element_count(t.dims) * static_cast<std::int64_t>(tensor::size_of(t.element))};
}

UNITY_INLINE bytes layer_work_finder::kept_bytes(value_id v) const {
  using kinds = value_spread::kinds;
  const auto made = result_spread(v).kind;
  const bool is_scattered = std::any_of(readers_[v.index()].begin(), readers_[v.index()].end(), [&](const auto& r) {
    return spread_of(types_[r.first.index()].operands[r.second]).kind == kinds::block;
  });
  const bool is_block = made == kinds::block || (made == kinds::partial && is_scattered);
  return bytes{whole_bytes(v).count() / (is_block ? statement_.tensor : 1)};
}

UNITY_INLINE void layer_work_finder::find_exchanges() {
  for (const auto n : node_ids(graph_)) {
    for (const auto v : graph_.results(n)) {
      if (is_made(v)) {
        find_exchanges(v);
      }
    }
  }
}

UNITY_INLINE void layer_work_finder::find_exchanges(value_id v) {
  auto made = result_spread(v);
  std::vector<value_spread> there{made};  // distributions that exist by now
  std::vector<value_spread> summed;
  for (const auto& [n, operand] : readers_[v.index()]) {
    const auto read =
        types_[n.index()].operands[operand].partial > 1 ? made : spread_of(types_[n.index()].operands[operand]);
    if (const auto exchange = exchange_between(made, read);
        exchange && std::find(there.begin(), there.end(), read) == there.end()) {
      before_[n.index()].push_back({tasks::task_kind::transfer, {}, *exchange, whole_bytes(v)});
      there.push_back(read);
    }
  }
  const auto wanted = made.kind == value_spread::kinds::partial ? value_spread{} : made;
  for (const auto& [n, operand] : readers_[v.index()]) {
    const auto given = cotangent_spread(n, operand);
    if (const auto exchange = exchange_between(given, wanted);
        exchange && training_.wanted(n)[operand] && std::find(summed.begin(), summed.end(), given) == summed.end()) {
      after_[n.index()].push_back({tasks::task_kind::transfer, {}, *exchange, whole_bytes(v)});
      summed.push_back(given);
    }
  }
}

UNITY_INLINE void layer_work_finder::find_core() {
  struct range {
    std::size_t first = 0;
    std::size_t last = 0;
  };
  std::map<std::uint32_t, range> cores;
  for (const auto n : node_ids(graph_)) {
    if (!graph_.operands(n).empty() && mixes_positions(algebra_, dimensions_[n])) {
      auto& core = cores.try_emplace(piece(n), range{n.index(), n.index()}).first->second;
      core.last = n.index();
    }
  }
  if (statement_.recomputed == recomputed_part::selective && !layers_.has_core) {
    throw error{"plan", "recompute=selective where attention is one operator", "none or full"};
  }
  for (const auto& [layer, core] : cores) {
    for (auto i = core.first; i <= core.last; ++i) {
      core_[i] = !graph_.operands(node_id{i}).empty() && !is_of_weights(graph_, node_id{i});
    }
  }
}

UNITY_INLINE bool layer_work_finder::is_again(node_id n) const {
  const bool is_layer = piece(n) > 0 && piece(n) <= layers_.count;
  return (statement_.recomputed == recomputed_part::full && is_layer) ||
         (statement_.recomputed == recomputed_part::selective && core_[n.index()]);
}

// Counts a value once per layer whose backward pass reads it: as `again` in the layer that recomputes it, otherwise as
// `kept`.
UNITY_INLINE void layer_work_finder::find_kept() {
  std::map<std::pair<std::uint32_t, std::vector<bool>>, backward_reads> known;
  std::set<std::pair<value_id, std::uint32_t>> counted;
  const auto count = [&](value_id v, std::uint32_t where) {
    if (!is_made(v) || !counted.emplace(v, where).second) {
      return;
    }
    const auto from = graph_.producer(v);
    const bool is_kept = !is_again(from) || piece(from) != where;
    auto& sum = is_kept ? all_.pieces[where].kept : all_.pieces[where].again;
    sum += kept_bytes(v);
  };
  for (const auto n : node_ids(graph_)) {
    if (!training_.has_backward(n) || is_of_weights(graph_, n)) {
      continue;
    }
    if (is_dropout(n)) {
      auto& of_masks = is_again(n) ? all_.pieces[piece(n)].again : all_.pieces[piece(n)].kept;
      of_masks += bytes{own_elements(n) * mask_bytes};
    }
    if (graph_.operation(n).kind == algebra_.kind("dot_product_attention")) {
      auto& of_rows = is_again(n) ? all_.pieces[piece(n)].again : all_.pieces[piece(n)].kept;
      of_rows += bytes{own_rows(n) * log_sum_bytes};
    }
    const auto& o = dimensions_[n];
    const auto [at, is_new] = known.try_emplace({dimensions_.kind(n), training_.wanted(n)});
    if (is_new) {
      at->second = reads_of_adjoint(algebra_, o.op, o.inputs, o.outputs.size(), training_.wanted(n));
    }
    for (std::size_t i = 0; i < at->second.operands.size(); ++i) {
      if (at->second.operands[i]) {
        count(graph_.operands(n)[i], piece(n));
      }
    }
    for (std::size_t r = 0; r < at->second.results.size(); ++r) {
      if (at->second.results[r]) {
        count(graph_.results(n)[r], piece(n));
      }
    }
    for (const auto v : graph_.operands(n)) {  // inputs of the recomputed part
      if (is_again(n) && is_made(v) && !is_again(graph_.producer(v))) {
        count(v, piece(n));
      }
    }
  }
}

UNITY_INLINE shard_times layer_work_finder::times(node_id n) {
  hasher key{dimensions_.kind(n)};
  for (const bool w : training_.wanted(n)) {
    key.add(w ? 2 : 1);
  }
  placed_operator p;
  p.dimensions = &dimensions_[n];
  p.key = key.result();
  p.wanted = training_.wanted(n);
  auto all = is_dropout(n) ? shard_times{} : clock_.of(p, types_[n.index()]).value();
  const auto element = graph_.type(graph_.results(n)[0]).element;
  if (is_dropout(n)) {
    const auto takes = moving(dropout_bytes(own_elements(n), element));
    all = {joined_[n.index()] ? picoseconds{} : takes, takes};
  } else if (joined_[n.index()]) {
    all.forward = moving(dropout_add_bytes(own_elements(n), element));
  }
  return all;
}

UNITY_INLINE void layer_work_finder::add(std::vector<work_step>& steps, tasks::task_kind kind, picoseconds time) {
  if (steps.empty() || steps.back().kind != kind) {
    steps.push_back({kind, {}, {}, {}});
  }
  steps.back().time += time;
}

UNITY_INLINE void layer_work_finder::add_forward(std::vector<work_step>& steps, node_id n, tasks::task_kind kind) {
  steps.insert(steps.end(), before_[n.index()].begin(), before_[n.index()].end());
  add(steps, kind, times(n).forward);
  steps.insert(steps.end(), exchanged_[n.index()].begin(), exchanged_[n.index()].end());
}

UNITY_INLINE void layer_work_finder::write(std::uint32_t number, const std::vector<node_id>& nodes) {
  auto& work = all_.pieces[number];
  for (const auto n : nodes) {
    add_forward(work.forward, n, tasks::task_kind::forward);
    for (const auto v : graph_.results(n)) {
      const auto& all = readers_[v.index()];
      if (std::any_of(all.begin(), all.end(), [&](const auto& r) { return piece(r.first) > number; })) {
        work.handed_on += kept_bytes(v);
        work.is_handed_on_whole = result_spread(v).kind != value_spread::kinds::block;
      }
    }
  }
  std::vector<node_id> again;
  std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(again), [&](node_id n) { return is_again(n); });
  for (auto i = nodes.size(); i-- > 0;) {
    const auto n = nodes[i];
    if (!again.empty() && n == again.back()) {
      for (const auto m : again) {
        add_forward(work.backward, m, tasks::task_kind::recompute);
      }
      again.clear();
    }
    if (training_.has_backward(n)) {
      add(work.backward, tasks::task_kind::backward, times(n).backward);
      work.backward.insert(work.backward.end(), after_[n.index()].begin(), after_[n.index()].end());
    }
    if (summing_[n.index()] > picoseconds{}) {
      add(work.backward, tasks::task_kind::backward, summing_[n.index()]);
    }
  }
  if (accumulating_[number] > picoseconds{}) {
    add(work.backward, tasks::task_kind::backward, accumulating_[number]);
  }
}

// The bytes moved to add a share of a micro-batch's gradient to the sum of those before.
UNITY_INLINE std::int64_t bytes_of_adding(const held_weight& w, std::int64_t data) {
  return share_sum_bytes((w.elements + data - 1) / data, w.element);
}

UNITY_INLINE void layer_work_finder::find_weights() {
  accumulating_.resize(all_.pieces.size());
  for (const auto& w : training_.weights()) {
    if (!w.is_trained || w.uses.empty()) {
      continue;
    }
    const auto& first = w.uses.front();
    const auto shard = shard_type(types_[first.node.index()].operands[first.operand]);
    held_weight held{tensor::element_count(shard.dims), shard.element, {}, false, {}};
    const bool is_divided = statement_.divides_gradients();
    if (is_divided) {
      held.adding = moving(bytes_of_adding(held, statement_.data));
    }
    std::set<std::uint32_t> pieces;
    for (const auto& use : w.uses) {
      pieces.insert(piece(use.node));
      accumulating_[piece(use.node)] += moving(is_divided ? widening_bytes(held.elements, held.element)
                                                          : accumulation_bytes(held.elements, held.element));
      held.adds_up = held.adds_up || cotangent_spread(use.node, use.operand).kind == value_spread::kinds::partial;
    }
    held.pieces.assign(pieces.begin(), pieces.end());
    all_.weights.push_back(std::move(held));
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE transformer_work with_data_groups(transformer_work work, const tensor::algebra& a, std::int64_t data,
                                               const tensor::durations& durations, std::uint32_t model) {
  for (auto& w : work.weights) {
    w.adding = moving_time(a, durations, model, detail::bytes_of_adding(w, data));
  }
  return work;
}

}  // namespace unity::parallel

#endif
