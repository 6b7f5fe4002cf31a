// FlexFlow's rule files: collections of rules in JSON. Those with parallelization operators are rules of parallel
// computation graphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/core/id.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/rule_text.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/tensor/index_structure.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io {

namespace detail {

std::string lower(std::string text);
std::string flexflow_operator(std::string name);
std::string flexflow_parameter(std::string name);

// Rules number operators and state sizes; numbers of more than 32 bits indicate a damaged file.
std::int64_t small_integer(const json_place& in);

foreign_rule::operation flexflow_operation(const json_place& in);

foreign_rule flexflow_rule(const json_place& in);

// FlexFlow numbers dimensions with a replica dimension first, and the dimensions of a weight as output channel, input
// channel. Here there is no replica dimension, and weights are input channel, output channel. So each tensor must be
// known to be a weight or an activation: weights are second operands of linear, and tensors that share an element-wise
// operator, a concat or a split with a weight.
class flexflow_axes {
 public:
  explicit flexflow_axes(foreign_rule& rule);
  // Whether a tensor that is read or computed in the source (side 0) or the target (1) is a weight.
  [[nodiscard]] bool is_weight(const source_of& t, int side) const {
    const auto found = roles_.find(key(t, side));
    return found != roles_.end() && found->second == weight;
  }
  void translate();

 private:
  using tensor_key = std::pair<int, std::int64_t>;
  enum role : unsigned { unknown = 0, weight = 1, activation = 2 };

  static tensor_key key(const source_of& t, int side) { return {t.node < 0 ? -1 : side, t.node}; }
  void mark(const operations& ops, int side);
  bool spread(const operations& ops, int side);
  void translate(foreign_rule::operation& op, const source_of& self, int side);

  foreign_rule& rule_;
  std::map<tensor_key, unsigned> roles_;
};

}  // namespace detail

// The rules of a JSON collection, with the file's own dimension numbers. `file` is for messages.
// Throws: unity::error naming the byte or the member if the collection is malformed.
[[nodiscard]] std::vector<foreign_rule> parse_flexflow_rules(std::string_view text, std::string_view file);

// Throws: unity::error.
[[nodiscard]] inline std::vector<foreign_rule> read_flexflow_rules(const std::filesystem::path& path) {
  return parse_flexflow_rules(read_file(path), path.string());
}

// Rule text of a FlexFlow rule of plain operators. Rules with parallelization operators are rejected: they are about
// parallel tensors, not tensors.
[[nodiscard]] converted_rule flexflow_rule_text(foreign_rule rule);

// FlexFlow has one replica dimension, dimension 0, for copies and for partial sums. Here, Replicate of it makes
// copies, Reduce of it adds partials, and a Concat along it makes partials of two tensors. Replicate of another
// dimension writes a tensor twice, as blocks of a larger one; Reduce of another adds two blocks up: combined, split and
// added, because the result does not depend on where the blocks are. A Partition or Combine of the replica dimension
// has no counterpart.
class flexflow_parallel_rule {
 public:
  explicit flexflow_parallel_rule(foreign_rule rule);

  [[nodiscard]] const foreign_rule& rule() const noexcept { return rule_; }
  // The number of variables, which are numbered from 1; some may be unread.
  [[nodiscard]] std::size_t variables() const noexcept { return variables_; }
  [[nodiscard]] bool reads(std::size_t v) const;
  // Why the rule cannot be written as graphs, whatever the types of its variables; empty if write() may succeed.
  [[nodiscard]] const std::string& outside_because() const noexcept { return outside_; }

  // The outputs of one side. variables: by number, from 1. Empty if an operator does not accept its operands, or lacks
  // a result that is read; the operators before it have been written then.
  [[nodiscard]] std::optional<std::vector<value_id>> write(parallel::pcg_writer& writer, const parallel::pcg_algebra& a,
                                                           bool target, std::span<const value_id> variables) const;

 private:
  using made_values = std::optional<std::vector<value_id>>;

  // Why an operation cannot be written; empty if it may be possible. A file may name any operator with any parameters.
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

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FLEXFLOW_RULES)

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <unity/core/config.hpp>
#include <unity/parallel/parallel_type.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string lower(std::string text) {
  for (auto& c : text) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

UNITY_INLINE std::string flexflow_operator(std::string name) {
  static const std::map<std::string, std::string> known{{"OP_EW_ADD", "add"}, {"OP_EW_MUL", "mul"}};
  const auto found = known.find(name);
  return found != known.end() ? found->second : lower(name.starts_with("OP_") ? name.substr(3) : std::move(name));
}

UNITY_INLINE std::string flexflow_parameter(std::string name) {
  static const std::map<std::string, std::string> known{{"PM_ACTI", "activation"}, {"PM_NUMDIM", "num_dims"}};
  const auto found = known.find(name);
  return found != known.end() ? found->second : lower(name.starts_with("PM_") ? name.substr(3) : std::move(name));
}

UNITY_INLINE std::int64_t small_integer(const json_place& in) {
  const auto number = in.integer();
  if (number < INT32_MIN || number > INT32_MAX) {
    throw error{in.where(), fmt::format("is {}", number), "an integer of 32 bits"};
  }
  return number;
}

UNITY_INLINE foreign_rule::operation flexflow_operation(const json_place& in) {
  foreign_rule::operation op;
  op.type = flexflow_operator(in.at("type").word());
  for (const auto& tensor : in.at("input").items()) {
    op.inputs.push_back({small_integer(tensor.at("opId")), small_integer(tensor.at("tsId"))});
  }
  for (const auto& parameter : in.at("para").items()) {
    op.parameters[flexflow_parameter(parameter.at("key").word())] = small_integer(parameter.at("value"));
  }
  return op;
}

UNITY_INLINE foreign_rule flexflow_rule(const json_place& in) {
  foreign_rule r;
  r.name = in.at("name").word();
  const auto read = [&](const char* member, std::vector<foreign_rule::operation>& side) {
    const auto items = in.at(member).items();
    if (items.size() > 1000) {
      throw error{fmt::format("{}.{}", in.where(), member), fmt::format("has {} operators", items.size()),
                  "at most 1000"};
    }
    for (const auto& op : items) {
      side.push_back(flexflow_operation(op));
    }
  };
  read("srcOp", r.source);
  read("dstOp", r.target);
  for (const auto& m : in.at("mappedOutput").items()) {
    r.outputs.push_back({{small_integer(m.at("srcOpId")), small_integer(m.at("srcTsId"))},
                         {small_integer(m.at("dstOpId")), small_integer(m.at("dstTsId"))}});
  }
  return r;
}

UNITY_INLINE flexflow_axes::flexflow_axes(foreign_rule& rule) : rule_{rule} {
  for (auto* side : {&rule_.source, &rule_.target}) {
    mark(*side, side == &rule_.source ? 0 : 1);
  }
  // Variables carry marks between the two sides; marks only increase, so this terminates.
  for (bool changed = true; changed;) {
    changed = spread(rule_.source, 0);
    changed = spread(rule_.target, 1) || changed;
  }
}

UNITY_INLINE void flexflow_axes::translate() {
  for (int side = 0; side < 2; ++side) {
    auto& ops = side == 0 ? rule_.source : rule_.target;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      translate(ops[i], {static_cast<std::int64_t>(i), 0}, side);
    }
  }
}

UNITY_INLINE void flexflow_axes::mark(const operations& ops, int side) {
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].type == "linear" && ops[i].inputs.size() == 2) {
      roles_[key(ops[i].inputs[0], side)] |= activation;
      roles_[key(ops[i].inputs[1], side)] |= weight;
      roles_[{side, static_cast<std::int64_t>(i)}] |= activation;
    }
  }
}

UNITY_INLINE bool flexflow_axes::spread(const operations& ops, int side) {
  bool changed = false;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].type == "linear") {
      continue;
    }
    unsigned all = roles_[{side, static_cast<std::int64_t>(i)}];
    for (const auto& in : ops[i].inputs) {
      all |= roles_[key(in, side)];
    }
    const auto give = [&](tensor_key k) { changed |= std::exchange(roles_[k], all) != all; };
    give({side, static_cast<std::int64_t>(i)});
    for (const auto& in : ops[i].inputs) {
      give(key(in, side));
    }
  }
  return changed;
}

UNITY_INLINE void flexflow_axes::translate(foreign_rule::operation& op, const source_of& self, int side) {
  if (op.type != "concat" && op.type != "split") {
    return;
  }
  const auto axis = required(op, "axis");
  const auto as = roles_[key(self, side)];
  if (axis < 1 || axis > 2) {
    throw outside{fmt::format("{} along the replica dimension", op.type)};
  }
  if (as == (weight | activation)) {
    throw outside{"a tensor that is both a weight and an activation"};
  }
  op.parameters["axis"] = as == weight ? 2 - axis : axis - 1;
  op.parameters["num_dims"] = 2;
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE std::vector<foreign_rule> parse_flexflow_rules(std::string_view text, std::string_view file) {
  const auto document = detail::parse_json(text, file);
  std::vector<foreign_rule> rules;
  for (const auto& item : json_place{document, fmt::format("{}: top", file)}.at("rule").items()) {
    rules.push_back(detail::flexflow_rule(item));
    validate(rules.back(), file);
  }
  return rules;
}

UNITY_INLINE converted_rule flexflow_rule_text(foreign_rule rule) {
  static constexpr std::array parallel{"partition", "combine", "replicate", "reduce"};
  for (const auto* side : {&rule.source, &rule.target}) {
    for (const auto& op : *side) {
      for (const std::string_view name : parallel) {
        if (op.type == name) {
          return {rule.name, {}, fmt::format("parallelization operator {}", op.type)};
        }
      }
    }
  }
  try {
    detail::flexflow_axes{rule}.translate();
  } catch (const detail::outside& reason) {
    return {rule.name, {}, reason.because};
  }
  return to_rule_text(rule);
}

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
