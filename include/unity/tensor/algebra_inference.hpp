// The members of tensor/algebra.hpp that do not fit into that file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor {

namespace detail {

// Converts an attribute as written by a caller to its stored form.
// Throws: unity::error if the form does not fit the field.
[[nodiscard]] attribute stored(const attribute_field& field, const named_attribute::value_type& value,
                               std::string_view where);

}  // namespace detail

// Builds a graph operator by operator over an algebra, as the body of a composite; the algebra infers the types.
// Errors: adding throws unity::error that names the operator if it does not accept the operands.
class body_graph final : public body_builder {
 public:
  // Appends to a graph. The algebra must outlive the builder.
  body_graph(const algebra& operators, tensor_graph graph) : algebra_{operators}, graph_{std::move(graph)} {}
  // Nodes without kind stand for operands.
  body_graph(const algebra& operators, std::span<const tensor_type> inputs);

  [[nodiscard]] const tensor_type& type(value_id v) const override { return graph_.type(v); }
  [[nodiscard]] const algebra& operators() const override { return algebra_; }
  [[nodiscard]] std::span<const value_id> operands() const noexcept { return operands_; }
  // The graph built so far.
  [[nodiscard]] const tensor_graph& graph() const noexcept { return graph_; }
  [[nodiscard]] tensor_graph finish(std::span<const value_id> outputs) && {
    graph_.set_outputs(outputs);
    return std::move(graph_);
  }

  using body_builder::add_all;
  std::vector<value_id> add_all(std::string_view name, std::span<const value_id> operands,
                                std::span<const named_attribute> attributes) override {
    return add_all(algebra_.make_operation(name, attributes), operands);
  }
  std::vector<value_id> add_all(const operation& op, std::span<const value_id> operands) override;

  std::vector<value_id> add_body_adjoint(std::string_view name, std::span<const named_attribute> attributes,
                                         const adjoint_problem& p) override;

 private:
  const algebra& algebra_;
  tensor_graph graph_;
  std::vector<value_id> operands_;
};

template <class Judgement, class Rule>
inline algebra::inferred algebra::conclude(const operation& op, Judgement& j, const Rule& rule,
                                           std::string* reason) const {
  rule(j, read(op));
  auto results = j.take(definition_of(op.kind).source != source_kind::input);
  bool ranks = true;
  if (results && op.order == layout::column_major) {
    for (auto& t : *results) {
      t.order = op.order;
      ranks = ranks && t.rank() >= 2;
    }
  }
  if (reason != nullptr && !results) {
    *reason = j.why_not().text();
  } else if (reason != nullptr && !ranks) {
    *reason = "row_major results, as their rank is below 2";
  }
  return ranks ? std::move(results) : std::nullopt;
}

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ALGEBRA_INFERENCE)

#include <array>
#include <exception>
#include <variant>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor::detail {

UNITY_INLINE attribute stored(const attribute_field& field, const named_attribute::value_type& value,
                              std::string_view where) {
  const auto& s = field.signature;
  attribute result;
  if (const auto* word = std::get_if<std::string>(&value)) {
    result = word_attribute(*word);
    if (s.form == attribute_form::choice) {
      std::int64_t i = 0;
      while (static_cast<std::size_t>(i) < s.choices.size() && s.choices[static_cast<std::size_t>(i)] != *word) {
        ++i;
      }
      result = {i};
    }
  } else if (const auto* real = std::get_if<double>(&value)) {
    result = real_attribute(*real);
  } else {
    result = std::get<attribute>(value);
  }
  const bool is_word = std::holds_alternative<std::string>(value);
  const bool is_real = std::holds_alternative<double>(value);
  const bool right_form = is_real   ? s.form == attribute_form::real
                          : is_word ? s.form == attribute_form::word || s.form == attribute_form::choice
                                    : s.form != attribute_form::real && s.form != attribute_form::word;
  if (!right_form || !fits(field, result)) {
    constexpr std::array<const char*, 5> forms{"an integer", "integers", "a real number", "a word", "a choice"};
    throw error{where, fmt::format("another value of {}", s.name),
                field.length == attribute_field::any || field.length == 1
                    ? std::string{forms[static_cast<std::size_t>(s.form)]}
                    : fmt::format("{} integers", field.length)};
  }
  return result;
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE body_graph::body_graph(const algebra& operators, std::span<const tensor_type> inputs)
    : algebra_{operators} {
  for (const auto& t : inputs) {
    operands_.push_back(graph_.results(graph_.add_node({}, {}, {&t, 1}))[0]);
  }
}

UNITY_INLINE std::vector<value_id> body_graph::add_all(const operation& op, std::span<const value_id> operands) {
  std::vector<tensor_type> types;
  for (const auto v : operands) {
    types.push_back(graph_.type(v));
  }
  const auto results = algebra_.infer(op, types);
  if (!results) {
    throw error{algebra_.signature(op.kind).name, "other operands", algebra_.why_not(op, types)};
  }
  const auto values = graph_.results(graph_.add_node(op, operands, *results));
  return {values.begin(), values.end()};
}

UNITY_INLINE operation algebra::make_operation(std::string_view name,
                                               std::span<const named_attribute> attributes) const {
  const auto k = kind(name);
  const auto& fields = definition_of(k).fields;
  operation op{k, {}, layout::row_major};
  for (const auto& field : fields) {
    const named_attribute* given = nullptr;
    for (const auto& a : attributes) {
      given = a.name() == field.signature.name ? &a : given;
    }
    if (given == nullptr && field.required) {
      throw error{fmt::format("operator {}", name), fmt::format("no attribute {}", field.signature.name),
                  "it, as it has no default"};
    }
    op.attributes.push_back(given != nullptr ? detail::stored(field, given->value(), fmt::format("operator {}", name))
                                             : field.signature.default_value);
  }
  for (const auto& a : attributes) {
    bool known = false;
    for (const auto& field : fields) {
      known = known || field.signature.name == a.name();
    }
    if (!known) {
      throw error{fmt::format("operator {}", name), fmt::format("attribute {}", a.name()),
                  "the name of one of its attributes"};
    }
  }
  return op;
}

// Checks before the definition is consulted.
UNITY_INLINE bool algebra::well_formed(const operation& op, std::span<const tensor_type> inputs,
                                       std::string* reason) const {
  const auto refuse = [&](std::string_view expected) {
    if (reason != nullptr) {
      *reason = expected;
    }
    return false;
  };
  if (!valid(op)) {
    return refuse("a kind of this algebra with well-formed attributes");
  }
  const auto& d = definitions_[op.kind.index()];
  if (!d.signature.operands.accepts(inputs.size())) {
    return refuse(reason == nullptr ? "" : fmt::format("{} operand(s)", to_string(d.signature.operands)));
  }
  for (const auto& t : inputs) {
    if (!checked_element_count(t.dims)) {
      return refuse("operands of positive sizes and a countable number of elements");
    }
  }
  return (op.order != layout::column_major || d.layouts) || refuse("row_major results");
}

UNITY_INLINE auto algebra::judge(const operation& op, std::span<const tensor_type> inputs, std::string* reason) const
    -> algebra::inferred {
  if (!well_formed(op, inputs, reason)) {
    return std::nullopt;
  }
  const auto& body = definition_of(op.kind).body;
  if (const auto* p = std::get_if<primitive>(&body)) {
    space s{inputs};
    return conclude(op, s, p->iteration, reason);
  }
  if (const auto* v = std::get_if<view>(&body)) {
    view_map map{inputs};
    return conclude(op, map, v->map, reason);
  }
  judgement j{inputs};
  if (const auto* o = std::get_if<opaque>(&body)) {
    return conclude(op, j, o->types, reason);
  }
  const auto& c = std::get<composite>(body);
  return c.types ? conclude(op, j, c.types, reason) : judge_body(op, inputs, reason);
}

UNITY_INLINE auto algebra::judge_body(const operation& op, std::span<const tensor_type> inputs,
                                      std::string* reason) const -> algebra::inferred {
  try {
    const auto g = build_body(op, inputs);
    auto results = output_types(g);
    for (auto& t : results) {
      t.order = op.order;
    }
    return results;
  } catch (const error& e) {
    if (reason != nullptr) {
      *reason = fmt::format("what its body takes: {}", e.what());
    }
    return std::nullopt;
  }
}

UNITY_INLINE tensor_graph algebra::build_body(const operation& op, std::span<const tensor_type> inputs) const {
  body_graph b{*this, inputs};
  const auto outputs = std::get<composite>(definition_of(op.kind).body).body(b, read(op), b.operands());
  return std::move(b).finish(outputs);
}

UNITY_INLINE std::optional<tensor_graph> algebra::body(const operation& op, std::span<const tensor_type> inputs) const {
  if (!well_formed(op, inputs, nullptr) || !std::holds_alternative<composite>(definition_of(op.kind).body) ||
      !infer(op, inputs)) {
    return std::nullopt;
  }
  return build_body(op, inputs);
}

UNITY_INLINE operator_work algebra::work(const operation& op, std::span<const tensor_type> inputs,
                                         std::span<const tensor_type> outputs) const {
  const auto& d = definition_of(op.kind);
  if (d.own_work) {
    return d.own_work(read(op), inputs, outputs);
  }
  operator_work w{{}, inputs.empty() ? bytes{} : total_bytes(inputs) + total_bytes(outputs)};
  if (const auto* p = std::get_if<primitive>(&d.body); p != nullptr && !inputs.empty()) {
    if (const auto s = iteration(op, inputs)) {
      const auto kernel = p->kernel(read(op), inputs);
      w.operations = arithmetic_of(*s, kernel);
      w.moved -= untouched_bytes(*s, kernel);
    }
  } else if (const auto map = index_map(op, inputs)) {
    w.moved = moved_by(*map, inputs, outputs);
  } else if (const auto g = body(op, inputs)) {
    w.operations = body_operations(*g);
  }
  return w;
}

UNITY_INLINE flops algebra::body_operations(const tensor_graph& g) const {
  std::int64_t sum = 0;
  const auto types_of = [&](std::span<const value_id> values) {
    std::vector<tensor_type> types;
    for (const auto v : values) {
      types.push_back(g.type(v));
    }
    return types;
  };
  for (const auto n : node_ids(g)) {
    if (g.operation(n).kind.valid()) {
      sum =
          saturating_add(sum, work(g.operation(n), types_of(g.operands(n)), types_of(g.results(n))).operations.count());
    }
  }
  return flops{sum};
}

UNITY_INLINE std::optional<int> algebra::find_measure(std::string_view name) const {
  constexpr std::array<std::string_view, 5> names{"size", "rank", "shape", "constant", "dtype"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

UNITY_INLINE std::optional<attribute> algebra::measure(int measure, const tensor_type& type,
                                                       std::span<const std::int64_t> arguments) const {
  const auto rank = static_cast<std::int64_t>(type.rank());
  if (arguments.size() != measure_arguments(measure)) {
    return std::nullopt;
  }
  switch (measure) {
    case size_measure: {
      const auto axis = arguments[0] < 0 ? arguments[0] + rank : arguments[0];
      if (axis < 0 || axis >= rank) {
        return std::nullopt;
      }
      return attribute{type.dims[static_cast<std::size_t>(axis)]};
    }
    case rank_measure: return attribute{rank};
    case shape_measure: return attribute(std::span<const std::int64_t>{type.dims});
    case constant_measure: return attribute{type.constant ? 1 : 0};
    case dtype_measure: return attribute{static_cast<std::int64_t>(type.element)};
    default: return std::nullopt;
  }
}

}  // namespace unity::tensor

#endif
