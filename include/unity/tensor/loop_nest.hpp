// Loop nests over affine forms, and scalar programs that run at many points at once: the loops of evaluation.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

inline constexpr std::int64_t block_size = 256;

// A reciprocal may be far more expensive than a product, and neighbours often have the same divisor.
template <class Scalar>
void divide_block(Scalar* a, const Scalar* b, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  if constexpr (std::floating_point<Scalar>) {
    for (std::int64_t i = 0; i < n; ++i) {
      a[i] = a[i] / b[i];
    }
  } else {
    Scalar reciprocal = traits::apply(scalar_op::reciprocal, b[0]);
    for (std::int64_t i = 0; i < n; ++i) {
      reciprocal = i == 0 || b[i] == b[i - 1] ? reciprocal : traits::apply(scalar_op::reciprocal, b[i]);
      a[i] = a[i] * reciprocal;
    }
  }
}

// Applies one instruction to a block; the dispatch on the instruction is outside of the loop.
template <class Scalar>
void apply_to_block(scalar_op op, Scalar* a, const Scalar* b, std::int64_t n) {
  using traits = scalar_traits<Scalar>;
  const auto each = [&](auto f) {
    for (std::int64_t i = 0; i < n; ++i) {
      a[i] = f(a[i], b[i]);
    }
  };
  switch (op) {
    case scalar_op::add: return each([](Scalar x, Scalar y) { return x + y; });
    case scalar_op::sub: return each([](Scalar x, Scalar y) { return x - y; });
    case scalar_op::mul: return each([](Scalar x, Scalar y) { return x * y; });
    case scalar_op::relu: return each([](Scalar x, Scalar) { return traits::apply(scalar_op::relu, x); });
    case scalar_op::div: return divide_block(a, b, n);
    default: break;
  }
  if (is_binary(op)) {
    return each([op](Scalar x, Scalar y) { return traits::apply(op, x, y); });
  }
  for (std::int64_t i = 0; i < n; ++i) {
    a[i] = traits::apply(op, a[i]);
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

// Runs a scalar program at many points at once. Copies the program and keeps its stack, so that runs allocate nothing.
template <class Scalar>
class scalar_program_runner {
 public:
  // The most points of one run.
  static constexpr std::int64_t most_points = detail::block_size;

  explicit scalar_program_runner(const scalar_program& program)
      : program_{program}, stack_(program.size() * most_points) {}

  // Fills out[0, n), n <= most_points. fetch(instruction, Scalar* to) writes the n values of a leaf.
  template <class Fetch>
  void run(Scalar* out, std::int64_t n, const Fetch& fetch) {
    std::size_t depth = 0;
    const auto slot = [&](std::size_t i) { return i == 0 ? out : stack_.data() + i * most_points; };
    for (const auto& i : program_) {
      if (is_leaf(i.op)) {
        fetch(i, slot(depth++));
      } else if (is_binary(i.op)) {
        --depth;
        detail::apply_to_block(i.op, slot(depth - 1), slot(depth), n);
      } else {
        detail::apply_to_block<Scalar>(i.op, slot(depth - 1), slot(depth - 1), n);
      }
    }
  }

 private:
  scalar_program program_;
  std::vector<Scalar> stack_;
};

}  // namespace unity::tensor

namespace unity::tensor::detail {

// Loop nests over affine forms: the offsets, positions and coordinates that evaluation maintains while it iterates.

// base + sum of steps[i] * (position along index i)
struct affine_form {
  std::int64_t base = 0;
  std::vector<std::int64_t> steps{};
};

// The row-major offset of the element that the accesses select.
[[nodiscard]] affine_form offset_form(const space& s, std::span<const access> accesses, const shape& dims);

[[nodiscard]] affine_form coordinate_form(const space& s, std::size_t index);

// Nested loops, outermost first, each of which advances every form by its own step.
class loop_nest {
 public:
  explicit loop_nest(std::span<const affine_form> forms);

  // Appends an inner loop.
  void add(std::int64_t size, std::span<const affine_form> forms, std::size_t index);
  void add(std::int64_t size, std::span<const std::int64_t> steps) {
    sizes_.push_back(size);
    steps_.insert(steps_.end(), steps.begin(), steps.end());
  }

  // Merges adjacent loops that advance every form like a single loop.
  void coalesce();

  // Appends inner loops of size 1 until there are at least `count` loops.
  void deepen(std::size_t count);

  [[nodiscard]] std::size_t depth() const noexcept { return sizes_.size(); }
  [[nodiscard]] std::int64_t size(std::size_t loop) const { return sizes_[loop]; }
  [[nodiscard]] std::int64_t step(std::size_t loop, std::size_t form) const {
    return steps_[loop * base_.size() + form];
  }

  // Runs all loops except the `inner` innermost ones; calls run(values of the forms) in each iteration.
  template <class Run>
  void for_each(std::size_t inner, Run&& run) const {
    auto values = base_;
    const auto outer = sizes_.size() - inner;
    std::vector<std::int64_t> at(outer, 0);
    while (true) {
      run(std::span<const std::int64_t>{values});
      auto l = outer;
      while (l > 0 && ++at[l - 1] == sizes_[l - 1]) {
        --l;
        at[l] = 0;
        shift(values, l, 1 - sizes_[l]);
      }
      if (l == 0) {
        return;
      }
      shift(values, l - 1, 1);
    }
  }

 private:
  void shift(std::vector<std::int64_t>& values, std::size_t loop, std::int64_t times) const;

  std::vector<std::int64_t> base_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> steps_;
};

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_LOOP_NEST)

#include <unity/core/config.hpp>

namespace unity::tensor::detail {

UNITY_INLINE affine_form offset_form(const space& s, std::span<const access> accesses, const shape& dims) {
  affine_form f{0, std::vector<std::int64_t>(s.indices().size(), 0)};
  const auto strides = strides_of(dims);
  for (std::size_t d = 0; d < accesses.size(); ++d) {
    auto stride = strides[d];
    if (accesses[d].is_window()) {
      const auto& w = s.windows()[accesses[d].window_number()];
      f.base -= w.before * stride;
      f.steps[static_cast<std::size_t>(w.outer)] += w.stride * stride;
      if (w.inner >= 0) {
        f.steps[static_cast<std::size_t>(w.inner)] += w.dilation * stride;
      }
    }
    for (std::size_t i = accesses[d].size(); i-- > 0;) {
      f.steps[accesses[d][i]] += stride;
      stride *= s.indices()[accesses[d][i]].size;
    }
  }
  return f;
}

UNITY_INLINE affine_form coordinate_form(const space& s, std::size_t index) {
  affine_form f{0, std::vector<std::int64_t>(s.indices().size(), 0)};
  f.steps[index] = 1;
  return f;
}

UNITY_INLINE loop_nest::loop_nest(std::span<const affine_form> forms) {
  for (const auto& f : forms) {
    base_.push_back(f.base);
  }
}

UNITY_INLINE void loop_nest::add(std::int64_t size, std::span<const affine_form> forms, std::size_t index) {
  if (size == 1) {
    return;
  }
  sizes_.push_back(size);
  for (const auto& f : forms) {
    steps_.push_back(f.steps[index]);
  }
}

UNITY_INLINE void loop_nest::coalesce() {
  loop_nest joined{{}};
  for (std::size_t l = 0; l < sizes_.size(); ++l) {
    bool joins = l > 0;
    for (std::size_t f = 0; joins && f < base_.size(); ++f) {
      joins = joined.steps_[joined.steps_.size() - base_.size() + f] == step(l, f) * sizes_[l];
    }
    if (joins) {
      joined.sizes_.back() *= sizes_[l];
      joined.steps_.resize(joined.steps_.size() - base_.size());
    } else {
      joined.sizes_.push_back(sizes_[l]);
    }
    const auto* from = steps_.data() + l * base_.size();
    joined.steps_.insert(joined.steps_.end(), from, from + base_.size());
  }
  sizes_ = std::move(joined.sizes_);
  steps_ = std::move(joined.steps_);
}

UNITY_INLINE void loop_nest::deepen(std::size_t count) {
  while (sizes_.size() < count) {
    sizes_.push_back(1);
    steps_.resize(steps_.size() + base_.size(), 0);
  }
}

UNITY_INLINE void loop_nest::shift(std::vector<std::int64_t>& values, std::size_t loop, std::int64_t times) const {
  for (std::size_t f = 0; f < values.size(); ++f) {
    values[f] += times * step(loop, f);
  }
}

}  // namespace unity::tensor::detail

#endif
