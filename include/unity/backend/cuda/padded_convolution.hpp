// Convolutions with unequal padding before and after, as graphs with convolutions without padding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cuda/convolution_plan.hpp>
#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/detail/run_list.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::backend::cuda {

// The first nodes are the operands.
class padded_convolution {
 public:
  // op: a convolution. Pads the image first.
  padded_convolution(const tensor::algebra& a, const tensor::operation& op, const convolution_plan& plan, types inputs)
      : padded_convolution{a, inputs} {
    pad(0, plan);
    const auto given = a.read(op);
    finish(add(a.make_operation("conv2d", {{"stride", given.integers("stride")},
                                           {"dilation", given.integers("dilation")},
                                           {"groups", plan.groups},
                                           {"activation", given.integer("activation")}}),
               operands_));
  }
  // op: the adjoint with respect to an operand of these dims.
  padded_convolution(const tensor::algebra& a, const tensor::operation& op, const convolution_plan& plan, types inputs,
                     convolution_operand of, tensor::shape dims)
      : padded_convolution{a, inputs} {
    const bool to_image = of == convolution_operand::image;
    if (to_image) {
      dims[2] += plan.y.before + plan.y.after;
      dims[3] += plan.x.before + plan.x.after;
    } else {
      pad(0, plan);
    }
    const auto given = a.read(op);
    const auto result = add(a.make_operation(a.signature(op.kind).name, {{"stride", given.integers("stride")},
                                                                         {"dilation", given.integers("dilation")},
                                                                         {"groups", plan.groups},
                                                                         {"dims", dims}}),
                            operands_);
    finish(to_image ? add(a.make_operation("slice", {{"axes", {2, 3}},
                                                     {"starts", {plan.y.before, plan.x.before}},
                                                     {"ends", {plan.y.before + plan.y.in, plan.x.before + plan.x.in}},
                                                     {"steps", {1, 1}}}),
                          {&result, 1})
                    : result);
  }

  [[nodiscard]] const tensor::tensor_graph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::span<const node_id> operands() const noexcept { return sources_; }

 private:
  padded_convolution(const tensor::algebra& a, types inputs) : algebra_{a} {
    for (auto t : inputs) {
      t.constant = false;
      const auto input = a.make_operation(
          "input",
          {{"name", fmt::format("{}", sources_.size())}, {"element", tensor::name_of(t.element)}, {"dims", t.dims}});
      sources_.push_back(graph_.add_node(input, {}, {&t, 1}));
      operands_.push_back(graph_.results(sources_.back())[0]);
    }
  }

  value_id add(tensor::operation op, std::span<const value_id> from) {
    const auto results = *algebra_.infer(op, backend::detail::types_of(graph_, from));
    return graph_.results(graph_.add_node(std::move(op), from, results))[0];
  }
  void pad(std::size_t operand, const convolution_plan& p) {
    const auto image = operands_[operand];
    operands_[operand] =
        add(algebra_.make_operation("pad", {{"pads", {0, 0, p.y.before, p.x.before, 0, 0, p.y.after, p.x.after}}}),
            {&image, 1});
  }
  void finish(value_id result) { graph_.set_outputs({&result, 1}); }

  const tensor::algebra& algebra_;
  tensor::tensor_graph graph_;
  std::vector<node_id> sources_;
  std::vector<value_id> operands_;
};

}  // namespace unity::backend::cuda
