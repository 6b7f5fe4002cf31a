// Boxes of elements of a tensor, and the contiguous runs of a box within its tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/row_major.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel {

// Half-open: begin[d] to end[d] along dimension d. Without dimensions: the one element of a scalar.
struct box {
  tensor::shape begin{};
  tensor::shape end{};

  [[nodiscard]] bool empty() const noexcept;
  // The number of elements.
  [[nodiscard]] std::int64_t volume() const noexcept;
  [[nodiscard]] tensor::shape sizes() const;

  friend bool operator==(const box&, const box&) = default;
};

[[nodiscard]] inline box whole(const tensor::shape& dims) { return {tensor::shape(dims.size(), 0), dims}; }

// The elements that two boxes of one tensor have in common.
[[nodiscard]] box intersection(const box& a, const box& b);

// Appends disjoint boxes that cover the elements of `a` that are not in `b`: at most two per dimension. Complexity:
// quadratic in the rank.
void subtract(const box& a, const box& b, std::vector<box>& rest);

// The cells into which the boundaries of all boxes cut the space, in row-major order, without those outside of every
// box.
// Complexity: the cells, times boxes.
[[nodiscard]] std::vector<box> cells_of(std::span<const box> boxes);

// Calls f(at, from, count) for each contiguous run of a box, ascending: `count` elements, beginning at row-major offset
// `at` in the tensor and `from` in the box.
// Complexity: one call per run.
template <class F>
void for_each_run(const tensor::shape& dims, const box& part, F&& f) {
  UNITY_EXPECTS(part.begin.size() == dims.size() && part.end.size() == dims.size(), "a box of as many dimensions");
  if (part.empty()) {
    return;
  }
  auto firsts = part.end;  // where runs start, end excluded: a run has all dimensions behind the last divided one
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_BOX)

#include <algorithm>
#include <iterator>
#include <set>

namespace unity::parallel {

UNITY_INLINE bool box::empty() const noexcept {
  for (std::size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] >= end[d]) {
      return true;
    }
  }
  return false;
}

UNITY_INLINE std::int64_t box::volume() const noexcept {
  std::int64_t v = 1;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    v *= std::max(end[d] - begin[d], std::int64_t{0});
  }
  return v;
}

UNITY_INLINE tensor::shape box::sizes() const {
  auto s = end;
  for (std::size_t d = 0; d < s.size(); ++d) {
    s[d] -= begin[d];
  }
  return s;
}

UNITY_INLINE box intersection(const box& a, const box& b) {
  auto c = a;
  for (std::size_t d = 0; d < c.begin.size(); ++d) {
    c.begin[d] = std::max(a.begin[d], b.begin[d]);
    c.end[d] = std::min(a.end[d], b.end[d]);
  }
  return c;
}

UNITY_INLINE void subtract(const box& a, const box& b, std::vector<box>& rest) {
  const auto common = intersection(a, b);
  if (common.empty()) {
    if (!a.empty()) {
      rest.push_back(a);
    }
    return;
  }
  auto left = a;
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    if (left.begin[d] < common.begin[d]) {
      rest.push_back(left);
      rest.back().end[d] = common.begin[d];
    }
    if (common.end[d] < left.end[d]) {
      rest.push_back(left);
      rest.back().begin[d] = common.end[d];
    }
    left.begin[d] = common.begin[d];
    left.end[d] = common.end[d];
  }
}

UNITY_INLINE std::vector<box> cells_of(std::span<const box> boxes) {
  std::vector<box> cells;
  if (boxes.empty()) {
    return cells;
  }
  cells.push_back({});
  for (std::size_t d = 0; d < boxes[0].begin.size(); ++d) {
    std::set<std::int64_t> ends;
    for (const auto& b : boxes) {
      ends.insert({b.begin[d], b.end[d]});
    }
    std::vector<box> next;
    for (const auto& c : cells) {
      for (auto at = ends.begin(); std::next(at) != ends.end(); ++at) {
        next.push_back(c);
        next.back().begin.push_back(*at);
        next.back().end.push_back(*std::next(at));
      }
    }
    cells.swap(next);
  }
  std::erase_if(cells, [&](const box& c) {
    return std::none_of(boxes.begin(), boxes.end(), [&](const box& b) { return !intersection(b, c).empty(); });
  });
  return cells;
}

}  // namespace unity::parallel

#endif
