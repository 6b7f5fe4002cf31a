// The dimensions along which an operator can be divided among devices, derived from its definition, and the kinds of
// parallelism that correspond to them. Over 500 lines because each rule that excludes a division stands beside those
// that derive it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/index_types.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// sample: the first dimension of the result, unless it divides parameters. parameter: dividing it divides an operand
// that depends only on weights and constants (tensor_type::constant). attribute: any other dimension of the result.
// reduction: a dimension that results lack; parts add up.
enum class parallelism : std::uint8_t { sample, attribute, parameter, reduction };
inline constexpr std::array<std::string_view, 4> parallelism_names{"sample", "attribute", "parameter", "reduction"};

struct parallel_dimension {
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  parallelism kind = parallelism::sample;
  std::size_t dimension = none;        // of the first result
  std::vector<std::size_t> indices{};  // that run along it and can be divided, from outer to inner
  std::int64_t size = 1;               // their product, at least 2

  friend bool operator==(const parallel_dimension&, const parallel_dimension&) = default;
};

// The properties of an operator on given operands that determine how it can be divided.
struct operator_dimensions {
  tensor::operation op{};
  std::vector<tensor::tensor_type> inputs{};
  std::vector<tensor::tensor_type> outputs{};
  tensor::index_structure structure{};
  // Dimensions of every result; a configuration has a degree for each, in the order of the first result's dimensions.
  std::vector<parallel_dimension> divisible{};
  // Indices of size 2 or more that no result has and whose parts add up to the results. None if anything but sums
  // follows.
  std::vector<parallel_dimension> reductions{};
  // The maximal sets of operands in which the operator is jointly additive (tensor::linear_groups), except for
  // booleans.
  std::vector<std::vector<std::size_t>> groups{};
  // Per operand: whether it is added to the sums over `reductions`, like a bias, instead of being part of them.
  std::vector<bool> additive{};
};

namespace detail {

[[nodiscard]] bool has_index(const tensor::index_structure& s, const tensor::tensor_indices& dims, std::size_t index);
// The first dimension with the index; nothing if there is none.
[[nodiscard]] std::optional<std::int64_t> dimension_with(const tensor::index_structure& s,
                                                         const tensor::tensor_indices& dims, std::size_t index);

[[nodiscard]] bool is_of_all_results(const tensor::index_structure& s, std::size_t index);

[[nodiscard]] bool divides_parameters(const operator_dimensions& o, std::span<const std::size_t> indices);

// Whether the window at some position of the index contains only padding, so that a part could read no element.
[[nodiscard]] bool reads_only_padding(const tensor::index_structure& s, std::size_t index);

// Whether the operator accepts parts along the index. The body of a composite does not tell what its attributes and its
// check of types require, such as whole blocks of pixels, or equal sizes of an operand that the body does not read.
[[nodiscard]] bool accepts_parts(const tensor::algebra& a, const operator_dimensions& o, std::size_t index);

// The outer indices of a dimension that can be divided; indices of size 1 are skipped.
[[nodiscard]] std::optional<parallel_dimension> divisible_part(const operator_dimensions& o, std::size_t d);

// Operands that every linear group has and that are outside of a primitive's sum.
[[nodiscard]] std::vector<bool> additive_operands(const tensor::algebra& a, const tensor::operation& op,
                                                  std::span<const tensor::tensor_type> inputs,
                                                  const std::vector<std::vector<std::size_t>>& groups);

// Whether parts of the sum over an index add up to the results. False for a composite that has an operand in every
// group without the index: it is unknown whether that operand is inside of the sum.
[[nodiscard]] bool adds_up(const tensor::algebra& a, const operator_dimensions& o, std::size_t index);

// Per value: whether it depends on a weight and on nothing that changes from run to run.
[[nodiscard]] std::vector<bool> parameters_of(const tensor::algebra& a, const tensor::tensor_graph& g);

}  // namespace detail

// The dimensions of an operator on operands of these types; nothing if it does not accept them. An operator without
// operands has no divisible dimensions: it does no work.
// Complexity: as tensor::dimension_indices.
// Source: Jia's dissertation (2020), section 3.3 and table 3.1, for any definition.
[[nodiscard]] std::optional<operator_dimensions> dimensions_of(const tensor::algebra& a, const tensor::operation& op,
                                                               std::span<const tensor::tensor_type> inputs);

// Caches dimensions_of by operator and operand types. Threads may call `of` at the same time. Copying, moving or
// assigning a cache gives an empty one and leaves the source unchanged; results are shared and outlive the cache.
class dimension_cache {
 public:
  dimension_cache() = default;
  dimension_cache(const dimension_cache&) {}
  dimension_cache(dimension_cache&&) noexcept {}
  dimension_cache& operator=(const dimension_cache& o);
  dimension_cache& operator=(dimension_cache&& o) noexcept;
  ~dimension_cache() = default;

  // Null if the operator does not accept the operands.
  // Complexity: as dimensions_of the first time, then a lookup.
  [[nodiscard]] std::shared_ptr<const operator_dimensions> of(const tensor::algebra& a, const tensor::operation& op,
                                                              std::span<const tensor::tensor_type> inputs);

 private:
  struct key {
    tensor::operation op{};
    std::vector<tensor::tensor_type> inputs{};

    friend bool operator==(const key&, const key&) = default;
  };
  struct key_hash {
    std::size_t operator()(const key& k) const noexcept;
  };

  std::mutex mutex_{};
  std::unordered_map<key, std::shared_ptr<const operator_dimensions>, key_hash> known_{};
};

// How the results of an operator depend on the samples. apart: not at all. by_sample: each sample has its own part, or
// this is unknown. of_all: reduced over the batch, as means over a batch are.
enum class sample_role : std::uint8_t { apart, by_sample, of_all };

// The dimensions of every operator of a graph; equal operators on equal types share one entry. Types are those of the
// graph, except that constant values count as constant only if they depend on a weight: an initial state of zeros is no
// parameter. A value type.
class graph_dimensions {
 public:
  graph_dimensions() = default;
  // Complexity: linear in the graph, and dimensions_of for each distinct operator.
  graph_dimensions(const tensor::algebra& a, const tensor::tensor_graph& g);
  // Complexity: linear in the graph, and dimensions_of for each operator that is not in the cache yet.
  graph_dimensions(const tensor::algebra& a, const tensor::tensor_graph& g, dimension_cache& cache);

  [[nodiscard]] std::size_t node_count() const noexcept { return kind_of_.size(); }
  [[nodiscard]] std::size_t kind_count() const noexcept { return kinds_.size(); }
  // The number of a node's operator among the distinct operators.
  [[nodiscard]] std::uint32_t kind(node_id n) const { return kind_of_[n.index()]; }
  [[nodiscard]] const operator_dimensions& operator[](node_id n) const { return *kinds_[kind_of_[n.index()]]; }
  // Samples are along the first dimension of inputs, and of values that keep it.
  [[nodiscard]] sample_role role(node_id n) const { return roles_[n.index()]; }
  // The index in `reductions` of the node's sum over samples, if it has one.
  [[nodiscard]] std::optional<std::size_t> sum_over_samples(node_id n) const {
    return sums_[n.index()] == none ? std::nullopt : std::optional{sums_[n.index()]};
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  void find_roles(const tensor::algebra& a, const tensor::tensor_graph& g);
  // The reduction over the first dimension of an operand.
  [[nodiscard]] static std::size_t reduction_of_first(const operator_dimensions& o, std::size_t operand);

  std::vector<std::shared_ptr<const operator_dimensions>> kinds_{};
  std::vector<std::uint32_t> kind_of_{};  // per node
  std::vector<sample_role> roles_{};      // per node
  std::vector<std::size_t> sums_{};       // per node: a reduction, or none
};

// data: samples. model: an index that divides weights. spatial: another dimension of results, such as the rows of
// images. reduction: parts of a sum. special: an index of particular operators, such as the heads of attention and the
// batch of batched matrix products. placement: no index; operators run side by side on their own devices, or all on
// some of the devices. pipeline: no index either; stages work on different samples at a time.
// Source: Unger et al., Unity (OSDI 2022), section 2.1.
enum class index_use : std::uint8_t { data, model, spatial, reduction, special, placement, pipeline };
inline constexpr std::array<std::string_view, 7> index_use_names{"data",    "model",     "spatial", "reduction",
                                                                 "special", "placement", "pipeline"};

// A bit set: bit k stands for the k-th index_use.
using index_uses = std::uint32_t;
inline constexpr index_uses all_index_uses = 127;

[[nodiscard]] constexpr bool has(index_uses set, index_use use) noexcept {
  return (set >> static_cast<unsigned>(use) & 1U) != 0;
}

[[nodiscard]] index_use use_of(const tensor::algebra& a, const operator_dimensions& o, std::size_t index);

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_DIMENSIONS)

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/core/error.hpp>
#include <unity/core/hash.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/convert.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel::detail {

UNITY_INLINE bool has_index(const tensor::index_structure& s, const tensor::tensor_indices& dims, std::size_t index) {
  return std::any_of(dims.begin(), dims.end(), [&](const tensor::dimension_index& d) {
    return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end() ||
           (d.window && s.windows[*d.window].outer == static_cast<int>(index));
  });
}

UNITY_INLINE std::optional<std::int64_t> dimension_with(const tensor::index_structure& s,
                                                        const tensor::tensor_indices& dims, std::size_t index) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (has_index(s, {dims[d]}, index)) {
      return static_cast<std::int64_t>(d);
    }
  }
  return std::nullopt;
}

UNITY_INLINE bool is_of_all_results(const tensor::index_structure& s, std::size_t index) {
  return std::all_of(s.results.begin(), s.results.end(), [&](const auto& dims) {
    return std::any_of(dims.begin(), dims.end(), [&](const tensor::dimension_index& d) {
      return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end();
    });
  });
}

UNITY_INLINE bool divides_parameters(const operator_dimensions& o, std::span<const std::size_t> indices) {
  for (std::size_t i = 0; i < o.inputs.size(); ++i) {
    for (const auto index : indices) {
      if (o.inputs[i].constant && has_index(o.structure, o.structure.operands[i], index)) {
        return true;
      }
    }
  }
  return false;
}

UNITY_INLINE bool reads_only_padding(const tensor::index_structure& s, std::size_t index) {
  return std::any_of(s.windows.begin(), s.windows.end(), [&](const tensor::window& w) {
    const auto taps = w.inner < 0 ? 1 : s.indices[static_cast<std::size_t>(w.inner)].size;
    return w.outer == static_cast<int>(index) &&
           (w.before > (taps - 1) * w.dilation || (s.indices[index].size - 1) * w.stride - w.before >= w.extent);
  });
}

UNITY_INLINE bool accepts_parts(const tensor::algebra& a, const operator_dimensions& o, std::size_t index) {
  if (!std::holds_alternative<tensor::composite>(a.definition_of(o.op.kind).body)) {
    return true;
  }
  const auto size = o.structure.indices[index].size;
  std::int64_t parts = 2;  // the least degree
  while (size % parts != 0) {
    parts = parts > size / parts ? size : parts + 1;
  }
  tensor::resizing r{o.op, o.inputs, o.outputs, {}, {}, {}, {}};
  const auto divided = [&](const tensor::tensor_indices& dims, tensor::tensor_type t) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      t.dims[d] /= has_index(o.structure, {dims[d]}, index) ? parts : 1;
    }
    return t;
  };
  std::vector<tensor::tensor_type> inputs;
  for (std::size_t x = 0; x < o.inputs.size(); ++x) {
    inputs.push_back(divided(o.structure.operands[x], o.inputs[x]));
    r.new_inputs.push_back(inputs.back().dims);
  }
  std::vector<tensor::tensor_type> outputs;
  for (std::size_t x = 0; x < o.outputs.size(); ++x) {
    outputs.push_back(divided(o.structure.results[x], o.outputs[x]));
    r.new_outputs.push_back(outputs.back().dims);
  }
  return a.infer(tensor::resized_part(a, r), inputs) == outputs;
}

UNITY_INLINE std::optional<parallel_dimension> divisible_part(const operator_dimensions& o, std::size_t d) {
  parallel_dimension p;
  p.dimension = d;
  for (const auto i : o.structure.results[0][d].indices) {
    const auto& index = o.structure.indices[i];
    if (index.size == 1) {
      continue;
    }
    // The result is repeated along an index that no operand has: a task could not tell its part from its operands.
    const bool is_repeated = !o.inputs.empty() && std::ranges::none_of(o.structure.operands, [&](const auto& dims) {
      return has_index(o.structure, dims, i);
    });
    if (index.kind != tensor::index_kind::parallel || is_repeated || !is_of_all_results(o.structure, i)) {
      break;
    }
    p.indices.push_back(i);
    p.size *= index.size;
  }
  if (p.indices.empty()) {
    return std::nullopt;
  }
  p.kind = divides_parameters(o, p.indices) ? parallelism::parameter
           : d == 0                         ? parallelism::sample
                                            : parallelism::attribute;
  return p;
}

UNITY_INLINE std::vector<bool> additive_operands(const tensor::algebra& a, const tensor::operation& op,
                                                 std::span<const tensor::tensor_type> inputs,
                                                 const std::vector<std::vector<std::size_t>>& groups) {
  std::vector<bool> additive(inputs.size(), !groups.empty());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const auto& g : groups) {
      additive[i] = additive[i] && std::find(g.begin(), g.end(), i) != g.end();
    }
  }
  if (const auto* p = std::get_if<tensor::primitive>(&a.definition_of(op.kind).body); p != nullptr && !groups.empty()) {
    for (const auto& i : p->kernel(a.read(op), inputs).inner) {
      if (i.op == tensor::scalar_op::operand) {
        additive[static_cast<std::size_t>(i.number)] = false;
      }
    }
  }
  return additive;
}

UNITY_INLINE bool adds_up(const tensor::algebra& a, const operator_dimensions& o, std::size_t index) {
  if (o.groups.empty()) {
    return false;
  }
  const bool is_primitive = std::holds_alternative<tensor::primitive>(a.definition_of(o.op.kind).body);
  for (std::size_t i = 0; i < o.inputs.size() && !is_primitive; ++i) {
    if (o.additive[i] && !has_index(o.structure, o.structure.operands[i], index)) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE std::vector<bool> parameters_of(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto weight = a.kind("weight");
  std::vector<bool> all(g.value_count());
  for (const auto n : node_ids(g)) {
    bool any = g.operation(n).kind == weight;
    for (const auto v : g.operands(n)) {
      any = any || all[v.index()];
    }
    for (const auto v : g.results(n)) {
      all[v.index()] = any && g.type(v).constant;
    }
  }
  return all;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<operator_dimensions> dimensions_of(const tensor::algebra& a, const tensor::operation& op,
                                                              std::span<const tensor::tensor_type> inputs) {
  auto outputs = a.infer(op, inputs);
  auto structure = outputs ? tensor::dimension_indices(a, op, inputs) : std::nullopt;
  if (!structure) {
    return std::nullopt;
  }
  operator_dimensions o{op, {inputs.begin(), inputs.end()}, std::move(*outputs), std::move(*structure), {}, {}, {}, {}};
  if (inputs.empty()) {
    return o;
  }
  for (std::size_t i = 0; i < o.structure.indices.size(); ++i) {
    auto& index = o.structure.indices[i];
    const bool divides = index.kind == tensor::index_kind::parallel || index.kind == tensor::index_kind::reduction;
    if (divides && index.size > 1 && (detail::reads_only_padding(o.structure, i) || !detail::accepts_parts(a, o, i))) {
      index.kind = tensor::index_kind::whole;
    }
  }
  for (std::size_t d = 0; d < o.structure.results[0].size(); ++d) {
    if (auto p = detail::divisible_part(o, d)) {
      o.divisible.push_back(std::move(*p));
    }
  }
  o.groups = tensor::linear_groups(a, op, inputs);
  std::erase_if(o.groups, [&](const auto& group) {  // booleans are not sums, although moving them is linear
    return std::any_of(group.begin(), group.end(), [&](auto x) { return inputs[x].element == tensor::dtype::boolean; });
  });
  o.additive = detail::additive_operands(a, op, inputs, o.groups);
  for (std::size_t i = 0; i < o.structure.indices.size(); ++i) {
    const auto& index = o.structure.indices[i];
    if (index.kind == tensor::index_kind::reduction && index.size > 1 && detail::adds_up(a, o, i)) {
      o.reductions.push_back({parallelism::reduction, parallel_dimension::none, {i}, index.size});
    }
  }
  return o;
}

UNITY_INLINE dimension_cache& dimension_cache::operator=(const dimension_cache& o) {
  if (this != &o) {
    known_.clear();
  }
  return *this;
}

UNITY_INLINE dimension_cache& dimension_cache::operator=(dimension_cache&& o) noexcept {
  if (this != &o) {
    known_.clear();
  }
  return *this;
}

UNITY_INLINE std::shared_ptr<const operator_dimensions> dimension_cache::of(
    const tensor::algebra& a, const tensor::operation& op, std::span<const tensor::tensor_type> inputs) {
  key k{op, {inputs.begin(), inputs.end()}};
  const std::scoped_lock lock{mutex_};
  auto found = known_.find(k);
  if (found == known_.end()) {
    auto made = dimensions_of(a, op, inputs);
    auto kept = made ? std::make_shared<const operator_dimensions>(std::move(*made)) : nullptr;
    found = known_.emplace(std::move(k), std::move(kept)).first;
  }
  return found->second;
}

UNITY_INLINE std::size_t dimension_cache::key_hash::operator()(const key& k) const noexcept {
  auto h = std::hash<tensor::operation>{}(k.op);
  for (const auto& t : k.inputs) {
    h = hash_combine(h, std::hash<tensor::tensor_type>{}(t));
  }
  return h;
}

UNITY_INLINE graph_dimensions::graph_dimensions(const tensor::algebra& a, const tensor::tensor_graph& g) {
  dimension_cache own;
  *this = graph_dimensions{a, g, own};
}

UNITY_INLINE graph_dimensions::graph_dimensions(const tensor::algebra& a, const tensor::tensor_graph& g,
                                                dimension_cache& cache) {
  std::unordered_map<const operator_dimensions*, std::uint32_t> numbers;  // of the entries of kinds_
  const auto parameters = detail::parameters_of(a, g);
  std::vector<tensor::tensor_type> inputs;
  for (const auto n : node_ids(g)) {
    inputs.clear();
    for (const auto v : g.operands(n)) {
      inputs.push_back(g.type(v));
      inputs.back().constant = parameters[v.index()];
    }
    auto o = cache.of(a, g.operation(n), inputs);
    if (o == nullptr) {
      throw error{fmt::format("node {}", n.index()), "operands that its operator does not take",
                  a.why_not(g.operation(n), inputs)};
    }
    const auto [number, is_new] = numbers.emplace(o.get(), static_cast<std::uint32_t>(kinds_.size()));
    kind_of_.push_back(number->second);
    if (is_new) {
      kinds_.push_back(std::move(o));
    }
  }
  find_roles(a, g);
}

UNITY_INLINE void graph_dimensions::find_roles(const tensor::algebra& a, const tensor::tensor_graph& g) {
  const auto input = a.kind("input");
  roles_.assign(g.node_count(), sample_role::apart);
  sums_.assign(g.node_count(), none);
  for (const auto n : node_ids(g)) {
    auto& role = roles_[n.index()];
    role = g.operation(n).kind == input ? sample_role::by_sample : role;
    const auto& o = *kinds_[kind_of_[n.index()]];
    for (std::size_t i = 0; i < o.inputs.size() && role != sample_role::by_sample; ++i) {
      const auto from = roles_[g.producer(g.operands(n)[i]).index()];
      role = from == sample_role::of_all ? from : role;
      if (from == sample_role::by_sample) {
        sums_[n.index()] = reduction_of_first(o, i);
        role = sums_[n.index()] == none ? from : sample_role::of_all;
      }
    }
    sums_[n.index()] = role == sample_role::of_all ? sums_[n.index()] : none;
  }
}

UNITY_INLINE std::size_t graph_dimensions::reduction_of_first(const operator_dimensions& o, std::size_t operand) {
  const auto& dims = o.structure.operands[operand];
  for (std::size_t r = 0; r < o.reductions.size() && !dims.empty() && !dims[0].indices.empty(); ++r) {
    if (o.reductions[r].indices[0] == dims[0].indices[0]) {
      return r;
    }
  }
  return none;
}

UNITY_INLINE index_use use_of(const tensor::algebra& a, const operator_dimensions& o, std::size_t index) {
  const auto& s = o.structure;
  const bool is_primitive = std::holds_alternative<tensor::primitive>(a.definition_of(o.op.kind).body);
  if (s.indices[index].kind == tensor::index_kind::reduction) {
    return is_primitive ? index_use::reduction : index_use::special;
  }
  const auto is_at = [&](const tensor::dimension_index& d) {
    return std::find(d.indices.begin(), d.indices.end(), index) != d.indices.end();
  };
  const auto& result = s.results[0];
  const auto at = static_cast<std::size_t>(std::find_if(result.begin(), result.end(), is_at) - result.begin());
  if (detail::divides_parameters(o, {&index, 1})) {
    return index_use::model;
  }
  if (at == 0) {
    return index_use::data;
  }
  // An index of all operands and results of an operator that sums over another index: a batch of problems.
  const bool is_batch =
      !o.reductions.empty() && std::all_of(s.operands.begin(), s.operands.end(),
                                           [&](const auto& dims) { return detail::has_index(s, dims, index); });
  return is_batch ? index_use::special : index_use::spatial;
}

}  // namespace unity::parallel

#endif
