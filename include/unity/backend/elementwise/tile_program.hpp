// Element-wise computations as data: expressions over tiles, and the addresses of their leaves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/small_vector.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

// The dimensions in the order in which the elements are stored, outermost first.
[[nodiscard]] small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order);

// How far every index of an iteration space moves in a tensor of the type; nothing if windows slide over it.
[[nodiscard]] std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                   std::span<const tensor::access> accesses,
                                                                   const tensor::tensor_type& type);

// The indices of the results in the order in which these are stored.
[[nodiscard]] std::vector<std::size_t> result_indices(const tensor::space& s, tensor::layout order);

// One step per loop over the results.
using loop_steps = small_vector<std::int64_t, 6>;

// A leaf: elements of an operand, coordinates, or one number.
struct tile_leaf {
  enum class origin : std::uint8_t { operand, coordinate, literal };

  origin from = origin::literal;
  std::size_t operand = 0;
  tensor::dtype element = tensor::dtype::float32;
  double value = 0;
  loop_steps steps{};

  friend bool operator==(const tile_leaf&, const tile_leaf&) = default;

  // Whether it is the same number everywhere.
  [[nodiscard]] bool uniform() const noexcept;
};

// Value i is the result of instruction i: a leaf, or an operation on earlier values.
struct tile_instruction {
  tensor::scalar_op op = tensor::scalar_op::operand;  // operand: the leaf
  std::size_t leaf = 0;
  std::size_t a = 0;
  std::size_t b = 0;
};

struct tile_store {
  std::size_t value = 0;
  std::size_t output = 0;
  tensor::dtype element = tensor::dtype::float32;
};

// All results have one shape, in the order of the loops, outermost first.
struct tile_program {
  loop_steps sizes{};
  std::vector<tile_leaf> leaves{};
  std::vector<tile_instruction> code{};
  std::vector<tile_store> stores{};

  std::size_t add_leaf(tile_leaf l);
  std::size_t add_literal(double value) {
    return add_leaf({tile_leaf::origin::literal, 0, tensor::dtype::float32, value, loop_steps(sizes.size(), 0)});
  }
  // A scalar program on given leaves: leaf(instruction) gives the value of an operand or a coordinate.
  template <class Leaf>
  std::size_t add(const tensor::scalar_program& program, const Leaf& leaf) {
    std::vector<std::size_t> stack;
    for (const auto& i : program) {
      if (i.op == tensor::scalar_op::literal) {
        stack.push_back(add_literal(i.value));
      } else if (tensor::is_leaf(i.op)) {
        stack.push_back(leaf(i));
      } else {
        const auto b = stack.back();
        if (tensor::is_binary(i.op)) {
          stack.pop_back();
        }
        code.push_back({i.op, 0, stack.back(), b});
        stack.back() = code.size() - 1;
      }
    }
    return stack.back();
  }

  // Merges adjacent loops that every leaf traverses as one. At least one loop stays.
  void coalesce();
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_TILE_PROGRAM)

#include <unity/tensor/operation.hpp>

namespace unity::backend {

UNITY_INLINE small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order) {
  small_vector<std::size_t, 6> dims;
  for (std::size_t d = 0; d < rank; ++d) {
    dims.push_back(d);
  }
  if (rank >= 2 && order == tensor::layout::column_major) {
    std::swap(dims[rank - 1], dims[rank - 2]);
  }
  return dims;
}

UNITY_INLINE std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                  std::span<const tensor::access> accesses,
                                                                  const tensor::tensor_type& type) {
  std::vector<std::int64_t> steps(s.indices().size(), 0);
  const auto strides = tensor::strides_of(type.dims, type.order);
  for (std::size_t d = 0; d < accesses.size(); ++d) {
    if (accesses[d].is_window()) {
      return std::nullopt;
    }
    auto stride = strides[d];
    for (std::size_t i = accesses[d].size(); i-- > 0;) {
      steps[accesses[d][i]] += stride;
      stride *= s.indices()[accesses[d][i]].size;
    }
  }
  return steps;
}

UNITY_INLINE std::vector<std::size_t> result_indices(const tensor::space& s, tensor::layout order) {
  std::vector<std::size_t> indices;
  const auto accesses = s.result_accesses(0);
  for (const auto d : memory_order(accesses.size(), order)) {
    for (std::size_t i = 0; i < accesses[d].size(); ++i) {
      indices.push_back(accesses[d][i]);
    }
  }
  return indices;
}

UNITY_INLINE bool tile_leaf::uniform() const noexcept {
  for (const auto s : steps) {
    if (s != 0) {
      return false;
    }
  }
  return true;
}

UNITY_INLINE std::size_t tile_program::add_leaf(tile_leaf l) {
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].op == tensor::scalar_op::operand && leaves[code[i].leaf] == l) {
      return i;
    }
  }
  leaves.push_back(std::move(l));
  code.push_back({tensor::scalar_op::operand, leaves.size() - 1, 0, 0});
  return code.size() - 1;
}

UNITY_INLINE void tile_program::coalesce() {
  std::size_t kept = 0;
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    if (sizes[l] == 1) {
      continue;
    }
    bool joins = kept > 0;
    for (const auto& x : leaves) {
      joins = joins && x.steps[kept - 1] == x.steps[l] * sizes[l];
    }
    kept += joins ? 0 : 1;
    sizes[kept - 1] = joins ? sizes[kept - 1] * sizes[l] : sizes[l];
    for (auto& x : leaves) {
      x.steps[kept - 1] = x.steps[l];
    }
  }
  const auto loops = kept == 0 ? 1 : kept;
  sizes.resize(kept);
  sizes.resize(loops, 1);
  for (auto& x : leaves) {
    x.steps.resize(kept);
    x.steps.resize(loops, 0);
  }
}

}  // namespace unity::backend

#endif
