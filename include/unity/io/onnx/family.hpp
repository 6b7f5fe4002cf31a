// How operator families declare what they import and export.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/io/onnx/export_node.hpp>
#include <unity/io/onnx/import_node.hpp>

namespace unity::io::detail {

// How an operator of the tensor algebra is written in opsets from `first` to `last`; in other opsets its body is
// written.
struct export_form {
  std::string_view kind;
  export_row write;
  std::int64_t first = 1;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
};

// One row per ONNX operator that can be read, one per operator of the tensor algebra that can be written.
struct onnx_family {
  std::vector<std::pair<std::string_view, import_row>> imports;
  std::vector<export_form> exports;
};

}  // namespace unity::io::detail
