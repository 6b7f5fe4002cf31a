// One element-wise operator as a tile program.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/derive_adjoint.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// A primitive of one result without a reduction or windows; nothing where the operator is of another form.
[[nodiscard]] std::optional<tile_program> elementwise_program(const tensor::algebra& a, const tensor::operation& op,
                                                              std::span<const tensor::tensor_type> inputs,
                                                              std::span<const tensor::tensor_type> outputs);

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_ELEMENTWISE_PROGRAM)

#include <variant>

#include <unity/backend/elementwise/index_steps.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

UNITY_INLINE std::optional<tile_program> elementwise_program(const tensor::algebra& a, const tensor::operation& op,
                                                             std::span<const tensor::tensor_type> inputs,
                                                             std::span<const tensor::tensor_type> outputs) {
  const auto s = a.iteration(op, inputs);
  const auto& d = a.definition_of(op.kind);
  if (!s || s->result_count() != 1 || d.source != tensor::source_kind::none) {
    return std::nullopt;
  }
  const auto kernel = std::get<tensor::primitive>(d.body).kernel(a.read(op), inputs);
  if (kernel.reduce != tensor::reduction::none) {
    return std::nullopt;
  }
  const auto order = result_indices(*s, outputs[0].order);
  tile_program p;
  for (const auto i : order) {
    p.sizes.push_back(s->indices()[i].size);
  }
  bool is_flat = true;
  const auto value = p.add(kernel.outer, [&](const tensor::instruction& i) {
    const auto number = static_cast<std::size_t>(i.number);
    const bool is_element = i.op == tensor::scalar_op::operand;
    is_flat = is_flat && (is_element || i.op == tensor::scalar_op::coordinate);
    tile_leaf l{is_element ? tile_leaf::origin::operand : tile_leaf::origin::coordinate,
                number,
                is_element ? inputs[number].element : tensor::dtype::float32,
                0,
                {}};
    const auto steps = is_element ? index_steps(*s, s->operand(number), inputs[number]) : std::nullopt;
    is_flat = is_flat && (!is_element || steps.has_value());
    for (const auto index : order) {
      l.steps.push_back(steps ? (*steps)[index] : index == number && !is_element ? 1 : 0);
    }
    return p.add_leaf(std::move(l));
  });
  p.stores.push_back({value, 0, outputs[0].element});
  return is_flat ? std::optional{std::move(p)} : std::nullopt;
}

}  // namespace unity::backend

#endif
