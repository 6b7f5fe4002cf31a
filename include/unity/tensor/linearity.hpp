// Finds the operands in which an operator is additive, from its definition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <unity/graph/concepts.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::tensor::detail {

using operand_set = std::vector<std::size_t>;  // ascending

}  // namespace unity::tensor::detail

namespace unity::tensor {

// How a value depends on a set of operands: not at all, additively, or otherwise.
enum class dependence : std::uint8_t { none, additive, other };

}  // namespace unity::tensor

namespace unity::tensor::detail {

[[nodiscard]] dependence combine(scalar_op op, dependence a, dependence b) noexcept;

}  // namespace unity::tensor::detail

namespace unity::tensor {

// How the value of a scalar program depends on a set of values, given how its operands, by number, and the accumulated
// value depend on them. Complexity: linear in the program.
[[nodiscard]] dependence dependence_of(const scalar_program& program, std::span<const dependence> operands,
                                       dependence accumulated);

// The same for a kernel: its inner program, its reduction and its outer program.
[[nodiscard]] dependence dependence_of(const scalar_kernel& k, std::span<const dependence> operands);

}  // namespace unity::tensor

namespace unity::tensor::detail {

[[nodiscard]] std::vector<operand_set> linear_groups_of(const algebra& a, const operation& op,
                                                        std::span<const tensor_type> inputs);

// How the results of a node depend on the seeds, given the dependence of its operands: additively if the dependent
// operands are a linear group.
[[nodiscard]] dependence node_dependence(std::span<const operand_set> groups, std::span<const dependence> operands);

// Linearity within a body graph.
class body_linearity {
 public:
  body_linearity(const algebra& a, const tensor_graph& body);

  // How the outputs depend on the values that `seeds` marks as additive, with all else fixed. A seed that depends on
  // another seed is not additive: each has its own terms.
  [[nodiscard]] dependence of_outputs(std::vector<dependence> seeds) const;
  // Stricter than of_outputs: an output that does not depend on the seeds is not a sum of the outputs of two terms.
  [[nodiscard]] bool all_outputs_additive(std::vector<dependence> seeds) const;

 private:
  // Replaces the dependence of every value.
  void spread(std::vector<dependence>& seeds) const;

  const tensor_graph& body_;
  std::vector<std::vector<operand_set>> groups_;
};

// The maximal non-empty subsets of `count` operands for which is_additive holds.
template <class Predicate>
[[nodiscard]] std::vector<operand_set> maximal_sets(std::size_t count, const Predicate& is_additive) {
  std::vector<std::uint32_t> found;
  for (auto set = (std::uint32_t{1} << count) - 1; set > 0; --set) {
    bool within = false;
    for (const auto larger : found) {
      within = within || (larger & set) == set;
    }
    if (!within && is_additive(set)) {
      found.push_back(set);
    }
  }
  std::vector<operand_set> sets;
  for (auto it = found.rbegin(); it != found.rend(); ++it) {
    auto& members = sets.emplace_back();
    for (std::size_t i = 0; i < count; ++i) {
      if ((*it >> i & 1U) != 0) {
        members.push_back(i);
      }
    }
  }
  return sets;
}

}  // namespace unity::tensor::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_LINEARITY)

#include <algorithm>
#include <numeric>
#include <optional>
#include <variant>

#include <unity/tensor/algebra_inference.hpp>

namespace unity::tensor::detail {

UNITY_INLINE dependence combine(scalar_op op, dependence a, dependence b) noexcept {
  if (a == dependence::other || b == dependence::other) {
    return dependence::other;
  }
  const bool both = a == dependence::additive && b == dependence::additive;
  const bool neither = a == dependence::none && b == dependence::none;
  switch (op) {
    case scalar_op::add:
    case scalar_op::sub: return a == b ? a : dependence::other;
    case scalar_op::mul: return both ? dependence::other : neither ? dependence::none : dependence::additive;
    case scalar_op::div: return b == dependence::none ? a : dependence::other;
    case scalar_op::masked: return a == dependence::none ? b : dependence::other;
    default: return neither ? dependence::none : dependence::other;
  }
}

}  // namespace unity::tensor::detail

namespace unity::tensor {

UNITY_INLINE dependence dependence_of(const scalar_program& program, std::span<const dependence> operands,
                                      dependence accumulated) {
  small_vector<dependence, 8> stack;
  for (const auto& i : program) {
    if (is_leaf(i.op)) {
      stack.push_back(i.op == scalar_op::operand       ? operands[static_cast<std::size_t>(i.number)]
                      : i.op == scalar_op::accumulated ? accumulated
                                                       : dependence::none);
    } else if (is_binary(i.op)) {
      const auto right = stack.back();
      stack.pop_back();
      stack.back() = detail::combine(i.op, stack.back(), right);
    } else if (i.op != scalar_op::negate && stack.back() != dependence::none) {
      stack.back() = dependence::other;
    }
  }
  return stack.empty() ? dependence::none : stack.back();
}

UNITY_INLINE dependence dependence_of(const scalar_kernel& k, std::span<const dependence> operands) {
  auto accumulated = dependence_of(k.inner, operands, dependence::none);
  if (k.reduce == reduction::largest && accumulated != dependence::none) {
    accumulated = dependence::other;
  }
  return dependence_of(k.outer, operands, accumulated);
}

}  // namespace unity::tensor

namespace unity::tensor::detail {

UNITY_INLINE dependence node_dependence(std::span<const operand_set> groups, std::span<const dependence> operands) {
  operand_set additive;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == dependence::other) {
      return dependence::other;
    }
    if (operands[i] == dependence::additive) {
      additive.push_back(i);
    }
  }
  if (additive.empty()) {
    return dependence::none;
  }
  for (const auto& g : groups) {
    if (g == additive) {
      return dependence::additive;
    }
  }
  return dependence::other;
}

UNITY_INLINE body_linearity::body_linearity(const algebra& a, const tensor_graph& body) : body_{body} {
  for (const auto i : node_ids(body)) {
    std::vector<tensor_type> types;
    for (const auto v : body.operands(i)) {
      types.push_back(body.type(v));
    }
    const auto& op = body.operation(i);
    groups_.push_back(op.kind.valid() ? linear_groups_of(a, op, types) : std::vector<operand_set>{});
  }
}

UNITY_INLINE void body_linearity::spread(std::vector<dependence>& seeds) const {
  for (const auto i : node_ids(body_)) {
    std::vector<dependence> operands;
    for (const auto v : body_.operands(i)) {
      operands.push_back(seeds[v.index()]);
    }
    const auto d = node_dependence(groups_[i.index()], operands);
    for (const auto v : body_.results(i)) {
      auto& own = seeds[v.index()];
      own = own == dependence::none ? d : d == dependence::none ? own : dependence::other;
    }
  }
}

UNITY_INLINE bool body_linearity::all_outputs_additive(std::vector<dependence> seeds) const {
  spread(seeds);
  const auto outputs = body_.outputs();
  return std::all_of(outputs.begin(), outputs.end(),
                     [&](value_id v) { return seeds[v.index()] == dependence::additive; });
}

UNITY_INLINE dependence body_linearity::of_outputs(std::vector<dependence> seeds) const {
  spread(seeds);
  auto joint = dependence::none;
  for (const auto v : body_.outputs()) {
    const auto d = seeds[v.index()];
    joint = d == dependence::none || joint == dependence::other ? joint : d;
  }
  return joint;
}

UNITY_INLINE std::vector<operand_set> linear_groups_of(const algebra& a, const operation& op,
                                                       std::span<const tensor_type> inputs) {
  constexpr std::size_t max_operands = 16;
  if (inputs.empty() || !a.infer(op, inputs)) {
    return {};
  }
  if (const auto map = a.index_map(op, inputs)) {
    operand_set all(inputs.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return map->fill() == 0 ? std::vector<operand_set>{all} : std::vector<operand_set>{};
  }
  const auto states = [](std::uint32_t set, std::size_t count) {
    std::vector<dependence> s(count, dependence::none);
    for (std::size_t i = 0; i < count && i < max_operands; ++i) {
      s[i] = (set >> i & 1U) != 0 ? dependence::additive : dependence::none;
    }
    return s;
  };
  const auto& d = a.definition_of(op.kind);
  const auto* p = std::get_if<primitive>(&d.body);
  if (p != nullptr && inputs.size() <= max_operands) {
    const auto kernel = p->kernel(a.read(op), inputs);
    return maximal_sets(inputs.size(), [&](std::uint32_t set) {
      return dependence_of(kernel, states(set, inputs.size())) == dependence::additive;
    });
  }
  const auto body = a.body(op, inputs);
  if (!body || inputs.size() > max_operands) {
    return {};
  }
  const body_linearity linearity{a, *body};
  return maximal_sets(inputs.size(), [&](std::uint32_t set) {
    return linearity.all_outputs_additive(states(set, body->value_count()));
  });
}

}  // namespace unity::tensor::detail

#endif
