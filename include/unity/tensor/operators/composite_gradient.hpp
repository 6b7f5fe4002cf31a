// The adjoint of a composite as a separate operator, derived from the body of the composite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <unity/tensor/definition.hpp>

namespace unity::tensor::operators {

// An adjoint rule that adds the operator below, for a composite with these attributes.
[[nodiscard]] adjoint_rule composite_adjoint(std::string gradient, std::vector<std::string> attributes);

// `forward`: a composite with a shape function and `results` results. The attributes are those of `forward`, and `of`:
// the ascending numbers of the operands whose cotangents are computed. If `forward` is variadic, all operands except
// the cotangents belong to it.
// Shapes: the operands of `forward`, a cotangent per result -> one cotangent per operand in `of`.
[[nodiscard]] definition composite_gradient(const definition& forward, int results);

}  // namespace unity::tensor::operators

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_OPERATORS_COMPOSITE_GRADIENT)

#include <span>
#include <variant>

#include <fmt/core.h>

namespace unity::tensor::operators {

UNITY_INLINE adjoint_rule composite_adjoint(std::string gradient, std::vector<std::string> attributes) {
  return [gradient = std::move(gradient), attributes = std::move(attributes)](
             body_builder& b, const attribute_reader& a, const adjoint_problem& p) {
    std::vector<value_id> operands;
    attribute of;
    for (std::size_t i = 0; i < p.inputs.size(); ++i) {
      operands.push_back(p.operand(i));
      if (p.wanted[i]) {
        of.push_back(static_cast<std::int64_t>(i));
      }
    }
    for (std::size_t r = 0; r < p.outputs.size(); ++r) {
      operands.push_back(or_zeros(b, p.cotangents[r], p.outputs[r]));
    }
    std::vector<named_attribute> all{named_attribute{"of", of}};
    for (const auto& name : attributes) {
      all.push_back(a.named(name));
    }
    const auto results = b.add_all(gradient, operands, all);
    std::vector<value_id> cotangents(p.inputs.size());
    for (std::size_t i = 0; i < of.size(); ++i) {
      cotangents[static_cast<std::size_t>(of[i])] = results[i];
    }
    return cotangents;
  };
}

UNITY_INLINE definition composite_gradient(const definition& forward, int results) {
  const auto outputs = static_cast<std::size_t>(results);
  const auto types = [outputs, judge = std::get<composite>(forward.body).types](judgement& j,
                                                                                const attribute_reader& a) {
    if (!j.require(j.inputs().size() > outputs, "operands and a cotangent per result")) {
      return;
    }
    const auto count = j.inputs().size() - outputs;
    judgement inner{j.inputs().first(count)};
    judge(inner, a);
    if (inner.allows_mixed_elements()) {
      j.allow_mixed_elements();
    }
    if (!j.require(!inner.failed(), "operands of the operator whose adjoint it is")) {
      return;
    }
    for (std::size_t r = 0; r < outputs; ++r) {
      j.require(j.dims(count + r) == inner.results()[r].dims, "a cotangent of the shape of its result",
                static_cast<int>(count + r));
    }
    std::int64_t least = 0;
    for (const auto i : a.integers("of")) {
      if (!j.require(i >= least && i < static_cast<std::int64_t>(count), "ascending numbers of operands")) {
        return;
      }
      least = i + 1;
      j.result(j.dims(static_cast<std::size_t>(i)));
    }
    j.require(least > 0, "at least one operand");
  };
  const auto body = [outputs, name = forward.signature.name, fields = forward.signature.attributes](
                        body_builder& b, const attribute_reader& a, std::span<const value_id> x) {
    const auto count = x.size() - outputs;
    std::vector<named_attribute> attributes;
    for (const auto& f : fields) {
      attributes.push_back(a.named(f.name));
    }
    std::vector<tensor_type> all;
    for (const auto v : x) {
      all.push_back(b.type(v));
    }
    const std::span<const tensor_type> known{all};
    adjoint_problem p{known.first(count), known.subspan(count, outputs), {}, {}, {}, std::vector<bool>(count)};
    p.operand = [x](std::size_t i) { return x[i]; };
    p.result = [&](std::size_t r) { return b.add_all(name, x.first(count), attributes)[r]; };
    p.cotangents.assign(x.begin() + static_cast<std::ptrdiff_t>(count), x.end());
    for (const auto i : a.integers("of")) {
      p.wanted[static_cast<std::size_t>(i)] = true;
    }
    const auto cotangents = b.add_body_adjoint(name, attributes, p);
    std::vector<value_id> wanted;
    for (const auto i : a.integers("of")) {
      const auto operand = static_cast<std::size_t>(i);
      wanted.push_back(or_zeros(b, cotangents[operand], all[operand]));
    }
    return wanted;
  };
  auto fields = forward.fields;
  fields.push_back(integers_field("of"));
  const auto operands = forward.signature.operands;
  return define(fmt::format("{}_gradient", forward.signature.name),
                operands == op_signature::any ? operands : operands + results, op_signature::any, std::move(fields),
                composite{body, types})
      .divided_by(forward.resize_part);
}

}  // namespace unity::tensor::operators

#endif
