// The sizes of the tensors of a foreign rule, as expressions over its variables in this library's rule syntax.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unity/io/foreign_rule.hpp>

namespace unity::io::detail {

// Size expressions, and the conditions under which the foreign operators are defined: equal shapes if they do not
// broadcast, kernel sizes, ranks.
class foreign_shapes {
 public:
  explicit foreign_shapes(const foreign_rule& rule) : rule_{rule}, ranks_{rule} {}

  // The size of a tensor along an axis, which counts from the front, or from the back if negative.
  [[nodiscard]] std::string size(const source_of& t, int side, std::int64_t axis) const;
  // The sizes of a split, from the concat that it undoes: the operands of the first concat along the split's axis among
  // its ancestors. Empty if there is none.
  [[nodiscard]] std::optional<std::vector<std::string>> split_sizes(const source_of& t, int side,
                                                                    std::int64_t axis) const;
  [[nodiscard]] std::vector<std::string> conditions() const;

 private:
  static constexpr std::size_t longest = 4000;
  static constexpr std::size_t most_conditions = 1000;

  [[nodiscard]] const foreign_rule::operation& at(const source_of& t, int side) const {
    return (side == 0 ? rule_.source : rule_.target).at(static_cast<std::size_t>(t.node));
  }
  // The tensor and axis from which an axis of an operator's result comes unchanged.
  [[nodiscard]] std::optional<std::pair<source_of, std::int64_t>> origin(const foreign_rule::operation& op, int side,
                                                                         const source_of& result,
                                                                         std::int64_t axis) const;
  [[nodiscard]] std::string size_of_result(const foreign_rule::operation& op, const source_of& t, int side,
                                           std::int64_t axis) const;
  static std::string window(const std::string& size, std::int64_t kernel, std::int64_t stride, bool same);

  // The variable that has the same shape as a tensor, found through operators that keep shapes.
  [[nodiscard]] std::optional<source_of> same_shape(source_of t, int side) const;
  static void add_equality(const std::string& a, const std::string& b, std::vector<std::string>& all);
  void equal_shapes(const source_of& a, const source_of& b, int side, std::vector<std::string>& all) const;
  void conditions_of(const foreign_rule::operation& op, int side, std::vector<std::string>& all) const;
  static void add_number(const std::string& size, std::int64_t number, std::vector<std::string>& all) {
    add_equality(size, fmt::format("{}", number), all);
  }
  // Foreign operators require operands of one rank, while broadcasting here would allow others. If all operators keep
  // shapes, conditions of equal shapes suffice.
  void rank_conditions(std::vector<std::string>& all) const;

  const foreign_rule& rule_;
  foreign_ranks ranks_;
  mutable std::map<std::array<std::int64_t, 4>, std::string> sizes_;  // memo: sizes are requested repeatedly
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FOREIGN_SHAPES)

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>

#include <unity/core/config.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string foreign_shapes::size(const source_of& t, int side, std::int64_t axis) const {
  const auto rank = ranks_.rank(t, side);
  if (axis < 0 && rank) {
    axis += *rank;
  }
  if (t.node < 0) {
    return size_of(variable_name(t), axis);
  }
  const std::array key{static_cast<std::int64_t>(side), t.node, t.result, axis};
  if (const auto known = sizes_.find(key); known != sizes_.end()) {
    return known->second;
  }
  auto expression = size_of_result(at(t, side), t, side, axis);
  if (expression.size() > longest) {
    throw outside{fmt::format("a size that takes more than {} characters", longest)};
  }
  return sizes_.emplace(key, std::move(expression)).first->second;
}

UNITY_INLINE std::optional<std::vector<std::string>> foreign_shapes::split_sizes(const source_of& t, int side,
                                                                                 std::int64_t axis) const {
  if (t.node < 0) {
    return std::nullopt;
  }
  const auto& op = at(t, side);
  if (op.inputs.empty()) {
    return std::nullopt;
  }
  if (op.type == "concat") {
    if (op.parameter("axis") != axis) {
      return split_sizes(op.inputs[0], side, axis);
    }
    std::vector<std::string> sizes;
    for (const auto& in : op.inputs) {
      sizes.push_back(size(in, side, axis));
    }
    return sizes;
  }
  const auto up = origin(op, side, t, axis);
  return up ? split_sizes(up->first, side, up->second) : std::nullopt;
}

UNITY_INLINE std::vector<std::string> foreign_shapes::conditions() const {
  std::vector<std::string> all;
  rank_conditions(all);
  for (int side = 0; side < 2; ++side) {
    for (const auto& op : side == 0 ? rule_.source : rule_.target) {
      conditions_of(op, side, all);
    }
  }
  if (all.size() > most_conditions) {
    throw outside{fmt::format("more than {} conditions", most_conditions)};
  }
  std::vector<std::string> distinct;
  for (auto& c : all) {
    if (std::find(distinct.begin(), distinct.end(), c) == distinct.end()) {
      distinct.push_back(std::move(c));
    }
  }
  return distinct;
}

UNITY_INLINE std::optional<std::pair<source_of, std::int64_t>> foreign_shapes::origin(const foreign_rule::operation& op,
                                                                                      int side, const source_of& result,
                                                                                      std::int64_t axis) const {
  if (op.inputs.empty()) {
    return std::nullopt;
  }
  if (is_matmul(op.type)) {
    require_inputs(op, 2);
    const auto rank = ranks_.rank(result, side);
    if (rank ? axis == *rank - 1 : axis == -1 || axis == 1) {  // tensors of unknown rank are matrices
      return std::pair{op.inputs[1], op.type == "linear" ? 1 : axis};
    }
    return std::pair{op.inputs[0], axis};
  }
  if (op.type == "conv2d") {
    require_inputs(op, 2);
    return axis == 0   ? std::optional{std::pair{op.inputs[0], axis}}
           : axis == 1 ? std::optional{std::pair{op.inputs[1], std::int64_t{0}}}
                       : std::nullopt;
  }
  if (is_pool(op.type) || op.type == "enlarge") {
    return axis < 2 ? std::optional{std::pair{op.inputs[0], axis}} : std::nullopt;
  }
  if (op.type == "transpose") {
    const auto axes = permutation_of(required(op, "permutation"), required(op, "num_dims"));
    return axis >= 0 && axis < static_cast<std::int64_t>(axes.size())
               ? std::optional{std::pair{op.inputs[0], axes[static_cast<std::size_t>(axis)]}}
               : std::nullopt;
  }
  if (op.type == "split" || op.type == "concat") {
    return op.parameter("axis") == axis ? std::nullopt : std::optional{std::pair{op.inputs[0], axis}};
  }
  return std::pair{op.inputs[0], axis};
}

UNITY_INLINE std::string foreign_shapes::size_of_result(const foreign_rule::operation& op, const source_of& t, int side,
                                                        std::int64_t axis) const {
  if (const auto up = origin(op, side, t, axis)) {
    return size(up->first, side, up->second);
  }
  if (op.inputs.empty()) {
    throw outside{fmt::format("the size of {}", op.type)};
  }
  if (op.type == "concat") {
    std::string sum;
    for (const auto& in : op.inputs) {
      sum += fmt::format("{}{}", sum.empty() ? "" : " + ", size(in, side, axis));
    }
    return sum;
  }
  if (op.type == "split") {
    const auto sizes = split_sizes(op.inputs[0], side, axis);
    if (!sizes || t.result >= static_cast<std::int64_t>(sizes->size())) {
      throw outside{"a split that undoes no concat"};
    }
    return (*sizes)[static_cast<std::size_t>(t.result)];
  }
  const char* suffix = axis == 2 ? "_h" : "_w";
  if (op.type == "enlarge") {
    return fmt::format("{}", required(op, fmt::format("kernel{}", suffix)));
  }
  if (op.type == "conv2d" || is_pool(op.type)) {
    return window(size(op.inputs[0], side, axis), required(op, fmt::format("kernel{}", suffix)),
                  required(op, fmt::format("stride{}", suffix)), required(op, "pad") == 0);
  }
  throw outside{fmt::format("the size of {}", op.type)};
}

UNITY_INLINE std::string foreign_shapes::window(const std::string& size, std::int64_t kernel, std::int64_t stride,
                                                bool same) {
  if (size.starts_with("((((((((((((((((")) {
    throw outside{"a size behind more than 16 windows"};
  }
  const auto shrink = same ? stride - 1 : stride - kernel;
  if (shrink == 0 && stride == 1) {
    return size;
  }
  const auto sum = shrink == 0 ? size : fmt::format("({}{}{})", size, shrink < 0 ? " - " : " + ", std::abs(shrink));
  return stride == 1 ? sum : fmt::format("{} / {}", sum, stride);
}

UNITY_INLINE std::optional<source_of> foreign_shapes::same_shape(source_of t, int side) const {
  while (t.node >= 0) {
    const auto& op = at(t, side);
    if (op.inputs.empty() || !(is_activation(op.type) || is_elementwise(op.type) || op.type == "scalar_multiply")) {
      return std::nullopt;
    }
    t = op.inputs[0];
  }
  return t;
}

UNITY_INLINE void foreign_shapes::add_equality(const std::string& a, const std::string& b,
                                               std::vector<std::string>& all) {
  if (a != b) {
    const bool ordered = a < b || b.front() < 'a';  // numbers go to the right side
    all.push_back(fmt::format("{} == {}", ordered ? a : b, ordered ? b : a));
  }
}

UNITY_INLINE void foreign_shapes::equal_shapes(const source_of& a, const source_of& b, int side,
                                               std::vector<std::string>& all) const {
  const auto variable_a = same_shape(a, side);
  const auto variable_b = same_shape(b, side);
  if (variable_a && variable_b) {
    add_equality(fmt::format("shape({})", variable_name(*variable_a)),
                 fmt::format("shape({})", variable_name(*variable_b)), all);
    return;
  }
  const auto rank = ranks_.rank(a, side);
  for (std::int64_t axis = rank ? 0 : -2; axis < rank.value_or(0); ++axis) {
    add_equality(size(a, side, axis), size(b, side, axis), all);
  }
}

UNITY_INLINE void foreign_shapes::conditions_of(const foreign_rule::operation& op, int side,
                                                std::vector<std::string>& all) const {
  if (is_elementwise(op.type)) {
    require_inputs(op, 2);
    const auto constant = [&](const source_of& t) { return t.node >= 0 && at(t, side).inputs.empty(); };
    if (!constant(op.inputs[0]) && !constant(op.inputs[1])) {
      equal_shapes(op.inputs[0], op.inputs[1], side, all);
    }
  } else if (op.type == "conv2d") {
    require_inputs(op, 2);
    const auto& kernel = op.inputs[1];
    if (kernel.node < 0 || !at(kernel, side).inputs.empty()) {
      add_number(size(kernel, side, 2), required(op, "kernel_h"), all);
      add_number(size(kernel, side, 3), required(op, "kernel_w"), all);
    }
  }
}

UNITY_INLINE void foreign_shapes::rank_conditions(std::vector<std::string>& all) const {
  std::map<foreign_ranks::tensor_key, source_of> first;
  bool mixes = false;
  for (int side = 0; side < 2; ++side) {
    for (const auto& op : side == 0 ? rule_.source : rule_.target) {
      mixes = mixes || is_matmul(op.type);
    }
  }
  for (int side = 0; side < 2; ++side) {
    for (const auto& op : side == 0 ? rule_.source : rule_.target) {
      for (const auto& in : op.inputs) {
        if (in.node >= 0) {
          continue;
        }
        const auto name = fmt::format("rank({})", variable_name(in));
        if (const auto rank = ranks_.rank(in, side)) {
          all.push_back(fmt::format("{} == {}", name, *rank));
        } else if (mixes) {
          const auto& other = first.try_emplace(ranks_.group(in, side), in).first->second;
          add_equality(fmt::format("rank({})", variable_name(other)), name, all);
        }
      }
    }
  }
}

}  // namespace unity::io::detail

#endif
