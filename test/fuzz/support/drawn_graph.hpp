// A tensor graph decoded from bytes: each byte selects the next operator, its operands, or its attributes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

#include "byte_source.hpp"

namespace unity::test {

class graph_drawer {
 public:
  // Extends `start`. The algebra and the source of bytes must outlive this object.
  graph_drawer(const tensor::algebra& a, byte_source& in, tensor::tensor_graph start)
      : algebra_{a}, in_{in}, graph_{std::move(start)} {
    while (values() < 2) {
      add_source("input", {3, 4});
    }
  }

  // Tries at most `most` operators; skips one that does not accept its drawn operands.
  void add(std::size_t most) {
    for (; most > 0 && !in_.ended(); --most) {
      if (in_.below(4) == 0) {
        add_source(in_.below(2) == 0 ? "input" : "weight", drawn_dims());
      } else {
        add_operator(kind_id{in_.below(algebra_.kind_count())});
      }
    }
  }
  // Makes the last value an output, and some others.
  [[nodiscard]] tensor::tensor_graph finish() && {
    std::vector<value_id> outputs{graph_.outputs().begin(), graph_.outputs().end()};
    outputs.push_back(value_id{values() - 1});
    for (auto more = in_.below(4); more > 0; --more) {
      outputs.push_back(value_id{in_.below(values())});
    }
    graph_.set_outputs(outputs);
    return std::move(graph_);
  }

 private:
  static constexpr std::int64_t most_elements = 256;
  static constexpr std::size_t most_values = 64;

  [[nodiscard]] std::size_t values() const { return graph_.value_count(); }
  // A small byte draws a recent value.
  value_id drawn_value() { return value_id{values() - 1 - in_.below(values())}; }
  tensor::shape drawn_dims() {
    if (in_.below(2) == 0) {
      return graph_.type(drawn_value()).dims;
    }
    tensor::shape dims;
    for (auto rank = in_.below(5); rank > 0; --rank) {
      dims.push_back(static_cast<std::int64_t>(1 + in_.below(4)));
    }
    return dims;
  }
  void add_source(const char* kind, const tensor::shape& dims) {
    const auto op = algebra_.make_operation(
        kind, {{"name", "drawn" + std::to_string(values())}, {"dims", std::span<const std::int64_t>{dims}}});
    add(op, {});
  }

  void add_operator(kind_id kind) {
    const auto& s = algebra_.signature(kind);
    attribute_list attributes;
    for (const auto& a : s.attributes) {
      attributes.push_back(drawn_attribute(a));
    }
    const auto least = static_cast<std::size_t>(s.operands.least);
    const auto count = s.operands.least == s.operands.most ? least : std::max<std::size_t>(least, 1 + in_.below(4));
    std::vector<value_id> operands;
    while (operands.size() < count) {
      operands.push_back(drawn_value());
    }
    const bool is_known = !std::holds_alternative<tensor::opaque>(algebra_.definition_of(kind).body);
    if (const auto op = count > 0 && is_known ? algebra_.make(kind, attributes) : std::nullopt) {
      add(*op, operands);
    }
  }
  void add(const tensor::operation& op, const std::vector<value_id>& operands) {
    std::vector<tensor::tensor_type> types;
    for (const auto v : operands) {
      types.push_back(graph_.type(v));
    }
    const auto results = algebra_.infer(op, types);
    bool is_small = results && values() + results->size() <= most_values;
    for (std::size_t r = 0; is_small && r < results->size(); ++r) {
      is_small = tensor::element_count((*results)[r].dims) <= most_elements;
    }
    if (is_small) {
      graph_.add_node(op, operands, *results);
    }
  }
  attribute drawn_attribute(const attribute_signature& a) {
    if (in_.below(2) == 0) {
      return a.default_value;
    }
    switch (a.form) {
      case attribute_form::integer: return {drawn_integer()};
      case attribute_form::choice: return {static_cast<std::int64_t>(in_.below(a.choices.size()))};
      case attribute_form::real: return tensor::real_attribute(std::array{0.0, 0.5, 1.0, 2.0, -1.0}[in_.below(5)]);
      case attribute_form::word: return a.default_value;
      case attribute_form::integers: break;
    }
    attribute list;
    for (auto n = in_.below(9); n > 0; --n) {
      list.push_back(drawn_integer());
    }
    return list;
  }
  std::int64_t drawn_integer() { return static_cast<std::int64_t>(in_.below(7)) - 1; }

  const tensor::algebra& algebra_;
  byte_source& in_;
  tensor::tensor_graph graph_;
};

}  // namespace unity::test
