// The list of ONNX operator families. To add an operator, add a row to its family; to add a family, add a line here.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

struct onnx_operators {
  std::map<std::string_view, import_row> imports;
  std::map<std::string_view, export_form> exports;

  onnx_operators();

  // The function that writes an operator in the opset, or null.
  [[nodiscard]] export_row writer_of(std::string_view kind, std::int64_t opset) const;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPERATORS)

#include <unity/io/onnx/attention.hpp>
#include <unity/io/onnx/elementwise.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/layers.hpp>
#include <unity/io/onnx/logic.hpp>
#include <unity/io/onnx/movement.hpp>
#include <unity/io/onnx/pooling.hpp>
#include <unity/io/onnx/products.hpp>
#include <unity/io/onnx/quantization.hpp>
#include <unity/io/onnx/statistics.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx_operators::onnx_operators() {
  // The first of two rows for one operator is used: those of indexing_family try those of movement_family first.
  for (const auto family : {indexing_family, layer_family, elementwise_family, product_family, pooling_family,
                            movement_family, logic_family, statistics_family, attention_family, quantization_family}) {
    auto rows = family();
    imports.insert(rows.imports.begin(), rows.imports.end());
    for (const auto& row : rows.exports) {
      exports.emplace(row.kind, row);
    }
  }
}

UNITY_INLINE export_row onnx_operators::writer_of(std::string_view kind, std::int64_t opset) const {
  const auto row = exports.find(kind);
  const bool is_there = row != exports.end() && row->second.first <= opset && opset <= row->second.last;
  return is_there ? row->second.write : nullptr;
}

}  // namespace unity::io::detail

#endif
