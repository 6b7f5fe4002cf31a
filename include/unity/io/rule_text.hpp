// Converts foreign rules to this library's rule syntax.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/io/foreign_rule.hpp>
#include <unity/io/foreign_shapes.hpp>

namespace unity::io {

// How to read a convolution whose rule file does not state the number of groups: as one group, or as TASO's optimizer
// does, which derives the number from the channels of the operands. The latter makes some of its rules false; with one
// group they are true.
enum class group_reading : std::uint8_t { one, implied };

namespace detail {

// Writes the two sides of a rule as terms, with one small function per operator family.
class term_writer {
 public:
  explicit term_writer(const foreign_rule& rule, group_reading groups) : rule_{rule}, groups_{groups}, shapes_{rule} {}

  std::string text();

 private:
  static constexpr std::size_t longest = 20000;
  static constexpr std::size_t most_operators = 100;

  // Whether the source binds all variables of the condition: operators that no output reaches are not part of a rule,
  // nor are their conditions.
  [[nodiscard]] bool bound(const std::string& condition) const;
  std::string side(const std::vector<source_of>& outputs, int s);
  const foreign_rule::operation& operation(std::int64_t node, int s) const {
    return (s == 0 ? rule_.source : rule_.target).at(static_cast<std::size_t>(node));
  }
  std::string term(const source_of& t, int s);
  std::string application(std::int64_t node, int s);
  static void check_length(const std::string& text);
  // A rule's name as a valid identifier of rule text.
  static std::string identifier(std::string_view name);
  std::string write(const foreign_rule::operation& op, int s);

  std::string apply(const std::string& name, const std::vector<std::string>& attributes,
                    const foreign_rule::operation& op, int s);
  // Constant tensors have no size: the operator that reads them determines it.
  std::string operand(const foreign_rule::operation& op, std::size_t i, int s);
  std::string expression(const source_of& t, int s, std::int64_t axis, const std::string& variable) {
    return s == 0 ? fmt::format("?{}", variable) : shapes_.size(t, s, axis);
  }
  std::string shape(const source_of& t);

  static std::string pair(const foreign_rule::operation& op, const std::string& what) {
    return fmt::format("[{}, {}]", required(op, fmt::format("{}_h", what)), required(op, fmt::format("{}_w", what)));
  }
  static void add_activation(const foreign_rule::operation& op, std::vector<std::string>& attributes);
  static void add_window(const foreign_rule::operation& op, std::vector<std::string>& attributes);

  std::string plain(const foreign_rule::operation& op, int s) {
    require_inputs(op, is_activation(op.type) ? 1 : 2);
    return apply(op.type, {}, op, s);
  }
  std::string activated(const foreign_rule::operation& op, int s);
  std::string convolution(const foreign_rule::operation& op, int s);
  [[nodiscard]] bool is_constant(const source_of& t, int s) const {
    return t.node >= 0 && operation(t.node, s).inputs.empty();
  }
  // The number of groups: in the source any number; in the target, the one that the channels of image and kernel imply.
  std::string implied_groups(const foreign_rule::operation& op, int s);
  std::string pool(const foreign_rule::operation& op, int s);
  std::string concat(const foreign_rule::operation& op, int s);
  std::string split(const foreign_rule::operation& op, int s);
  std::string transpose(const foreign_rule::operation& op, int s);
  std::string enlarge(const foreign_rule::operation& op, int s);

  const foreign_rule& rule_;
  group_reading groups_;
  foreign_shapes shapes_;
  std::map<std::int64_t, std::string> written_[2];
  std::set<std::string> used_[2];
};

}  // namespace detail

// One rule in rule text, with the conditions that the foreign operators imply (element-wise operators do not broadcast;
// kernel sizes and ranks are fixed), or the reason why it has none. The rule is marked `assumed`: its truth is not
// checked here.
[[nodiscard]] converted_rule to_rule_text(const foreign_rule& rule, group_reading groups = group_reading::one);

// The names of the rules of one file: to_rule_text gives similar names of foreign rules the same one.
class rule_names {
 public:
  // The name, with a number if it was given out before.
  [[nodiscard]] std::string next(const std::string& name);

 private:
  std::map<std::string, std::size_t> numbers_{};  // by name that was given out: the last number appended to it
};

// The text of all rules that could be converted, in order, each with a name of its own.
[[nodiscard]] std::string rule_file_text(std::span<const converted_rule> rules);

}  // namespace unity::io

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_RULE_TEXT)

#include <algorithm>

#include <unity/core/config.hpp>

namespace unity::io::detail {

UNITY_INLINE std::string term_writer::text() {
  if (std::max(rule_.source.size(), rule_.target.size()) > most_operators) {
    throw outside{fmt::format("more than {} operators", most_operators)};
  }
  std::vector<source_of> from;
  std::vector<source_of> to;
  for (const auto& m : rule_.outputs) {
    from.push_back(m.source);
    to.push_back(m.target);
  }
  const auto source = side(from, 0);
  const auto target = side(to, 1);
  for (const auto& v : used_[1]) {
    if (!used_[0].contains(v)) {
      throw outside{fmt::format("the target reads {}, which the source does not bind", v)};
    }
  }
  auto text = fmt::format("rule {}\n  {} => {}\n", identifier(rule_.name), source, target);
  auto conditions = shapes_.conditions();
  std::erase_if(conditions, [&](const std::string& c) { return !bound(c); });
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "  if " : ", ", conditions[i]);
  }
  return fmt::format("{}{}  assumed\n", text, conditions.empty() ? "" : "\n");
}

UNITY_INLINE bool term_writer::bound(const std::string& condition) const {
  for (auto at = condition.find('?'); at != std::string::npos; at = condition.find('?', at + 1)) {
    const auto end = condition.find_first_of(",) ", at);
    if (!used_[0].contains(condition.substr(at, end - at))) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE std::string term_writer::side(const std::vector<source_of>& outputs, int s) {
  std::vector<std::string> terms;
  const auto node = outputs.front().node;
  bool whole = node >= 0 && operation(node, s).result_count() == static_cast<std::int64_t>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    terms.push_back(term(outputs[i], s));
    whole = whole && outputs[i].node == node && outputs[i].result == static_cast<std::int64_t>(i);
  }
  if (whole && s == 1) {  // all results of one operator, in order
    return application(node, s);
  }
  std::string all;
  for (const auto& t : terms) {
    all += fmt::format("{}{}", all.empty() ? "" : ", ", t);
  }
  return terms.size() == 1 ? all : fmt::format("({})", all);
}

UNITY_INLINE std::string term_writer::term(const source_of& t, int s) {
  if (t.node < 0) {
    used_[s].insert(variable_name(t));
    return variable_name(t);
  }
  const auto text = application(t.node, s);
  return operation(t.node, s).type == "split" ? fmt::format("{}.{}", text, t.result) : text;
}

UNITY_INLINE std::string term_writer::application(std::int64_t node, int s) {
  const auto [place, fresh] = written_[s].try_emplace(node);
  if (fresh) {
    place->second = write(operation(node, s), s);
  }
  return place->second;
}

UNITY_INLINE void term_writer::check_length(const std::string& text) {
  if (text.size() > longest) {
    throw outside{fmt::format("a term of more than {} characters", longest)};
  }
}

UNITY_INLINE std::string term_writer::identifier(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 100)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    text += letter || (c >= '0' && c <= '9') ? c : '_';
  }
  return text.empty() || (text.front() >= '0' && text.front() <= '9') ? fmt::format("rule_{}", text) : text;
}

UNITY_INLINE std::string term_writer::write(const foreign_rule::operation& op, int s) {
  using writer = std::string (term_writer::*)(const foreign_rule::operation&, int);
  static const std::map<std::string, writer> writers{
      {"add", &term_writer::plain},          {"mul", &term_writer::plain},
      {"relu", &term_writer::plain},         {"sigmoid", &term_writer::plain},
      {"tanh", &term_writer::plain},         {"scalar_multiply", &term_writer::plain},
      {"matmul", &term_writer::activated},   {"linear", &term_writer::activated},
      {"conv2d", &term_writer::convolution}, {"max_pool", &term_writer::pool},
      {"average_pool", &term_writer::pool},  {"concat", &term_writer::concat},
      {"split", &term_writer::split},        {"transpose", &term_writer::transpose},
      {"enlarge", &term_writer::enlarge}};
  const auto found = writers.find(op.type);
  if (found == writers.end()) {
    throw outside{fmt::format("operator {} is not one of tensor algebra's", op.type)};
  }
  return (this->*found->second)(op, s);
}

UNITY_INLINE std::string term_writer::apply(const std::string& name, const std::vector<std::string>& attributes,
                                            const foreign_rule::operation& op, int s) {
  std::string text = name;
  for (std::size_t i = 0; i < attributes.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "{" : ", ", attributes[i]);
  }
  text += attributes.empty() ? "(" : "}(";
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", operand(op, i, s));
    check_length(text);
  }
  return fmt::format("{})", text);
}

UNITY_INLINE std::string term_writer::operand(const foreign_rule::operation& op, std::size_t i, int s) {
  const auto& in = op.inputs[i];
  if (in.node < 0 || !operation(in.node, s).inputs.empty()) {
    return term(in, s);
  }
  const auto& constant = operation(in.node, s);
  const auto other = op.inputs.size() == 2 ? op.inputs[1 - i] : source_of{-1, -1};
  if (constant.type == "identity_matrix" && op.type == "matmul") {
    return fmt::format("identity_matrix{{size={}}}()", expression(other, s, i == 0 ? -2 : -1, "n"));
  }
  if (constant.type == "one" && op.type == "mul") {
    return s == 0 ? "fill{value=1.0, dims=?ones, ..}()" : fmt::format("fill{{value=1.0, dims={}}}()", shape(other));
  }
  if ((constant.type == "identity_kernel" || constant.type == "pool_kernel") && op.type == "conv2d" && i == 1) {
    return fmt::format("{}{{channels={}, kernel={}}}()", constant.type, expression(other, s, 1, "channels"),
                       pair(constant, "kernel"));
  }
  throw outside{fmt::format("operator {} where its size is not known", constant.type)};
}

UNITY_INLINE std::string term_writer::shape(const source_of& t) {
  if (t.node >= 0) {
    throw outside{"a tensor of ones whose shape is not a variable's"};
  }
  return fmt::format("shape({})", variable_name(t));
}

UNITY_INLINE void term_writer::add_activation(const foreign_rule::operation& op, std::vector<std::string>& attributes) {
  static constexpr std::string_view names[] = {"none", "sigmoid", "relu", "tanh"};
  const auto code = op.parameter("activation").value_or(0);
  if (code < 0 || code > 3) {
    throw outside{fmt::format("activation {}", code)};
  }
  if (code != 0) {
    attributes.push_back(fmt::format("activation={}", names[code]));
  }
}

UNITY_INLINE void term_writer::add_window(const foreign_rule::operation& op, std::vector<std::string>& attributes) {
  const auto pad = required(op, "pad");
  if (pad != 0 && pad != 1) {
    throw outside{fmt::format("padding {}", pad)};
  }
  attributes.push_back(fmt::format("stride={}", pair(op, "stride")));
  attributes.push_back(pad == 0 ? "padding=same" : "padding=valid");
}

UNITY_INLINE std::string term_writer::activated(const foreign_rule::operation& op, int s) {
  require_inputs(op, 2);
  std::vector<std::string> attributes;
  add_activation(op, attributes);
  return apply(op.type, attributes, op, s);
}

UNITY_INLINE std::string term_writer::convolution(const foreign_rule::operation& op, int s) {
  require_inputs(op, 2);
  std::vector<std::string> attributes;
  add_window(op, attributes);
  const auto& kernel = op.inputs[1];
  if (kernel.node >= 0 && operation(kernel.node, s).type == "pool_kernel") {
    attributes.push_back(fmt::format("groups={}", expression(op.inputs[0], s, 1, "channels")));
  } else if (const auto groups = op.parameter("groups"); groups && *groups > 1) {
    attributes.push_back(fmt::format("groups={}", *groups));
  } else if (groups_ == group_reading::implied && !is_constant(kernel, s)) {
    attributes.push_back(fmt::format("groups={}", implied_groups(op, s)));
  }
  add_activation(op, attributes);
  return apply("conv2d", attributes, op, s);
}

UNITY_INLINE std::string term_writer::implied_groups(const foreign_rule::operation& op, int s) {
  if (s == 0) {
    return fmt::format("?groups_{}", &op - rule_.source.data());
  }
  return fmt::format("({}) / ({})", shapes_.size(op.inputs[0], s, 1), shapes_.size(op.inputs[1], s, 1));
}

UNITY_INLINE std::string term_writer::pool(const foreign_rule::operation& op, int s) {
  require_inputs(op, 1);
  std::vector<std::string> attributes{fmt::format("kernel={}", pair(op, "kernel"))};
  add_window(op, attributes);
  const auto pooled = apply(op.type, attributes, op, s);
  std::vector<std::string> activation;
  add_activation(op, activation);
  return activation.empty() ? pooled : fmt::format("{}({})", activation[0].substr(activation[0].find('=') + 1), pooled);
}

UNITY_INLINE std::string term_writer::concat(const foreign_rule::operation& op, int s) {
  if (op.inputs.empty() || op.parameter("num_inputs").value_or(static_cast<std::int64_t>(op.inputs.size())) !=
                               static_cast<std::int64_t>(op.inputs.size())) {
    throw outside{"a concat whose inputs are not as many as it says"};
  }
  return apply("concat", {fmt::format("axis={}", required(op, "axis"))}, op, s);
}

UNITY_INLINE std::string term_writer::split(const foreign_rule::operation& op, int s) {
  require_inputs(op, 1);
  const auto axis = required(op, "axis");
  const auto& in = op.inputs[0];
  std::string sizes = fmt::format("?sizes_{}", axis);
  const auto found = shapes_.split_sizes(in, s, axis);
  if (!found && s == 1) {
    throw outside{"a split that undoes no concat"};
  }
  if (s == 1) {
    if (static_cast<std::int64_t>(found->size()) != op.result_count()) {
      throw outside{"a split into other parts than were concatenated"};
    }
    sizes.clear();
    for (const auto& size : *found) {
      sizes += fmt::format("{}{}", sizes.empty() ? "[" : ", ", size);
    }
    sizes += "]";
  }
  return apply("split", {fmt::format("axis={}", axis), fmt::format("sizes={}", sizes)}, op, s);
}

UNITY_INLINE std::string term_writer::transpose(const foreign_rule::operation& op, int s) {
  require_inputs(op, 1);
  std::string axes;
  for (const auto axis : permutation_of(required(op, "permutation"), required(op, "num_dims"))) {
    axes += fmt::format("{}{}", axes.empty() ? "" : ", ", axis);
  }
  return apply("transpose", {fmt::format("permutation=[{}]", axes)}, op, s);
}

UNITY_INLINE std::string term_writer::enlarge(const foreign_rule::operation& op, int s) {
  if (op.inputs.empty()) {
    throw outside{"an enlarge without input"};
  }
  auto first = op;
  first.inputs.resize(1);
  return apply("enlarge", {fmt::format("kernel={}", pair(op, "kernel"))}, first, s);
}

}  // namespace unity::io::detail

namespace unity::io {

UNITY_INLINE converted_rule to_rule_text(const foreign_rule& rule, group_reading groups) {
  try {
    return {rule.name, detail::term_writer{rule, groups}.text(), {}};
  } catch (const detail::outside& reason) {
    return {rule.name, {}, reason.because};
  }
}

UNITY_INLINE std::string rule_names::next(const std::string& name) {
  auto own = name;
  while (!numbers_.try_emplace(own, 1).second) {
    own = fmt::format("{}_{}", name, ++numbers_[name]);
  }
  return own;
}

UNITY_INLINE std::string rule_file_text(std::span<const converted_rule> rules) {
  std::string text;
  rule_names names;
  for (const auto& r : rules) {
    if (r) {
      const auto name_begin = r.text.find(' ') + 1;
      const auto name_end = r.text.find('\n');
      const auto name = names.next(r.text.substr(name_begin, name_end - name_begin));
      text += fmt::format("{}rule {}{}", text.empty() ? "" : "\n", name, std::string_view{r.text}.substr(name_end));
    }
  }
  return text;
}

}  // namespace unity::io

#endif
