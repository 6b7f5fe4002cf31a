// The sequence of substitutions that leads from a tensor graph to a parallel computation graph.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <unity/core/error.hpp>
#include <unity/core/id.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/parallel/dimensions.hpp>
#include <unity/parallel/operator_grid.hpp>
#include <unity/parallel/parallel_rules.hpp>
#include <unity/parallel/parallel_type.hpp>
#include <unity/parallel/pcg/chains.hpp>
#include <unity/parallel/pcg/pcg_algebra.hpp>
#include <unity/parallel/rules/rule_lookup.hpp>
#include <unity/parallel/rules/rule_terms.hpp>
#include <unity/parallel/rules/traced_graph.hpp>
#include <unity/rewrite/parse.hpp>
#include <unity/tensor/operation.hpp>

namespace unity::parallel {

// Rewrites a chain of parallelization operators to its canonical form, rule by rule.

// A rule of chain_rules applied at one position of a chain: one or two operators from `first` on are replaced by
// `made`.
struct chain_step {
  std::string rule;
  rule_values values{};
  bool reversed = false;  // a two-way rule is applied from right to left
  std::size_t first = 0;
  std::size_t count = 0;
  parallel_chain made{};
};

namespace detail {

// The quantity of a type that an operator changes: 0 partials, 1 copies, 2 + d dimension d.
[[nodiscard]] inline std::int64_t quantity_of(const parallel_operator& p) noexcept {
  return has_axis(p.kind) ? 2 + p.axis : p.kind == parallel_kind::reduce || p.kind == parallel_kind::inject ? 0 : 1;
}
[[nodiscard]] inline bool comes_before(const parallel_operator& p, const parallel_operator& q) {
  return std::pair{canonical_place(p.kind), p.axis} < std::pair{canonical_place(q.kind), q.axis};
}

[[nodiscard]] rule_values values_of(const parallel_operator& p, const char* dimension, const char* degree);

// Swaps the operators i and i + 1.
[[nodiscard]] chain_step swap_at(std::span<const parallel_operator> chain, std::size_t i);
// Splits operator i into two; the first of them gets that degree.
[[nodiscard]] chain_step divide_at(std::span<const parallel_operator> chain, std::size_t i, std::int64_t degree);

// The next step for adjacent operators that change the same quantity: fuses equal kinds; cancels inverses, after
// splitting them to a common degree; swaps inverses whose degrees have no common factor.
[[nodiscard]] chain_step merge_at(std::span<const parallel_operator> chain, std::size_t i);

// Whether two operators that change the same quantity can be rewritten: fused, cancelled or reordered.
[[nodiscard]] inline bool interact(const parallel_operator& first, const parallel_operator& last) {
  return first.kind == last.kind || comes_before(last, first) ||
         (inverse_kind(first.kind) == last.kind && std::gcd(first.degree, last.degree) > 1);
}

// A step that brings together, and then merges, the first pair of operators that `meet`, change the same quantity, and
// have no operator between them that changes it.
template <class Meet>
[[nodiscard]] std::optional<chain_step> step_between(std::span<const parallel_operator> chain, const Meet& meet) {
  for (std::size_t j = 1; j < chain.size(); ++j) {
    auto i = j;
    while (i > 0 && quantity_of(chain[i - 1]) != quantity_of(chain[j])) {
      --i;
    }
    if (i > 0 && meet(chain[i - 1], chain[j])) {
      return i == j ? merge_at(chain, i - 1) : swap_at(chain, j - 1);
    }
  }
  return std::nullopt;
}

}  // namespace detail

// The next step; nothing if the chain is canonical. Steps preserve the value and terminate: cancelling steps come
// first, so that what was split for cancelling is not fused again.
// Complexity: quadratic in the chain.
[[nodiscard]] std::optional<chain_step> next_chain_step(std::span<const parallel_operator> chain);

// One substitution: a rule of parallel.rules with degrees and dimensions.
struct substitution_step {
  std::string rule;  // without a rule, the division as in "relu over i"
  rule_values values{};
  bool reversed = false;  // the rule is applied from right to left
  node_id node{};         // of the tensor graph: the operator that is divided, or whose operand is; none: an output
  std::optional<grid_axis> axis{};  // the axis of the operator's grid that is created; none: a chain changes
  bool is_rule = true;              // false: no rule covers the division of the operator, only its types permit it

  friend bool operator==(const substitution_step&, const substitution_step&) = default;
};

// "matmul_over_k k=2", like the names of compiled rules (with_values, compile_rule).
[[nodiscard]] inline std::string to_string(const substitution_step& s) {
  return fmt::format("{}{}{}", name_with(s.rule, s.values), s.reversed ? ".reverse" : "",
                     s.is_rule ? "" : " (no rule)");
}

struct substitution_trace {
  std::vector<substitution_step> steps{};
  pcg graph{};  // after the last step
};

namespace detail {

template <class Watch>
class trace_writer {
 public:
  trace_writer(const pcg_algebra& a, const tensor::tensor_graph& g, std::span<const operator_grid> grids,
               const rule_lookup& rules, Watch& watch)
      : algebra_{a}, source_{g}, grids_{grids}, rules_{rules}, watch_{watch}, graph_{a, g} {}

  [[nodiscard]] substitution_trace run() && {
    for (const auto n : node_ids(source_)) {
      if (!source_.operands(n).empty()) {
        divide(n);
      }
    }
    for (const auto n : node_ids(source_)) {
      for (std::size_t x = 0; x < source_.operands(n).size(); ++x) {
        shorten(n, [&] { return graph_.operand(n, x); });
      }
    }
    for (std::size_t i = 0; i < source_.outputs().size(); ++i) {
      shorten(node_id{}, [&] { return graph_.output(i); });
    }
    return {std::move(steps_), graph_.finish()};
  }

 private:
  void note(substitution_step step) {
    watch_(std::as_const(step), std::as_const(graph_));
    steps_.push_back(std::move(step));
  }

  [[nodiscard]] static std::vector<grid_axis> axes_of(const operator_grid& g) {
    std::vector<grid_axis> all;
    const auto add = [&](grid_axis::kinds kind, const degree_list& degrees) {
      for (std::size_t i = 0; i < degrees.size(); ++i) {
        if (degrees[i] > 1) {
          all.push_back({kind, i, degrees[i]});
        }
      }
    };
    add(grid_axis::kinds::steps, g.steps);
    add(grid_axis::kinds::index, g.indices);
    add(grid_axis::kinds::partial, g.partials);
    if (g.copies > 1) {
      all.push_back({grid_axis::kinds::copies, 0, g.copies});
    }
    return all;
  }
  static void put(operator_grid& g, const grid_axis& axis) {
    switch (axis.kind) {
      case grid_axis::kinds::steps: g.steps[axis.number] = axis.degree; break;
      case grid_axis::kinds::index: g.indices[axis.number] = axis.degree; break;
      case grid_axis::kinds::partial: g.partials[axis.number] = axis.degree; break;
      case grid_axis::kinds::copies: g.copies = axis.degree; break;
    }
  }

  // Divides axis by axis; an axis inside of another comes after it.
  void divide(node_id n) {
    std::vector<parallel_type> global;
    for (const auto v : source_.operands(n)) {
      global.push_back(undivided(source_.type(v)));
    }
    const auto* o = algebra_.dimensions(source_.operation(n), global);
    const auto where = fmt::format("node {}", n.index());
    if (o == nullptr || !types_on(*o, grids_[n.index()])) {
      throw error{where, o == nullptr ? "operands that it does not take" : why_not(*o, grids_[n.index()]),
                  "a grid of the operator"};
    }
    auto done = undivided_grid(*o);
    auto left = axes_of(grids_[n.index()]);
    while (!left.empty()) {
      const auto next = std::find_if(left.begin(), left.end(), [&](const grid_axis& axis) {
        auto g = done;
        put(g, axis);
        return types_on(*o, g).has_value();
      });
      if (next == left.end()) {
        throw error{where, "a grid whose axes have no order", "axes that can be divided one after the other"};
      }
      graph_.divide(n, operators_along(*o, *next));
      put(done, *next);
      auto step = step_along(*o, *next, n);
      left.erase(next);
      note(std::move(step));
    }
  }
  [[nodiscard]] substitution_step step_along(const operator_dimensions& o, const grid_axis& axis, node_id n) const {
    if (auto rule = rules_.find(algebra_.operators(), o, axis)) {
      return {std::move(rule->name), std::move(rule->values), false, n, axis};
    }
    auto what = algebra_.operators().signature(o.op.kind).name;
    switch (axis.kind) {
      case grid_axis::kinds::steps:
        what += fmt::format(" in steps over {}", o.structure.indices[axis.number].name);
        break;
      case grid_axis::kinds::index: what += fmt::format(" over {}", o.structure.indices[axis.number].name); break;
      case grid_axis::kinds::partial: what += fmt::format(" of partials in group {}", axis.number); break;
      case grid_axis::kinds::copies: what += " repeated"; break;
    }
    return {std::move(what), {{"k", axis.degree}}, false, n, axis, false};
  }

  // Rewrites the chain in front of a value until it is canonical.
  template <class Value>
  void shorten(node_id n, const Value& value) {
    while (auto step = next_chain_step(graph_.chain_of(value()))) {
      graph_.replace(value(), step->first, step->count, step->made);
      note({std::move(step->rule), std::move(step->values), step->reversed, n, std::nullopt});
    }
  }

  const pcg_algebra& algebra_;
  const tensor::tensor_graph& source_;
  std::span<const operator_grid> grids_;
  const rule_lookup& rules_;
  Watch& watch_;
  traced_graph graph_;
  std::vector<substitution_step> steps_{};
};

}  // namespace detail

// The substitutions that lead from the plain graph to the canonical parallel computation graph in which each operator
// runs on its grid: per operator the rules that divide it along the axes of its grid, then the rules that cancel, fuse
// or swap neighbours in the chains between operators. grids: per node, as of spell_out; those of sources are not read.
// Substitutions preserve types from outside, so outputs are combined into one piece, while spell_out leaves them
// divided; otherwise the graphs are equal. A division without a rule is a step with is_rule = false. watch(step,
// graph): called after each step; graph.finish() is the resulting graph.
// Complexity: linear in graph and steps, plus a search of the operator's rules per axis.
// Throws: unity::error that names the node that has no such grid.
template <class Watch>
[[nodiscard]] substitution_trace trace_of(const pcg_algebra& a, const tensor::tensor_graph& g,
                                          std::span<const operator_grid> grids, const rule_lookup& rules,
                                          Watch&& watch) {
  return detail::trace_writer<std::remove_reference_t<Watch>>{a, g, grids, rules, watch}.run();
}
// Likewise, with the shipped rules.
[[nodiscard]] inline substitution_trace trace_of(const pcg_algebra& a, const tensor::tensor_graph& g,
                                                 std::span<const operator_grid> grids) {
  const rule_lookup rules{parse_rules(std::string{parallel_rules}, "parallel_rules")};
  return trace_of(a, g, grids, rules, [](const substitution_step&, const detail::traced_graph&) {});
}

}  // namespace unity::parallel

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_PARALLEL_RULES_SUBSTITUTION_TRACE)

namespace unity::parallel::detail {

UNITY_INLINE rule_values values_of(const parallel_operator& p, const char* dimension, const char* degree) {
  rule_values values{{degree, p.degree}};
  if (has_axis(p.kind)) {
    values[dimension] = p.axis;
  }
  return values;
}

UNITY_INLINE chain_step swap_at(std::span<const parallel_operator> chain, std::size_t i) {
  const auto& first = chain[i];
  const auto& last = chain[i + 1];
  const bool forward = comes_before(last, first);
  const auto& outer = forward ? last : first;
  const auto& inner = forward ? first : last;
  auto values = values_of(outer, "d", "k");
  values.merge(values_of(inner, "e", "j"));
  return {swapping_rule(outer.kind, inner.kind), std::move(values), !forward, i, 2, {last, first}};
}

UNITY_INLINE chain_step divide_at(std::span<const parallel_operator> chain, std::size_t i, std::int64_t degree) {
  auto first = chain[i];
  auto last = chain[i];
  first.degree = degree;
  last.degree /= degree;
  auto values = values_of(last, "d", "k");
  values["j"] = degree;
  return {fusing_rule(first.kind), std::move(values), true, i, 1, {first, last}};
}

UNITY_INLINE chain_step merge_at(std::span<const parallel_operator> chain, std::size_t i) {
  const auto& first = chain[i];
  const auto& last = chain[i + 1];
  if (first.kind == last.kind) {
    auto values = values_of(last, "d", "k");
    values["j"] = first.degree;
    return {fusing_rule(first.kind),
            std::move(values),
            false,
            i,
            2,
            {{first.kind, first.axis, first.degree * last.degree}}};
  }
  const auto common = std::gcd(first.degree, last.degree);
  if (common == 1) {
    return swap_at(chain, i);
  }
  if (last.degree > common) {
    return divide_at(chain, i + 1, common);
  }
  if (first.degree > common) {
    return divide_at(chain, i, first.degree / common);
  }
  return {cancelling_rule(last.kind), values_of(last, "d", "k"), false, i, 2, {}};
}

}  // namespace unity::parallel::detail

namespace unity::parallel {

UNITY_INLINE std::optional<chain_step> next_chain_step(std::span<const parallel_operator> chain) {
  const auto cancel = [](const parallel_operator& first, const parallel_operator& last) {
    return inverse_kind(first.kind) == last.kind && first.degree == last.degree;
  };
  if (auto step = detail::step_between(chain, cancel)) {
    return step;
  }
  if (auto step = detail::step_between(chain, detail::interact)) {
    return step;
  }
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    if (detail::comes_before(chain[i + 1], chain[i])) {
      return detail::swap_at(chain, i);
    }
  }
  return std::nullopt;
}

}  // namespace unity::parallel

#endif
