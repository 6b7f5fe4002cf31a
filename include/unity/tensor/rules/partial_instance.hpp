// An instance of a substitution under construction: operator by operator, from the variables up.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <range/v3/view/zip.hpp>

#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/substitution.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/rules/instance.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

// An operator under construction. Known parts stay; the others are to be filled in.
struct proposal {
  std::string_view kind{};
  std::span<const attribute_field> fields{};
  std::vector<std::optional<attribute>> attributes{};  // by field
  std::vector<std::optional<shape>> operands{};
  std::vector<dtype> elements{};  // of operands that are filled in
  std::size_t results = 1;        // least number of results, for operators with any number of them
  std::size_t most_results = 1;

  [[nodiscard]] std::optional<attribute>& at(std::string_view name);
  // Whether the known attributes have the forms of their fields; those from the text of a rule may not.
  [[nodiscard]] bool is_well_formed() const;
};

// A value type, so that a search can try several continuations. The algebra and the substitution must outlive it.
class partial_instance {
 public:
  partial_instance(const algebra& a, const substitution& s, std::size_t repetitions);

  // Sets an attribute variable before a node that binds it is added.
  void bind(std::size_t attribute_variable, attribute value) { attributes_[attribute_variable] = std::move(value); }

  [[nodiscard]] std::size_t repetitions() const noexcept { return made_.repetitions; }
  // Whether every operator of the source can have as many operands as it has with these repetitions.
  [[nodiscard]] bool accepts_operand_counts() const;
  // The number of copies of a source node.
  [[nodiscard]] std::size_t times(std::size_t slot) const {
    return s_->source.nodes[slot].indexed ? made_.repetitions : 1;
  }

  // The known parts of a node whose operand nodes exist. Nothing if the node reads a result that does not exist, or an
  // attribute does not have the form of its field.
  [[nodiscard]] std::optional<proposal> ask(std::size_t slot, std::size_t i);
  // The known parts of a node so far.
  [[nodiscard]] proposal ask_early(std::size_t slot, std::size_t i);

  // Adds the completed node; type_of_variable(variable, element, dims) gives the type of a variable whose operand was
  // filled in. False if the operator does not accept its operands: then the instance is a dead end.
  template <class TypeOfVariable>
  [[nodiscard]] bool add(std::size_t slot, std::size_t i, const proposal& p, TypeOfVariable type_of_variable) {
    const auto& n = s_->source.nodes[slot];
    std::vector<tensor_type> types;
    for (const auto& o : n.operands) {
      for (std::size_t k = 0; k < (o.repeated ? made_.repetitions : 1); ++k) {
        const auto at = o.repeated ? k : i;
        const auto number = types.size();
        if (o.is_variable && !*variable(o, at)) {
          *variable(o, at) = type_of_variable(std::size_t{o.slot}, p.elements[number], *p.operands[number]);
        } else if (o.is_variable && (*variable(o, at))->dims != *p.operands[number]) {
          return false;  // the same variable with two shapes
        }
        types.push_back(*type_of(o, at));
      }
    }
    attribute_list values;
    for (const auto& [value, written] : ranges::views::zip(p.attributes, n.attributes)) {
      values.push_back(*value);
      if (written.kind == pattern_attribute::form::bind) {
        attributes_[written.slot] = values.back();
      }
    }
    auto op = algebra_->make(n.kind, values);
    auto results = op ? algebra_->infer(*op, types) : std::nullopt;
    if (!results) {
      return false;
    }
    made_.source[slot].push_back(*std::move(op));
    results_[slot].push_back(*std::move(results));
    return true;
  }

  // The dimensions of a variable that stands for a single value, if known.
  [[nodiscard]] const shape* known_dims(std::size_t v) const {
    return known_[v].size() == 1 && known_[v][0] ? &known_[v][0]->dims : nullptr;
  }
  // The result types of the node that was added last.
  [[nodiscard]] std::span<const tensor_type> last_results(std::size_t slot) const { return results_[slot].back(); }

  // Whether no fully known condition fails and no attribute differs from the value that the source computes.
  [[nodiscard]] bool conditions_may_hold();

  // The instance, after all nodes were added; nothing if it is incomplete or violates a condition.
  [[nodiscard]] std::optional<rule_instance> finish();

 private:
  [[nodiscard]] std::optional<tensor_type>* variable(const pattern_operand& o, std::size_t i) {
    return &known_[o.slot][s_->indexed_variables[o.slot] ? i : 0];
  }
  // The type of an operand: of a variable, if it has one yet, or of a result of a node.
  [[nodiscard]] std::optional<tensor_type> type_of(const pattern_operand& o, std::size_t i);

  [[nodiscard]] std::vector<std::optional<attribute>> known_attributes(const pattern_node& n, std::size_t i);
  // Updates the environment of expressions with the known values.
  void sync();
  // Whether everything that an expression refers to is known.
  [[nodiscard]] bool ready(const compiled_expression& e) const;

  // The range of the number of results of a node: all are read by `each`; otherwise a match may have more than those
  // that the source reads.
  [[nodiscard]] std::pair<std::size_t, std::size_t> result_range(std::size_t slot) const;

  const algebra* algebra_;
  const substitution* s_;
  rule_instance made_;
  std::vector<std::vector<std::optional<tensor_type>>> known_;  // by variable and repetition
  std::vector<std::optional<attribute>> attributes_;
  std::vector<std::vector<std::vector<tensor_type>>> results_;  // by node, repetition and result
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_PARTIAL_INSTANCE)

#include <algorithm>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<attribute>& proposal::at(std::string_view name) {
  std::size_t i = 0;
  while (fields[i].signature.name != name) {
    ++i;
  }
  return attributes[i];
}

UNITY_INLINE bool proposal::is_well_formed() const {
  bool fit = true;
  for (const auto& [field, value] : ranges::views::zip(fields, attributes)) {
    fit = fit && (!value || fits(field, *value));
  }
  return fit;
}

UNITY_INLINE partial_instance::partial_instance(const algebra& a, const substitution& s, std::size_t repetitions)
    : algebra_{&a}, s_{&s} {
  made_.repetitions = repetitions;
  made_.values.resize(s.variables);
  known_.resize(s.variables);
  for (std::size_t v = 0; v < s.variables; ++v) {
    known_[v].resize(s.indexed_variables[v] ? repetitions : 1);
  }
  attributes_.resize(s.attribute_variables);
  made_.source.resize(s.source.nodes.size());
  results_.resize(s.source.nodes.size());
}

UNITY_INLINE bool partial_instance::accepts_operand_counts() const {
  return std::all_of(s_->source.nodes.begin(), s_->source.nodes.end(), [&](const pattern_node& n) {
    const auto repeated = static_cast<std::size_t>(
        std::count_if(n.operands.begin(), n.operands.end(), [](const auto& o) { return o.repeated; }));
    return algebra_->signature(n.kind).operands.accepts(n.operands.size() + repeated * (made_.repetitions - 1));
  });
}

UNITY_INLINE std::optional<proposal> partial_instance::ask(std::size_t slot, std::size_t i) {
  auto p = ask_early(slot, i);
  std::size_t k = 0;
  for (const auto& o : s_->source.nodes[slot].operands) {
    for (std::size_t j = 0; j < (o.repeated ? made_.repetitions : 1); ++j, ++k) {
      if (!o.is_variable && !p.operands[k]) {
        return std::nullopt;
      }
    }
  }
  return p.is_well_formed() ? std::optional{std::move(p)} : std::nullopt;
}

UNITY_INLINE proposal partial_instance::ask_early(std::size_t slot, std::size_t i) {
  const auto& n = s_->source.nodes[slot];
  const auto [least, most] = result_range(slot);
  proposal p{algebra_->signature(n.kind).name,
             algebra_->definition_of(n.kind).fields,
             known_attributes(n, i),
             {},
             {},
             least,
             most};
  for (const auto& o : n.operands) {
    for (std::size_t k = 0; k < (o.repeated ? made_.repetitions : 1); ++k) {
      const auto type = type_of(o, o.repeated ? k : i);
      p.operands.push_back(type ? std::optional{type->dims} : std::nullopt);
    }
  }
  p.elements = algebra_->definition_of(n.kind).elements;
  p.elements.resize(p.operands.size(), dtype::float32);
  return p;
}

UNITY_INLINE bool partial_instance::conditions_may_hold() {
  sync();
  const instance_environment env{*algebra_, made_};
  for (std::size_t slot = 0; slot < made_.source.size(); ++slot) {
    const auto& wanted = s_->source.nodes[slot].attributes;
    for (std::size_t i = 0; i < made_.source[slot].size(); ++i) {
      for (std::size_t k = 0; k < wanted.size(); ++k) {
        if (wanted[k].kind == pattern_attribute::form::value &&
            wanted[k].value.kind != compiled_expression::form::literal && ready(wanted[k].value) &&
            evaluate(wanted[k].value, env, i) != std::optional{made_.source[slot][i].attributes[k]}) {
          return false;
        }
      }
    }
  }
  for (const auto& c : s_->conditions) {
    for (std::size_t i = 0; ready(c) && i < (c.indexed ? made_.repetitions : 1); ++i) {
      const auto value = evaluate(c, env, i);
      if (!value || !unity::truth_of(*value)) {
        return false;
      }
    }
  }
  return true;
}

UNITY_INLINE std::optional<rule_instance> partial_instance::finish() {
  sync();
  for (std::size_t v = 0; v < known_.size(); ++v) {
    if (made_.values[v].size() != known_[v].size()) {
      return std::nullopt;
    }
  }
  for (const auto& a : attributes_) {
    if (!a) {
      return std::nullopt;
    }
  }
  return conditions_hold(*algebra_, *s_, made_) ? std::optional{made_} : std::nullopt;
}

UNITY_INLINE std::optional<tensor_type> partial_instance::type_of(const pattern_operand& o, std::size_t i) {
  if (o.is_variable) {
    return *variable(o, i);
  }
  const auto at = s_->source.nodes[o.slot].indexed ? i : 0;
  if (at >= results_[o.slot].size()) {
    return std::nullopt;
  }
  const auto& all = results_[o.slot][at];
  const auto r = o.result == pattern_operand::each ? i : static_cast<std::size_t>(o.result);
  return r < all.size() ? std::optional{all[r]} : std::nullopt;
}

UNITY_INLINE std::vector<std::optional<attribute>> partial_instance::known_attributes(const pattern_node& n,
                                                                                      std::size_t i) {
  sync();
  const instance_environment env{*algebra_, made_};
  std::vector<std::optional<attribute>> all;
  for (const auto& a : n.attributes) {
    switch (a.kind) {
      case pattern_attribute::form::any: all.emplace_back(); break;
      case pattern_attribute::form::bind: all.push_back(attributes_[a.slot]); break;
      case pattern_attribute::form::value:
        all.push_back(ready(a.value) ? evaluate(a.value, env, i) : std::nullopt);
        break;
    }
  }
  return all;
}

UNITY_INLINE void partial_instance::sync() {
  for (std::size_t v = 0; v < known_.size(); ++v) {
    made_.values[v].clear();
    for (const auto& t : known_[v]) {
      if (t) {
        made_.values[v].push_back(*t);
      }
    }
  }
  made_.attributes.clear();
  for (const auto& a : attributes_) {
    made_.attributes.push_back(a.value_or(attribute{}));
  }
}

UNITY_INLINE bool partial_instance::ready(const compiled_expression& e) const {
  if (e.kind == compiled_expression::form::attribute_variable && !attributes_[e.slot]) {
    return false;
  }
  if (e.kind == compiled_expression::form::measure && made_.values[e.slot].size() < known_[e.slot].size()) {
    return false;
  }
  return std::all_of(e.arguments.begin(), e.arguments.end(), [&](const auto& a) { return ready(a); });
}

UNITY_INLINE std::pair<std::size_t, std::size_t> partial_instance::result_range(std::size_t slot) const {
  constexpr std::size_t most_unread = 2;
  std::size_t count = 1;
  bool reads_each = false;
  const auto note = [&](const pattern_operand& o) {
    if (!o.is_variable && o.slot == slot) {
      const bool each = o.result == pattern_operand::each;
      count = std::max(count, each ? made_.repetitions : static_cast<std::size_t>(o.result) + 1);
      reads_each = reads_each || each;
    }
  };
  for (const auto& n : s_->source.nodes) {
    std::for_each(n.operands.begin(), n.operands.end(), note);
  }
  std::for_each(s_->source.roots.begin(), s_->source.roots.end(), note);
  return {count, count + (reads_each ? 0 : most_unread)};
}

}  // namespace unity::tensor::detail

#endif
