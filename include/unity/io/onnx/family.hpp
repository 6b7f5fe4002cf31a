// How operator families state what they import and export.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

// One row per ONNX operator that is read, one per operator of the tensor algebra that is written.
struct onnx_family {
  std::vector<std::pair<std::string_view, import_row>> imports;
  std::vector<std::pair<std::string_view, export_row>> exports;
};

}  // namespace unity::io::detail
