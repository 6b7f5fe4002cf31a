// Element-wise operators, alone and in chains, as routines of one launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include <unity/backend/cpu/elementwise.hpp>
#include <unity/backend/cpu/tile_program.hpp>
#include <unity/backend/cuda/chain_code.hpp>
#include <unity/backend/cuda/chain_function.hpp>
#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>

namespace unity::backend::cuda {

template <class Queue>
class chain_routine final : public routine<Queue> {
 public:
  chain_routine(chain_code code, bool in_double) : code_{code}, points_{code.loops.points()}, in_double_{in_double} {
    const auto& loops = code.loops;
    fours_ = loops.count == 1 || loops.sizes[loops.count - 1].size % 4 == 0;
  }

  void run(const call<Queue>& c) const override {
    constexpr int few = 4;
    auto code = code_;
    for (int l = 0; l < code.leaf_count; ++l) {
      auto& leaf = code.leaves[l];
      leaf.from = leaf.origin == cpu::tile_leaf::origin::operand ? c.inputs[leaf.operand] : nullptr;
    }
    for (int s = 0; s < code.store_count; ++s) {
      code.stores[s].to = c.outputs[code.stores[s].output];
    }
    if (in_double_) {
      code.loops.count <= few ? launch<double, 1, few>(c, code) : launch<double, 1, max_loops>(c, code);
    } else if (code.loops.count == 1) {
      launch<float, 4, 1>(c, code);
    } else if (fours_ && code.loops.count <= few) {
      launch<float, 4, few>(c, code);
    } else {
      code.loops.count <= few ? launch<float, 1, few>(c, code) : launch<float, 1, max_loops>(c, code);
    }
  }

 private:
  template <class Real, int Width, int Loops>
  void launch(const call<Queue>& c, const chain_code& code) const {
    const chain_function<Real, Width, Loops> f{code, points_};
    c.queue.each(f.threads(), f);
  }

  chain_code code_;
  std::int64_t points_;
  bool in_double_;
  bool fours_ = false;
};

[[nodiscard]] inline bool any_needs_double(types ts) {
  bool any = false;
  for (const auto& t : ts) {
    any = any || needs_double(t.element);
  }
  return any;
}

// A primitive without a reduction or windows; nothing where the operator is of another form.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> elementwise_routine(const tensor::algebra& a, const tensor::operation& op,
                                                     types inputs, types outputs) {
  const auto s = a.iteration(op, inputs);
  if (!s || s->result_count() != 1 || !s->windows().empty()) {
    return nullptr;
  }
  const auto kernel = std::get<tensor::primitive>(a.definition_of(op.kind).body).kernel(a.read(op), inputs);
  if (kernel.reduce != tensor::reduction::none) {
    return nullptr;
  }
  const auto order = cpu::result_indices(*s, outputs[0].order);
  cpu::tile_program p;
  for (const auto i : order) {
    p.sizes.push_back(s->indices()[i].size);
  }
  bool known = true;
  const auto value = p.add(kernel.outer, [&](const tensor::instruction& i) {
    const auto number = static_cast<std::size_t>(i.number);
    const bool element = i.op == tensor::scalar_op::operand;
    known = known && (element || i.op == tensor::scalar_op::coordinate);
    cpu::tile_leaf l{element ? cpu::tile_leaf::origin::operand : cpu::tile_leaf::origin::coordinate, number,
                     element ? inputs[number].element : tensor::dtype::float32, 0, {}};
    const auto steps = element ? cpu::index_steps(*s, s->operand(number), inputs[number]) : std::nullopt;
    for (const auto index : order) {
      l.steps.push_back(steps ? (*steps)[index] : index == number && !element ? 1 : 0);
    }
    return p.add_leaf(std::move(l));
  });
  p.stores.push_back({value, 0, outputs[0].element});
  const auto code = known ? compile_chain(std::move(p)) : std::nullopt;
  const bool in_double = any_needs_double(inputs) || any_needs_double(outputs);
  return code ? std::make_unique<chain_routine<Queue>>(*code, in_double) : nullptr;
}

// A region of one output; nothing where it is larger than chain code may be.
// Throws: unity::error that names an operator that is not element-wise.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> region_routine(const tensor::algebra& a, const tensor::tensor_graph& region) {
  if (region.outputs().size() != 1) {
    return nullptr;
  }
  const auto output = region.outputs()[0];
  cpu::detail::chain_writer writer{a, region, region.type(output)};
  writer.store(output, 0);
  const bool in_double = writer.in_double();
  const auto code = compile_chain(std::move(writer).take());
  return code ? std::make_unique<chain_routine<Queue>>(*code, in_double) : nullptr;
}

// to = (x - mean) / sqrt(variance + epsilon) * scale + shift, each of one number per channel, dimension 1.
template <class Queue>
[[nodiscard]] routine_ptr<Queue> batch_norm_routine(const tensor::attribute_reader& a, types inputs, types outputs) {
  using tensor::scalar_op;
  const auto& result = outputs[0];
  const auto order = cpu::memory_order(result.rank(), result.order);
  const auto strides = tensor::strides_of(inputs[0].dims, inputs[0].order);
  cpu::tile_program p;
  std::vector<cpu::tile_leaf> leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back({cpu::tile_leaf::origin::operand, i, inputs[i].element, 0, {}});
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
  return code ? std::make_unique<chain_routine<Queue>>(*code, any_needs_double(inputs)) : nullptr;
}

}  // namespace unity::backend::cuda
