// Imports ONNX nodes that the tensor algebra cannot express, unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <unity/core/id.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

using onnx_values = std::unordered_map<std::string, onnx_value>;

class opaque_importer {
 public:
  // `envelope`: the model without its graph. `hints`: types that the file states for values.
  opaque_importer(graph_maker& maker, const onnx::ModelProto& envelope, std::int64_t opset,
                  std::map<std::string, tensor::tensor_type> hints)
      : maker_{&maker}, envelope_{&envelope}, opset_{opset}, hints_{std::move(hints)} {}

  // Operands: the present inputs, then what subgraphs read from outside.
  // Throws: no_counterpart if the types of the results are unknown, or it reads a tensor without elements.
  [[nodiscard]] std::vector<value_id> add(const onnx::NodeProto& node, std::span<onnx_value* const> inputs,
                                          onnx_values& values, const std::string& where);
  // The original nodes, by the signature of the opaque node.
  [[nodiscard]] std::map<std::string, std::string, std::less<>> take_nodes() { return std::move(nodes_); }

 private:
  // The types stated in the file if inference agrees in rank, since the packaged inference has errors; else the
  // inferred types, which are based on the actual sizes.
  [[nodiscard]] std::vector<tensor::tensor_type> result_types(const onnx::NodeProto& node,
                                                              std::span<const typed_input> inputs,
                                                              const std::string& where) const;

  value_id carried(onnx_value& v, const std::string& where);

  graph_maker* maker_;
  const onnx::ModelProto* envelope_;
  std::int64_t opset_;
  std::map<std::string, tensor::tensor_type> hints_;
  std::map<std::string, std::string, std::less<>> nodes_;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPAQUE_IMPORT)

#include <set>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/io/onnx/check.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/read_tensor.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

UNITY_INLINE std::vector<value_id> opaque_importer::add(const onnx::NodeProto& node,
                                                        std::span<onnx_value* const> inputs, onnx_values& values,
                                                        const std::string& where) {
  std::vector<value_id> operands;
  std::vector<typed_input> typed;
  std::set<std::string> listed;
  const auto read = [&](const std::string& name, onnx_value& v) {
    if (v.known != nullptr &&
        v.known->size() == 0) {  // such as Resize's absent region: without elements, but required by the node
      maker_->data()[name] = data_from(*v.known);
      typed.push_back({name, {}, v.known.get()});
      return;
    }
    operands.push_back(carried(v, where));
    if (listed.insert(name).second) {
      typed.push_back({name, maker_->type(operands.back()), v.known.get()});
    }
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) {
      read(node.input(static_cast<int>(i)), *inputs[i]);
    }
  }
  const captures captured{node};
  for (const auto& name : captured.names()) {
    const auto found = values.find(name);
    if (found == values.end()) {
      throw error{where, fmt::format("reads {}, which nothing defines before", in_quotes(name)),
                  "a value of the graph"};
    }
    read(name, found->second);
  }
  const auto types = result_types(node, typed, where);
  const auto key = fmt::format("{}#{}", operator_name(node), nodes_.size());
  std::vector<std::int64_t> elements;
  std::vector<std::int64_t> dims;
  for (const auto& t : types) {
    elements.push_back(static_cast<std::int64_t>(t.element));
    dims.push_back(static_cast<std::int64_t>(t.rank()));
    dims.insert(dims.end(), t.dims.begin(), t.dims.end());
  }
  const tensor::named_attribute attributes[] = {
      {"name", operator_name(node)}, {"signature", key}, {"elements", elements}, {"dims", dims}};
  nodes_.emplace(key, node.SerializeAsString());
  try {
    return maker_->emit("opaque", operands, attributes);
  } catch (const not_accepted& e) {
    throw error{where, e.found, e.expected};
  }
}

UNITY_INLINE std::vector<tensor::tensor_type> opaque_importer::result_types(const onnx::NodeProto& node,
                                                                            std::span<const typed_input> inputs,
                                                                            const std::string& where) const {
  std::string problem;
  const auto inferred = infer_results(node, inputs, *envelope_, opset_, problem);
  std::vector<tensor::tensor_type> types;
  for (const auto& out : node.output()) {
    if (out.empty()) {
      continue;
    }
    const auto found = inferred.find(out);
    const auto hint = hints_.find(out);
    if (found == inferred.end() && hint == hints_.end()) {
      throw no_counterpart{where,
                           fmt::format("output {} has no known sizes{}", in_quotes(out),
                                       problem.empty() ? "" : fmt::format(" ({})", problem)),
                           "an operator of known result types, or value_info with sizes"};
    }
    const bool both = found != inferred.end() && hint != hints_.end();
    if (both && (found->second.element != hint->second.element || found->second.rank() != hint->second.rank())) {
      throw error{where, fmt::format("output {} is {}", in_quotes(out), tensor::to_string(found->second)),
                  fmt::format("{} as value_info says", tensor::to_string(hint->second))};
    }
    types.push_back(hint != hints_.end() ? hint->second : found->second);
  }
  return types;
}

UNITY_INLINE value_id opaque_importer::carried(onnx_value& v, const std::string& where) {
  try {
    return maker_->materialize(v);
  } catch (const not_accepted&) {
    throw no_counterpart{where, fmt::format("reads {}, which has no elements", in_quotes(v.name)),
                         "a tensor with elements"};
  }
}

}  // namespace unity::io::detail

#endif
