// The list of ONNX operator families. To add an operator, add a row to its family; to add a family, add a line here.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include <unity/io/onnx/family.hpp>
#include <unity/io/onnx_model.hpp>
#include <unity/tensor/algebra.hpp>

namespace unity::io::detail {

// Operators that the caller adds to these, each in one line (onnx_operator).

class own_operators {
 public:
  // Both must outlive this object.
  // Throws: unity::error if the algebra lacks an operator, or two lines are about the same one.
  own_operators(const tensor::algebra& algebra, std::span<const onnx_operator> lines);

  // The line about a node of a file, or about an operator of the algebra; null if there is none.
  [[nodiscard]] const onnx_operator* find(const onnx::NodeProto& node) const;
  [[nodiscard]] const onnx_operator* find(std::string_view kind) const;

  // Throws: unity::error if an attribute is unknown, missing or of another form; not_accepted.
  [[nodiscard]] import_result read(const onnx_operator& line, const onnx::NodeProto& node, import_node& n) const;
  // Effects: also states the types of results, which no reader can infer, unless they are outputs of the graph.
  void write(const onnx_operator& line, export_node& n, const open_sizes& open,
             const std::set<std::string>& outputs) const;

 private:
  const tensor::algebra* algebra_;
  std::span<const onnx_operator> lines_;
};

// Effects: adds version 1 of the domains of the graph's nodes, as far as the lines name them and the model does not.
void import_domains(onnx::ModelProto& model, std::span<const onnx_operator> lines);

struct onnx_operators {
  std::map<std::string_view, import_row> imports;
  std::map<std::string_view, export_form> exports;

  onnx_operators();

  // The function that writes an operator in the opset, or null.
  [[nodiscard]] export_row writer_of(std::string_view kind, std::int64_t opset) const;
};

}  // namespace unity::io::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_IO_ONNX_OPERATORS)

#include <algorithm>
#include <cstddef>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/io/onnx/elementwise.hpp>
#include <unity/io/onnx/indexing.hpp>
#include <unity/io/onnx/layers.hpp>
#include <unity/io/onnx/logic.hpp>
#include <unity/io/onnx/movement.hpp>
#include <unity/io/onnx/opaque.hpp>
#include <unity/io/onnx/products.hpp>
#include <unity/io/onnx/proto.hpp>
#include <unity/io/onnx/statistics.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::io::detail {

// The default domain has two names.
UNITY_INLINE bool is_same_domain(std::string_view a, std::string_view b) {
  return a == b || (is_default_domain(a) && is_default_domain(b));
}

UNITY_INLINE own_operators::own_operators(const tensor::algebra& algebra, std::span<const onnx_operator> lines)
    : algebra_{&algebra}, lines_{lines} {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    (void)algebra.kind(lines[i].kind);
    for (std::size_t k = 0; k < i; ++k) {
      const bool same_node = lines[i].type == lines[k].type && is_same_domain(lines[i].domain, lines[k].domain);
      if (same_node || lines[i].kind == lines[k].kind) {
        throw error{fmt::format("ONNX operators, line {}", i),
                    fmt::format("{} and {}.{}", lines[i].kind, lines[i].domain, lines[i].type),
                    fmt::format("an operator and a node that line {} does not name", k)};
      }
    }
  }
}

UNITY_INLINE const onnx_operator* own_operators::find(const onnx::NodeProto& node) const {
  const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const onnx_operator& line) {
    return line.type == node.op_type() && is_same_domain(line.domain, node.domain());
  });
  return found == lines_.end() ? nullptr : &*found;
}

UNITY_INLINE const onnx_operator* own_operators::find(std::string_view kind) const {
  const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.kind == kind; });
  return found == lines_.end() ? nullptr : &*found;
}

// Throws: unity::error if the value does not fit the field.
UNITY_INLINE tensor::named_attribute read_attribute(const tensor::attribute_field& field, const import_node& n) {
  const auto& name = field.signature.name;
  tensor::named_attribute value{name, std::int64_t{0}};
  switch (field.signature.form) {
    case attribute_form::integer: value = {name, n.attributes.integer(name, 0)}; break;
    case attribute_form::integers:
      value = {name, std::span<const std::int64_t>{n.attributes.integers(name, {})}};
      break;
    case attribute_form::real: return {name, n.attributes.real(name, 0)};
    case attribute_form::word: return {name, n.attributes.word(name, "")};
    case attribute_form::choice: {
      const auto& choices = field.signature.choices;
      const auto found = std::find(choices.begin(), choices.end(), n.attributes.word(name, ""));
      value = {name, found - choices.begin()};
    }
  }
  if (!tensor::fits(field, std::get<attribute>(value.value()))) {
    n.refuse(fmt::format("has an attribute {} that does not fit", name),
             "one as the operator's definition declares it");
  }
  return value;
}

UNITY_INLINE import_result own_operators::read(const onnx_operator& line, const onnx::NodeProto& node,
                                               import_node& n) const {
  const auto& definition = algebra_->definition_of(algebra_->kind(line.kind));
  const auto& fields = definition.fields;
  for (const auto& a : node.attribute()) {
    if (std::none_of(fields.begin(), fields.end(), [&](const auto& f) { return f.signature.name == a.name(); })) {
      n.refuse(fmt::format("has an attribute {}", in_quotes(a.name())), fmt::format("those of {}", line.kind));
    }
  }
  std::vector<tensor::named_attribute> attributes;
  for (const auto& f : fields) {
    if (n.attributes.find(f.signature.name) != nullptr) {
      attributes.push_back(read_attribute(f, n));
    } else if (f.required) {
      n.refuse(fmt::format("has no attribute {}", f.signature.name), fmt::format("those of {}", line.kind));
    }
  }
  std::vector<value_id> operands;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    operands.push_back(n.input(i));
  }
  return n.emit_all(line.kind, operands, std::span<const tensor::named_attribute>{attributes});
}

UNITY_INLINE void own_operators::write(const onnx_operator& line, export_node& n, const open_sizes& open,
                                       const std::set<std::string>& outputs) const {
  std::vector<onnx_attribute> attributes;
  for (const auto& f : algebra_->definition_of(algebra_->kind(line.kind)).fields) {
    const auto& name = f.signature.name;
    switch (f.signature.form) {
      case attribute_form::integer: attributes.push_back({name, n.attributes.integer(name)}); break;
      case attribute_form::integers: attributes.push_back({name, n.integers(name)}); break;
      case attribute_form::real: attributes.push_back({name, n.attributes.real(name)}); break;
      case attribute_form::word: attributes.push_back({name, n.attributes.word(name)}); break;
      case attribute_form::choice: attributes.push_back({name, n.choice(name)}); break;
    }
  }
  const auto inputs = n.inputs();
  const auto results = n.results();
  n.out.node(line.type, inputs, results, attributes).set_domain(line.domain);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!outputs.contains(results[i])) {
      auto& info = *n.out.proto().add_value_info();
      fill_type(info, results[i], n.result_type(i));
      leave_open(info, open);
    }
  }
}

UNITY_INLINE void import_domains(onnx::ModelProto& model, std::span<const onnx_operator> lines) {
  for (const auto& line : lines) {
    const auto& nodes = model.graph().node();
    const auto& imports = model.opset_import();
    const bool is_used =
        std::any_of(nodes.begin(), nodes.end(), [&](const auto& n) { return n.domain() == line.domain; });
    const bool is_there = std::any_of(imports.begin(), imports.end(),
                                      [&](const auto& i) { return is_same_domain(i.domain(), line.domain); });
    if (is_used && !is_there && !is_default_domain(line.domain)) {
      auto& import = *model.add_opset_import();
      import.set_domain(line.domain);
      import.set_version(1);
    }
  }
}

UNITY_INLINE onnx_operators::onnx_operators() {
  // The first of two rows for one operator is used: those of indexing_family try those of movement_family first.
  for (const auto family : {indexing_family, layer_family, elementwise_family, product_family, pooling_family,
                            movement_family, logic_family, statistics_family, attention_family, quantization_family}) {
    auto rows = family();
    imports.insert(rows.imports.begin(), rows.imports.end());
    for (const auto& row : rows.exports) {
      exports.emplace(row.kind, row);
    }
  }
}

UNITY_INLINE export_row onnx_operators::writer_of(std::string_view kind, std::int64_t opset) const {
  const auto row = exports.find(kind);
  const bool is_there = row != exports.end() && row->second.first <= opset && opset <= row->second.last;
  return is_there ? row->second.write : nullptr;
}

}  // namespace unity::io::detail

#endif
