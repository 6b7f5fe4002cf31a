// Compares two graphs at random points, and tells how strong such a test is.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <range/v3/view/zip.hpp>

#include <unity/core/hash.hpp>
#include <unity/core/id.hpp>
#include <unity/core/small_vector.hpp>
#include <unity/graph/compact_graph.hpp>
#include <unity/graph/concepts.hpp>
#include <unity/rewrite/syntax.hpp>
#include <unity/tensor/algebra.hpp>
#include <unity/tensor/definition.hpp>
#include <unity/tensor/evaluate.hpp>
#include <unity/tensor/kernel.hpp>
#include <unity/tensor/operation.hpp>
#include <unity/tensor/scalar.hpp>
#include <unity/tensor/shape.hpp>
#include <unity/tensor/work.hpp>

namespace unity::tensor {

// The strength of a test at random points of a field: degrees of what a graph computes, as polynomials in its sources.

// Bounds on the degrees of numerator and denominator.
struct degree {
  std::int64_t numerator = 0;
  std::int64_t denominator = 0;

  [[nodiscard]] std::int64_t sum() const noexcept { return saturating_add(numerator, denominator); }
  friend bool operator==(const degree&, const degree&) = default;
};

namespace detail {

[[nodiscard]] inline degree added(const degree& a, const degree& b) {
  return {std::max(saturating_add(a.numerator, b.denominator), saturating_add(b.numerator, a.denominator)),
          saturating_add(a.denominator, b.denominator)};
}

[[nodiscard]] degree applied(scalar_op op, const degree& a, const degree& b);

[[nodiscard]] degree degree_of(const scalar_program& p, std::span<const degree> operands, const degree& reduced);

// For a reduction over `terms` points.
[[nodiscard]] degree reduced_degree(const degree& inner, reduction kind, std::int64_t terms);

[[nodiscard]] std::vector<degree> degrees(const algebra& a, const tensor_graph& g, std::span<const degree> given);

[[nodiscard]] std::vector<degree> degrees_of(const algebra& a, const operation& op, std::span<const tensor_type> types,
                                             std::span<const degree> operands);

}  // namespace detail

// Each output of `g` is a quotient of polynomials in the elements of its sources; returns bounds on their degrees.
// Results that are not polynomials (relu, exp, a maximum) count as new unknowns.
[[nodiscard]] inline std::vector<degree> degree_bounds(const algebra& a, const tensor_graph& g) {
  return detail::degrees(a, g, {});
}

struct rule_test_options {
  std::size_t instances = 50;       // instances in which the target fits
  std::size_t attempts = 200000;    // per instance
  std::size_t varied = 3;           // instances whose variations are all tested as well
  std::size_t collapsed = 0;        // instances for which those that broadcast more are tested as well
  std::size_t sampled = 25;         // of any ranks up to 4 with sizes up to 2, and as many with sizes up to 4
  std::size_t points = 4;           // per kind of scalar; more if there are few elements
  double tolerance = 0x1p-30;       // relative to the largest element
  double real_tolerance = 0x1p-23;  // for rules for reals, which may contain constants in float32 precision
  bool chained = false;             // often reuses shapes of operands and results: for rules that few shapes fit
  std::uint64_t seed = 1;
};

namespace detail {

// Whether all values of the graph have at most `most` elements together.
[[nodiscard]] bool has_at_most(std::int64_t most, const tensor_graph& g);
// A limit for both sides of an instance: sizes that a rule itself names may exceed it.
inline constexpr std::int64_t most_compared_elements = std::int64_t{1} << 22U;
[[nodiscard]] inline bool are_small(const tensor_graph& a, const tensor_graph& b) {
  return has_at_most(most_compared_elements, a) && has_at_most(most_compared_elements, b);
}

// The values of the variables of an instance at one random point.
template <class Scalar>
class random_point {
 public:
  random_point(const algebra& a, std::uint64_t seed, bool positive) : algebra_{a}, seed_{seed}, positive_{positive} {}

  std::optional<dense<Scalar>> operator()(const operation& op, const tensor_type& type) const {
    if (algebra_.definition_of(op.kind).source == source_kind::none) {
      return std::nullopt;
    }
    dense<Scalar> values{type.dims};
    const auto stream = hash_combine(seed_, hash_bytes(algebra_.read(op).word("name")));
    for (std::size_t i = 0; i < values.data.size(); ++i) {
      const auto bits = hash_combine(stream, i);
      values.data[i] = is_floating(type.element) ? value(bits) : static_cast<Scalar>(integer(type.element, bits));
    }
    return values;
  }

 private:
  // Numbers of 8 bits are values and may be any but 0, by which some operators divide; others may index rows.
  [[nodiscard]] static std::int64_t integer(dtype element, std::uint64_t bits) {
    if (element == dtype::int8) {
      const auto any = static_cast<std::int8_t>(bits);
      return any == 0 ? 1 : any;
    }
    if (element == dtype::boolean) {
      return static_cast<std::int64_t>(bits % 2);
    }
    return static_cast<std::int64_t>(element == dtype::uint8 ? 1 + bits % 255 : bits % 4);
  }
  // Reals in [-2, 2), or in [1/4, 9/4) if roots and logarithms must exist.
  [[nodiscard]] Scalar value(std::uint64_t bits) const {
    if constexpr (std::floating_point<Scalar>) {
      const auto unit = static_cast<double>(bits >> 11U) * 0x1p-53;
      return static_cast<Scalar>(positive_ ? 2 * unit + 0.25 : 4 * unit - 2);
    } else {
      return Scalar::of_residue(bits);
    }
  }

  const algebra& algebra_;
  std::uint64_t seed_;
  bool positive_;
};

// Compares two graphs with equal output types at random points.
class side_comparison {
 public:
  side_comparison(const algebra& a, const rule_test_options& o, const tensor_graph& source, const tensor_graph& target)
      : algebra_{a}, options_{o}, source_{source}, target_{target} {}

  // Where they differ; nothing if they do not.
  std::optional<std::string> run(bool real_only, std::uint64_t seed);
  // The same at one point of reals.
  std::optional<std::string> run_once(bool real_only, std::uint64_t seed) {
    tolerance_ = real_only ? options_.real_tolerance : options_.tolerance;
    return compare<double>(seed, seed % 2 == 1);
  }
  // The same for sides that compute with integers of 8 bits, which wrap around.
  std::optional<std::string> run_on_integers(bool real_only, std::uint64_t seed) {
    tolerance_ = real_only ? options_.real_tolerance : options_.tolerance;
    return compare<double>(seed, false);
  }
  [[nodiscard]] std::size_t defined() const noexcept { return defined_; }
  [[nodiscard]] int bits(bool real_only) const;

 private:
  template <class Scalar>
  std::optional<std::string> compare(std::uint64_t seed, bool positive) {
    const random_point<Scalar> point{algebra_, seed, positive};
    const auto x = evaluate<Scalar>(algebra_, source_, point);
    const auto y = evaluate<Scalar>(algebra_, target_, point);
    for (std::size_t o = 0; o < x.size(); ++o) {
      const auto at = difference(x[o].data, y[o].data);
      if (at) {
        return fmt::format("{}element {}: {} and {}", x.size() > 1 ? fmt::format("output {} ", o) : "", *at,
                           text(x[o].data[*at]), text(y[o].data[*at]));
      }
    }
    return std::nullopt;
  }
  // Where the source is undefined (the root of a negative number), the target may have any value.
  std::optional<std::size_t> difference(std::span<const double> x, std::span<const double> y);
  std::optional<std::size_t> difference(std::span<const modular61> x, std::span<const modular61> y) {
    const auto place = std::mismatch(x.begin(), x.end(), y.begin()).first;
    return place == x.end() ? std::nullopt : std::optional{static_cast<std::size_t>(place - x.begin())};
  }
  static std::string text(double v) { return unity::real_text(v); }
  static std::string text(modular61 v) { return fmt::format("{} modulo 2^61 - 1", v.residue()); }

  const algebra& algebra_;
  const rule_test_options& options_;
  const tensor_graph& source_;
  const tensor_graph& target_;
  std::size_t points_ = 0;
  std::size_t defined_ = 0;
  double tolerance_ = 0;
};

}  // namespace detail

}  // namespace unity::tensor

#if !defined(UNITY_COMPILED) || defined(UNITY_DEFINE_TENSOR_RULES_COMPARISON)

#include <cmath>

#include <unity/tensor/algebra_inference.hpp>
#include <unity/tensor/space.hpp>

namespace unity::tensor::detail {

UNITY_INLINE degree applied(scalar_op op, const degree& a, const degree& b) {
  switch (op) {
    case scalar_op::negate: return a;
    case scalar_op::reciprocal: return {a.denominator, a.numerator};
    case scalar_op::add:
    case scalar_op::sub: return added(a, b);
    case scalar_op::mul:
      return {saturating_add(a.numerator, b.numerator), saturating_add(a.denominator, b.denominator)};
    case scalar_op::div:
      return {saturating_add(a.numerator, b.denominator), saturating_add(a.denominator, b.numerator)};
    // All other functions count as a new unknown and as an equality test of their arguments.
    default: return {saturating_add(1, saturating_add(a.sum(), b.sum())), 0};
  }
}

UNITY_INLINE degree degree_of(const scalar_program& p, std::span<const degree> operands, const degree& reduced) {
  std::vector<degree> stack;
  for (const auto& i : p) {
    if (is_leaf(i.op)) {
      const bool is_operand = i.op == scalar_op::operand;
      stack.push_back(is_operand                       ? operands[static_cast<std::size_t>(i.number)]
                      : i.op == scalar_op::accumulated ? reduced
                                                       : degree{});
      continue;
    }
    const auto b = is_binary(i.op) ? stack.back() : degree{};
    if (is_binary(i.op)) {
      stack.pop_back();
    }
    stack.back() = applied(i.op, stack.back(), b);
  }
  return stack.empty() ? degree{} : stack.back();
}

UNITY_INLINE degree reduced_degree(const degree& inner, reduction kind, std::int64_t terms) {
  if (kind == reduction::largest) {
    return {saturating_add(1, saturating_multiply(terms, inner.sum())), 0};
  }
  return {saturating_add(inner.numerator, saturating_multiply(terms - 1, inner.denominator)),
          saturating_multiply(terms, inner.denominator)};
}

UNITY_INLINE std::vector<degree> degrees_of(const algebra& a, const operation& op, std::span<const tensor_type> types,
                                            std::span<const degree> operands) {
  if (const auto s = a.iteration(op, types)) {
    const auto& d = a.definition_of(op.kind);
    if (d.source != source_kind::none) {
      return {degree{1, 0}};
    }
    const auto kernel = std::get<primitive>(d.body).kernel(a.read(op), types);
    std::int64_t points = 1;
    for (const auto& i : s->indices()) {
      points = saturating_multiply(points, i.size);
    }
    const auto terms = std::max<std::int64_t>(1, points / element_count(s->results()[0].dims));
    const auto inner = reduced_degree(degree_of(kernel.inner, operands, {}), kernel.reduce, terms);
    return {degree_of(kernel.outer, operands, inner)};
  }
  if (const auto body = a.body(op, types)) {
    return degrees(a, *body, operands);
  }
  degree most;
  for (const auto& o : operands) {
    most = {std::max(most.numerator, o.numerator), std::max(most.denominator, o.denominator)};
  }
  return std::vector(a.infer(op, types).value_or(std::vector<tensor_type>{}).size(), most);
}

// The first nodes, without kind, have the given degrees.
UNITY_INLINE std::vector<degree> degrees(const algebra& a, const tensor_graph& g, std::span<const degree> given) {
  std::vector<degree> of(g.value_count());
  for (const auto n : node_ids(g)) {
    if (!g.operation(n).kind.valid()) {
      of[g.results(n)[0].index()] = given[n.index()];
      continue;
    }
    std::vector<tensor_type> types;
    std::vector<degree> operands;
    for (const auto v : g.operands(n)) {
      types.push_back(g.type(v));
      operands.push_back(of[v.index()]);
    }
    const auto results = degrees_of(a, g.operation(n), types, operands);
    for (const auto& [v, degree] : ranges::views::zip(g.results(n), results)) {
      of[v.index()] = degree;
    }
  }
  std::vector<degree> outputs;
  for (const auto v : g.outputs()) {
    outputs.push_back(of[v.index()]);
  }
  return outputs;
}

UNITY_INLINE bool has_at_most(std::int64_t most, const tensor_graph& g) {
  std::int64_t all = 0;
  for (std::size_t v = 0; v < g.value_count() && all <= most; ++v) {
    all = saturating_add(all, element_count(g.type(value_id{v}).dims));
  }
  return all <= most;
}

UNITY_INLINE std::optional<std::string> side_comparison::run(bool real_only, std::uint64_t seed) {
  std::size_t elements = 0;
  for (const auto v : source_.outputs()) {
    elements += static_cast<std::size_t>(element_count(source_.type(v).dims));
  }
  points_ = std::max(options_.points, std::min<std::size_t>(32, 64 / std::max<std::size_t>(1, elements)));
  tolerance_ = real_only ? options_.real_tolerance : options_.tolerance;
  for (std::size_t k = 0; k < points_; ++k) {
    auto difference = compare<double>(hash_combine(seed, k), k % 2 == 1);
    if (!difference && !real_only) {
      difference = compare<modular61>(hash_combine(seed, k), false);
    }
    if (difference) {
      return difference;
    }
  }
  return std::nullopt;
}

UNITY_INLINE int side_comparison::bits(bool real_only) const {
  const auto points = static_cast<int>(points_);
  if (real_only) {
    return 23 * points;
  }
  std::int64_t most = 1;
  const auto a = degree_bounds(algebra_, source_);
  const auto b = degree_bounds(algebra_, target_);
  for (const auto& [left, right] : ranges::views::zip(a, b)) {
    most = std::max(most, saturating_add(left.sum(), right.sum()));
  }
  return points * std::max(0, static_cast<int>(std::floor(61 - std::log2(static_cast<double>(most)))));
}

UNITY_INLINE std::optional<std::size_t> side_comparison::difference(std::span<const double> x,
                                                                    std::span<const double> y) {
  double largest = 1;
  for (const auto v : x) {
    largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i])) {
      ++defined_;
      if (!(std::abs(x[i] - y[i]) <= tolerance_ * largest)) {
        return i;
      }
    }
  }
  return std::nullopt;
}

}  // namespace unity::tensor::detail

#endif
