// Arithmetic on tensors that are known during import.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx/graph_maker.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::io::detail {

// A node whose inputs are all known. Rows return nothing if they do not apply; then the node is not shape arithmetic
// and is imported normally, which reports errors.
struct fold_node {
  const node_attributes& attributes;
  std::int64_t opset;
  std::span<const known_tensor* const> inputs;  // null if absent

  [[nodiscard]] const known_tensor* input(std::size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  // A list that is an attribute in older opsets, and an input from opset `since` on.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> list(std::string_view name, std::size_t place,
                                                              std::int64_t since) const;
};

using folded = std::optional<known_tensor>;

// Gathers: element i of the result is element pick(i) of `from`.
template <class Pick>
known_tensor gathered(const known_tensor& from, std::vector<std::int64_t> dims, std::size_t count, Pick pick) {
  known_tensor to{from.element, std::move(dims), {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    if (from.is_real()) {
      to.reals.push_back(from.reals[pick(i)]);
    } else {
      to.integers.push_back(from.integers[pick(i)]);
    }
  }
  return to;
}

// `from` broadcast to `dims`.
folded stretched(const known_tensor& from, std::span<const std::int64_t> dims);

std::optional<std::vector<std::int64_t>> joint_dims(std::span<const known_tensor* const> all);

// Applies an element-wise function to two broadcast operands; `element`: of the result if it differs from the
// operands'.
template <class Integers, class Reals>
folded combine(const fold_node& n, Integers on_integers, Reals on_reals, std::optional<tensor::dtype> element = {}) {
  const auto dims = joint_dims(n.inputs);
  if (n.inputs.size() != 2 || !dims || n.inputs[0]->element != n.inputs[1]->element ||
      (n.opset < 7 && n.attributes.find("axis") != nullptr)) {  // the older form of broadcasting
    return std::nullopt;
  }
  const auto a = stretched(*n.inputs[0], *dims);
  const auto b = stretched(*n.inputs[1], *dims);
  if (!a || !b) {
    return std::nullopt;
  }
  known_tensor to{element.value_or(a->element), *dims, {}, {}};
  for (std::size_t i = 0; i < a->size(); ++i) {
    if (to.is_real()) {
      to.reals.push_back(static_cast<double>(on_reals(a->real(i), b->real(i))));
    } else if (a->is_real()) {
      to.integers.push_back(static_cast<std::int64_t>(on_reals(a->real(i), b->real(i))));
    } else {
      const std::optional<std::int64_t> value = on_integers(a->integers[i], b->integers[i]);
      if (!value) {
        return std::nullopt;
      }
      to.integers.push_back(*value);
    }
  }
  return settle(std::move(to));
}

template <class Op>
folded fold_arithmetic(const fold_node& n, Op op) {
  // Wraps around like hardware; signed overflow would be undefined.
  return combine(
      n,
      [&](std::int64_t a, std::int64_t b) {
        return std::optional{
            static_cast<std::int64_t>(op(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)))};
      },
      [&](double a, double b) { return op(a, b); });
}
template <class Op>
folded fold_comparison(const fold_node& n, Op op) {
  return combine(
      n, [&](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>{op(a, b) ? 1 : 0}; },
      [&](double a, double b) { return op(a, b) ? 1.0 : 0.0; }, tensor::dtype::boolean);
}
folded fold_division(const fold_node& n, bool remainder);
template <class Op>
folded fold_unary(const fold_node& n, Op op) {
  if (n.inputs.size() != 1 || n.input(0) == nullptr) {
    return std::nullopt;
  }
  auto to = *n.input(0);
  for (auto& x : to.reals) {
    x = op(x);
  }
  for (auto& x : to.integers) {
    constexpr std::int64_t exact = std::int64_t{1} << 53;
    if (x > exact || x < -exact) {
      return std::nullopt;
    }
    x = tensor::to_integer<std::int64_t>(op(static_cast<double>(x)));
  }
  return settle(std::move(to));
}

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_FOLD_ARITHMETIC)

#include <cmath>

#include <unity/core/row_major.hpp>

namespace unity::io::detail {

UNITY_INLINE std::optional<std::vector<std::int64_t>> fold_node::list(std::string_view name, std::size_t place,
                                                                      std::int64_t since) const {
  if (opset < since) {
    return attributes.integers(name);
  }
  return input(place) != nullptr && !input(place)->is_real() ? std::optional{input(place)->integers} : std::nullopt;
}

UNITY_INLINE folded stretched(const known_tensor& from, std::span<const std::int64_t> dims) {
  const auto count = known_count(dims);
  if (!count || from.dims.size() > dims.size()) {
    return std::nullopt;
  }
  const auto skipped = dims.size() - from.dims.size();
  for (std::size_t d = 0; d < from.dims.size(); ++d) {
    if (from.dims[d] != 1 && from.dims[d] != dims[d + skipped]) {
      return std::nullopt;
    }
  }
  std::vector<std::int64_t> sizes(dims.begin(), dims.end());
  std::vector<std::size_t> places;
  places.reserve(*count);
  std::vector<std::int64_t> read(from.dims.size());
  for_each_position(sizes, [&](const std::vector<std::int64_t>& at) {
    for (std::size_t d = 0; d < read.size(); ++d) {
      read[d] = from.dims[d] == 1 ? 0 : at[d + skipped];
    }
    places.push_back(offset_of(from.dims, read));
  });
  return gathered(from, std::move(sizes), *count, [&](std::size_t i) { return places[i]; });
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> joint_dims(std::span<const known_tensor* const> all) {
  tensor::shape joint;
  for (const auto* t : all) {
    if (t == nullptr) {
      return std::nullopt;
    }
    const auto wider = tensor::broadcast(joint, t->dims);
    if (!wider) {
      return std::nullopt;
    }
    joint = *wider;
  }
  return std::vector<std::int64_t>{joint.begin(), joint.end()};
}

UNITY_INLINE folded fold_division(const fold_node& n, bool remainder) {
  return combine(
      n,
      [&](std::int64_t a, std::int64_t b) -> std::optional<std::int64_t> {
        if (b == 0 || b == -1) {
          return b == 0 ? std::nullopt
                        : std::optional{remainder ? 0 : static_cast<std::int64_t>(0U - static_cast<std::uint64_t>(a))};
        }
        // Mod has the sign of the divisor unless fmod is set.
        const auto rest = a % b;
        const bool wraps = n.attributes.integer("fmod", 0) == 0 && rest != 0 && (rest < 0) != (b < 0);
        return remainder ? (wraps ? rest + b : rest) : a / b;
      },
      [&](double a, double b) { return remainder ? std::fmod(a, b) : a / b; });
}

}  // namespace unity::io::detail

#endif
