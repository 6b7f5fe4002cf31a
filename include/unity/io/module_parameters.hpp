// The parameters of modules, as a plan of operators has them: how each is divided, which of its gradients are partial
// sums, and which module reads it. Names are those of weights: "blocks.0.up.weight" is the parameter "weight" of the
// module "blocks.0.up". A final ".T" means that the graph has the parameter transposed.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <unity/io/module_cuts.hpp>
#include <unity/parallel/plan.hpp>
#include <unity/parallel/plan_placements.hpp>
#include <unity/parallel/training_graph.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io {

struct parameter_plan {
  std::string name{};
  parallel::tensor_placement layout{};
  tensor::shape dims{};                 // as the module has it
  std::vector<std::size_t> replicas{};  // mesh axes along which gradients are partial sums
  bool is_trained = true;
  bool is_sharded = false;         // each replica updates a shard (ZeRO)
  bool is_gathered_again = false;  // for the backward pass (stage 3); otherwise whole weights wait for it
  std::size_t reads = 0;           // operators that read it; each gathers its shares
  std::size_t reads_back = 0;      // of these, those whose backward pass reads it
  std::size_t sums = 0;            // for each read, the mesh axes along which its gradient is a partial sum; in all
  std::size_t share_of = 0;        // the dimension that is sharded
  std::size_t bucket = 0;          // of an all-reduce: parameters with the same number are reduced together
  bool is_of_convolution = false;
};

struct module_parameters {
  std::vector<parameter_plan> all{};
  std::map<std::size_t, std::string> modules{};  // as in module_operators
};

// By value: whether it depends on weights and constants alone, so it is not an activation.
[[nodiscard]] std::vector<bool> values_without_inputs(const tensor::algebra& a, const tensor::tensor_graph& g);

// `on` places the operators of a stage on its mesh.
// Throws: unity::error that names the operator or the weight that cannot be expressed, and the reason: weights that
// operators transform before modules read them, weights that are read in several layouts, two weights of one name, a
// weight of two modules in a pipeline, synchronization other than all-reduces and shards of whole weights, or shards
// together with micro-batches.
[[nodiscard]] module_parameters parameters_of(const tensor::algebra& a, const parallel::plan& p,
                                              const folded_stages& stages, const parallel::plan_placements& on,
                                              const parallel::training_graph& training);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_MODULE_PARAMETERS)

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/lowering/backward_reads.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::io {

UNITY_INLINE std::vector<bool> values_without_inputs(const tensor::algebra& a, const tensor::tensor_graph& g) {
  std::vector<bool> without(g.value_count());
  for (const auto n : node_ids(g)) {
    bool all = g.operation(n).kind != a.kind("input");
    for (const auto v : g.operands(n)) {
      all = all && without[v.index()];
    }
    for (const auto v : g.results(n)) {
      without[v.index()] = all;
    }
  }
  return without;
}

namespace detail {

using parallel::axis_kind;
using parallel::axis_use;
using parallel::tensor_placement;

inline constexpr std::string_view transposed_suffix = ".T";

UNITY_INLINE tensor_placement permuted(tensor_placement l, const std::vector<std::size_t>& to) {
  for (auto& use : l) {
    if (use.kind == axis_kind::split) {
      use.dimension = to[use.dimension];
    }
  }
  return l;
}

class parameter_finder {
 public:
  parameter_finder(const tensor::algebra& a, const parallel::plan& p, const folded_stages& stages,
                   const parallel::plan_placements& on, const parallel::training_graph& training)
      : a_{a},
        p_{p},
        g_{p.graph},
        folded_{stages},
        on_{on},
        training_{training},
        is_constant_{values_without_inputs(a, p.graph)} {}

  [[nodiscard]] module_parameters find();

 private:
  [[nodiscard]] std::string shown(node_id n) const { return shown_operator(a_, g_, n); }
  [[nodiscard]] bool is_weight(value_id v) const { return g_.operation(g_.producer(v)).kind == a_.kind("weight"); }
  void add_parameter(const parallel::weight_uses& w, std::size_t number);
  void synchronize(parameter_plan& one, std::size_t number) const;
  // Whether the backward pass of the operator, or of those that read its view of the weight, reads the weight.
  [[nodiscard]] bool is_read_back(node_id n, std::size_t operand) const;
  // By dimension of the result, the operand's dimension along which it runs (its rank for a dimension of one element).
  // None, unless the operator only rearranges dimensions or computes from each element, as 1 + w does.
  [[nodiscard]] std::optional<std::vector<std::size_t>> kept_dimensions(node_id n, std::size_t operand) const;
  [[nodiscard]] bool is_table(node_id n, std::size_t operand) const;
  // Whether the parameter is of two modules: a table, and a matrix for others. One of the modules has another name for
  // it, so their operators count as those without parameters.
  [[nodiscard]] bool is_of_two_modules(const parallel::weight_uses& w) const;
  // name_module: whether the operator is one of the module that the parameter's name says.
  void add_use(parameter_plan& one, node_id n, std::size_t operand, const std::vector<std::size_t>& order,
               bool name_module);
  // Finds gradients_.
  void find_gradients();
  // The layout of the gradient that this use gives, as in gradients_.
  [[nodiscard]] tensor_placement gradient_of_use(node_id n, std::size_t operand) const;
  // The layout of the gradient of an operand if the result's gradient has this one.
  [[nodiscard]] tensor_placement gradient_through(node_id n, std::size_t operand, value_id result) const;
  [[nodiscard]] std::optional<tensor::index_structure> indices_of(node_id n) const;

  const tensor::algebra& a_;
  const parallel::plan& p_;
  const tensor::tensor_graph& g_;
  const folded_stages& folded_;
  const parallel::plan_placements& on_;
  const parallel::training_graph& training_;
  std::vector<bool> is_constant_;
  // By value that depends on weights alone: the layout of its gradient in frameworks. They compute such a value on each
  // device, which has the gradient of what it reads of it, and pass on partial sums, which the plan may add up.
  std::vector<tensor_placement> gradients_{};
  module_parameters made_{};
};

UNITY_INLINE std::optional<std::vector<std::size_t>> parameter_finder::kept_dimensions(node_id n,
                                                                                       std::size_t operand) const {
  const auto& operands = g_.operands(n);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i != operand && (is_weight(operands[i]) || !g_.operands(g_.producer(operands[i])).empty())) {
      return std::nullopt;
    }
  }
  const auto structure = indices_of(n);
  if (!structure || structure->results.size() != 1) {
    return std::nullopt;
  }
  const auto& made = structure->results[0];
  const auto& read = structure->operands[operand];
  const auto is_one = [&](const tensor::dimension_index& d) {
    return std::all_of(d.indices.begin(), d.indices.end(),
                       [&](std::size_t i) { return structure->indices[i].size == 1; });
  };
  std::vector<std::size_t> kept(made.size(), read.size());
  for (std::size_t d = 0; d < made.size(); ++d) {
    const auto& indices = made[d].indices;
    const bool is_divisible = std::all_of(indices.begin(), indices.end(), [&](std::size_t i) {
      return structure->indices[i].kind == tensor::index_kind::parallel;
    });
    if (is_one(made[d])) {
      continue;
    }
    kept[d] = static_cast<std::size_t>(std::find(read.begin(), read.end(), made[d]) - read.begin());
    if (kept[d] == read.size() || !is_divisible) {
      return std::nullopt;
    }
  }
  for (std::size_t d = 0; d < read.size(); ++d) {
    if (!is_one(read[d]) && std::find(kept.begin(), kept.end(), d) == kept.end()) {
      return std::nullopt;  // a sum
    }
  }
  return kept;
}

UNITY_INLINE std::optional<tensor::index_structure> parameter_finder::indices_of(node_id n) const {
  std::vector<tensor::tensor_type> types;
  for (const auto v : g_.operands(n)) {
    types.push_back(g_.type(v));
  }
  return tensor::dimension_indices(a_, g_.operation(n), types);
}

// A module reads the parameter; or an operator reads it whose result, with the same elements or one computed from each,
// a module reads.
UNITY_INLINE void parameter_finder::add_use(parameter_plan& one, node_id n, std::size_t operand,
                                            const std::vector<std::size_t>& order, bool name_module) {
  const auto& layout = on_.nodes[n.index()];
  // A module may read rows of constant numbers, such as positions, or repeat a parameter for each sample.
  const bool is_constant = is_constant_[g_.results(n)[0].index()];
  if (is_constant && g_.operation(n).kind != a_.kind("expand") && !is_table(n, operand)) {
    auto through = kept_dimensions(n, operand);
    if (!through) {
      throw error{shown(n), fmt::format("computes with {} before a module reads it", one.name),
                  "weights that modules read as they are (`parallelize --keep-graph` merges none)"};
    }
    for (auto& d : *through) {
      d = d < order.size() ? order[d] : d;
    }
    for (const auto reader : node_ids(g_)) {
      for (std::size_t i = 0; i < g_.operands(reader).size(); ++i) {
        if (g_.operands(reader)[i] == g_.results(n)[0]) {
          if (on_.nodes[reader.index()].operands[i] != layout.results[0]) {
            throw error{shown(n), fmt::format("{} is divided in another way than {} reads it", one.name, shown(reader)),
                        "the same: modules send no weights"};
          }
          add_use(one, reader, i, *through, name_module);
        }
      }
    }
    return;
  }
  const auto as = permuted(layout.operands[operand], order);
  if (!one.layout.empty() && one.layout != as) {
    throw error{shown(n), fmt::format("reads {} divided in another way than another operator", one.name),
                "one layout for each parameter"};
  }
  one.layout = as;
  const auto& kind = a_.signature(g_.operation(n).kind).name;
  one.is_of_convolution = one.is_of_convolution || kind == "conv2d" || kind == "conv2d_transpose";
  if (!is_constant && name_module) {
    const auto dot = one.name.rfind('.');
    made_.modules[n.index()] = dot == std::string::npos ? std::string{} : one.name.substr(0, dot);
  }
}

UNITY_INLINE tensor_placement parameter_finder::gradient_through(node_id n, std::size_t operand,
                                                                 value_id result) const {
  auto gradient = gradients_[result.index()];
  const auto& results = g_.results(n);
  const auto which = static_cast<std::size_t>(std::find(results.begin(), results.end(), result) - results.begin());
  const auto structure = indices_of(n);
  for (auto& use : gradient) {
    if (use.kind != axis_kind::split) {
      continue;
    }
    const auto along = structure ? structure->results[which][use.dimension] : tensor::dimension_index{};
    const auto& read = structure ? structure->operands[operand] : tensor::tensor_indices{};
    const auto at = along.indices.empty() ? read.end() : std::find(read.begin(), read.end(), along);
    use = at == read.end() ? axis_use{axis_kind::sum, 0}  // each device has the gradient of other repetitions
                           : axis_use{axis_kind::split, static_cast<std::size_t>(at - read.begin())};
  }
  return gradient;
}

// Sets `to` to the layout of the sum of both: along each axis a partial sum if one of them is one, else divided if one
// of them is.
UNITY_INLINE void join_gradients(tensor_placement& to, const tensor_placement& from) {
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (to[axis].kind == axis_kind::whole || from[axis].kind == axis_kind::sum) {
      to[axis] = from[axis];
    }
  }
}

UNITY_INLINE tensor_placement parameter_finder::gradient_of_use(node_id n, std::size_t operand) const {
  const auto& layout = on_.nodes[n.index()];
  tensor_placement gradient(on_.mesh.axis_count(), axis_use{});
  if (layout.operands.empty()) {
    return gradient;  // of constants alone
  }
  for (const auto v : g_.results(n)) {
    join_gradients(gradient, is_constant_[v.index()] ? gradient_through(n, operand, v) : layout.operands[operand]);
  }
  auto summed = layout.cotangents[operand];
  for (auto& use : summed) {
    use = use.kind == axis_kind::sum ? use : axis_use{};
  }
  join_gradients(gradient, summed);
  return gradient;
}

UNITY_INLINE void parameter_finder::find_gradients() {
  gradients_.assign(g_.value_count(), tensor_placement(on_.mesh.axis_count(), axis_use{}));
  for (auto n = g_.node_count(); n-- > 0;) {
    const auto& operands = g_.operands(node_id{n});
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (is_constant_[operands[i].index()]) {
        join_gradients(gradients_[operands[i].index()], gradient_of_use(node_id{n}, i));
      }
    }
  }
}

UNITY_INLINE bool parameter_finder::is_table(node_id n, std::size_t operand) const {
  const auto kind = g_.operation(n).kind;
  return operand == 0 && (kind == a_.kind("gather") || kind == a_.kind("embedding"));
}

UNITY_INLINE bool parameter_finder::is_of_two_modules(const parallel::weight_uses& w) const {
  const auto tables =
      std::count_if(w.uses.begin(), w.uses.end(), [&](const auto& use) { return is_table(use.node, use.operand); });
  return tables != 0 && static_cast<std::size_t>(tables) != w.uses.size();
}

UNITY_INLINE bool parameter_finder::is_read_back(node_id n, std::size_t operand) const {
  const auto made = g_.results(n)[0];
  const auto& kind = a_.signature(g_.operation(n).kind).name;
  const bool is_view = kind == "transpose" || kind == "reshape" || kind == "squeeze" || kind == "unsqueeze";
  if (!is_constant_[made.index()] || !is_view) {
    const auto read = parallel::reads_of_adjoint(a_, g_, training_, n).operands;
    return !read.empty() && read[operand];
  }
  for (const auto reader : node_ids(g_)) {
    const auto& operands = g_.operands(reader);
    const auto at = std::find(operands.begin(), operands.end(), made);
    if (at != operands.end() && is_read_back(reader, static_cast<std::size_t>(at - operands.begin()))) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE void parameter_finder::synchronize(parameter_plan& one, std::size_t number) const {
  one.bucket = p_.synchronization.buckets.size() + number;
  if (p_.synchronization.weights.empty()) {
    return;
  }
  const auto& sync = p_.synchronization.weights[number];
  const auto& s = sync.parts.front();
  const bool is_plain = sync.parts.size() == 1 && s.compressor == parallel::compressor{} && !s.is_sparse;
  if (!is_plain || (s.kind != parallel::sync_kind::all_reduce && s.kind != parallel::sync_kind::sharded)) {
    throw error{fmt::format("synchronization of {}", one.name),
                is_plain ? std::string{parallel::sync_kind_names[static_cast<std::size_t>(s.kind)]}
                         : "parts, a compressor or sparse gradients",
                "all_reduce, alone or in a bucket, or sharded"};
  }
  one.is_sharded = s.kind == parallel::sync_kind::sharded && !one.replicas.empty() && !one.dims.empty();
  one.is_gathered_again = one.is_sharded && s.stage == 3 && s.is_resharded && one.reads_back != 0;
  if (s.bucket != parallel::synchronizer::no_bucket) {
    one.bucket = s.bucket;
  }
  const auto is_free = [&](std::size_t d) {
    return std::none_of(one.layout.begin(), one.layout.end(), [d](const axis_use& u) {
      return u == axis_use{axis_kind::split, d};
    });
  };
  if (one.is_sharded && p_.pipeline.microbatches > 1) {
    throw error{fmt::format("synchronization of {}", one.name), "sharded, with micro-batches",
                "all_reduce: modules gather shares for each micro-batch"};
  }
  while (one.is_sharded && !is_free(one.share_of)) {
    ++one.share_of;
  }
}

UNITY_INLINE void parameter_finder::add_parameter(const parallel::weight_uses& w, std::size_t number) {
  parameter_plan one;
  one.name = a_.read(g_.operation(g_.producer(w.value))).word("name");
  one.is_trained = w.is_trained;
  one.dims = g_.type(w.value).dims;
  const auto rank = one.dims.size();
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < rank; ++d) {
    order.push_back(d);
  }
  if (rank == 2 && one.name.ends_with(transposed_suffix)) {
    one.name.resize(one.name.size() - transposed_suffix.size());
    std::reverse(order.begin(), order.end());
    std::reverse(one.dims.begin(), one.dims.end());
  }
  const bool is_of_two = is_of_two_modules(w);
  if (is_of_two && folded_.groups.size() > 1) {
    throw error{fmt::format("parameter {}", one.name), "read as a table and as a matrix, in a pipeline",
                "a module for each parameter, as stages consist of modules"};
  }
  for (const auto& use : w.uses) {
    add_use(one, use.node, use.operand, order, !is_of_two);
    const auto gradient = gradient_of_use(use.node, use.operand);
    for (std::size_t axis = 0; axis < gradient.size(); ++axis) {
      if (gradient[axis].kind == axis_kind::sum) {
        ++one.sums;
        one.replicas.push_back(axis);
      }
    }
    ++one.reads;
    one.reads_back += is_read_back(use.node, use.operand) ? 1 : 0;
  }
  std::sort(one.replicas.begin(), one.replicas.end());
  one.replicas.erase(std::unique(one.replicas.begin(), one.replicas.end()), one.replicas.end());
  if (w.is_trained) {
    synchronize(one, number);
    if (one.is_sharded && one.share_of >= rank) {
      throw error{fmt::format("synchronization of {}", one.name), "sharded, and each dimension is divided already",
                  "a dimension that is whole"};
    }
  }
  if (!one.layout.empty()) {
    if (std::any_of(made_.all.begin(), made_.all.end(),
                    [&](const parameter_plan& other) { return other.name == one.name; })) {
      throw error{fmt::format("parameter {}", one.name), "two weights of this name, or one and its transposition",
                  "one of each name, read in one way"};
    }
    made_.all.push_back(std::move(one));
  }
}

UNITY_INLINE module_parameters parameter_finder::find() {
  find_gradients();
  for (std::size_t w = 0; w < training_.weights().size(); ++w) {
    add_parameter(training_.weights()[w], w);
  }
  return std::move(made_);
}

}  // namespace detail

UNITY_INLINE module_parameters parameters_of(const tensor::algebra& a, const parallel::plan& p,
                                             const folded_stages& stages, const parallel::plan_placements& on,
                                             const parallel::training_graph& training) {
  return detail::parameter_finder{a, p, stages, on, training}.find();
}

}  // namespace unity::io

#endif
