// An equality of generated terms as a rule about the sorts for which it was found: the input of generalize.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/rewrite/algebra.hpp>
#include <unity/rewrite/generation/language.hpp>
#include <unity/rewrite/generation/term_graph.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/generation/detail/language.hpp>
#include <unity/tensor/generation/language.hpp>
#include <unity/tensor/generation/vocabulary.hpp>

namespace unity::tensor {

// The terms of one side; both sides use the same variable numbers.
using written_side = std::vector<written_term>;

namespace detail {

// A written term with its types, and the sizes of its axes in terms of its variables.
class typed_term {
 public:
  typed_term(term_language& language, const written_term& t)
      : language_{language}, term_{t}, nodes_{language.typed(t)} {}

  [[nodiscard]] const term_node& node(std::size_t n) const { return term_[n]; }
  [[nodiscard]] const term_language::typed_node& typed(std::size_t n) const { return nodes_[n]; }
  [[nodiscard]] static std::string name(const term_node& n) { return fmt::format("s{}_{}", n.sort, n.number); }

  // The size along an axis; nothing if it cannot be expressed.
  [[nodiscard]] std::optional<syntax::expression> size(std::size_t n, std::size_t axis) const;
  // The sizes of the two parts of a concatenated axis.
  [[nodiscard]] std::optional<std::pair<syntax::expression, syntax::expression>> part_sizes(std::size_t n,
                                                                                            std::size_t axis) const;

 private:
  using place = std::pair<std::size_t, std::size_t>;  // node, axis

  [[nodiscard]] bool is(std::size_t n, const char* kind, std::size_t axis) const;
  [[nodiscard]] bool joins(std::size_t n, std::size_t axis) const { return is(n, "concat", axis); }
  [[nodiscard]] bool cuts(std::size_t n, std::size_t axis) const { return is(n, "split", axis); }

  // The axes of operands that have the same index.
  [[nodiscard]] std::vector<place> sources(std::size_t n, std::size_t axis) const;
  // One of them, or else an operand axis with the same size in every world (a window that preserves the size).
  [[nodiscard]] std::optional<place> source(std::size_t n, std::size_t axis) const;
  [[nodiscard]] std::optional<syntax::expression> number(std::size_t n, std::size_t axis) const;

  term_language& language_;
  const written_term& term_;
  std::vector<term_language::typed_node> nodes_;
};

class rule_writer {
 public:
  // `which`: selects the axis whose size expresses a symbol in attributes, among the axes of variables with that size.
  rule_writer(term_language& language, std::size_t which, bool all_sizes)
      : language_{language}, which_{which}, all_sizes_{all_sizes} {}

  // Nothing if a size cannot be expressed.
  std::optional<syntax::rule> run(const written_side& left, const written_side& right);

 private:
  struct holder {
    std::string symbol;
    syntax::expression size;
  };

  template <class Visit>
  void for_each_variable(const written_side& side, const Visit& visit) const {
    std::vector<std::string> seen;
    for (const auto& t : side) {
      for (const auto& n : t) {
        const auto name = typed_term::name(n);
        if (n.op == term_node::variable && std::find(seen.begin(), seen.end(), name) == seen.end()) {
          seen.push_back(name);
          visit(n, name);
        }
      }
    }
  }
  void collect_holders(const written_side& left);

  std::optional<syntax::term> term(const typed_term& typed, const written_term& t, std::size_t n);
  bool add_attributes(syntax::term& out, const typed_term& typed, const written_term& t, std::size_t n);
  // The symbolic value of an attribute that depends on sizes, as written in the vocabulary.
  [[nodiscard]] const std::vector<vocabulary_size>* symbols(std::size_t op, std::size_t attribute) const;
  // In the source: a new variable, with a condition if variables determine its value; in the target: that value.
  std::optional<syntax::expression> symbolic_value(const std::vector<vocabulary_size>& value,
                                                   const attribute_signature& a);
  [[nodiscard]] std::optional<syntax::expression> said_by_variables(const std::vector<vocabulary_size>& value,
                                                                    const attribute_signature& a) const;
  [[nodiscard]] std::optional<syntax::expression> symbol_size(const std::string& symbol) const;

  // Adds conditions for ranks and for the literal sizes at the end of each sort; with all_sizes_ also for equal sizes.
  void add_variable_conditions(const written_side& left);
  // Requires equal shapes for operands that could broadcast but are equal here.
  void add_shape_conditions(const written_term& t);
  // The variable whose shape a value has because only element-wise operators lie between them.
  [[nodiscard]] std::optional<std::string> shaped_like(const written_term& t, std::size_t n) const;

  term_language& language_;
  std::size_t which_;
  bool all_sizes_;
  syntax::rule rule_;
  bool in_target_ = false;
  std::vector<holder> holders_;
  std::vector<std::pair<std::vector<vocabulary_size>, std::string>> bound_;  // symbolic values and their variables
};

}  // namespace detail

// The rule left => right; nothing if a size cannot be expressed.
// attempt: sizes that attributes depend on can often be read from several variables, only one of which is right for all
// shapes. Each attempt reads another one, and odd attempts add more conditions that hold for the sorts.
[[nodiscard]] inline std::optional<syntax::rule> specific_rule(term_language& language, const written_side& left,
                                                               const written_side& right, std::size_t attempt = 0) {
  detail::rule_writer writer{language, attempt / 2, attempt % 2 == 1};
  return writer.run(left, right);
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_GENERATION_SPECIFIC_RULE)

#include <span>

#include <unity/tensor/algebra.hpp>
#include <unity/tensor/index_structure.hpp>

namespace unity::tensor::detail {

UNITY_INLINE std::optional<syntax::expression> typed_term::size(std::size_t n, std::size_t axis) const {
  const auto& t = term_[n];
  if (t.op == term_node::variable) {
    return syntax::measure("size", name(t), {syntax::integer(static_cast<std::int64_t>(axis))});
  }
  if (joins(n, axis)) {
    const auto a = size(t.operands[0], axis);
    const auto b = size(t.operands[1], axis);
    return a && b ? std::optional{syntax::call("+", {*a, *b})} : std::nullopt;
  }
  if (cuts(n, axis)) {
    const auto parts = part_sizes(t.operands[0], axis);
    return parts ? std::optional{nodes_[n].by->result == 0 ? parts->first : parts->second} : std::nullopt;
  }
  if (const auto from = source(n, axis)) {
    return size(from->first, from->second);
  }
  return number(n, axis);
}

UNITY_INLINE std::optional<std::pair<syntax::expression, syntax::expression>> typed_term::part_sizes(
    std::size_t n, std::size_t axis) const {
  const auto& t = term_[n];
  if (t.op == term_node::variable) {
    return std::nullopt;
  }
  if (joins(n, axis)) {
    const auto a = size(t.operands[0], axis);
    const auto b = size(t.operands[1], axis);
    return a && b ? std::optional{std::pair{*a, *b}} : std::nullopt;
  }
  for (const auto& [operand, d] : sources(n, axis)) {
    if (const auto parts = part_sizes(operand, d)) {
      return parts;
    }
  }
  return std::nullopt;
}

UNITY_INLINE bool typed_term::is(std::size_t n, const char* kind, std::size_t axis) const {
  const auto& a = language_.operators();
  const auto& op = nodes_[n].by->operations[0];
  return a.signature(op.kind).name == kind && op.attributes[0][0] == static_cast<std::int64_t>(axis);
}

UNITY_INLINE auto typed_term::sources(std::size_t n, std::size_t axis) const -> std::vector<place> {
  std::vector<tensor_type> inputs;
  for (const auto o : term_[n].operands) {
    inputs.push_back(language_.type_in(nodes_[o].type, 0));
  }
  const auto structure = dimension_indices(language_.operators(), nodes_[n].by->operations[0], inputs);
  std::vector<place> found;
  if (!structure) {
    return found;
  }
  const auto& mine = structure->results[nodes_[n].by->result][axis];
  for (std::size_t i = 0; i < inputs.size() && !mine.indices.empty() && !mine.window; ++i) {
    for (std::size_t d = 0; d < structure->operands[i].size(); ++d) {
      if (structure->operands[i][d] == mine) {
        found.emplace_back(term_[n].operands[i], d);
      }
    }
  }
  return found;
}

UNITY_INLINE auto typed_term::source(std::size_t n, std::size_t axis) const -> std::optional<place> {
  const auto all = sources(n, axis);
  if (!all.empty()) {
    return all[0];
  }
  const auto& dims = language_.type(nodes_[n].type).dims;
  for (const auto o : term_[n].operands) {
    const auto& theirs = language_.type(nodes_[o].type).dims;
    for (std::size_t d = 0; d < theirs[0].size(); ++d) {
      bool same = true;
      for (std::size_t w = 0; w < world_count; ++w) {
        same = same && theirs[w][d] == dims[w][axis];
      }
      if (same) {
        return place{o, d};
      }
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<syntax::expression> typed_term::number(std::size_t n, std::size_t axis) const {
  const auto& dims = language_.type(nodes_[n].type).dims;
  for (const auto& d : dims) {
    if (d[axis] != dims[0][axis]) {
      return std::nullopt;
    }
  }
  return syntax::integer(dims[0][axis]);
}

UNITY_INLINE std::optional<syntax::rule> rule_writer::run(const written_side& left, const written_side& right) {
  collect_holders(left);
  for (const auto& side : {&left, &right}) {
    in_target_ = side == &right;
    for (const auto& t : *side) {
      const typed_term typed{language_, t};
      auto written = term(typed, t, t.size() - 1);
      if (!written) {
        return std::nullopt;
      }
      (side == &left ? rule_.source : rule_.target).push_back(*std::move(written));
    }
  }
  add_variable_conditions(left);
  for (const auto& t : left) {
    add_shape_conditions(t);
  }
  for (const auto& t : right) {
    add_shape_conditions(t);
  }
  return std::move(rule_);
}

UNITY_INLINE void rule_writer::collect_holders(const written_side& left) {
  for_each_variable(left, [&](const term_node& n, const std::string& name) {
    const auto& dims = language_.words().sorts[n.sort].dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (!dims[d].symbol.empty()) {
        holders_.push_back(
            {dims[d].symbol, syntax::measure("size", name, {syntax::integer(static_cast<std::int64_t>(d))})});
      }
    }
  });
}

UNITY_INLINE std::optional<syntax::term> rule_writer::term(const typed_term& typed, const written_term& t,
                                                           std::size_t n) {
  syntax::term out;
  if (t[n].op == term_node::variable) {
    out.kind = syntax::term::form::variable;
    out.name = typed_term::name(t[n]);
    return out;
  }
  out.name = language_.operators().signature(language_.kind(t[n].op)).name;
  if (!add_attributes(out, typed, t, n)) {
    return std::nullopt;
  }
  for (const auto o : t[n].operands) {
    auto operand = term(typed, t, o);
    if (!operand) {
      return std::nullopt;
    }
    out.operands.push_back(*std::move(operand));
  }
  if (out.name == "split") {
    out.selector = static_cast<int>(typed.typed(n).by->result);
  }
  return out;
}

UNITY_INLINE bool rule_writer::add_attributes(syntax::term& out, const typed_term& typed, const written_term& t,
                                              std::size_t n) {
  const auto& signature = language_.operators().signature(language_.kind(t[n].op));
  const auto& operation = typed.typed(n).by->operations[0];
  for (std::size_t i = 0; i < signature.attributes.size(); ++i) {
    const auto& a = signature.attributes[i];
    std::optional<syntax::expression> value;
    if (out.name == "split" && a.name == "sizes") {
      const auto parts = typed.part_sizes(t[n].operands[0], static_cast<std::size_t>(operation.attributes[0][0]));
      value = parts ? std::optional{syntax::list({parts->first, parts->second})} : std::nullopt;
    } else if (const auto* symbolic = symbols(t[n].op, i)) {
      value = symbolic_value(*symbolic, a);
    } else if (operation.attributes[i] != a.default_value) {
      value = syntax::literal(a, operation.attributes[i]);
    } else {
      continue;
    }
    if (!value) {
      return false;
    }
    out.attributes.push_back({a.name, *std::move(value)});
  }
  return true;
}

UNITY_INLINE const std::vector<vocabulary_size>* rule_writer::symbols(std::size_t op, std::size_t attribute) const {
  for (const auto& [number, value] : language_.word(op).attributes) {
    const auto symbolic = [](const vocabulary_size& s) { return !s.symbol.empty(); };
    if (number == attribute && std::any_of(value.begin(), value.end(), symbolic)) {
      return &value;
    }
  }
  return nullptr;
}

UNITY_INLINE std::optional<syntax::expression> rule_writer::symbolic_value(const std::vector<vocabulary_size>& value,
                                                                           const attribute_signature& a) {
  const auto said = said_by_variables(value, a);
  for (const auto& [of, name] : bound_) {
    if (of == value && (!in_target_ || !said)) {
      return syntax::variable(name);
    }
  }
  if (in_target_) {
    return said;
  }
  bound_.emplace_back(value, fmt::format("n{}", bound_.size()));
  auto bound = syntax::variable(bound_.back().second);
  if (said) {
    rule_.conditions.push_back(syntax::equal(bound, *said));
  }
  return bound;
}

UNITY_INLINE std::optional<syntax::expression> rule_writer::said_by_variables(const std::vector<vocabulary_size>& value,
                                                                              const attribute_signature& a) const {
  std::vector<syntax::expression> sizes;
  for (const auto& v : value) {
    auto size = v.symbol.empty() ? std::optional{syntax::integer(v.number)} : symbol_size(v.symbol);
    if (!size) {
      return std::nullopt;
    }
    sizes.push_back(*std::move(size));
  }
  return a.form == attribute_form::integer ? sizes[0] : syntax::list(std::move(sizes));
}

UNITY_INLINE std::optional<syntax::expression> rule_writer::symbol_size(const std::string& symbol) const {
  std::vector<const syntax::expression*> fitting;
  for (const auto& h : holders_) {
    if (h.symbol == symbol) {
      fitting.push_back(&h.size);
    }
  }
  if (fitting.empty()) {
    return std::nullopt;
  }
  return *fitting[which_ % fitting.size()];
}

UNITY_INLINE void rule_writer::add_variable_conditions(const written_side& left) {
  for_each_variable(left, [&](const term_node& n, const std::string& name) {
    const auto& dims = language_.words().sorts[n.sort].dims;
    const auto rank = static_cast<std::int64_t>(dims.size());
    rule_.conditions.push_back(syntax::equal(syntax::measure("rank", name), syntax::integer(rank)));
    auto from = dims.size();
    std::vector<syntax::expression> numbers;
    while (from > 0 && dims[from - 1].symbol.empty()) {
      numbers.insert(numbers.begin(), syntax::integer(dims[--from].number));
    }
    if (!numbers.empty()) {
      const auto suffix =
          syntax::call("suffix", {syntax::measure("shape", name), syntax::integer(static_cast<std::int64_t>(from))});
      rule_.conditions.push_back(syntax::equal(suffix, syntax::list(std::move(numbers))));
    }
  });
  for (std::size_t i = 0; all_sizes_ && i < holders_.size(); ++i) {
    for (std::size_t j = i + 1; j < holders_.size(); ++j) {
      if (holders_[i].symbol == holders_[j].symbol) {
        rule_.conditions.push_back(syntax::equal(holders_[i].size, holders_[j].size));
        break;
      }
    }
  }
}

UNITY_INLINE void rule_writer::add_shape_conditions(const written_term& t) {
  for (const auto& n : t) {
    if (n.op == term_node::variable || !language_.word(n.op).same_shape) {
      continue;
    }
    const auto a = shaped_like(t, n.operands[0]);
    const auto b = shaped_like(t, n.operands[1]);
    if (a && b && *a != *b) {
      auto c = syntax::equal(syntax::measure("shape", std::min(*a, *b)), syntax::measure("shape", std::max(*a, *b)));
      if (std::find(rule_.conditions.begin(), rule_.conditions.end(), c) == rule_.conditions.end()) {
        rule_.conditions.push_back(std::move(c));
      }
    }
  }
}

UNITY_INLINE std::optional<std::string> rule_writer::shaped_like(const written_term& t, std::size_t n) const {
  while (t[n].op != term_node::variable) {
    const auto& word = language_.word(t[n].op);
    const auto& name = language_.operators().signature(word.kind).name;
    if (!word.same_shape && name != "relu" && name != "scalar_multiply") {
      return std::nullopt;
    }
    n = t[n].operands[0];
  }
  return typed_term::name(t[n]);
}

}  // namespace unity::tensor::detail

#endif
