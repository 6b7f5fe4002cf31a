// The list of ONNX operator families: a new operator is a row in its family, a new family a line here.
#pragma once

#include <map>
#include <string_view>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

struct onnx_operators {
  std::map<std::string_view, import_row> imports;
  std::map<std::string_view, export_row> exports;

  onnx_operators();
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPERATORS)

#include <unity/io/onnx/elementwise.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/layers.hpp>
#include <unity/io/onnx/movement.hpp>
#include <unity/io/onnx/pooling.hpp>
#include <unity/io/onnx/products.hpp>

namespace unity::io::detail {

UNITY_INLINE onnx_operators::onnx_operators() {
  // Of two rows for one operator the first counts: those of indexing_family begin with those of movement_family.
  for (const auto family :
       {indexing_family, layer_family, elementwise_family, product_family, pooling_family, movement_family}) {
    auto rows = family();
    imports.insert(rows.imports.begin(), rows.imports.end());
    exports.insert(rows.exports.begin(), rows.exports.end());
  }
}

}  // namespace unity::io::detail

#endif
