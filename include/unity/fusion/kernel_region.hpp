// The operators of one kernel as a backend sees them.
#pragma once

#include <cstdint>
#include <vector>

#include <unity/tensor/operation.hpp>

namespace unity::fusion {

// A graph whose inputs (nodes without operands, of kind "input") are the kernel's operands, in order, and whose outputs
// are its results.
//
// A kernel iterates over `rows` rows. A value is *divided* if the first `rows`-th part of its elements belongs to the
// first row, and so on: its first dimension is a multiple of rows. Operators map divided operands to divided results
// row by row, except for those that fold: their result is a sum or a maximum over rows, and no operator in the region
// reads it. rows = 1: nothing is divided. Regular.
struct kernel_region {
  tensor::tensor_graph graph{};
  std::vector<bool> is_divided{};  // per value of the graph
  std::int64_t rows = 1;

  friend bool operator==(const kernel_region&, const kernel_region&) = default;
};

}  // namespace unity::fusion
