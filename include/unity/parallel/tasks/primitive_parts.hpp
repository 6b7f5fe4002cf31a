// Evaluates a task of a divided primitive: the primitive's loops over parts of their indices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/error.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/parallel/box.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/evaluate_primitive.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

// A part of a tensor, with its position in the whole.
template <class Scalar>
struct region {
  box place{};
  tensor::dense<Scalar> data{};

  explicit region(box b) : place{std::move(b)}, data{place.sizes()} {}

  // at: a position in the whole tensor.
  // Throws: unity::error if it is outside of the region.
  [[nodiscard]] std::size_t offset(const tensor::shape& at) const {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (at[d] < place.begin[d] || at[d] >= place.end[d]) {
        throw error{"a task of a divided operator", "an element that it does not hold",
                    "elements of its shard and halo"};
      }
      sum = sum * data.dims[d] + at[d] - place.begin[d];
    }
    return static_cast<std::size_t>(sum);
  }
  [[nodiscard]] const Scalar& operator[](const tensor::shape& at) const { return data.data[offset(at)]; }
  [[nodiscard]] Scalar& operator[](const tensor::shape& at) { return data.data[offset(at)]; }
};

namespace detail {

// Runs a primitive's loops over a task's ranges. Positions, coordinates and counts are those of the whole operator.
template <class Scalar>
class part_of_primitive {
 public:
  part_of_primitive(const operator_dimensions& o, const tensor::space& s, const tensor::scalar_kernel& kernel,
                    const grid_task& t, std::span<const region<Scalar>> operands)
      : o_{o},
        space_{s},
        kernel_{kernel},
        task_{t},
        operands_{operands},
        counts_{s},
        at_(s.indices().size(), 0),
        places_(operands.size()) {}

  [[nodiscard]] region<Scalar> run() {
    region<Scalar> out{result_region(o_, task_, 0)};
    if (kernel_.reduce == tensor::reduction::largest) {
      std::fill(out.data.data.begin(), out.data.data.end(), tensor::scalar_traits<Scalar>::lowest());
    }
    std::vector<std::size_t> indices(at_.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      indices[i] = i;
    }
    if (kernel_.reduce != tensor::reduction::none) {
      visit(indices, [&] { reduce(out); });
    }
    if (kernel_.outer.size() == 1 && kernel_.outer[0].op == tensor::scalar_op::accumulated) {
      return out;
    }
    std::fill(at_.begin(), at_.end(), 0);
    indices.clear();
    for (const auto& a : space_.result_accesses(0)) {
      for (std::size_t i = 0; i < a.size(); ++i) {
        indices.push_back(a[i]);
      }
    }
    visit(indices, [&] {
      static_cast<void>(find(space_.result_accesses(0), result_place_));
      static_cast<void>(find_operands());  // those inside of the sum have no element here
      auto& element = out[result_place_];
      element = value_of(kernel_.outer, element);
    });
    return out;
  }

 private:
  // Visits all positions of the indices within the task's ranges.
  template <class Visit>
  void visit(std::span<const std::size_t> indices, const Visit& each) {
    for (const auto i : indices) {
      at_[i] = task_.ranges[i].begin;
    }
    while (true) {
      each();
      auto k = indices.size();
      while (k > 0 && ++at_[indices[k - 1]] == task_.ranges[indices[k - 1]].end) {
        --k;
        at_[indices[k]] = task_.ranges[indices[k]].begin;
      }
      if (k == 0) {
        return;
      }
    }
  }

  // Sets the position of what is accessed; false for padding. In place, since most of the time is spent here.
  [[nodiscard]] bool find(std::span<const tensor::access> accesses, tensor::shape& where) const {
    where.clear();
    for (const auto& a : accesses) {
      std::int64_t p = 0;
      if (a.is_window()) {
        const auto& w = space_.windows()[a.window_number()];
        p = at_[static_cast<std::size_t>(w.outer)] * w.stride - w.before;
        p += w.inner < 0 ? 0 : at_[static_cast<std::size_t>(w.inner)] * w.dilation;
        if (p < 0 || p >= w.extent) {
          return false;
        }
      }
      for (std::size_t i = 0; i < a.size(); ++i) {
        append_digit(p, at_[a[i]], space_.indices()[a[i]].size);
      }
      where.push_back(p);
    }
    return true;
  }
  // Whether all operands have an element here.
  [[nodiscard]] bool find_operands() {
    bool all = true;
    for (std::size_t x = 0; x < operands_.size(); ++x) {
      all = find(space_.operand(x), places_[x]) && all;
    }
    return all;
  }

  void reduce(region<Scalar>& out) {
    if (!find(space_.result_accesses(0), result_place_) || !find_operands()) {
      return;
    }
    const auto term = value_of(kernel_.inner, Scalar{});
    auto& sum = out[result_place_];
    sum = kernel_.reduce == tensor::reduction::sum
              ? sum + term
              : tensor::scalar_traits<Scalar>::apply(tensor::scalar_op::maximum, sum, term);
  }

  [[nodiscard]] Scalar value_of(const tensor::scalar_program& program, Scalar accumulated) const {
    small_vector<Scalar, 8> stack;
    for (const auto& i : program) {
      if (tensor::is_leaf(i.op)) {
        stack.push_back(leaf(i, accumulated));
      } else if (tensor::is_binary(i.op)) {
        const auto right = stack.back();
        stack.pop_back();
        stack.back() = tensor::scalar_traits<Scalar>::apply(i.op, stack.back(), right);
      } else {
        stack.back() = tensor::scalar_traits<Scalar>::apply(i.op, stack.back());
      }
    }
    return stack.back();
  }
  [[nodiscard]] Scalar leaf(const tensor::instruction& i, Scalar accumulated) const {
    switch (i.op) {
      case tensor::scalar_op::operand: {
        const auto x = static_cast<std::size_t>(i.number);
        return operands_[x][places_[x]];
      }
      case tensor::scalar_op::accumulated: return accumulated;
      case tensor::scalar_op::coordinate: return static_cast<Scalar>(at_[static_cast<std::size_t>(i.number)]);
      case tensor::scalar_op::count: {
        small_vector<std::int64_t, 4> outer;
        for (const auto index : counts_.outer()) {
          outer.push_back(at_[index]);
        }
        return static_cast<Scalar>(counts_.at(outer));
      }
      default: return tensor::scalar_traits<Scalar>::literal(i.value);
    }
  }

  const operator_dimensions& o_;
  const tensor::space& space_;
  const tensor::scalar_kernel& kernel_;
  const grid_task& task_;
  std::span<const region<Scalar>> operands_;
  tensor::point_counts counts_;
  std::vector<std::int64_t> at_;       // per index
  std::vector<tensor::shape> places_;  // per operand
  tensor::shape result_place_{};
};

}  // namespace detail

}  // namespace unity::parallel
