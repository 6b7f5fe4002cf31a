// FlexFlow's rule files: collections of rules in JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/file.hpp>
#include <unity/io/foreign_rule.hpp>
#include <unity/io/json_place.hpp>
#include <unity/io/rule_text.hpp>

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

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_FLEXFLOW_RULES)

#include <array>

#include <fmt/core.h>

#include <unity/core/config.hpp>

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
  for (const auto& item : detail::json_place{document, fmt::format("{}: top", file)}.at("rule").items()) {
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

}  // namespace unity::io

#endif
