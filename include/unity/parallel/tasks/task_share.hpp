// Corrections for parts of an operator, from its definition: if counts of reduced points or positions along divided
// indices enter a result, the same operator on a part of its operands does not compute a part of the result.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/configuration.hpp>
#include <unity/parallel/tasks/grid_tasks.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/space.hpp>

namespace unity::parallel {

// A value in the whole operator and in a task. known: both are numbers that do not depend on operands. Otherwise the
// value of the whole is whole / part times the sum over tasks (or times the common value, if it is not a sum).
struct scaled_value {
  double whole = 1;
  double part = 1;
  bool known = false;

  [[nodiscard]] double ratio() const noexcept { return whole == part ? 1 : whole / part; }
};

}  // namespace unity::parallel

namespace unity::parallel::detail {

[[nodiscard]] inline bool same_ratio(const scaled_value& a, const scaled_value& b) noexcept {
  return std::abs(a.ratio() - b.ratio()) <= 1e-12 * std::abs(a.ratio());
}

[[nodiscard]] std::optional<scaled_value> apply(tensor::scalar_op op, const scaled_value& a);

[[nodiscard]] std::optional<scaled_value> apply(tensor::scalar_op op, const scaled_value& a, const scaled_value& b);

// Runs a scalar program on the whole and on a part; the two programs differ only in literals.
[[nodiscard]] std::optional<scaled_value> run_scaled(const tensor::scalar_program& whole,
                                                     const tensor::scalar_program& part,
                                                     std::span<const scaled_value> operands,
                                                     const scaled_value& accumulated,
                                                     const std::optional<scaled_value>& count);

// Counts of reduced points; nothing if they come from a divided window.
[[nodiscard]] std::optional<scaled_value> scaled_count(const tensor::space& whole, const tensor::space& part);

}  // namespace unity::parallel::detail

namespace unity::parallel {

// Per result of an operator, how its value in the whole follows from that in the parts, given this for each operand.
// Nothing if a result is not known to be a multiple of the sum of its parts.
// Complexity: linear in the kernel, or in the body of a composite and deriving its types.
[[nodiscard]] std::optional<std::vector<scaled_value>> scaled_results(const tensor::algebra& a,
                                                                      const part_of_operation& whole,
                                                                      const part_of_operation& part,
                                                                      std::span<const scaled_value> operands);

}  // namespace unity::parallel

namespace unity::parallel::detail {

[[nodiscard]] std::optional<std::vector<scaled_value>> scaled_primitive(const tensor::algebra& a,
                                                                        const tensor::primitive& p,
                                                                        const part_of_operation& whole,
                                                                        const part_of_operation& part,
                                                                        std::span<const scaled_value> operands);

[[nodiscard]] part_of_operation node_of(const tensor::tensor_graph& g, node_id n);

// Evaluates a composite through its body.
[[nodiscard]] std::optional<std::vector<scaled_value>> scaled_body(const tensor::algebra& a,
                                                                   const tensor::tensor_graph& whole,
                                                                   const tensor::tensor_graph& part,
                                                                   std::span<const scaled_value> operands);

// The factor that turns the sum of the tasks' results into the result of the whole operator, which is additive in the
// divided operands: in sum / count(), a part has a smaller count.
// Complexity: linear in the kernel, or in the body of a composite and deriving its types.
[[nodiscard]] std::optional<double> share_of_parts(const tensor::algebra& a, const part_of_operation& whole,
                                                   const part_of_operation& part);

// The task subtracts `by`, the part's first position, from elements of an operand that are positions along an index.
struct index_shift {
  std::size_t operand = 0;
  std::int64_t by = 0;
};

// The part's first position along an index of a primitive; nothing if no dimension is that index alone.
[[nodiscard]] std::optional<std::int64_t> begin_of(const tensor::space& s, const shard& part, std::size_t index);

// The shifts of a primitive that compares elements with positions, equal(x, coordinate(i)). Nothing if the kernel uses
// a position along a divided index, or such elements, in any other way: then no part of its operands gives the result.
[[nodiscard]] std::optional<std::vector<index_shift>> shifts_of(const tensor::scalar_kernel& k, const tensor::space& s,
                                                                const shard& part);

}  // namespace unity::parallel::detail

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_TASKS_TASK_SHARE)

#include <variant>

#include <unity/core/small_vector.hpp>
#include <unity/parallel/box.hpp>
#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/evaluate_primitive.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>

namespace unity::parallel::detail {

UNITY_INLINE std::optional<scaled_value> apply(tensor::scalar_op op, const scaled_value& a) {
  using traits = tensor::scalar_traits<double>;
  if (a.known) {
    return scaled_value{traits::apply(op, a.whole), traits::apply(op, a.part), true};
  }
  if (op == tensor::scalar_op::negate || a.ratio() == 1) {
    return a;
  }
  if (op == tensor::scalar_op::reciprocal) {
    return scaled_value{a.part, a.whole, false};
  }
  const bool scales = op == tensor::scalar_op::abs || op == tensor::scalar_op::relu;
  return scales && a.ratio() > 0 ? std::optional{a} : std::nullopt;
}

UNITY_INLINE std::optional<scaled_value> apply(tensor::scalar_op op, const scaled_value& a, const scaled_value& b) {
  using traits = tensor::scalar_traits<double>;
  if (a.known && b.known) {
    return scaled_value{traits::apply(op, a.whole, b.whole), traits::apply(op, a.part, b.part), true};
  }
  switch (op) {
    case tensor::scalar_op::mul: return scaled_value{a.whole * b.whole, a.part * b.part, false};
    case tensor::scalar_op::div: return scaled_value{a.whole * b.part, a.part * b.whole, false};
    case tensor::scalar_op::add:
    case tensor::scalar_op::sub:
      return same_ratio(a, b) ? std::optional{scaled_value{a.ratio(), 1, false}} : std::nullopt;
    default: return a.ratio() == 1 && b.ratio() == 1 ? std::optional{scaled_value{}} : std::nullopt;
  }
}

UNITY_INLINE std::optional<scaled_value> run_scaled(const tensor::scalar_program& whole,
                                                    const tensor::scalar_program& part,
                                                    std::span<const scaled_value> operands,
                                                    const scaled_value& accumulated,
                                                    const std::optional<scaled_value>& count) {
  if (whole.size() != part.size()) {
    return std::nullopt;
  }
  small_vector<scaled_value, 8> stack;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    const auto& i = whole[k];
    std::optional<scaled_value> made = scaled_value{};
    if (i.op != part[k].op || i.number != part[k].number) {
      return std::nullopt;
    }
    if (tensor::is_binary(i.op)) {
      const auto right = stack.back();
      stack.pop_back();
      made = apply(i.op, stack.back(), right);
      stack.pop_back();
    } else if (!tensor::is_leaf(i.op)) {
      made = apply(i.op, stack.back());
      stack.pop_back();
    } else if (i.op == tensor::scalar_op::operand) {
      made = operands[static_cast<std::size_t>(i.number)];
    } else if (i.op == tensor::scalar_op::accumulated) {
      made = accumulated;
    } else if (i.op == tensor::scalar_op::count) {
      made = count;
    } else if (i.op == tensor::scalar_op::literal) {
      made = scaled_value{i.value, part[k].value, true};
    }
    if (!made) {
      return std::nullopt;
    }
    stack.push_back(*made);
  }
  return stack.empty() ? std::optional{scaled_value{}} : std::optional{stack.back()};
}

UNITY_INLINE std::optional<scaled_value> scaled_count(const tensor::space& whole, const tensor::space& part) {
  for (std::size_t w = 0; w < whole.windows().size(); ++w) {
    const auto inner = whole.windows()[w].inner;
    if (inner >= 0 && whole.size_of(inner) != part.size_of(part.windows()[w].inner)) {
      return std::nullopt;
    }
  }
  const tensor::point_counts all{whole};
  const tensor::point_counts some{part};
  if (const auto n = all.everywhere(), m = some.everywhere(); n && m) {
    return scaled_value{static_cast<double>(*n), static_cast<double>(*m), true};
  }
  return scaled_value{static_cast<double>(all.outside_of_windows()), static_cast<double>(some.outside_of_windows()),
                      false};
}

UNITY_INLINE std::optional<std::vector<scaled_value>> scaled_primitive(const tensor::algebra& a,
                                                                       const tensor::primitive& p,
                                                                       const part_of_operation& whole,
                                                                       const part_of_operation& part,
                                                                       std::span<const scaled_value> operands) {
  const auto s = a.iteration(whole.op, whole.inputs);
  const auto t = a.iteration(part.op, part.inputs);
  if (!s || !t) {
    return std::nullopt;
  }
  const auto k = p.kernel(a.read(whole.op), whole.inputs);
  const auto l = p.kernel(a.read(part.op), part.inputs);
  const auto count = scaled_count(*s, *t);
  auto accumulated = run_scaled(k.inner, l.inner, operands, {}, count);
  if (accumulated && accumulated->known && k.reduce == tensor::reduction::sum) {
    accumulated = count ? detail::apply(tensor::scalar_op::mul, *accumulated, *count) : std::nullopt;
  }
  const auto made = accumulated ? run_scaled(k.outer, l.outer, operands, *accumulated, count) : std::nullopt;
  return made ? std::optional{std::vector(whole.outputs.size(), *made)} : std::nullopt;
}

UNITY_INLINE part_of_operation node_of(const tensor::tensor_graph& g, node_id n) {
  part_of_operation node{g.operation(n), {}, {}};
  for (const auto v : g.operands(n)) {
    node.inputs.push_back(g.type(v));
  }
  for (const auto v : g.results(n)) {
    node.outputs.push_back(g.type(v));
  }
  return node;
}

UNITY_INLINE std::optional<std::vector<scaled_value>> scaled_body(const tensor::algebra& a,
                                                                  const tensor::tensor_graph& whole,
                                                                  const tensor::tensor_graph& part,
                                                                  std::span<const scaled_value> operands) {
  if (whole.node_count() != part.node_count()) {
    return std::nullopt;
  }
  std::vector<scaled_value> values(whole.value_count());
  std::size_t next = 0;
  for (const auto n : node_ids(whole)) {
    const auto results = whole.results(n);
    if (!whole.operation(n).kind.valid()) {
      values[results[0].index()] = operands[next++];
      continue;
    }
    std::vector<scaled_value> read;
    for (const auto v : whole.operands(n)) {
      read.push_back(values[v.index()]);
    }
    const auto made = whole.operation(n).kind == part.operation(n).kind
                          ? scaled_results(a, node_of(whole, n), node_of(part, n), read)
                          : std::nullopt;
    if (!made) {
      return std::nullopt;
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
      values[results[r].index()] = (*made)[r];
    }
  }
  std::vector<scaled_value> outputs;
  for (const auto v : whole.outputs()) {
    outputs.push_back(values[v.index()]);
  }
  return outputs;
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<std::vector<scaled_value>> scaled_results(const tensor::algebra& a,
                                                                     const part_of_operation& whole,
                                                                     const part_of_operation& part,
                                                                     std::span<const scaled_value> operands) {
  const auto& d = a.definition_of(whole.op.kind);
  if (const auto* p = std::get_if<tensor::primitive>(&d.body)) {
    return detail::scaled_primitive(a, *p, whole, part, operands);
  }
  const auto body = a.body(whole.op, whole.inputs);
  const auto other = body ? a.body(part.op, part.inputs) : std::nullopt;
  if (other) {
    return detail::scaled_body(a, *body, *other, operands);
  }
  for (std::size_t x = 1; x < operands.size(); ++x) {
    if (!detail::same_ratio(operands[0], operands[x])) {
      return std::nullopt;
    }
  }
  return std::vector(whole.outputs.size(), operands.empty() ? scaled_value{} : operands[0]);
}

}  // namespace unity::parallel

namespace unity::parallel::detail {

UNITY_INLINE std::optional<double> share_of_parts(const tensor::algebra& a, const part_of_operation& whole,
                                                  const part_of_operation& part) {
  const auto made = scaled_results(a, whole, part, std::vector<scaled_value>(whole.inputs.size()));
  for (std::size_t r = 1; made && r < made->size(); ++r) {
    if (!same_ratio((*made)[0], (*made)[r])) {
      return std::nullopt;
    }
  }
  return made ? std::optional{(*made)[0].ratio()} : std::nullopt;
}

UNITY_INLINE std::optional<std::int64_t> begin_of(const tensor::space& s, const shard& part, std::size_t index) {
  const auto within = [&](std::span<const tensor::access> accesses, const box& b) -> std::optional<std::int64_t> {
    for (std::size_t d = 0; d < accesses.size(); ++d) {
      if (accesses[d].size() == 1 && accesses[d][0] == index) {
        return b.begin[d];
      }
    }
    return std::nullopt;
  };
  for (std::size_t x = 0; x < s.operand_count(); ++x) {
    if (const auto begin = within(s.operand(x), part.operands[x])) {
      return begin;
    }
  }
  return within(s.result_accesses(0), part.results[0]);
}

UNITY_INLINE std::optional<std::vector<index_shift>> shifts_of(const tensor::scalar_kernel& k, const tensor::space& s,
                                                               const shard& part) {
  std::vector<index_shift> shifts;
  for (const auto* program : {&k.inner, &k.outer}) {
    const auto& p = *program;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i].op != tensor::scalar_op::coordinate) {
        continue;
      }
      const auto begin = begin_of(s, part, static_cast<std::size_t>(p[i].number));
      if (begin == 0) {
        continue;
      }
      const bool compares = i > 0 && i + 1 < p.size() && p[i - 1].op == tensor::scalar_op::operand &&
                            p[i + 1].op == tensor::scalar_op::equal;
      if (!begin || !compares) {
        return std::nullopt;
      }
      std::size_t uses = 0;
      for (const auto* all : {&k.inner, &k.outer}) {
        for (const auto& other : *all) {
          uses += other.op == tensor::scalar_op::operand && other.number == p[i - 1].number ? 1 : 0;
        }
      }
      if (uses != 1) {
        return std::nullopt;
      }
      shifts.push_back({static_cast<std::size_t>(p[i - 1].number), *begin});
    }
  }
  return shifts;
}

}  // namespace unity::parallel::detail

#endif
