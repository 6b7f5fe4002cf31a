// Builds the tensor graph during import, and maps ONNX values to its nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/io/onnx/known.hpp>
#include <unity/io/tensor_data.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// A value of the ONNX graph. Constants get a node in the tensor graph when something first reads them.
struct onnx_value {
  value_id value{};                           // null until a node represents it
  std::shared_ptr<const known_tensor> known;  // its elements, if they are constant and few
  std::shared_ptr<tensor_data> data;          // its elements, if they are constant
  bool weight = false;                        // changed by training, so it is not shape arithmetic
  bool varies = false;                        // its elements depend on open sizes
  std::string name;
};

// An operator does not accept its operands.
struct not_accepted {
  std::string found;
  std::string expected;
};

class graph_maker {
 public:
  explicit graph_maker(const tensor::algebra& algebra) : algebra_{&algebra} {}

  [[nodiscard]] tensor::tensor_graph& graph() noexcept { return graph_; }
  [[nodiscard]] data_table& data() noexcept { return data_; }
  [[nodiscard]] const tensor::tensor_type& type(value_id v) const { return graph_.type(v); }

  // The numbers of the slice that computes a value, with ends as positions; empty if no slice does.
  [[nodiscard]] tensor::shape slice_numbers(value_id v) const;

  // Throws: not_accepted.
  std::vector<value_id> emit(std::string_view name, std::span<const value_id> operands,
                             std::span<const tensor::named_attribute> attributes);
  value_id source(std::string_view kind, std::string_view name, tensor::dtype element, const tensor::shape& dims);
  value_id fill(double value, tensor::dtype element, const tensor::shape& dims = {});

  // The node that represents an ONNX value; constants get theirs here.
  // Throws: not_accepted for a tensor without elements.
  value_id materialize(onnx_value& v);
  // A node with its own data. Precondition: the value has no node yet.
  value_id constant(onnx_value& v);

 private:
  static tensor::shape dims_of(const known_tensor& known) {
    return tensor::shape(std::span<const std::int64_t>{known.dims});
  }
  static bool is_uniform(const known_tensor& known) {
    return known.is_real() && known.size() > 0 &&
           std::all_of(known.reals.begin(), known.reals.end(), [&](double x) { return x == known.reals.front(); });
  }
  const tensor::algebra* algebra_;
  tensor::tensor_graph graph_;
  data_table data_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_GRAPH_MAKER)

#include <map>
#include <optional>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/tensor/detail/algebra.hpp>

namespace unity::io::detail {

UNITY_INLINE tensor::shape graph_maker::slice_numbers(value_id v) const {
  const auto& op = graph_.operation(graph_.producer(v));
  const auto& name = algebra_->signature(op.kind).name;
  tensor::shape all;
  if (name == "slice" || name == "strided_slice") {
    for (const auto& list : op.attributes) {
      for (const auto n : list) {
        all.push_back(n);
      }
    }
  }
  return all;
}

UNITY_INLINE std::vector<value_id> graph_maker::emit(std::string_view name, std::span<const value_id> operands,
                                                     std::span<const tensor::named_attribute> attributes) {
  const auto op = algebra_->make_operation(name, attributes);
  std::vector<tensor::tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_->infer(op, types);
  if (!results) {
    std::string found = fmt::format("{} of", name);
    for (const auto& t : types) {
      found += fmt::format(" {}", tensor::to_string(t));
    }
    auto reason = algebra_->why_not(op, types);
    constexpr std::string_view prefix = "expected ";
    throw not_accepted{types.empty() ? std::string{name} : found,
                       reason.starts_with(prefix) ? reason.substr(prefix.size()) : reason};
  }
  const auto node = graph_.add_node(op, operands, *results);
  return {graph_.results(node).begin(), graph_.results(node).end()};
}

UNITY_INLINE value_id graph_maker::source(std::string_view kind, std::string_view name, tensor::dtype element,
                                          const tensor::shape& dims) {
  const tensor::named_attribute attributes[] = {
      {"name", name}, {"element", tensor::name_of(element)}, {"dims", std::span<const std::int64_t>{dims}}};
  return emit(kind, {}, attributes).front();
}

UNITY_INLINE value_id graph_maker::fill(double value, tensor::dtype element, const tensor::shape& dims) {
  const tensor::named_attribute attributes[] = {
      {"value", value}, {"element", tensor::name_of(element)}, {"dims", std::span<const std::int64_t>{dims}}};
  return emit("fill", {}, attributes).front();
}

UNITY_INLINE value_id graph_maker::materialize(onnx_value& v) {
  if (!v.value.valid()) {
    v.value = v.known != nullptr && !v.weight && !v.varies && is_uniform(*v.known)
                  ? fill(v.known->reals.front(), v.known->element, dims_of(*v.known))
                  : constant(v);
  }
  return v.value;
}

UNITY_INLINE value_id graph_maker::constant(onnx_value& v) {
  if (v.data == nullptr) {
    v.data = std::make_shared<tensor_data>(data_from(*v.known));
  }
  const auto made = source(v.weight ? "weight" : "constant", v.name, v.data->element, v.data->dims);
  data_[v.name] = std::move(*v.data);
  v.data.reset();
  return made;
}

}  // namespace unity::io::detail

#endif
