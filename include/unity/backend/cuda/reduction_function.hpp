// Computes one result of any primitive operator: the reduction over its points, then the outer program. In double.
#pragma once

#include <cstddef>
#include <cstdint>

#include <unity/backend/cuda/elements.hpp>
#include <unity/tensor/kernel.hpp>

namespace unity::backend::cuda {

// A scalar program in postfix order.
struct flat_program {
  static constexpr int max_size = 16;
  int size = 0;
  tensor::instruction code[max_size];
};

// The coefficients of an affine form: for the loops over results, and for the reduced loops.
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

// The index of operands whose windows contain a position of the result: (position - tap) / stride. If the remainder is
// not zero, no window contains the position.
struct reduction_quotient {
  form dividend{};
  loop_size stride{};
  std::int64_t extent = 0;     // of the index
  std::int64_t steps[3] = {};  // strides of the operands
};

// The partial result of a part of the points.
struct reduction_part {
  double total = 0;
  double counted = 0;
};

struct reduction_function {
  static constexpr int max_operands = 3;
  static constexpr int max_windows = 2;

  loop_nest kept{};  // in the memory order of results
  loop_nest reduced{};
  std::int64_t points = 1;
  std::int64_t parts = 1;        // number of parts of each result
  std::int64_t part_points = 1;  // of every part but the last: `points` if there is one part, otherwise a multiple of 4
  tensor::reduction reduction = tensor::reduction::none;
  bool counts = false;  // whether the outer program uses the number of points
  bool quads = false;   // whether it reduces the elements of one operand in aligned groups of four
  int operand_count = 0;
  int window_count = 0;
  int quotient_count = 0;
  reduction_operand operands[max_operands];
  reduction_window windows[max_windows];
  reduction_quotient quotients[max_windows];
  flat_program inner{};
  flat_program outer{};
  std::byte* to = nullptr;
  tensor::dtype element = tensor::dtype::float32;

  // If there are several parts: one entry per part of every result.
  reduction_part* partial = nullptr;

  // Called by all threads of a group for one part of a result. Points are distributed round-robin.
  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t number) const {
    const auto result = parts == 1 ? number : number / parts;
    const auto first = parts == 1 ? 0 : (number - result * parts) * part_points;
    const auto last = first + part_points < points ? first + part_points : points;
    std::int64_t at[places];
    start(result, at);
    reduction_part found{reduction == tensor::reduction::sum ? 0.0 : -infinity, 0};
    if (reduction != tensor::reduction::none || counts) {
      if (quads) {
        found.total = reduce_quads(group, at, first, last);
        found.counted = static_cast<double>(last - first);
      } else {
        found = reduce(group, at, first, last);
      }
    }
    if (group.rank() == 0) {
      if (parts == 1) {
        finish(result, at, found);
      } else {
        partial[number] = found;
      }
    }
  }

  // Combines the parts of a result.
  template <class Group>
  UNITY_HOST_DEVICE void join(const Group& group, std::int64_t result) const {
    reduction_part found{reduction == tensor::reduction::sum ? 0.0 : -infinity, 0};
    for (std::int64_t p = group.rank(); p < parts; p += group.size()) {
      const auto& part = partial[result * parts + p];
      found.total = add(found.total, part.total);
      found.counted += part.counted;
    }
    found = over_all(group, found);
    if (group.rank() == 0) {
      std::int64_t at[places];
      start(result, at);
      finish(result, at, found);
    }
  }

 private:
  // One for every operand, window and quotient.
  static constexpr int places = max_operands + 2 * max_windows;
  static constexpr int first_quotient = max_operands + max_windows;

  [[nodiscard]] UNITY_HOST_DEVICE double add(double total, double x) const {
    return reduction == tensor::reduction::sum ? total + x : total < x ? x : total;
  }
  template <class Group>
  [[nodiscard]] UNITY_HOST_DEVICE reduction_part over_all(const Group& group, const reduction_part& mine) const {
    return {reduction == tensor::reduction::sum ? group.sum(mine.total) : group.largest(mine.total),
            counts ? group.sum(mine.counted) : 0};
  }
  UNITY_HOST_DEVICE void finish(std::int64_t result, const std::int64_t* at, const reduction_part& found) const {
    store_element<double>(element, to, result, run(outer, at, found.total, found.counted));
  }

  template <class Group>
  [[nodiscard]] UNITY_HOST_DEVICE reduction_part reduce(const Group& group, const std::int64_t* at, std::int64_t first,
                                                        std::int64_t last) const {
    reduction_part mine{reduction == tensor::reduction::sum ? 0.0 : -infinity, 0};
    for (std::int64_t p = first + group.rank(); p < last; p += group.size()) {
      std::int64_t here[places];
      move(p, at, here);
      bool inside = divide(here);
      bool counts_here = true;
      for (int w = 0; w < window_count; ++w) {
        const auto x = here[max_operands + w];
        inside = inside && x >= 0 && x < windows[w].extent;
        counts_here = counts_here && x >= windows[w].count_from && x < windows[w].count_to;
      }
      mine.counted += counts_here ? 1 : 0;
      if (inside) {
        mine.total = add(mine.total, term(here));
      }
    }
    return over_all(group, mine);
  }
  // Groups of four are added in float: the error is smaller than the rounding of the elements.
  template <class Group>
  [[nodiscard]] UNITY_HOST_DEVICE double reduce_quads(const Group& group, const std::int64_t* at, std::int64_t first,
                                                      std::int64_t last) const {
    const auto& from = operands[inner.code[0].number];
    const auto base = at[inner.code[0].number] / 4;
    const bool sums = reduction == tensor::reduction::sum;
    double total = sums ? 0.0 : -infinity;
    for (std::int64_t i = first / 4 + group.rank(); i < last / 4; i += group.size()) {
      const auto q = load_quad(from.element, from.from, base + i);
      if (sums) {
        total += static_cast<double>((q.x[0] + q.x[1]) + (q.x[2] + q.x[3]));
      } else {
        for (const auto x : q.x) {
          total = add(total, static_cast<double>(x));
        }
      }
    }
    return sums ? group.sum(total) : group.largest(total);
  }

  UNITY_HOST_DEVICE void start(std::int64_t result, std::int64_t* at) const {
    for (int o = 0; o < operand_count; ++o) {
      at[o] = operands[o].offset.base;
    }
    for (int w = 0; w < window_count; ++w) {
      at[max_operands + w] = windows[w].position.base;
    }
    for (int q = 0; q < quotient_count; ++q) {
      at[first_quotient + q] = quotients[q].dividend.base;
    }
    for (int l = kept.count - 1; l >= 0; --l) {
      const auto i = kept.sizes[l].split(result);
      for (int o = 0; o < operand_count; ++o) {
        at[o] += i * operands[o].offset.kept.steps[l];
      }
      for (int w = 0; w < window_count; ++w) {
        at[max_operands + w] += i * windows[w].position.kept.steps[l];
      }
      for (int q = 0; q < quotient_count; ++q) {
        at[first_quotient + q] += i * quotients[q].dividend.kept.steps[l];
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
    for (int q = 0; q < quotient_count; ++q) {
      here[first_quotient + q] = at[first_quotient + q];
    }
    for (int l = reduced.count - 1; l >= 0; --l) {
      const auto i = reduced.sizes[l].split(point);
      for (int o = 0; o < operand_count; ++o) {
        here[o] += i * operands[o].offset.reduced.steps[l];
      }
      for (int w = 0; w < window_count; ++w) {
        here[max_operands + w] += i * windows[w].position.reduced.steps[l];
      }
      for (int q = 0; q < quotient_count; ++q) {
        here[first_quotient + q] += i * quotients[q].dividend.reduced.steps[l];
      }
    }
  }
  // Moves the operands to the windows; false if there are none.
  [[nodiscard]] UNITY_HOST_DEVICE bool divide(std::int64_t* here) const {
    bool inside = true;
    for (int q = 0; q < quotient_count; ++q) {
      auto quotient = here[first_quotient + q];
      inside = inside && quotient >= 0;
      const auto rest = inside ? quotients[q].stride.split(quotient) : 0;
      inside = inside && rest == 0 && quotient < quotients[q].extent;
      for (int o = 0; o < operand_count; ++o) {
        here[o] += quotient * quotients[q].steps[o];
      }
    }
    return inside;
  }

  [[nodiscard]] UNITY_HOST_DEVICE double load(int operand, const std::int64_t* at) const {
    return load_element<double>(operands[operand].element, operands[operand].from, at[operand]);
  }
  // Most reductions are over single elements or products of two.
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
                                             double counted) const {
    double stack[flat_program::max_size] = {};
    int depth = 0;
    for (int n = 0; n < p.size; ++n) {
      const auto& i = p.code[n];
      if (i.op == tensor::scalar_op::operand) {
        stack[depth++] = load(i.number, at);
      } else if (i.op == tensor::scalar_op::accumulated) {
        stack[depth++] = total;
      } else if (i.op == tensor::scalar_op::count) {
        stack[depth++] = counted;
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

// The second pass of a reduction in parts.
struct reduction_end_function {
  reduction_function reduction;

  template <class Group>
  UNITY_HOST_DEVICE void operator()(const Group& group, std::int64_t result) const {
    reduction.join(group, result);
  }
};
static_assert(sizeof(reduction_end_function) <= 4096 - 16);

}  // namespace unity::backend::cuda
