// Operators in the form that libraries take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/backend/cuda/routine.hpp>
#include <unity/backend/device_backend.hpp>
#include <unity/backend/run_list.hpp>
#include <unity/core/id.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/operators/parts.hpp>
#include <unity/tensor/operators/pooling.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend::cuda {

// A convolution in the form of libraries: equal padding before and after.

// The operand that an adjoint is taken with respect to.
enum class convolution_operand : std::uint8_t { image, weight };

struct convolution_plan {
  tensor::operators::slide y{};
  tensor::operators::slide x{};
  std::int64_t groups = 1;
  bool biased = false;
  tensor::operators::activation then = tensor::operators::activation::none;

  // Whether a library with one padding for both ends can compute it. The last window may end before the end of the
  // padding.
  [[nodiscard]] bool symmetric() const noexcept { return y.before == y.after && x.before == x.after; }
};

[[nodiscard]] inline convolution_plan plan_convolution(const tensor::attribute_reader& a, types inputs) {
  tensor::space s{inputs};
  const auto dilation = a.integers("dilation");
  const auto& w = inputs[1].dims;
  return {tensor::operators::slide_of(s, a, 0, w[2], dilation[0], false),
          tensor::operators::slide_of(s, a, 1, w[3], dilation[1], false), a.integer("groups"), inputs.size() == 3,
          a.choice<tensor::operators::activation>("activation")};
}

// The plan of the adjoint with respect to an operand of these dims; inputs: (cotangent, weights) or (image, cotangent).
[[nodiscard]] inline convolution_plan plan_convolution_gradient(const tensor::attribute_reader& a,
                                                                convolution_operand of, types inputs,
                                                                const tensor::shape& dims) {
  tensor::space s{inputs};
  const auto dilation = a.integers("dilation");
  const bool to_image = of == convolution_operand::image;
  const auto& image = to_image ? dims : inputs[0].dims;
  const auto& w = to_image ? inputs[1].dims : dims;
  convolution_plan p;
  p.y = tensor::operators::slide_over(s, a, 0, image[2], w[2], dilation[0], false);
  p.x = tensor::operators::slide_over(s, a, 1, image[3], w[3], dilation[1], false);
  p.groups = a.integer("groups");
  return p;
}

// A pooling in the form of libraries: equal padding before and after, averages over elements or over the whole window.

struct pooling_plan {
  enum class kind : std::uint8_t { largest, average_of_elements, average_of_window };

  tensor::operators::slide y{};
  tensor::operators::slide x{};
  kind pooling = kind::largest;

  // Whether a library can compute it that has one padding for both ends, no dilation, and as many windows as fit, and
  // that averages over whole windows only if each of them lies within the padded image.
  [[nodiscard]] bool is_plain() const noexcept { return is_plain(y) && is_plain(x); }

 private:
  [[nodiscard]] bool is_plain(const tensor::operators::slide& s) const noexcept {
    const auto windows = (s.in + 2 * s.before - s.kernel) / s.stride + 1;
    const bool whole = (s.out - 1) * s.stride - s.before + s.kernel <= s.in + s.after;
    return s.dilation == 1 && s.before < s.kernel && s.in + 2 * s.before >= s.kernel && windows == s.out &&
           (pooling != kind::average_of_window || whole);
  }
};

// The plan of max_pool, or of average_pool if `averages`.
[[nodiscard]] inline pooling_plan plan_pooling(const tensor::attribute_reader& a, types inputs, bool averages) {
  using kind = pooling_plan::kind;
  tensor::space s{inputs};
  const auto slide = [&](std::size_t d) {
    return tensor::operators::pool_slide(s, a, d, averages ? 1 : a.integers("dilation")[d]);
  };
  pooling_plan p;
  p.y = slide(0);
  p.x = slide(1);
  p.pooling = !averages                     ? kind::largest
              : a.flag("count_include_pad") ? kind::average_of_window
                                            : kind::average_of_elements;
  return p;
}

// Matrix products in the form of BLAS: column-major, batches with constant strides, an epilogue.

// One matrix of a product in memory: element (r, c) is at r + c * leading.
struct product_matrix {
  std::size_t operand = 0;  // number of the operator's operand; 0 for the result
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t leading = 1;
  bool transposed = false;  // whether its transpose is multiplied
  std::int64_t batch_step = 0;
};

// result[rows, columns] = left[rows, inner] right[inner, columns], `batch` times, repeated at every offset. Units:
// elements.
struct product_plan {
  tensor::dtype element = tensor::dtype::float32;
  std::int64_t inner = 1;
  std::int64_t batch = 1;
  product_matrix left{};
  product_matrix right{};
  product_matrix result{};
  std::vector<std::array<std::int64_t, 3>> offsets{};  // of left, right, result
  bool biased = false;      // whether there is a third operand, one number per column of the operator's result
  bool bias_by_row = true;  // whether its elements correspond to rows of the plan's result
  tensor::operators::activation then = tensor::operators::activation::none;
};

namespace detail {

struct batch_loop {
  std::int64_t size;
  std::array<std::int64_t, 3> steps;  // of a, b, the result
};

// The dimensions before the last two of the result, merged if they are contiguous in every tensor.
[[nodiscard]] inline std::vector<batch_loop> batch_loops(const tensor::tensor_type& a, const tensor::tensor_type& b,
                                                         const tensor::tensor_type& c, bool linear) {
  const std::array all{&a, &b, &c};
  std::vector<batch_loop> loops;
  for (std::size_t d = 0; d + 2 < c.rank(); ++d) {
    batch_loop l{c.dims[d], {}};
    for (std::size_t t = 0; t < all.size(); ++t) {
      const auto skipped = c.rank() - all[t]->rank();
      const bool fixed = (t == 1 && linear) || d < skipped || all[t]->dims[d - skipped] == 1;
      l.steps[t] = fixed ? 0 : tensor::strides_of(all[t]->dims, all[t]->order)[d - skipped];
    }
    const auto joins = [&](const batch_loop& outer) {
      bool one = true;
      for (std::size_t t = 0; t < all.size(); ++t) {
        one = one && outer.steps[t] == l.steps[t] * l.size;
      }
      return one;
    };
    if (l.size == 1) {
      continue;
    }
    if (!loops.empty() && joins(loops.back())) {
      loops.back() = {loops.back().size * l.size, l.steps};
    } else {
      loops.push_back(l);
    }
  }
  return loops;
}

}  // namespace detail

// The plan of matmul or linear on operands of one element type in any layout.
[[nodiscard]] inline product_plan plan_product(types inputs, const tensor::tensor_type& c, bool linear,
                                               tensor::operators::activation then) {
  const auto& a = inputs[0];
  const auto& b = inputs[1];
  auto m = c.rank() == 1 ? 1 : c.dims[c.rank() - 2];
  const auto n = c.dims[c.rank() - 1];
  const auto k = a.dims[a.rank() - 1];
  auto loops = detail::batch_loops(a, b, c, linear);
  const bool a_rows = is_row_major(a);
  const bool c_rows = is_row_major(c);
  // Batches become rows of one larger product if all of them use the same right operand.
  while (!loops.empty() && a_rows && c_rows && loops.back().steps == std::array<std::int64_t, 3>{m * k, 0, m * n}) {
    m *= loops.back().size;
    loops.pop_back();
  }
  product_plan p;
  p.element = c.element;
  p.inner = k;
  p.biased = inputs.size() == 3;
  p.bias_by_row = c_rows;
  p.then = then;
  // A row-major matrix, read as column-major, is its transpose; so a row-major result is the product of transposes.
  const auto matrix = [](std::size_t operand, std::int64_t rows, std::int64_t columns, bool by_rows,
                         bool wanted_turned) {
    return by_rows ? product_matrix{operand, columns, rows, columns, !wanted_turned, 0}
                   : product_matrix{operand, rows, columns, rows, wanted_turned, 0};
  };
  const auto first = matrix(0, m, k, a_rows, c_rows);
  const auto second = matrix(1, k, n, is_row_major(b), c_rows);
  p.left = c_rows ? second : first;
  p.right = c_rows ? first : second;
  p.result = c_rows ? product_matrix{0, n, m, n, false, 0} : product_matrix{0, m, n, m, false, 0};
  const std::array<std::size_t, 3> order{p.left.operand, p.right.operand, 2};
  if (!loops.empty()) {
    p.batch = loops.back().size;
    p.left.batch_step = loops.back().steps[order[0]];
    p.right.batch_step = loops.back().steps[order[1]];
    p.result.batch_step = loops.back().steps[2];
    loops.pop_back();
  }
  p.offsets.push_back({});
  for (const auto& l : loops) {
    std::vector<std::array<std::int64_t, 3>> all;
    for (const auto& base : p.offsets) {
      for (std::int64_t i = 0; i < l.size; ++i) {
        all.push_back({base[0] + i * l.steps[order[0]], base[1] + i * l.steps[order[1]], base[2] + i * l.steps[2]});
      }
    }
    p.offsets = std::move(all);
  }
  return p;
}

// The largest power of two, up to memory_alignment, that divides the offsets of all matrices of an operand. which: of
// left, right, result. Unit: bytes.
[[nodiscard]] inline std::size_t alignment_of(const product_plan& p, std::size_t which) {
  auto aligned = memory_alignment;
  for (const auto& o : p.offsets) {
    while (static_cast<std::size_t>(o[which] * tensor::size_of(p.element)) % aligned != 0) {
      aligned /= 2;
    }
  }
  return aligned;
}

// For messages: "float32, left 3 x 4 by 3, ...", where the number after "by" is the leading dimension.
[[nodiscard]] inline std::string to_string(const product_plan& p) {
  const auto matrix = [&](const char* name, const product_matrix& m) {
    return fmt::format(", {} {} x {} by {}{}{}", name, m.rows, m.columns, m.leading, m.transposed ? " transposed" : "",
                       p.batch > 1 ? fmt::format(" step {}", m.batch_step) : "");
  };
  return fmt::format("{}{}{}{}, {} at once, {} times", tensor::name_of(p.element), matrix("left", p.left),
                     matrix("right", p.right), matrix("result", p.result), p.batch, p.offsets.size());
}

// Convolutions with unequal padding before and after, as graphs with convolutions without padding.

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
    const auto results = *algebra_.infer(op, backend::types_of(graph_, from));
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
