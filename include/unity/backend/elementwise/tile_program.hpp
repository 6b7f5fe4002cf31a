// Element-wise computations as programs over tiles, with the addresses of their leaves; operators, chains of operators
// and conversions in this form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/algebra.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/derive_adjoint.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/space.hpp>

namespace unity::backend {

// The dimensions in the order in which the elements are stored, outermost first.
[[nodiscard]] small_vector<std::size_t, 6> memory_order(std::size_t rank, tensor::layout order);

// The step of every index of an iteration space in a tensor of the type, in elements; nothing if windows slide over it.
[[nodiscard]] std::optional<std::vector<std::int64_t>> index_steps(const tensor::space& s,
                                                                   std::span<const tensor::access> accesses,
                                                                   const tensor::tensor_type& type);

// The indices of the results in the order in which results are stored.
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
  // Adds a scalar program; leaf(instruction) gives the value of an operand or coordinate. Returns the value of its
  // result.
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

// The program of a primitive with one result and without a reduction or windows; nothing for any other operator.
[[nodiscard]] std::optional<tile_program> elementwise_program(const tensor::algebra& a, const tensor::operation& op,
                                                              std::span<const tensor::tensor_type> inputs,
                                                              std::span<const tensor::tensor_type> outputs);

// The program of a conversion between types of the same sizes. Numbers are kept as exactly as the target type allows.
[[nodiscard]] tile_program conversion_program(const tensor::tensor_type& from, const tensor::tensor_type& to);

// Writes the values of a region's nodes, at the points of one shape in one layout, as a tile program.
// Throws: unity::error that names an operator that is not element-wise.
class chain_writer {
 public:
  chain_writer(const tensor::algebra& a, const tensor::tensor_graph& region, const tensor::tensor_type& result);

  void store(value_id v, std::size_t output) { program_.stores.push_back({value(v), output, region_.type(v).element}); }
  [[nodiscard]] tile_program take() && { return std::move(program_); }
  [[nodiscard]] bool in_double() const noexcept { return in_double_; }

 private:
  std::size_t value(value_id v);

  // Adds an operand, broadcast as in NumPy.
  std::size_t leaf(std::size_t operand, const tensor::tensor_type& type);

  std::size_t computed(value_id v);

  [[nodiscard]] error not_elementwise(const tensor::operation& op) const {
    return {"chain of operators", fmt::format("operator {}", algebra_.signature(op.kind).name),
            "element-wise operators"};
  }

  const tensor::algebra& algebra_;
  const tensor::tensor_graph& region_;
  const tensor::tensor_type& result_;
  small_vector<std::size_t, 6> order_;
  std::map<std::size_t, std::size_t> operand_of_;
  std::map<std::size_t, std::size_t> values_;
  tile_program program_;
  bool in_double_ = false;
};

}  // namespace unity::backend

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_BACKEND_ELEMENTWISE_TILE_PROGRAM)

#include <variant>

#include <unity/tensor/definition.hpp>
#include <unity/tensor/element.hpp>

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

UNITY_INLINE std::optional<tile_program> elementwise_program(const tensor::algebra& a, const tensor::operation& op,
                                                             std::span<const tensor::tensor_type> inputs,
                                                             std::span<const tensor::tensor_type> outputs) {
  const auto s = a.iteration(op, inputs);
  const auto& d = a.definition_of(op.kind);
  if (!s || s->result_count() != 1 || d.source != tensor::source_kind::none) {
    return std::nullopt;
  }
  const auto kernel = std::get<tensor::primitive>(d.body).kernel(a.read(op), inputs);
  if (kernel.reduce != tensor::reduction::none) {
    return std::nullopt;
  }
  const auto order = result_indices(*s, outputs[0].order);
  tile_program p;
  for (const auto i : order) {
    p.sizes.push_back(s->indices()[i].size);
  }
  bool is_flat = true;
  const auto value = p.add(kernel.outer, [&](const tensor::instruction& i) {
    const auto number = static_cast<std::size_t>(i.number);
    const bool is_element = i.op == tensor::scalar_op::operand;
    is_flat = is_flat && (is_element || i.op == tensor::scalar_op::coordinate);
    tile_leaf l{is_element ? tile_leaf::origin::operand : tile_leaf::origin::coordinate,
                number,
                is_element ? inputs[number].element : tensor::dtype::float32,
                0,
                {}};
    const auto steps = is_element ? index_steps(*s, s->operand(number), inputs[number]) : std::nullopt;
    is_flat = is_flat && (!is_element || steps.has_value());
    for (const auto index : order) {
      l.steps.push_back(steps ? (*steps)[index] : index == number && !is_element ? 1 : 0);
    }
    return p.add_leaf(std::move(l));
  });
  p.stores.push_back({value, 0, outputs[0].element});
  return is_flat ? std::optional{std::move(p)} : std::nullopt;
}

UNITY_INLINE tile_program conversion_program(const tensor::tensor_type& from, const tensor::tensor_type& to) {
  tile_program p;
  tile_leaf leaf{tile_leaf::origin::operand, 0, from.element, 0, {}};
  const auto strides = tensor::strides_of(from.dims, from.order);
  for (const auto d : memory_order(to.rank(), to.order)) {
    p.sizes.push_back(to.dims[d]);
    leaf.steps.push_back(strides[d]);
  }
  p.stores.push_back({p.add_leaf(std::move(leaf)), 0, to.element});
  return p;
}

UNITY_INLINE chain_writer::chain_writer(const tensor::algebra& a, const tensor::tensor_graph& region,
                                        const tensor::tensor_type& result)
    : algebra_{a}, region_{region}, result_{result}, order_{memory_order(result.rank(), result.order)} {
  for (const auto d : order_) {
    program_.sizes.push_back(result.dims[d]);
  }
  for (const auto n : node_ids(region)) {
    if (region.operands(n).empty() && !region.results(n).empty()) {
      operand_of_.emplace(region.results(n)[0].index(), operand_of_.size());
    }
  }
}

UNITY_INLINE std::size_t chain_writer::value(value_id v) {
  if (const auto known = values_.find(v.index()); known != values_.end()) {
    return known->second;
  }
  in_double_ = in_double_ || tensor::exceeds_float32(region_.type(v).element);
  const auto operand = operand_of_.find(v.index());
  const auto at = operand != operand_of_.end() ? leaf(operand->second, region_.type(v)) : computed(v);
  values_.emplace(v.index(), at);
  return at;
}

UNITY_INLINE std::size_t chain_writer::leaf(std::size_t operand, const tensor::tensor_type& type) {
  tile_leaf l{tile_leaf::origin::operand, operand, type.element, 0, {}};
  const auto strides = tensor::strides_of(type.dims, type.order);
  const auto skipped = result_.rank() - type.rank();
  for (const auto d : order_) {
    l.steps.push_back(d < skipped || type.dims[d - skipped] == 1 ? 0 : strides[d - skipped]);
  }
  return program_.add_leaf(std::move(l));
}

UNITY_INLINE std::size_t chain_writer::computed(value_id v) {
  const auto n = region_.producer(v);
  const auto& op = region_.operation(n);
  std::vector<tensor::tensor_type> inputs;
  std::vector<std::size_t> operands;
  bool broadcasts = true;
  for (const auto x : region_.operands(n)) {
    inputs.push_back(region_.type(x));
    const auto joint = tensor::broadcast(inputs.back().dims, region_.type(v).dims);
    broadcasts = broadcasts && joint && *joint == region_.type(v).dims;
  }
  const auto s = algebra_.iteration(op, inputs);
  if (!s || !broadcasts) {
    throw not_elementwise(op);
  }
  const auto kernel =
      std::get<tensor::primitive>(algebra_.definition_of(op.kind).body).kernel(algebra_.read(op), inputs);
  for (const auto x : region_.operands(n)) {
    operands.push_back(value(x));
  }
  if (kernel.reduce != tensor::reduction::none) {
    throw not_elementwise(op);
  }
  return program_.add(kernel.outer, [&](const tensor::instruction& i) {
    if (i.op != tensor::scalar_op::operand) {
      throw not_elementwise(op);
    }
    return operands[static_cast<std::size_t>(i.number)];
  });
}

}  // namespace unity::backend

#endif
