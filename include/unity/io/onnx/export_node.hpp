// One node of a tensor graph, as seen by the export functions of operator families.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <onnx/onnx_pb.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/onnx/graph_writer.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

class export_node {
 public:
  // `names`: of all values of the graph.
  export_node(const tensor::algebra& algebra, const tensor::tensor_graph& graph, node_id node,
              const std::vector<std::string>& names, graph_writer& writer)
      : attributes{algebra.read(graph.operation(node))},
        out{writer},
        algebra_{&algebra},
        graph_{&graph},
        node_{node},
        names_{&names} {}

  const tensor::attribute_reader attributes;
  graph_writer& out;

  [[nodiscard]] const std::string& kind() const { return algebra_->signature(graph_->operation(node_).kind).name; }
  [[nodiscard]] std::size_t input_count() const { return graph_->operands(node_).size(); }
  [[nodiscard]] const std::string& input(std::size_t i) const { return (*names_)[graph_->operands(node_)[i].index()]; }
  [[nodiscard]] const tensor::tensor_type& type(std::size_t i) const {
    return graph_->type(graph_->operands(node_)[i]);
  }
  [[nodiscard]] const std::string& result(std::size_t i = 0) const {
    return (*names_)[graph_->results(node_)[i].index()];
  }
  [[nodiscard]] const tensor::tensor_type& result_type(std::size_t i = 0) const {
    return graph_->type(graph_->results(node_)[i]);
  }
  [[nodiscard]] std::vector<std::string> inputs() const;
  [[nodiscard]] std::vector<std::string> results() const;

  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const {
    const auto values = attributes.integers(name);
    return {values.begin(), values.end()};
  }
  // The name of the chosen alternative of an attribute.
  [[nodiscard]] std::string choice(std::string_view name) const;

  void emit(std::string_view type, std::span<const std::string> from, const std::string& to,
            std::initializer_list<onnx_attribute> with = {}) {
    const std::string outputs[] = {to};
    out.node(type, from, outputs, {with.begin(), with.size()});
  }
  void emit(std::string_view type, std::initializer_list<std::string> from, const std::string& to,
            std::initializer_list<onnx_attribute> with = {}) {
    emit(type, std::span{from.begin(), from.size()}, to, with);
  }
  // A list of integers that is an attribute, or the second input from opset `since` on.
  struct listed {
    std::string_view name;
    std::int64_t since;
    std::vector<std::int64_t> values;
  };
  void emit_with_list(std::string_view type, const std::string& from, const std::string& to, const listed& values,
                      std::vector<onnx_attribute> with = {});
  [[nodiscard]] std::int64_t opset() const noexcept { return out.opset(); }
  // A name for an intermediate value.
  [[nodiscard]] std::string step() { return out.fresh(fmt::format("{}_step", result())); }
  [[nodiscard]] std::string scalar(double value, tensor::dtype element) { return out.filled(value, element); }

  // Operators with a fused activation write to before_activation() and then call activate with it.
  [[nodiscard]] std::string before_activation() { return choice("activation") == "none" ? result() : step(); }
  void activate(const std::string& from);

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw error{fmt::format("node {} ({})", node_.index(), kind()), found, expected};
  }

 private:
  const tensor::algebra* algebra_;
  const tensor::tensor_graph* graph_;
  node_id node_;
  const std::vector<std::string>* names_;
};

using export_row = void (*)(export_node&);

// x * (1 + erf(x / sqrt 2)) / 2, for which there is no operator before opset 20.
void emit_gelu(export_node& n, const std::string& x, const std::string& to, tensor::dtype element);

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_EXPORT_NODE)

namespace unity::io::detail {

UNITY_INLINE std::vector<std::string> export_node::inputs() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < input_count(); ++i) {
    all.push_back(input(i));
  }
  return all;
}

UNITY_INLINE std::vector<std::string> export_node::results() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < graph_->results(node_).size(); ++i) {
    all.push_back(result(i));
  }
  return all;
}

UNITY_INLINE void export_node::emit_with_list(std::string_view type, const std::string& from, const std::string& to,
                                              const listed& values, std::vector<onnx_attribute> with) {
  std::vector<std::string> inputs{from};
  if (opset() < values.since) {
    with.push_back({std::string{values.name}, values.values});
  } else {
    inputs.push_back(out.integers(values.values));
  }
  const std::string outputs[] = {to};
  out.node(type, inputs, outputs, with);
}

UNITY_INLINE std::string export_node::choice(std::string_view name) const {
  for (const auto& a : algebra_->signature(graph_->operation(node_).kind).attributes) {
    if (a.name == name) {
      return a.choices.at(static_cast<std::size_t>(attributes.integer(name)));
    }
  }
  return {};
}

UNITY_INLINE void emit_gelu(export_node& n, const std::string& x, const std::string& to, tensor::dtype element) {
  if (n.opset() >= 20) {
    n.emit("Gelu", {x}, to);
    return;
  }
  const auto scaled = n.step();
  const auto error_function = n.step();
  const auto shifted = n.step();
  const auto product = n.step();
  n.emit("Div", {x, n.scalar(1.4142135623730951, element)}, scaled);
  n.emit("Erf", {scaled}, error_function);
  n.emit("Add", {error_function, n.scalar(1, element)}, shifted);
  n.emit("Mul", {x, shifted}, product);
  n.emit("Mul", {product, n.scalar(0.5, element)}, to);
}

UNITY_INLINE void export_node::activate(const std::string& from) {
  const auto activation = choice("activation");
  if (activation == "relu") {
    emit("Relu", {from}, result());
  } else if (activation == "sigmoid") {
    emit("Sigmoid", {from}, result());
  } else if (activation == "tanh") {
    emit("Tanh", {from}, result());
  } else if (activation == "gelu") {
    emit_gelu(*this, from, result(), result_type().element);
  } else if (activation != "none") {
    refuse(fmt::format("activation {}", activation), "one that ONNX has operators for");
  }
}

}  // namespace unity::io::detail

#endif
