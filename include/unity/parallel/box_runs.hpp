// The contiguous runs of a box within its tensor.
#pragma once

#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Calls f(at, from, count) for each contiguous run of a box, ascending: `count` elements, beginning at row-major offset
// `at` in the tensor and `from` in the box.
// Complexity: one call per run.
template <class F>
void for_each_run(const tensor::shape& dims, const box& part, F&& f) {
  UNITY_EXPECTS(part.begin.size() == dims.size() && part.end.size() == dims.size(), "a box of as many dimensions");
  if (part.empty()) {
    return;
  }
  auto firsts = part.end;  // starts of runs: behind the last divided dimension the box is contiguous
  std::int64_t run = 1;
  for (auto d = dims.size(); d-- > 0;) {
    run *= part.end[d] - part.begin[d];
    firsts[d] = part.begin[d] + 1;
    if (part.end[d] - part.begin[d] < dims[d]) {
      break;
    }
  }
  std::int64_t from = 0;
  for_each_position(part.begin, firsts, [&](const tensor::shape& at) {
    f(static_cast<std::int64_t>(offset_of(dims, at)), from, run);
    from += run;
  });
}

}  // namespace unity::parallel
