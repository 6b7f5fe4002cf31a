// Chains of element-wise operators as tile programs.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include <fmt/core.h>

#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/detail/derive_adjoint.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend {

// Writes the values of a region's nodes, at the points of one shape in one layout, as a tile program.
// Throws: unity::error that names an operator that is not element-wise.
class chain_writer {
 public:
  chain_writer(const tensor::algebra& a, const tensor::tensor_graph& region, const tensor::tensor_type& result);

  void store(value_id v, std::size_t output) { program_.stores.push_back({value(v), output, region_.type(v).element}); }
  [[nodiscard]] tile_program take() && { return std::move(program_); }
  [[nodiscard]] bool in_double() const noexcept { return in_double_; }

 private:
  std::size_t value(value_id v);

  // As NumPy broadcasts it.
  std::size_t leaf(std::size_t operand, const tensor::tensor_type& type);

  std::size_t computed(value_id v);

  [[nodiscard]] error not_elementwise(const tensor::operation& op) const {
    return {"chain of operators", fmt::format("operator {}", algebra_.signature(op.kind).name),
            "element-wise operators"};
  }

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& region_;
  const tensor::tensor_type& result_;
  small_vector<std::size_t, 6> order_;
  std::map<std::size_t, std::size_t> operand_of_;
  std::map<std::size_t, std::size_t> values_;
  tile_program program_;
  bool in_double_ = false;
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_CHAIN_WRITER)

#include <optional>
#include <variant>
#include <vector>

#include <unity/backend/elementwise/index_steps.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

UNITY_INLINE chain_writer::chain_writer(const tensor::algebra& a, const tensor::tensor_graph& region,
                                        const tensor::tensor_type& result)
    : algebra_{a}, region_{region}, result_{result}, order_{memory_order(result.rank(), result.order)} {
  for (const auto d : order_) {
    program_.sizes.push_back(result.dims[d]);
  }
  for (const auto n : node_ids(region)) {
    if (region.operands(n).empty() && !region.results(n).empty()) {
      operand_of_.emplace(region.results(n)[0].index(), operand_of_.size());
    }
  }
}

UNITY_INLINE std::size_t chain_writer::value(value_id v) {
  if (const auto known = values_.find(v.index()); known != values_.end()) {
    return known->second;
  }
  in_double_ = in_double_ || tensor::exceeds_float32(region_.type(v).element);
  const auto operand = operand_of_.find(v.index());
  const auto at = operand != operand_of_.end() ? leaf(operand->second, region_.type(v)) : computed(v);
  values_.emplace(v.index(), at);
  return at;
}

UNITY_INLINE std::size_t chain_writer::leaf(std::size_t operand, const tensor::tensor_type& type) {
  tile_leaf l{tile_leaf::origin::operand, operand, type.element, 0, {}};
  const auto strides = tensor::strides_of(type.dims, type.order);
  const auto skipped = result_.rank() - type.rank();
  for (const auto d : order_) {
    l.steps.push_back(d < skipped || type.dims[d - skipped] == 1 ? 0 : strides[d - skipped]);
  }
  return program_.add_leaf(std::move(l));
}

UNITY_INLINE std::size_t chain_writer::computed(value_id v) {
  const auto n = region_.producer(v);
  const auto& op = region_.operation(n);
  std::vector<tensor::tensor_type> inputs;
  std::vector<std::size_t> operands;
  bool broadcasts = true;
  for (const auto x : region_.operands(n)) {
    inputs.push_back(region_.type(x));
    const auto joint = tensor::broadcast(inputs.back().dims, region_.type(v).dims);
    broadcasts = broadcasts && joint && *joint == region_.type(v).dims;
  }
  const auto s = algebra_.iteration(op, inputs);
  if (!s || !broadcasts) {
    throw not_elementwise(op);
  }
  const auto kernel =
      std::get<tensor::primitive>(algebra_.definition_of(op.kind).body).kernel(algebra_.read(op), inputs);
  for (const auto x : region_.operands(n)) {
    operands.push_back(value(x));
  }
  if (kernel.reduce != tensor::reduction::none) {
    throw not_elementwise(op);
  }
  return program_.add(kernel.outer, [&](const tensor::instruction& i) {
    if (i.op != tensor::scalar_op::operand) {
      throw not_elementwise(op);
    }
    return operands[static_cast<std::size_t>(i.number)];
  });
}

}  // namespace unity::backend

#endif
