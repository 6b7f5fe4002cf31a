// Operators that run as one kernel, as a backend sees them.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/operation.hpp>

namespace unity::fusion {

// A graph that its inputs (nodes without operands, of kind "input"), in order, feed, and whose outputs are the
// kernel's.
//
// A kernel goes over `rows` rows. A value is *divided* where the first `rows`-th part of its elements belongs to the
// first row, and so on: its first dimension is a multiple of rows. What operators make of divided operands is divided,
// row by row, but for those that fold: their result is a sum or a maximum over rows, and nobody in the region reads it.
// rows = 1: nothing is divided. Regular.
struct kernel_region {
  tensor::tensor_graph graph{};
  std::vector<bool> is_divided{};  // per value of the graph
  std::int64_t rows = 1;

  friend bool operator==(const kernel_region&, const kernel_region&) = default;
};

}  // namespace unity::fusion
