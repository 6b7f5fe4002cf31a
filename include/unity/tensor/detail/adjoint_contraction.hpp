// Sums of products of two tensors, written as one matrix product.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/detail/adjoint_movement.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// result[out] = sum of left * right over the labels that `out` lacks. A matmul with permutations and reshapes before
// and after where needed.
class contraction {
 public:
  contraction(body_builder& b, const labelled& left, const labelled& right, const dimension_labels& out);

  // dims: the shape of the result; it is broadcast along labels that neither operand has.
  [[nodiscard]] value_id run(const dimension_labels& out, const shape& dims);

 private:
  void classify(const dimension_labels& out);

  [[nodiscard]] bool starts_with_columns(const dimension_labels& out) const;

  [[nodiscard]] shape sizes(const dimension_labels& labels, const labelled& x) const;
  [[nodiscard]] static std::int64_t product(const shape& dims) { return element_count(dims); }
  static void append(shape& dims, const shape& more) { dims.append(more.begin(), more.end()); }
  [[nodiscard]] static dimension_labels joined(dimension_labels a, const dimension_labels& b,
                                               const dimension_labels& c);

  body_builder& b_;
  labelled left_;
  labelled right_;
  dimension_labels batch_;    // in both operands and the result
  dimension_labels rows_;     // in the left operand and the result
  dimension_labels columns_;  // in the right operand and the result
  dimension_labels summed_;   // in both operands but not in the result
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_CONTRACTION)

#include <algorithm>
#include <vector>

namespace unity::tensor::detail {

UNITY_INLINE contraction::contraction(body_builder& b, const labelled& left, const labelled& right,
                                      const dimension_labels& out)
    : b_{b} {
  left_ = reduced(b, left, [&](const auto& l) { return has_label(out, l) || has_label(right.labels, l); });
  right_ = reduced(b, right, [&](const auto& l) { return has_label(out, l) || has_label(left_.labels, l); });
  classify(out);
  if (starts_with_columns(out)) {
    std::swap(left_, right_);
    std::swap(rows_, columns_);
  }
}

UNITY_INLINE value_id contraction::run(const dimension_labels& out, const shape& dims) {
  // The rows of one operand need not be merged, because leading dimensions broadcast.
  const bool apart = batch_.empty() && !rows_.empty();
  auto leading = sizes(batch_, left_);
  const auto rows = sizes(rows_, left_);
  const auto columns = sizes(columns_, right_);
  const auto inner = product(sizes(summed_, left_));
  auto left_dims = leading;
  append(left_dims, apart ? rows : shape{product(rows)});
  left_dims.push_back(inner);
  auto right_dims = leading;
  right_dims.push_back(inner);
  right_dims.push_back(product(columns));
  const auto l = reshaped(b_, ordered(b_, left_, joined(batch_, rows_, summed_)).value, left_dims);
  const auto r = reshaped(b_, ordered(b_, right_, joined(batch_, summed_, columns_)).value, right_dims);
  append(leading, rows);
  append(leading, columns);
  labelled y{reshaped(b_, b_.add("matmul", {l, r}), leading), joined(batch_, rows_, columns_)};
  return carried(b_, y, out, &dims);
}

UNITY_INLINE void contraction::classify(const dimension_labels& out) {
  for (const auto& l : out) {
    const bool in_left = !l.empty() && has_label(left_.labels, l);
    const bool in_right = !l.empty() && has_label(right_.labels, l);
    if (in_left && in_right) {
      batch_.push_back(l);
    } else if (in_left) {
      rows_.push_back(l);
    } else if (in_right) {
      columns_.push_back(l);
    }
  }
  for (const auto& l : left_.labels) {
    if (!has_label(out, l)) {
      summed_.push_back(l);
    }
  }
}

UNITY_INLINE bool contraction::starts_with_columns(const dimension_labels& out) const {
  for (const auto& l : out) {
    if (has_label(rows_, l) || has_label(columns_, l)) {
      return has_label(columns_, l);
    }
  }
  return false;
}

UNITY_INLINE shape contraction::sizes(const dimension_labels& labels, const labelled& x) const {
  shape all;
  for (const auto& l : labels) {
    const auto at = std::find(x.labels.begin(), x.labels.end(), l) - x.labels.begin();
    all.push_back(b_.type(x.value).dims[static_cast<std::size_t>(at)]);
  }
  return all;
}

UNITY_INLINE dimension_labels contraction::joined(dimension_labels a, const dimension_labels& b,
                                                  const dimension_labels& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

}  // namespace unity::tensor::detail

#endif
