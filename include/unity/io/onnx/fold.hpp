// Constant folding during import, for the shape arithmetic that exporters leave in a graph. One row per operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <unity/io/onnx/fold_arithmetic.hpp>

namespace unity::io::detail {

// Reshaping, selecting and joining tensors that are known during import.

folded fold_cast(const fold_node& n);

folded fold_reshape(const fold_node& n);

folded fold_unsqueeze(const fold_node& n);

folded fold_squeeze(const fold_node& n);

folded fold_transpose(const fold_node& n);

folded fold_gather(const fold_node& n);

folded fold_concat(const fold_node& n);

folded fold_slice(const fold_node& n);

folded fold_constant_of_shape(const fold_node& n);

folded fold_expand(const fold_node& n);

folded fold_where(const fold_node& n);

folded fold_range(const fold_node& n);

folded fold_product(const fold_node& n);

using fold_row = std::function<folded(const fold_node&)>;

// The operators of shape arithmetic.
[[nodiscard]] const std::map<std::string_view, fold_row>& fold_rows();

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_FOLD)

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include <unity/core/row_major.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

UNITY_INLINE folded fold_cast(const fold_node& n) {
  const auto element = cast_target(n.attributes, n.opset);
  if (!element || n.input(0) == nullptr) {
    return std::nullopt;
  }
  const auto& from = *n.input(0);
  known_tensor to{*element, from.dims, {}, {}};
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (to.is_real()) {
      to.reals.push_back(from.real(i));
    } else if (from.is_real()) {
      to.integers.push_back(*element == tensor::dtype::boolean ? from.reals[i] != 0
                                                               : tensor::to_integer<std::int64_t>(from.reals[i]));
    } else {
      to.integers.push_back(from.integers[i]);
    }
  }
  return settle(std::move(to));
}

UNITY_INLINE folded fold_reshape(const fold_node& n) {
  const auto wanted = n.list("shape", 1, 5);
  if (n.input(0) == nullptr || !wanted) {
    return std::nullopt;
  }
  const auto dims = reshaped(n.input(0)->dims, *wanted, n.attributes.integer("allowzero", 0) != 0);
  return dims ? std::optional{gathered(*n.input(0), *dims, n.input(0)->size(), std::identity{})} : std::nullopt;
}

UNITY_INLINE folded fold_unsqueeze(const fold_node& n) {
  const auto axes = n.list("axes", 1, 13);
  if (!axes || n.input(0) == nullptr) {
    return std::nullopt;
  }
  auto dims = n.input(0)->dims;
  const auto places = front_axes(*axes, dims.size() + axes->size());
  if (!places || dims.size() + axes->size() > tensor::max_rank) {
    return std::nullopt;
  }
  for (const auto a : *places) {
    dims.insert(dims.begin() + a, 1);
  }
  return gathered(*n.input(0), std::move(dims), n.input(0)->size(), std::identity{});
}

UNITY_INLINE folded fold_squeeze(const fold_node& n) {
  if (n.input(0) == nullptr) {
    return std::nullopt;
  }
  const auto axes = n.list("axes", 1, 13);
  std::vector<std::int64_t> dims;
  const auto& from = n.input(0)->dims;
  const auto places = front_axes(axes.value_or(std::vector<std::int64_t>{}), from.size());
  if (!places) {
    return std::nullopt;
  }
  for (std::size_t d = 0; d < from.size(); ++d) {
    const bool named = std::find(places->begin(), places->end(), static_cast<std::int64_t>(d)) != places->end();
    if (named && from[d] != 1) {
      return std::nullopt;
    }
    if (axes ? !named : from[d] != 1) {
      dims.push_back(from[d]);
    }
  }
  return gathered(*n.input(0), std::move(dims), n.input(0)->size(), std::identity{});
}

UNITY_INLINE folded fold_transpose(const fold_node& n) {
  if (n.input(0) == nullptr) {
    return std::nullopt;
  }
  const auto& from = *n.input(0);
  std::vector<std::int64_t> reversed(from.dims.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::int64_t{0});
  const auto order = n.attributes.integers("perm", reversed);
  const auto axes = front_axes(order, from.dims.size());
  if (!axes || axes->size() != from.dims.size()) {
    return std::nullopt;
  }
  std::vector<std::int64_t> dims;
  for (const auto axis : order) {
    dims.push_back(from.dims[*front_axis(axis, from.dims.size())]);
  }
  std::vector<std::size_t> places;
  std::vector<std::int64_t> read(dims.size());
  for_each_position(dims, [&](const std::vector<std::int64_t>& at) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      read[*front_axis(order[d], dims.size())] = at[d];
    }
    places.push_back(offset_of(from.dims, read));
  });
  return gathered(from, std::move(dims), places.size(), [&](std::size_t i) { return places[i]; });
}

UNITY_INLINE folded fold_gather(const fold_node& n) {
  if (n.input(0) == nullptr || n.input(1) == nullptr || n.input(1)->is_real()) {
    return std::nullopt;
  }
  const auto& from = *n.input(0);
  const auto axis = front_axis(n.attributes.integer("axis", 0), from.dims.size());
  if (!axis) {
    return std::nullopt;
  }
  const auto& picks = n.input(1)->integers;
  const auto along = from.dims[*axis];
  std::size_t inner = 1;
  for (auto d = *axis + 1; d < from.dims.size(); ++d) {
    inner *= static_cast<std::size_t>(from.dims[d]);
  }
  std::vector<std::int64_t> dims(from.dims.begin(), from.dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  dims.insert(dims.end(), n.input(1)->dims.begin(), n.input(1)->dims.end());
  dims.insert(dims.end(), from.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, from.dims.end());
  const auto count = known_count(dims);
  if (!count) {
    return std::nullopt;
  }
  for (const auto p : picks) {
    if (p < -along || p >= along) {
      return std::nullopt;
    }
  }
  return gathered(from, std::move(dims), *count, [&](std::size_t i) {
    const auto pick = picks[i / inner % picks.size()];
    const auto row = static_cast<std::size_t>(pick < 0 ? pick + along : pick);
    return (i / inner / picks.size() * static_cast<std::size_t>(along) + row) * inner + i % inner;
  });
}

UNITY_INLINE folded fold_concat(const fold_node& n) {
  if (n.inputs.empty() || n.input(0) == nullptr) {
    return std::nullopt;
  }
  const auto axis = front_axis(n.attributes.integer("axis", 0), n.input(0)->dims.size());
  if (!axis || *axis != 0 || n.input(0)->dims.size() != 1) {
    return std::nullopt;  // shapes have rank 1
  }
  known_tensor to{n.input(0)->element, {0}, {}, {}};
  for (const auto* t : n.inputs) {
    if (t == nullptr || t->dims.size() != 1 || t->element != to.element ||
        to.size() + t->size() > most_known_elements) {
      return std::nullopt;
    }
    to.dims[0] += t->dims[0];
    to.integers.insert(to.integers.end(), t->integers.begin(), t->integers.end());
    to.reals.insert(to.reals.end(), t->reals.begin(), t->reals.end());
  }
  return to;
}

UNITY_INLINE folded fold_slice(const fold_node& n) {
  const auto starts = n.list("starts", 1, 10);
  const auto ends = n.list("ends", 2, 10);
  if (n.input(0) == nullptr || !starts || !ends || starts->size() != ends->size()) {
    return std::nullopt;
  }
  auto to = *n.input(0);
  const auto axes = n.list("axes", 3, 10);
  const auto steps = n.opset < 10 ? std::nullopt : n.list("", 4, 10);
  for (std::size_t i = 0; i < starts->size(); ++i) {
    const auto axis = front_axis(axes && i < axes->size() ? (*axes)[i] : static_cast<std::int64_t>(i), to.dims.size());
    if (!axis || (axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) {
      return std::nullopt;
    }
    const auto size = to.dims[*axis];
    const auto range = clamp_slice((*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1, size);
    if (!range) {
      return std::nullopt;
    }
    std::vector<std::int64_t> picks;
    for (std::int64_t k = 0; k < range->count; ++k) {
      picks.push_back(range->from + k * range->step);
    }
    std::size_t inner = 1;
    std::size_t outer = 1;
    for (std::size_t d = 0; d < to.dims.size(); ++d) {
      (d < *axis ? outer : inner) *= d == *axis ? 1 : static_cast<std::size_t>(to.dims[d]);
    }
    auto dims = to.dims;
    dims[*axis] = range->count;
    to = gathered(to, dims, outer * picks.size() * inner, [&, from = static_cast<std::size_t>(size)](std::size_t at) {
      return (at / inner / picks.size() * from + static_cast<std::size_t>(picks[at / inner % picks.size()])) * inner +
             at % inner;
    });
  }
  return to;
}

UNITY_INLINE folded fold_constant_of_shape(const fold_node& n) {
  if (n.input(0) == nullptr || n.input(0)->is_real()) {
    return std::nullopt;
  }
  const auto& dims = n.input(0)->integers;
  const auto count = known_count(dims);
  const auto value = n.attributes.known("value");
  if (!count || (value && value->size() != 1)) {
    return std::nullopt;
  }
  const known_tensor zero{tensor::dtype::float32, {1}, {}, {0.0}};
  return gathered(value ? *value : zero, dims, *count, [](std::size_t) { return std::size_t{0}; });
}

UNITY_INLINE folded fold_expand(const fold_node& n) {
  if (n.input(0) == nullptr || n.input(1) == nullptr || n.input(1)->is_real()) {
    return std::nullopt;
  }
  const auto dims = tensor::broadcast(n.input(0)->dims, n.input(1)->integers);
  return dims ? stretched(*n.input(0), std::vector<std::int64_t>(dims->begin(), dims->end())) : std::nullopt;
}

UNITY_INLINE folded fold_where(const fold_node& n) {
  const auto dims = n.inputs.size() == 3 ? joint_dims(n.inputs) : std::nullopt;
  if (!dims || n.inputs[1]->element != n.inputs[2]->element || n.inputs[0]->is_real()) {
    return std::nullopt;
  }
  const auto condition = stretched(*n.inputs[0], *dims);
  auto to = stretched(*n.inputs[1], *dims);
  const auto otherwise = stretched(*n.inputs[2], *dims);
  if (!condition || !to || !otherwise) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < condition->size(); ++i) {
    if (condition->integers[i] == 0 && to->is_real()) {
      to->reals[i] = otherwise->reals[i];
    } else if (condition->integers[i] == 0) {
      to->integers[i] = otherwise->integers[i];
    }
  }
  return to;
}

UNITY_INLINE folded fold_range(const fold_node& n) {
  if (n.inputs.size() != 3 || n.input(0) == nullptr || n.input(1) == nullptr || n.input(2) == nullptr ||
      n.input(0)->size() != 1 || n.input(1)->size() != 1 || n.input(2)->size() != 1) {
    return std::nullopt;
  }
  const auto start = n.input(0)->real(0);
  const auto delta = n.input(2)->real(0);
  const auto count = std::ceil((n.input(1)->real(0) - start) / delta);
  if (!(count <= static_cast<double>(most_known_elements))) {
    return std::nullopt;
  }
  const auto size = count > 0 ? static_cast<std::size_t>(count) : 0;
  known_tensor to{n.input(0)->element, {static_cast<std::int64_t>(size)}, {}, {}};
  for (std::size_t i = 0; i < size; ++i) {
    const auto value = start + static_cast<double>(i) * delta;
    to.is_real() ? to.reals.push_back(value) : to.integers.push_back(tensor::to_integer<std::int64_t>(value));
  }
  return settle(std::move(to));
}

UNITY_INLINE folded fold_product(const fold_node& n) {
  if (n.input(0) == nullptr || n.input(0)->is_real() || n.input(0)->dims.size() != 1) {
    return std::nullopt;
  }
  const auto axes = n.list("axes", 1, 18);
  if ((!axes || axes->empty()) && n.attributes.integer("noop_with_empty_axes", 0) != 0) {
    return settle(*n.input(0));
  }
  std::uint64_t product = 1;
  for (const auto x : n.input(0)->integers) {
    product *= static_cast<std::uint64_t>(x);
  }
  known_tensor to{n.input(0)->element, {}, {static_cast<std::int64_t>(product)}, {}};
  if (n.attributes.integer("keepdims", 1) != 0) {
    to.dims = {1};
  }
  return settle(std::move(to));
}

UNITY_INLINE const std::map<std::string_view, fold_row>& fold_rows() {
  static const std::map<std::string_view, fold_row> rows{
      {"Add", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a + b; }); }},
      {"Sub", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a - b; }); }},
      {"Mul", [](const fold_node& n) { return fold_arithmetic(n, [](auto a, auto b) { return a * b; }); }},
      {"Div", [](const fold_node& n) { return fold_division(n, false); }},
      {"Mod", [](const fold_node& n) { return fold_division(n, true); }},
      {"Min",
       [](const fold_node& n) {
         return combine(
             n, [](auto a, auto b) { return std::optional{std::min(a, b)}; },
             [](double a, double b) { return std::min(a, b); });
       }},
      {"Max",
       [](const fold_node& n) {
         return combine(
             n, [](auto a, auto b) { return std::optional{std::max(a, b)}; },
             [](double a, double b) { return std::max(a, b); });
       }},
      {"Equal", [](const fold_node& n) { return fold_comparison(n, std::equal_to<>{}); }},
      {"Less", [](const fold_node& n) { return fold_comparison(n, std::less<>{}); }},
      {"Greater", [](const fold_node& n) { return fold_comparison(n, std::greater<>{}); }},
      {"LessOrEqual", [](const fold_node& n) { return fold_comparison(n, std::less_equal<>{}); }},
      {"GreaterOrEqual", [](const fold_node& n) { return fold_comparison(n, std::greater_equal<>{}); }},
      {"And", [](const fold_node& n) { return fold_comparison(n, [](auto a, auto b) { return a != 0 && b != 0; }); }},
      {"Or", [](const fold_node& n) { return fold_comparison(n, [](auto a, auto b) { return a != 0 || b != 0; }); }},
      {"Not", [](const fold_node& n) { return fold_unary(n, [](double x) { return x == 0 ? 1.0 : 0.0; }); }},
      {"Neg", [](const fold_node& n) { return fold_unary(n, [](double x) { return -x; }); }},
      {"Abs", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::fabs(x); }); }},
      {"Sqrt", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::sqrt(x); }); }},
      {"Floor", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::floor(x); }); }},
      {"Ceil", [](const fold_node& n) { return fold_unary(n, [](double x) { return std::ceil(x); }); }},
      {"Reciprocal", [](const fold_node& n) { return fold_unary(n, [](double x) { return 1.0 / x; }); }},
      {"Cast", fold_cast},
      {"Reshape", fold_reshape},
      {"Unsqueeze", fold_unsqueeze},
      {"Squeeze", fold_squeeze},
      {"Transpose", fold_transpose},
      {"Gather", fold_gather},
      {"Concat", fold_concat},
      {"Slice", fold_slice},
      {"ConstantOfShape", fold_constant_of_shape},
      {"Expand", fold_expand},
      {"Where", fold_where},
      {"Range", fold_range},
      {"ReduceProd", fold_product},
  };
  return rows;
}

}  // namespace unity::io::detail

#endif
