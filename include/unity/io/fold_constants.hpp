// Computes once what depends on weights and constants alone: what inference mode saves becomes real in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

namespace detail {

class constant_folder {
 public:
  constant_folder(const tensor::algebra& algebra, onnx_model model, std::int64_t most_elements)
      : algebra_{&algebra}, model_{std::move(model)}, most_elements_{most_elements} {}

  onnx_model run() &&;

 private:
  // Sources with data or of fixed values, and what is computed from those alone.
  [[nodiscard]] bool is_computable(node_id n) const;
  [[nodiscard]] bool is_folded(node_id n) const {
    return computable_[n.index()] != 0 && !model_.graph.operands(n).empty();
  }
  void copy(node_id n, const std::vector<char>& wanted, tensor::tensor_graph& to, std::vector<value_id>& moved);
  // Computes one value and keeps it under a new name.
  value_id store(value_id v, tensor::tensor_graph& to);
  // In the arithmetic of the element types: each operator's result is rounded, as engines round it. Integers that are
  // made of real numbers, such as buckets of positions, are others in double.
  [[nodiscard]] std::vector<double> computed(const tensor::tensor_graph& one) const;

  const tensor::algebra* algebra_;
  onnx_model model_;
  std::int64_t most_elements_;
  std::vector<char> computable_;
  std::size_t next_ = 0;
};

}  // namespace detail

// The model with every constant subgraph replaced by its value. Weights without data stay as they are, and so does
// what depends on them.
// Throws: unity::error where a constant subgraph computes NaN.
// Complexity: one reference evaluation of each constant subgraph.
[[nodiscard]] inline onnx_model fold_constants(const tensor::algebra& algebra, onnx_model model,
                                               std::int64_t most_elements = std::int64_t{1} << 28) {
  return detail::constant_folder{algebra, std::move(model), most_elements}.run();
}

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOLD_CONSTANTS)

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/graph/copy_node.hpp>
#include <unity/io/data_provider.hpp>
#include <unity/io/onnx/prune.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/evaluate.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx_model constant_folder::run() && {
  const auto& g = model_.graph;
  computable_.assign(g.node_count(), 0);
  std::vector<char> wanted(g.value_count(), 0);
  for (const auto n : node_ids(g)) {
    computable_[n.index()] = is_computable(n) ? 1 : 0;
    for (const auto v : g.operands(n)) {
      wanted[v.index()] = wanted[v.index()] != 0 || computable_[n.index()] == 0 ? 1 : 0;
    }
  }
  for (const auto v : g.outputs()) {
    wanted[v.index()] = 1;
  }
  tensor::tensor_graph result;
  std::vector<value_id> moved(g.value_count());
  std::vector<node_id> origins;
  for (const auto i : node_ids(g)) {
    copy(i, wanted, result, moved);
    origins.resize(result.node_count(), is_folded(i) ? node_id{} : i);
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

UNITY_INLINE bool constant_folder::is_computable(node_id n) const {
  const auto& g = model_.graph;
  const auto& definition = algebra_->definition_of(g.operation(n).kind);
  if (definition.source != tensor::source_kind::none) {
    const auto name = algebra_->read(g.operation(n)).word("name");
    return model_.data.contains(name) && !model_.defaults.contains(name);
  }
  bool all = !std::holds_alternative<tensor::opaque>(definition.body);
  for (const auto v : g.operands(n)) {
    all = all && computable_[g.producer(v).index()] != 0;
  }
  for (const auto v : g.results(n)) {
    all = all && g.type(v).constant && tensor::element_count(g.type(v).dims) <= most_elements_;
  }
  return all;
}

UNITY_INLINE void constant_folder::copy(node_id n, const std::vector<char>& wanted, tensor::tensor_graph& to,
                                        std::vector<value_id>& moved) {
  const auto& g = model_.graph;
  if (is_folded(n)) {
    for (const auto v : g.results(n)) {
      if (wanted[v.index()] != 0) {
        moved[v.index()] = store(v, to);
      }
    }
    return;
  }
  copy_node(g, n, to, moved);
}

UNITY_INLINE value_id constant_folder::store(value_id v, tensor::tensor_graph& to) {
  auto one = model_.graph;
  const value_id outputs[] = {v};
  one.set_outputs(outputs);
  const auto type = one.type(v);
  const auto data = computed(one);
  auto plain = type;
  plain.order = tensor::layout::row_major;
  const auto add = [&](std::string_view kind, std::initializer_list<tensor::named_attribute> attributes) {
    return to.results(to.add_node(algebra_->make_operation(kind, attributes), {}, {&plain, 1}))[0];
  };
  const auto element = tensor::name_of(type.element);
  if (std::any_of(data.begin(), data.end(), [](double x) { return std::isnan(x); })) {
    const auto node = one.producer(v);
    throw error{fmt::format("node {} ({})", node.index(), algebra_->signature(one.operation(node).kind).name),
                "computes NaN from weights alone", "numbers"};
  }
  if (std::all_of(data.begin(), data.end(), [&](double x) { return x == data.front(); })) {
    return add("fill", {{"value", data.front()}, {"element", element}, {"dims", type.dims}});
  }
  std::string name;
  do {
    name = fmt::format("folded_{}", next_++);
  } while (model_.data.contains(name));
  model_.data.emplace(name, make_data(type.element, type.dims, data));
  return add(tensor::is_floating(type.element) ? "weight" : "constant",
             {{"name", name}, {"element", element}, {"dims", type.dims}});
}

UNITY_INLINE std::vector<double> constant_folder::computed(const tensor::tensor_graph& one) const {
  const data_provider<double> provider{*algebra_, model_.data};
  const auto results = [&](node_id n, std::span<const double* const> operands) {
    const auto& op = one.operation(n);
    if (auto given = provider(op, one.type(one.results(n)[0]))) {
      return std::vector{*std::move(given)};
    }
    std::vector<tensor::tensor_type> types;
    for (const auto v : one.operands(n)) {
      types.push_back(one.type(v));
    }
    auto values = tensor::detail::evaluate_at<double>(*algebra_, op, operands, types, 0);
    for (std::size_t r = 0; r < values.size(); ++r) {
      tensor::round_to(one.type(one.results(n)[r]).element, values[r].data);
    }
    return values;
  };
  return tensor::detail::evaluate_nodes<double>(*algebra_, one, results, 0).front().data;
}

}  // namespace unity::io::detail

#endif
