// FlexFlow's rules with parallelization operators, as parallel computation graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/io/flexflow_rules.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

// FlexFlow has one replica dimension, dimension 0, for copies and for terms of a sum. Here, Replicate of it makes
// copies, Reduce of it adds terms, and a Concat along it makes terms of two tensors. Replicate of another dimension
// writes a tensor twice, as blocks of a larger one; Reduce of another adds two blocks up: combined, split and added,
// because the result does not depend on where the blocks are. A Partition or Combine of the replica dimension has no
// counterpart.
class flexflow_parallel_rule {
 public:
  explicit flexflow_parallel_rule(foreign_rule rule);

  [[nodiscard]] const foreign_rule& rule() const noexcept { return rule_; }
  // The number of variables, which are numbered from 1; some may be unread.
  [[nodiscard]] std::size_t variables() const noexcept { return variables_; }
  [[nodiscard]] bool reads(std::size_t v) const;
  // Why there is no such graph for any types; empty if there may be one.
  [[nodiscard]] const std::string& outside_because() const noexcept { return outside_; }

  // The outputs of one side. variables: by number, from 1. Empty if an operator does not accept its operands, or lacks
  // a result that is read; the operators before it have been written then.
  [[nodiscard]] std::optional<std::vector<value_id>> write(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                                           bool target, std::span<const value_id> variables) const;

 private:
  using made_values = std::optional<std::vector<value_id>>;

  // Why there is no such operator; empty if there may be one. A file may name any operator with any parameters.
  [[nodiscard]] static std::string why_outside(const foreign_rule::operation& op);

  // Null if it does not exist: a file may contain any number.
  template <class Place>
  [[nodiscard]] static value_id result_of(const std::vector<std::vector<value_id>>& results, const Place& at) {
    const auto node = static_cast<std::size_t>(at.node);
    const auto result = static_cast<std::size_t>(at.result);
    return node < results.size() && result < results[node].size() ? results[node][result] : value_id{};
  }

  [[nodiscard]] static made_values added(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                         const tensor::operation& op, const std::vector<value_id>& operands);

  // Converts a dimension that is not the replica dimension.
  [[nodiscard]] std::int64_t axis_of(std::int64_t axis, std::size_t i, bool target) const {
    return roles_.is_weight({static_cast<std::int64_t>(i), 0}, target ? 1 : 0) ? 2 - axis : axis - 1;
  }

  [[nodiscard]] made_values apply(parallel::pcg_writer& writer, const parallel::pcg_algebra& a, std::size_t i,
                                  bool target, const std::vector<value_id>& operands) const;
  [[nodiscard]] static made_values halves(parallel::pcg_writer& writer, const parallel::pcg_algebra& a, value_id v,
                                          std::int64_t axis);

  foreign_rule rule_;
  detail::flexflow_axes roles_;
  std::size_t variables_ = 0;
  std::string outside_{};
};

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FLEXFLOW_PARALLEL_RULES)

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

#include <unity/parallel/parallel_type.hpp>

namespace unity::io {

UNITY_INLINE flexflow_parallel_rule::flexflow_parallel_rule(foreign_rule rule) : rule_{std::move(rule)}, roles_{rule_} {
  for (const auto* side : {&rule_.source, &rule_.target}) {
    for (const auto& op : *side) {
      if (auto because = why_outside(op); !because.empty()) {
        outside_ = std::move(because);
      }
      for (const auto& in : op.inputs) {
        const auto v = static_cast<std::size_t>(in.node < 0 ? -in.node : 0);
        variables_ = v > variables_ ? v : variables_;
      }
    }
  }
}

UNITY_INLINE bool flexflow_parallel_rule::reads(std::size_t v) const {
  for (const auto* side : {&rule_.source, &rule_.target}) {
    for (const auto& op : *side) {
      for (const auto& in : op.inputs) {
        if (in.node == -static_cast<std::int64_t>(v)) {
          return true;
        }
      }
    }
  }
  return false;
}

UNITY_INLINE std::optional<std::vector<value_id>> flexflow_parallel_rule::write(
    parallel::pcg_writer& writer, const parallel::pcg_algebra& a, bool target,
    std::span<const value_id> variables) const {
  const auto& ops = target ? rule_.target : rule_.source;
  std::vector<std::vector<value_id>> results;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    std::vector<value_id> operands;
    for (const auto& in : ops[i].inputs) {
      operands.push_back(in.node < 0 ? variables[static_cast<std::size_t>(-in.node)] : result_of(results, in));
      if (!operands.back().valid()) {
        return std::nullopt;
      }
    }
    auto made = apply(writer, a, i, target, operands);
    if (!made) {
      return std::nullopt;
    }
    results.push_back(std::move(*made));
  }
  std::vector<value_id> outputs;
  for (const auto& m : rule_.outputs) {
    const auto& at = target ? m.target : m.source;
    outputs.push_back(result_of(results, at));
    if (!outputs.back().valid()) {
      return std::nullopt;
    }
  }
  return outputs;
}

UNITY_INLINE std::string flexflow_parallel_rule::why_outside(const foreign_rule::operation& op) {
  constexpr std::array<std::string_view, 6> plain{"linear", "relu", "add", "mul", "concat", "split"};
  constexpr std::array<std::string_view, 4> dividing{"partition", "combine", "replicate", "reduce"};
  const bool divides = std::ranges::find(dividing, op.type) != dividing.end();
  if (!divides && std::ranges::find(plain, op.type) == plain.end()) {
    return fmt::format("{} is none of the operators of these rules", op.type);
  }
  const auto along = op.parameter(divides ? "parallel_dim" : "axis").value_or(0);
  if (op.inputs.empty() || along < 0 || (divides && op.parameter("parallel_degree").value_or(0) < 1)) {
    return fmt::format("{} without operands, dimension or degree", op.type);
  }
  const bool along_replicas =
      op.parameter("parallel_dim") == std::int64_t{0} && (op.type == "partition" || op.type == "combine");
  if (along_replicas || (op.type == "split" && op.parameter("axis") == std::int64_t{0})) {
    return fmt::format("{} along the replica dimension", op.type);
  }
  return {};
}

UNITY_INLINE auto flexflow_parallel_rule::added(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                                const tensor::operation& op, const std::vector<value_id>& operands)
    -> made_values {
  std::vector<parallel::parallel_type> types;
  for (const auto v : operands) {
    types.push_back(writer.type(v));
  }
  if (!a.infer(op, types)) {
    return std::nullopt;
  }
  const auto n = writer.add(op, operands);
  return std::vector<value_id>(writer.graph().results(n).begin(), writer.graph().results(n).end());
}

UNITY_INLINE auto flexflow_parallel_rule::apply(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                                std::size_t i, bool target, const std::vector<value_id>& operands) const
    -> made_values {
  using parallel::parallel_kind;
  const auto& op = (target ? rule_.target : rule_.source)[i];
  const auto& plain = a.operators();
  const auto chained = [&](parallel_kind kind, std::int64_t axis, std::vector<value_id> from) {
    return added(writer, a,
                 a.make(parallel::parallel_operator{kind, axis,
                                                    parallel::has_degree(kind) ? *op.parameter("parallel_degree") : 0}),
                 from);
  };
  if (op.type == "linear" || op.type == "relu" || op.type == "add" || op.type == "mul") {
    const bool fused = op.parameter("activation").value_or(0) != 0;
    const auto made = op.type == "linear" ? plain.make_operation("matmul", {{"activation", fused ? "relu" : "none"}})
                                          : plain.make_operation(op.type);
    return added(writer, a, made, operands);
  }
  const auto dimension = op.parameter(op.type == "concat" || op.type == "split" ? "axis" : "parallel_dim").value_or(0);
  const auto axis = dimension == 0 ? 0 : axis_of(dimension, i, target);
  if (axis < 0) {
    return std::nullopt;
  }
  if (op.type == "concat") {
    return dimension == 0 ? chained(parallel_kind::terms, 0, operands)
                          : added(writer, a, plain.make_operation("concat", {{"axis", axis}}), operands);
  }
  if (op.type == "split") {
    return halves(writer, a, operands[0], axis);
  }
  if (op.type == "partition" || op.type == "combine") {
    return chained(op.type == "partition" ? parallel_kind::partition : parallel_kind::combine, axis, operands);
  }
  if (op.type == "replicate") {
    return dimension == 0 ? chained(parallel_kind::replicate, 0, operands)
                          : chained(parallel_kind::blocks, axis, {operands[0], operands[0]});
  }
  if (dimension == 0) {
    return chained(parallel_kind::reduce, 0, operands);
  }
  const auto whole = chained(parallel_kind::combine, axis, operands);
  const auto parts = whole ? halves(writer, a, (*whole)[0], axis) : std::nullopt;
  return parts ? added(writer, a, plain.make_operation("add"), *parts) : std::nullopt;
}

UNITY_INLINE auto flexflow_parallel_rule::halves(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                                 value_id v, std::int64_t axis) -> made_values {
  const auto& dims = writer.type(v).global.dims;
  if (axis >= static_cast<std::int64_t>(dims.size()) || dims[static_cast<std::size_t>(axis)] % 2 != 0) {
    return std::nullopt;
  }
  const auto half = dims[static_cast<std::size_t>(axis)] / 2;
  return added(writer, a, a.operators().make_operation("split", {{"axis", axis}, {"sizes", {half, half}}}), {v});
}

}  // namespace unity::io

#endif
