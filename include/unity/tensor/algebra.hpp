// The tensor algebra: the meaning of the operators in a set of definitions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/config.hpp>
#include <unity/core/id.hpp>
#include <unity/core/units.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor {

// A set of operator definitions. A value; models pattern_algebra, costed_algebra and variant_algebra. The layout of an
// operation is not an attribute: make() gives row_major results, variants() the other layouts.
class algebra {
 public:
  using op_type = operation;
  using value_type = tensor_type;

  // Throws: unity::error if the name is taken.
  kind_id add(definition d);

  [[nodiscard]] std::size_t kind_count() const noexcept { return definitions_.size(); }
  [[nodiscard]] std::optional<kind_id> find_kind(std::string_view name) const {
    const auto found = kinds_.find(name);
    return found == kinds_.end() ? std::nullopt : std::optional{found->second};
  }
  // Throws: unity::error if no operator has this name.
  [[nodiscard]] kind_id kind(std::string_view name) const;
  [[nodiscard]] const definition& definition_of(kind_id kind) const {
    UNITY_EXPECTS(kind.index() < definitions_.size(), "a kind of this algebra");
    return definitions_[kind.index()];
  }
  [[nodiscard]] const op_signature& signature(kind_id kind) const { return definition_of(kind).signature; }

  // The operation, with defaults for attributes that are not named. Choices can be names or numbers.
  // Throws: unity::error that names an unknown operator or an unknown, missing or malformed attribute.
  [[nodiscard]] operation make_operation(std::string_view name, std::span<const named_attribute> attributes) const;
  [[nodiscard]] operation make_operation(std::string_view name,
                                         std::initializer_list<named_attribute> attributes = {}) const {
    return make_operation(name, std::span{attributes.begin(), attributes.size()});
  }
  // values: one per attribute of the signature, in order. Returns nothing if one is malformed.
  [[nodiscard]] std::optional<operation> make(kind_id kind, std::span<const attribute> values) const {
    operation op{kind, {values.begin(), values.end()}, layout::row_major};
    return valid(op) ? std::optional{std::move(op)} : std::nullopt;
  }
  [[nodiscard]] kind_id kind_of(const operation& op) const noexcept { return op.kind; }
  [[nodiscard]] attribute_list attributes_of(const operation& op) const { return op.attributes; }
  // Reads the attributes of a valid operation. The reader must not outlive the algebra or the operation.
  [[nodiscard]] attribute_reader read(const operation& op) const {
    return {definition_of(op.kind).fields, op.attributes};
  }

  // Never throws, for any operation and inputs. Complexity: linear in ranks and operands, except for composites without
  // a shape function.
  [[nodiscard]] std::optional<std::vector<tensor_type>> infer(const operation& op,
                                                              std::span<const tensor_type> inputs) const {
    return judge(op, inputs, nullptr);
  }
  // What infer expects if it returns nothing, as a noun phrase ("integers in operand 1"); empty if it returns types.
  [[nodiscard]] std::string why_not(const operation& op, std::span<const tensor_type> inputs) const;

  // The definition applied to an operation on the inputs: the iteration space of a primitive, the index map of a view,
  // the body of a composite. Nothing if the operation is of another kind or does not accept the inputs.
  [[nodiscard]] std::optional<space> iteration(const operation& op, std::span<const tensor_type> inputs) const {
    return derive<space, primitive>(
        op, inputs, [](const primitive& p) -> const auto& { return p.iteration; });
  }
  [[nodiscard]] std::optional<view_map> index_map(const operation& op, std::span<const tensor_type> inputs) const {
    return derive<view_map, view>(
        op, inputs, [](const view& v) -> const auto& { return v.map; });
  }
  // The first nodes, without a kind, stand for the operands.
  [[nodiscard]] std::optional<tensor_graph> body(const operation& op, std::span<const tensor_type> inputs) const;

  // Floating-point operations, and bytes that must be read and written. Saturates at the largest count.
  [[nodiscard]] operator_work work(const operation& op, std::span<const tensor_type> inputs,
                                   std::span<const tensor_type> outputs) const;

  // The operation with results in the other layout, if the operator allows that; otherwise nothing.
  [[nodiscard]] std::vector<operation> variants(const operation& op, std::span<const tensor_type> inputs) const;

  // Measures of a value: size(?x, axis), where a negative axis counts from the back; rank(?x); shape(?x); constant(?x);
  // dtype(?x).
  [[nodiscard]] std::optional<int> find_measure(std::string_view name) const;
  // A rule holds in training too, unless it needs weights or statistics that do not change.
  static constexpr std::string_view inference_use = "inference";
  static constexpr std::array<std::string_view, 2> use_names{"training", inference_use};
  [[nodiscard]] static std::span<const std::string_view> uses() { return use_names; }
  // The number of arguments after the value.
  [[nodiscard]] std::size_t measure_arguments(int measure) const noexcept { return measure == size_measure ? 1 : 0; }
  [[nodiscard]] std::optional<attribute> measure(int measure, const tensor_type& type,
                                                 std::span<const std::int64_t> arguments) const;

 private:
  enum measures : int { size_measure, rank_measure, shape_measure, constant_measure, dtype_measure };
  using inferred = std::optional<std::vector<tensor_type>>;

  // Whether the kind exists and every attribute has its form.
  [[nodiscard]] bool valid(const operation& op) const noexcept;
  // Whether the definition can be asked. Writes what was expected to a reason that is given.
  [[nodiscard]] bool well_formed(const operation& op, std::span<const tensor_type> inputs, std::string* reason) const;
  [[nodiscard]] inferred judge(const operation& op, std::span<const tensor_type> inputs, std::string* reason) const;
  [[nodiscard]] inferred judge_body(const operation& op, std::span<const tensor_type> inputs,
                                    std::string* reason) const;
  template <class Judgement, class Rule>
  [[nodiscard]] inferred conclude(const operation& op, Judgement& j, const Rule& rule, std::string* reason) const;
  [[nodiscard]] tensor_graph build_body(const operation& op, std::span<const tensor_type> inputs) const;

  [[nodiscard]] flops body_operations(const tensor_graph& g) const;

  template <class Map, class Kind, class Rule>
  [[nodiscard]] std::optional<Map> derive(const operation& op, std::span<const tensor_type> inputs, Rule rule) const {
    if (!well_formed(op, inputs, nullptr) || !std::holds_alternative<Kind>(definition_of(op.kind).body)) {
      return std::nullopt;
    }
    Map map{inputs};
    rule(std::get<Kind>(definition_of(op.kind).body))(map, read(op));
    return map.failed() ? std::nullopt : std::optional{std::move(map)};
  }

  std::vector<definition> definitions_;
  std::map<std::string, kind_id, std::less<>> kinds_;
};

// The operators of models.
[[nodiscard]] algebra standard_algebra();

// The standard operators, and those of gradients (tensor/differentiate.hpp), losses (tensor/loss.hpp) and messages
// between ranks. Kinds of the standard algebra keep their numbers, so its graphs are also graphs of this algebra.
[[nodiscard]] algebra training_algebra();

// The kind of the operator; for an opaque one, which unity passes through without knowing it, the name from its origin.
[[nodiscard]] std::string operator_name(const algebra& a, const operation& op);

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_ALGEBRA)

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/standard_operators.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor {

UNITY_INLINE kind_id algebra::add(definition d) {
  const kind_id kind{definitions_.size()};
  if (!kinds_.emplace(d.signature.name, kind).second) {
    throw error{fmt::format("operator {}", d.signature.name), "a second definition", "a new name"};
  }
  definitions_.push_back(std::move(d));
  return kind;
}

UNITY_INLINE kind_id algebra::kind(std::string_view name) const {
  const auto found = find_kind(name);
  if (!found) {
    throw error{fmt::format("operator {}", name), "no definition", "the name of an operator"};
  }
  return *found;
}

UNITY_INLINE std::string algebra::why_not(const operation& op, std::span<const tensor_type> inputs) const {
  std::string reason;
  static_cast<void>(judge(op, inputs, &reason));
  return reason;
}

UNITY_INLINE std::vector<operation> algebra::variants(const operation& op, std::span<const tensor_type> inputs) const {
  auto other = op;
  other.order = op.order == layout::row_major ? layout::column_major : layout::row_major;
  if (!valid(op) || !definition_of(op.kind).layouts || !infer(other, inputs)) {
    return {};
  }
  return {std::move(other)};
}

UNITY_INLINE bool algebra::valid(const operation& op) const noexcept {
  if (op.kind.index() >= definitions_.size()) {
    return false;
  }
  const auto& fields = definitions_[op.kind.index()].fields;
  bool fit = op.attributes.size() == fields.size();
  for (std::size_t i = 0; fit && i < fields.size(); ++i) {
    fit = fits(fields[i], op.attributes[i]);
  }
  return fit;
}

UNITY_INLINE algebra standard_algebra() {
  algebra a;
  for (auto& d : standard_operators()) {
    a.add(std::move(d));
  }
  return a;
}

UNITY_INLINE algebra training_algebra() {
  auto a = standard_algebra();
  for (auto& d : gradient_operators()) {
    a.add(std::move(d));
  }
  for (auto& d : loss_operators()) {
    a.add(std::move(d));
  }
  for (auto& d : message_operators()) {
    a.add(std::move(d));
  }
  return a;
}

UNITY_INLINE std::string operator_name(const algebra& a, const operation& op) {
  const auto& d = a.definition_of(op.kind);
  return std::holds_alternative<opaque>(d.body) ? std::string{a.read(op).word("name")} : d.signature.name;
}

}  // namespace unity::tensor

#endif
