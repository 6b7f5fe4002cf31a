// Moves values from the dimensions of one tensor to those of another, for deriving adjoints.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/tensor/body_builder.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

// The indices that run along a dimension, from outer to inner; empty: size 1.
using dimension_label = std::vector<std::size_t>;
using dimension_labels = std::vector<dimension_label>;

[[nodiscard]] dimension_labels labels_of(std::span<const access> accesses);

[[nodiscard]] inline bool has_label(const dimension_labels& labels, const dimension_label& label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

[[nodiscard]] inline value_id reshaped(body_builder& b, value_id v, const shape& dims) {
  return b.type(v).dims == dims ? v : b.add("reshape", {v}, {{"dims", dims}});
}

[[nodiscard]] inline value_id summed(body_builder& b, value_id v, const shape& axes) {
  return axes.empty() ? v : b.add("reduce_sum", {v}, {{"axes", axes}, {"keep_dims", 0}});
}

[[nodiscard]] inline value_id added(body_builder& b, value_id sum, value_id v) {
  return !sum.valid() ? v : !v.valid() ? sum : b.add("add", {sum, v});
}

// Sums over the dimensions that broadcasting repeated.
[[nodiscard]] value_id summed_to(body_builder& b, value_id v, const shape& dims);

// Dimension d of the result is dimension order[d] of the operand.
[[nodiscard]] inline value_id permuted(body_builder& b, value_id v, const shape& order) {
  const bool ordered = std::is_sorted(order.begin(), order.end());
  return ordered ? v : b.add("transpose", {v}, {{"permutation", order}});
}

// A value and the indices that run along its dimensions.
struct labelled {
  value_id value{};
  dimension_labels labels{};
};

// Sums over the labels that `keeps` rejects, and drops dimensions without label.
template <class Keeps>
[[nodiscard]] labelled reduced(body_builder& b, const labelled& x, const Keeps& keeps) {
  labelled out;
  shape axes;
  shape dims;
  for (std::size_t d = 0; d < x.labels.size(); ++d) {
    if (x.labels[d].empty()) {
      continue;
    }
    if (keeps(x.labels[d])) {
      out.labels.push_back(x.labels[d]);
      dims.push_back(b.type(x.value).dims[d]);
    } else {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  out.value = reshaped(b, summed(b, x.value, axes), dims);
  return out;
}

// Reorders the dimensions as in `to`, which contains all of them.
[[nodiscard]] labelled ordered(body_builder& b, const labelled& x, const dimension_labels& to);

// The value with dimensions `to`: summed over labels that `to` lacks; along labels that the value lacks, the size is 1,
// or the value is repeated if `dims` are given.
[[nodiscard]] value_id carried(body_builder& b, const labelled& x, const dimension_labels& to,
                               const shape* dims = nullptr);

// Reshapes the value so that it broadcasts with a tensor that has these labels.
[[nodiscard]] value_id broadcastable(body_builder& b, const labelled& x, const dimension_labels& to);

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_DETAIL_ADJOINT_MOVEMENT)

namespace unity::tensor::detail {

UNITY_INLINE dimension_labels labels_of(std::span<const access> accesses) {
  dimension_labels labels;
  for (const auto& a : accesses) {
    auto& label = labels.emplace_back();
    for (std::size_t i = 0; i < a.size(); ++i) {
      label.push_back(a[i]);
    }
  }
  return labels;
}

UNITY_INLINE labelled ordered(body_builder& b, const labelled& x, const dimension_labels& to) {
  labelled out;
  shape order;
  for (const auto& label : to) {
    const auto found = std::find(x.labels.begin(), x.labels.end(), label);
    if (!label.empty() && found != x.labels.end()) {
      order.push_back(found - x.labels.begin());
      out.labels.push_back(label);
    }
  }
  out.value = permuted(b, x.value, order);
  return out;
}

UNITY_INLINE value_id carried(body_builder& b, const labelled& x, const dimension_labels& to, const shape* dims) {
  const auto kept = reduced(b, x, [&](const dimension_label& label) { return has_label(to, label); });
  const auto y = ordered(b, kept, to);
  shape stretched;
  for (std::size_t d = 0, next = 0; d < to.size(); ++d) {
    const bool has = next < y.labels.size() && !to[d].empty() && y.labels[next] == to[d];
    stretched.push_back(has ? b.type(y.value).dims[next++] : 1);
  }
  const auto v = reshaped(b, y.value, stretched);
  return dims == nullptr || *dims == stretched ? v : b.add("expand", {v}, {{"dims", *dims}});
}

UNITY_INLINE value_id broadcastable(body_builder& b, const labelled& x, const dimension_labels& to) {
  const auto skipped = to.size() - std::min(to.size(), x.labels.size());
  bool is = x.labels.size() <= to.size();
  for (std::size_t d = 0; is && d < x.labels.size(); ++d) {
    is = x.labels[d].empty() || x.labels[d] == to[d + skipped];
  }
  return is ? x.value : carried(b, x, to);
}

UNITY_INLINE value_id summed_to(body_builder& b, value_id v, const shape& dims) {
  const auto from = b.type(v).dims;
  const auto more = from.size() - dims.size();
  shape axes;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d < more || (dims[d - more] == 1 && from[d] > 1)) {
      axes.push_back(static_cast<std::int64_t>(d));
    }
  }
  // 0: only dimensions that dims lacks are dropped
  const auto kept = static_cast<std::int64_t>(axes.size() == more ? 0 : 1);
  const auto sum = axes.empty() ? v : b.add("reduce_sum", {v}, {{"axes", axes}, {"keep_dims", kept}});
  return b.type(sum).dims == dims ? sum : b.add("reshape", {sum}, {{"dims", dims}});
}

}  // namespace unity::tensor::detail

#endif
