// Element-wise operators as routines of one launch: single, in chains, and after a product or convolution by a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/cuda/chain_code.hpp>
#include <unity/backend/cuda/chain_function.hpp>
#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/elementwise/tile_program.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/element.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// The last alternative of each number type accepts every chain; earlier ones are faster for the chains they accept.
using chain_functions = std::variant<
    chain_function<float, 4, 2, 1, small_chain_room>, chain_function<float, 4, 2, 3, small_chain_room>,
    chain_function<float, 4, 2, 1, full_chain_room>, chain_function<float, 4, 2, 4, full_chain_room>,
    chain_function<float, 1, 4, 4, full_chain_room>, chain_function<float, 1, 1, max_loops, full_chain_room>,
    chain_function<double, 1, 2, 4, full_chain_room>, chain_function<double, 1, 1, max_loops, full_chain_room>>;
static_assert(sizeof(chain_functions) <= 4096 - 16, "larger than what a launch passes by value");

// Alternative I, or the first one after it that accepts the code.
template <std::size_t I>
[[nodiscard]] chain_functions choose_chain_function(const chain_code& code) {
  using function = std::variant_alternative_t<I, chain_functions>;
  if constexpr (I + 1 < std::variant_size_v<chain_functions>) {
    if (!function::takes(code)) {
      return choose_chain_function<I + 1>(code);
    }
  }
  return function{code};
}
[[nodiscard]] inline chain_functions function_of(const chain_code& code, bool in_double) {
  constexpr std::size_t of_double = 6;
  return in_double ? choose_chain_function<of_double>(code) : choose_chain_function<0>(code);
}

template <class Queue>
class chain_routine final : public routine<Queue> {
 public:
  chain_routine(const chain_code& code, bool in_double) : function_{function_of(code, in_double)} {}

  void run(const call<Queue>& c) const override {
    std::visit(
        [&](auto f) {
          for (int l = 0; l < f.leaf_count; ++l) {
            const bool reads = f.leaves[l].read != chain_read::literal && f.leaves[l].read != chain_read::coordinate;
            f.leaves[l].from = reads ? c.inputs[f.leaves[l].operand] : nullptr;
          }
          for (int s = 0; s < f.store_count; ++s) {
            f.stores[s].to = c.outputs[f.stores[s].output];
          }
          c.queue.each(f.threads(), f);
        },
        function_);
  }

 private:
  chain_functions function_;
};

// A primitive without a reduction or windows; nothing if the operator has another form.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                     types inputs, types outputs) {
  auto p = elementwise_program(a, op, inputs, outputs);
  const auto code = p ? compile_chain(*std::move(p)) : std::nullopt;
  const bool in_double = tensor::exceeds_float32(inputs) || tensor::exceeds_float32(outputs);
  return code ? std::make_unique<chain_routine<Queue>>(*code, in_double) : nullptr;
}

// A region of one output; nothing if it exceeds the limits of chain code.
// Throws: unity::error that names an operator that is not element-wise.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> region_routine(const tensor::algebra& a, const tensor::tensor_graph& region) {
  if (region.outputs().size() != 1) {
    return nullptr;
  }
  const auto output = region.outputs()[0];
  chain_writer writer{a, region, region.type(output)};
  writer.store(output, 0);
  const bool in_double = writer.in_double();
  const auto code = compile_chain(std::move(writer).take());
  return code ? std::make_unique<chain_routine<Queue>>(*code, in_double) : nullptr;
}

// to = (x - mean) / sqrt(variance + epsilon) * scale + shift; mean, variance, scale and shift have one number per
// channel (dimension 1).
template <class Queue>
[[nodiscard]] routine_ptr<Queue> batch_norm_routine(const tensor::attribute_reader& a, types inputs, types outputs) {
  using tensor::scalar_op;
  const auto& result = outputs[0];
  const auto order = memory_order(result.rank(), result.order);
  const auto strides = tensor::strides_of(inputs[0].dims, inputs[0].order);
  tile_program p;
  std::vector<tile_leaf> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back({tile_leaf::origin::operand, i, inputs[i].element, 0, {}});
  }
  for (const auto d : order) {
    p.sizes.push_back(result.dims[d]);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      leaves[i].steps.push_back(i == 0 ? strides[d] : d == 1 ? 1 : 0);
    }
  }
  std::vector<std::size_t> x;
  for (auto& l : leaves) {
    x.push_back(p.add_leaf(std::move(l)));
  }
  const auto apply = [&](scalar_op op, std::size_t left, std::size_t right) {
    p.code.push_back({op, 0, left, right});
    return p.code.size() - 1;
  };
  const auto deviation = apply(scalar_op::sqrt, apply(scalar_op::add, x[4], p.add_literal(a.real("epsilon"))), 0);
  const auto centred = apply(scalar_op::sub, x[0], x[3]);
  const auto scaled = apply(scalar_op::mul, apply(scalar_op::div, centred, deviation), x[1]);
  p.stores.push_back({apply(scalar_op::add, scaled, x[2]), 0, result.element});
  const auto code = compile_chain(std::move(p));
  return code ? std::make_unique<chain_routine<Queue>>(*code, tensor::exceeds_float32(inputs)) : nullptr;
}

[[nodiscard]] constexpr tensor::scalar_op scalar_of(tensor::operators::activation a) noexcept {
  using tensor::scalar_op;
  using tensor::operators::activation;
  switch (a) {
    case activation::relu: return scalar_op::relu;
    case activation::sigmoid: return scalar_op::sigmoid;
    case activation::tanh: return scalar_op::tanh;
    case activation::gelu: return scalar_op::gelu;
    case activation::none: break;
  }
  return scalar_op::operand;
}

// A routine whose operands are the result and, if `biased`, a bias with one number per position of dimension `along`.
// It writes the result in place: each thread reads its elements before it writes them. Null if there is nothing to do.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> ending_routine(const tensor::tensor_type& result, bool biased, std::size_t along,
                                                tensor::operators::activation then) {
  using origin = tile_leaf::origin;
  if (!biased && then == tensor::operators::activation::none) {
    return nullptr;
  }
  tile_program p;
  tile_leaf own{origin::operand, 0, result.element, 0, {}};
  tile_leaf bias{origin::operand, 1, result.element, 0, {}};
  const auto strides = tensor::strides_of(result.dims, result.order);
  for (const auto d : memory_order(result.rank(), result.order)) {
    p.sizes.push_back(result.dims[d]);
    own.steps.push_back(strides[d]);
    bias.steps.push_back(d == along ? 1 : 0);
  }
  auto value = p.add_leaf(std::move(own));
  if (biased) {
    const auto b = p.add_leaf(std::move(bias));
    p.code.push_back({tensor::scalar_op::add, 0, value, b});
    value = p.code.size() - 1;
  }
  if (then != tensor::operators::activation::none) {
    p.code.push_back({scalar_of(then), 0, value, value});
    value = p.code.size() - 1;
  }
  p.stores.push_back({value, 0, result.element});
  return std::make_unique<chain_routine<Queue>>(*compile_chain(std::move(p)), false);
}

// Runs an ending on a result; bias: the third operand of the call, if any.
template <class Queue>
void run_ending(const routine<Queue>* ending, const call<Queue>& c) {
  if (ending != nullptr) {
    const std::byte* const in[] = {c.outputs[0], c.inputs.size() > 2 ? c.inputs[2] : nullptr};
    ending->run({in, c.outputs, nullptr, c.queue});
  }
}

}  // namespace unity::backend::cuda
