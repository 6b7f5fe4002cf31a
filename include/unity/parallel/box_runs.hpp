// The elements of a box, piece by piece as they lie in the whole tensor.
#pragma once

#include <cstdint>

#include <unity/core/config.hpp>
#include <unity/core/row_major.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Calls f(at, from, count) for the pieces of a box that lie side by side, ascending: `count` elements, the first of
// which is number `at` of the tensor and number `from` of the box, row-major.
// Complexity: as many calls as there are pieces.
template <class F>
void for_each_run(const tensor::shape& dims, const box& part, F&& f) {
  UNITY_EXPECTS(part.begin.size() == dims.size() && part.end.size() == dims.size(), "a box of as many dimensions");
  if (part.empty()) {
    return;
  }
  auto firsts = part.end;  // of pieces: along the dimensions behind the last that is divided the box is one piece
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
