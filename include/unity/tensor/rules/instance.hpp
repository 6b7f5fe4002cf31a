// An assignment of shapes and attributes to a substitution, and the graphs of both sides under it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

// The bindings of a match of the substitution's source.
struct rule_instance {
  std::size_t repetitions = 1;
  std::vector<std::vector<tensor_type>> values{};  // by variable; one per repetition if indexed
  std::vector<attribute> attributes{};             // by attribute variable
  std::vector<std::vector<operation>> source{};    // by pattern node; one per repetition if indexed

  friend bool operator==(const rule_instance&, const rule_instance&) = default;
};

namespace detail {

// The environment in which the expressions of a substitution are evaluated for an instance.
class instance_environment {
 public:
  instance_environment(const algebra& a, const rule_instance& i) : algebra_{a}, instance_{i} {}

  [[nodiscard]] const attribute& attribute_at(std::size_t slot) const { return instance_.attributes[slot]; }
  [[nodiscard]] std::size_t repetitions() const { return instance_.repetitions; }
  [[nodiscard]] std::optional<attribute> measure(int m, std::size_t slot, std::size_t index,
                                                 const attribute& arguments) const;

 private:
  const algebra& algebra_;
  const rule_instance& instance_;
};

// Builds one side on sources that stand for the variables.
class side_builder {
 public:
  side_builder(const algebra& a, const substitution& s, const rule_instance& i) : algebra_{a}, s_{s}, instance_{i} {}

  // Nothing if an operator does not accept its operands or an attribute has no value.
  std::optional<tensor_graph> build(bool target);

  // The operation for a target node.
  [[nodiscard]] std::optional<operation> made_operation(const pattern_node& n, std::size_t i) const;

 private:
  void add_variables();
  [[nodiscard]] std::optional<value_id> value(const pattern_operand& o, std::size_t i) const;
  bool add(const pattern_node& n, std::size_t slot, std::size_t i, const operation& op);
  bool finish(const pattern& side);

  const algebra& algebra_;
  const substitution& s_;
  const rule_instance& instance_;
  tensor_graph graph_;
  std::vector<std::vector<value_id>> variables_;
  std::vector<std::vector<std::vector<value_id>>> made_;  // by node, repetition and result
};

// An attribute in the notation of rules.
[[nodiscard]] std::string attribute_text(const attribute_signature& a, const attribute& value);

void collect_names(const syntax::term& t, std::vector<std::string>& names);

}  // namespace detail

// Whether the conditions of `s` hold and the computed attributes of its source have the computed values.
[[nodiscard]] bool conditions_hold(const algebra& a, const substitution& s, const rule_instance& instance);

// The graph of the source or target, on inputs and weights that stand for the variables and are named by variable and
// repetition ("0.0"). Nothing if one of its operators does not accept its operands.
[[nodiscard]] inline std::optional<tensor_graph> source_graph(const algebra& a, const substitution& s,
                                                              const rule_instance& instance) {
  return detail::side_builder{a, s, instance}.build(false);
}
[[nodiscard]] inline std::optional<tensor_graph> target_graph(const algebra& a, const substitution& s,
                                                              const rule_instance& instance) {
  return detail::side_builder{a, s, instance}.build(true);
}

// The value variables of `s` as written in the rule, by slot.
[[nodiscard]] std::vector<std::string> variable_names(const substitution& s);

// For messages: ?x float32[2,3], ??w float32[3,1] float32[3,4], and those operators of the source whose attributes
// differ from the defaults.
[[nodiscard]] std::string to_string(const algebra& a, const substitution& s, const rule_instance& instance);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_INSTANCE)

#include <algorithm>
#include <span>

#include <fmt/core.h>

#include <unity/tensor/algebra_inference.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<attribute> instance_environment::measure(int m, std::size_t slot, std::size_t index,
                                                                    const attribute& arguments) const {
  const auto& types = instance_.values[slot];
  if (types.empty()) {
    return std::nullopt;
  }
  return algebra_.measure(m, types[index < types.size() ? index : 0], arguments);
}

UNITY_INLINE std::optional<tensor_graph> side_builder::build(bool target) {
  graph_ = {};
  variables_.clear();
  made_.clear();
  add_variables();
  const auto& side = target ? s_.target : s_.source;
  made_.resize(side.nodes.size());
  for (std::size_t slot = 0; slot < side.nodes.size(); ++slot) {
    for (std::size_t i = 0; i < (side.nodes[slot].indexed ? instance_.repetitions : 1); ++i) {
      const auto op = target ? made_operation(side.nodes[slot], i) : std::optional{instance_.source[slot][i]};
      if (!op || !add(side.nodes[slot], slot, i, *op)) {
        return std::nullopt;
      }
    }
  }
  return finish(side) ? std::optional{std::move(graph_)} : std::nullopt;
}

UNITY_INLINE std::optional<operation> side_builder::made_operation(const pattern_node& n, std::size_t i) const {
  const instance_environment env{algebra_, instance_};
  attribute_list attributes;
  for (const auto& a : n.attributes) {
    auto value = evaluate(a.value, env, i);
    if (!value) {
      return std::nullopt;
    }
    attributes.push_back(*std::move(value));
  }
  return algebra_.make(n.kind, attributes);
}

UNITY_INLINE void side_builder::add_variables() {
  for (std::size_t slot = 0; slot < instance_.values.size(); ++slot) {
    auto& mine = variables_.emplace_back();
    for (std::size_t i = 0; i < instance_.values[slot].size(); ++i) {
      const auto& t = instance_.values[slot][i];
      const auto op =
          algebra_.make_operation(t.constant ? "weight" : "input", {{"name", fmt::format("{}.{}", slot, i)},
                                                                    {"element", name_of(t.element)},
                                                                    {"dims", std::span<const std::int64_t>{t.dims}}});
      mine.push_back(graph_.results(graph_.add_node(op, {}, {&t, 1}))[0]);
    }
  }
}

UNITY_INLINE std::optional<value_id> side_builder::value(const pattern_operand& o, std::size_t i) const {
  if (o.is_variable) {
    const auto& of = variables_[o.slot];
    return of.empty() ? std::nullopt : std::optional{of[s_.indexed_variables[o.slot] ? i : 0]};
  }
  const auto& results = made_[o.slot][made_[o.slot].size() > 1 ? i : 0];
  const auto r = o.result == pattern_operand::each ? i : static_cast<std::size_t>(o.result);
  return r < results.size() ? std::optional{results[r]} : std::nullopt;
}

UNITY_INLINE bool side_builder::add(const pattern_node& n, std::size_t slot, std::size_t i, const operation& op) {
  std::vector<value_id> operands;
  std::vector<tensor_type> types;
  for (const auto& o : n.operands) {
    for (std::size_t k = 0; k < (o.repeated ? instance_.repetitions : 1); ++k) {
      const auto v = value(o, o.repeated ? k : i);
      if (!v) {
        return false;
      }
      operands.push_back(*v);
      types.push_back(graph_.type(*v));
    }
  }
  const auto results = algebra_.infer(op, types);
  if (!results) {
    return false;
  }
  const auto made = graph_.results(graph_.add_node(op, operands, *results));
  made_[slot].emplace_back(made.begin(), made.end());
  return true;
}

UNITY_INLINE bool side_builder::finish(const pattern& side) {
  std::vector<value_id> outputs;
  for (const auto& root : side.roots) {
    for (std::size_t i = 0; i < (root.repeated ? instance_.repetitions : 1); ++i) {
      const auto v = value(root, i);
      if (!v) {
        return false;
      }
      outputs.push_back(*v);
    }
  }
  graph_.set_outputs(outputs);
  return true;
}

UNITY_INLINE std::string attribute_text(const attribute_signature& a, const attribute& value) {
  if (a.form == attribute_form::choice) {
    return a.choices[static_cast<std::size_t>(value[0])];
  }
  if (a.form == attribute_form::real) {
    return unity::real_text(to_real(value[0]));
  }
  if (a.form == attribute_form::word) {
    return fmt::format("\"{}\"", to_word(value));
  }
  std::string text;
  for (const auto i : value) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  }
  return a.form == attribute_form::integer ? text : fmt::format("[{}]", text);
}

UNITY_INLINE void collect_names(const syntax::term& t, std::vector<std::string>& names) {
  if (t.kind == syntax::term::form::application) {
    for (const auto& o : t.operands) {
      collect_names(o, names);
    }
    return;
  }
  const auto name = fmt::format("{}{}", t.kind == syntax::term::form::indexed_variable ? "??" : "?", t.name);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    names.push_back(name);
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE bool conditions_hold(const algebra& a, const substitution& s, const rule_instance& instance) {
  const detail::instance_environment env{a, instance};
  for (const auto& c : s.conditions) {
    for (std::size_t i = 0; i < (c.indexed ? instance.repetitions : 1); ++i) {
      const auto value = evaluate(c, env, i);
      if (!value || !unity::truth_of(*value)) {
        return false;
      }
    }
  }
  for (std::size_t slot = 0; slot < s.source.nodes.size(); ++slot) {
    const auto& wanted = s.source.nodes[slot].attributes;
    for (std::size_t i = 0; i < instance.source[slot].size(); ++i) {
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        const bool computed = wanted[k].kind == pattern_attribute::form::value;
        if (computed && evaluate(wanted[k].value, env, i) != std::optional{instance.source[slot][i].attributes[k]}) {
          return false;
        }
      }
    }
  }
  return true;
}

UNITY_INLINE std::vector<std::string> variable_names(const substitution& s) {
  std::vector<std::string> names;
  for (const auto& t : s.name == s.rule.name ? s.rule.source : s.rule.target) {
    detail::collect_names(t, names);
  }
  return names;
}

UNITY_INLINE std::string to_string(const algebra& a, const substitution& s, const rule_instance& instance) {
  const auto names = variable_names(s);
  std::string text;
  for (std::size_t slot = 0; slot < instance.values.size(); ++slot) {
    text += fmt::format("{}{}", slot == 0 ? "" : ", ", names[slot]);
    for (const auto& t : instance.values[slot]) {
      text.append(" ").append(to_string(t));
    }
  }
  for (const auto& repeated : instance.source) {
    const auto& op = repeated.front();
    const auto& signature = a.signature(op.kind);
    std::string attributes;
    for (const auto& [field, value] : ranges::views::zip(signature.attributes, op.attributes)) {
      if (value == field.default_value && !field.default_value.empty()) {
        continue;
      }
      attributes +=
          fmt::format("{}{}={}", attributes.empty() ? "" : ", ", field.name, detail::attribute_text(field, value));
    }
    if (!attributes.empty()) {
      text += fmt::format("{}{}{{{}}}", text.empty() ? "" : "; ", signature.name, attributes);
    }
  }
  return text;
}

}  // namespace unity::tensor

#endif
