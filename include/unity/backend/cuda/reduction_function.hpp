// Any primitive operator at one result: the reduction over its points, then the outer program. In double.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/elements.hpp>
#include <unity/backend/cuda/host_device.hpp>
#include <unity/backend/cuda/loops.hpp>
#include <unity/backend/cuda/scalar.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::backend::cuda {

// A scalar program, postfix.
struct flat_program {
  static constexpr int max_size = 16;
  int size = 0;
  tensor::instruction code[max_size];
};

// What an affine form adds along the loops over results, and along those that are reduced.
struct form {
  loop_moves kept{};
  loop_moves reduced{};
  std::int64_t base = 0;
};

struct reduction_operand {
  const std::byte* from = nullptr;
  form offset{};
  tensor::dtype element = tensor::dtype::float32;
};

// A position that may lie in padding.
struct reduction_window {
  form position{};
  std::int64_t extent = 0;
  std::int64_t count_from = 0;
  std::int64_t count_to = 0;
};

struct reduction_function {
  static constexpr int max_operands = 3;
  static constexpr int max_windows = 2;

  loop_nest kept{};     // in the order in which results lie
  loop_nest reduced{};
  std::int64_t points = 1;
  tensor::reduction how = tensor::reduction::none;
  bool counts = false;  // does the outer program ask for the number of points
  int operand_count = 0;
  int window_count = 0;
  reduction_operand operands[max_operands];
  reduction_window windows[max_windows];
  flat_program inner{};
  flat_program outer{};
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  // By all threads of a group. The points of a result are dealt out to them in turn.
  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t result) const {
    std::int64_t at[max_operands + max_windows];
    start(result, at);
    const bool sums = how == tensor::reduction::sum;
    double total = sums ? 0.0 : -infinity;
    std::int64_t counted = 0;
    if (how != tensor::reduction::none) {
      for (std::int64_t p = group.rank(); p < points; p += group.size()) {
        std::int64_t here[max_operands + max_windows];
        move(p, at, here);
        bool inside = true;
        bool counts_here = true;
        for (int w = 0; w < window_count; ++w) {
          const auto x = here[max_operands + w];
          inside = inside && x >= 0 && x < windows[w].extent;
          counts_here = counts_here && x >= windows[w].count_from && x < windows[w].count_to;
        }
        counted += counts_here ? 1 : 0;
        if (inside) {
          const auto x = term(here);
          total = sums ? total + x : total < x ? x : total;
        }
      }
      total = sums ? group.sum(total) : group.largest(total);
      counted = counts ? static_cast<std::int64_t>(group.sum(static_cast<double>(counted))) : 0;
    }
    if (group.rank() == 0) {
      store_element<double>(element, to, result, run(outer, at, total, counted));
    }
  }

 private:
  UNITY_HOST_DEVICE void start(std::int64_t result, std::int64_t* at) const {
    for (int o = 0; o < operand_count; ++o) {
      at[o] = operands[o].offset.base;
    }
    for (int w = 0; w < window_count; ++w) {
      at[max_operands + w] = windows[w].position.base;
    }
    for (int l = kept.count - 1; l >= 0; --l) {
      const auto i = kept.sizes[l].split(result);
      for (int o = 0; o < operand_count; ++o) {
        at[o] += i * operands[o].offset.kept.steps[l];
      }
      for (int w = 0; w < window_count; ++w) {
        at[max_operands + w] += i * windows[w].position.kept.steps[l];
      }
    }
  }
  UNITY_HOST_DEVICE void move(std::int64_t point, const std::int64_t* at, std::int64_t* here) const {
    for (int o = 0; o < operand_count; ++o) {
      here[o] = at[o];
    }
    for (int w = 0; w < window_count; ++w) {
      here[max_operands + w] = at[max_operands + w];
    }
    for (int l = reduced.count - 1; l >= 0; --l) {
      const auto i = reduced.sizes[l].split(point);
      for (int o = 0; o < operand_count; ++o) {
        here[o] += i * operands[o].offset.reduced.steps[l];
      }
      for (int w = 0; w < window_count; ++w) {
        here[max_operands + w] += i * windows[w].position.reduced.steps[l];
      }
    }
  }

  [[nodiscard]] UNITY_HOST_DEVICE double load(int operand, const std::int64_t* at) const {
    return load_element<double>(operands[operand].element, operands[operand].from, at[operand]);
  }
  // One element, or a product of two, is what most reductions are over.
  [[nodiscard]] UNITY_HOST_DEVICE double term(const std::int64_t* here) const {
    if (inner.size == 1 && inner.code[0].op == tensor::scalar_op::operand) {
      return load(inner.code[0].number, here);
    }
    if (inner.size == 3 && inner.code[0].op == tensor::scalar_op::operand &&
        inner.code[1].op == tensor::scalar_op::operand && inner.code[2].op == tensor::scalar_op::mul) {
      return load(inner.code[0].number, here) * load(inner.code[1].number, here);
    }
    return run(inner, here, 0, 0);
  }
  [[nodiscard]] UNITY_HOST_DEVICE double run(const flat_program& p, const std::int64_t* at, double total,
                                             std::int64_t counted) const {
    double stack[flat_program::max_size] = {};
    int depth = 0;
    for (int n = 0; n < p.size; ++n) {
      const auto& i = p.code[n];
      if (i.op == tensor::scalar_op::operand) {
        stack[depth++] = load(i.number, at);
      } else if (i.op == tensor::scalar_op::accumulated) {
        stack[depth++] = total;
      } else if (i.op == tensor::scalar_op::count) {
        stack[depth++] = static_cast<double>(counted);
      } else if (i.op == tensor::scalar_op::literal) {
        stack[depth++] = i.value;
      } else if (i.op >= tensor::scalar_op::add) {
        --depth;
        stack[depth - 1] = cuda::apply<double>(i.op, stack[depth - 1], stack[depth]);
      } else {
        stack[depth - 1] = cuda::apply<double>(i.op, stack[depth - 1], 0.0);
      }
    }
    return stack[0];
  }
};
static_assert(sizeof(reduction_function) <= 4096 - 16);

}  // namespace unity::backend::cuda
