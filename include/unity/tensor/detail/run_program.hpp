// Runs scalar programs over many points at once.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <unity/tensor/kernel.hpp>
#include <unity/tensor/scalar.hpp>

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

// A program and its stack.
template <class Scalar>
class program_runner {
 public:
  explicit program_runner(const scalar_program& program) : program_{program}, stack_(program.size() * block_size) {}

  // Fills out[0, n), n <= block_size. fetch(instruction, Scalar* to) writes the n values of a leaf.
  template <class Fetch>
  void run(Scalar* out, std::int64_t n, const Fetch& fetch) {
    std::size_t depth = 0;
    const auto slot = [&](std::size_t i) { return i == 0 ? out : stack_.data() + i * block_size; };
    for (const auto& i : program_) {
      if (is_leaf(i.op)) {
        fetch(i, slot(depth++));
      } else if (is_binary(i.op)) {
        --depth;
        apply_to_block(i.op, slot(depth - 1), slot(depth), n);
      } else {
        apply_to_block<Scalar>(i.op, slot(depth - 1), slot(depth - 1), n);
      }
    }
  }

 private:
  scalar_program program_;
  std::vector<Scalar> stack_;
};

}  // namespace unity::tensor::detail
