// Constant folding: computes subgraphs that depend only on weights and constants once and stores the results in the
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

namespace detail {

class constant_folder {
 public:
  constant_folder(const tensor::algebra& algebra, onnx_model model, std::int64_t most_elements)
      : algebra_{&algebra}, model_{std::move(model)}, most_elements_{most_elements} {}

  onnx_model run() &&;

 private:
  static constexpr std::int64_t slack = 4096;  // bytes; shorter lists of nodes and names compensate for this growth
  // A subgraph of constants whose weights no other group reads. It is folded as a whole, or stays as it is.
  struct group {
    std::vector<value_id> results{};  // values that non-constant nodes read
    std::int64_t growth = 0;          // bytes by which the file grows if it is folded
  };
  // Sources with data or fixed values, and nodes computed only from those.
  [[nodiscard]] bool is_computable(node_id n) const;
  // Whether an open size occurs in the node's result types or, unless it is a source, in its attributes.
  [[nodiscard]] bool has_open_size(node_id n) const;
  [[nodiscard]] bool is_operator(node_id n) const { return !model_.graph.operands(n).empty(); }
  // The data of a source; null if it has none that is the same for all sizes.
  [[nodiscard]] const tensor_data* data_of(node_id n) const;
  void find_computable();
  [[nodiscard]] std::vector<group> groups() const;
  // Effects: folds groups in ascending order of growth, as long as the data exceeds the model's by at most the slack.
  void choose();
  // False if a node computes with integers that double cannot hold: such nodes are no longer computable then.
  [[nodiscard]] bool compute();
  void compute(node_id n, std::vector<std::size_t>& uses);
  // Computes one operator in Number and rounds its results to their element types, as engines do after each operator.
  // Keeping a chain of operators in double would change integers that are computed from real numbers, such as buckets
  // of positions.
  template <class Number>
  void compute_in(node_id n);
  void copy(node_id n, tensor::tensor_graph& to, std::vector<value_id>& moved);
  value_id store(value_id v, tensor::tensor_graph& to);
  // A source with that data; reuses the name of a source with the same data, if one exists.
  value_id add_source(std::string_view kind, std::string_view name, const tensor_data& data,
                      const tensor::tensor_type& type, tensor::tensor_graph& to);

  const tensor::algebra* algebra_;
  onnx_model model_;
  std::int64_t most_elements_;
  std::vector<char> computable_{};     // by node
  std::vector<char> inexact_{};        // by node: computes with integers beyond 2^53
  std::vector<char> wanted_{};         // by value: an output, or read by a node that is not computable
  std::vector<char> folded_{};         // by value
  std::vector<char> needed_{};         // by node: something that is folded depends on it
  std::vector<tensor_data> values_{};  // by value, if needed
  // Names of written sources, by kind and hash of the content.
  std::multimap<std::pair<std::string, std::size_t>, std::string> written_{};
  std::size_t next_ = 0;
};

}  // namespace detail

// The model with constant subgraphs replaced by their values, and equal tensors under one name. Weights without data
// stay as they are, with everything that depends on them. So do subgraphs whose values would increase the data of the
// model by more than 4 KiB, such as a transposed table that is also read untransposed: engines compute them when they
// load a file. Quantize and dequantize also stay, and what computes with integers of 2^53 and more.
// Throws: unity::error if a constant subgraph computes NaN. Complexity: one reference evaluation of each constant
// subgraph, a node at a time.
[[nodiscard]] inline onnx_model fold_constants(const tensor::algebra& algebra, onnx_model model,
                                               std::int64_t most_elements = std::int64_t{1} << 28) {
  return detail::constant_folder{algebra, std::move(model), most_elements}.run();
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOLD_CONSTANTS)

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/onnx/prune.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx_model constant_folder::run() && {
  const auto& g = model_.graph;
  inexact_.assign(g.node_count(), 0);
  do {
    find_computable();
    choose();
  } while (!compute());
  tensor::tensor_graph result;
  std::vector<value_id> moved(g.value_count());
  std::vector<node_id> origins;
  for (const auto n : node_ids(g)) {
    copy(n, result, moved);
    const bool is_new = std::ranges::any_of(g.results(n), [&](value_id v) { return folded_[v.index()] != 0; });
    origins.resize(result.node_count(), is_new ? node_id{} : n);
  }
  std::vector<value_id> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(moved[v.index()]);
  }
  result.set_outputs(outputs);
  model_.graph = std::move(result);
  model_.labels = stayed_labels(model_.labels, origins);
  prune(*algebra_, model_);
  return std::move(model_);
}

UNITY_INLINE const tensor_data* constant_folder::data_of(node_id n) const {
  const auto& op = model_.graph.operation(n);
  if (algebra_->definition_of(op.kind).source == tensor::source_kind::none) {
    return nullptr;
  }
  const auto found = model_.data.find(algebra_->read(op).word("name"));
  const bool is_fixed = found != model_.data.end() && !model_.defaults.contains(found->first) &&
                        !model_.open.computed.contains(found->first) && !has_open_size(n);
  return is_fixed ? &found->second : nullptr;
}

UNITY_INLINE bool constant_folder::is_computable(node_id n) const {
  const auto& g = model_.graph;
  const auto& definition = algebra_->definition_of(g.operation(n).kind);
  if (definition.source != tensor::source_kind::none) {
    return data_of(n) != nullptr;
  }
  // Engines look for these next to products, which they then run with integers.
  const bool is_mark = definition.signature.name == "quantize" || definition.signature.name == "dequantize";
  bool all = !is_mark && inexact_[n.index()] == 0 && !std::holds_alternative<tensor::opaque>(definition.body) &&
             !has_open_size(n);
  for (const auto v : g.operands(n)) {
    all = all && computable_[g.producer(v).index()] != 0;
  }
  for (const auto v : g.results(n)) {
    all = all && g.type(v).constant && tensor::element_count(g.type(v).dims) <= most_elements_;
  }
  return all;
}

UNITY_INLINE bool constant_folder::has_open_size(node_id n) const {
  const auto& g = model_.graph;
  const auto& open = model_.open;
  const auto any_open = [&](const auto& numbers) {
    return std::any_of(numbers.begin(), numbers.end(), [&](auto number) { return open.is_open(number); });
  };
  if (open.empty()) {
    return false;
  }
  bool any = false;
  for (const auto v : g.results(n)) {
    any = any || any_open(g.type(v).dims);
  }
  const bool is_source = algebra_->definition_of(g.operation(n).kind).source != tensor::source_kind::none;
  const auto& op = g.operation(n);
  const auto& fields = algebra_->signature(op.kind).attributes;
  for (std::size_t i = 0; !is_source && i < fields.size() && i < op.attributes.size(); ++i) {
    const bool is_number = fields[i].form == attribute_form::integer || fields[i].form == attribute_form::integers;
    any = any || (is_number && any_open(op.attributes[i]));
  }
  return any;
}

UNITY_INLINE void constant_folder::find_computable() {
  const auto& g = model_.graph;
  computable_.assign(g.node_count(), 0);
  wanted_.assign(g.value_count(), 0);
  for (const auto n : node_ids(g)) {
    computable_[n.index()] = is_computable(n) ? 1 : 0;
    for (const auto v : g.operands(n)) {
      wanted_[v.index()] = wanted_[v.index()] != 0 || computable_[n.index()] == 0 ? 1 : 0;
    }
  }
  for (const auto v : g.outputs()) {
    wanted_[v.index()] = 1;
  }
}

UNITY_INLINE auto constant_folder::groups() const -> std::vector<group> {
  constexpr std::int64_t node_bytes = 64;  // the least size of a node in a file
  const auto& g = model_.graph;
  std::vector<std::size_t> parent(g.node_count());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto find = [&](std::size_t n) {
    while (parent[n] != n) {
      n = parent[n] = parent[parent[n]];
    }
    return n;
  };
  std::map<const tensor_data*, std::size_t> first;  // node of each tensor
  std::set<const tensor_data*> kept;                // that other nodes read
  for (const auto n : node_ids(g)) {
    if (computable_[n.index()] == 0) {
      continue;
    }
    if (const auto* data = data_of(n)) {
      parent[n.index()] = first.try_emplace(data, n.index()).first->second;
      if (wanted_[g.results(n)[0].index()] != 0) {
        kept.insert(data);
      }
    }
    for (const auto v : g.operands(n)) {
      const auto from = g.producer(v);
      if (is_operator(from) || data_of(from) != nullptr) {  // filled data have no owner
        parent[find(from.index())] = find(n.index());
      }
    }
  }
  std::map<std::size_t, group> all;
  for (const auto n : node_ids(g)) {
    if (computable_[n.index()] == 0 || !is_operator(n)) {
      continue;
    }
    auto& to = all[find(n.index())];
    to.growth -= node_bytes;
    for (const auto v : g.results(n)) {
      if (wanted_[v.index()] != 0) {
        to.results.push_back(v);
        to.growth += tensor::element_count(g.type(v).dims) * tensor::size_of(g.type(v).element);
      }
    }
  }
  for (const auto& [data, n] : first) {
    const auto to = all.find(find(n));
    if (to != all.end() && !kept.contains(data)) {
      to->second.growth -= static_cast<std::int64_t>(data->bytes.size());
    }
  }
  std::vector<group> list;
  for (auto& [root, one] : all) {
    if (!one.results.empty()) {
      list.push_back(std::move(one));
    }
  }
  return list;
}

UNITY_INLINE void constant_folder::choose() {
  const auto& g = model_.graph;
  std::set<const tensor_data*> read;
  for (const auto n : node_ids(g)) {
    if (const auto* data = data_of(n)) {
      read.insert(data);
    }
  }
  std::int64_t left = slack;  // plus the bytes of data that no source reads: writing the model drops them
  for (const auto& [name, data] : model_.data) {
    left += read.contains(&data) || model_.defaults.contains(name) ? 0 : static_cast<std::int64_t>(data.bytes.size());
  }
  auto all = groups();
  std::ranges::sort(all, {}, [](const group& one) { return std::pair{one.growth, one.results.front()}; });
  folded_.assign(g.value_count(), 0);
  for (const auto& one : all) {
    if (one.growth > 0 && one.growth > left) {
      break;
    }
    left -= one.growth;
    for (const auto v : one.results) {
      folded_[v.index()] = 1;
    }
  }
}

// Whether double holds all elements exactly.
UNITY_INLINE bool fits_double(const tensor_data& data) {
  if (data.element != tensor::dtype::int64) {
    return true;
  }
  constexpr auto most = std::int64_t{1} << 53U;
  const auto all = elements_of<std::int64_t>(data);
  return std::ranges::all_of(all, [](std::int64_t x) { return -most < x && x < most; });
}

UNITY_INLINE bool constant_folder::compute() {
  const auto& g = model_.graph;
  needed_.assign(g.node_count(), 0);
  std::vector<std::size_t> uses(g.value_count(), 0);
  for (std::size_t i = g.node_count(); i-- > 0;) {
    for (const auto v : g.results(node_id{i})) {
      needed_[i] = needed_[i] != 0 || uses[v.index()] > 0 || folded_[v.index()] != 0 ? 1 : 0;
    }
    for (const auto v : needed_[i] != 0 ? g.operands(node_id{i}) : std::span<const value_id>{}) {
      ++uses[v.index()];
    }
  }
  values_.assign(g.value_count(), {});
  bool is_exact = true;
  for (const auto n : node_ids(g)) {
    if (needed_[n.index()] != 0) {
      compute(n, uses);
      is_exact = is_exact && inexact_[n.index()] == 0;
    }
  }
  return is_exact;
}

UNITY_INLINE void constant_folder::compute(node_id n, std::vector<std::size_t>& uses) {
  const auto& g = model_.graph;
  if (const auto* data = data_of(n)) {
    values_[g.results(n)[0].index()] = *data;
    return;
  }
  const auto is_inexact = [&](value_id v) { return !fits_double(values_[v.index()]); };
  inexact_[n.index()] = std::ranges::any_of(g.operands(n), is_inexact) ? 1 : 0;
  const auto is_float = [&](value_id v) { return g.type(v).element == tensor::dtype::float32; };
  const bool moves = std::holds_alternative<tensor::view>(algebra_->definition_of(g.operation(n).kind).body);
  if (moves && std::ranges::all_of(g.operands(n), is_float) && std::ranges::all_of(g.results(n), is_float)) {
    compute_in<float>(n);
  } else {
    compute_in<double>(n);
  }
  if (std::ranges::any_of(g.results(n), is_inexact)) {
    inexact_[n.index()] = 1;
  }
  for (const auto v : g.operands(n)) {
    if (--uses[v.index()] == 0 && folded_[v.index()] == 0) {
      values_[v.index()] = {};
    }
  }
}

template <class Number>
void constant_folder::compute_in(node_id n) {
  const auto& g = model_.graph;
  std::vector<std::vector<Number>> inputs;
  std::vector<const Number*> operands;
  std::vector<tensor::tensor_type> types;
  for (const auto v : g.operands(n)) {
    inputs.push_back(elements_of<Number>(values_[v.index()]));
    operands.push_back(inputs.back().data());
    types.push_back(g.type(v));
  }
  auto results = tensor::evaluate_at<Number>(*algebra_, g.operation(n), operands, types, 0);
  for (std::size_t r = 0; r < results.size(); ++r) {
    const auto v = g.results(n)[r];
    values_[v.index()] = make_data(g.type(v).element, results[r].dims, results[r].data);
    results[r] = {};
  }
}

UNITY_INLINE void constant_folder::copy(node_id n, tensor::tensor_graph& to, std::vector<value_id>& moved) {
  const auto& g = model_.graph;
  const auto results = g.results(n);
  const bool is_output = std::ranges::find(g.outputs(), results[0]) != g.outputs().end();
  if (const auto* data = data_of(n); data != nullptr && !is_output) {
    const auto& op = g.operation(n);
    moved[results[0].index()] =
        add_source(algebra_->signature(op.kind).name, algebra_->read(op).word("name"), *data, g.type(results[0]), to);
    return;
  }
  if (!std::ranges::all_of(results, [&](value_id v) { return folded_[v.index()] != 0; })) {
    copy_node(g, n, to, moved);  // pruned if unused
  }
  for (const auto v : results) {
    if (folded_[v.index()] != 0) {
      moved[v.index()] = store(v, to);
    }
  }
}

UNITY_INLINE value_id constant_folder::store(value_id v, tensor::tensor_graph& to) {
  constexpr std::size_t few_elements = 16;       // for a constant in a node
  constexpr std::size_t most_filled = 16 << 10;  // bytes above which a node that fills them pays off
  const auto& g = model_.graph;
  auto type = g.type(v);
  type.order = tensor::layout::row_major;
  auto data = std::move(values_[v.index()]);
  if (find_nan(data)) {
    const auto node = g.producer(v);
    throw error{fmt::format("node {} ({})", node.index(), algebra_->signature(g.operation(node).kind).name),
                "computes NaN from weights alone", "numbers"};
  }
  const auto size = static_cast<std::size_t>(tensor::size_of(data.element));
  const auto& bytes = data.bytes.text();
  if ((stored_count(data) <= few_elements || bytes.size() > most_filled) &&
      std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(size), bytes.end(), bytes.begin())) {
    const auto value = elements_of<double>({data.element, {1}, bytes.substr(0, size)}).front();
    const auto op = algebra_->make_operation(
        "fill", {{"value", value}, {"element", tensor::name_of(data.element)}, {"dims", data.dims}});
    return to.results(to.add_node(op, {}, {&type, 1}))[0];
  }
  std::string name;
  do {
    name = fmt::format("folded_{}", next_++);
  } while (model_.data.contains(name));
  const auto& stored = model_.data.emplace(name, std::move(data)).first->second;
  return add_source(tensor::is_floating(type.element) ? "weight" : "constant", name, stored, type, to);
}

UNITY_INLINE value_id constant_folder::add_source(std::string_view kind, std::string_view name, const tensor_data& data,
                                                  const tensor::tensor_type& type, tensor::tensor_graph& to) {
  const std::pair key{std::string{kind}, std::hash<std::string_view>{}(data.bytes.text())};
  const auto [first, last] = written_.equal_range(key);
  const auto same = std::find_if(first, last, [&](const auto& w) { return model_.data.at(w.second) == data; });
  if (same == last) {
    written_.emplace(key, name);
  } else {
    name = same->second;
  }
  const auto op =
      algebra_->make_operation(kind, {{"name", name}, {"element", tensor::name_of(data.element)}, {"dims", data.dims}});
  return to.results(to.add_node(op, {}, {&type, 1}))[0];
}

}  // namespace unity::io::detail

#endif
