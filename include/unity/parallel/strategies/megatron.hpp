// Megatron's plans of transformers: data parallelism along one axis of a mesh, tensor parallelism along the other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/hardware/device_mesh.hpp>
#include <unity/hardware/topology.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/mesh/mesh_options.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

namespace detail {

// Whether the operator can be divided by heads: attention as one operator, or a product of two tensors that both depend
// on inputs.
[[nodiscard]] inline bool mixes_positions(const tensor::algebra& a, const operator_dimensions& o) {
  return o.op.kind == a.kind("attention") || o.op.kind == a.kind("dot_product_attention") ||
         (o.op.kind == a.kind("matmul") && !o.inputs[0].constant && !o.inputs[1].constant);
}

// How a value is distributed over the devices that divide layers.
struct value_spread {
  enum class kinds : std::uint8_t { whole, block, partial };

  kinds kind = kinds::whole;
  std::size_t dimension = 0;  // of blocks

  friend bool operator==(const value_spread&, const value_spread&) = default;
};

// Whether all results of an operator are constant, and so computed from weights alone.
[[nodiscard]] inline bool is_of_weights(const tensor::tensor_graph& g, node_id n) {
  const auto results = g.results(n);
  return std::all_of(results.begin(), results.end(), [&](value_id v) { return g.type(v).constant; });
}

// An operator whose operands are blocks works on these blocks, if it can; a layer with a whole operand divides its
// columns. So layers alternate between columns and rows, and results of rows are added up. divides_positions: other
// operators whose results have samples, positions and features are divided along positions (Korthikanti et al., 2022,
// section 4.2.2).
class megatron_writer {
 public:
  megatron_writer(const tensor::algebra& a, const tensor::tensor_graph& g, const graph_dimensions& all,
                  hardware::device_mesh mesh, std::optional<std::size_t> sample_axis,
                  std::optional<std::size_t> layer_axis, bool divides_positions = false);

  [[nodiscard]] strategy run();
  // Effects: finds only the grids; those of nodes without operands must not be asked for.
  void divide();
  [[nodiscard]] operator_grid grid_of(node_id n) const { return parallel::grid_of(all_[n], mesh_, roles_[n.index()]); }
  // Whether an operator that mixes positions is divided along the layer axis.
  [[nodiscard]] bool divides_heads() const;

 private:
  using role_list = std::vector<axis_role>;

  [[nodiscard]] static axis_role along(std::size_t index) {
    return {axis_role::kinds::index, static_cast<std::uint8_t>(index)};
  }
  [[nodiscard]] bool is_possible(node_id n, const role_list& roles) const;
  // Uses the first index that is possible for the axis, or copies if none is.
  void set(node_id n, std::size_t axis, std::span<const std::size_t> indices);

  void choose(node_id n);
  [[nodiscard]] static value_spread view_in(const tensor::tensor_indices& dims, std::size_t index);
  // The indices along the blocks of the operands.
  [[nodiscard]] std::vector<std::size_t> of_blocks(node_id n) const;
  // The indices along which a layer divides a whole operand: heads of attention; rows of an embedding table that is
  // longer than wide; otherwise columns, and then positions, in case the degree does not divide the columns, as with
  // vocabularies.
  [[nodiscard]] std::vector<std::size_t> of_layer(const operator_dimensions& o) const;

  // Lays out a value that is computed from weights alone as its first reader needs it.
  void follow_reader(node_id n);

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& graph_;
  const graph_dimensions& all_;
  hardware::device_mesh mesh_;
  std::optional<std::size_t> sample_axis_;
  std::optional<std::size_t> layer_axis_;
  bool divides_positions_;
  std::vector<role_list> roles_;      // per node, per axis of the mesh
  std::vector<value_spread> states_;  // per value
  std::vector<bool> leaves_;          // per node: has an output of the graph
};

}  // namespace detail

// Whether the graph has attention: one operator, or a product of two tensors that both depend on inputs.
[[nodiscard]] bool is_transformer(const tensor::algebra& a, const graph_dimensions& all);

// One strategy per factorization of all devices into data and tensor parallelism. Layers are divided within nodes
// first, by columns, then rows; attention by heads. Omits strategies that divide no heads, except data parallelism. The
// graph's outputs should be delivered by operators of their own (with_delivered_outputs), because they cannot be
// partial sums.
// Complexity: linear in graph and devices, for each divisor of the number of devices.
// Source: Shoeybi et al., Megatron-LM, 2019, section 3.
[[nodiscard]] std::vector<strategy> megatron(const tensor::algebra& a, const tensor::tensor_graph& g,
                                             const graph_dimensions& all, const hardware::topology& t);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_STRATEGIES_MEGATRON)

#include <unity/parallel/configuration_grid.hpp>
#include <unity/parallel/mesh/mesh_plan.hpp>
#include <unity/parallel/strategies/strategy.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel::detail {

UNITY_INLINE megatron_writer::megatron_writer(const tensor::algebra& a, const tensor::tensor_graph& g,
                                              const graph_dimensions& all, hardware::device_mesh mesh,
                                              std::optional<std::size_t> sample_axis,
                                              std::optional<std::size_t> layer_axis, bool divides_positions)
    : algebra_{a},
      graph_{g},
      all_{all},
      mesh_{std::move(mesh)},
      sample_axis_{sample_axis},
      layer_axis_{layer_axis},
      divides_positions_{divides_positions},
      roles_(g.node_count()),
      states_(g.value_count()),
      leaves_(g.node_count()) {
  for (const auto v : g.outputs()) {
    leaves_[g.producer(v).index()] = true;
  }
}

UNITY_INLINE void megatron_writer::divide() {
  for (const auto n : node_ids(graph_)) {
    if (!graph_.operands(n).empty() && !is_of_weights(graph_, n)) {
      choose(n);
    }
  }
  for (auto n = graph_.node_count(); n-- > 0;) {
    if (!graph_.operands(node_id{n}).empty() && is_of_weights(graph_, node_id{n})) {
      follow_reader(node_id{n});
    }
  }
}

UNITY_INLINE strategy megatron_writer::run() {
  divide();
  strategy s;
  for (const auto n : node_ids(graph_)) {
    s.push_back(roles_[n.index()].empty() ? configuration{} : configuration_on(all_[n], mesh_, roles_[n.index()]));
  }
  return s;
}

UNITY_INLINE bool megatron_writer::divides_heads() const {
  for (std::size_t n = 0; n < roles_.size(); ++n) {
    if (layer_axis_ && !roles_[n].empty() && roles_[n][*layer_axis_] != axis_role{} &&
        mixes_positions(algebra_, all_[node_id{n}])) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE bool megatron_writer::is_possible(node_id n, const role_list& roles) const {
  const auto& o = all_[n];
  const auto g = parallel::grid_of(o, mesh_, roles);
  const auto types = types_on(o, g);
  return types && why_no_configuration(o, g).empty() &&
         (!leaves_[n.index()] ||
          std::all_of(types->results.begin(), types->results.end(), [](const auto& t) { return t.partial == 1; }));
}

UNITY_INLINE void megatron_writer::set(node_id n, std::size_t axis, std::span<const std::size_t> indices) {
  auto& roles = roles_[n.index()];
  for (const auto i : indices) {
    roles[axis] = along(i);
    if (is_possible(n, roles)) {
      return;
    }
  }
  roles[axis] = {};
}

UNITY_INLINE void megatron_writer::choose(node_id n) {
  const auto& o = all_[n];
  roles_[n.index()].resize(mesh_.axis_count());
  if (const auto sample = find_dimension(o, parallelism::sample); sample_axis_ && sample) {
    set(n, *sample_axis_, {&o.divisible[*sample].indices[0], 1});
  }
  if (!layer_axis_) {
    return;
  }
  auto wanted = of_blocks(n);
  if (wanted.empty()) {
    wanted = of_layer(o);
  }
  set(n, *layer_axis_, wanted);
  const auto& role = roles_[n.index()][*layer_axis_];
  for (std::size_t r = 0; r < graph_.results(n).size() && role.kind == axis_role::kinds::index; ++r) {
    states_[graph_.results(n)[r].index()] = view_in(o.structure.results[r], role.number);
  }
  constexpr std::size_t rank = 3;
  const auto& result = o.structure.results[0];
  if (divides_positions_ && role == axis_role{} && result.size() == rank && !result[1].indices.empty()) {
    set(n, *layer_axis_, {&result[1].indices[0], 1});  // layers read it as if it were whole
  }
}

UNITY_INLINE value_spread megatron_writer::view_in(const tensor::tensor_indices& dims, std::size_t index) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (std::find(dims[d].indices.begin(), dims[d].indices.end(), index) != dims[d].indices.end()) {
      return {value_spread::kinds::block, d};
    }
  }
  return {value_spread::kinds::partial, 0};
}

UNITY_INLINE std::vector<std::size_t> megatron_writer::of_blocks(node_id n) const {
  const auto& s = all_[n].structure;
  std::vector<std::size_t> found;
  for (std::size_t x = 0; x < graph_.operands(n).size(); ++x) {
    const auto& state = states_[graph_.operands(n)[x].index()];
    if (state.kind != value_spread::kinds::block) {
      continue;
    }
    for (const auto i : s.operands[x][state.dimension].indices) {
      if (s.indices[i].size > 1) {
        found.push_back(i);
        break;
      }
    }
  }
  return found;
}

UNITY_INLINE std::vector<std::size_t> megatron_writer::of_layer(const operator_dimensions& o) const {
  const bool reads_weights = std::any_of(o.inputs.begin(), o.inputs.end(), [](const auto& t) { return t.constant; });
  const bool is_sum = std::any_of(o.structure.indices.begin(), o.structure.indices.end(),
                                  [](const tensor::index& i) { return i.kind == tensor::index_kind::reduction; });
  if (!reads_weights || !is_sum) {
    return {};
  }
  if (o.op.kind == algebra_.kind("attention")) {
    constexpr std::size_t query_weight = 3;
    return {o.structure.operands[query_weight][1].indices[0]};
  }
  if (o.op.kind == algebra_.kind("embedding")) {
    const auto& table = o.inputs[0].dims;
    const bool is_long = table.size() > 1 && table[0] > table[1];
    // Rows of booleans do not add up.
    return is_long && !o.reductions.empty() ? o.reductions[0].indices : std::vector<std::size_t>{};
  }
  std::vector<std::size_t> found;
  for (auto k = o.divisible.size(); k-- > 0;) {
    if (o.divisible[k].kind == parallelism::parameter) {
      found.push_back(o.divisible[k].indices[0]);
    }
  }
  for (const auto& d : o.divisible) {
    if (d.kind == parallelism::attribute) {
      found.push_back(d.indices[0]);
    }
  }
  return found;
}

UNITY_INLINE void megatron_writer::follow_reader(node_id n) {
  auto& roles = roles_[n.index()];
  roles.resize(mesh_.axis_count());
  for (auto m = n.index() + 1; m < graph_.node_count(); ++m) {
    const auto operands = graph_.operands(node_id{m});
    const auto at = std::find(operands.begin(), operands.end(), graph_.results(n)[0]);
    if (at == operands.end() || roles_[m].empty()) {
      continue;
    }
    const auto& seen = all_[node_id{m}].structure.operands[static_cast<std::size_t>(at - operands.begin())];
    for (std::size_t axis = 0; axis < roles.size(); ++axis) {
      const auto view =
          roles_[m][axis].kind == axis_role::kinds::index ? view_in(seen, roles_[m][axis].number) : value_spread{};
      if (view.kind == value_spread::kinds::block) {
        set(n, axis, all_[n].structure.results[0][view.dimension].indices);
      }
    }
    return;
  }
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE bool is_transformer(const tensor::algebra& a, const graph_dimensions& all) {
  for (const auto n : node_ids(all)) {
    if (!all[n].inputs.empty() && detail::mixes_positions(a, all[n])) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE std::vector<strategy> megatron(const tensor::algebra& a, const tensor::tensor_graph& g,
                                            const graph_dimensions& all, const hardware::topology& t) {
  std::vector<hardware::device_id> devices;
  for (const auto& row : hardware::devices_by_node(t)) {
    devices.insert(devices.end(), row.begin(), row.end());
  }
  const auto count = static_cast<std::int64_t>(devices.size());
  std::vector<strategy> found;
  for (std::int64_t layers = 1; layers <= count; ++layers) {
    if (count % layers != 0) {
      continue;
    }
    hardware::device_mesh mesh{"", {}, devices};
    std::optional<std::size_t> sample_axis;
    std::optional<std::size_t> layer_axis;
    if (count / layers > 1 || count == 1) {
      sample_axis = 0;
      mesh.sizes.push_back(count / layers);
    }
    if (layers > 1) {
      layer_axis = mesh.sizes.size();
      mesh.sizes.push_back(layers);
    }
    detail::megatron_writer writer{a, g, all, std::move(mesh), sample_axis, layer_axis};
    auto s = writer.run();
    if (layers == 1 || writer.divides_heads()) {
      found.push_back(std::move(s));
    }
  }
  return found;
}

}  // namespace unity::parallel

#endif
